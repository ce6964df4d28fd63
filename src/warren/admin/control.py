"""What a node answers operators: `warren cluster`, over the cluster listener and with the secret.

A request is a MessagePack array, and so is its answer:

    ["status"]                   ["ok", {...}]     as `status` here says
    ["forget", node, force]      ["ok", null]      the node is out of the tables
    ["leave", force]             ["ok", null]      this node is, and ends
    ["queues", "list", {words}]  ["more", rows] ... ["ok", rows]
                                                   see `list_operators`
    ["queues", action, {words}]  ["ok", ...]       see `queue_operators`
    ["policies", action, {words}]
                                 ["ok", ...]       see `policy_operators`
    anything                     ["error", text]

The cluster listener answers nobody else; see docs/formats/peer-link.md.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Coroutine
from typing import Any

import msgspec

from warren.admin.service.host import OperatorHost, OperatorLink
from warren.admin.service.members import QueueOperators
from warren.admin.service.policies import PolicyOperators
from warren.admin.service.queues import QueueList
from warren.errors import ClusterError
from warren.metadata.commands import RemoveNode
from warren.metadata.node_checks import check_majorities, check_remove_node
from warren.metadata.outcome import Change, Outcome
from warren.node.node import Node
from warren.protocols.broker import ALARM_DISK, ALARM_MEMORY

log = logging.getLogger("warren")

LEAVE_SECONDS = 5.0
"""How long a node that leaves waits to hear that it is out of the tables."""
LEAVE_POLL_SECONDS = 0.02

UNKNOWN_REQUEST = "this node does not know the request; use its version of the command"


class NodeOperators:
    """Answers for one node."""

    def __init__(self, node: Node, host: OperatorHost) -> None:
        self._host = host
        self._node = node
        self._queues = QueueOperators(node, host)
        self._policies = PolicyOperators(node)
        self._list = QueueList(node)
        self._tasks: set[asyncio.Task[None]] = set()

    def asked(self, link: OperatorLink, request: bytes) -> None:
        """Answer now, or when what is asked for is done."""
        try:
            words = msgspec.msgpack.decode(request, type=list[Any])
            if words == ["status"]:
                self._begin(self._status(link))
            elif words[0] == "forget":
                _, name, force = words
                self._forget(link, str(name), bool(force))
            elif words[0] == "leave":
                self._begin(self._leave(link, bool(words[1])))
            elif words[0] == "queues":
                _, action, asked = words
                self._begin(self._about_queues(link, action, asked))
            elif words[0] == "policies":
                _, action, asked = words
                self._policies.answer(action, asked, lambda content: reply(link, content))
            else:
                raise ValueError("no such request")
        except ClusterError as error:
            refuse(link, str(error))
        except (msgspec.DecodeError, ValueError, IndexError):
            refuse(link, UNKNOWN_REQUEST)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _status(self, link: OperatorLink) -> None:
        state = self._host.state()
        # A disk may take its time, which clients do not wait for.
        free = await asyncio.to_thread(free_bytes, state["data_dir"])
        reply(link, {**status(self._node), **state, "disk_free_bytes": free})

    async def _about_queues(self, link: OperatorLink, action: str, asked: dict[str, Any]) -> None:
        try:
            if action == "list":
                reply(link, await self._list.answer(link, asked))
            else:
                reply(link, await self._queues.answer(action, asked))
        except ClusterError as error:
            refuse(link, str(error))
        except ValueError:
            refuse(link, UNKNOWN_REQUEST)

    def _forget(self, link: OperatorLink, name: str, force: bool) -> None:
        node = self._node
        if name == node.settings.node_name:
            raise ClusterError(f"node '{name}' is this one, which runs: it may leave instead")
        self._remove(link, name, force, leaving=False)

    def _remove(self, link: OperatorLink, name: str, force: bool, leaving: bool) -> None:
        command = self._removal(name, force, leaving)
        log.warning("node %s is removed from the cluster, as an operator asked", name)
        self._node.tables.submit(command, Removed(self._node, link, name))

    def _removal(self, name: str, force: bool, leaving: bool) -> RemoveNode:
        """The command that removes a node.

        Raises:
            ClusterError: It cannot go, or is needed.
        """
        node = self._node
        machine = node.tables.machine
        up = node.queue_members.running()
        command = check_remove_node(machine, name, name in up, leaving, force)
        left = [other for other in machine.nodes if other != name]
        still_up = [other for other in left if other in up]
        if not node.queue_members.tables_leader():
            raise ClusterError(f"{node.queue_members.no_majority()}: nothing can be changed")
        if 2 * len(still_up) <= len(left):
            raise ClusterError(
                f"without node '{name}' the cluster has no majority of running nodes "
                f"({', '.join(still_up)} of {', '.join(left)}): start the others first"
            )
        if not force:
            check_majorities(machine, name, up)
        return command

    async def _leave(self, link: OperatorLink, force: bool) -> None:
        """Hand the lead over, give up all votes, have this node removed, and end.

        A group that counts this node when it ends could be left without a majority.
        """
        node = self._node
        host = self._host
        own = node.settings.node_name
        loop = asyncio.get_running_loop()
        try:
            self._removal(own, force, leaving=True)
            await host.hand_over()
            # The next leader of the tables may not be known yet; each step needs one.
            await self._until_led()
            await self._queues.give_up_votes(own, force)
            await self._until_led()
            host.guarded(lambda: self._remove_own(link, own, force))
            until = loop.time() + LEAVE_SECONDS
            while own in node.tables.machine.nodes and loop.time() < until:
                await asyncio.sleep(LEAVE_POLL_SECONDS)
            if own not in node.tables.machine.nodes:
                host.left()
            else:
                refuse(link, f"the cluster has not let node '{own}' go yet; ask once more")
        except ClusterError as error:
            refuse(link, str(error))

    async def _until_led(self) -> None:
        """Wait until the tables have a leader, but not for ever."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LEAVE_SECONDS
        while not self._node.queue_members.tables_leader() and loop.time() < until:
            await asyncio.sleep(LEAVE_POLL_SECONDS)

    def _remove_own(self, link: OperatorLink, own: str, force: bool) -> None:
        try:
            self._remove(link, own, force, leaving=True)
        except ClusterError as error:
            refuse(link, str(error))


