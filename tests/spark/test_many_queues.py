"""Queries over several queues, which may come and go, as Spark drives them: no JVM, no socket."""

from __future__ import annotations

import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.driver import POINTS, Checkpoint, Killed, Query
from tests.spark.fake import FakeBroker, FakeConnection, FakeQueue, record
from tests.support.patience import patient
from warren.errors import BrokerError, ConfigError
from warren.spark import draining, sharing, subscription
from warren.spark.batch import QueueReader
from warren.spark.broker import Fenced, RowsLost
from warren.spark.options import read_options

PATTERN = {"subscribe": "", "subscribePattern": "q-.*"}


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for queues at each trigger, and not once a second."""
    monkeypatch.setattr(subscription, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(draining, "_TOLD_SECONDS", 0.0)
    monkeypatch.setattr(sharing, "_PAUSE_MAX", 0.0)


def put(broker: FakeBroker, queue: str, first: int, last: int) -> None:
    broker.queue(queue).put(*[record(b"%s %d" % (queue.encode(), n)) for n in range(first, last)])


def rows_of(counts: dict[str, int]) -> list[bytes]:
    return sorted(b"%s %d" % (queue.encode(), n) for queue, c in counts.items() for n in range(c))


def running(broker: FakeBroker, **given: str) -> Query:
    return Query(broker.connect, Checkpoint(), **PATTERN | given)


def test_each_queue_has_an_offset_of_its_own() -> None:
    broker, disk = FakeBroker(), Checkpoint()
    put(broker, "b,c", 0, 3)
    put(broker, "a", 0, 5)
    broker.queue("a").incarnation = 8
    names = {"subscribe": "", "assign": '{"a": [0], "b,c": [0]}'}
    Query(broker.connect, disk, maxOffsetsPerTrigger="4", **names).run()
    assert disk.start == {"a": 0, "a#incarnation": 8, "b,c": 0}
    assert disk.offsets == [
        {"a": 1, "a#incarnation": 8, "b,c": 1},
        {"a": 3, "a#incarnation": 8, "b,c": 2},
    ]
    assert sorted(disk.rows()) == rows_of({"a": 5, "b,c": 3})
    assert [len(rows) for rows in disk.sink.values()] == [4, 4]
    for queue in broker.queues.values():
        assert not queue.messages


@given(
    st.dictionaries(st.sampled_from(["q-1", "q-2", "q-3"]), st.integers(0, 7), min_size=1),
    st.integers(1, 5),
    st.lists(
        st.tuples(st.sampled_from(POINTS), st.integers(0, 3), st.sampled_from("1234")), max_size=5
    ),
    st.integers(1, 4),
)
def test_whatever_kills_the_driver_each_row_of_each_queue_arrives_once(
    counts: dict[str, int], per_batch: int, kills: list[tuple[str, int, str]], partitions: int
) -> None:
    """Also while queues come between two runs."""
    broker, disk = FakeBroker(), Checkpoint()
    for number, (queue, count) in enumerate(counts.items()):
        put(broker, queue, 0, count)
        broker.queue(queue).incarnation = number + 1
    put(broker, "other", 0, 2)
    options = {"maxOffsetsPerTrigger": str(per_batch), "minPartitions": str(partitions)}
    for point, batch, name in kills:
        try:
            Query(broker.connect, disk, **PATTERN | options).run(point, batch)
        except Killed:
            pass
        queue = f"q-{name}"
        put(broker, queue, counts.get(queue, 0), counts.get(queue, 0) + 2)
        counts[queue] = counts.get(queue, 0) + 2
    Query(broker.connect, disk, **PATTERN | options).run()
    assert sorted(disk.rows()) == rows_of(counts)
    assert not any(broker.queue(queue).messages for queue in counts)
    assert len(broker.queue("other").messages) == 2


def test_queues_that_come_and_go_while_a_query_runs() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 1)
    query = running(broker)
    reader, limit = query.reader, query.reader.getDefaultReadLimit()
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    assert first == {"q-1": 1}
    reader.partitions(start, first)
    put(broker, "q-2", 0, 2)
    second = reader.latestOffset(first, limit)
    assert second == {"q-1": 1, "q-2": 1}
    assert not broker.queue("q-1").messages, "settled"
    (partition,) = reader.partitions(first, second)
    assert [(share.queue, share.runs) for share in partition.shares] == [("q-2", [(0, 1)])]
    del broker.queues["q-2"]
    broker.queue("q-3")
    third = reader.latestOffset(second, limit)
    assert third == {"q-1": 1}
    assert len(reader.partitions(second, third)) == 1, "a task without rows"
    assert reader.latestOffset(third, limit) == third, "one that has nothing is not in the offset"
    reader.commit(third)


def test_a_queue_that_is_made_anew_is_read_from_its_first_message(
    capfd: pytest.CaptureFixture[str],
) -> None:
    broker, disk = FakeBroker(), Checkpoint()
    put(broker, "q-1", 0, 2)
    broker.queue("q-1").incarnation = 1
    Query(broker.connect, disk, **PATTERN).run()
    for incarnation in (2, 3):
        del broker.queues["q-1"]
        put(broker, "q-1", 2 * incarnation, 2 * incarnation + 2)
        broker.queue("q-1").incarnation = incarnation
        Query(broker.connect, disk, **PATTERN).run()
        assert "was deleted and made anew" in capfd.readouterr().err
    assert len(disk.rows()) == len(set(disk.rows())) == 6


def test_a_queue_that_is_made_anew_under_a_query_that_runs() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 2)
    broker.queue("q-1").incarnation = 1
    reader = running(broker).reader
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    reader.partitions({}, end)
    del broker.queues["q-1"]
    put(broker, "q-1", 0, 1)
    broker.queue("q-1").incarnation = 2
    ends = [end]
    while len(ends) < 4:
        ends.append(reader.latestOffset(ends[-1], limit))
        if ends[-1] != ends[-2]:
            reader.partitions(ends[-2], ends[-1])
    assert ends[-1] == {"q-1": 1, "q-1#incarnation": 2}
    assert not broker.queue("q-1").messages


def test_nothing_is_kept_up_for_queues_that_went(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals of theirs would take the time of those of other queues."""
    asked: list[tuple[str, str]] = []
    look_up = FakeConnection._queue

    def noted(self: FakeConnection, call: str, name: str) -> FakeQueue:
        asked.append((call, name))
        return look_up(self, call, name)

    monkeypatch.setattr(FakeConnection, "_queue", noted)
    broker = FakeBroker()
    for queue in ("q-1", "q-2"):
        put(broker, queue, 0, 1)
    reader = running(broker, leaseTimeout="15ms").reader
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    reader.partitions({}, end)
    del broker.queues["q-2"]
    assert set(reader.latestOffset(end, limit)) == {"q-1"}
    asked.clear()
    until = time.monotonic() + patient(10)
    while asked.count(("settle", "q-1")) < 4 and time.monotonic() < until:
        time.sleep(0.001)
    reader.stop()
    assert asked.count(("settle", "q-1")) >= 4
    assert asked.count(("settle", "q-2")) <= 1, "one may have been under way"


