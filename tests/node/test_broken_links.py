"""A link of a node with many groups breaks: each of them hears of it, few in a turn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import warren
from tests.node.pair import Pair, sealed
from warren.node.cluster import news, transfer
from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.raft.messages import SnapshotOffer
from warren.raft.raft import Raft
from warren.replication.frames import HEAD_BYTES, group_of
from warren.replication.kinds import FEED, SNAPSHOT
from warren.replication.member import Member
from warren.replication.observing import Observing
from warren.replication.observing_frames import observe_frame
from warren.replication.snapshots import Snapshots

QUEUES = 40
FEW = 3

pytestmark = pytest.mark.skipif(
    warren.COMPILED, reason="a bound is changed in uncompiled code only"
)


class Broken:
    """Node a with some queues of its own, and what it shares with b when a link breaks.

    Attributes:
        sent: What a sends from then on, by node.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for module, bound in (
            (news, "TURN_MEMBERS_MAX"),
            (transfer, "TURN_TRANSFERS_MAX"),
        ):
            monkeypatch.setattr(module, bound, FEW, raising=False)
        self.pair = Pair()
        self.client = self.pair.a.client()
        for number in range(QUEUES):
            self.client.declare(f"q{number}", kind="quorum", size=1)
            self.client.publish(f"q{number}", b"x")
        self.node = self.pair.a.node
        self.cluster = self.node.cluster
        self.members = [
            self.cluster.members[int(self.pair.a.record(f"q{number}").group_id)]
            for number in range(QUEUES)
        ]
        self.pair.settle()
        for member in self.members:
            assert member.snapshots.take(member, True) > 0
        self.pair.until(lambda: all(member.snapshots.payload for member in self.members))
        self.pair.settle()
        self.sent: list[tuple[str, bytes]] = []
        send = self.node.cluster.peers.send

        def noted(peer: str, message: list[bytes]) -> bool:
            self.sent.append((peer, b"".join(message)))
            return send(peer, message)

        monkeypatch.setattr(self.node.cluster.peers, "send", noted)

    def observe(self, member: Member, number: int) -> None:
        """Node b asks to be fed."""
        frame = observe_frame(member.group_id, number, 0, -1)
        self.cluster.received("b", sealed(frame))

    def send_snapshot(self, member: Member) -> None:
        """Node b needs a snapshot."""
        index = int(member.log.snapshot_index)
        self.cluster.transfers.send(member, SendSnapshot(self._offer(member, "a", "b", index)))

    def await_snapshot(self, member: Member) -> SnapshotOffer:
        """Node b offers a snapshot, as if it led."""
        given = self._offer(member, "b", "a", int(member.log.last_index) + 9)
        self.cluster.transfers.accept(member, AcceptSnapshot(given))
        assert member.log.incomplete
        return given

    @staticmethod
    def _offer(member: Member, sender: str, target: str, index: int) -> SnapshotOffer:
        own = int(member.raft.members[0].incarnation)
        there = {"a": own, "b": own + 1}
        term = int(member.raft.term)
        members = list(member.raft.members)
        return SnapshotOffer(
            sender, there[sender], target, there[target], term, index, term, members
        )

    def of(self, kind: int, member: Member, what: int = -1) -> int:
        """How many messages of a kind about a group a has sent to b."""
        return sum(
            peer == "b"
            and message[0] == kind
            and int(group_of(message)) == int(member.group_id)
            and (what < 0 or message[HEAD_BYTES] == what)
            for peer, message in self.sent
        )

    def finish(self) -> None:
        """Have a take turns until it has nothing left to do."""
        for _ in range(10 * QUEUES):
            if self.node.needs_turn:
                self.node.turn()
        assert not self.node.needs_turn


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(monkeypatch)


