"""Links that flip a bit in what is neither Raft's nor a batch: no queue and no client gets it."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair, sealed
from warren.node.remote import frames as line_frames
from warren.replication import kinds
from warren.wire.amqp091 import spec

QUEUE = "orders"
BODIES = [b"body %d" % number for number in range(6)]


class Flip:
    """Changes one bit of the first message of a kind."""

    def __init__(self, kind: int, at: int) -> None:
        self.done = False
        self._kind = kind
        self._at = at

    def __call__(self, message: bytes) -> bytes:
        if self.done or message[0] != self._kind:
            return message
        self.done = True
        at = self._at % len(message)
        return message[:at] + bytes([message[at] ^ 1 << at % 8]) + message[at + 1 :]


TO_THE_QUEUE = (kinds.PROPOSE, kinds.MESSAGES, kinds.COMMANDS)
TO_THE_CLIENT = (kinds.DELIVER, kinds.STORED, kinds.REPLY)


def used_from_afar(kind: str) -> tuple[Pair, Client]:
    """A queue on a, and a client on b."""
    pair = Pair()
    client = pair.b.client()
    there = pair.a.client()
    assert isinstance(
        there.declare(QUEUE, kind=kind, size=int(kind == "quorum")), spec.QueueDeclareOk
    )
    pair.until(lambda: pair.b.knows(QUEUE))
    pair.until(pair.usable)
    client.call(spec.ConfirmSelect(False))
    pair.settle()
    return pair, client


@pytest.mark.parametrize("at", [0, 5, 12, 30, -40, -6, -1])
@pytest.mark.parametrize("kind", TO_THE_QUEUE + TO_THE_CLIENT)
def test_a_flipped_bit_ends_the_link_and_nothing_else(kind: int, at: int) -> None:
    """Only batches and Raft's messages had checksums; a flipped body was stored and delivered."""
    pair, client = used_from_afar("quorum" if kind == kinds.PROPOSE else "classic")
    link = ("b", "a") if kind in TO_THE_QUEUE else ("a", "b")
    flip = Flip(kind, at)
    pair.damage[link] = flip
    reader = pair.b.client()
    if kind in (kinds.COMMANDS, kinds.REPLY, kinds.DELIVER):
        reader.send(spec.BasicConsume(0, QUEUE, "", False, False, False, False, {}))
    # What is refused because the line went is published again, as a client does.
    wanted = list(BODIES)
    while wanted:
        pair.until(pair.usable)
        client.publish(QUEUE, wanted[0])
        tag = client.published
        pair.until(lambda tag=tag: tag in client.acked | client.nacked)
        if tag in client.acked:
            del wanted[0]
    pair.until(lambda: flip.done)
    assert [row[:2] for row in pair.refused] == [link]
    pair.until(pair.usable)
    other = pair.a.client()
    other.consume(QUEUE)
    pair.until(lambda: {*reader.bodies(), *other.bodies()} >= set(BODIES))
    assert {*reader.bodies(), *other.bodies()} == set(BODIES)


def test_a_line_of_a_huge_number_shuts_the_pairs_line_while_the_link_lasts_only() -> None:
    """It stayed shut until one of the nodes started again."""
    pair, client = used_from_afar("classic")
    huge = line_frames.line_head(kinds.OPEN, 0, (1 << 63) - 1).getvalue()
    pair.a.listener.received("b", sealed(huge))
    pair.cut("b", "a")
    pair.until(pair.usable)
    client.publish(QUEUE, b"after")
    pair.until(lambda: client.published in client.acked)