def test_a_batch_that_its_sink_skipped_goes_back_where_there_is_a_queue() -> None:
    broker = FakeBroker()
    for queue in ("q-1", "q-2"):
        put(broker, queue, 0, 1)
    reader = running(broker).reader
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    del broker.queues["q-1"]
    again = reader.latestOffset(end, limit)
    (partition,) = reader.partitions(end, again)
    assert [(share.queue, share.runs) for share in partition.shares] == [("q-2", [(0, 0)])]


def test_a_committed_batch_is_settled_where_there_is_a_queue() -> None:
    broker = FakeBroker()
    for queue in ("q-1", "q-2", "q-3"):
        put(broker, queue, 0, 1)
    reader = running(broker).reader
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    reader.partitions({}, end)
    del broker.queues["q-1"]
    with pytest.raises(BrokerError, match="no queue 'q-1'"):
        reader._settle_committed(end)
    assert not broker.queue("q-2").messages and not broker.queue("q-3").messages


@pytest.mark.parametrize("strict", ["true", "false"])
@pytest.mark.parametrize("crash", ["logged", "half written"])
def test_a_queue_that_goes_with_rows_of_a_batch(strict: str, crash: str) -> None:
    broker, disk = FakeBroker(), Checkpoint()
    put(broker, "q-1", 0, 2)
    put(broker, "q-2", 0, 2)
    options = PATTERN | {"failOnDataLoss": strict}
    with pytest.raises(Killed):
        Query(broker.connect, disk, **options).run(crash)
    del broker.queues["q-2"]
    if strict == "true":
        with pytest.raises(RowsLost, match="queue 'q-2' is gone with checkout 1"):
            Query(broker.connect, disk, **options).run()
    else:
        Query(broker.connect, disk, **options).run()
        assert disk.rows() == rows_of({"q-1": 2})


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_queue_that_goes_between_planning_and_reading(strict: str) -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 2)
    query = running(broker, failOnDataLoss=strict)
    reader = query.reader
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (partition,) = reader.partitions(start, end)
    del broker.queues["q-1"]
    executor = pickle.loads(query.shipped)
    executor._connect = broker.connect
    if strict == "true":
        with pytest.raises(RowsLost, match="queue 'q-1' is gone with messages of a batch"):
            list(executor.read(partition))
    else:
        assert list(executor.read(partition)) == []


