"""A node that says over a line what cannot be: its link ends, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Client, Pair, sealed
from tests.node.test_damaged_lines import QUEUE, used_from_afar
from warren.node.remote import frames as line_frames
from warren.queues.fifo import commands
from warren.replication import kinds
from warren.replication import observing_frames as said
from warren.replication.frames import SEAL_BYTES
from warren.wire.amqp091 import spec

Lie = Callable[[bytes], bytes]


def number(position: int, value: int) -> Lie:
    """Another number at a position behind the line's."""

    def lie(message: bytes) -> bytes:
        at = line_frames.LINE_BYTES + 8 * position
        return message[:at] + value.to_bytes(8, "little", signed=True) + message[at + 8 :]

    return lie


def rejected(*stretches: tuple[int, int]) -> Lie:
    """That there was no room for messages."""

    def lie(message: bytes) -> bytes:
        at = line_frames.LINE_BYTES + 8
        said = [field.to_bytes(4, "little", signed=True) for row in stretches for field in row]
        head = bytes([line_frames.REJECTED]) + len(stretches).to_bytes(4, "little")
        return message[:at] + head + b"".join(said)

    return lie


def command(opcode: int, *fields: int) -> Lie:
    """Another command."""

    def lie(message: bytes) -> bytes:
        at = line_frames.LINE_BYTES + 9
        said = [field.to_bytes(8, "big", signed=True) for field in fields]
        return message[:at] + bytes([opcode]) + b"".join(said)

    return lie


class Liar:
    """Changes the first message of a kind that there is, from so many on."""

    def __init__(self, kind: int, lie: Lie, after: int) -> None:
        self.left = after
        self.kind = kind
        self.lie = lie

    def __call__(self, message: bytes) -> bytes:
        if message[0] != self.kind or self.left < 0:
            return message
        self.left -= 1
        return message if self.left >= 0 else sealed(self.lie(message[:-SEAL_BYTES]))


MUCH = 1 << 62
TO_THE_FRONT: dict[str, tuple[int, Lie, int]] = {
    "fewer than no messages purged": (kinds.REPLY, number(2, -1), 0),
    "fewer than no messages": (kinds.REPLY, number(3, -1), 0),
    "fewer than no consumers": (kinds.REPLY, number(4, -1), 0),
    "more messages than can be told": (kinds.REPLY, number(3, 1 << 40), 0),
    "a message polled under no id": (kinds.REPLY, number(6, -1), 1),
    "a message polled that is none": (kinds.REPLY, number(7, -1), 1),
    "a message polled that never came back": (kinds.REPLY, number(8, -1), 1),
    "an id that is none": (kinds.DELIVER, number(1, -1), 0),
    "an id beyond all": (kinds.DELIVER, number(1, MUCH), 0),
    "an id again": (kinds.DELIVER, number(1, 0), 1),
    "a number that is none": (kinds.DELIVER, number(2, -1), 0),
    "what came back less than never": (kinds.DELIVER, number(3, -1), 0),
    "rejected before the first": (kinds.STORED, rejected((-1, 1)), 0),
    "rejected fewer than none": (kinds.STORED, rejected((0, -1)), 0),
    "rejected none": (kinds.STORED, rejected((0, 0)), 0),
    "rejected behind the last": (kinds.STORED, rejected((0, 2)), 0),
    "rejected more than is there": (kinds.STORED, lambda m: rejected((0, 1))(m)[:-4], 0),
    "another end of messages": (kinds.STORED, lambda m: m[:25] + b"\3" + m[26:], 0),
    "the beginning of an answer": (kinds.STORED, lambda m: m + b"\1", 0),
}
TO_THE_QUEUE: dict[str, tuple[int, Lie, int]] = {
    "room for fewer than no messages": (kinds.GRANT, number(1, -1), 0),
    "room for fewer than no bytes": (kinds.GRANT, number(2, -1), 0),
    "room for more messages than came": (kinds.GRANT, number(1, 1 << 40), 0),
    "a consumer of the queue's node": (kinds.COMMANDS, command(commands.ATTACH, 1, 1, 0), 0),
    "a poll of the queue's node": (kinds.COMMANDS, command(commands.GET, 1), 0),
    "a consumer without credit": (kinds.COMMANDS, command(commands.ATTACH, 1 << 40, 0, 0), 0),
    "messages from the last": (kinds.COMMANDS, command(commands.SETTLE, 1 << 40, 1, 0), 0),
}


def works(pair: Pair, client: Client) -> None:
    """Clients of both nodes publish and are given messages."""
    pair.until(pair.usable)
    assert all(station.node.failure is None for station in pair.stations.values())
    client.publish(QUEUE, b"after")
    tag = client.published
    pair.until(lambda: tag in client.acked)
    for station in pair.stations.values():
        assert isinstance(station.client().declare(QUEUE, passive=True), spec.QueueDeclareOk)


@pytest.mark.parametrize("name", TO_THE_FRONT | TO_THE_QUEUE)
def test_its_link_ends_and_nothing_else(name: str) -> None:
    kind, lie, after = (TO_THE_FRONT | TO_THE_QUEUE)[name]
    pair, client = used_from_afar("classic")
    near = pair.a.client()
    near.publish_confirmed(QUEUE, 2)
    reader = pair.b.client()
    link = ("a", "b") if name in TO_THE_FRONT else ("b", "a")
    pair.damage[link] = Liar(kind, lie, after)
    size = 100_000 if kind == kinds.GRANT else 10
    if kind == kinds.REPLY:
        reader.send(spec.BasicGet(0, QUEUE, False))
        reader.send(spec.BasicGet(0, QUEUE, False))
    else:
        reader.send(spec.BasicConsume(0, QUEUE, "", False, False, False, False, {}))
    for _ in range(6):
        client.publish(QUEUE, bytes(size))
        pair.settle(3)
    pair.until(lambda: len(pair.refused) > 0)
    assert [row[:2] for row in pair.refused] == [link]
    works(pair, client)
    # A consumer there is as it was.
    near.consume(QUEUE)
    pair.until(lambda: any(got.body == b"after" for got in near.messages))


def test_a_consumer_of_another_node_is_left_alone() -> None:
    """Whatever a front says of it."""
    pair, client = used_from_afar("classic")
    near = pair.a.client()
    near.consume(QUEUE)
    (own,) = pair.a.queue(QUEUE).links
    lie = command(commands.ATTACH, int(own), 1, 0)
    pair.damage["b", "a"] = Liar(kinds.COMMANDS, lie, 0)
    pair.b.client().send(spec.BasicConsume(0, QUEUE, "", False, False, False, False, {}))
    pair.until(lambda: len(pair.refused) > 0)
    works(pair, client)
    pair.until(lambda: near.bodies() == [b"after"])


@pytest.mark.parametrize("answer", (said.FOUND, said.GONE))
def test_messages_that_end_before_they_begin_are_asked_for_again(answer: int) -> None:
    """A member of a quorum queue that says so to a node that uses it is not believed."""
    pair, client = used_from_afar("quorum")

    def lie(message: bytes) -> bytes:
        return message[: said.AT + 8] + bytes([answer]) + bytes(8)

    pair.damage["a", "b"] = Liar(kinds.BODIES, lie, 0)
    client.publish_confirmed(QUEUE, 3)
    client.consume(QUEUE)
    pair.until(lambda: client.bodies() == [b"1", b"2", b"3"])
    assert [row[:2] for row in pair.refused] == [("a", "b")]
