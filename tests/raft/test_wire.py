"""Messages survive encoding, and nothing but declared errors comes of bytes that are none."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.errors import CorruptRecord
from warren.raft import messages as ms
from warren.raft import wire
from warren.raft.members import GroupConfig, Replica
from warren.raft.runs import LogTerms

numbers = st.integers(0, 1 << 40)
names = st.text(min_size=1, max_size=40)
members = st.lists(st.builds(Replica, names, numbers, st.booleans()), max_size=5)
heads = st.tuples(names, numbers, names, numbers, numbers)


def values(thing: Any) -> Any:
    """All that a message says, as something that compares."""
    if isinstance(thing, list):
        return [values(item) for item in thing]
    if isinstance(thing, Replica):
        return (thing.node, thing.incarnation, thing.voter)
    if isinstance(thing, GroupConfig):
        return (thing.index, values(thing.members))
    if isinstance(thing, ms.Message):
        named = [(name, getattr(thing, name)) for name in dir(thing) if not name.startswith("_")]
        fields = [(name, values(value)) for name, value in named if not callable(value)]
        return (type(thing).__name__, fields)
    return thing


SIMPLE = {
    ms.PreVote: ("last_index", "last_term", "config_index"),
    ms.PreVoteReply: ("granted", "removed", "leader", "leader_incarnation"),
    ms.Vote: ("last_index", "last_term"),
    ms.VoteReply: ("granted",),
    ms.AppendReply: (
        "accepted",
        "prev_index",
        "match_index",
        "received_index",
        "commit_index",
        "hint_index",
        "hint_term",
    ),
    ms.TimeoutNow: (),
    ms.ReadProbe: ("round",),
    ms.ReadAck: ("round",),
}


@st.composite
def simple(draw: Any) -> ms.Message:
    kind = draw(st.sampled_from(sorted(SIMPLE, key=lambda kind: kind.__name__)))
    message = kind(*draw(heads))
    for name in SIMPLE[kind]:
        strategy: Any = numbers
        if name in ("granted", "removed", "accepted"):
            strategy = st.booleans()
        elif name == "leader":
            strategy = st.text(max_size=20)
        setattr(message, name, draw(strategy))
    return message


@st.composite
def appends(draw: Any) -> ms.Append:
    head = draw(heads)
    prev, prev_term = draw(numbers), draw(st.integers(0, head[4]))
    count = draw(st.integers(0, 50))
    message = ms.Append(*head, prev, prev_term, prev + count, draw(numbers))
    at, term = prev + 1, prev_term
    while at <= prev + count:
        term = draw(st.integers(term, head[4]))
        message.firsts.append(at)
        message.terms.append(term)
        at += draw(st.integers(1, 60))
    for index in sorted(
        draw(st.sets(st.integers(prev + 1, prev + count), max_size=3)) if count else []
    ):
        message.configs.append(GroupConfig(index, draw(members)))
    return message


offers = st.builds(
    lambda head, index, term, who: ms.SnapshotOffer(*head, index, term, who),
    heads,
    numbers,
    numbers,
    members,
)


@given(st.one_of(simple(), appends(), offers))
def test_a_message_comes_back(message: ms.Message) -> None:
    data = wire.encode(message)
    back = wire.decode(data)
    assert values(back) == values(message)
    assert wire.encode(back) == data


@given(members)
def test_members_come_back(who: list[Replica]) -> None:
    assert values(wire.decode_members(wire.encode_members(who))) == values(who)


@given(st.one_of(simple(), appends(), offers), st.randoms(use_true_random=False))
def test_damage_is_a_declared_error(message: ms.Message, random: Random) -> None:
    """Cut short, prolonged, or with a byte changed: an error or another message, nothing else."""
    data = bytearray(wire.encode(message))
    for cut in {0, 1, len(data) // 2, len(data) - 1}:
        with pytest.raises(CorruptRecord):
            wire.decode(bytes(data[:cut]))
    with pytest.raises(CorruptRecord):
        wire.decode(bytes(data) + b"x")
    for _ in range(20):
        at = random.randrange(len(data))
        data[at] = random.randrange(256)
        try:
            wire.decode(bytes(data))
        except CorruptRecord:
            pass


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for decode in (wire.decode, wire.decode_members):
        try:
            decode(data)
        except CorruptRecord:
            pass


def test_counts_are_checked_before_anything_is_made() -> None:
    message = ms.Append("a", 1, "b", 1, 9, 5, 1, 6, 0)
    message.firsts, message.terms = [6], [2]
    data = bytearray(wire.encode(message))
    data[-24:-20] = (0x7FFF_FFFF).to_bytes(4, "little")
    with pytest.raises(CorruptRecord, match="count"):
        wire.decode(bytes(data))


class Plain:
    """A log as a plain list of terms, to compare the runs with."""

    def __init__(self) -> None:
        self.base = 0
        self.base_term = 0
        self.terms: list[int] = []

    def term_at(self, index: int) -> int:
        if index == self.base:
            return self.base_term
        at = index - self.base - 1
        return self.terms[at] if 0 <= at < len(self.terms) else -1

    def common(self, index: int, term: int) -> int:
        index = min(index, self.base + len(self.terms))
        if index < self.base:
            return index
        while index >= self.base and self.term_at(index) > term:
            index -= 1
        return index


@pytest.mark.parametrize("seed", range(100))
def test_runs_are_a_list_of_terms(seed: int) -> None:
    random, runs, plain, term = Random(seed), LogTerms(0, 0), Plain(), 0
    for _ in range(60):
        last = plain.base + len(plain.terms)
        what = random.randrange(6)
        if what < 3:
            term = max(plain.term_at(last), term) + random.choice((0, 0, 1, 3))
            count = random.randint(1, 5)
            runs.append(last + count, term)
            plain.terms += [term] * count
        elif what == 3 and plain.terms:
            cut = random.randint(plain.base + 1, last)
            runs.truncate(cut)
            del plain.terms[cut - plain.base - 1 :]
        elif what == 4:
            index = random.randint(plain.base, last)
            plain.base_term, at = plain.term_at(index), index - plain.base
            runs.compact(index)
            plain.terms, plain.base = plain.terms[at:], index
        last = plain.base + len(plain.terms)
        assert (runs.last_index, runs.last_term()) == (last, plain.term_at(last))
        for index in range(max(0, plain.base - 2), last + 3):
            assert runs.term_at(index) == plain.term_at(index)
            for some in (0, term - 1, term):
                assert runs.common(index, some) == plain.common(index, some)
        if plain.terms:
            first = random.randint(plain.base + 1, last)
            end = random.randint(first, last)
            firsts: list[int] = []
            terms: list[int] = []
            runs.cut(first, end, firsts, terms)
            spread = [
                terms[max(at for at, start in enumerate(firsts) if start <= index)]
                for index in range(first, end + 1)
            ]
            assert firsts[0] == first
            assert spread == [plain.term_at(index) for index in range(first, end + 1)]
