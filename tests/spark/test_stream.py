"""The streaming reader as Spark drives it, over a broker in memory: no JVM, no socket."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from tests.spark.driver import POINTS, Checkpoint, Killed, Query
from tests.spark.fake import FakeBroker, FakeQueue, record
from warren.errors import ConfigError
from warren.spark.broker import BrokerAway, CheckpointLost, Fenced, RowsLost
from warren.spark.partition import QueueShare
from warren.wire.amqp091.errors import ChannelException, ConnectionException


def filled(count: int) -> FakeBroker:
    broker = FakeBroker()
    broker.queue("q").put(*[record(b"%d" % number) for number in range(count)])
    return broker


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_run_takes_everything_and_leaves_nothing() -> None:
    broker, disk = filled(10), Checkpoint()
    Query(broker.connect, disk, maxOffsetsPerTrigger="4").run()
    assert disk.rows() == bodies(10)
    assert [len(rows) for rows in disk.sink.values()] == [4, 4, 2]
    queue = broker.queue("q")
    assert not queue.messages, "the last batch must be settled as well"
    assert queue.groups["g"].settled == 3


def test_offsets_are_checkout_numbers_under_the_queue_name() -> None:
    broker, disk = filled(3), Checkpoint()
    Query(broker.connect, disk, maxOffsetsPerTrigger="2").run()
    assert disk.start == {"q": 0}
    assert disk.offsets == [{"q": 1}, {"q": 2}]


@given(
    st.integers(0, 12),
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from(POINTS), st.integers(0, 4)), max_size=6),
    st.integers(1, 4),
)
def test_whatever_kills_the_driver_each_row_arrives_once(
    count: int, per_batch: int, kills: list[tuple[str, int]], partitions: int
) -> None:
    broker, disk = filled(count), Checkpoint()
    broker.queue("q").incarnation = 5
    options = {"maxOffsetsPerTrigger": str(per_batch), "minPartitions": str(partitions)}
    for point, batch in kills:
        try:
            Query(broker.connect, disk, **options).run(point, batch)
        except Killed:
            pass
    Query(broker.connect, disk, **options).run()
    assert sorted(disk.rows()) == sorted(bodies(count))
    assert not broker.queue("q").messages


@given(st.sampled_from(POINTS), st.integers(1, 4))
def test_other_consumers_get_only_what_no_batch_holds(point: str, others: int) -> None:
    """Competing consumers, a purge and expiry between crash and restart do not touch a batch."""
    broker, disk = filled(8), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, disk, maxOffsetsPerTrigger="3").run(point, 1)
    queue = broker.queue("q")
    taken = [queue.messages.pop(queue.ready.pop(0)) for _ in range(min(others, len(queue.ready)))]
    Query(broker.connect, disk, maxOffsetsPerTrigger="3").run()
    assert len(disk.rows()) == len(set(disk.rows())) == 8 - len(taken)


def test_a_batch_reads_the_same_rows_again_with_cold_state() -> None:
    broker, disk = filled(6), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, disk, maxOffsetsPerTrigger="4").run("written", 0)
    first = disk.sink[0]
    broker.queue("q").put(record(b"later"))
    Query(broker.connect, disk, maxOffsetsPerTrigger="100").run()
    assert disk.sink[0] == first
    assert disk.rows() == [*bodies(6), b"later"]


def test_available_now_ignores_what_comes_later() -> None:
    broker, disk = filled(3), Checkpoint()
    reader = Query(broker.connect, disk).reader
    reader.prepareForTriggerAvailableNow()
    broker.queue("q").put(record(b"later"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (partition,) = reader.partitions(start, end)
    assert partition.shares == [QueueShare("q", [(0, 2)], 1)]
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


def test_a_batch_without_offsets_has_no_tasks() -> None:
    broker = filled(3)
    assert Query(broker.connect, Checkpoint()).reader.partitions({"q": 0}, {"q": 0}) == []
    assert broker.connections == 0


def test_initial_offset_touches_nothing_and_repeats() -> None:
    broker, disk = filled(3), Checkpoint()
    reader = Query(broker.connect, disk).reader
    assert reader.initialOffset() == reader.initialOffset() == {"q": 0}
    assert set(broker.calls) == {"backlog", "identify"}


def test_making_and_shipping_a_reader_asks_nothing() -> None:
    broker, disk = filled(3), Checkpoint()
    reader = Query(broker.connect, disk).reader
    reader.getDefaultReadLimit()
    assert broker.connections == 0


def test_an_idle_query_looks_now_and_then_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = filled(2)
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reader = Query(broker.connect, Checkpoint()).reader
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset({"q": 0}, limit)
    reader.partitions({"q": 0}, end)
    assert reader.latestOffset(end, limit) == end == {"q": 1}
    broker.calls.clear()
    for _ in range(400):  # four seconds, as Spark asks
        assert reader.latestOffset(end, limit) == end
        assert reader.reportLatestOffset()["ready"] == 0
        now[0] += 0.01
    assert set(broker.calls) == {"backlog"} and len(broker.calls) <= 10
    broker.queue("q").put(record(b"new"))
    now[0] += 1.0
    assert reader.latestOffset(end, limit) == {"q": 2}


def test_an_idle_query_finds_out_that_it_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = filled(2)
    first, second = (Query(broker.connect, Checkpoint()).reader for _ in range(2))
    limit = first.getDefaultReadLimit()
    end = first.latestOffset({"q": 0}, limit)
    first.partitions({"q": 0}, end)
    assert first.latestOffset(end, limit) == end
    assert second.latestOffset(end, limit) == end
    assert first.latestOffset(end, limit) == end, "not yet"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 6)
    with pytest.raises(Fenced):
        first.latestOffset(end, limit)


def test_available_now_on_a_queue_never_used_ends() -> None:
    broker, disk = filled(0), Checkpoint()
    reader = Query(broker.connect, disk).reader
    reader.prepareForTriggerAvailableNow()
    broker.queue("q").put(record(b"later"))
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start


def test_trigger_once_takes_all_and_other_limits_are_refused() -> None:
    broker = filled(9)
    reader = Query(
        broker.connect, Checkpoint(), maxOffsetsPerTrigger="2", maxBytesPerTrigger="1"
    ).reader
    with pytest.raises(ConfigError, match="ReadMaxBytes"):
        reader.latestOffset({"q": 0}, ReadMaxBytes(5))
    end = reader.latestOffset({"q": 0}, ReadAllAvailable())
    (partition,) = reader.partitions({"q": 0}, end)
    assert [share.runs for share in partition.shares] == [[(0, 8)]]


def test_bytes_bound_a_batch() -> None:
    broker, disk = filled(4), Checkpoint()
    Query(broker.connect, disk, maxBytesPerTrigger="1").run()
    assert [len(rows) for rows in disk.sink.values()] == [1, 1, 1, 1]


def test_progress_shows_what_waits() -> None:
    reader = Query(filled(7).connect, Checkpoint(), maxOffsetsPerTrigger="2").reader
    reader.latestOffset({"q": 0}, reader.getDefaultReadLimit())
    size = 5 * len(record(b"0"))
    assert reader.reportLatestOffset() == {
        "q": 0, "next": 7, "ready": 5, "bytes": size, "seconds": 90
    }  # fmt: skip


def test_progress_of_a_broker_that_does_not_tell_bytes_shows_rows() -> None:
    broker = filled(7)
    broker.knows_backlog = False
    reader = Query(broker.connect, Checkpoint(), maxOffsetsPerTrigger="2").reader
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"q": 1}
    assert reader.reportLatestOffset() == {"q": 0, "next": 7, "ready": 5}
    assert broker.calls.count("backlog") == 1, "a broker is asked once what it does not know"


# --- sinks that have a batch already -----------------------------------------------------------


def test_batches_that_a_sink_skips_come_later() -> None:
    broker = filled(10)
    disk = Checkpoint(skips=frozenset({0, 1}))
    Query(broker.connect, disk, maxOffsetsPerTrigger="4").run()
    assert disk.rows() == bodies(10), "nothing of what was skipped is lost"
    assert not broker.queue("q").messages


def test_a_batch_that_an_earlier_process_logged_may_be_skipped() -> None:
    """The file sink has it since its driver died between the write and the commit."""
    broker, disk = filled(8), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, disk, maxOffsetsPerTrigger="4").run("written", 0)
    disk.skips = frozenset({0})
    Query(broker.connect, disk, maxOffsetsPerTrigger="4").run()
    assert disk.rows() == bodies(8)


def test_a_commit_of_a_batch_that_was_never_planned_settles_nothing() -> None:
    broker = filled(4)
    reader = Query(broker.connect, Checkpoint()).reader
    reader.commit(reader.latestOffset({"q": 0}, reader.getDefaultReadLimit()))
    assert broker.queue("q").ready == [0, 1, 2, 3]


def test_a_used_group_is_refused_without_its_checkpoint() -> None:
    broker = filled(4)
    Query(broker.connect, Checkpoint(), maxOffsetsPerTrigger="2").run()
    broker.queue("q").put(record(b"4"))
    disk = Checkpoint()
    with pytest.raises(CheckpointLost, match="settled 2 checkouts, but this query has no check"):
        Query(broker.connect, disk).run()
    Query(broker.connect, disk, newCheckpoint="true").run()
    assert disk.rows() == [b"4"]


# --- two queries, one group ---------------------------------------------------------------------


def test_a_second_query_fences_the_first() -> None:
    broker = filled(8)
    first, second = (
        Query(broker.connect, Checkpoint()).reader,
        Query(broker.connect, Checkpoint()).reader,
    )
    limit = first.getDefaultReadLimit()
    end = first.latestOffset({"q": 0}, limit)
    assert second.latestOffset({"q": 0}, limit) == end, "what is open goes to the new holder"
    for call in (lambda: first.commit(end), lambda: first.latestOffset(end, limit)):
        with pytest.raises(Fenced, match="another query took over group 'g' of queue 'q'"):
            call()
    second.commit(end)
    assert broker.calls.count("acquire") == 2, "a fenced query must not take the group back"


def test_two_groups_share_a_queue() -> None:
    broker, one, two = filled(8), Checkpoint(), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, one, maxOffsetsPerTrigger="3").run("written", 0)
    Query(broker.connect, two, groupId="other").run()
    Query(broker.connect, one).run()
    assert sorted(one.rows() + two.rows()) == sorted(bodies(8))


# --- connections --------------------------------------------------------------------------------


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses pass at once, and the clock shows them; gives them."""
    pauses: list[float] = []
    now = time.monotonic()

    def wait(event: threading.Event, seconds: float) -> bool:
        pauses.append(seconds)
        return False

    monkeypatch.setattr(threading.Event, "wait", wait)
    monkeypatch.setattr(time, "monotonic", lambda: now + sum(pauses))
    return pauses


