"""Properties by neutral names: from and to the bytes of AMQP 0-9-1, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire.strategies import properties, same, shortstrs, tables
from warren.errors import PRECONDITION_FAILED, ProtocolError, Refusal
from warren.message.amqp091.conversion import neutral_properties, properties_bytes
from warren.message.properties import (
    EXPIRATION_MS_MAX,
    MessageProperties,
    parse_expiration,
    parse_life,
    plain_life,
)
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.properties import Properties, decode_properties

texts = st.none() | shortstrs
octets = st.none() | st.integers(0, 255)

neutral = st.builds(
    MessageProperties,
    content_type=texts,
    content_encoding=texts,
    headers=st.none() | tables,
    persistent=st.none() | st.booleans(),
    priority=octets,
    correlation_id=texts,
    reply_to=texts,
    expiration_ms=st.none() | st.integers(0, EXPIRATION_MS_MAX),
    message_id=texts,
    timestamp_ms=st.none() | st.integers(0, 2**64 - 1).map(lambda seconds: 1_000 * seconds),
    type_=texts,
    user_id=texts,
    app_id=texts,
)


def values(of: MessageProperties) -> dict[str, object]:
    return {name: getattr(of, name) for name in NAMES}


NAMES = [
    "app_id",
    "content_encoding",
    "content_type",
    "correlation_id",
    "expiration_ms",
    "headers",
    "message_id",
    "persistent",
    "priority",
    "reply_to",
    "timestamp_ms",
    "type_",
    "user_id",
]


@given(neutral)
def test_what_is_set_is_what_is_read(value: MessageProperties) -> None:
    encoded = properties_bytes(value)
    assert same(values(neutral_properties(encoded)), values(value))
    assert properties_bytes(neutral_properties(encoded)) == encoded


@given(properties, st.none() | st.integers(0, EXPIRATION_MS_MAX))
def test_what_a_publisher_sent_is_what_another_protocol_reads(
    sent: Properties, expiration: int | None
) -> None:
    sent.expiration = None if expiration is None else str(expiration)
    read = neutral_properties(sent.encode())
    for name in NAMES:
        if name not in ("persistent", "expiration_ms", "timestamp_ms"):
            assert same(getattr(read, name), getattr(sent, name)), name
    assert read.persistent is (None if sent.delivery_mode is None else sent.delivery_mode == 2)
    assert read.expiration_ms == expiration
    assert read.timestamp_ms == (None if sent.timestamp is None else sent.timestamp * 1_000)


def test_parts_of_a_second_are_left_out() -> None:
    encoded = properties_bytes(MessageProperties(timestamp_ms=1_700_000_000_999))
    assert decode_properties(encoded, 0, len(encoded)).timestamp == 1_700_000_000
    assert neutral_properties(encoded).timestamp_ms == 1_700_000_000_000


@given(st.binary(max_size=120))
def test_bytes_that_are_no_properties_are_refused_as_by_the_codec(data: bytes) -> None:
    try:
        expiration = decode_properties(data, 0, len(data)).expiration
    except ConnectionException as error:
        with pytest.raises(ConnectionException) as caught:
            neutral_properties(data)
        assert (caught.value.code, caught.value.text) == (error.code, error.text)
        return
    try:
        assert expiration is None or parse_expiration(expiration) >= 0
    except Refusal:
        with pytest.raises(Refusal):
            neutral_properties(data)
    else:
        assert neutral_properties(data).expiration_ms == (
            None if expiration is None else int(expiration)
        )


@pytest.mark.parametrize(
    "value",
    [
        MessageProperties(priority=256),
        MessageProperties(priority=-1),
        MessageProperties(timestamp_ms=-1),
        MessageProperties(timestamp_ms=1_000 * 2**64),
        MessageProperties(message_id="x" * 256),
        MessageProperties(headers={"x" * 256: 1}),
    ],
)
def test_values_without_a_place_in_amqp_are_refused(value: MessageProperties) -> None:
    """The error is one that other protocols know, too."""
    with pytest.raises(ProtocolError):
        properties_bytes(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("soon", "no_integer"),
        ("", "no_integer"),
        ("10s", '{leftover_string,"s"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_expirations_that_are_none_are_refused(text: str, reason: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_expiration(text)
    assert caught.value.kind == PRECONDITION_FAILED
    assert caught.value.text == f"invalid expiration '{text}': {reason}"


def test_expirations() -> None:
    assert [parse_expiration(text) for text in ("0", "+5", "007", "315360000000")] == [
        0,
        5,
        7,
        EXPIRATION_MS_MAX,
    ]


@given(st.one_of(st.integers(0, 1 << 33).map(str), st.text("0123456789+- x", max_size=12)))
@example("")
@example("999999999")
@example("0000000010")
def test_plain_lives_are_what_expirations_say(text: str) -> None:
    """Where digits are read without further ado, the same comes of it."""
    found = plain_life(text.encode())
    assert (found >= 0) == (text.isdigit() and len(text) <= 9)
    assert found < 0 or found == parse_life(text)
