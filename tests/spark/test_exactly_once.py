"""Rows that are staged and published once, against a real broker, without a JVM."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from tests.spark.conftest import environment
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.client import PERSISTENT, Connection, connect
from warren.client.table import Batches
from warren.errors import ConfigError
from warren.spark import broker as spark_broker
from warren.spark import finalising, staging
from warren.spark.broker import Unconfirmed
from warren.spark.finalising import finalise, forget
from warren.spark.options import UNBOUNDED, WriteOptions, write_options
from warren.spark.outgoing import Outgoing
from warren.spark.staging import QueueMark, RowChunk, Staged, decode_chunk, encode_chunk, stage_rows

QUORUM = {"x-queue-type": "quorum"}
WAIT_SECONDS_MAX = patient(60.0)


@pytest.fixture
def target(queue: str) -> str:
    """A fresh quorum queue in the shared broker."""
    return queue


@pytest.fixture
def sink(broker: Broker) -> Iterator[str]:
    """A sink's name; what it has at the broker goes with it."""
    name = uuid.uuid4().hex
    yield name
    forget(name, given(broker), spark_broker.connect)


def given(broker: Broker, **options: str) -> WriteOptions:
    named = {"amqp.uri": broker.url, "delivery": "exactly-once", "retryTimeout": "30s"}
    return write_options(named | options)


def stage(options: WriteOptions, sink: str, batch: int, rows: list[dict[str, object]]) -> Staged:
    arrow = pa.RecordBatch.from_pylist(rows)
    connect = spark_broker.connect
    return stage_rows(iter([arrow]), options, f"{sink}:{batch}:0", sink, batch, True, connect)


def values(first: int, last: int) -> list[dict[str, object]]:
    return [{"value": b"%d" % number} for number in range(first, last)]


def decide(attempts: list[Staged], sink: str, batch: int, options: WriteOptions) -> None:
    finalise(attempts, sink, batch, True, options, spark_broker.connect)


def bodies(connection: Connection, queue: str) -> list[bytes]:
    """Take all that is in a queue."""
    channel = connection.channel()
    expected = count(connection, queue)
    tag = channel.consume(queue, no_ack=True)
    got: list[bytes] = []
    while len(got) < expected:
        deliveries = channel.receive(10_000, WAIT_SECONDS_MAX)
        assert deliveries, f"{len(got)} of {expected}"
        got += [delivery.body for delivery in deliveries]
    channel.cancel(tag)
    got += [delivery.body for delivery in channel.receive(10_000, 0.0)]
    return got


def count(connection: Connection, queue: str) -> int:
    channel = connection.channel()
    messages = channel.queue_declare(queue, passive=True).messages
    channel.close()
    return messages


