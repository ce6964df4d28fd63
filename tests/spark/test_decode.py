"""Record batches to Arrow: the vectorised decoder against plain expectations, row by row."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.fake import NOTHING, batch, record
from warren.errors import CorruptRecord, UnknownFlavour
from warren.message.amqp091.note import Note, with_note
from warren.spark.columns import header_bytes, to_arrow
from warren.spark.records import parse
from warren.spark.schema import COLUMNS, arrow_schema, spark_schema
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Decimal, Timestamp

ALL = arrow_schema(COLUMNS)


def rows(data: bytes, schema: pa.Schema = ALL) -> list[dict[str, object]]:
    result: list[dict[str, object]] = []
    for stored in parse(data):
        decoded = to_arrow(stored, "q", schema)
        decoded.validate(full=True)
        assert decoded.schema.equals(schema)
        result += decoded.to_pylist()
    return result


texts = st.one_of(st.none(), st.text(max_size=60).filter(lambda t: len(t.encode()) <= 255))
octets = st.one_of(st.none(), st.integers(0, 255))
properties = st.builds(
    Properties,
    content_type=texts,
    content_encoding=texts,
    headers=st.one_of(
        st.none(), st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3)
    ),
    delivery_mode=octets,
    priority=octets,
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=texts,
    timestamp=st.one_of(st.none(), st.integers(0, 253_402_300_799)),
    type_=texts,
    user_id=texts,
    app_id=texts,
    cluster_id=texts,
)
short = st.text(max_size=60).filter(lambda t: len(t.encode()) <= 255)
messages = st.tuples(st.binary(max_size=100), short, short, properties, st.sampled_from([9, 40]))


@given(st.lists(st.lists(messages, min_size=1, max_size=5), min_size=1, max_size=4))
def test_every_property_body_and_name_comes_back(batches: list[list[tuple]]) -> None:
    data = b""
    number = 11
    for content in batches:
        data += batch(
            number,
            [
                record(body, key, exchange, props, cut + 8)
                for body, key, exchange, props, cut in content
            ],
            stamp_ms=1_000_000 + number,
        )
        number += len(content)
    got = rows(data)
    sent = [message for content in batches for message in content]
    assert [row["offset"] for row in got] == list(range(11, number))
    for row, (body, key, exchange, props, _) in zip(got, sent, strict=True):
        assert row["value"] == body
        assert (row["key"], row["exchange"], row["topic"]) == (key, exchange, "q")
        assert (row["partition"], row["timestampType"]) == (0, 1)
        for name in ("content_type", "content_encoding", "delivery_mode", "priority",
                     "correlation_id", "reply_to", "expiration", "message_id", "user_id",
                     "app_id"):  # fmt: skip
            assert row[name] == getattr(props, name), name
        assert row["type"] == props.type_
        stamp = row["producer_timestamp"]
        assert (None if stamp is None else int(stamp.timestamp())) == props.timestamp
        headers = row["headers"]
        if props.headers is None:
            assert headers is None
        else:
            assert {h["key"]: h["value"].decode() for h in headers} == props.headers
        assert row["properties_raw"] == props.encode()


def test_what_the_broker_noted_is_told_and_headers_that_say_so_are_not() -> None:
    told = Properties(headers={"x-death": [{"queue": "q", "reason": "rejected"}]})
    noted = [
        with_note(record(b"a", properties=told), Note(dead, False, failed, keys))
        for dead, failed, keys in ((True, 0, []), (False, 3, []), (True, 1, [b"k", b""]))
    ]
    got = rows(batch(1, [record(b"a", properties=told), *noted, record(b"")]))
    assert [row["dead_letter"] for row in got] == [0, 1, 0, 1, 0]


def test_timestamp_is_when_the_broker_took_the_batch() -> None:
    data = batch(1, [record(b"a")], stamp_ms=1_700_000_000_123)
    (row,) = rows(data)
    assert row["timestamp"].timestamp() == 1_700_000_000.123


def test_rows_of_batches_that_hold_no_messages_are_skipped() -> None:
    command = batch(4, [b"settle"], kind=3)
    got = rows(batch(1, [record(b"a")]) + command + batch(2, [record(b"b")], kind=2))
    assert [(row["offset"], row["value"]) for row in got] == [(1, b"a"), (2, b"b")]


def test_no_batches_are_no_rows() -> None:
    assert rows(b"") == []


def test_batches_of_one_flavour_that_follow_each_other_are_decoded_together() -> None:
    one, other = record(b"a"), b"of a later release"
    data = batch(1, [one]) + batch(2, [one, one]) + batch(4, [other], flavour=7) + batch(5, [one])
    assert [(stored.flavour, list(stored.numbers)) for stored in parse(data)] == [
        (0, [1, 2, 3]),
        (7, [4]),
        (0, [5]),
    ]
    with pytest.raises(UnknownFlavour, match="messages 4 to 4 of queue 'q' are of flavour 7"):
        rows(data)


def test_a_body_larger_than_a_frame_is_joined() -> None:
    body = bytes(range(256)) * 2_000
    got = rows(batch(1, [record(b"small"), record(body, frame_max=8_192), record(b"")]))
    assert [row["value"] for row in got] == [b"small", body, b""]


def test_names_that_are_not_utf8_are_readable_and_kept_raw() -> None:
    raw = b"caf\xe9".decode("utf-8", "surrogateescape")
    props = Properties(message_id=raw)
    got = rows(batch(1, [record(b"", key=raw, properties=props), record(b"", key="é")]))
    assert [row["key"] for row in got] == ["caf\N{REPLACEMENT CHARACTER}", "é"]
    assert got[0]["message_id"] == "caf\N{REPLACEMENT CHARACTER}"
    assert got[0]["properties_raw"] == props.encode()


@pytest.mark.parametrize("stamp", [1_700_000_000_000, (1 << 64) - 1])
def test_a_timestamp_in_another_unit_is_null_not_nonsense(stamp: int) -> None:
    (row,) = rows(batch(1, [record(b"", properties=Properties(timestamp=stamp))]))
    assert row["producer_timestamp"] is None
    assert row["properties_raw"] == Properties(timestamp=stamp).encode()


def test_headers_of_every_type() -> None:
    table = {"s": "é", "x": b"\xff", "n": None, "t": True, "l": 5, "d": 1.5, "T": Timestamp(9),
             "D": Decimal(2, 314), "A": [1, "a", b"b"], "F": {"k": [None]}}  # fmt: skip
    (row,) = rows(batch(1, [record(b"", properties=Properties(headers=table))]))
    got = {header["key"]: header["value"] for header in row["headers"]}
    assert got["s"] == "é".encode()
    assert got["x"] == b"\xff"
    assert got["n"] is None
    assert {name: json.loads(got[name]) for name in "tldTAF"} == {
        "t": True, "l": 5, "d": 1.5, "T": 9, "A": [1, "a", "b"], "F": {"k": [None]},
    }  # fmt: skip
    assert header_bytes({"k": b"\xff"}) == '{"k": "\N{REPLACEMENT CHARACTER}"}'.encode()


@given(st.sets(st.sampled_from(COLUMNS), min_size=1), st.lists(messages, min_size=1, max_size=3))
def test_a_column_is_the_same_alone_and_among_others(names: set[str], content: list[tuple]) -> None:
    data = batch(
        1, [record(body, key, exchange, props) for body, key, exchange, props, _ in content]
    )
    every = rows(data)
    some = rows(data, arrow_schema(sorted(names)))
    assert some == [{name: row[name] for name in COLUMNS if name in names} for row in every]


@given(st.sets(st.sampled_from(COLUMNS), min_size=1))
def test_arrow_schema_is_exactly_what_spark_makes_of_its_own(names: set[str]) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    spark = spark_schema(sorted(names))
    assert to_arrow_schema(spark, timezone="UTC").equals(arrow_schema(sorted(names)))


# --- damage -------------------------------------------------------------------------------------

GOOD = batch(1, [record(b"one", "key", "ex", Properties(app_id="a")), record(b"two")])


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(at: int, change: int) -> None:
    damaged = GOOD[:at] + bytes([GOOD[at] ^ change]) + GOOD[at + 1 :]
    with pytest.raises(CorruptRecord):
        parse(damaged)


@given(st.integers(1, len(GOOD) - 1))
def test_a_cut_is_noticed(size: int) -> None:
    with pytest.raises(CorruptRecord):
        parse(GOOD[:size])


def test_properties_and_names_that_do_not_fill_their_frames_are_noticed() -> None:
    one = record(b"", "key", "ex", Properties(app_id="ab"))
    for good, bad in ((b"\x02ab", b"\x01ab"), (b"\x03key", b"\x02key"), (b"\x02ab", b"\x09ab")):
        assert one.count(good) == 1
        with pytest.raises(CorruptRecord):
            rows(batch(1, [record(b"before"), one.replace(good, bad), record(b"after")]))


@given(st.data())
def test_a_record_with_right_checksum_and_wrong_content_is_a_declared_error(
    data: st.DataObject,
) -> None:
    one = record(b"body", "key", "ex", Properties(app_id="a", headers={"k": "v"}, timestamp=5))
    at = data.draw(st.integers(0, len(one) - 1))
    value = data.draw(st.integers(0, 255))
    damaged = one[:at] + bytes([value]) + one[at + 1 :]
    raw = batch(1, [record(b"before"), damaged, record(b"after", properties=NOTHING)])
    try:
        got = rows(raw)
    except CorruptRecord:
        return
    assert [row["offset"] for row in got] == [1, 2, 3]
    assert (got[0]["value"], got[2]["value"]) == (b"before", b"after")
