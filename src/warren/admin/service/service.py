"""What all operations of one node share: the node, the process around it, and a few checks."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter

from warren.admin.service.caller import acting_user
from warren.admin.service.client_order import ChannelOrder, ConnectionOrder
from warren.admin.service.host import OperatorHost
from warren.admin.service.kept import KeptAnswers
from warren.admin.service.queue_order import QueueOrder
from warren.admin.service.statistics import Statistics
from warren.admin.service.waiting import Awaited
from warren.errors import NO_MAJORITY, PRECONDITION_FAILED, TIMED_OUT, Refusal
from warren.metadata.commands import Barrier, Command
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.metadata.tables import VhostRecord
from warren.metadata.version_checks import check_version
from warren.node.cluster.queue_members import Majority, QueueMembers
from warren.node.node import Node
from warren.pending import PendingResult
from warren.queue_types import DEFAULT
from warren.queues.queue import Queue

CHANGE_SECONDS = 20.0
"""For a change of the tables to be in force."""


class LoginCounts:
    """How many said who they are.

    Attributes:
        tried: All of them.
        failed: Those that were not let in.
    """

    def __init__(self, tried: int = 0, failed: int = 0) -> None:
        self.tried = tried
        self.failed = failed


class AdminService:
    """The service of one node. Belongs to the loop's thread.

    Attributes:
        node: It.
        host: The process around it.
        rebalancing: Whether leaders are being moved, which is done once at a time.
        searching: How many searches through messages are at work.
        queue_order: The queues of vhosts by name.
        connection_order, channel_order: Those of this node's clients by name.
        kept: What takes long to find.
        statistics: Rates of messages, while a way in has them sampled.
        http_logins: Of requests over HTTP.
        http_waiting: Requests whose password is being checked, by the network they come from.
        logins_before: Those of clients that were counted before operators began to count anew.
    """

    def __init__(self, node: Node, host: OperatorHost) -> None:
        self.node = node
        self.host = host
        self.rebalancing = False
        self.searching = 0
        self.queue_order = QueueOrder()
        self.connection_order = ConnectionOrder(node)
        self.channel_order = ChannelOrder(node)
        self.kept = KeptAnswers()
        self.statistics = Statistics(node, self.leads, self.gauges)
        self.http_logins = LoginCounts()
        self.http_waiting: Counter[str] = Counter()
        self.logins_before = LoginCounts()

    def leads(self, queue: Queue) -> bool:
        """Whether this node leads a queue, or is the only one to have it."""
        if not queue.type.replicated:
            return queue.counts() is not None
        record = self.machine.queue(queue.vhost, queue.name)
        return record is not None and self.members.leader(record) == self.own_name

    async def gauges(self) -> tuple[int, ...]:
        """How the node is doing, in `statistics.NODE_GAUGES`."""
        process = self.host.state()
        free = await asyncio.to_thread(free_bytes, process.data_dir)
        return process.memory_bytes, free, process.descriptors, len(self.node.connections)

    @property
    def machine(self) -> MetadataMachine:
        """The tables, to read."""
        return self.node.metadata

    @property
    def members(self) -> QueueMembers:
        """Members and leaders of quorum queues."""
        return self.node.queue_members

    @property
    def own_name(self) -> str:
        """The name of this node."""
        return self.node.settings.node_name

    def default_queue_type(self, tables: VhostRecord) -> str:
        """The type of queues that are declared without one in a vhost."""
        return tables.default_queue_type or self.node.settings.default_queue_type or DEFAULT.name

    def check_majority(self) -> None:
        """Refuse what changes the tables while they cannot be changed.

        Raises:
            Refusal: `NO_MAJORITY`.
        """
        if not self.members.tables_leader():
            text = what_it_waits_for(self.members.tables_majority())
            raise Refusal(NO_MAJORITY, f"waits {text}: nothing can be changed")

    def check_running(self, node: str) -> None:
        """Refuse to count on a node that is down.

        Raises:
            Refusal: `PRECONDITION_FAILED`.
        """
        if node not in self.members.running():
            raise Refusal(PRECONDITION_FAILED, f"node '{node}' is not running: start it first")

    def submit(self, command: Command, pending: PendingResult) -> None:
        """Have a change of the tables logged; the request is told when it is in force here.

        Raises:
            Refusal: `PRECONDITION_FAILED`, some node of the cluster would not understand it, or it
                cannot be encoded.
        """
        check_version(self.machine, command)
        user = acting_user.get()
        refusals: list[Refusal] = []

        def step() -> None:
            # What a guarded step raises ends the process.
            try:
                self.node.store.submit(command, pending, user)
            except Refusal as refusal:
                refusals.append(refusal)

        self.host.guarded(step)
        self.host.after_event()
        if refusals:
            raise refusals[0]

    async def change(self, command: Command) -> Outcome:
        """Change the tables, and say what that did once it is in force here.

        Raises:
            Refusal: `TIMED_OUT`.
        """
        pending = Awaited()
        self.submit(command, pending)
        result = await pending.wait(CHANGE_SECONDS)
        assert isinstance(result, Outcome), "the tables were asked"
        return result

    async def catch_up(self) -> None:
        """Have the tables here say all that was said when this was called.

        Those of a node may lag, and to go by them could leave out what is to be changed.

        Raises:
            Refusal: `NO_MAJORITY`, or `TIMED_OUT`.
        """
        self.check_majority()
        pending = Awaited()
        self.submit(Barrier(), pending)
        try:
            await pending.wait(CHANGE_SECONDS)
        except Refusal as refusal:
            if refusal.kind != TIMED_OUT:
                raise
            raise Refusal(
                TIMED_OUT,
                f"this node has not heard the newest of the cluster within {CHANGE_SECONDS:.0f} s, "
                "and nothing was changed: ask once more, or ask another node",
            ) from None


def what_it_waits_for(majority: Majority) -> str:
    """What the tables wait for while they have no leader; stands after 'waits' or 'waiting'."""
    text = f"for a majority of {', '.join(majority.voters)}"
    missing = ", ".join(majority.missing)
    return f"{text}; not reached: {missing}" if missing else text


def free_bytes(folder: str) -> int:
    """Free space of the disk that a directory is on; -1 if that cannot be told."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return -1
