"""What a start finds of a group's member in the log: its hard state, snapshot and entries."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.log.batch import Batch
from warren.log.group import GroupLog
from warren.raft import wire
from warren.raft.members import GroupConfig, Replica
from warren.raft.raft import RecoveredState
from warren.replication.hard_state import HardState
from warren.replication.raft_entries import RAFT_SESSION, is_members, note_session
from warren.replication.wrapping import Wrapped, unwrap


@final
class Recovered:
    """What a start found of a group: how far its machine was brought, and what is behind.

    Attributes:
        hard_state: The newest STATE record.
        node: This node's name.
        snapshot: Members, sessions and state of the newest snapshot; None if there is none.
        snapshot_index: Its index, 0 if there is none.
        applied: Index of the last entry that the machine has.
        pending: Entries behind it: not known to be committed.
        lost: Whether entries are lost, of the only copy there is.
        runs, configs: Terms and configurations of all entries behind the snapshot.
    """

    def __init__(self, hard_state: HardState, node: str) -> None:
        self.hard_state = hard_state
        self.node = node
        self.snapshot: Wrapped | None = None
        self.snapshot_payload = b""
        self.snapshot_index: i64 = 0
        self.applied: i64 = 0
        self.lost: bool = False
        self.sessions: dict[int, int] = {}
        self.pending: list[Batch] = []
        self.runs: list[tuple[int, int]] = []
        self.configs: list[tuple[int, list[Replica]]] = []
        self._alone = is_alone(hard_state.members, node, hard_state.incarnation)

    def is_empty(self) -> bool:
        """Whether nothing was found that the copy could have acknowledged."""
        nothing = self.applied == 0 and not self.pending and self.snapshot is None
        return nothing and not self.hard_state.members

    def alone(self) -> bool:
        """Whether this copy is its own majority, by all that was found so far."""
        return self._alone

    def take_snapshot(self, index: i64, payload: bytes) -> None:
        """The newest snapshot."""
        self.snapshot = unwrap(payload)
        self.snapshot_payload = payload
        self.snapshot_index = index
        self.applied = index
        self.sessions = dict(self.snapshot.sessions)
        self._alone = is_alone(self.snapshot.members, self.node, self.hard_state.incarnation)

    def take(self, batch: Batch) -> bool:
        """The next entry; True if the machine has to apply it."""
        if not self.runs or self.runs[-1][1] != batch.term:
            self.runs.append((batch.index, batch.term))
        own = batch.session == RAFT_SESSION
        if own and is_members(batch):
            members = wire.decode_members(batch.body()[1:])
            self.configs.append((int(batch.index), members))
            self._alone = False
        # What a sole voter has on disk is committed, until others have a say.
        if self.pending or not (self._alone or batch.index <= self.hard_state.commit):
            self.pending.append(batch)
            return False
        self.applied = batch.index
        note_session(self.sessions, batch)
        return True


def recovered_state(recovered: Recovered, log: GroupLog) -> RecoveredState:
    """What Raft has to know of it."""
    hard_state = recovered.hard_state
    saved = RecoveredState()
    saved.term = hard_state.term
    saved.voted_for = hard_state.voted_for
    saved.voted_incarnation = hard_state.voted_incarnation
    saved.floor_term = hard_state.floor_term
    saved.floor_index = hard_state.floor_index
    saved.snapshot_index = recovered.snapshot_index
    if recovered.snapshot_index > 0:
        saved.snapshot_term = log.term_at(recovered.snapshot_index)
    saved.members = hard_state.members
    if recovered.snapshot is not None:
        saved.members = recovered.snapshot.members
    saved.runs = recovered.runs
    saved.last_index = log.last_index
    for index, members in recovered.configs:
        saved.configs.append(GroupConfig(index, members))
    return saved


def is_alone(members: list[Replica], node: str, incarnation: i64) -> bool:
    """Whether this copy is the only member, and so its own majority."""
    return len(members) == 1 and members[0].voter and members[0].is_copy(node, incarnation)
