"""Stored messages, read by names that no protocol owns; and flavours that are not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import properties, same, utf8_shortstrs
from warren.errors import UnknownFlavour
from warren.message.amqp091.conversion import neutral_properties
from warren.message.amqp091.edits import changed_content, with_properties
from warren.message.amqp091.record import content_at, properties_of
from warren.message.dead_letters import EXPIRED
from warren.message.flavours import (
    AMQP091,
    FLAVOUR_MAX,
    check_of,
    content_bytes,
    dead_letters_of,
    delay_in,
    delayed_of,
    envelope_of,
    failures_of,
    is_known,
    priority_of,
)
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.spec import BasicPublish

NAMES = ("headers", "persistent", "priority", "message_id", "timestamp_ms", "user_id")
bodies = st.binary(max_size=200)


def record(exchange: str, key: str, encoded: bytes, body: bytes, frame_max: int) -> bytes:
    """The frames of a publish."""
    return content_frames(3, BasicPublish(0, exchange, key, False, False), encoded, body, frame_max)


@given(utf8_shortstrs, utf8_shortstrs, properties, bodies, st.integers(9, 300), bodies, bodies)
def test_an_envelope_reads_what_was_published(
    exchange: str,
    key: str,
    sent: Properties,
    body: bytes,
    frame_max: int,
    before: bytes,
    after: bytes,
) -> None:
    """Wherever the record lies, and in however many frames its body."""
    sent.expiration = None
    stored = record(exchange, key, sent.encode(), body, frame_max)
    data = before + stored + after
    at, end = len(before), len(before) + len(stored)
    check = check_of(AMQP091)
    assert check is not None and check.passes(data, at, end)
    envelope = envelope_of(AMQP091, data, at, end)
    assert (envelope.exchange(), envelope.routing_key()) == (exchange, key)
    assert (envelope.body_size(), b"".join(envelope.body())) == (len(body), body)
    assert envelope.size() == len(stored)
    said = neutral_properties(sent.encode())
    read = envelope.properties()
    for name in NAMES:
        assert same(getattr(read, name), getattr(said, name)), name


def test_a_body_in_pieces_is_not_copied() -> None:
    stored = record("x", "k", b"\0\0", b"0123456789", 8 + 4)
    pieces = envelope_of(AMQP091, stored, 0, len(stored)).body()
    assert [bytes(piece) for piece in pieces] == [b"0123", b"4567", b"89"]
    assert all(piece.obj is stored for piece in pieces)


@given(properties, properties, bodies, st.integers(9, 300))
def test_other_properties_leave_all_else(
    old: Properties, new: Properties, body: bytes, frame_max: int
) -> None:
    before = record("x", "k", old.encode(), body, frame_max)
    head = content_at(before, 0)
    changed = with_properties(before, head, new.encode())
    assert changed == record("x", "k", new.encode(), body, frame_max)
    assert properties_of(changed, head) == new.encode()
    doubled = before + before
    assert changed_content(doubled, head, len(before), new.encode()) == changed[head:]


@pytest.mark.parametrize("flavour", [1, FLAVOUR_MAX, 255])
def test_an_unknown_flavour_is_told_by_its_number(flavour: int) -> None:
    assert is_known(AMQP091) and not is_known(flavour)
    with pytest.raises(UnknownFlavour, match=f"of flavour {flavour}, which this release"):
        envelope_of(flavour, b"", 0, 0)


@pytest.mark.parametrize("flavour", [1, FLAVOUR_MAX, 255])
def test_what_is_asked_of_an_unknown_flavour_says_nothing_of_the_message(flavour: int) -> None:
    """Nothing raises: queues ask within turns of their node."""
    data = b"\xffwhat only a later release can read"
    assert check_of(flavour) is None
    assert (content_bytes(flavour, data, 0, True), priority_of(flavour, data, 0)) == (-1, -1)
    assert (delay_in(flavour, data), failures_of(flavour, data, 0)) == (0, 0)
    for letters in (dead_letters_of(flavour, "q"), delayed_of(flavour)):
        letters.aim("x", "k")
        letter = letters.make(data, EXPIRED, 1, 1_000)
        assert not letter.keys and not letter.goes_round("q") and letter.life_ms < 0
        assert letter.properties().headers is None and letters.record() == b""