def test_the_rows_of_one_attempt_of_each_task_are_published_once(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    options = given(broker, topic=target)
    failed = stage(options, sink, 0, values(0, 1_500))
    first = stage(options, sink, 0, values(0, 2_500))
    second = stage(options, sink, 0, values(2_500, 2_600))
    speculated = stage(options, sink, 0, values(2_500, 2_600))
    assert (failed.chunks, first.chunks, second.chunks) == (2, 3, 1)
    assert count(connection, target) == 0
    decide([first, second], sink, 0, options)
    assert sorted(bodies(connection, target), key=int) == [b"%d" % n for n in range(2_600)]
    assert count(connection, staging.stage_queue(sink)) == 0, "nothing is left of the others"
    del speculated

    # The batch is run again, as after a checkpoint was copied back: whatever it writes.
    again = stage(options, sink, 0, values(0, 2_600))
    decide([again], sink, 0, options)
    assert bodies(connection, target) == []
    assert count(connection, staging.stage_queue(sink)) == 0
    following = stage(options, sink, 1, values(5, 6))
    decide([following], sink, 1, options)
    assert bodies(connection, target) == [b"5"]
    decide([stage(options, sink, 0, values(0, 9))], sink, 0, options)
    assert bodies(connection, target) == []
    assert count(connection, finalising.ledger_queue(sink)) <= finalising._KEPT


def test_targets_that_cannot_be_read_are_no_hindrance(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    """A classic queue and one that is not there have no mark in the chunk, and the rest goes on."""
    channel = connection.channel()
    classic, absent = f"classic-{target}", f"absent-{target}"
    channel.queue_declare(classic, durable=True)
    options = given(broker, mandatory="false")
    topics = (classic, absent, target)
    rows: list[dict[str, object]] = [{"value": b"v", "topic": topic} for topic in topics]
    decide([stage(options, sink, 0, rows)], sink, 0, options)
    assert bodies(connection, classic) == bodies(connection, target) == [b"v"]
    channel.queue_delete(classic)


def test_rows_have_exchanges_keys_headers_and_properties_of_their_own(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    channel = connection.channel()
    exchange = f"exchange-{target}"
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(target, exchange, "k")
    options = given(broker)
    rows: list[dict[str, object]] = [
        {"value": b"a", "exchange": exchange, "key": "k", "topic": None, "priority": 3,
         "headers": [{"key": "h", "value": b"v"}], "message_id": "mine"},
        {"value": b"b", "exchange": None, "key": None, "topic": target, "priority": None,
         "headers": None, "message_id": None},
    ]  # fmt: skip
    decide([stage(options, sink, 7, rows)], sink, 7, options)
    from warren.wire.amqp091.properties import decode_properties

    first, second = channel.get(target, no_ack=True), channel.get(target, no_ack=True)
    assert first is not None and second is not None
    assert (first.exchange, first.routing_key, first.body) == (exchange, "k", b"a")
    properties = decode_properties(first.properties, 0, len(first.properties))
    assert (properties.headers, properties.priority) == ({"h": "v"}, 3)
    assert (properties.message_id, properties.delivery_mode) == ("mine", 2)
    assert (second.exchange, second.routing_key, second.body) == ("", target, b"b")
    properties = decode_properties(second.properties, 0, len(second.properties))
    assert properties.message_id == f"{sink}:7:0:1"
    channel.exchange_delete(exchange)


KILLED = """
import pickle, sys
from warren.spark.broker import connect
from warren.spark.finalising import finalise
attempts, sink, options = pickle.loads(sys.stdin.buffer.read())
finalise(attempts, sink, 0, True, options, connect)
"""


def test_a_driver_killed_while_rows_are_moved_neither_loses_nor_doubles_one(
    broker: Broker, connection: Connection, target: str, sink: str, tmp_path: Path
) -> None:
    """It is killed again and again, each time further on; a batch is staged anew each time."""
    options = given(broker, topic=target)
    rows = 30_000
    attempts = [stage(options, sink, 0, values(0, rows))]
    kills = 0
    for part in range(1, 6):
        before = count(connection, target)
        driver = subprocess.Popen(
            [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, env=environment()
        )
        try:
            assert driver.stdin is not None
            driver.stdin.write(pickle.dumps((attempts, sink, options)))
            driver.stdin.close()
            end = time.monotonic() + WAIT_SECONDS_MAX
            while count(connection, target) < min(rows, before + 700 * part):
                assert time.monotonic() < end and driver.poll() in (None, 0)
                time.sleep(0.001)
            kills += driver.poll() is None
        finally:
            driver.kill()
            driver.wait()
        attempts = [stage(options, sink, 0, values(0, 10))]
    assert kills > 2
    decide(attempts, sink, 0, options)
    assert sorted(bodies(connection, target), key=int) == [b"%d" % n for n in range(rows)]
    assert count(connection, staging.stage_queue(sink)) == 0


def leave_half_done(
    broker: Broker, connection: Connection, sink: str, meanwhile: Callable[[], None]
) -> None:
    """As a node's death may: rows of three chunks are in their queue, whole or in part, but none of
    the chunks is acked, and all come back."""
    with connect(broker.url) as dying:
        channel = dying.channel()
        channel.consume(staging.stage_queue(sink))
        chunks: list[RowChunk] = []
        while len(chunks) < 3:
            deliveries = channel.receive(1, WAIT_SECONDS_MAX)
            assert deliveries
            chunks += [decode_chunk(delivery.body) for delivery in deliveries]
        meanwhile()
        publisher = connection.channel()
        publisher.confirm_select()
        for row in [*chunks[0].rows, *chunks[1].rows[:300]]:
            publisher.publish("", row.key, row.body, row.properties)
        assert publisher.wait_for_confirms() == []


def watched(reads: list[int]) -> spark_broker.Connect:
    """Connects, and notes from which messages on queues are read."""

    class Watched:
        def __init__(self, tables: spark_broker.TableCalls) -> None:
            self._tables = tables

        def __getattr__(self, name: str) -> object:
            return getattr(self._tables, name)

        def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
            if not queue.startswith("warren.sink.") and first < UNBOUNDED - 1:
                reads.append(first)
            return self._tables.read(queue, first, last, bytes_max)

    def connected(uri: str) -> spark_broker.Session:
        session = spark_broker.connect(uri)
        return session._replace(tables=cast(spark_broker.TableCalls, Watched(session.tables)))

    return connected


@pytest.mark.parametrize("consumed", [False, True])
def test_rows_of_a_transaction_that_a_node_left_half_done_are_not_doubled(
    broker: Broker, connection: Connection, target: str, sink: str, consumed: bool
) -> None:
    """And what was in their queue before is not looked at, however much it is."""
    options = given(broker, topic=target)
    connection.channel().publish_many("", target, [b"-1"] * 700, PERSISTENT)
    one = stage(options, sink, 0, values(0, 2_500))
    leave_half_done(broker, connection, sink, lambda: None)
    got = bodies(connection, target) if consumed else []
    reads: list[int] = []
    finalise([one], sink, 0, True, options, watched(reads))
    got += bodies(connection, target)
    assert sorted(got, key=int) == [b"-1"] * 700 + [b"%d" % n for n in range(2_500)]
    assert count(connection, staging.stage_queue(sink)) == 0
    assert reads and min(reads) == 700


def test_a_target_that_was_made_anew_meanwhile_is_looked_at_from_its_beginning(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    options = given(broker, topic=target)
    connection.channel().publish_many("", target, [b"-1"] * 500, PERSISTENT)
    one = stage(options, sink, 0, values(0, 2_500))

    def made_anew() -> None:
        connection.channel().queue_delete(target)
        connection.channel().queue_declare(target, durable=True, arguments=QUORUM)

    leave_half_done(broker, connection, sink, made_anew)
    decide([one], sink, 0, options)
    assert sorted(bodies(connection, target), key=int) == [b"%d" % n for n in range(2_500)]


def test_of_drivers_that_decide_at_the_same_time_one_counts(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    """The others move what it decided, or fail as that was moved for them."""
    options = given(broker, topic=target, retryTimeout="1s")
    for batch in range(4):
        tries = [stage(options, sink, batch, values(0, 1_200)) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(decide, [one], sink, batch, options) for one in tries]:
                error = done.exception()
                assert error is None or "took them" in str(error)
        assert sorted(bodies(connection, target), key=int) == [b"%d" % n for n in range(1_200)]


@pytest.mark.parametrize("asks", [0, 1])
def test_of_two_decisions_with_one_number_the_first_counts(
    broker: Broker, connection: Connection, target: str, sink: str, asks: int
) -> None:
    """Whichever of the two drivers goes on, and for the batches that follow, too."""
    options = given(broker, topic=target)
    tries = [stage(options, sink, 0, values(first, first + 3)) for first in (0, 10)]
    ledger = finalising.ledger_queue(sink)
    channel = connection.channel()
    kept = {"x-queue-type": "quorum", "x-delivery-limit": -1, "x-max-length": finalising._KEPT}
    channel.queue_declare(ledger, durable=True, arguments=kept)
    decisions = [finalising.Decision(1, 0, [[one.attempt]]) for one in tries]
    bodies_of_both = [decision.encode() for decision in decisions]
    assert channel.publish_many("", ledger, bodies_of_both, PERSISTENT) == []
    decide([tries[asks]], sink, 0, options)
    assert sorted(bodies(connection, target)) == [b"0", b"1", b"2"]
    assert count(connection, staging.stage_queue(sink)) == 0
    late = stage(options, sink, 1, values(20, 21))
    decide([late], sink, 1, options)
    assert bodies(connection, target) == [b"20"]
    newest = finalising.decode_decision(bodies(connection, ledger)[-1])
    assert newest == finalising.Decision(2, 1, [[late.attempt], [tries[0].attempt]])


def test_a_driver_that_is_behind_leaves_the_rows_of_later_batches(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    options = given(broker, topic=target)
    old = stage(options, sink, 3, values(0, 5))
    decide([old], sink, 3, options)
    later = stage(options, sink, 4, values(5, 9))
    decide([old], sink, 3, options)
    end = time.monotonic() + WAIT_SECONDS_MAX
    while count(connection, staging.stage_queue(sink)) != 1:
        assert time.monotonic() < end, "what the driver held returns"
        time.sleep(0.01)
    decide([later], sink, 4, options)
    assert sorted(bodies(connection, target), key=int) == [b"%d" % n for n in range(9)]


def test_rows_that_reach_no_queue_are_kept_until_there_is_one(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    options = given(broker, topic=f"{target}-later")
    with pytest.raises(Unconfirmed, match="there is no queue '.*-later'"):
        stage(options, sink, 0, values(0, 3))
    channel = connection.channel()
    exchange = f"exchange-{target}"
    channel.exchange_declare(exchange, "direct")
    channel.queue_bind(target, exchange, "now")
    options = given(broker, exchange=exchange)
    rows = [{"value": b"%d" % n, "key": "now" if n % 2 else "then"} for n in range(10)]
    attempts = [stage(options, sink, 0, rows)]
    with pytest.raises(Unconfirmed, match="5 messages reached no queue.*key 'then'"):
        decide(attempts, sink, 0, options)
    assert len(bodies(connection, target)) == 5
    channel.queue_bind(target, exchange, "then")
    decide([stage(options, sink, 0, rows)], sink, 0, options)
    assert sorted(bodies(connection, target)) == [b"0", b"2", b"4", b"6", b"8"]
    channel.exchange_delete(exchange)


def test_rows_that_reach_no_queue_are_not_called_staged_when_that_queue_is_deleted(
    broker: Broker,
    connection: Connection,
    target: str,
    sink: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = given(broker, exchange="amq.direct")
    attempt = stage(options, sink, 0, [{"value": b"0", "key": f"nobody-{target}"}])
    encode = finalising.encode_chunk

    def delete_meanwhile(chunk: staging.RowChunk) -> bytes:
        connection.channel().queue_delete(staging.stage_queue(sink))
        return encode(chunk)

    monkeypatch.setattr(finalising, "encode_chunk", delete_meanwhile)
    with pytest.raises(Unconfirmed, match="1 messages reached no queue.*They are lost: .*deleted"):
        decide([attempt], sink, 0, options)


def test_a_row_that_names_another_user_fails_its_task_before_anything_is_decided(
    broker: Broker, connection: Connection, target: str, sink: str
) -> None:
    """Once it were, no later batch of the sink would get past it."""
    options = given(broker, topic=target)
    rows = [{"value": b"0", "user_id": user} for user in ("guest", "alice")]
    with pytest.raises(Unconfirmed, match="names user 'alice' in 'user_id', and user 'guest' may"):
        stage(options, sink, 0, rows)
    decide([stage(options, sink, 0, rows[:1])], sink, 0, options)
    assert bodies(connection, target) == [b"0"]


def test_chunks_are_what_was_staged_and_nothing_else_is_one() -> None:
    rows = [Outgoing("e", "k", b"\0\0", b"body"), Outgoing("", "", b"", b"")]
    marks = {"k": QueueMark(7, 1 << 40), "": QueueMark(8, 0)}
    chunk = RowChunk(b"a" * 16, 5, 2, rows, marks)
    body = encode_chunk(chunk)
    assert decode_chunk(body) == chunk
    assert decode_chunk(encode_chunk(chunk._replace(rows=[], marks={}))).marks == {}
    for cut in range(1, len(body) - len(encode_chunk(chunk._replace(rows=[])))):
        if body[:-cut] != body[: len(body) - 10]:  # That is the first row, whole.
            with pytest.raises(ValueError, match="no chunk|cut off"):
                decode_chunk(body[:-cut])


@pytest.mark.parametrize(
    ("options", "streaming", "text"),
    [
        ({"delivery": "once"}, False, "at-least-once or exactly-once"),
        ({"sinkId": "a"}, False, "both with delivery=exactly-once"),
        ({"batchId": "1", "delivery": "exactly-once"}, False, "'batchId' goes with 'sinkId'"),
        ({"sinkId": "a", "delivery": "exactly-once"}, True, "a stream has its own"),
        ({"sinkId": "é" * 101, "delivery": "exactly-once"}, False, "200 bytes at most"),
    ],
)
def test_options_that_do_not_go_together(
    options: dict[str, str], streaming: bool, text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        write_options({"topic": "q"} | options, streaming)
    assert text in str(caught.value)
