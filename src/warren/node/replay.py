"""What the log brings back at start-up, before the node knows whose it is."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from warren.errors import CorruptRecord, StorageError
from warren.log.batch import KIND_COMMAND, KIND_TRANSIENT, Batch
from warren.log.listener import Replayer
from warren.metadata import commands, encoding
from warren.metadata.machine import MetadataMachine
from warren.node.store import METADATA_GROUP
from warren.ports import Work
from warren.queues.classic import CLEAN
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.effects import NO_EFFECTS, Effects
from warren.queues.fifo.entry import Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.sessions import close_sessions
from warren.replication.hard_state import decode_hard_state
from warren.replication.raft_entries import RAFT_SESSION, are_lost, closed_sessions
from warren.replication.recovered import Recovered

LET_GO_MAX: Final = 8_192
"""What is forgotten at a time of what was replayed: a few milliseconds."""


@final
class ReplayRelease(Work):
    """Lets go of what a start has brought back, when the node has taken it over."""

    def __init__(self, replayer: NodeReplayer) -> None:
        self._replayer: NodeReplayer = replayer

    def go_on(self) -> bool:
        """Let go of some; whether that was all."""
        return self._replayer.let_go()


@mypyc_attr(allow_interpreted_subclasses=True)
class Witness:
    """Who is told what replicated queues do as they are replayed: which messages left, above all.

    A classic queue's log says that messages left, and nothing of how.
    """

    @abstractmethod
    def applied(self, batch: Batch, commanded: Effects, dispatched: Effects) -> None:
        """An entry of a replicated queue's log was applied.

        Args:
            batch: The entry.
            commanded: What its commands came to.
            dispatched: What the machine went on with behind them.
        """


@final
class NodeReplayer(Replayer):
    """Rebuilds the machines of a node from its log.

    Attributes:
        groups: Members of replicated groups, with what is not known to be committed.
        machines: Queue machines by group.
        seen: Messages and bytes replayed, by group.
        clean: Groups whose newest entry is an orderly stop's snapshot.
        tables_state, tables_entries: What is committed of the cluster's tables.
        damaged: Groups that cannot be replayed, and why.
        losses: What classic queues have lost: group, damage, and numbers of messages.
        doubts: Damage of which it is unknown what was there.
        holes: Groups of which entries are lost, so that a snapshot has to cover them.
    """

    def __init__(
        self,
        node: str,
        goes_on: bool = False,
        begins_anew: bool = False,
        witness: Witness | None = None,
    ) -> None:
        """Begin with nothing replayed.

        Args:
            node: This node's name.
            goes_on: Whether the start goes on over damage of which it is unknown what was there.
            begins_anew: Whether it needs no tables of its own, since other nodes have them.
            witness: Who is told what the entries come to, if any is.
        """
        self._node: str = node
        self._goes_on: bool = goes_on or begins_anew
        self._begins_anew: bool = begins_anew
        self._witness: Witness | None = witness
        self.groups: dict[int, Recovered] = {}
        self.machines: dict[int, Fifo] = {}
        self.clean: dict[int, bool] = {}
        self.seen: dict[int, tuple[int, int]] = {}
        self.tables_state: bytes = b""
        self.tables_entries: list[tuple[int, bytes]] = []
        self.damaged: dict[int, CorruptRecord] = {}
        self.losses: list[CorruptRecord] = []
        self.doubts: list[CorruptRecord] = []
        self.holes: list[int] = []

    def let_go(self) -> bool:
        """Forget some of what is not needed any more; whether that was the last of it."""
        for _ in range(LET_GO_MAX):
            if self.groups:
                self.groups.popitem()
            elif self.machines:
                self.machines.popitem()
            elif self.seen:
                self.seen.popitem()
            elif self.clean:
                self.clean.popitem()
            else:
                return True
        return False

    def state(self, group_id: int, payload: bytes) -> int:
        """A replicated group's term, vote, members and commit hint."""
        self.groups[group_id] = Recovered(decode_hard_state(payload), self._node)
        return -1

    def snapshot(self, group_id: int, index: int, state: bytes) -> None:
        """A group's newest snapshot."""
        recovered = self.groups.get(group_id)
        if recovered is not None:
            recovered.take_snapshot(index, state)
            assert recovered.snapshot is not None
            state = recovered.snapshot.state
        if group_id == METADATA_GROUP:
            self.tables_state = state
            return
        fifo = self._new_machine(recovered)
        fifo.restore(state)
        self.machines[group_id] = fifo
        self.clean[group_id] = state[1] & CLEAN != 0

    def _new_machine(self, recovered: Recovered | None) -> Fifo:
        """An empty machine of a queue, replicated if something was recovered of its member."""
        return Fifo(NOT_SET_UP, False, recovered is not None and self._witness is not None)

    def forgetting(self) -> Work | None:
        """What lets go of all this; None where it is so little that it may go at once."""
        return ReplayRelease(self) if len(self.machines) > LET_GO_MAX else None

    def doubtful(self, error: CorruptRecord) -> None:
        """Note damage of which it is unknown what was there, or refuse to start with it."""
        if not self._goes_on:
            raise error
        self.doubts.append(error)

    def unfit(self, group_id: int, error: CorruptRecord) -> None:
        """A queue's log is damaged: the node starts without it. Without the tables it does not."""
        if group_id == METADATA_GROUP:
            if not self._begins_anew:
                raise error
            self.doubts.append(error)
            return
        self.damaged[group_id] = error
        self.machines.pop(group_id, None)

    def complete(self) -> None:
        """Refuse to start, with such damage, a node on which others count (R-20)."""
        if not self.doubts or self._begins_anew:
            return
        machine = MetadataMachine()
        if self.tables_state:
            machine.restore(self.tables_state)
        try:
            for index, payload in self.tables_entries:
                machine.apply(index, encoding.decode(payload))
        except (AssertionError, LookupError) as error:
            # Something that they build on is lost.
            raise StorageError(
                f"{self.doubts[0]}. What is left of the tables does not fit together: restore the "
                "directory from a copy"
            ) from error
        nodes = list(machine.nodes)
        if METADATA_GROUP in self.groups:
            for batch in self.groups[METADATA_GROUP].pending:
                command = encoding.decode(batch.body()) if batch.session != RAFT_SESSION else None
                if isinstance(command, commands.AddNode) and command.name not in nodes:
                    nodes.append(command.name)
        if len(nodes) > 1:
            raise StorageError(
                f"{self.doubts[0]}. This node is in a cluster with {', '.join(nodes)}: it may not "
                "go on with less than it acknowledged, but begins anew when they run; start it "
                "without --salvage"
            )

    def alone(self, group_id: int) -> bool:
        """Whether no other node counts on a group's copy here."""
        recovered = self.groups.get(group_id)
        return recovered is not None and recovered.alone()

    def lost(self, group_id: int, first: int, last: int, error: CorruptRecord) -> None:
        """A classic queue, or the only copy of another one, has lost messages."""
        self.holes.append(group_id)
        recovered = self.groups.get(group_id)
        if recovered is not None:
            recovered.lost = True
        if group_id == METADATA_GROUP:
            # What they lost has no name any more.
            self.doubtful(error)
            return
        gone = CorruptRecord(error.path, error.offset_bytes, error.reason)
        gone.group_id = group_id
        if first <= last:
            gone.lost = [(first, last)]
        self.losses.append(gone)

    def entry(self, batch: Batch) -> None:
        """An entry behind it."""
        group = batch.group
        assert group is not None
        recovered = self.groups.get(group.id)
        if recovered is not None and not recovered.take(batch):
            return
        if group.id == METADATA_GROUP:
            if batch.session != RAFT_SESSION:
                self.tables_entries.append((int(batch.index), batch.body()))
            return
        fifo = self.machines.get(group.id)
        if fifo is None:
            fifo = self._new_machine(recovered)
            self.machines[group.id] = fifo
        self.clean[group.id] = False
        replay(fifo, batch, None if recovered is None else self._witness)
        if batch.count > 0:
            messages, size = self.seen.get(group.id, (0, 0))
            self.seen[group.id] = (messages + int(batch.count), size + int(batch.payload_size))


def replay(fifo: Fifo, batch: Batch, witness: Witness | None = None) -> None:
    """Apply an entry of the log at recovery, exactly as it was applied at first.

    Its effects go to a witness, if there is one: those whom they were for are gone.
    """
    effects = NO_EFFECTS
    if batch.session == RAFT_SESSION:
        closed = closed_sessions(batch)
        if not closed:
            # What Raft has to say for itself is no entry of the machine, and takes it no further.
            return
        effects = close_sessions(fifo, closed, batch.stamp_ms, are_lost(batch))
    elif batch.kind == KIND_COMMAND:
        start = batch.payload_at
        command = Encoded(batch.payload, start, start + batch.payload_size)
        effects = fifo.apply(Meta(batch.stamp_ms, batch.session), command)[1]
    else:
        messages = Enqueue(batch.first, batch.count, batch.payload_size, batch.life_ms, batch.facts)
        fifo.apply(Meta(batch.stamp_ms, batch.session), messages)
        if batch.kind == KIND_TRANSIENT:
            fifo.transient.push(batch.first, batch.first + batch.count - 1)
    dispatched = fifo.dispatch()
    if witness is not None:
        witness.applied(batch, effects, dispatched)
