"""The option `where`: what it keeps is what Spark keeps, and what it need not read is not read."""

from __future__ import annotations

import pickle
import random
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.fake import STAMP_MS, FakeBroker, record
from tests.support.broker import Broker
from warren.client import Connection
from warren.errors import ConfigError
from warren.spark.batch import QueueReader
from warren.spark.filters import (
    Ranges,
    constants_of,
    filtered,
    kept_rows,
    overlap,
    possible_ranges,
    united,
)
from warren.spark.options import offline_options, read_options
from warren.spark.partition import Rows
from warren.spark.queue_rows import read_queue
from warren.spark.schema import COLUMNS, OFFLINE_COLUMNS, arrow_schema, column_kinds
from warren.spark.where import (
    AllOf,
    ColumnTest,
    Condition,
    columns_of,
    is_true,
    may_be_true,
    parse_where,
)
from warren.wire.amqp091.properties import Properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = column_kinds(OFFLINE_COLUMNS)
DECIDING = [name for name in OFFLINE_COLUMNS if name != "headers"]
SCHEMA = arrow_schema(DECIDING)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TEXTS = [
    "", "a", "A", "ab", "aé", "é", "ｆ", "𝒳", "\U0010ffff", "\uffff", "it's", "a%b", "a_b", "x\ny",
    " a", "a ", "日本", "\x00", "a\x00b", "zz", "e\u0301", "ß", "a.b",
]  # fmt: skip
BLOBS = [b"", b"\x00", b"\x00\xff", b"a", b"\xff", b"\x80a", b"it's"]
INTS = [0, 1, -1, 2, 4, 9, 255, 2**31 - 1, -(2**31)]
LONGS = [*INTS, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
TIMES = [
    EPOCH, EPOCH - timedelta(microseconds=1), datetime(2026, 1, 31, 10, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 1, 31, 10, 0, 0, 999_999, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC),
    datetime(2026, 1, 31, 10, 0, 0, 123_000, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC),
]  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "string": TEXTS, "binary": BLOBS, "int": INTS, "long": LONGS, "timestamp": TIMES,
}  # fmt: skip


def written(kind: str, value: Any) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    if kind == "string":
        return "'" + value.replace("'", "''") + "'"
    if kind == "binary":
        return f"X'{value.hex()}'"
    if kind == "timestamp":
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    return str(value)


def literal(chance: random.Random, kind: str) -> str:
    pool = [*VALUES["long" if kind == "int" else kind], *([None] if chance.random() < 0.3 else [])]
    return written(kind, chance.choice(pool))


def pattern(chance: random.Random) -> str:
    parts = ["%", "_", "%%", *(text for text in TEXTS if "\x00" not in text)]
    return written("string", "".join(chance.choices(parts, k=chance.randint(0, 4))))


def a_test(chance: random.Random) -> str:
    column = chance.choice(DECIDING)
    kind = KINDS[column]
    no = chance.choice(["", "NOT "])
    shape = chance.randrange(6)
    name = chance.choice([column, f"`{column}`", column.upper()])
    if shape == 0:
        return f"{name} IS {no}NULL"
    if shape == 1:
        some = ", ".join(literal(chance, kind) for _ in range(chance.randint(1, 4)))
        return f"{name} {no}IN ({some})"
    if shape == 2:
        return f"{name} {no}BETWEEN {literal(chance, kind)} AND {literal(chance, kind)}"
    if shape == 3 and kind == "string":
        return f"{name} {no}LIKE {pattern(chance)}"
    sign = chance.choice(["=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="])
    return f"{name} {sign} {literal(chance, kind)}"


def expression(chance: random.Random, depth: int = 3) -> str:
    shape = chance.random()
    if depth == 0 or shape < 0.3:
        return a_test(chance)
    if shape < 0.5:
        return f"NOT ({expression(chance, depth - 1)})"
    word = chance.choice([" AND ", " OR "])
    return "(" + word.join(expression(chance, depth - 1) for _ in range(2)) + ")"


