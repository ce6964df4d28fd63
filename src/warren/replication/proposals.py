"""What a node submits to a group, and keeps until it has applied it.

Proposals are numbered from 1 within a session of the node, without gaps, so that a leader can
tell what it has from what it misses and nothing is doubled or overtaken when one is offered again.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.errors import ClusterError
from warren.headed_list import HeadedList
from warren.ids import EPOCH_MAX, epoch_of, first_session, life_of_session

EPOCHS_ENOUGH: Final = 128
"""Behind so many sessions of one life the node asks the tables for further ones."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Throttled:
    """Proposes on behalf of publishers, who may have to wait.

    Attributes:
        proposals_behind: Whether publishers to quorum queues have to wait, because too much of what
            the node proposed is not applied.
        unled_behind: The same of quorum queues that have no leader.
    """

    proposals_behind: bool = False
    unled_behind: bool = False


@final
class Load:
    """What all groups of a node keep until it is applied, in bytes, and how much that may be.

    Publishers wait for a queue that is behind; but there may be many queues. With more, publishers
    to all quorum queues wait until half of it is left. What groups without a leader keep is counted
    by itself, and holds up publishers to such queues alone: others get on.
    """

    def __init__(self, throttled: Throttled, most: i64) -> None:
        self._throttled = throttled
        self._most: i64 = most
        self._bytes: i64 = 0
        self._unled: i64 = 0

    def more(self, size: i64, led: bool) -> None:
        """Something is kept, of a group with a leader or without one."""
        if led:
            self._bytes += size
            if self._bytes > self._most:
                self._throttled.proposals_behind = True
        else:
            self._unled += size
            if self._unled > self._most:
                self._throttled.unled_behind = True

    def less(self, size: i64, led: bool) -> None:
        """Something is applied, or given up."""
        if led:
            self._bytes -= size
            if self._throttled.proposals_behind and self._bytes <= self._most // 2:
                self._throttled.proposals_behind = False
        else:
            self._unled -= size
            if self._throttled.unled_behind and self._unled <= self._most // 2:
                self._throttled.unled_behind = False


@final
class Proposal:
    """An entry that a node wants in the log of a group.

    Attributes:
        sequence: Its number within the session.
        kind, count, lengths, payload, flavour, life_ms, facts: As for `GroupLog.append`.
        origin: What waits for it; handed to the machine when it applies the entry here.
    """

    def __init__(
        self,
        sequence: i64,
        kind: i64,
        count: i64,
        lengths: bytes,
        payload: bytes,
        origin: object | None,
        flavour: i64 = 0,
        life_ms: i64 = -1,
        facts: bytes = b"",
    ) -> None:
        self.sequence: i64 = sequence
        self.kind: i64 = kind
        self.count: i64 = count
        self.lengths = lengths
        self.payload = payload
        self.origin = origin
        self.flavour: i64 = flavour
        self.life_ms: i64 = life_ms
        self.facts = facts


