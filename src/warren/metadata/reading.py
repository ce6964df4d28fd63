"""Tables are built from a snapshot in parts: those of 100,000 queues take a second in one go.

What is built is used when all of it is there. The rows of a snapshot, in the layout of
`docs/formats/metadata.md`, are found first and decoded one by one.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any, Final, final

import msgspec
from mypy_extensions import i64

from warren.errors import StorageError
from warren.metadata.parameters import Parameters, read_parameters
from warren.metadata.snapshots import (
    EXCHANGES_AT,
    REST_AT,
    add_rest,
    add_row,
    read_node,
    read_user,
)
from warren.metadata.tables import NodeRecord, UserRecord, VhostRecord
from warren.ports import Work
from warren.versions import OLDEST

SNAPSHOT_VERSION: Final = 2

ROWS_AT_ONCE: Final = 512
"""Rows that one part makes records of: some milliseconds."""

BYTES_A_ROW: Final = 8_192
"""So many bytes are looked through for rows in the time that it takes to make a record of one."""

# mypyc takes `list[...]` for `list`.
_RAWS: Final[Any] = msgspec.msgpack.Decoder(GenericAlias(list, (msgspec.Raw,)))


@final
class Reading(Work):
    """Builds tables.

    Attributes:
        data: The snapshot.
        over: Whether all of it was read.
        cluster_id, version, nodes, vhosts, users, parameters, applied_index: As `MetadataMachine`
            has them.
    """

    def __init__(self, data: bytes, rows_at_once: i64 = ROWS_AT_ONCE) -> None:
        """
        Raises:
            StorageError: A later version of Warren wrote it.
        """
        state: list[Any] = _RAWS.decode(data)
        known = msgspec.msgpack.decode(state[0])
        if known != SNAPSHOT_VERSION:
            raise StorageError(
                f"metadata snapshot of version {known}, this node knows version {SNAPSHOT_VERSION}"
            )
        self.data: bytes = data
        self.over: bool = False
        self.applied_index: i64 = msgspec.msgpack.decode(state[1])
        # Earlier releases had a zero there.
        self.version: int = max(msgspec.msgpack.decode(state[2]), OLDEST)
        self.cluster_id: bytes = msgspec.msgpack.decode(state[3])
        self.nodes: dict[str, NodeRecord] = {}
        self.users: dict[str, UserRecord] = {}
        self.vhosts: dict[str, VhostRecord] = {}
        self.parameters: Parameters = {}
        if len(state) > 7:
            self.parameters = read_parameters(msgspec.msgpack.decode(state[7]))
        for row in msgspec.msgpack.decode(state[4]):
            node = read_node(row)
            self.nodes[node.name] = node
        for row in msgspec.msgpack.decode(state[5]):
            user = read_user(row)
            self.users[user.name] = user
        self._rows_at_once: i64 = rows_at_once
        self._state: Any = state[6]
        """All vhosts, encoded; None when they were found."""
        self._vhosts: list[Any] = []
        """Those that were not begun, in reverse order, encoded."""
        self._tables: VhostRecord | None = None
        """The vhost under way."""
        self._parts: list[Any] = []
        """What there is of it, encoded: rows of exchanges, queues and bindings, and the rest."""
        self._part: i64 = 0
        """Which of these is under way."""
        self._rows: list[Any] = []
        """Its rows, encoded."""
        self._at: i64 = 0
        """How many of these were read."""

    def go_on(self) -> bool:
        """Read some more; whether that was the last."""
        room = self._rows_at_once
        while room > 0 and not self.over:
            room -= self._step(room)
        return self.over

    def _step(self, room: i64) -> i64:
        """Do one thing; gives what it cost, in rows."""
        tables = self._tables
        if self._state is not None:
            return self._find_vhosts()
        if tables is None:
            if not self._vhosts:
                self.over = True
                return 0
            return self._begin(self._vhosts.pop())
        if self._at < len(self._rows):
            behind = min(self._at + room, i64(len(self._rows)))
            begun = self._at
            for at in range(begun, behind):
                add_row(tables, self._part, msgspec.msgpack.decode(self._rows[at]))
            self._at = behind
            return behind - begun
        self._part += 1
        self._at = 0
        self._rows = []
        if self._part < REST_AT:
            raw = self._parts[self._part]
            self._rows = _RAWS.decode(raw)
            return 1 + i64(len(raw)) // BYTES_A_ROW
        rest: list[Any] = [msgspec.msgpack.decode(raw) for raw in self._parts[REST_AT:]]
        add_rest(tables, rest)
        self.vhosts[tables.name] = tables
        self._tables = None
        self._parts = []
        return 1

    def _find_vhosts(self) -> i64:
        raw = self._state
        self._vhosts = _RAWS.decode(raw)
        self._vhosts.reverse()
        self._state = None
        return 1 + i64(len(raw)) // BYTES_A_ROW

    def _begin(self, raw: Any) -> i64:
        self._parts = _RAWS.decode(raw)
        self._tables = VhostRecord(msgspec.msgpack.decode(self._parts[0]))
        self._part = EXCHANGES_AT - 1
        self._rows = []
        self._at = 0
        return 1 + i64(len(raw)) // BYTES_A_ROW
