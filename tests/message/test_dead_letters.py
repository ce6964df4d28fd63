"""Dead letters: what is told of each death, which keys count, and what only the broker may say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import properties, utf8_shortstrs
from warren.message.amqp091.dead_letters import DEATHS_BYTES_MAX, DEATHS_MAX
from warren.message.amqp091.edits import without_bcc
from warren.message.amqp091.note import Note, note_of, with_note
from warren.message.amqp091.record import RecordCheck, content_at, properties_of
from warren.message.dead_letters import EXPIRED, MAXLEN, REASONS, REJECTED
from warren.message.flavours import AMQP091, dead_letters_of, envelope_of
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.spec import BasicPublish
from warren.wire.amqp091.table import Table, Timestamp, UnsignedByte, Value

NOW_MS = 1_700_000_000_123
reasons = st.integers(0, len(REASONS) - 1)
names = utf8_shortstrs.filter(bool)


PROPERTY_NAMES = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type_",
    "user_id",
    "app_id",
)


def record(key: str = "k", exchange: str = "", body: bytes = b"body", **said: Any) -> bytes:
    """A message as it was published."""
    encoded = Properties(**said).encode()
    return content_frames(3, BasicPublish(0, exchange, key, False, False), encoded, body, 131_072)


def died(
    message: bytes,
    queue: str = "q",
    reason: int = REJECTED,
    exchange: str = "",
    key: str | None = None,
    failed: int = 0,
) -> bytes:
    """Its dead letter."""
    letters = dead_letters_of(AMQP091, queue)
    letters.aim(exchange, key)
    letters.make(message, reason, failed, NOW_MS)
    return letters.record()


def keys_of(message: bytes, key: str | None = None) -> list[str]:
    """The keys by which its dead letter is routed."""
    letters = dead_letters_of(AMQP091, "q")
    letters.aim("", key)
    return letters.make(message, REJECTED, 0, NOW_MS).keys


def read(message: bytes) -> Properties:
    """A message's properties."""
    encoded = properties_of(message, content_at(message, 0))
    return decode_properties(encoded, 0, len(encoded))


def headers_of(message: bytes) -> Table:
    """A message's headers."""
    headers = read(message).headers
    assert headers is not None
    return headers


def deaths_of(message: bytes) -> list[Any]:
    """What its headers tell of deaths."""
    deaths = headers_of(message)["x-death"]
    assert isinstance(deaths, list)
    return deaths


@given(utf8_shortstrs, utf8_shortstrs, properties, st.binary(max_size=99), reasons, names, names)
def test_all_else_stays(
    exchange: str, key: str, sent: Properties, body: bytes, reason: int, queue: str, target: str
) -> None:
    """Of whatever a publisher sent: body, properties and headers, and the letter is a record."""
    sent.expiration = "60000" if sent.expiration is not None else None
    said = {name: getattr(sent, name) for name in PROPERTY_NAMES}
    if said["headers"] is not None:
        said["headers"] = {n: v for n, v in said["headers"].items() if not n.startswith("x-")}
    message = record(key, exchange, body, **said)
    letter = died(message, queue, reason, target)
    assert RecordCheck().passes(letter, 0, len(letter))
    envelope = envelope_of(AMQP091, letter, 0, len(letter))
    assert (envelope.exchange(), envelope.routing_key()) == (target, key)
    assert b"".join(envelope.body()) == body
    before, now = read(message), read(letter)
    assert now.expiration is None
    headers = headers_of(letter)
    told = headers.pop("x-death")
    for which in ("first", "last"):
        assert headers.pop(f"x-{which}-death-queue") == queue
        assert headers.pop(f"x-{which}-death-reason") == REASONS[reason]
        assert headers.pop(f"x-{which}-death-exchange") == exchange
    assert repr(headers) == repr(before.headers or {})
    for name in PROPERTY_NAMES:
        if name not in ("headers", "expiration"):
            assert getattr(now, name) == getattr(before, name), name
    assert isinstance(told, list) and len(told) == 1
    death: Any = told[0]
    assert (death["queue"], death["reason"], death["count"]) == (queue, REASONS[reason], 1)
    assert death["time"] == NOW_MS // 1_000 and isinstance(death["time"], Timestamp)
    assert death["exchange"] == exchange and death["routing-keys"][0] == key
    assert death.get("original-expiration") == sent.expiration