def some_rows(chance: random.Random, count: int) -> pa.RecordBatch:
    columns = [
        pa.array(
            [None if chance.random() < 0.2 else chance.choice(VALUES[KINDS[each.name]])
             for _ in range(count)],
            each.type,
        )
        for each in SCHEMA
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def plain(value: Any) -> Any:
    """A value of a row as tests of columns have it."""
    if not isinstance(value, datetime):
        return value
    return (value - EPOCH) // timedelta(microseconds=1)


def holds(condition: Condition, row: dict[str, Any]) -> bool:
    if isinstance(condition, ColumnTest):
        return is_true(condition, plain(row[condition.column]))
    each = (holds(part, row) for part in condition.parts)
    return all(each) if isinstance(condition, AllOf) else any(each)


def kept(text: str, rows: pa.RecordBatch) -> list[bool]:
    return kept_rows(parse_where(text, KINDS), rows, rows.num_rows).tolist()


@given(st.integers(0, 1 << 32))
def test_a_column_at_a_time_keeps_what_row_by_row_is_true(seed: int) -> None:
    chance = random.Random(seed)
    text, rows = expression(chance), some_rows(chance, 40)
    condition = parse_where(text, KINDS)
    one_by_one = [holds(condition, row) for row in rows.to_pylist()]
    assert kept(text, rows) == one_by_one, text
    narrow = arrow_schema(("value",))
    some = filtered(condition, rows.slice(7, 20), narrow)
    assert some.schema == narrow
    wanted = [row["value"] for row in rows.to_pylist()[7:27] if holds(condition, row)]
    assert some.to_pydict()["value"] == wanted


@pytest.mark.spark
def test_what_is_kept_is_what_spark_keeps(spark: SparkSession) -> None:
    chance = random.Random(7)
    rows = some_rows(chance, 60)
    texts = [expression(chance) for _ in range(300)]
    table = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1)
    for first in range(0, len(texts), 50):
        some = texts[first : first + 50]
        said = table.selectExpr(*[f"({text}) <=> true AS e{n}" for n, text in enumerate(some)])
        of_spark = said.collect()
        for n, text in enumerate(some):
            assert kept(text, rows) == [row[n] for row in of_spark], text


def test_null_is_neither_true_nor_false() -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array(["a", None, "b"])], schema=arrow_schema(("key",))
    )  # fmt: skip
    for text, wanted in {
        "key = 'a'": [True, False, False],
        "NOT key = 'a'": [False, False, True],
        "NOT (key = 'a' OR key IS NULL)": [False, False, True],
        "key NOT IN ('a', NULL)": [False, False, False],
        "key IN ('a', NULL)": [True, False, False],
        "key <=> NULL": [False, True, False],
        "NOT key <=> 'a'": [False, True, True],
        "key = NULL OR NOT key = NULL": [False, False, False],
        "key NOT LIKE 'a%'": [False, False, True],
    }.items():
        assert kept(text, rows) == wanted, text


def test_of_several_queues_those_without_wanted_rows_are_not_asked_for() -> None:
    broker = FakeBroker()
    for name in ("eu.orders", "us.orders", "us.returns"):
        broker.queue(name).put(*[record(b"%d" % number) for number in range(10)])
    options = {"subscribePattern": ".*", "where": "topic LIKE 'us.%' AND topic <> 'us.returns'"}
    reader = QueueReader(read_options(options, streaming=False), broker.connect)
    (part,) = reader.partitions()
    assert isinstance(part, Rows)
    assert [(share.queue, share.runs) for share in part.shares] == [("us.orders", [(0, 9)])]
    assert broker.calls == ["queues", "status"]
    nothing = read_options(options | {"where": "topic = 'nowhere'"}, streaming=False)
    (part,) = QueueReader(nothing, broker.connect).partitions()
    assert list(QueueReader(nothing, broker.connect).read(part)) == []
    assert broker.calls == ["queues", "status", "queues"]


def test_messages_whose_numbers_are_not_wanted_are_not_read() -> None:
    broker = FakeBroker()
    broker.queue("q").put(*[record(b"%d" % number) for number in range(5_000)])

    def read(**given: str) -> tuple[list[bytes], int]:
        options = read_options({"subscribe": "q", "columns": "value", **given}, streaming=False)
        reader, before = QueueReader(options, broker.connect), len(broker.calls)
        got = [
            row["value"]
            for part in reader.partitions()
            for rows in reader.read(part)
            for row in rows.to_pylist()
        ]
        return got, broker.calls[before:].count("read")

    all_of_it, reads = read(maxRecordsPerPartition="100")
    assert (len(all_of_it), reads) == (5_000, 50)
    where = "offset BETWEEN 150 AND 251 AND offset NOT IN (151) OR offset = 4000"
    some, reads = read(maxRecordsPerPartition="100", where=where)
    assert some == [b"%d" % n for n in (150, *range(152, 252), 4_000)]
    assert reads == 3