@final
class Proposals:
    """Those of one node to one group that it has not applied yet.

    Attributes:
        session: The session in force; 0 before the node has one.
        offered: The newest one that the present leader was offered.
        led: Whether the group has a leader, as far as this node knows.
    """

    def __init__(self, session: i64, load: Load) -> None:
        self.session: i64 = session
        self.led: bool = False
        self._load = load
        self._bytes: i64 = 0
        """What those take that wait."""
        self.offered: i64 = 0
        self._furthest: i64 = 0
        """The newest one that any leader of this session was offered."""
        self._waiting: HeadedList[Proposal] = HeadedList()
        self._last: i64 = 0

    def add(
        self,
        kind: i64,
        count: i64,
        lengths: bytes,
        payload: bytes,
        origin: object | None,
        flavour: i64 = 0,
        life_ms: i64 = -1,
        facts: bytes = b"",
    ) -> None:
        """Number a proposal and keep it."""
        self._last += 1
        self._waiting.append(
            Proposal(self._last, kind, count, lengths, payload, origin, flavour, life_ms, facts)
        )
        self._bytes += len(payload)
        self._load.more(len(payload), self.led)

    def lead_known(self, led: bool) -> None:
        """The group has a leader now, or none."""
        if led != self.led:
            self._load.less(self._bytes, self.led)
            self._load.more(self._bytes, led)
            self.led = led

    def next_offer(self) -> Proposal | None:
        """The next one to offer, which then counts as offered; None if all are."""
        at = max(0, self.offered - (self._last - self._waiting.size()))
        if at >= self._waiting.size():
            return None
        found = self._waiting.at(at)
        self.offered = found.sequence
        self._furthest = max(self._furthest, found.sequence)
        return found

    def origin(self, sequence: i64) -> object | None:
        """Of one that may not be applied yet; None for one of before, as for `applied`."""
        at = sequence - self.first()
        return self._waiting.at(at).origin if at >= 0 else None

    def origins(self) -> list[object | None]:
        """Of all that wait, in their order."""
        return [self._waiting.at(at).origin for at in range(self._waiting.size())]

    def withdraw(self, origin: object) -> bool:
        """Give one up that was never offered; False if it may be done yet, or was."""
        waiting = self._waiting
        for at in range(waiting.size()):
            proposal = waiting.at(at)
            if proposal.origin is origin:
                if proposal.sequence <= self._furthest:
                    return False
                waiting.remove(at)
                self._less(proposal)
                self._last -= 1
                for behind in range(at, waiting.size()):
                    waiting.at(behind).sequence -= 1
                return True
        return False

    def unoffered(self) -> list[Proposal]:
        """Those that no leader of this session was offered."""
        waiting = self._waiting
        begin = max(0, self._furthest + 1 - self.first())
        return [waiting.at(at) for at in range(begin, waiting.size())]

    def give_up(self, gone: dict[int, None]) -> None:
        """Give some up that were never offered; those behind them get their numbers."""
        waiting = self._waiting
        left = self.unoffered()
        waiting.cut(waiting.size() - len(left))
        self._last -= len(left)
        for proposal in left:
            if int(proposal.sequence) in gone:
                self._less(proposal)
                continue
            self._last += 1
            proposal.sequence = self._last
            waiting.append(proposal)

    def _less(self, proposal: Proposal) -> None:
        size: i64 = len(proposal.payload)
        self._bytes -= size
        self._load.less(size, self.led)

    def offer_from(self, sequence: i64) -> None:
        """Offer again what has this number and all behind it."""
        self.offered = sequence - 1

    def applied(self, sequence: i64) -> object | None:
        """The oldest one was applied; its origin. None for one of before, in a log applied anew."""
        if sequence < self.first():
            return None
        found = self._waiting.pop_first()
        assert found.sequence == sequence, "proposals are applied in their order"
        self._less(found)
        return found.origin

    def renew(self, session: i64) -> None:
        """Another session is in force: what is left is submitted there."""
        self.session = session
        self.offered = 0
        self._furthest = 0
        self._last = 0
        for at in range(self._waiting.size()):
            self._last += 1
            self._waiting.at(at).sequence = self._last

    def next_epoch(self, newest: i64) -> None:
        """The session was closed: what is left goes into the next one of this node's life.

        Args:
            newest: What the tables gave the node last; its sessions come before further ones of
                what they gave it earlier.

        Raises:
            ClusterError: There is none left; one more would be a session of another life, perhaps
                another node's. The tables could not be asked all the while: a restart helps.
        """
        following = self.session + 1
        if newest > life_of_session(self.session):
            following = first_session(newest)
        elif epoch_of(self.session) == EPOCH_MAX:
            raise ClusterError(
                f"other nodes gave this one up {EPOCH_MAX + 1} times, and the cluster had no "
                "majority to let it go on meanwhile: start it again"
            )
        self.renew(following)

    def runs_out(self) -> bool:
        """Whether there are few sessions left."""
        return epoch_of(self.session) >= EPOCHS_ENOUGH

    def first(self) -> i64:
        """The number of the oldest one, of the next if there is none."""
        return self._last + 1 - self._waiting.size()

    def take_all(self) -> list[Proposal]:
        """Give up what is left, because the group is gone."""
        left = [self._waiting.at(at) for at in range(self._waiting.size())]
        for proposal in left:
            self._less(proposal)
        self._waiting.clear()
        self.offered = self._last
        return left

    def __len__(self) -> int:
        return self._waiting.size()
