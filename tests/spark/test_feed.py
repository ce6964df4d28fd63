"""Blocks of an events feed as Arrow batches, without a broker and without a JVM."""

from __future__ import annotations

import pytest

from warren.queues.feed_block import (
    ACKED,
    LIFE_CYCLE,
    MAGIC,
    NO_REASON,
    NONE,
    PUBLISHED,
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
        one_each = [row["offset"] for row in feed.decode(value, explode=True).to_pylist()]
        assert one_each == [5, 9, 13, *(5 + spread + ahead for ahead in (0, 4, 8))]


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
        batch = feed.decode(block_of().encode(1, 1, 0), explode)
        assert batch.num_rows == 0 and batch.schema == feed.arrow_schema(explode)
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
    with pytest.raises(feed.FeedError, match="no block"):
        feed.decode(b"three carrots")
    with pytest.raises(feed.FeedError, match="another release"):
        feed.decode(b"WFB9" + whole[len(MAGIC) :])
    with pytest.raises(feed.FeedError, match="no block"):
        feed.table([whole, b"three carrots"])
    assert feed.table([whole, b"three carrots"], skip_foreign=True).num_rows == 1
    for size in range(len(whole)):
        with pytest.raises(feed.FeedError, match="no block|cut off"):
            feed.decode(whole[:size])
