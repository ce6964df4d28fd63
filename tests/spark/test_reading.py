"""A task's rows: exactly its own, in order, each accounted for."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clients.support import eventually
from tests.spark.fake import FakeBroker, batch, record, runs_of
from warren.client.table import Batches
from warren.errors import CorruptRecord, UnknownFlavour
from warren.spark import queue_rows, reading
from warren.spark.ahead import read_ahead
from warren.spark.bounds import cut_runs, first_beyond
from warren.spark.broker import RowsLost
from warren.spark.options import Bound
from warren.spark.queue_rows import Drain
from warren.spark.reading import ask, count_rows, read_rows, rows_of, spans, split_shares
from warren.spark.schema import arrow_schema

SCHEMA = arrow_schema(("value", "offset"))


def fake(count: int, batch_rows: int = 3) -> FakeBroker:
    """A broker whose queue `q` holds messages 0 to `count` - 1, each with its number as body."""
    broker = FakeBroker()
    queue = broker.queue("q")
    queue.batch_rows = batch_rows
    queue.put(*[record(b"%d" % number) for number in range(count)])
    return broker


def read(broker: FakeBroker, runs: list[tuple[int, int]], rows_max: int = 1_000,
         complete: bool = True, read_bytes: int = reading.READ_BYTES,
         ahead: bool = False) -> list[int]:  # fmt: skip
    got: list[int] = []
    tables = broker.connect("").tables
    rows = read_rows(tables, "q", runs, SCHEMA, rows_max, complete, read_bytes)
    if ahead:
        replies = read_ahead(ask(tables, "q", runs, read_bytes))
        rows = rows_of(replies, "q", SCHEMA, rows_max, complete)
    for one in rows:
        assert one.num_rows <= rows_max
        for row in one.to_pylist():
            assert int(row["value"]) == row["offset"]
            got.append(row["offset"])
    return got


numbers = st.sets(st.integers(0, 59), min_size=1).map(sorted)


@given(numbers, st.integers(1, 9), st.integers(1, 7), st.sampled_from([1, 300, 1 << 24]),
       st.sampled_from([0, 2, 256]), st.booleans())  # fmt: skip
def test_exactly_the_asked_rows_in_order(
    wanted: list[int], batch_rows: int, rows_max: int, read_bytes: int, gap: int, ahead: bool
) -> None:
    broker = fake(60, batch_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "GAP_MAX", gap)
        assert read(broker, runs_of(wanted), rows_max, True, read_bytes, ahead) == wanted


@given(st.lists(numbers, min_size=1, max_size=4), st.integers(1, 70), st.integers(1, 9))
def test_parts_hold_each_message_once_and_are_even(
    wanted: list[list[int]], rows_max: int, parts_min: int
) -> None:
    shares = [(queue, runs_of(each)) for queue, each in enumerate(wanted)]
    parts = split_shares(shares, rows_max, parts_min)
    flat = [
        (queue, n)
        for part in parts
        for queue, runs in part
        for first, last in runs
        for n in range(first, last + 1)
    ]
    assert flat == [(queue, n) for queue, each in enumerate(wanted) for n in each]
    sizes = [sum(count_rows(runs) for _, runs in part) for part in parts]
    assert max(sizes) <= rows_max
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) >= min(parts_min, len(flat))
    for part in parts:
        assert len({queue for queue, _ in part}) == len(part), "a queue is one share of a part"


def test_no_messages_are_no_parts() -> None:
    assert split_shares([(0, [])], 10, 4) == []


def test_runs_far_apart_are_read_around_not_through() -> None:
    assert list(spans([(1, 5), (7, 9), (5_000, 5_001)])) == [[(1, 5), (7, 9)], [(5_000, 5_001)]]


def test_rows_of_an_unknown_flavour_fail_the_task_that_wants_them() -> None:
    """Others read on, though they lie between."""
    broker = fake(12)
    broker.queue("q").flavours = {4: 7, 5: 7}
    assert read(broker, [(0, 3), (6, 11)]) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    with pytest.raises(UnknownFlavour, match="messages 5 to 5 of queue 'q' are of flavour 7"):
        read(broker, [(0, 3), (5, 8)])


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("read_bytes", [1, reading.READ_BYTES])
def test_a_row_that_is_gone_fails_the_task(read_bytes: int, ahead: bool) -> None:
    """Whichever of far runs it was in."""
    broker = fake(909)
    for gone in (5, 905):
        broker.queue("q").lose(gone)
        runs = [(gone - 1, gone + 1)]
        if gone == 5:
            runs.append((500, 900))
        else:
            runs.insert(0, (100, 500))
        lost = f"1 of the messages {gone - 1} to {gone + 1} are gone from queue 'q'"
        with pytest.raises(RowsLost, match=lost):
            read(broker, runs, read_bytes=read_bytes, ahead=ahead)


def test_a_row_that_is_gone_is_left_out_when_that_is_allowed() -> None:
    broker = fake(9)
    broker.queue("q").lose(5)
    assert read(broker, [(4, 6)], complete=False) == [4, 6]


def test_many_runs_are_looked_through_once_and_not_for_each_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue of which every second message is left has as many runs as messages."""
    looked: list[int] = []

    class Noted(reading.NearRuns):
        def __init__(self, near: list[tuple[int, int]]) -> None:
            looked.append(len(near))
            super().__init__(near)

    monkeypatch.setattr(reading, "NearRuns", Noted)
    wanted = list(range(0, 600, 2))
    broker = fake(600)
    assert read(broker, runs_of(wanted), read_bytes=1) == wanted
    assert broker.calls.count("read") == 200, "three messages a reply"
    assert looked == [300]