def test_a_broken_connection_is_replaced_at_once(no_pauses: list[float]) -> None:
    broker, disk = filled(4), Checkpoint()
    query = Query(broker.connect, disk, maxOffsetsPerTrigger="2")
    query.reader.initialOffset()
    broker.breaks = [ConnectionResetError()]
    query.run()
    assert disk.rows() == bodies(4)
    assert broker.calls.count("acquire") == 1
    assert no_pauses == [0.0]


def test_a_query_outlives_a_broker_that_is_away_for_minutes(no_pauses: list[float]) -> None:
    broker, disk = filled(4), Checkpoint()
    query = Query(broker.connect, disk)
    query.reader.initialOffset()
    gone = ConnectionException(320, "the node is being stopped")
    broker.breaks = [gone, *[ConnectionRefusedError() for _ in range(40)]]
    query.run()
    assert disk.rows() == bodies(4)
    assert 60 < sum(no_pauses) < 300 and max(no_pauses) <= 5


def test_a_broker_that_stays_away_is_a_clear_error(
    no_pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    broker = filled(1)
    uri = "amqp://me:secret@a:1,amqp://me:secret@b:2/v"
    reader = Query(broker.connect, Checkpoint(), **{"amqp.uri": uri}).reader
    broker.away = set(uri.split(","))
    with pytest.raises(BrokerAway, match="no broker at a:1, b:2 has answered for .* s") as caught:
        reader.initialOffset()
    assert 290 < sum(no_pauses) <= 300
    said = capsys.readouterr().err
    assert said.count("warren: no broker at") >= 5
    assert "secret" not in said + str(caught.value)


def test_of_several_addresses_the_first_that_answers_is_used() -> None:
    broker, disk = filled(4), Checkpoint()
    broker.away = {"amqp://a"}
    Query(broker.connect, disk, **{"amqp.uri": "amqp://a, amqp://b/v"}).run()
    assert disk.rows() == bodies(4)
    assert set(broker.asked) == {"amqp://a", "amqp://b/v"}


def test_a_missing_queue_is_the_brokers_error() -> None:
    with pytest.raises(ChannelException, match="no queue 'q'"):
        Query(FakeBroker().connect, Checkpoint()).reader.initialOffset()


def test_tasks_close_their_connections() -> None:
    broker, disk = filled(9), Checkpoint()
    query = Query(broker.connect, disk, minPartitions="3")
    query.run()
    query.reader.stop()
    assert broker.open_connections == 0


def test_stop_settles_nothing() -> None:
    broker, disk = filled(3), Checkpoint()
    reader = Query(broker.connect, disk).reader
    reader.latestOffset({"q": 0}, reader.getDefaultReadLimit())
    reader.stop()
    assert broker.queue("q").groups["g"].open == {1: [0, 1, 2]}


# --- checkpoints that do not fit ----------------------------------------------------------------


def test_an_old_copy_of_a_checkpoint_is_refused() -> None:
    broker, disk = filled(6), Checkpoint()
    Query(broker.connect, disk, maxOffsetsPerTrigger="2").run()
    reader = Query(broker.connect, Checkpoint()).reader
    with pytest.raises(RowsLost, match="ends at checkout 1, but 3 is settled"):
        reader.latestOffset({"q": 1}, reader.getDefaultReadLimit())
    lenient = Query(broker.connect, Checkpoint(), failOnDataLoss="false").reader
    assert lenient.latestOffset({"q": 1}, reader.getDefaultReadLimit()) == {"q": 1}


def test_a_checkpoint_of_a_queue_made_anew_is_refused() -> None:
    reader = Query(filled(6).connect, Checkpoint()).reader
    with pytest.raises(RowsLost, match="is not open any more: the queue does not know it"):
        reader.latestOffset({"q": 4}, reader.getDefaultReadLimit())


def made_anew(broker: FakeBroker) -> None:
    broker.queues["q"] = FakeQueue(incarnation=broker.queue("q").incarnation + 1)
    broker.queue("q").put(*[record(b"new %d" % number) for number in range(5)])


@pytest.mark.parametrize("point", [None, *POINTS])
@pytest.mark.parametrize("batch", [0, 1])
def test_a_queue_made_anew_is_read_from_its_first_message(point: str | None, batch: int) -> None:
    """Though its checkouts have the numbers that the checkpoint knows from the one before."""
    broker, disk = filled(6), Checkpoint()
    broker.queue("q").incarnation = 1
    options = {"maxOffsetsPerTrigger": "3", "failOnDataLoss": "false"}
    try:
        Query(broker.connect, disk, **options).run(point, batch)
    except Killed:
        pass
    made_anew(broker)
    strict = Query(broker.connect, disk, maxOffsetsPerTrigger="3")
    if disk.offsets:
        with pytest.raises(RowsLost, match="was deleted and made anew"):
            strict.run()
    Query(broker.connect, disk, **options).run()
    assert [row for row in disk.rows() if row.startswith(b"new")] == [
        b"new %d" % number for number in range(5)
    ]
    assert not broker.queue("q").messages


def test_a_checkpoint_of_an_earlier_release_goes_on() -> None:
    broker, disk = filled(6), Checkpoint()
    Query(broker.connect, disk, maxOffsetsPerTrigger="3").run()
    assert disk.offsets == [{"q": 1}, {"q": 2}]
    broker.queue("q").incarnation = 1
    broker.queue("q").put(record(b"6"))
    Query(broker.connect, disk).run()
    assert disk.rows() == bodies(7)
    assert disk.offsets[-1] == {"q": 3, "q#incarnation": 1}


def test_a_logged_batch_whose_lease_ran_out_is_refused() -> None:
    broker, disk = filled(6), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, disk).run("logged", 0)
    state = broker.queue("q").groups["g"]
    broker.connect("").tables.release("q", "g", state.epoch)
    with pytest.raises(RowsLost, match="checkout 1 is not open any more"):
        Query(broker.connect, disk).run()


