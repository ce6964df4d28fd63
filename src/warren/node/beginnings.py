"""What a node does once the cluster's metadata knows this life of it, in parts: see `limits.py`.

There may be a hundred thousand queues. Each member gets the life's session, and a copy that the
metadata names no more gives way to the one in its place; groups that only the log knows are
dropped. What begins meanwhile has its session, and group ids are never given twice, so nothing is
missed.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.limits import TURN_MEMBERS_MAX
from warren.log.log import Log
from warren.metadata.machine import MetadataMachine
from warren.metadata.rows import Lot
from warren.metadata.tables import queues_of
from warren.node.copies import Copies, empty
from warren.node.loop import Loop
from warren.node.queues import LocalQueues
from warren.replication.hard_state import HardState

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster


@final
class Beginning:
    """That of one life.

    Attributes:
        over: Whether nothing is left to do.
        ready: Whether all members have their session.
    """

    def __init__(
        self,
        loop: Loop,
        log: Log,
        metadata: MetadataMachine,
        queues: LocalQueues,
        cluster: Cluster,
        copies: Copies,
        doubtful: bool,
    ) -> None:
        self._loop: Loop = loop
        self._log: Log = log
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._cluster: Cluster = cluster
        self._copies: Copies = copies
        self._doubtful: bool = doubtful
        """Whether some of the log could not be read, so that a group may be missed."""
        self._groups: array[int] = array("q", cluster.members)
        self._logged: array[int] = array("q", log.group_ids())
        self._at: i64 = 0
        self._strays: dict[int, None] = {}
        """Groups in the log without a queue here; a queue that is used elsewhere may name one."""
        self._lots: deque[Lot] = deque()
        """Rows of queues that are still to be looked at for that."""
        self.ready: bool = False
        self.over: bool = False

    def go_on(self) -> None:
        """Do the next part."""
        if not self.ready:
            self._begin_members()
        elif self._at < len(self._logged):
            self._look_for_strays()
        elif self._lots:
            self._look_at_rows()
        else:
            self._drop_strays()

    def tables_anew(self) -> None:
        """The metadata was taken over from another node: its rows are others."""
        if self._at == len(self._logged) and not self.over:
            self._lots = self._metadata.queue_lots()

    def _begin_members(self) -> None:
        """Give some members their session, and hold their copies against the tables."""
        end = min(self._at + TURN_MEMBERS_MAX, i64(len(self._groups)))
        while self._at < end:
            group_id = self._groups[self._at]
            self._at += 1
            member = self._cluster.members.get(group_id)
            if member is not None:
                self._cluster.begin_member(member)
                record = self._queues.record_of(group_id)
                if record is not None:
                    self._copies.replace(record)
        if self._at == len(self._groups):
            self.ready = True
            self._at = 0

    def _look_for_strays(self) -> None:
        """Note which of some groups in the log have no queue here."""
        end = min(self._at + TURN_MEMBERS_MAX, i64(len(self._logged)))
        while self._at < end:
            group_id = self._logged[self._at]
            self._at += 1
            if self._is_stray(group_id):
                self._strays[group_id] = None
        if self._at == len(self._logged) and self._strays:
            self._lots = self._metadata.queue_lots()

    def _is_stray(self, group_id: int) -> bool:
        """Whether the log has a group that nothing here uses."""
        return (
            group_id not in self._queues.logged
            and group_id not in self._cluster.members
            and self._log.has_group(group_id)
        )

    def _look_at_rows(self) -> None:
        """Take groups of some queues that the metadata names off the list."""
        left: i64 = TURN_MEMBERS_MAX
        while self._lots and left > 0:
            lot = self._lots.popleft()
            left -= len(lot.rows)
            for thing in queues_of(lot):
                group_id = int(thing.group_id)
                if group_id not in self._strays:
                    continue
                del self._strays[group_id]
                log = self._log.group(group_id, False)
                if self._queues.is_elsewhere(thing) and log.last_index > 0:
                    # It lacks what it acknowledged, and is to go. The group stays, empty: a queue
                    # may come back.
                    empty(log, HardState(0, []))
                    self._loop.appended(True)

    def _drop_strays(self) -> None:
        """Drop some of the groups that no queue names."""
        left: i64 = TURN_MEMBERS_MAX
        while self._strays and left > 0:
            left -= 1
            group_id, _ = self._strays.popitem()
            if not self._is_stray(group_id):
                continue
            if self._doubtful:
                self._loop.log_warning(
                    f"what the log has of group {group_id} is dropped: what is left of the "
                    "tables names no queue for it"
                )
            self._log.drop(group_id)
            self._loop.appended(True)
        self.over = not self._strays
