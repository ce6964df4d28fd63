"""Rows to messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tests.spark.fake import batch, record
from warren.errors import ConfigError
from warren.spark.columns import to_arrow
from warren.spark.options import WriteOptions, write_options
from warren.spark.outgoing import Outgoing, check_columns, messages
from warren.spark.records import parse
from warren.spark.schema import COLUMNS, arrow_schema
from warren.wire.amqp091.properties import Properties, decode_properties

TO_QUEUE = write_options({"topic": "q"})
ANYWHERE = write_options({})


def send(options: WriteOptions = TO_QUEUE, **columns: list[object]) -> list[Outgoing]:
    rows = pa.RecordBatch.from_pydict(columns)
    check_columns(rows.schema.names, options)
    return list(messages(rows, options, "query:3:0", 10))


def test_a_plain_row_is_persistent_and_has_a_name_of_its_own() -> None:
    first, second = send(value=[b"a", "é"])
    assert (first.exchange, first.key, first.body, second.body) == ("", "q", b"a", "é".encode())
    got = decode_properties(first.properties, 0, len(first.properties))
    assert (got.delivery_mode, got.message_id) == (2, "query:3:0:10")
    got = decode_properties(second.properties, 0, len(second.properties))
    assert got.message_id == "query:3:0:11"


def test_every_column_becomes_its_property() -> None:
    (one,) = send(
        value=[b""], message_id=["m"], correlation_id=["c"], content_type=["t"],
        content_encoding=["e"], type=["y"], app_id=["a"], user_id=["u"], reply_to=["r"],
        expiration=["60"], priority=[7], delivery_mode=[1],
        producer_timestamp=[datetime(2020, 1, 1, tzinfo=UTC)],
        headers=[[{"key": "h", "value": b"v"}, {"key": "raw", "value": b"\xff"},
                  {"key": "n", "value": None}]],
    )  # fmt: skip
    expected = Properties(
        message_id="m", correlation_id="c", content_type="t", content_encoding="e", type_="y",
        app_id="a", user_id="u", reply_to="r", expiration="60", priority=7, delivery_mode=1,
        timestamp=1_577_836_800,
        headers={"h": "v", "raw": b"\xff".decode("utf-8", "surrogateescape"), "n": None},
    )  # fmt: skip
    assert one.properties == expected.encode()


def test_nulls_are_not_set() -> None:
    (one,) = send(value=[b""], message_id=[None], app_id=[None], headers=[None], priority=[None])
    assert one.properties == Properties(delivery_mode=2, message_id="query:3:0:10").encode()


def test_targets() -> None:
    both = {"value": [b""], "key": ["k"], "exchange": ["e"], "topic": ["t"]}
    assert send(TO_QUEUE, **both)[0][:2] == ("", "q")
    assert send(write_options({"exchange": "x"}), **both)[0][:2] == ("x", "k")
    assert send(ANYWHERE, **both)[0][:2] == ("e", "k")
    assert send(ANYWHERE, value=[b""], exchange=[None], topic=["t"])[0][:2] == ("", "t")
    assert send(ANYWHERE, value=[b""], exchange=["e"], key=[None])[0][:2] == ("e", "")


def test_what_was_browsed_can_be_published_again_unchanged() -> None:
    properties = Properties(headers={"n": 5}, message_id="m", timestamp=1 << 60, cluster_id="c")
    data = batch(1, [record(b"body", "key", "ex", properties)])
    browsed = to_arrow(parse(data)[0], "origin", arrow_schema(COLUMNS))
    check_columns(browsed.schema.names, ANYWHERE)
    (one,) = messages(browsed, ANYWHERE, "p", 0)
    assert one == Outgoing("ex", "key", properties.encode(), b"body")


def test_what_was_edited_is_published_as_edited_and_the_rest_as_it_was() -> None:
    properties = Properties(
        headers={"n": 5, "bad\udcff": "\udcfe", "s": "t"}, message_id="m", timestamp=1 << 60,
        cluster_id="c", app_id="\udcff", priority=3, content_type="a/b", expiration="60000",
    )  # fmt: skip
    data = batch(1, [record(b"body", "key", "ex", properties)])
    browsed = to_arrow(parse(data)[0], "origin", arrow_schema(COLUMNS))
    (row,) = browsed.to_pylist()
    row |= {"message_id": "new", "priority": None, "type": "y", "expiration": None}
    row["headers"][2]["value"] = b"u"
    edited = pa.RecordBatch.from_pylist([row], schema=browsed.schema)
    (one,) = messages(edited, ANYWHERE, "p", 0)
    properties.message_id, properties.priority, properties.type_ = "new", None, "y"
    properties.expiration = None
    properties.headers = {"n": 5, "bad\udcff": "\udcfe", "s": "u"}
    assert one.properties == properties.encode()


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"key": ["k"]}, "'value' with the body is required"),
        ({"value": [b""], "country": ["FR"]}, "column 'country' has no place"),
        ({"value": [b"", None]}, "row 11: 'value' is null"),
        ({"value": [b""], "priority": [256]}, "row 10: "),
        ({"value": [b""], "app_id": ["x" * 256]}, "row 10: "),
        ({"value": [b""], "properties_raw": [b"\xff\xff"]}, "row 10: "),
        ({"value": [b""], "headers": [[{"key": None, "value": b"x"}]]}, "without a name"),
        ({"value": [b""], "headers": [[None]], "properties_raw": [b"\0\0"]}, "without a name"),
    ],
)
def test_what_cannot_be_a_message_is_refused(columns: dict[str, list], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        send(TO_QUEUE, **columns)
    assert text in str(caught.value)


def test_rows_without_a_target_are_refused() -> None:
    with pytest.raises(ConfigError, match="where to"):
        send(ANYWHERE, value=[b""])
    for long in ({"exchange": ["e" * 256]}, {"exchange": ["e"], "key": ["\u20ac" * 86]}):
        with pytest.raises(ConfigError, match="row 10: .* is longer than 255 bytes"):
            send(ANYWHERE, value=[b""], **long)
    with pytest.raises(ConfigError, match="row 10: both 'exchange' and 'topic' are null"):
        send(ANYWHERE, value=[b""], exchange=[None], topic=[None])
