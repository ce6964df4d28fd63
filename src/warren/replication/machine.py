"""What a group's log drives, and how it is fed, whatever hosts the group."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, trait

from warren.log.batch import Batch
from warren.log.runlist import NO_RUNS, KnownRuns, LiveRuns
from warren.pending import PendingAnswer
from warren.ports import NoWork, Work
from warren.replication.proposals import Proposal


@trait
class Machine:
    """A deterministic machine behind a group's log."""

    @abstractmethod
    def check_proposal(self, kind: i64, payload: bytes) -> None:
        """Look at what another node wants appended, before it is; messages were looked at.

        Args:
            kind, payload: As for `GroupLog.append`.

        Raises:
            CorruptRecord: No node would submit this to such a group.
        """

    @abstractmethod
    def apply(self, batch: Batch, origin: object | None) -> None:
        """An entry is committed; `origin` is what this node submitted with it, if it did."""

    def unfinished(self) -> bool:
        """Whether the last entry is not all applied: until then there is no next, and no state."""
        return False

    def apply_rest(self) -> None:
        """Apply the next part of the last entry; once in a turn."""

    def take_steps(self) -> i64:
        """How many steps entries took since the last call, beyond what their bytes cost.

        What one began long before may go on with any of them. A step is about a microsecond; of a
        machine that gets so many entries in a turn it is one of the turn's budget.
        """
        return 0

    def is_awaited(self) -> bool:
        """Whether entries since the last call bring something that clients here wait for."""
        return False

    def apply_ahead(self, batch: Batch, origin: object | None) -> bool:
        """Take an entry that is not durable yet; only on a sole member.

        No client is answered before `caught_up`. False if the entry, and with it what is behind it,
        has to wait for its commit, and `apply`.
        """
        return False

    def caught_up(self, batch: Batch, origin: object | None) -> None:
        """The oldest entry that was applied ahead is committed; as for `apply`."""
        raise AssertionError("a machine that is never ahead")

    def sessions_served(self) -> list[int]:
        """The sessions of all to whom it may have handed something ahead of the disk."""
        return []

    def doubt(self) -> bytes:
        """A command: whatever it is about to hand out may have been handed out before."""
        raise AssertionError("a machine that hands nothing out")

    @abstractmethod
    def state(self) -> bytes:
        """Its state as of the last entry applied."""

    def write_state(self, out: BytesWriter) -> Work:
        """Have that appended in parts; the machine may go on, and nothing else is appended."""
        out.write(self.state())
        return NoWork()

    @abstractmethod
    def first_state(self) -> bytes:
        """The state before the first entry."""

    def ready(self, state: bytes) -> Work:
        """Have all ready for `restore` of a state that another node sent; nothing changes yet.

        Another call, or another `restore`, means that it will not come to that.
        """
        return NoWork()

    @abstractmethod
    def restore(self, state: bytes) -> None:
        """Go on from a state that a leader sent; what was there before is void.

        Raises:
            CorruptRecord: It is none.
        """

    def restore_older(self, state: bytes) -> None:
        """The same, of a state that is older than what it had and says nothing of what came of
        that.
        """
        self.restore(self.first_state())
        self.restore(state)

    def forget(self) -> None:
        """Have nothing for now; the next state is no older than what it had.

        What was restored in this turn is forgotten, too: it was no state of the group's.
        """
        self.restore(self.first_state())

    def next_message(self) -> i64:
        """The number after the newest message that it has had; 0 if it counts none."""
        return 0

    @abstractmethod
    def live_in(self, state: bytes) -> LiveRuns:
        """Finds out the messages that live in a state that is durable here."""

    @abstractmethod
    def sessions_closed(self, sessions: list[int], stamp_ms: i64, lost: bool) -> None:
        """These sessions are over, in the order of the log, whose time is `stamp_ms` then.

        Args:
            lost: Whether that is because their nodes are not heard any more.
        """

    def suspects(self, session: i64) -> bool:
        """Whether it knows that a session's node is not heard, and minds that."""
        return False

    def keeps(self, session: i64) -> bool:
        """As leader, whether a session goes on for now whose node is not heard."""
        return False

    def suspected(self) -> list[int]:
        """The sessions that go on like that."""
        return []

    def heard(self, sessions: list[int]) -> None:
        """As leader, mind that the nodes of such sessions are heard again."""

    def gone_up_to(self, number: i64) -> i64:
        """The last of the messages from a number on that the group goes on without; -1 if it does
        not go on without that one.
        """
        return -1

    def leading(self, next_message: i64) -> None:
        """This node begins to lead the group: what it logs now comes before what clients submit.

        Args:
            next_message: The number that the log gives next. What comes before it is perhaps not
                in force yet.
        """

    @abstractmethod
    def elected(self) -> None:
        """This node leads the group, and has applied all that earlier leaders committed."""

    @abstractmethod
    def session_renewed(self) -> None:
        """This node's own session was closed, and another one has begun."""

    def followed(self) -> None:
        """It is fed from now on (`Proposer.fed`), whether an entry said so or none."""

    @abstractmethod
    def skipped(self, origin: object | None) -> None:
        """What this node submitted was applied within a leader's snapshot: no more is known."""

    @abstractmethod
    def abandoned(self, origin: object | None) -> None:
        """The group is gone before what this node submitted was applied."""