@pytest.mark.parametrize("crash", ["logged", "written", "committed"])
@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_query_that_was_stopped_past_its_lease_goes_on(crash: str, strict: str) -> None:
    """Nobody had its rows meanwhile: it takes them again, as the same batch, and none twice."""
    broker, disk = filled(6), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, disk, maxOffsetsPerTrigger="4").run(crash, 0)
    q = broker.queue("q")
    q.groups["g"].lapse(q)
    assert q.ready == list(range(6))
    Query(broker.connect, disk, maxOffsetsPerTrigger="4", failOnDataLoss=strict).run()
    assert disk.rows() == bodies(6)
    assert [each["q"] for each in disk.offsets] == [1, 2]
    assert not q.messages


def test_a_query_is_told_which_rows_others_had_since_its_lease_ran_out() -> None:
    broker, disk = filled(6), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, disk).run("logged", 0)
    q = broker.queue("q")
    q.groups["g"].lapse(q)
    for each in (1, 2, 5):
        q.ready.remove(each)
    with pytest.raises(RowsLost, match="took out, 3 of its messages: 1-2, 5;"):
        Query(broker.connect, disk).run()
    assert q.groups["g"].settled == 0


def test_a_query_whose_group_is_deleted_settles_nothing() -> None:
    broker = filled(6)
    reader = Query(broker.connect, Checkpoint(), maxOffsetsPerTrigger="4").reader
    assert reader.latestOffset({"q": 0}, reader.getDefaultReadLimit()) == {"q": 1}
    del broker.queue("q").groups["g"]
    with pytest.raises(Fenced, match="is gone: it was deleted"):
        reader.latestOffset({"q": 1}, reader.getDefaultReadLimit())
    assert len(broker.queue("q").messages) == 6


