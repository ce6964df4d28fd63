"""Blocks of an events feed as Arrow batches, without a broker and without a JVM."""

from __future__ import annotations

from typing import Final

import pytest

from warren.queues.feed_block import (
    ACKED,
    DELIVERED,
    DROPPED,
    LIFE_CYCLE,
    MAGIC,
    NO_REASON,
    NONE,
    PUBLISHED,
    UNSEEN,
    FeedBlock,
)
from warren.spark import feed


def block_of(*rows: tuple[int, int, int]) -> FeedBlock:
    """A block about one queue: events, first numbers and counts."""
    block = FeedBlock("v", "n@h")
    place = block.queue("q\udcff", 9)
    for event, first, count in rows:
        block.row(event, NO_REASON, 1_000, place, first, count, 1, 10 * count, NONE, NONE)
    return block


def test_a_row_has_what_was_told_and_nothing_else() -> None:
    block = block_of((PUBLISHED, 0, 2))
    text = block.text('{"event": "queue.deleted", "name": "q"}')
    block.row(LIFE_CYCLE, NO_REASON, 2_000, NONE, NONE, NONE, 1, NONE, NONE, text)
    first, second = feed.decode(block.encode(3, 5, 1)).to_pylist()
    assert first["time"].timestamp() == 1.0
    assert {name: first[name] for name in ("vhost", "node", "life", "block", "left_out")} == {
        **{"vhost": "v", "node": "n@h", "life": 3, "block": 5, "left_out": 1}
    }
    assert (first["event"], first["queue"], first["incarnation"]) == ("published", "q\ufffd", 9)
    assert (first["first_offset"], first["count"], first["bytes"]) == (0, 2, 20)
    assert first["consumer"] is first["reason"] is first["detail"] is None
    assert second["event"] == "queue.deleted" and '"name": "q"' in second["detail"]
    assert second["queue"] is second["first_offset"] is second["count"] is None


@pytest.mark.parametrize(
    "spread", [0, 1, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, 1 << 61]
)
def test_columns_are_as_wide_as_what_they_say(spread: int) -> None:
    block = FeedBlock("v", "n@h")
    place = block.queue("q", 9)
    for first, consumer in ((5, 1 << 62), (5 + spread, 7)):
        who = block.consumer(consumer)
        block.row(ACKED, NO_REASON, min(spread, 1 << 45), place, first, 3, 4, NONE, who, NONE)
    value = block.encode(1, 1, 0)
    rows = feed.decode(value).to_pylist()
    assert [row["first_offset"] for row in rows] == [5, 5 + spread]
    assert [row["consumer"] for row in rows] == [1 << 62, 7]
    assert [(row["count"], row["step"], row["bytes"]) for row in rows] == [(3, 4, None)] * 2
    if spread < 1 << 32:
        one_each = [row["offset"] for row in feed.table([value], explode=True).to_pylist()]
        assert one_each == [5, 9, 13, *(5 + spread + ahead for ahead in (0, 4, 8))]


def test_numbers_are_told_that_are_lower_than_those_of_the_rows_before() -> None:
    block = FeedBlock("v", "n@h")
    places = [block.queue(name, 9) for name in ("a", "b")]
    rows = [(0, 1 << 40), (1, 7), (0, 3), (1, 1 << 50), (0, (1 << 40) + 1), (1, 0)]
    for which, first in rows:
        block.row(ACKED, NO_REASON, 1_000, places[which], first, 1, 1, NONE, NONE, NONE)
    told = feed.decode(block.encode(1, 1, 0)).to_pylist()
    assert [("ab".index(row["queue"]), row["first_offset"]) for row in told] == rows


def test_rows_that_differ_in_one_thing_differ_in_no_other() -> None:
    """Columns that share a cell, each with its highest value beside the lowest."""
    block = FeedBlock("v", "n@h")
    queues = [block.queue(f"q{each}", each) for each in range(300)]
    consumers = [block.consumer(each) for each in range(300)]
    texts = [block.text(f"{each}") for each in range(300)]
    low = (DELIVERED, NO_REASON, queues[0], consumers[0], texts[0])
    high = (DROPPED, UNSEEN, queues[-1], consumers[-1], texts[-1])
    wanted = []
    for at in range(len(low)):
        event, reason, queue, who, text = (*low[:at], high[at], *low[at + 1 :])
        block.row(event, reason, 1_000, queue, 5, 1, 1, NONE, who, text)
        said = str(text - texts[0])
        wanted.append((feed.EVENTS[event], feed.REASONS.get(reason), f"q{queue}", who, said))
    names = ("event", "reason", "queue", "consumer", "detail")
    rows = feed.decode(block.encode(1, 1, 0)).to_pylist()
    assert [tuple(row[name] for name in names) for row in rows] == wanted


