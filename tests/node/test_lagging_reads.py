"""Rows read through a node that has not heard of them yet; another one has planned the read."""

from __future__ import annotations

from tests.node.pair import Pair
from warren.log.batch import Header
from warren.log.reading import walk
from warren.wire.amqp091 import spec

QUEUE = "orders"


def numbers(data: bytes) -> list[int]:
    """Of the messages in an answer to `table.read`."""
    header = Header()
    found: list[int] = []
    at = walk(data, 0, 0, header, "read") if data else -1
    while at >= 0:
        found += range(int(header.first), int(header.first + header.count))
        at = walk(data, 0, at + int(header.size), header, "read")
    return found


def test_rows_that_a_node_has_not_heard_of_are_waited_for() -> None:
    """To answer none would have a job take them for gone."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    publisher = a.client()
    publisher.declare(QUEUE, kind="quorum")
    publisher.call(spec.ConfirmSelect(False))
    pair.until(lambda: b.knows(QUEUE))
    reader = b.client()
    publisher.publish(QUEUE, b"0")
    pair.until(lambda: b.queue(QUEUE).ready_count() == 1)
    pair.deaf |= {("a", "b"), ("c", "b")}
    for body in (b"1", b"2"):
        publisher.publish(QUEUE, body)
    pair.until(lambda: len(publisher.acked) == 3)
    reader.send(spec.TableRead(0, QUEUE, 0, 2, 1_000_000))
    pair.settle()
    assert not reader.methods and not reader.rows
    pair.deaf.clear()
    pair.until(lambda: len(reader.rows) == 1)
    assert numbers(reader.rows[0]) == [0, 1, 2]
    # What is here already is read at once, and what never was ends the answer.
    pair.deaf |= {("a", "b"), ("c", "b")}
    reader.send(spec.TableRead(0, QUEUE, 1, 2, 1_000_000))
    pair.until(lambda: len(reader.rows) == 2)
    pair.deaf.clear()
    reader.send(spec.TableRead(0, QUEUE, 1, 1 << 40, 1_000_000))
    pair.until(lambda: len(reader.rows) == 3)
    assert [numbers(data) for data in reader.rows[1:]] == [[1, 2], [1, 2]]
