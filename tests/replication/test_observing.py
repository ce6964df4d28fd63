"""What a member gives to nodes that observe its group, from what it has in memory."""

from __future__ import annotations

import pytest

import warren
from tests.replication.hosts import GROUP, World
from tests.replication.test_observer import RECORD, messages
from warren.limits import FEED_READS_MAX
from warren.log.batch import KIND_MESSAGES
from warren.ports import Work
from warren.replication import frames, kinds
from warren.replication import observing_frames as said
from warren.replication.observing import PREPARES_MS
from warren.replication.proposals import Proposal

COUNT = 4


def test_an_answer_has_no_message_twice_of_a_batch_that_was_cut() -> None:
    """What the compactor left of a batch may have been read while the whole is in memory still."""
    world = World("a")
    host = world.hosts["a"]
    lengths = len(RECORD).to_bytes(4, "little") * COUNT
    host.member.append(0, Proposal(0, KIND_MESSAGES, COUNT, lengths, RECORD * COUNT, None))
    host.write()
    log = host.member.log
    # One that was read begins where the whole does, and ends before.
    cut = messages(int(log.last_index), 0, 2)
    log.share.read_back.push(cut)
    assert log.cached(1) is cut
    assert log.cached(2) is not cut
    wanted = 0
    answers = []
    while wanted < COUNT:
        fetch = [said.fetch_frame(GROUP, 1, wanted, COUNT - 1, 1 << 20)]
        frames.seal(fetch)
        host.member.received("b", b"".join(fetch))
        ((_, _, frame),) = world.taken(kinds.BODIES, "b")
        found = [(int(batch.first), int(batch.count)) for batch in said.batches_of(frame)]
        answers.append(found)
        assert sum(found[-1]) > wanted
        wanted = sum(found[-1])
    assert answers == [[(0, 2)], [(0, 4)]]


def test_an_observer_that_has_all_is_not_behind_for_what_has_to_be_read() -> None:
    """Entries that are not in memory come one by one, and it never gets the state instead."""
    world = World("a")
    host = world.hosts["a"]
    host.recent_bytes = 0
    lengths = len(RECORD).to_bytes(4, "little")
    host.member.append(0, Proposal(0, KIND_MESSAGES, 1, lengths, RECORD, None))
    host.write()
    last = int(host.member.applied_index)
    observe = [said.observe_frame(GROUP, 1, last, host.member.log.term_at(last))]
    frames.seal(observe)
    host.member.received("b", b"".join(observe))
    world.taken(kinds.FEED, "b")
    for _ in range(3 * FEED_READS_MAX):
        host.member.append(0, Proposal(0, KIND_MESSAGES, 1, lengths, RECORD, None))
        host.write()
        host.executor.drain()
        (frame,) = [frame for _, _, frame in world.taken(kinds.FEED, "b")]
        assert [int(entry.index) for entry in said.Feed(frame).entries] == [last + 1]
        last += 1
    assert not world.taken(kinds.STATE, "b")


class Slow(Work):
    """What the machine's state takes: a given number of turns."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def go_on(self) -> bool:
        self.turns -= 1
        return self.turns <= 0


@pytest.mark.skipif(warren.COMPILED, reason="a machine's state is replaced")
def test_an_observer_is_told_that_its_state_is_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Now and then, so that it does not take this member for one that is gone."""
    world = World("a")
    host = world.hosts["a"]
    host.append(3)
    host.write()
    member = host.member
    monkeypatch.setattr(member.machine, "write_state", lambda out: Slow(1_000))
    index = int(member.applied_index)
    observe = [said.observe_frame(GROUP, 1, 0, 0)]
    frames.seal(observe)
    member.received("b", b"".join(observe))
    told = 0
    for turn in range(999):
        for _, _, frame in world.taken(kinds.FEED, "b"):
            feed = said.Feed(frame)
            assert (feed.applied, feed.leader, feed.entries) == (index, "a", [])
            told += 1
        assert told == 1 + turn // PREPARES_MS
        assert not world.taken(kinds.STATE, "b")
        world.now += 1
        host.turn()
    assert len(world.taken(kinds.STATE, "b")) == 1
    host.turn()
    assert not host.applies