def test_only_rows_that_are_kept_leave_the_task_and_the_value_is_left_where_it_is() -> None:
    broker = FakeBroker()
    for number in range(200):
        rich = Properties(message_id=f"m{number}", priority=number % 10)
        broker.queue("q").put(record(b"%d" % number, key="é" if number % 50 == 0 else "a",
                                     properties=rich))  # fmt: skip
    options = read_options(
        {"subscribe": "q", "columns": "value", "where": "KEY = 'é' AND priority IS NOT NULL"}, False
    )
    reader = QueueReader(options, broker.connect)
    batches = [rows for part in reader.partitions() for rows in reader.read(part)]
    assert [row for rows in batches for row in rows.to_pylist()] == [
        {"value": b"%d" % number} for number in (0, 50, 100, 150)
    ]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(0, 1 << 32))
def test_no_wanted_message_lies_outside_what_is_planned(stamps: list[int], seed: int) -> None:
    stamps.sort()
    chance = random.Random(seed)

    def near(kind: str) -> str:
        if kind == "offset":
            return str(chance.randint(-2, len(stamps) + 1))
        micro = (STAMP_MS + chance.randint(-2, 42)) * 1000 + chance.choice([0, 1, 999])
        return written("timestamp", EPOCH + timedelta(microseconds=micro))

    def one() -> str:
        column = chance.choice(["offset", "timestamp", "topic", "key"])
        if column in ("topic", "key"):
            return f"{column} {chance.choice(['=', '<>', '<', '>='])} 'q'"
        sign = chance.choice(["=", "<=>", "<>", "<", "<=", ">", ">=", "IN", "NOT IN"])
        if sign.endswith("IN"):
            return f"{column} {sign} ({near(column)}, {near(column)})"
        return f"{column} {sign} {near(column)}"

    text = chance.choice([" AND ", " OR "]).join(
        f"{chance.choice(['', 'NOT '])}({one()} {chance.choice(['AND', 'OR'])} {one()})"
        for _ in range(2)
    )
    condition = parse_where(text, KINDS)
    constants = constants_of("q")

    def first_at(stamp_ms: int) -> int:
        return bisect_left(stamps, stamp_ms - STAMP_MS)

    ranges = possible_ranges(condition, constants, first_at)
    planned = {n for n in range(len(stamps)) if any(low <= n <= high for low, high in ranges)}
    rows = [
        {"offset": n, "timestamp": (STAMP_MS + stamp) * 1000, "topic": "q", "key": "q"}
        for n, stamp in enumerate(stamps)
    ]
    wanted = {n for n, row in enumerate(rows) if holds(condition, row)}
    assert wanted <= planned, text
    if wanted:
        assert may_be_true(condition, constants)
    if columns_of(condition) <= {"offset", "timestamp", "topic"} and "<>" not in text:
        ups = {"NOT", "NOT IN"}
        if not any(each in text for each in ups) and "timestamp IN" not in text:
            assert planned == wanted, text


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("offset < 5", [(0, 4)]),
        ("offset >= 5 AND offset <= 7 OR offset IN (8, 20)", [(5, 8), (20, 20)]),
        ("offset > 9223372036854775807", []),
        ("offset = -1 OR offset IS NULL", []),
        ("topic = 'p' AND offset = 3", []),
        ("(topic = 'q' OR offset = 3) AND partition = 0", [(0, 2**63 - 1)]),
        ("key = 'x' OR offset = 3", [(0, 2**63 - 1)]),
        ("timestamp >= TIMESTAMP '1970-01-01 00:00:05Z'", [(5000, 2**63 - 1)]),
        ("timestamp > TIMESTAMP '1970-01-01 00:00:05Z'", [(5001, 2**63 - 1)]),
        ("timestamp >= TIMESTAMP '1970-01-01 00:00:05.000001Z'", [(5001, 2**63 - 1)]),
        ("timestamp < TIMESTAMP '1970-01-01 01:00:00.000001+01:00'", [(0, 0)]),
        ("timestamp < TIMESTAMP '1970-01-01 01:00:00+01:00'", []),
        ("timestamp = TIMESTAMP '1970-01-01 00:00:05.000001Z'", []),
        ("timestamp = TIMESTAMP '1970-01-01 00:00:05Z'", [(5000, 5000)]),
        (
            "timestamp IN (TIMESTAMP '1970-01-01 00:00:05Z', TIMESTAMP '1970-01-01 00:00:04.5Z',"
            " TIMESTAMP '1970-01-01 00:00:09.0001Z')",
            [(4500, 5000)],
        ),
        ("timestamp IN (NULL)", []),
    ],
)
def test_what_is_planned(text: str, ranges: Ranges) -> None:
    """Message 0 came in 1970, and one each millisecond since."""
    condition = parse_where(text, KINDS)
    assert possible_ranges(condition, constants_of("q"), lambda ms: max(0, ms)) == ranges


