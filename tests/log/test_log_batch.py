"""The record batch: what is encoded is what is decoded, and bits do not change unnoticed."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.log.model import pack_lengths
from warren.log.batch import HEADER_BYTES, KIND_COMMAND, KIND_MESSAGES, Batch, Header
from warren.log.copying import narrowed
from warren.log.facts import (
    FAILURES,
    KNOWN,
    PRIORITIES,
    SIZES,
    facts_in,
    failures_at,
    narrowed_facts,
    priority_at,
    size_at,
)
from warren.message.properties import EXPIRATION_MS_MAX, parse_life

NUMBERS = st.integers(0, 2**63 - 1)
FLAVOURS = st.integers(0, 255)
RECORDS = st.lists(st.binary(max_size=60), min_size=1, max_size=30)


LIVES = st.one_of(
    st.integers(-1, 3), st.integers(2**31 - 3, 2**31 + 3), st.integers(0, EXPIRATION_MS_MAX)
)


def build(
    records: list[bytes],
    index: int,
    term: int,
    first: int,
    stamp_ms: int,
    flavour: int = 0,
    life_ms: int = -1,
    sized: bool = False,
) -> Batch:
    payload = b"".join(records)
    lengths = pack_lengths(records)
    count = len(records)
    batch = Batch(
        None, KIND_MESSAGES, index, term, first, count, stamp_ms, lengths, 0, payload, 0,
        len(payload), None, 0, 0, flavour, life_ms,
        sizes_of(records) if sized else b"",
    )  # fmt: skip
    batch.group_id = 9
    return batch


def sizes_of(records: list[bytes]) -> bytes:
    """Facts that say of each record twice its length, and what it begins with."""
    sizes = struct.pack(f"<I{len(records)}I", SIZES | PRIORITIES, *(2 * len(r) for r in records))
    return sizes + bytes(record[0] if record else 0 for record in records)


@given(
    RECORDS,
    NUMBERS,
    NUMBERS,
    st.integers(0, 2**62),
    NUMBERS,
    FLAVOURS,
    LIVES,
    st.integers(0, 40),
    st.booleans(),
)
def test_round_trip(
    records: list[bytes],
    index: int,
    term: int,
    first: int,
    stamp_ms: int,
    flavour: int,
    life_ms: int,
    before: int,
    sized: bool,
) -> None:
    life_ms = life_ms if life_ms < 0 else parse_life(str(life_ms))
    batch = build(records, index, term, first, stamp_ms, flavour, life_ms, sized)
    data = bytes(before) + batch.encode_head() + batch.body()
    header = Header()
    assert header.load(data, before, len(data)) == ""
    assert header.checksum_holds(data, before)
    back = header.batch(None, data, before)
    assert (back.group_id, back.kind, back.index, back.term) == (9, KIND_MESSAGES, index, term)
    assert back.life_ms == life_ms
    assert back.flavour == flavour and data[before + 13] == flavour
    assert (back.first, back.count, back.stamp_ms) == (first, len(records), stamp_ms)
    assert [back.record(at) for at in range(back.count)] == records
    assert back.size() == len(data) - before == batch.size()
    assert back.facts == batch.facts == (sizes_of(records) if sized else b"")
    assert back.encoded() == batch.encoded() == data[before:]
    for each in (back, batch):
        each.detach()
        assert each.encoded() == data[before:]


@given(RECORDS, st.data())
def test_any_changed_bit_is_noticed(records: list[bytes], data: st.DataObject) -> None:
    batch = build(records, 1, 2, 3, 4)
    whole = bytearray(batch.encode_head() + batch.body())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    changed = bytes(whole)
    header = Header()
    assert header.load(changed, 0, len(changed)) or not header.checksum_holds(changed, 0)


@given(st.binary(max_size=200))
def test_any_bytes_are_told_or_decoded(data: bytes) -> None:
    header = Header()
    if not header.load(data, 0, len(data)):
        assert HEADER_BYTES <= header.size <= len(data)


@given(RECORDS, st.data())
def test_a_narrowed_batch_holds_its_part(records: list[bytes], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(records) - 1))
    last = data.draw(st.integers(first, len(records) - 1))
    sized = data.draw(st.booleans())
    part = narrowed(build(records, 1, 2, 100, 4, 3, 77, sized), 100 + first, 100 + last)
    assert part.facts == (sizes_of(records[first : last + 1]) if sized else b"")
    assert (part.first, part.index, part.flavour, part.life_ms) == (100 + first, 1, 3, 77)
    assert [part.record(at) for at in range(part.count)] == records[first : last + 1]
    raw = part.encode_head() + part.body()
    header = Header()
    assert header.load(raw, 0, len(raw)) == "" and header.checksum_holds(raw, 0)


def test_facts_that_are_not_known_are_no_batch() -> None:
    """A later release may write others; of a batch without messages there are none."""
    records = [b"one", b"two"]
    batch = build(records, 1, 2, 3, 4, sized=True)
    raw = bytearray(batch.encode_head() + batch.body())
    facts_at = HEADER_BYTES + 4 * len(records)
    for which in (0, 8, 9, 1 << 31):
        raw[facts_at : facts_at + 4] = struct.pack("<I", which)
        assert Header().load(bytes(raw), 0, len(raw)) == "the facts are unknown"
    raw[facts_at : facts_at + 4] = struct.pack("<I", SIZES | PRIORITIES)
    raw[12] = KIND_COMMAND
    assert Header().load(bytes(raw), 0, len(raw)) == "there are facts of no messages"
    raw[12] = KIND_MESSAGES
    raw[15] = 2
    assert Header().load(bytes(raw), 0, len(raw)) == "the kind or version is unknown"


@given(st.integers(1, KNOWN), RECORDS, st.data())
def test_facts_say_of_each_message_what_they_say(
    which: int, records: list[bytes], data: st.DataObject
) -> None:
    sizes = [len(record) for record in records]
    ranks = [len(record) % 256 for record in records]
    facts = struct.pack("<I", which)
    facts += struct.pack(f"<{len(sizes)}I", *sizes) if which & SIZES else b""
    facts += bytes(ranks) if which & PRIORITIES else b""
    failures = [len(record) * 3 for record in records]
    facts += struct.pack(f"<{len(sizes)}I", *failures) if which & FAILURES else b""
    skip = data.draw(st.integers(0, len(records) - 1))
    count = data.draw(st.integers(1, len(records) - skip))
    part = narrowed_facts(facts, skip, count)
    assert facts_in(part) == which
    for at in range(count):
        if which & SIZES:
            assert size_at(part, at) == sizes[skip + at]
        if which & PRIORITIES:
            assert priority_at(part, count, at) == ranks[skip + at]
        assert failures_at(part, at) == (failures[skip + at] if which & FAILURES else 0)
