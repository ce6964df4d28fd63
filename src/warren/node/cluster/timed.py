"""The members of a node that have a time to mind, each of which a tick looks at in some turn."""

from __future__ import annotations

from array import array
from typing import final

from mypy_extensions import i64

from warren.limits import TURN_ELECTIONS_MAX, TURN_TIMERS_MAX
from warren.node.loop import Loop
from warren.replication.member import Member
from warren.sharded_dict import ShardedDict


@final
class TimedMembers:
    """Has members mind their time, some of them in each turn."""

    def __init__(self, loop: Loop) -> None:
        self._loop: Loop = loop
        self._timed: ShardedDict[int, Member] = ShardedDict()
        """Those that have a time to mind, by group."""
        self._to_time: array[int] = array("q")
        """Groups of those that there were when a tick looked."""
        self._ticked: i64 = 0
        """How many of them were looked at."""

    def __len__(self) -> int:
        """How many members have a time to mind."""
        return len(self._timed)

    def watch(self, member: Member) -> None:
        """Mind a member's time, if it has any to mind."""
        if member.raft.deadline_ms >= 0 and not member.stopped:
            self._timed[int(member.group_id)] = member
        else:
            self._timed.pop(int(member.group_id))

    def forget(self, group_id: i64) -> None:
        """Mind the time of a group's member no more."""
        self._timed.pop(int(group_id))

    def has_more(self) -> bool:
        """Whether the newest tick has not looked at all members yet."""
        return self._ticked < len(self._to_time)

    def tick(self, now: i64) -> None:
        """Begin to look at all members that have a time to mind, or go on with the last look."""
        if self._ticked == len(self._to_time):
            self._to_time = array("q", self._timed)
            self._ticked = 0
        self.tick_some(now)

    def _is_due(self, member: Member, now: i64) -> bool:
        return 0 <= member.raft.deadline_ms <= now and not member.log.incomplete

    def tick_some(self, now: i64) -> None:
        """Let some of the members mind their time; the next turn goes on.

        Right behind a start they may all be due, to elect their leaders.
        """
        end = min(self._ticked + TURN_TIMERS_MAX, i64(len(self._to_time)))
        due: i64 = 0
        while self._ticked < end and due < TURN_ELECTIONS_MAX:
            member = self._timed.get(self._to_time[self._ticked])
            self._ticked += 1
            if member is not None and self._is_due(member, now):
                due += 1
                member.raft.tick(now)
                member.work()
                self.watch(member)
        if self._ticked < len(self._to_time):
            self._loop.needs_turn = True