class Removed(Change):
    """An operator waits for a node to be out of the tables."""

    def __init__(self, node: Node, link: OperatorLink, name: str) -> None:
        self._node = node
        self._link = link
        self._name = name

    def applied(self, outcome: Outcome) -> None:
        """It is, unless something came between."""
        if self._name in self._node.tables.machine.nodes:
            refuse(self._link, f"node '{self._name}' is needed again; ask once more")
        else:
            reply(self._link, None)


def reply(link: OperatorLink, content: Any) -> None:
    """Answer an operator."""
    link.answer(msgspec.msgpack.encode(["ok", content]))


def refuse(link: OperatorLink, text: str) -> None:
    """Tell an operator why not."""
    link.answer(msgspec.msgpack.encode(["error", text]))


def free_bytes(folder: str) -> int:
    """Free space of the disk that a directory is on; -1 if that cannot be told."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return -1


def status(node: Node) -> dict[str, Any]:
    """The cluster as this node sees it, and what its clients have there."""
    machine = node.tables.machine
    up = node.queue_members.running()
    leader = node.queue_members.tables_leader()
    return {
        "cluster": machine.cluster_id.hex(),
        "node": node.settings.node_name,
        "leader": leader,
        "problem": "" if leader else node.queue_members.no_majority(),
        "nodes": [
            {
                "name": row.name,
                "address": f"{row.host}:{row.port}",
                "running": row.name in up,
            }
            for row in machine.nodes.values()
        ],
        "connections": len(node.connections),
        "queues_count": sum(len(tables.queues) for tables in machine.vhosts.values()),
        "alarms": alarms(node),
        "memory_limit_bytes": int(node.settings.memory_limit_bytes),
        "disk_free_limit_bytes": int(node.settings.log.disk_free_limit_bytes),
    }


def alarms(node: Node) -> list[str]:
    """What the node is short of."""
    raised = int(node.alarms())
    return [name for bit, name in ((ALARM_MEMORY, "memory"), (ALARM_DISK, "disk")) if raised & bit]