def test_each_queue_fences_for_itself() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 1)
    put(broker, "q-2", 0, 1)
    reader = running(broker).reader
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    broker.connect("").tables.acquire("q-2", "g", 0)
    with pytest.raises(Fenced, match="took over group 'g' of queue 'q-2'"):
        reader.latestOffset(end, reader.getDefaultReadLimit())


def test_a_batch_is_shared_evenly_and_what_is_left_goes_to_who_has_more() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 100)
    put(broker, "q-2", 0, 3)
    put(broker, "q-3", 0, 100)
    reader = running(broker, maxOffsetsPerTrigger="30").reader
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (partition,) = reader.partitions(start, end)
    taken = {
        share.queue: sum(last - first + 1 for first, last in share.runs)
        for share in partition.shares
    }
    assert taken == {"q-1": 17, "q-2": 3, "q-3": 10}


def test_a_queue_that_comes_after_a_run_began_waits_for_the_next() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 1)
    reader = running(broker).reader
    reader.prepareForTriggerAvailableNow()
    put(broker, "q-2", 0, 1)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"q-1": 1, "q-2": 0}
    reader.partitions(start, end)
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


def test_progress_adds_up_all_queues() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 3)
    put(broker, "q-2", 0, 4)
    lag = running(broker).reader.reportLatestOffset()
    size = sum(len(r) for queue in broker.queues.values() for r in queue.messages.values())
    assert lag == {"q-1": 0, "q-2": 0, "ready": 7, "bytes": size, "seconds": 90}


def test_browsing_sees_all_queues_of_a_pattern_and_no_staged_rows() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 3)
    put(broker, "q-2", 0, 4)
    put(broker, "warren.sink.q-9", 0, 4)
    options = read_options({"subscribePattern": ".*q-.*"}, streaming=False)
    reader = QueueReader(options, broker.connect)
    got = [
        (topic, value)
        for partition in reader.partitions()
        for rows in reader.read(partition)
        for topic, value in zip(rows["topic"].to_pylist(), rows["value"].to_pylist(), strict=True)
    ]
    assert sorted(value for _, value in got) == rows_of({"q-1": 3, "q-2": 4})
    assert all(value.startswith(topic.encode()) for topic, value in got)


def test_an_idle_query_asks_for_new_queues_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "_LOOK_SECONDS", 1.0)
    now = [100.0]
    for module in (subscription, draining):
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    broker = FakeBroker()
    put(broker, "q-1", 0, 1)
    reader = running(broker).reader
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    reader.partitions(start, end)
    assert reader.latestOffset(end, limit) == end
    broker.calls.clear()
    for _ in range(300):
        assert reader.latestOffset(end, limit) == end
        now[0] += 0.01
    assert 2 <= broker.calls.count("queues") <= 4


def test_a_broker_that_cannot_name_its_queues_is_told_of() -> None:
    broker = FakeBroker()
    broker.knows_names = False
    with pytest.raises(ConfigError, match="needs a broker of 0.2.0"):
        running(broker).reader.initialOffset()


def test_a_checkpoint_of_other_queues_is_refused() -> None:
    broker = FakeBroker()
    put(broker, "q-1", 0, 1)
    reader = Query(broker.connect, Checkpoint(), subscribe="q-1,q-2").reader
    with pytest.raises(ConfigError, match="of other, not of any of q-1, q-2"):
        reader.latestOffset({"other": 3}, reader.getDefaultReadLimit())
