"""The metadata store on this node: the cluster's metadata as a group in the log, and changes of it.

A change is checked, logged, and applied when it is durable, in the log's order. What a change means
for this node, queues that come and go above all, is done in `reactions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord, StorageError
from warren.limits import (
    HEADER_STEP_BYTES,
    METADATA_BYTES_MIN,
    METADATA_BYTES_UNLIMITED,
    METADATA_SHARE,
)
from warren.log.batch import KIND_COMMAND, Batch
from warren.log.log import Log
from warren.log.runlist import NO_RUNS, KnownRuns, LiveRuns
from warren.metadata import commands, encoding
from warren.metadata.access import INTERNAL_USER
from warren.metadata.foreign_checks import foreign_command
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.metadata.patterns import WORK
from warren.metadata.permissions import Authority
from warren.metadata.reading import ROWS_AT_ONCE, Reading
from warren.metadata.room import TablesRoom
from warren.node import copies
from warren.node.loop import Loop
from warren.pending import PendingResult
from warren.ports import Random, Work
from warren.protocols.broker import ALARM_MEMORY, ELSEWHERE_SHIFT, Settings
from warren.raft.members import Replica
from warren.replication.hard_state import HardState
from warren.replication.machine import Machine
from warren.replication.member import Member
from warren.replication.raft_entries import RAFT_SESSION
from warren.replication.recovered import Recovered
from warren.versions import too_new

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.events import NodeEvents
    from warren.node.reactions import Reactions
    from warren.node.replay import NodeReplayer

METADATA_GROUP: Final = 1
"""The log group of the metadata; queues have higher ones."""

LET_GO_MAX: Final = 4_096
"""Rows of tables that are let go of at once: a millisecond."""


@final
class MetadataStore(Machine):
    """See the module's head.

    Attributes:
        authority: Answers for users and permissions.
        room: How much there may be in the tables.
        rows_at_once: Of tables that a leader sends so many rows are read in one turn.
    """

    def __init__(
        self, loop: Loop, log: Log, random: Random, metadata: MetadataMachine, cluster: Cluster
    ) -> None:
        self.authority: Authority = Authority(metadata)
        self.room: TablesRoom = TablesRoom(metadata)
        self.rows_at_once: i64 = ROWS_AT_ONCE
        self._loop: Loop = loop
        self._log: Log = log
        self._random: Random = random
        self._metadata: MetadataMachine = metadata
        self._cluster: Cluster = cluster
        self._wired: Reactions | None = None
        self._events: NodeEvents | None = None
        self._member: Member | None = None
        self._unfinished: Unfinished | None = None
        self._steps: i64 = 0
        """What changes took since that was asked last."""
        self._taking_over: bool = False
        """Whether tables that a leader sent are in force, and not all queues are as they say."""
        self._reading: Reading | None = None
        """Tables that a leader sent, and that may be in force soon."""
        self._anew: MetadataMachine | None = None
        """What has been told of a log that began anew and is behind what is in force here."""

    def __str__(self) -> str:
        """As operators are told of it."""
        return "the tables"

    def wire(self, reactions: Reactions, events: NodeEvents) -> None:
        """Have done what follows from changes, and tell of them; before anything is recovered."""
        self._wired = reactions
        self._events = events

    def _reactions(self) -> Reactions:
        reactions = self._wired
        assert reactions is not None, "the node wires its parts first"
        return reactions

    # --- a life of the node ---------------------------------------------------------------------

    def recover(self, replayer: NodeReplayer) -> None:
        """Take over what the log holds of the metadata.

        Raises:
            StorageError: The log was written by a later version.
        """
        machine = self._metadata
        settings = self._loop.settings
        if replayer.tables_state:
            machine.restore(replayer.tables_state)
        for index, payload in replayer.tables_entries:
            machine.apply(index, self._logged(index, payload))
        replayer.tables_entries = []
        self._check_version()
        if settings.former_uid and not self._has_begun_anew(replayer):
            self._begin_anew(replayer)
        recovered = replayer.groups.get(METADATA_GROUP)
        fresh = recovered is None
        if recovered is None:
            recovered = Recovered(self._first_hard_state(), settings.node_name)
        member = self._cluster.add(self._log.group(METADATA_GROUP), self, recovered)
        member.give_in_lots(settings.changes_at_once)
        self._member = member
        if fresh:
            member.save_hard_state(None)
        self._cluster.watch_nodes()
        for batch in recovered.pending:
            if batch.session != RAFT_SESSION:
                self._reactions().note_pending(self._logged(batch.index, batch.body()))

    def start(self) -> None:
        """Let this node's member take part."""
        self._cluster.start(self.member())

    def _has_begun_anew(self, replayer: NodeReplayer) -> bool:
        """Whether the log's metadata came after the node had given up what it had before.

        A life that began anew may end before that is noted, and others may count on what it
        acknowledged. They had its uid in their tables before they gave it any. Where damage may
        have taken some of that since, it is worth no more than what was given up.
        """
        if replayer.doubts:
            return False
        own = self._metadata.nodes.get(self._loop.settings.node_name)
        uid = self._loop.settings.node_uid
        if own is not None and own.uid == uid:
            return True
        recovered = replayer.groups.get(METADATA_GROUP)
        for batch in [] if recovered is None else recovered.pending:
            if batch.session == RAFT_SESSION:
                continue
            command = self._logged(batch.index, batch.body())
            if isinstance(command, (commands.AddNode, commands.ReplaceNode)):
                if command.uid == uid:
                    return True
        return False

    def _begin_anew(self, replayer: NodeReplayer) -> None:
        """Give up metadata that is not to be trusted; the places of other nodes stay known."""
        for record in self._metadata.nodes.values():
            self._cluster.know(record.name, record.host, record.port)
        self._metadata.restore(self.first_state())
        replayer.groups.pop(METADATA_GROUP, None)
        if self._log.has_group(METADATA_GROUP):
            copies.empty(self._log.group(METADATA_GROUP), self._first_hard_state())

    def _first_hard_state(self) -> HardState:
        """What an empty data directory begins with: a cluster of its own, or nothing yet."""
        settings = self._loop.settings
        incarnation = int.from_bytes(self._random.bytes(7), "little") + 1
        if settings.join or settings.former_uid:
            return HardState(incarnation, [])
        return HardState(incarnation, [Replica(settings.node_name, incarnation, True)])

    def _check_version(self) -> None:
        """Go no further with a cluster that has moved on to what this node does not know.

        Where it has moved on to what this node knows, the log says so before there is anything new
        in it, and other nodes hear of it before anything new comes to them.

        Raises:
            StorageError: It has.
        """
        known = self._loop.settings.cluster_version_max
        if self._metadata.version > known:
            raise StorageError(too_new("the cluster", self._metadata.version, known))
        if self._log.use_version(self._metadata.version):
            self._cluster.disks.tell()

    # --- changes --------------------------------------------------------------------------------

    def submit(
        self, command: commands.Command, change: PendingResult | None, user: str = INTERNAL_USER
    ) -> None:
        """Have a change logged; `change` is told when it is in force here.

        Args:
            user: Who wants it, as events name them.

        Raises:
            Refusal: `PRECONDITION_FAILED`, some text of it is not UTF-8, or there is no room.
        """
        loop = self._loop
        low = loop.alarms() & (ALARM_MEMORY | ALARM_MEMORY << ELSEWHERE_SHIFT) != 0
        self.room.check(command, metadata_bytes_max(loop.settings), low)
        payload = encoding.encode(command)
        self.member().submit(KIND_COMMAND, 0, b"", payload, Submitted(command, change, user))
        self._loop.appended(True)
        self._loop.needs_turn = True

    def submitted(self) -> list[Submitted]:
        """What this node wants changed and is not in force yet."""
        origins = self.member().proposals.origins()
        return [origin for origin in origins if isinstance(origin, Submitted)]

    def withdraw(self, submitted: Submitted) -> bool:
        """Give a change up; False if it may come into force yet."""
        return self.member().proposals.withdraw(submitted)

    # --- what is known --------------------------------------------------------------------------

    def member(self) -> Member:
        """This node's member of the metadata's group."""
        member = self._member
        assert member is not None, "the metadata is recovered first"
        return member

    @property
    def leader(self) -> str:
        """The node that leads the metadata's group; empty if none is known."""
        return self.member().raft.leader

    @property
    def in_force(self) -> bool:
        """Whether all that this node wanted changed is in force."""
        metadata = self._metadata
        begun = len(metadata.vhosts) > 0 or len(metadata.users) > 0
        return begun and len(self.member().proposals) == 0

    def has_majority_without(self, name: str) -> bool:
        """Whether the cluster works, as far as this node sees, and goes on doing so without one."""
        cluster = self._cluster
        member = self.member()
        raft = member.raft
        if cluster.session == 0 or raft.leader in ("", name) or member.applies_later():
            return False
        voters = [copy.node for copy in raft.members if copy.voter]
        running = 0
        for voter in voters:
            if voter != name and (voter == cluster.name or cluster.detector.is_up(voter)):
                running += 1
        return 2 * running > len(voters)

    def snapshot(self) -> i64:
        """Write the metadata into the log, so that older entries can go; gives their size."""
        return self.member().snapshot()

    # --- the machine ----------------------------------------------------------------------------

    def check_proposal(self, kind: i64, payload: bytes) -> None:
        """Refuse what no node would submit to the metadata."""
        if kind != KIND_COMMAND:
            raise CorruptRecord("a proposal to the tables", 0, "messages")
        foreign_command(payload)

    def apply(self, batch: Batch, origin: object | None) -> None:
        """A change is committed: put it in force."""
        command = origin.command if isinstance(origin, Submitted) else None
        before = WORK.steps
        if command is None:
            command = self._logged(batch.index, batch.body())
            self._steps += batch.payload_size // HEADER_STEP_BYTES
        anew = self._anew
        if anew is None:
            outcome = self._metadata.begin(batch.index, command)
            self._check_version()
            self._reactions().act(outcome, batch.index)
            self._steps += WORK.steps - before
            events = self._events
            if events is not None and events.on():
                if isinstance(origin, Submitted):
                    events.changed(command, outcome, origin.user)
                events.vhost_down(outcome)
            if self._metadata.unfinished():
                self._unfinished = Unfinished(origin, outcome)
                return
        else:
            outcome = anew.apply(batch.index, command)
            if anew.applied_index >= self._metadata.applied_index:
                self.restore(anew.snapshot())
        _tell(origin, outcome)

    def take_steps(self) -> i64:
        """What changes took that were decoded here, or whose queues have many policies to match."""
        steps = self._steps
        self._steps = 0
        return steps

    def unfinished(self) -> bool:
        """Whether there is more to do of the last change, as one of a node with many queues."""
        return self._unfinished is not None or self._taking_over

    def apply_rest(self) -> None:
        """Put the next part of the last change in force."""
        if self._taking_over:
            self._take_over_more()
            return
        unfinished = self._unfinished
        assert unfinished is not None, "the member asks before"
        outcome = self._metadata.go_on()
        self._reactions().act(outcome, self._metadata.applied_index)
        events = self._events
        if events is not None and events.on():
            if isinstance(unfinished.origin, Submitted):
                events.cascaded(outcome, unfinished.origin.user)
            events.vhost_down(outcome)
        if not self._metadata.unfinished():
            self._unfinished = None
            _tell(unfinished.origin, unfinished.outcome)

    def _take_over_more(self) -> None:
        """Have some more queues be as tables say that a leader sent."""
        room: i64 = self._loop.settings.changes_at_once
        self._taking_over = not self._reactions().take_over_more(room)
        if self._taking_over:
            self._cluster.apply_later(self.member())

    def _logged(self, index: i64, payload: bytes) -> commands.Command:
        """The command of an entry; one without effect for what is none.

        Only a leader that lies would log such a thing. All nodes leave it out alike.

        Raises:
            StorageError: A later version of Warren wrote it.
        """
        try:
            return encoding.decode(payload)
        except CorruptRecord as error:
            self._loop.log_warning(f"entry {index} of the tables is left out: {error}")
            return commands.Barrier()

    def state(self) -> bytes:
        """The metadata, for a snapshot."""
        return (self._metadata if self._anew is None else self._anew).snapshot()

    def first_state(self) -> bytes:
        """Metadata with nothing in it."""
        return MetadataMachine().snapshot()

    def ready(self, state: bytes) -> Work:
        """Read a leader's snapshot, before it is taken over."""
        reading = Reading(state, self.rows_at_once)
        self._reading = reading
        return reading

    def restore(self, state: bytes) -> None:
        """Go on from a leader's snapshot: queues come and go by the difference."""
        while self._unfinished is not None:
            self.apply_rest()
        if self._metadata.nodes and state == self.first_state():
            # Begun anew. What is here stays in force, for clients too, until the log has told as
            # much again.
            self._anew = MetadataMachine()
            return
        reading = self._reading
        self._reading = None
        if reading is None or reading.data != state:
            reading = Reading(state)
        while not reading.go_on():
            pass
        if self._anew is not None:
            if reading.applied_index < self._metadata.applied_index:
                # Older than what is in force here. What it does not name yet, copies of queues
                # above all, is not gone: it comes with the entries after it.
                self._anew = MetadataMachine()
                self._anew.take(reading)
                return
            self._anew = None
        before = self._metadata.take(reading)
        if before.size() > LET_GO_MAX:
            self._loop.do_in_parts(before)
        self._check_version()
        self._reactions().take_over(before.departed)
        self._taking_over = True
        self._take_over_more()

    def live_in(self, state: bytes) -> LiveRuns:
        """The metadata's log has no messages."""
        return KnownRuns(NO_RUNS)

    def sessions_closed(self, sessions: list[int], stamp_ms: i64, lost: bool) -> None:
        """The metadata keeps nothing by session."""

    def elected(self) -> None:
        """The metadata needs nothing set up."""

    def session_renewed(self) -> None:
        """The metadata keeps nothing of its own session."""

    def skipped(self, origin: object | None) -> None:
        """A change is part of a snapshot: in force, as far as it could be."""
        _tell(origin, Outcome())

    def abandoned(self, origin: object | None) -> None:
        """The metadata is never gone."""


@final
class Submitted:
    """A change on its way to disk, and who wants it."""

    def __init__(self, command: commands.Command, change: PendingResult | None, user: str) -> None:
        self.command: commands.Command = command
        self.change: PendingResult | None = change
        self.user: str = user


@final
class Unfinished:
    """A change that is in force in part, and what the first part came to."""

    def __init__(self, origin: object | None, outcome: Outcome) -> None:
        self.origin: object | None = origin
        self.outcome: Outcome = outcome


def metadata_bytes_max(settings: Settings) -> i64:
    """How much memory all definitions may take, in bytes."""
    if settings.metadata_bytes_max:
        return settings.metadata_bytes_max
    if not settings.memory_limit_bytes:
        return METADATA_BYTES_UNLIMITED
    return max(settings.memory_limit_bytes // METADATA_SHARE, METADATA_BYTES_MIN)


def _tell(origin: object | None, outcome: Outcome) -> None:
    """Who wanted a change is told that it is in force."""
    if isinstance(origin, Submitted) and origin.change is not None:
        origin.change.succeeded(outcome)