@final
class NoMachine(Machine):
    """Stands where a group's machine was, once the group is deleted here.

    A machine has its way to the group's member, and objects that refer to each other stay until
    Python's collector looks at everything there is, which takes seconds where there are many.
    """

    def check_proposal(self, kind: i64, payload: bytes) -> None:
        """Nothing is appended."""

    def apply(self, batch: Batch, origin: object | None) -> None:
        """Nothing is applied any more."""

    def state(self) -> bytes:
        """Give no state: there is no machine."""
        return b""

    def first_state(self) -> bytes:
        """Give no state here either."""
        return b""

    def restore(self, state: bytes) -> None:
        """Restore nothing: there is no machine."""

    def live_in(self, state: bytes) -> LiveRuns:
        """Say that no message lives."""
        return KnownRuns(NO_RUNS)

    def sessions_closed(self, sessions: list[int], stamp_ms: i64, lost: bool) -> None:
        """Close nothing: there are no consumers."""

    def elected(self) -> None:
        """Nothing is set up."""

    def session_renewed(self) -> None:
        """Renew nothing: there are no consumers."""

    def skipped(self, origin: object | None) -> None:
        """Answer nothing: no client waits."""

    def abandoned(self, origin: object | None) -> None:
        """Who waited was told."""


NO_MACHINE: Final = NoMachine()


class Proposer:
    """The way into a group's log."""

    @abstractmethod
    def submit(
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
        """Have an entry appended by the leader; `origin` comes back when it is applied here.

        Args:
            kind, count, lengths, payload, flavour, life_ms, facts: As for `GroupLog.append`.
            origin: What waits for it.
        """

    @abstractmethod
    def has_leader(self) -> bool:
        """Whether the group has a leader, as far as this node knows."""

    @abstractmethod
    def unoffered(self) -> list[Proposal]:
        """What this node submitted and no leader was offered."""

    @abstractmethod
    def give_up(self, gone: dict[int, None]) -> None:
        """Forget some proposals, by their numbers; they are never applied, and tell no origin."""

    @abstractmethod
    def propose_plain(self, payload: bytes) -> bool:
        """As leader, append a command that belongs to no session; False if this is no leader.

        A node may lead before the tables know its life and so gave it a session. What a leader has
        to say does not wait for that; where it gets lost, the next leader says it.
        """

    @abstractmethod
    def session(self) -> i64:
        """The session in force; 0 before the node has one."""

    def mind_sessions(self) -> None:
        """As leader, close the sessions whose time is over, and have others go on."""

    @abstractmethod
    def leads(self) -> bool:
        """Whether this node is where the group's decisions are made."""

    @abstractmethod
    def leads_fully(self) -> bool:
        """Whether it is, and the machine here has all that earlier leaders committed."""

    def confirm_lead(self, waiter: PendingAnswer) -> None:
        """Tell when a majority has said, from now on, that it follows this leader (R-10).

        By then the machine here has all that was committed when it was asked. `abandoned` says that
        it does not lead.
        """
        waiter.abandoned()

    @abstractmethod
    def stamp_ms(self) -> i64:
        """The group's time, which entries have from now on if this node leads; never goes back."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the log here has all that it ever had, less what is settled."""

    @abstractmethod
    def fed(self) -> bool:
        """Whether the machine here hears of what is committed, and has what was so a moment ago."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether to gather more before the next proposal; it is over when one is applied."""

    @abstractmethod
    def snapshot(self) -> i64:
        """Write the machine's state into the log; gives its size in bytes, 0 if it has to wait."""

    @abstractmethod
    def snapshot_part(self) -> i64:
        """The same in parts, of the state at the first; -1 if there is more to do."""
