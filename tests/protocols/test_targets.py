"""A message is refused for each queue that it would reach, whatever named that queue."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

CLASSIC, QUORUM, CHOSEN = "classic", "quorum", "by-headers"
HIGH = 5
"""A priority that quorum queues hold apart from the normal one, which not all nodes can."""


@pytest.fixture
def line() -> Line:
    """A client in confirm mode, with a queue of each type, both bound to a headers exchange."""
    old = Pair(alone=True, configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    line = Line(old.a)
    for name in (CLASSIC, QUORUM):
        arguments: Table = {"x-queue-type": name}
        line.ask(1, spec.QueueDeclare(0, name, False, True, False, False, False, arguments))
    line.ask(1, spec.ExchangeDeclare(0, CHOSEN, "headers", False, True, False, False, False, {}))
    for name in (CLASSIC, QUORUM):
        line.ask(1, spec.QueueBind(0, name, CHOSEN, "", False, {"to": name}))
        line.ask(1, spec.QueueBind(0, name, CHOSEN, "", False, {"to": "both"}))
    line.ask(1, spec.ConfirmSelect(False))
    return line


def published(line: Line, exchange: str, key: str, headers: Table, priority: int) -> bytes:
    """One message's frames."""
    properties = Properties(headers=headers or None, priority=priority).encode()
    return b"".join(publish_frames(1, exchange, key, properties, [b"x"]))


@pytest.mark.parametrize(
    ("exchange", "key", "headers"),
    [
        ("", QUORUM, {}),
        ("", CLASSIC, {"CC": [QUORUM]}),
        ("", CLASSIC, {"BCC": [QUORUM]}),
        ("", "nowhere", {"CC": ["nowhere", QUORUM]}),
        ("", QUORUM, {"CC": [CLASSIC]}),
        (CHOSEN, "", {"to": QUORUM}),
        (CHOSEN, "", {"to": "both"}),
    ],
)
@pytest.mark.parametrize("behind", [0, 2], ids=["alone", "behind others"])
def test_priority_that_one_of_the_queues_does_not_hold(
    line: Line, exchange: str, key: str, headers: Table, behind: int
) -> None:
    """The channel is closed, and no queue gets the message."""
    other = (CHOSEN, "", {"to": CLASSIC}) if exchange else ("", CLASSIC, {"CC": [CLASSIC]})
    data = published(line, *other, HIGH) * behind
    line.hand(data + published(line, exchange, key, headers, HIGH))
    close = line.wait(1, spec.ChannelClose)[0].method
    assert (close.reply_code, close.class_id, close.method_id) == (406, 60, 40)
    assert "property 'priority' above 4 for queue 'quorum'" in close.reply_text
    line.send(1, spec.ChannelCloseOk())
    line.ask(1, spec.ChannelOpen())
    assert len(line.drain(CLASSIC)) == behind
    assert not line.drain(QUORUM)


@pytest.mark.parametrize(
    ("exchange", "key", "headers", "priority", "queues"),
    [
        ("", CLASSIC, {"CC": ["nowhere"]}, HIGH, [CLASSIC]),
        ("", CLASSIC, {"CC": [QUORUM]}, HIGH - 1, [CLASSIC, QUORUM]),
        (CHOSEN, "", {"to": CLASSIC}, HIGH, [CLASSIC]),
        (CHOSEN, "", {"to": "both"}, HIGH - 1, [CLASSIC, QUORUM]),
    ],
)
def test_priority_that_all_of_the_queues_hold(
    line: Line, exchange: str, key: str, headers: Table, priority: int, queues: list[str]
) -> None:
    """It is taken."""
    line.hand(published(line, exchange, key, headers, priority))
    line.pair.until(lambda: line.confirmed() == {1})
    assert [name for name in (CLASSIC, QUORUM) if line.drain(name)] == queues
