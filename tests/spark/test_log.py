"""`mode=log`, which follows queues, and when a batch begins: over a broker in memory."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from tests.spark.driver import POINTS, Checkpoint, Killed, Query
from tests.spark.fake import STAMP_MS, FakeBroker, record
from tests.spark.test_stream import bodies, filled
from warren.errors import ConfigError
from warren.spark.batch import QueueReader
from warren.spark.broker import Fenced, RowsLost
from warren.spark.log_stream import LogStreamReader
from warren.spark.options import read_options
from warren.spark.stream import QueueStreamReader

EARLIEST = {"mode": "log", "startingOffsets": "earliest"}


def follower(broker: FakeBroker, disk: Checkpoint, **options: str) -> Query:
    return Query(broker.connect, disk, **EARLIEST | options)


def test_a_run_sees_everything_and_takes_nothing() -> None:
    broker = filled(10)
    broker.queue("q").ready = [0, 1, 2]  # consumers hold the rest
    for disk in (Checkpoint(), Checkpoint()):
        follower(broker, disk, maxOffsetsPerTrigger="4").run()
        assert [len(rows) for rows in disk.sink.values()] == [4, 4, 2]
        assert disk.rows() == bodies(10)
        assert disk.start == {"q#next": 0, "q#incarnation": 0}
        assert disk.offsets[-1] == {"q#next": 10, "q#incarnation": 0}
    assert len(broker.queue("q").messages) == 10 and not broker.queue("q").groups


def test_a_query_begins_with_what_comes_next_if_nothing_else_is_said() -> None:
    broker, disk = filled(3), Checkpoint()
    Query(broker.connect, disk, mode="log").run()
    assert disk.rows() == []
    broker.queue("q").put(record(b"new"))
    Query(broker.connect, disk, mode="log").run()
    assert disk.rows() == [b"new"]


@pytest.mark.parametrize(
    ("offsets", "first"),
    [("latest", 10), ("earliest", 2), ('{"q": {"0": 7}}', 7), ('{"q": {"0": 1}}', 2)]
    + [('{"q": {"0": -2}}', 2), ('{"q": {"0": -1}}', 10), ('{"q": {"0": 99}}', 10)],
)
def test_where_a_query_begins(offsets: str, first: int) -> None:
    broker, disk = filled(10), Checkpoint()
    for number in (0, 1):
        broker.queue("q").lose(number)
    reader = Query(broker.connect, disk, mode="log", startingOffsets=offsets).reader
    assert reader.initialOffset() == {"q#next": first, "q#incarnation": 0}


def test_a_time_says_where_a_query_begins() -> None:
    broker = filled(4)
    for stamp, first in ((STAMP_MS, 0), (STAMP_MS + 1, 4)):
        reader = Query(
            broker.connect, Checkpoint(), mode="log", startingTimestamp=str(stamp)
        ).reader
        assert reader.initialOffset()["q#next"] == first
    broker.queue("empty")
    empty = Query(
        broker.connect, Checkpoint(), mode="log", subscribe="empty", startingTimestamp="5"
    )
    assert empty.reader.initialOffset()["empty#next"] == 0


@given(
    st.integers(0, 12),
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(POINTS), st.integers(0, 4)), max_size=6),
    st.integers(1, 4),
)
def test_whatever_kills_the_driver_a_follower_has_each_row_once(
    count: int, per_batch: int, kills: list[tuple[str, int]], partitions: int
) -> None:
    broker, disk = filled(count), Checkpoint()
    options = {"maxOffsetsPerTrigger": str(per_batch), "minPartitions": str(partitions)}
    for point, batch in kills:
        try:
            follower(broker, disk, **options).run(point, batch)
        except Killed:
            pass
    follower(broker, disk, **options).run()
    assert disk.rows() == bodies(count)
    assert len(broker.queue("q").messages) == count


def test_what_left_before_it_was_read_ends_the_query() -> None:
    broker, disk = filled(5), Checkpoint()
    follower(broker, disk).run()
    broker.queue("q").put(*[record(b"%d" % number) for number in range(5, 9)])
    for number in range(7):
        broker.queue("q").lose(number)
    with pytest.raises(RowsLost, match="'q': 2 messages, 5 to 6 first of all, left it before"):
        follower(broker, disk).run()
    follower(broker, disk, failOnDataLoss="false").run()
    assert disk.rows() == [*bodies(5), b"7", b"8"]


def test_a_batch_whose_messages_left_ends_the_query_when_it_runs_again() -> None:
    broker, disk = filled(6), Checkpoint()
    with pytest.raises(Killed):
        follower(broker, disk, maxOffsetsPerTrigger="3").run("written", 0)
    broker.queue("q").lose(0)
    with pytest.raises(RowsLost, match="1 messages, 0 to 0 first of all, left it"):
        follower(broker, disk, maxOffsetsPerTrigger="3").run()
    follower(broker, disk, maxOffsetsPerTrigger="3", failOnDataLoss="false").run()
    assert disk.rows() == [b"1", b"2", b"3", b"4", b"5"]


def test_what_left_behind_an_older_message_ends_the_query_as_well() -> None:
    broker, disk = filled(9), Checkpoint()
    follower(broker, disk, maxOffsetsPerTrigger="3").run()
    broker.queue("q").put(*[record(b"%d" % number) for number in range(9, 15)])
    for number in (1, 2, 11, 13, 14):
        broker.queue("q").lose(number)
    with pytest.raises(RowsLost, match="3 messages, 11 to 11 first of all, left it"):
        follower(broker, disk).run()


def test_a_queue_made_anew_ends_the_query_or_is_read_from_its_first_message_on() -> None:
    broker, disk = filled(5), Checkpoint()
    follower(broker, disk).run()
    del broker.queues["q"]
    broker.queue("q").incarnation = 9
    broker.queue("q").put(record(b"anew"))
    with pytest.raises(RowsLost, match="deleted and made anew since the checkpoint"):
        follower(broker, disk).run()
    follower(broker, disk, failOnDataLoss="false").run()
    assert disk.rows() == [*bodies(5), b"anew"]
    assert disk.offsets[-1] == {"q#next": 1, "q#incarnation": 9}


def test_a_node_that_came_back_with_older_data_ends_the_query() -> None:
    broker, disk = filled(5), Checkpoint()
    follower(broker, disk).run()
    queue = broker.queue("q")
    for number in (3, 4):
        queue.lose(number)
    queue.next = 3
    with pytest.raises(RowsLost, match="checkpoint is at message 5, and the queue has had 3"):
        follower(broker, disk).run()
    queue.put(record(b"3 again"))
    follower(broker, disk, failOnDataLoss="false").run()
    assert disk.rows() == bodies(5), "its place was set to the queue's end, and not beyond"
    queue.put(record(b"more"))
    follower(broker, disk, failOnDataLoss="false").run()
    assert disk.rows() == [*bodies(5), b"more"]


def test_a_pattern_finds_queues_that_come_and_leaves_out_those_that_go() -> None:
    broker, disk = FakeBroker(), Checkpoint()
    for number, name in enumerate(("a1", "a2")):
        broker.queue(name).incarnation = number + 1
        broker.queue(name).put(record(name.encode()))
    options = {"subscribePattern": "a.*"}
    follower(broker, disk, **options).run()
    assert sorted(disk.rows()) == [b"a1", b"a2"]
    del broker.queues["a1"]
    broker.queue("a3").incarnation = 3
    broker.queue("a3").put(record(b"a3"))
    broker.queue("b").put(record(b"b"))
    follower(broker, disk, **options).run()
    assert sorted(disk.rows()) == [b"a1", b"a2", b"a3"]
    assert "a1#next" not in disk.offsets[-1] and "b#next" not in disk.offsets[-1]


def test_a_named_queue_that_is_gone_is_an_error() -> None:
    broker, disk = filled(2), Checkpoint()
    follower(broker, disk).run()
    del broker.queues["q"]
    with pytest.raises(Exception, match="no queue 'q'"):
        follower(broker, disk, failOnDataLoss="false").run()


def test_batches_are_shared_evenly_among_queues() -> None:
    broker, disk = FakeBroker(), Checkpoint()
    for name, count in (("big", 50), ("small", 2)):
        broker.queue(name).put(*[record(name.encode()) for _ in range(count)])
    follower(broker, disk, subscribe="big,small", maxOffsetsPerTrigger="10").run()
    assert disk.sink[0].count(b"small") == 2 and len(disk.sink[0]) == 10
    assert len(disk.rows()) == 52


def test_a_batch_has_so_many_bytes_at_most() -> None:
    broker, disk = FakeBroker(), Checkpoint()
    broker.queue("q").put(*[record(b"x" * 1_000) for _ in range(10)])
    size = len(broker.queue("q").messages[0])
    follower(broker, disk, maxBytesPerTrigger=str(3 * size)).run()
    assert [len(rows) for rows in disk.sink.values()] == [3, 3, 3, 1]
    disk = Checkpoint()
    follower(broker, disk, maxBytesPerTrigger="1").run()
    assert [len(rows) for rows in disk.sink.values()] == [1] * 10


def test_an_idle_query_asks_now_and_then() -> None:
    broker, disk = filled(3), Checkpoint()
    reader = follower(broker, disk).reader
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert end["q#next"] == 3
    broker.calls.clear()
    asked, began = 0, time.monotonic()
    while time.monotonic() < began + 0.4:
        assert reader.latestOffset(end, limit) == end
        asked += 1
    assert asked > 100 and len(broker.calls) < 20
    broker.queue("q").put(record(b"new"))
    until = time.monotonic() + 10
    while (newer := reader.latestOffset(end, limit)) == end:
        assert time.monotonic() < until
    assert newer["q#next"] == 4


def test_an_idle_query_of_many_queues_leaves_the_broker_time() -> None:
    broker = FakeBroker()
    for number in range(2_000):
        broker.queue(f"q{number}").incarnation = number + 1
    reader = follower(broker, Checkpoint(), subscribePattern="q.*").reader
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert isinstance(reader, LogStreamReader)
    queues = reader._queues()
    for _ in range(12):
        queues._idle_until = 0.0  # as if the pause were over
        assert reader.latestOffset(end, limit) == end
    assert queues._pause == 10.0, "some 4,000 calls, and then ten seconds without any"


def test_progress_shows_how_far_a_query_is_behind() -> None:
    broker, disk = filled(5), Checkpoint()
    reader = follower(broker, disk, maxOffsetsPerTrigger="2").reader
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    newest = reader.reportLatestOffset()
    size = sum(len(broker.queue("q").messages[number]) for number in (2, 3, 4))
    assert end["q#next"] == 2
    assert newest == {
        "q#next": 5,
        "q#incarnation": 0,
        "ready": 3,
        "bytes": size,
        "seconds": 90,
    }


def test_a_checkpoint_of_a_drain_is_refused_and_the_other_way_round() -> None:
    broker, disk = filled(3), Checkpoint()
    Query(broker.connect, disk, maxOffsetsPerTrigger="1").run()
    with pytest.raises(ConfigError, match="not of a query with mode=log of q"):
        follower(broker, disk).run()
    broker, disk = filled(3), Checkpoint()
    follower(broker, disk).run()
    with pytest.raises(ConfigError, match="not of queue 'q'"):
        Query(broker.connect, disk).run()


def test_a_look_at_once_sees_what_consumers_hold() -> None:
    broker = filled(6)
    broker.queue("q").ready = [4, 5]
    for mode, seen in (("browse", 2), ("log", 6)):
        options = read_options({"subscribe": "q", "mode": mode}, streaming=False)
        reader = QueueReader(options, broker.connect)
        rows = [
            row
            for partition in reader.partitions()
            for arrow in reader.read(partition)
            for row in arrow["value"].to_pylist()
        ]
        assert len(rows) == seen


def test_a_broker_that_is_too_old_says_so() -> None:
    broker = filled(1)
    broker.knows_names = False
    with pytest.raises(ConfigError, match="mode 'log' needs a broker of 0.2.0 or later"):
        follower(broker, Checkpoint()).run()


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"groupId": "g"}, "unknown option 'groupid'"),
        ({"leaseTimeout": "1m"}, "unknown option 'leasetimeout'"),
        ({"archiveDirectory": "/a"}, "'archiveDirectory' does not go with mode 'log'"),
        ({"startingOffsets": "newest"}, "allowed: latest, earliest, or JSON such as"),
        ({"startingOffsets": '{"q": {"0": -3}}'}, "allowed: latest, earliest, or JSON such as"),
        ({"endingOffsets": "latest"}, "unknown option 'endingoffsets'"),
        ({"minOffsetsPerTrigger": "0"}, "'minOffsetsPerTrigger' is '0'"),
        (
            {"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"},
            "'minOffsetsPerTrigger' is '11'; allowed: up to maxOffsetsPerTrigger, 10",
        ),
        ({"maxTriggerDelay": "soon"}, "'maxTriggerDelay' is 'soon'"),
    ],
)
def test_options_that_do_not_go_with_it(given: dict[str, str], wrong: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_options({"subscribe": "q", "mode": "log"} | given, streaming=True)
    assert wrong in str(error.value)


# --- when a batch begins ------------------------------------------------------------------------


def reader_of(broker: FakeBroker, mode: str, **options: str) -> QueueStreamReader | LogStreamReader:
    chosen = EARLIEST if mode == "log" else {}
    reader = Query(broker.connect, Checkpoint(), **chosen, **options).reader
    assert isinstance(reader, (QueueStreamReader, LogStreamReader))
    return reader


def goes_on(
    reader: QueueStreamReader | LogStreamReader, start: dict[str, int], limit: ReadLimit
) -> dict[str, int]:
    """Where the next batch ends, once there is one."""
    until = time.monotonic() + 20
    while (end := reader.latestOffset(start, limit)) == start:
        assert time.monotonic() < until
    reader.partitions(start, end)
    return end


@pytest.mark.parametrize("mode", ["drain", "log"])
def test_a_batch_waits_until_there_are_so_many_messages(mode: str) -> None:
    broker = filled(2)
    reader = reader_of(broker, mode, minOffsetsPerTrigger="5")
    limit = reader.getDefaultReadLimit()
    first = goes_on(reader, reader.initialOffset(), limit)  # is not held back
    broker.queue("q").put(*[record(b"x") for _ in range(4)])
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        assert reader.latestOffset(first, limit) == first
    if mode == "drain":
        assert broker.queue("q").groups["g"].settled == 1, "what was processed is settled"
    broker.queue("q").put(record(b"x"))
    second = goes_on(reader, first, limit)
    assert second != first
    broker.queue("q").put(record(b"x"))
    assert reader.latestOffset(second, limit) == second
    assert reader.latestOffset(second, ReadAllAvailable()) != second, "it takes all there is"


@pytest.mark.parametrize("mode", ["drain", "log"])
def test_a_batch_waits_for_so_long_at_most(mode: str) -> None:
    broker = filled(2)
    reader = reader_of(broker, mode, minOffsetsPerTrigger="5", maxTriggerDelay="300ms")
    limit = reader.getDefaultReadLimit()
    first = goes_on(reader, reader.initialOffset(), limit)
    broker.queue("q").put(record(b"x"))
    assert reader.latestOffset(first, limit) == first
    assert goes_on(reader, first, limit) != first


def test_a_run_to_the_end_waits_for_nothing() -> None:
    for mode in ("drain", "log"):
        broker, disk = filled(7), Checkpoint()
        chosen = EARLIEST if mode == "log" else {}
        options = {"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "3"}
        Query(broker.connect, disk, **chosen, **options).run()
        assert [len(rows) for rows in disk.sink.values()] == [3, 3, 1]


def test_a_drain_that_waits_finds_out_that_another_query_has_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("warren.spark.group._LOOK_SECONDS", 0.1)
    broker = filled(2)
    reader = reader_of(broker, "drain", minOffsetsPerTrigger="5")
    limit = reader.getDefaultReadLimit()
    end = goes_on(reader, reader.initialOffset(), limit)
    broker.queue("q").groups["g"].epoch += 1
    with pytest.raises(Fenced):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            reader.latestOffset(end, limit)