def test_who_stops_early_leaves_no_connection_and_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is read ahead of him is given up, and by the thread that reads it."""
    monkeypatch.setattr(queue_rows, "SMALL_READ_BYTES", 1)
    broker = fake(3_000)
    with Drain("q", "g", connect=broker.connect) as drain:
        batch = drain.take()
        assert batch is not None and batch.rows == 3_000
        others = set(threading.enumerate())
        rows = batch.read()
        assert next(rows).num_rows == 3
        assert broker.open_connections == 2
        readers = set(threading.enumerate()) - others
        assert len(readers) == 2
        del rows
        eventually(lambda: not any(each.is_alive() for each in readers))
        assert broker.open_connections == 1
        assert sum(each.num_rows for each in batch.read()) == 3_000
    assert broker.open_connections == 0


def test_a_broker_that_stands_still_is_not_asked_for_ever() -> None:
    class Stuck:
        def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
            return Batches(first, b"")

    with pytest.raises(CorruptRecord, match="no way on from message 1"):
        list(read_rows(Stuck(), "q", [(1, 2)], SCHEMA, 10, True))  # type: ignore[arg-type]


def test_messages_handed_out_twice_are_noticed() -> None:
    class Twice:
        def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
            data = fake(3).connect("").tables.read(queue, first, last, bytes_max).data
            return Batches(3, data + data)

    with pytest.raises(CorruptRecord, match="out of order"):
        list(read_rows(Twice(), "q", [(0, 2)], SCHEMA, 10, True))  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", range(0, 31))
def test_the_first_message_of_a_time_is_found_among_those_that_are_left(asked: int) -> None:
    """As a look at each would find it."""
    stamps: dict[int, int] = {}

    class Log:
        """Batches of three that are stamped together; of most only some are left."""

        def read(self, queue: str, first: int, last: int, bytes_max: int) -> Batches:
            low = first - first % 3
            for start in range(low, last + 1, 3):
                held = [number for number in range(start, start + 3) if number in stamps]
                if held:
                    data = b"".join(
                        batch(number, [record(b"x")], stamp_ms=stamps[number]) for number in held
                    )
                    return Batches(start + 3, data)
            return Batches(last + 1, b"")

    for left in (range(0), range(40), range(0, 40, 7), [3, 4, 30, 31, 39], [38]):
        stamps.clear()
        stamps.update({number: number // 6 * 5 for number in left})
        runs = [(number, number) for number in sorted(left, reverse=True)]
        first = first_beyond(Log(), "q", runs, Bound(-1, asked))
        kept = [number for number, _ in cut_runs(runs, first, 1_000)]
        assert kept == [number for number, _ in runs if stamps[number] >= asked]
