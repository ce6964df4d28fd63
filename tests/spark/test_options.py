"""Options: what is not understood is refused, with the names that are."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from warren.client.uri import Tls, parse_uri
from warren.errors import ConfigError
from warren.spark.options import (
    EARLIEST,
    LATEST,
    UNBOUNDED,
    Bound,
    check_read,
    read_options,
    staged_options,
    table_columns,
    write_options,
)
from warren.spark.schema import COLUMNS
from warren.spark.source import WarrenDataSource

QUEUE = {"subscribe": "q"}
GROUP = {"subscribe": "q", "groupId": "g"}


def test_defaults_of_a_batch_read() -> None:
    options = read_options(QUEUE, streaming=False)
    assert (options.queue, options.queues, options.pattern) == ("q", ("q",), "")
    assert options.uris == ("amqp://guest:guest@localhost:5672/",)
    assert options.retry_seconds == 300
    assert set(COLUMNS) - set(options.columns) == {"headers"}


def test_defaults_of_a_streaming_read() -> None:
    options = read_options(GROUP, streaming=True)
    assert options.group == "g"
    assert options.rows_max == 100_000
    assert options.lease_ms == 0, "the broker waits for ever"
    assert not options.new_checkpoint
    assert options.fail_on_data_loss


def test_names_are_not_case_sensitive() -> None:
    options = read_options({"SUBSCRIBE": "q", "groupid": "g", "MaxOffsetsPerTrigger": "7"}, True)
    assert options.rows_max == 7


def test_what_spark_adds_is_not_ours_to_judge() -> None:
    read_options(GROUP | {"checkpointLocation": "/c", "path": "/p"}, streaming=True)


@pytest.mark.parametrize(
    ("given", "streaming", "text"),
    [
        ({}, False, "'subscribe' is required"),
        (QUEUE, True, "'groupId' is required"),
        (QUEUE | {"maxOffsetPerTrigger": "5"}, True, "unknown option 'maxoffsetpertrigger'"),
        (GROUP, False, "unknown option 'groupid'"),
        (QUEUE | {"mode": "steal"}, False, "allowed: browse (spark.read), drain or"),
        (QUEUE | {"mode": "drain"}, False, "spark.read, which can only browse"),
        (GROUP | {"mode": "browse"}, True, "spark.readStream, which can only drain"),
        (QUEUE | {"includeValue": "yes"}, False, "'includeValue' is 'yes'; allowed: true or false"),
        (GROUP | {"maxOffsetsPerTrigger": "0"}, True, "a whole number from 1"),
        (GROUP | {"maxOffsetsPerTrigger": str(UNBOUNDED + 1)}, True, "a whole number from 1"),
        (GROUP | {"maxOffsetsPerTrigger": "²"}, True, "a whole number from 1"),
        (GROUP | {"leaseTimeout": "soon"}, True, "a time such as 90s"),
        (QUEUE | {"amqp.uri": "http://x"}, False, "allowed: amqp://"),
    ],
)
def test_bad_options_are_refused(given: dict[str, str], streaming: bool, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(given, streaming)
    assert text in str(caught.value)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="maxOffsetsPerTrigger"):
        read_options(GROUP | {"bogus": "1"}, streaming=True)
    with pytest.raises(ConfigError, match="unknown option 'bogus'"):
        table_columns({"bogus": "1"})


def test_columns() -> None:
    assert table_columns({"columns": "value, key"}) == ("value", "key")
    lean = table_columns({"includeValue": "false", "includeHeaders": "true"})
    assert set(COLUMNS) - set(lean) == {"value"}
    with pytest.raises(ConfigError, match="'columns' is 'value,body'; allowed: .*app_id"):
        table_columns({"columns": "value,body"})
    with pytest.raises(ConfigError, match="names all columns"):
        table_columns({"columns": "value", "includeHeaders": "true"})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("250", 250),
        ("250ms", 250),
        ("90s", 90_000),
        ("30m", 1_800_000),
        ("2h", 7_200_000),
    ],
)
def test_lease_lengths(text: str, milliseconds: int) -> None:
    assert read_options(GROUP | {"leaseTimeout": text}, True).lease_ms == milliseconds


def test_write_options() -> None:
    assert write_options({"topic": "q"}).queue == "q"
    assert write_options({"exchange": "e", "mandatory": "false"}).mandatory is False
    with pytest.raises(ConfigError, match="exclude each other"):
        write_options({"topic": "q", "exchange": "e"})
    with pytest.raises(ConfigError, match="unknown option 'subscribe'"):
        write_options({"subscribe": "q"})


def test_users_passwords_and_certificates_go_into_each_address() -> None:
    given = {
        "amqp.uri": "amqps://a/v, amqps://old:one@b:1/v?heartbeat=5",
        "amqp.user": "me@here",
        "amqp.password": "a,b:/",
        "amqp.cacertfile": "/etc/ca.pem",
        "amqp.verify": "verify_none",
    }
    addresses = [parse_uri(uri) for uri in read_options(QUEUE | given, streaming=False).uris]
    assert [(each.host, each.port, each.vhost) for each in addresses] == [
        ("a", 5671, "v"),
        ("b", 1, "v"),
    ]
    assert {(each.user, each.password) for each in addresses} == {("me@here", "a,b:/")}
    assert {each.tls for each in addresses} == {Tls("/etc/ca.pem", "", "", False, "")}
    assert addresses[1].heartbeat_seconds == 5


@pytest.mark.parametrize(
    "given",
    [
        {"amqp.uri": "amqp://me:secret@h:port"},
        {"amqp.uri": "http://me:secret@h"},
        {"amqp.uri": "amqp://h", "amqp.cacertfile": "x"},
        {"amqp.uri": "amqps://h", "amqp.verify": "perhaps"},
    ],
)
def test_a_wrong_address_is_told_without_its_password(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"'amqp\.uri' is wrong") as caught:
        read_options(QUEUE | given, streaming=False)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (QUEUE | {"minPartitions": "x"}, "a whole number from 1"),
        (GROUP | {"maxBytesPerTrigger": "x"}, "a whole number from 1"),
        ({"groupId": "g"}, "'subscribe' is required"),
        ({}, "'subscribe' is required"),
    ],
)
def test_what_is_wrong_either_way_is_refused_when_a_frame_is_made(
    given: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        WarrenDataSource(given).schema()


def test_what_only_a_stream_lacks_is_told_by_its_reader() -> None:
    """Spark loses what `streamReader` raises behind an error of its own."""
    source = WarrenDataSource(QUEUE)
    reader = source.streamReader(source.schema())
    for ask in (
        lambda: reader.initialOffset(),
        lambda: reader.partitions({}, {}),
        lambda: reader.latestOffset({}, reader.getDefaultReadLimit()),
    ):
        with pytest.raises(ConfigError, match="'groupId' is required"):
            ask()
    reader.stop()


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        ({}, EARLIEST, LATEST),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, EARLIEST, LATEST),
        (
            {"startingOffsets": '{"q":{"0":-2}}', "endingOffsets": '{"q":{"0":-1}}'},
            EARLIEST,
            LATEST,
        ),
        ({"startingOffsets": '{"q":{"0":7}}', "endingTimestamp": "99"}, Bound(7), Bound(-1, 99)),
        ({"startingTimestamp": "5", "endingOffsets": '{"q":{"0":9}}'}, Bound(-1, 5), Bound(9)),
    ],
)
def test_where_a_batch_query_begins_and_ends(
    given: dict[str, str], start: Bound, end: Bound
) -> None:
    options = read_options({"subscribe": "q"} | given, streaming=False)
    assert (options.start.of("q"), options.end.of("q")) == (start, end)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"endingOffsets": "earliest"}, 'latest, or JSON such as {"q": {"0": 100}}'),
        ({"startingOffsets": "latest"}, "earliest, or JSON"),
        ({"endingOffsets": '{"p":{"0":1}}'}, "latest, or JSON"),
        ({"endingOffsets": '{"q":{"0":-2}}'}, "latest, or JSON"),
        ({"endingOffsets": '{"q":{"0":true}}'}, "latest, or JSON"),
        ({"endingTimestamp": "now"}, "milliseconds since 1970"),
        ({"endingTimestamp": "1", "endingOffsets": "latest"}, "exclude each other"),
    ],
)
def test_bounds_that_are_none(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options({"subscribe": "q"} | given, streaming=False)
    assert text in str(caught.value)
    with pytest.raises(ConfigError, match="unknown option"):
        read_options({"subscribe": "q", "groupId": "g"} | given, streaming=True)


@pytest.mark.parametrize(
    ("given", "queues", "pattern"),
    [
        ({"subscribe": "a, b,c"}, ("a", "b", "c"), ""),
        ({"assign": '{"a,b": [0], "c": [0]}'}, ("a,b", "c"), ""),
        ({"subscribePattern": "orders-.*"}, (), "orders-.*"),
    ],
)
def test_queues_are_named_one_by_one_or_by_a_pattern(
    given: dict[str, str], queues: tuple[str, ...], pattern: str
) -> None:
    options = read_options(given, streaming=False)
    assert (options.queues, options.pattern) == (queues, pattern)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"subscribe": "a,,b"}, "names of queues, each once"),
        ({"subscribe": "a,a"}, "names of queues, each once"),
        ({"assign": "a"}, 'JSON such as {"orders": [0], "returns": [0]}'),
        ({"assign": '{"a": [0, 1]}'}, "a queue has the partition 0"),
        ({"assign": "{}"}, "names of queues, each once"),
        ({"subscribePattern": "a("}, "a regular expression (missing )"),
        ({"subscribe": "a", "subscribePattern": "b"}, "'subscribe' and 'subscribePattern' exclude"),
        ({"subscribe": "a,b#incarnation"}, "is read by itself alone"),
        ({"subscribe": "a,b", "startingOffsets": '{"a":{"0":1}}'}, "earliest, or JSON"),
    ],
)
def test_names_of_queues_that_are_none(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(given, streaming=False)
    assert text in str(caught.value)


def test_each_queue_has_bounds_of_its_own() -> None:
    offsets = '{"a":{"0":7},"b":{"0":-2}}'
    options = read_options({"subscribe": "a,b", "startingOffsets": offsets}, streaming=False)
    assert (options.start.of("a"), options.start.of("b")) == (Bound(7), EARLIEST)
    options = read_options({"subscribePattern": ".*", "startingOffsets": offsets}, streaming=False)
    assert (options.start.of("a"), options.start.of("other")) == (Bound(7), EARLIEST)


STAGED = {"mode": "staged", "subscribe": "q", "stagingDirectory": "/d"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"stagingDirectory": ""}, "'stagingDirectory' is required: where messages lie"),
        ({"stagingDirectory": "d"}, "'stagingDirectory' is 'd'; allowed: an absolute path"),
        ({"subscribe": "q,r"}, "reads one queue: a query for each"),
        ({"subscribe": ""}, "'subscribe' is required"),
        ({"groupId": "g"}, "unknown option 'groupid'; known are: "),
        ({"subscribePattern": "q.*"}, "unknown option 'subscribepattern'"),
        ({"maxOffsetsPerTrigger": "0"}, "a whole number from 1"),
        ({"columns": "state"}, "allowed: names"),
    ],
)
def test_bad_options_of_staged_queries_are_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        staged_options(STAGED | given)
    assert text in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        check_read(STAGED | given)
    assert text in str(caught.value)


def test_staged_queries_have_the_limits_of_others() -> None:
    options = staged_options(STAGED | {"maxOffsetsPerTrigger": "5", "columns": "value"})
    assert (options.queue, str(options.folder), options.rows_max) == ("q", "/d", 5)
    assert options.columns == ("value",) and table_columns(STAGED) == table_columns(QUEUE)
    with pytest.raises(ConfigError, match="'staged' is for spark.readStream"):
        read_options(STAGED, streaming=False)


def test_a_drain_whose_tasks_write_files_has_a_row_for_each() -> None:
    given = GROUP | {"ArchiveDirectory": "/data/orders", "columns": "value"}
    options = read_options(given, streaming=True)
    assert (str(options.archive), options.columns) == ("/data/orders", ("value",))
    names = WarrenDataSource(given).schema().fieldNames()
    assert names == ["staged_file", "part", "parts", "rows", "bytes"]
    assert WarrenDataSource(GROUP | {"columns": "value"}).schema().fieldNames() == ["value"]
    with pytest.raises(ConfigError, match="'archiveDirectory' is 'orders'; allowed: an absolute"):
        read_options(GROUP | {"archiveDirectory": "orders"}, streaming=True)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (QUEUE, "with spark.read, which takes nothing"),
        (STAGED, "with mode 'staged'"),
        ({"dataDirectory": "/d"}, "with 'dataDirectory'"),
    ],
)
def test_only_a_drain_has_its_tasks_write_files(given: dict[str, str], where: str) -> None:
    given = given | {"archiveDirectory": "/data/orders"}
    source = WarrenDataSource(given)
    with pytest.raises(ConfigError, match=f"'archiveDirectory' does not go {where}: it is for a"):
        if "mode" in given:
            source.schema()
        else:
            source.reader(StructType([]))