@given(st.lists(st.tuples(st.sampled_from("abc"), reasons), min_size=1, max_size=30))
def test_deaths_are_told_by_queue_and_reason_the_latest_first(row: list[tuple[str, int]]) -> None:
    message = record("k", "x")
    for queue, reason in row:
        message = died(message, queue, reason, "y", queue)
    expected: dict[tuple[str, str], int] = {}
    for queue, reason in row:
        name = REASONS[reason]
        expected[queue, name] = expected.pop((queue, name), 0) + 1
    told = [(death["queue"], death["reason"], death["count"]) for death in deaths_of(message)]
    assert told == [(*key, count) for key, count in reversed(expected.items())]
    headers = headers_of(message)
    first, last = row[0], row[-1]
    assert headers["x-first-death-queue"] == first[0]
    assert headers["x-first-death-reason"] == REASONS[first[1]]
    assert headers["x-first-death-exchange"] == "x"
    assert headers["x-last-death-queue"] == last[0]
    assert headers["x-last-death-reason"] == REASONS[last[1]]


JUNK: list[Value] = [
    "junk",
    7,
    [],
    [1, "a", None],
    [{"queue": 1, "reason": "rejected"}],
    [{"queue": "q", "reason": "rejected", "count": 5}],
    {"queue": "q"},
]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_what_a_client_wrote_of_deaths_counts_for_nothing(junk: Value) -> None:
    sent: Table = {"x-death": junk, "x-first-death-queue": 3, "x-last-death-reason": "mine"}
    letter = died(record(headers=sent), "q", REJECTED)
    (death,) = deaths_of(letter)
    assert death["count"] == 1
    headers = headers_of(letter)
    assert (headers["x-first-death-queue"], headers["x-last-death-reason"]) == ("q", "rejected")
    # A client that sends the letter on sends its headers, and no note.
    again = died(record(headers=headers), "q", REJECTED)
    assert deaths_of(again)[0]["count"] == 1


def test_unreadable_deaths_of_a_letter_are_left_out() -> None:
    letter = with_note(record(headers={"x-death": JUNK}), Note(True, False, 0, []))
    assert [death["count"] for death in deaths_of(died(letter, "q", REJECTED))] == [1]
    counted: Value = [{"queue": "q", "reason": "rejected", "count": UnsignedByte(4)}]
    letter = with_note(record(headers={"x-death": counted}), Note(True, False, 0, []))
    assert [death["count"] for death in deaths_of(died(letter, "q", REJECTED))] == [5]


def test_deaths_are_bounded() -> None:
    message = record(headers={"CC": ["c" * 200] * 20})
    for number in range(DEATHS_MAX + 5):
        message = died(message, f"q{number}", EXPIRED)
        encoded = properties_of(message, content_at(message, 0))
        assert len(encoded) < DEATHS_BYTES_MAX + 10_000
    assert deaths_of(message)[0]["queue"] == f"q{DEATHS_MAX + 4}"
    message = record()
    for number in range(DEATHS_MAX + 5):
        message = died(message, f"q{number}", EXPIRED)
    told = deaths_of(message)
    assert len(told) == DEATHS_MAX and told[-1]["queue"] == "q5"


def test_keys() -> None:
    """The message's own, those of CC and of BCC; a key of the queue's stands alone from then on."""
    published = record("k", headers={"CC": ["c"], "BCC": ["b", 1]})
    stored = without_bcc(published, content_at(published, 0), True)
    assert headers_of(stored) == {"CC": ["c"]}
    assert RecordCheck().passes(stored, 0, len(stored))
    assert keys_of(stored) == ["k", "c", "b"]
    letter = died(stored)
    assert deaths_of(letter)[0]["routing-keys"] == ["k", "c"]
    assert keys_of(letter) == ["k", "c", "b"]
    assert keys_of(stored, "d") == ["d"]
    other = died(stored, key="d")
    assert headers_of(other)["CC"] == ["c"]
    assert keys_of(other) == ["d"]
    assert deaths_of(died(other, "p"))[0]["routing-keys"] == ["d"]


def test_without_notes_what_bcc_named_is_forgotten() -> None:
    published = record("k", headers={"BCC": ["b"]})
    stored = without_bcc(published, content_at(published, 0), False)
    assert keys_of(stored) == ["k"]
    assert note_of(stored, 0).keys == []


def test_failed_deliveries_are_counted_on() -> None:
    letter = died(died(record(), failed=2), failed=3)
    assert note_of(letter, 0).failed == 5


