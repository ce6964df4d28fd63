"""A look at a message of a long backlog, wherever it lies."""

from __future__ import annotations

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service.caller import LOCAL
from warren.admin.service.peeking import peek
from warren.admin.service.rows import Peeked
from warren.errors import NOT_FOUND, Refusal
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

COUNT = 2_000
PRIORITIES = (b"\x18\x00\x02\x00", b"\x18\x00\x02\x09")
"""Persistent properties with the priorities 0 and 9."""


def test_any_message_of_many_runs_is_found() -> None:
    """Two levels of priority that come by turns are as many runs, most of which lie packed."""
    pair = Pair()
    client = pair.a.client()
    assert isinstance(client.declare("q", kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    publish = spec.BasicPublish(0, "", "q", False, False)
    for number in range(COUNT):
        properties = PRIORITIES[number % 2]
        client.outbox += content_frames(1, publish, properties, b"%d" % number, 131_072)
        client.published += 1
    pair.until(lambda: len(client.acked) == COUNT)

    def at(position: int) -> Peeked:
        found = answered(
            pair, lambda: peek(service_of(pair), LOCAL, vhost="/", queue="q", position=position)
        )
        assert isinstance(found, Peeked)
        return found

    higher = COUNT // 2
    for place in (0, 1, 300, 700, higher - 1):
        assert at(place + 1).body == b"%d" % (2 * place + 1)
        assert at(higher + place + 1).body == b"%d" % (2 * place)
    with pytest.raises(Refusal) as refused:
        at(COUNT + 1)
    assert refused.value.kind == NOT_FOUND
