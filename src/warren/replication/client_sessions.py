"""What a leader takes: the next number in the row of each session, until that is closed.

A node numbers what it submits to a group (`proposals.py`). The leader takes only the next number
of a session, by what its log holds, committed or not, and says which one it waits for otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64, u8

from warren.headed_list import HeadedList
from warren.ids import life_of_session
from warren.log.batch import Batch
from warren.replication import frames
from warren.replication.proposals import Proposal
from warren.replication.raft_entries import CLOSE, LOSE, RAFT_SESSION, closed_sessions

if TYPE_CHECKING:
    from warren.replication.member import Member


@final
class ClientSessions:
    """Those of all sessions of one member's group; of use while it leads.

    Methods are handed the member: what does not refer to it goes with it at once.
    """

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        """The next sequence of each session, 0 if it is closed."""
        self._asked: dict[int, tuple[int, int]] | None = None
        """Which sequence was asked for when which one came instead, by session."""
        self._declined: dict[str, int] | None = None
        """While no commands are taken, as during a transfer or while the disk is behind: the
        sessions of nodes that had some, by node."""

    def learn(self, member: Member, entries: HeadedList[Batch]) -> None:
        """Begin to lead with this log, behind what is applied; all of it will be committed."""
        self._next = {}
        self._asked = None
        self._declined = None
        for session, sequence in member.sessions.items():
            self._next[session] = sequence + 1 if sequence >= 0 else 0
        for at in range(entries.size()):
            batch = entries.at(at)
            if batch.session > 0:
                self._next[batch.session] = int(batch.sequence) + 1
            elif batch.session == RAFT_SESSION:
                for session in closed_sessions(batch):
                    self._next[session] = 0

    def next(self, session: i64) -> i64:
        """The sequence that is waited for; 0 if the session is closed."""
        return self._next.get(session, 1)

    def forget(self, session: i64) -> None:
        """A session is over for good, and nothing of it is on its way."""
        self._next.pop(session, None)
        if self._asked is not None:
            self._asked.pop(session, None)

    def took(self, session: i64, sequence: i64) -> None:
        """An entry is in the log."""
        self._next[session] = sequence + 1

    def proposed(self, member: Member, node: str, session: i64, proposal: Proposal) -> None:
        """Another node wants an entry appended."""
        if not member.raft.can_propose() or member.host.disk_behind:
            if member.raft.is_leader:
                if self._declined is None:
                    self._declined = {}
                self._declined[node] = session
            return
        expected = self.next(session)
        if proposal.sequence == expected:
            if expected == 1:
                self._close(member, CLOSE, self._given_up_for(session))
            member.append(session, proposal)
            member.host.appended(True)
        elif proposal.sequence > expected > 0:
            # Asked once, although all that is under way behind it is out of order too; again if
            # the sender has begun again and there is still a hole.
            if self._asked is None:
                self._asked = {}
            asked, instead = self._asked.get(session, (0, 0))
            if asked != expected or proposal.sequence <= instead:
                self._asked[session] = (int(expected), int(proposal.sequence))
                self._ask(member, node, session, expected)

    def _given_up_for(self, session: i64) -> list[int]:
        """The open sessions before this one of the same life: their node has given them up."""
        life = life_of_session(session)
        return [
            other
            for other, expected in self._next.items()
            if expected > 0 and other < session and life_of_session(other) == life
        ]

    def ask_declined(self, member: Member) -> None:
        """The lead was not handed over after all, or the disk keeps up: ask for what came."""
        if self._declined and member.raft.can_propose() and not member.host.disk_behind:
            declined = self._declined
            self._declined = None
            for node, session in declined.items():
                expected = self.next(session)
                if expected > 0:
                    self._ask(member, node, session, expected)

    def _ask(self, member: Member, node: str, session: i64, expected: i64) -> None:
        member.host.send(node, [frames.expect_frame(member.group_id, session, expected)])

    def close_sessions(self, member: Member) -> None:
        """End the sessions of nodes that are gone.

        Those of nodes that are not heard may go on for a while, if the machine says so.
        """
        if not member.raft.can_propose():
            return
        machine = member.machine
        suspected = machine.suspected()
        if suspected:
            machine.heard([one for one in suspected if not member.host.session_over(one)])
        over = [
            session
            for session, expected in self._next.items()
            if session > 0 and expected > 0 and member.host.session_over(session)
        ]
        if over:
            lost = [session for session in over if member.host.session_lost(session)]
            self._close(member, LOSE, [one for one in lost if not machine.keeps(one)])
            self._close(member, CLOSE, [session for session in over if session not in lost])
            member.mark()

    def _close(self, member: Member, how: i64, sessions: list[int]) -> None:
        """Have the log say that sessions are over."""
        if not sessions:
            return
        writer = BytesWriter()
        writer.append(u8(how))
        for session in sessions:
            write_i64_le(writer, i64(session))
            self._next[session] = 0
        batch = member.append_own(writer.getvalue())
        member.raft.appended(batch.index, member.host.monotonic_ms())

    def taken_over(self, member: Member) -> bool:
        """Whether a group that only this node has is led, and sessions that are over are closed.

        Of a group with other members nothing is said: those may be away.
        """
        if not member.is_alone():
            return True
        if not member.raft.can_propose():
            return False
        for session, sequence in member.sessions.items():
            if session > 0 and sequence >= 0 and member.host.session_over(session):
                if not member.machine.suspects(session):
                    return False
        return True
