"""Names as clients give them and as the node makes them."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.metadata.names import SERVER_NAME_PREFIX, SERVER_NAME_RANDOM_BYTES
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

QUEUES = 300
FORMS = ["caf\u00e9", "cafe\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi", "\uff21", "A"]
"""Names that are different strings, and the same after one or another of Unicode's normal forms."""


def test_server_names_are_all_the_randomness_that_was_drawn() -> None:
    """16 random bytes each: nobody guesses one, and none comes twice."""
    line = Line(Pair(alone=True).a)
    declare = spec.QueueDeclare(0, "", False, False, False, False, False, {})
    line.hand(method_frame(1, declare.encode()) * QUEUES)
    names = {told.method.queue for told in line.wait(QUEUES, spec.QueueDeclareOk)}
    assert len(names) == QUEUES
    drawn = []
    for name in names:
        prefix, _, text = name.partition("-")
        assert prefix == SERVER_NAME_PREFIX
        drawn.append(urlsafe_b64decode(text + "=="))
    assert {len(data) for data in drawn} == {SERVER_NAME_RANDOM_BYTES}
    for place in range(SERVER_NAME_RANDOM_BYTES):
        assert len({data[place] for data in drawn}) > QUEUES // 3


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_names_are_the_bytes_that_clients_send(kind: str) -> None:
    """No normal form of Unicode is applied, also not by a restart; RabbitMQ compares bytes."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    line.ask(1, spec.ExchangeDeclare(0, "x", "direct", False, True, False, False, False, {}))
    for name in FORMS:
        told = line.ask(
            1, spec.QueueDeclare(0, name, False, True, False, False, False, {"x-queue-type": kind})
        )
        assert told.method.queue == name
        line.ask(1, spec.QueueBind(0, name, "x", f"key {name}", False, {}))
        line.ask(1, spec.ExchangeDeclare(0, name, "fanout", False, True, False, False, False, {}))
    line.ask(1, spec.QueueBind(0, FORMS[0], FORMS[1], "", False, {}))
    line.ask(1, spec.ConfirmSelect(False))
    for name in FORMS:
        body = name.encode()
        for exchange, key in (("", name), ("x", f"key {name}"), (name, "")):
            line.hand(b"".join(publish_frames(1, exchange, key, b"\x10\x00\x02", [body])))
    pair.until(lambda: len(line.confirmed()) == 3 * len(FORMS))
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    again = Line(pair.a)
    for name in FORMS:
        wanted = [name.encode()] * 2
        if name == FORMS[0]:
            wanted.append(FORMS[1].encode())
        assert [told.body for told in again.drain(name, steps=12)] == wanted, name