@given(*[st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6) for _ in range(2)])
def test_ranges_are_sets_of_numbers(one: Ranges, other: Ranges) -> None:
    def numbers(ranges: Ranges) -> set[int]:
        return {n for low, high in ranges for n in range(low, high + 1)}

    ours, theirs = united(one), united(other)
    assert numbers(ours) == numbers(one)
    assert numbers(overlap(ours, theirs)) == numbers(one) & numbers(other)
    assert all(high + 1 < low for (_, high), (low, _) in zip(ours, ours[1:], strict=False))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "at its end"),
        ("key", "a comparison"),
        ("key = ", "'text' or NULL for column 'key'"),
        ("key = 5", "before '5'; allowed is 'text'"),
        ("priority = '5'", "a whole number"),
        ("offset > 3.5", "before '3.5'"),
        ("offset > 9223372036854775808", "a whole number of 64 bits"),
        ("offset = 1e3", "before '1e3'"),
        ("colour = 'red'", "key, value, topic"),
        ("key = 'a", "without backslashes"),
        (r"key LIKE 'a\%'", "without backslashes"),
        ('key = "a"', "before '\"a\"'"),
        ("key = 'a' AND", "at its end"),
        ("key = 'a' key = 'b'", "AND, OR or the end"),
        ("(key = 'a'", r"at its end; allowed is \)"),
        ("value LIKE 'a%'", "of text, LIKE"),
        ("value = X'0'", "without backslashes|before"),
        ("timestamp > '2026-01-31'", "with a zone"),
        ("timestamp > TIMESTAMP '2026-01-31 10:00:00'", "with a zone"),
        ("timestamp > TIMESTAMP '2026-02-31 10:00:00Z'", "with a zone"),
        ("headers = 'a'", "nothing or NULL"),
        ("upper(key) = 'A'", 'before "upper'),
        ("1 = 1", "before '1 = 1'"),
        ("key IN ()", "'text'"),
        ("NOT " * 5_000 + "key = 'a'", "no more than 50 brackets and negations"),
        ("(" * 51 + "key = 'a'" + ")" * 51, "no more than 50 brackets and negations"),
    ],
)
def test_what_is_not_surely_the_same_is_refused(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        read_options({"subscribe": "q", "where": text}, streaming=False)


def test_conditions_go_to_the_tasks_however_deep_they_are() -> None:
    text = "key = 'a'"
    for number in range(50):
        text = f"({text} {['AND', 'OR'][number % 2]} offset <> {number})"
    options = read_options({"subscribe": "q", "where": text}, streaming=False)
    assert pickle.loads(pickle.dumps(options)) == options
    text = " OR ".join(f"offset = {number}" for number in range(5_000))
    options = read_options({"subscribe": "q", "where": text}, streaming=False)
    assert pickle.loads(pickle.dumps(options)) == options


def test_headers_are_there_or_not() -> None:
    broker = FakeBroker()
    broker.queue("q").put(record(b"a", properties=Properties(headers={"x": 1})), record(b"b"))
    options = {"subscribe": "q", "columns": "value", "where": "headers IS NULL"}
    reader = QueueReader(read_options(options, streaming=False), broker.connect)
    got = [rows.to_pydict() for part in reader.partitions() for rows in reader.read(part)]
    assert got == [{"value": [b"b"]}]


def test_which_queries_have_it() -> None:
    assert read_options({"subscribe": "q"}, streaming=False).where is None
    where = {"where": "state = 'ready'"}
    assert offline_options({"dataDirectory": "/d"} | where).where is not None
    with pytest.raises(ConfigError, match="one of key"):
        read_options({"subscribe": "q"} | where, streaming=False)
    with pytest.raises(ConfigError, match="unknown option 'where'"):
        read_options({"subscribe": "q", "groupId": "g", "where": "key = ''"}, streaming=True)
    assert set(COLUMNS) <= set(KINDS)


@pytest.mark.spark
def test_why_spark_is_not_left_to_hand_over_filters(spark: SparkSession) -> None:
    """Spark has one plan for a frame, which is that of the filters it handed over last.

    So a source that takes them gives a query the rows of another one. When this fails, Spark has
    changed, and `pushFilters` may be worth another look.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, InputPartition

    class Taker(DataSourceReader):
        def __init__(self) -> None:
            self.taken: list[Any] = []

        def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
            for each in filters:
                if isinstance(each, EqualTo):
                    self.taken.append(each.value)
                yield each

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
            yield from ((key,) for key in "abc" if all(key == value for value in self.taken))

    class Letters(DataSource):
        @classmethod
        def name(cls) -> str:
            return "letters"

        def schema(self) -> str:
            return "letter string"

        def reader(self, schema: Any) -> Taker:
            return Taker()

    spark.dataSource.register(Letters)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        table = spark.read.format("letters").load()
        assert table.where("letter = 'a'").count() == 1
        assert table.count() == 1, "there are three"
        both = table.where("letter = 'a'").union(table.where("letter = 'b'"))
        assert [row.letter for row in both.collect()] == ["b"], "there is an a, too"
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.spark
def test_the_guide_shows_code_that_runs(
    spark: SparkSession, broker: Broker, connection: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    guide = Path(__file__).resolve().parent.parent.parent / "docs" / "spark.md"
    section = guide.read_text(encoding="utf-8").split("\n## Some rows only\n")[1]
    code = section.split("```python\n")[1].split("```")[0]
    channel = connection.channel()
    arguments = {"x-queue-type": "quorum"}
    for queue, body in (("eu.orders", b"wanted"), ("eu.returns", b"another")):
        channel.queue_declare(queue, durable=True, arguments=arguments)
        assert channel.publish_many("", queue, [body], Properties(priority=6).encode()) == []
    exec(compile(code, str(guide), "exec"), {"spark": spark, "URI": broker.url})
    for queue in ("eu.orders", "eu.returns"):
        channel.queue_delete(queue)
    shown = capsys.readouterr().out
    assert b"wanted".hex(" ").upper() in shown and shown.count("[") == 1


@pytest.mark.spark
def test_a_query_of_a_broker_has_the_rows_that_are_asked_for(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str
) -> None:
    channel = connection.channel()
    channel.confirm_select()
    for number in range(300):
        properties = Properties(delivery_mode=2, message_id=f"m-{number}", priority=number % 3)
        if number % 7 == 0:
            properties = Properties(delivery_mode=2)
        channel.publish("", queue, b"%d" % number, properties.encode())
    assert channel.wait_for_confirms() == []
    source = spark.read.format("warren").option("amqp.uri", broker.url).option("subscribe", queue)
    all_of_them = source.load()
    middle = all_of_them.where("offset = 150").first()
    assert middle is not None
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for text in (
            "message_id LIKE 'm-1%' AND priority <> 1",
            "message_id IS NULL OR offset >= 290",
            "NOT (priority = 1 OR offset < 100)",
            f"topic = '{queue}' AND value IN (X'3137', X'3138')",
            "topic = 'another'",
            f"timestamp <= {written('timestamp', middle['timestamp'].astimezone(UTC))}",
            f"timestamp > {written('timestamp', middle['timestamp'].astimezone(UTC))}",
        ):
            wanted = [row.offset for row in all_of_them.where(text).orderBy("offset").collect()]
            some = source.option("columns", "offset").option("where", text).load()
            assert [row.offset for row in some.orderBy("offset").collect()] == wanted, text
            arrow = read_queue(queue, broker.url, ("offset",), {"where": text}).read_all()
            assert arrow.to_pydict() == {"offset": wanted}
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