@pytest.mark.rule("QQ-27")
@pytest.mark.parametrize("shared", ["fed", "sent", "sent, a new link", "awaited", "awaited, down"])
def test_few_of_many_groups_hear_at_once(
    shared: str, broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others do in the turns that follow, all of them."""
    begin: Callable[..., object]
    begin, told = {
        "fed": (lambda member: broken.observe(member, 1), (Observing, "lost")),
        "sent": (broken.send_snapshot, (Raft, "snapshot_sent")),
        "awaited": (broken.await_snapshot, (Snapshots, "give_up_install")),
    }[shared.split(",")[0]]
    for member in broken.members:
        begin(member)
    seen: list[int] = [0]
    tell = getattr(*told)

    def counted(*words: Any) -> Any:
        seen[-1] += 1
        return tell(*words)

    monkeypatch.setattr(*told, counted)
    transfers = broken.cluster.transfers
    if shared.endswith("link"):
        transfers.greeted("b")
    elif shared.endswith("down"):
        transfers.sender_down("b")
    else:
        broken.cluster.broken("b")
    while broken.node.needs_turn and len(seen) < 10 * QUEUES:
        seen.append(0)
        broken.node.turn()
    assert (sum(seen), max(seen)) == (QUEUES, FEW)
    for member in broken.members:
        assert not member.observing.watchers and not member.log.incomplete


def test_a_node_is_fed_nothing_over_a_gap(broken: Broken) -> None:
    """What was on its way when the link broke is lost, and those not seen to yet have news."""
    for member in broken.members:
        broken.observe(member, 1)
    broken.finish()
    last = broken.members[-1]
    assert last.observing.watchers
    broken.cluster.broken("b")
    before, applied = broken.of(FEED, last), last.applied_index
    broken.client.publish(f"q{QUEUES - 1}", b"y")
    broken.client.exchange()
    for _ in range(3):
        broken.node.turn()
        broken.node.flush_deferred()
        broken.pair.a.executor.step()
    assert last.applied_index > applied
    assert broken.members[-2].observing.watchers, "there was no turn for the last ones yet"
    assert not last.observing.watchers and broken.of(FEED, last) == before
    broken.finish()
    assert not any(member.observing.watchers for member in broken.members)


def test_a_node_that_asks_anew_meanwhile_is_fed(broken: Broken) -> None:
    for member in broken.members:
        broken.observe(member, 1)
    broken.finish()
    broken.cluster.broken("b")
    last = broken.members[-1]
    broken.observe(last, 2)
    broken.finish()
    watchers = [member.observing.watchers.get("b") for member in broken.members]
    assert watchers[:-1] == [None] * (QUEUES - 1)
    assert watchers[-1] is not None and watchers[-1].observation == 2
    assert list(broken.cluster.feeds("b").groups) == [int(last.group_id)]
    # And it is let go of with the link over which it asked.
    broken.cluster.broken("b")
    assert not last.observing.watchers


@pytest.mark.rule("QQ-27")
def test_a_snapshot_that_is_offered_anew_meanwhile_is_sent(broken: Broken) -> None:
    """It has the same index: its receiver would take the end of the first one for its own."""
    for member in broken.members:
        broken.send_snapshot(member)
    broken.cluster.broken("b")
    last = broken.members[-1]
    broken.send_snapshot(last)
    said = [broken.of(SNAPSHOT, member, transfer.LOST) for member in broken.members]
    assert said == [1] * FEW + [0] * (QUEUES - FEW)
    broken.finish()
    said = [broken.of(SNAPSHOT, member, transfer.LOST) for member in broken.members]
    assert said == [1] * (QUEUES - 1) + [0]
    index = int(last.log.snapshot_index)
    ready = transfer.snapshot_frame(last.group_id, transfer.READY, index).getvalue()
    broken.cluster.received("b", sealed(ready))
    broken.pair.settle()
    assert broken.of(SNAPSHOT, last, transfer.LIVE) == 1


@pytest.mark.rule("QQ-27")
def test_a_part_that_was_being_read_is_not_sent(broken: Broken) -> None:
    """Its receiver may have begun with nothing since."""
    for member in broken.members:
        broken.send_snapshot(member)
    last = broken.members[-1]
    index = int(last.log.snapshot_index)
    ready = transfer.snapshot_frame(last.group_id, transfer.READY, index).getvalue()
    broken.cluster.received("b", sealed(ready))
    broken.cluster.broken("b")
    broken.pair.settle()
    assert broken.of(SNAPSHOT, last, transfer.LIVE) == 0
    assert broken.of(SNAPSHOT, last, transfer.LOST) == 1


@pytest.mark.rule("QQ-27")
def test_a_snapshot_that_is_taken_anew_meanwhile_is_waited_for(broken: Broken) -> None:
    for member in broken.members:
        broken.await_snapshot(member)
    broken.cluster.broken("b")
    last = broken.members[-1]
    broken.await_snapshot(last)
    broken.finish()
    assert [member.log.incomplete for member in broken.members] == [False] * (QUEUES - 1) + [True]
    broken.cluster.broken("b")
    assert not last.log.incomplete


@pytest.mark.rule("QQ-27")
def test_what_comes_of_a_snapshot_after_the_break_is_no_part_of_it(broken: Broken) -> None:
    """What was lost with the link may have been before it."""
    given = [broken.await_snapshot(member) for member in broken.members]
    broken.cluster.broken("b")
    last = broken.members[-1]
    assert last.log.incomplete, "it has not been seen to"
    live = transfer.snapshot_frame(last.group_id, transfer.LIVE, given[-1].index).getvalue()
    broken.cluster.received("b", sealed(live))
    assert broken.of(SNAPSHOT, last, transfer.READY) == 1
    broken.finish()
    assert not last.log.incomplete


def test_a_member_may_go_meanwhile(broken: Broken) -> None:
    for member in broken.members:
        broken.observe(member, 1)
        broken.send_snapshot(member)
    broken.cluster.broken("b")
    last = broken.members[-1]
    broken.cluster.remove(last.group_id)
    broken.finish()
    assert last.stopped and not any(member.observing.watchers for member in broken.members)


@pytest.mark.parametrize("waits", ["sent", "awaited"])
def test_a_tick_gives_few_of_many_snapshots_up(waits: str, broken: Broken) -> None:
    for member in broken.members:
        if waits == "sent":
            broken.send_snapshot(member)
        else:
            broken.await_snapshot(member)
    now = broken.cluster.monotonic_ms() + transfer.QUIET_MS
    transfers = broken.cluster.transfers

    def left() -> int:
        here = transfers._outgoing if waits == "sent" else transfers._incoming
        return len(here["b"])

    counts = [left()]
    while counts[-1] and len(counts) < 10 * QUEUES:
        transfers.tick(now)
        counts.append(left())
    assert [a - b for a, b in pairwise(counts)] == [FEW] * (QUEUES // FEW) + [QUEUES % FEW]
