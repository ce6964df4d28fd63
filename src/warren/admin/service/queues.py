"""What a node answers operators who want to see queues: `warren queues list`, in parts.

A request is `["queues", "list", {...}]`; its answer is `["more", rows]` as often as it takes, and
`["ok", rows]` with the last ones. However many queues there are, clients wait for a slice of a few
milliseconds only, and what the operator has not read yet is bounded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from warren.admin.service.host import OperatorLink
from warren.admin.service.slices import Slices
from warren.errors import ClusterError
from warren.metadata.policies import names_of
from warren.metadata.tables import QueueRecord, VhostRecord

if TYPE_CHECKING:
    from warren.node.node import Node

PART_ROWS = 1_000
"""Rows of a part of the answer: some 200 KB."""
UNREAD_BYTES_MAX = 1_048_576
"""What may wait for the operator to read it."""
POLL_SECONDS = 0.01


class Asked(msgspec.Struct, kw_only=True):
    """Which queues an operator wants to see.

    Attributes:
        vhost: Only those of this one; empty for all.
        own: Only those whose messages this node can count.
    """

    vhost: str = ""
    own: bool = False


class QueueList:
    """Lists the queues that one node knows."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def answer(self, link: OperatorLink, words: dict[str, Any]) -> list[dict[str, Any]]:
        """Send all parts of a list but the last, and return that one.

        Raises:
            ClusterError: There is no such vhost.
            ValueError: These are not the words of a list.
        """
        asked = msgspec.convert(words, Asked)
        machine = self._node.tables.machine
        if asked.vhost and asked.vhost not in machine.vhosts:
            raise ClusterError(f"vhost '{asked.vhost}' does not exist")
        rows: list[dict[str, Any]] = []
        slices = Slices()
        for vhost, tables in list(machine.vhosts.items()):
            if asked.vhost not in ("", vhost):
                continue
            # Queues may come and go between two slices.
            for queue in list(tables.queues.values()):
                await slices.breathe()
                if tables.queues.get(queue.name) is not queue:
                    continue
                row = self._row(tables, queue)
                if not asked.own or row["ready"] is not None:
                    rows.append(row)
                if len(rows) >= PART_ROWS:
                    link.answer(msgspec.msgpack.encode(["more", rows]))
                    rows = []
                    while link.backlog_bytes > UNREAD_BYTES_MAX and not link.closed.done():
                        await asyncio.sleep(POLL_SECONDS)
                    if link.closed.done():
                        return []
        return rows

    def _row(self, tables: VhostRecord, record: QueueRecord) -> dict[str, Any]:
        """One queue; what it holds is None where only another node knows it."""
        node = self._node
        replicated = record.kind == "quorum"
        policy, operator_policy = names_of(tables, record)
        row: dict[str, Any] = {
            "vhost": record.vhost,
            "name": record.name,
            "type": record.kind,
            "ready": None,
            "unacked": None,
            "consumers": None,
            "leader": node.queue_members.leader(record) if replicated else self._home(record),
            "voters": [member.node for member in record.members if member.voter],
            "learners": [member.node for member in record.members if not member.voter],
            "policy": policy,
            "operator_policy": operator_policy,
        }
        vhost = node.tables.vhosts.get(record.vhost)
        queue = None if vhost is None else vhost.queues.get(record.name)
        counts = None if queue is None else queue.counts()
        if counts is not None:
            row["ready"] = int(counts.ready)
            row["unacked"] = int(counts.held)
            row["consumers"] = int(counts.consumers)
        return row

    def _home(self, record: QueueRecord) -> str:
        """The node that a classic queue is on, if that runs."""
        down = record.node != self._node.settings.node_name and (
            self._node.cluster.detector.suspected(record.node)
        )
        return "" if down else record.node