def test_rows_lost_from_a_logged_batch_end_the_query() -> None:
    broker, disk = filled(6), Checkpoint()
    with pytest.raises(Killed):
        Query(broker.connect, disk).run("logged", 0)
    broker.queue("q").lose(4)
    with pytest.raises(RowsLost, match="1 of the messages 0 to 5"):
        Query(broker.connect, disk).run()


def test_a_checkpoint_of_another_queue_is_refused() -> None:
    reader = Query(filled(1).connect, Checkpoint()).reader
    with pytest.raises(ConfigError, match="the checkpoint is of other, not of queue 'q'"):
        reader.latestOffset({"other": 1}, reader.getDefaultReadLimit())


# --- the lease ----------------------------------------------------------------------------------


def test_the_lease_is_renewed_while_a_batch_runs() -> None:
    broker = filled(3)
    reader = Query(broker.connect, Checkpoint(), leaseTimeout="15ms").reader
    reader.latestOffset({"q": 0}, reader.getDefaultReadLimit())
    wait_for(lambda: broker.calls.count("settle") >= 3)
    broker.breaks = [ConnectionResetError()]
    wait_for(lambda: not broker.breaks)
    renewed = broker.calls.count("settle")
    wait_for(lambda: broker.calls.count("settle") > renewed)
    reader.stop()
    assert broker.queue("q").groups["g"].settled == 0


def wait_for(condition: object, seconds_max: float = 10.0) -> None:
    end = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < end, "condition not met in time"
        time.sleep(0.001)


def test_a_task_of_a_query_that_was_fenced_fails_though_its_rows_are_there() -> None:
    """A driver that was frozen gives its sink nothing that its successor has processed."""
    broker = filled(3)
    frozen = Query(broker.connect, Checkpoint())
    start = frozen.reader.initialOffset()
    end = frozen.reader.latestOffset(start, frozen.reader.getDefaultReadLimit())
    (partition,) = frozen.reader.partitions(start, end)
    assert [len(rows) for rows in frozen.reader.read(partition)] == [3]
    other = Query(broker.connect, Checkpoint())
    other.reader.partitions(start, end)
    with pytest.raises(Fenced, match="another query took over group 'g' of queue 'q'"):
        list(frozen.reader.read(partition))