def test_circles_are_those_without_a_rejection() -> None:
    def goes_round(row: list[tuple[str, int]], to: str) -> bool:
        message = record()
        for queue, reason in row[:-1]:
            message = died(message, queue, reason)
        letters = dead_letters_of(AMQP091, row[-1][0])
        letters.aim("", None)
        return letters.make(message, row[-1][1], 0, NOW_MS).goes_round(to)

    assert goes_round([("a", EXPIRED)], "a")
    assert goes_round([("a", EXPIRED), ("b", MAXLEN)], "a")
    assert not goes_round([("a", EXPIRED), ("b", MAXLEN)], "c")
    assert not goes_round([("a", EXPIRED), ("b", REJECTED)], "a")
    assert not goes_round([("a", REJECTED), ("b", EXPIRED)], "a")
    assert goes_round([("c", REJECTED), ("a", EXPIRED), ("b", EXPIRED)], "a")


def test_alike_messages_share_a_letter_and_keep_their_bodies() -> None:
    letters = dead_letters_of(AMQP091, "q")
    letters.aim("", "d")
    first = letters.make(record(body=b"1"), EXPIRED, 0, NOW_MS)
    one = letters.record()
    assert letters.make(record(body=b"22"), EXPIRED, 0, NOW_MS) is first
    assert b"".join(envelope_of(AMQP091, one, 0, len(one)).body()) == b"1"
    two = letters.record()
    assert b"".join(envelope_of(AMQP091, two, 0, len(two)).body()) == b"22"
    for other in (record("l"), record(priority=1)):
        assert letters.make(other, EXPIRED, 0, NOW_MS) is not first
        first = letters.make(record(), EXPIRED, 0, NOW_MS)
    assert letters.make(record(), MAXLEN, 0, NOW_MS) is not first
    assert letters.make(record(), MAXLEN, 1, NOW_MS).deaths == [("q", False)]
    letters.aim("", "e")
    assert letters.make(record(), MAXLEN, 1, NOW_MS).keys == ["e"]


SHAPES = st.fixed_dictionaries(
    {},
    optional={
        "headers": st.dictionaries(
            st.sampled_from(["a", "CC", "BCC", "x-death", "x-last-death-queue", "x-other"]),
            st.sampled_from([["c"], 1, "q", None]),
        ),
        "priority": st.integers(0, 9),
        "expiration": st.just("60000"),
        "message_id": st.sampled_from("mn"),
    },
)


@given(
    st.lists(st.tuples(st.sampled_from("kl"), st.sampled_from("xy"), SHAPES, st.booleans())),
    reasons,
    st.sampled_from([None, "d"]),
)
def test_what_died_before_makes_no_difference(
    row: list[tuple[str, str, dict[str, Any], bool]], reason: int, key: str | None
) -> None:
    """A letter is the same whether it is made alone or behind any others."""
    letters = dead_letters_of(AMQP091, "q")
    letters.aim("t", key)
    for routing_key, exchange, said, dead in row:
        message = record(routing_key, exchange, **said)
        if dead:
            message = died(message, "p", MAXLEN, exchange, routing_key)
        alone = dead_letters_of(AMQP091, "q")
        alone.aim("t", key)
        expected = alone.make(message, reason, 1, NOW_MS)
        letter = letters.make(message, reason, 1, NOW_MS)
        assert letters.record() == alone.record()
        assert (letter.keys, letter.deaths) == (expected.keys, expected.deaths)
        assert letter.headers() == expected.headers() == headers_of(letters.record())
        assert (letter.persistent, letter.prioritised) == (False, "priority" in said)


@given(st.booleans(), st.booleans(), st.integers(0, 2**31 - 1), st.lists(st.binary(max_size=255)))
def test_notes(dead: bool, alone: bool, failed: int, keys: list[bytes]) -> None:
    plain = record("key", "exchange")
    noted = with_note(plain, Note(dead, alone, failed, keys))
    assert RecordCheck().passes(noted, 0, len(noted))
    note = note_of(noted, 0)
    assert (note.dead, note.alone, note.failed, note.keys) == (dead, alone, failed, keys)
    envelope = envelope_of(AMQP091, noted, 0, len(noted))
    assert (envelope.exchange(), envelope.routing_key()) == ("exchange", "key")
    assert noted[content_at(noted, 0) :] == plain[content_at(plain, 0) :]


@given(st.binary(min_size=1, max_size=20))
def test_arbitrary_bytes_are_no_note(junk: bytes) -> None:
    """Or they are one, which then reads back as the same bytes."""
    plain = record()
    head = content_at(plain, 0)
    method = plain[7 : head - 1] + junk
    forged = plain[:3] + len(method).to_bytes(4, "big") + method + plain[head - 1 :]
    if RecordCheck().passes(forged, 0, len(forged)):
        assert with_note(plain, note_of(forged, 0)) == forged