def test_rows_of_many_consumers_take_some_eight_bytes() -> None:
    """50 ms of 50 consumers with a message each in a millisecond, as docs/performance.md says."""
    block = FeedBlock("/", "n@h")
    place = block.queue("q", 9)
    consumers = [block.consumer((7 << 40) + each) for each in range(50)]
    for ms in range(50):
        for nth, who in enumerate(consumers):
            first = 10_000_000 + 50 * ms + nth
            time_ms = 1_800_000_000_000 + ms
            for event in (DELIVERED, ACKED):
                block.row(event, NO_REASON, time_ms, place, first, 1, 1, NONE, who, NONE)
    assert len(block.encode(1, 1, 0)) < 8 * 5_000


def test_damaged_blocks_are_refused_and_do_not_take_memory() -> None:
    whole = block_of((PUBLISHED, 5, 3), (ACKED, 6, 1)).encode(1, 1, 0)
    for at in range(len(MAGIC), len(whole)):
        for flipped in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flipped
            try:
                batch = feed.decode(bytes(damaged))
            except feed.FeedError:
                continue
            assert batch.num_rows <= feed.ROWS_MAX


def test_an_empty_block_has_no_rows_and_all_columns() -> None:
    for explode in (False, True):
        told = feed.table([block_of().encode(1, 1, 0)], explode)
        assert told.num_rows == 0 and told.schema == feed.arrow_schema(explode)
    assert feed.table([]).schema == feed.arrow_schema()


def test_each_message_of_a_run_is_a_row_where_that_is_asked_for() -> None:
    values = [block_of((PUBLISHED, 5, 3), (ACKED, 6, 1)).encode(1, 1, 0)] * 2
    rows = feed.table(values, explode=True).to_pylist()
    told = [(row["event"], row["offset"], row["bytes"]) for row in rows]
    one = [*(("published", offset, 10) for offset in (5, 6, 7)), ("acked", 6, None)]
    assert told == one * 2


def test_an_event_of_a_later_release_has_no_name_but_its_numbers() -> None:
    (row,) = feed.decode(block_of((77, 1, 1)).encode(1, 1, 0)).to_pylist()
    assert row["event"] is None and row["first_offset"] == 1


def test_what_is_no_block_is_refused_with_a_reason() -> None:
    whole = block_of((PUBLISHED, 0, 2)).encode(1, 1, 0)
    with pytest.raises(feed.FeedError, match="no release"):
        feed.decode(b"WFB1" + whole[len(MAGIC) :])
    with pytest.raises(feed.FeedError, match="no block"):
        feed.decode(b"three carrots")
    for skip in (False, True):
        with pytest.raises(feed.NewerFeedError, match="later release"):
            feed.table([b"WFB3" + whole[len(MAGIC) :]], skip_foreign=skip)
    with pytest.raises(feed.FeedError, match="no block"):
        feed.table([whole, b"three carrots"])
    assert feed.table([whole, b"three carrots"], skip_foreign=True).num_rows == 1
    for size in range(len(whole)):
        with pytest.raises(feed.FeedError, match="no block|cut off"):
            feed.decode(whole[:size])


def test_a_run_of_very_many_messages_comes_in_parts() -> None:
    """A purge of a queue is one run, however much was in it."""
    block = block_of((PUBLISHED, 5, 2), (DROPPED, 7, 3 * feed.PART_ROWS), (ACKED, 6, 1))
    told = feed.table([block.encode(1, 1, 0)], explode=True)
    sizes = [len(chunk) for chunk in told.column("offset").chunks]
    assert sizes == [feed.PART_ROWS] * 3 + [3]
    offsets = told.column("offset").to_pylist()
    assert offsets == [5, 6, *range(7, 7 + 3 * feed.PART_ROWS), 6]


IMPOSSIBLE: Final = (
    *((-5, 1, 1), (0, -5, 1), (0, 2, 0), (0, 2, -3), ((1 << 63) - 1, 1, 1)),
    *((0, 1 << 61, 4), (3 << 61, 1, 1)),
)
"""First numbers, counts and steps that no node says, and that a query could not reckon with."""


def run_of(first: int, count: int, step: int) -> bytes:
    """A block with a run that is anything."""
    block = block_of()
    block.row(ACKED, NO_REASON, 1_000, 0, first, count, step, NONE, NONE, NONE)
    return block.encode(1, 2, 0)


_NOWHERE: Final = (
    *(("consumer", 7), ("queue", 7), ("text", 7), ("consumer", 1 << 62)),
    *(("event", -9), ("reason", -9), ("reason", 1 << 62)),
)
"""Columns, and places that they do not have."""


def based(value: bytes, column: str, base: int) -> bytes:
    """A block of which a column has another base."""
    at = feed.HEAD.size + feed.NARROW.size * feed.COLUMNS.index(column)
    return value[:at] + base.to_bytes(8, "little", signed=True) + value[at + 8 :]


def wide_block(rows: int, text: int) -> bytes:
    """A block of few bytes that makes a large table: all its rows are alike."""
    block = FeedBlock("v", "n" * text)
    block.row(LIFE_CYCLE, NO_REASON, 1_000, NONE, NONE, NONE, 1, NONE, NONE, NONE)
    value = block.encode(1, 2, 0)
    return value[: len(MAGIC)] + rows.to_bytes(4, "little") + value[len(MAGIC) + 4 :]


def test_wide_texts_of_a_long_run_come_in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PART_TEXT_BYTES", 1 << 20)
    block = FeedBlock("v", "n" * 1_000)
    place = block.queue("q", 9)
    block.row(DROPPED, NO_REASON, 1_000, place, 7, 10_000, 1, NONE, NONE, NONE)
    told = feed.table([block.encode(1, 1, 0)], explode=True)
    sizes = [len(chunk) for chunk in told.column("offset").chunks]
    assert sum(sizes) == 10_000 and max(sizes) * 1_000 <= feed.PART_TEXT_BYTES


@pytest.mark.parametrize("explode", [False, True])
def test_a_block_that_no_node_wrote_is_refused_or_passed_over(explode: bool) -> None:
    """Whoever may publish to the feed's queue may say anything."""
    whole = block_of((PUBLISHED, 0, 2)).encode(1, 1, 0)
    untold = block_of()
    untold.row(LIFE_CYCLE, NO_REASON, 1_000, NONE, NONE, NONE, 1, NONE, NONE, 99)
    never = block_of()
    never.row(PUBLISHED, NO_REASON, 1 << 62, 0, 0, 1, 1, NONE, NONE, NONE)
    forged = [each.encode(1, 2, 0) for each in (untold, never)]
    forged += [based(whole, column, base) for column, base in _NOWHERE]
    if explode:
        forged += [block_of((PUBLISHED, 0, count)).encode(1, 2, 0) for count in (1 << 33, 1 << 59)]
        forged += [block_of(*[(PUBLISHED, 0, 1 << 59)] * 32).encode(1, 2, 0)]
    forged += [run_of(*run) for run in IMPOSSIBLE]
    forged += [wide_block(rows=1 << 16, text=1 << 12), wide_block(rows=1 << 20, text=1)]
    for value in forged:
        with pytest.raises(feed.FeedError):
            feed.table([value], explode)
    assert feed.table([*forged, whole], explode, skip_foreign=True).num_rows in (1, 2)
    odd = block_of()
    odd_texts = ("[" * 5_000, '{"event": 5}', "null", '{"event": {}}', r'{"event": "\ud800"}')
    for text in odd_texts:
        place = odd.text(text)
        odd.row(LIFE_CYCLE, NO_REASON, 1_000, NONE, NONE, NONE, 1, NONE, NONE, place)
    assert [row["event"] for row in feed.table([odd.encode(1, 3, 0)]).to_pylist()] == [None] * 5
