"""What a node answers operators about the members of quorum queues: `warren queues`.

A request is `["queues", action, {...}]`, with the words of the command by name; see `ACTIONS`. What
changes a queue is answered when it has come about, or with what is known when `WAIT_SECONDS` are
over: nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import collections
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from warren.admin.service.host import OperatorHost
from warren.admin.service.slices import Slices
from warren.errors import ClusterError
from warren.limits import CHANGES_AT_ONCE_MAX
from warren.metadata.balance import moves
from warren.metadata.commands import SetMembers
from warren.metadata.member_checks import (
    add_member,
    check_node,
    delete_member,
    quorum_queue,
    voters,
)
from warren.metadata.outcome import Change, Outcome
from warren.metadata.tables import QueueRecord
from warren.node.cluster.queue_members import Standing

if TYPE_CHECKING:
    from warren.node.node import Node

Thing = TypeVar("Thing")

SETTLE_SECONDS = 5.0
"""For queues to have a leader, and for changes that are under way to end."""
WAIT_SECONDS = 20.0
"""For the members of queues to be as asked."""
TRANSFER_SECONDS = 5.0
"""For a leader to move."""
STATUS_SECONDS = 2.0
"""For other nodes to say how far their copies are."""
POLL_SECONDS = 0.02
ASK_AGAIN_SECONDS = 0.25
TRANSFERS_AT_ONCE = 16

ERROR = "error: "
TIMED_OUT = "error: the operation timed out and may not have been completed"
CROWDED = "the changes of other queues before it have not come into force; ask once more"
CHANGED = "its members were changed meanwhile; ask once more"
LATER = "and it votes once it has caught up"
TYPES = ("all", "quorum")
"""Queue types that `rebalance` takes; of those there are, only quorum queues have members."""


class Asked(msgspec.Struct, kw_only=True):
    """The words of any command; each action uses some."""

    vhost: str = "/"
    queue: str = ""
    node: str = ""
    strategy: str = "all"
    type: str = "all"
    vhost_pattern: str = ".*"
    queue_pattern: str = ".*"
    membership: Literal["promotable", "voter", "non_voter"] = "promotable"
    """What a new member is to be: `promotable` may vote later, `voter` is waited for."""
    count: int = 1
    """How many members queues are to have."""
    force: bool = False

    @property
    def votes(self) -> bool:
        """Whether a new member is to vote at all."""
        return self.membership != "non_voter"

    @property
    def later(self) -> bool:
        """Whether it will do that it votes once it has caught up."""
        return self.membership == "promotable"


class Attempt(Change):
    """A change of one queue's members.

    Attributes:
        problem: Why it cannot be; empty if it can.
        outcome: Of the change of the tables; None before it is in force.
    """

    def __init__(self, queue: QueueRecord) -> None:
        self.queue = queue
        self.problem = ""
        self.outcome: Outcome | None = None

    def applied(self, outcome: Outcome) -> None:
        """The tables are changed."""
        self.outcome = outcome


class QueueOperators:
    """Answers for one node."""

    def __init__(self, node: Node, host: OperatorHost) -> None:
        self._host = host
        self._node = node
        self._members = node.queue_members
        self._rebalancing = False
        self.actions: dict[str, Callable[[Asked], Coroutine[Any, Any, Any]]] = {
            "add_member": self._add_member,
            "delete_member": self._delete_member,
            "grow": self._grow,
            "grow_to_count": self._grow_to_count,
            "shrink": self._shrink,
            "transfer_leadership": self._transfer_leadership,
            "rebalance": self._rebalance,
            "quorum_status": self._quorum_status,
        }

    async def answer(self, action: str, words: dict[str, Any]) -> Any:
        """Do what is asked.

        Raises:
            ClusterError: It cannot be done; says why.
            ValueError: There is no such action, or it has no such words.
        """
        if action not in self.actions:
            raise ValueError("no such action")
        return await self.actions[action](msgspec.convert(words, Asked))

    # --- members --------------------------------------------------------------------------------

    async def _add_member(self, asked: Asked) -> str:
        queue = self._queue(asked)
        self._check_running(asked.node)
        if asked.node in voters(queue):
            return f"{title(queue)} has a member on node '{asked.node}' already"
        if not asked.votes and queue.member_on(asked.node) is not None:
            return f"{title(queue)} has a copy that does not vote on node '{asked.node}' already"
        (row,) = await self._change([queue], lambda row: self._added(row, asked), asked.later)
        if not row["ok"]:
            raise ClusterError(f"{title(queue)}: {row['result'].removeprefix(ERROR)}")
        later = f", {row['result']}" if row["result"] != "ok" else ""
        return f"{title(queue)} has a member on node '{asked.node}'{later}"

    async def _delete_member(self, asked: Asked) -> str:
        queue = self._queue(asked)
        if asked.node not in voters(queue):
            return f"{title(queue)} has no member on node '{asked.node}'"
        (row,) = await self._change([queue], lambda row: self._removed(row, asked))
        if not row["ok"]:
            raise ClusterError(f"{title(queue)}: {row['result'].removeprefix(ERROR)}")
        return f"{title(queue)} has no member on node '{asked.node}' any more"

    async def _grow(self, asked: Asked) -> list[dict[str, Any]]:
        check_node(self._node.tables.machine, asked.node)
        self._check_running(asked.node)
        found = await Slices().those(
            await self._matching(asked),
            lambda queue: asked.node not in holders(queue, asked) and fits(queue, asked),
        )
        return await self._change(found, lambda row: self._added(row, asked), asked.later)

    async def _grow_to_count(self, asked: Asked) -> list[dict[str, Any]]:
        """Add members until queues have so many, or as many as there are nodes that run.

        One member of each queue after the other; a queue with which something goes wrong is left.
        """
        if asked.count < 1:
            raise ClusterError("a queue has one member at least")
        rows: list[dict[str, Any]] = []
        wrong: set[QueueRecord] = set()
        while True:
            found = await Slices().those(
                await self._matching(asked),
                lambda queue: (
                    queue not in wrong
                    and len(holders(queue, asked)) < asked.count
                    and fits(queue, asked)
                    and self._free(queue, asked)
                ),
            )
            if not found:
                return rows
            load: collections.Counter[str] = collections.Counter()
            slices = Slices()
            for queue in self._members.queues():
                load.update(holders(queue, asked))
                await slices.breathe()

            def added(queue: QueueRecord, load: collections.Counter[str] = load) -> SetMembers:
                node = min(self._free(queue, asked), key=lambda name: (load[name], name))
                load[node] += 1
                command = add_member(queue, node, self._node.tables.new_group(), asked.votes)
                assert command is not None, "a free node has no member"
                return command

            done = await self._change(found, added, asked.later)
            rows += done
            wrong.update(
                queue for queue, row in zip(found, done, strict=True) if row["result"] != "ok"
            )

    def _free(self, queue: QueueRecord, asked: Asked) -> list[str]:
        """Nodes that run and could take a member of a queue."""
        return [node for node in self._members.running() if node not in holders(queue, asked)]

    async def _shrink(self, asked: Asked) -> list[dict[str, Any]]:
        check_node(self._node.tables.machine, asked.node)
        found = await Slices().those(
            self._members.queues(), lambda queue: asked.node in voters(queue)
        )
        return await self._change(found, lambda row: self._removed(row, asked))

    async def give_up_votes(self, node: str, force: bool) -> None:
        """Leave no queue a vote on a node, except where it is the only one.

        Args:
            node: Which.
            force: Go on where that does not come about.

        Raises:
            ClusterError: A queue still counts the node.
        """
        found = await Slices().those(
            self._members.queues(),
            lambda queue: len(voters(queue)) > 1 and node in voters(queue),
        )
        running = self._members.running()
        rows = await self._change(found, lambda row: delete_member(row, node, running, force))
        wrong = [row for row in rows if not row["ok"]]
        if wrong and not force:
            first = wrong[0]
            raise ClusterError(
                f"{len(wrong)} quorum queue(s) still count node '{node}', among them "
                f"'{first['name']}' in vhost '{first['vhost']}': "
                f"{first['result'].removeprefix(ERROR)}"
            )

    def _added(self, queue: QueueRecord, asked: Asked) -> SetMembers | None:
        return add_member(queue, asked.node, self._node.tables.new_group(), asked.votes)

    def _removed(self, queue: QueueRecord, asked: Asked) -> SetMembers | None:
        return delete_member(queue, asked.node, self._members.running(), asked.force)

    async def _change(
        self,
        queues: list[QueueRecord],
        command: Callable[[QueueRecord], SetMembers | None],
        later: bool = False,
    ) -> list[dict[str, Any]]:
        """Change the members of queues, many at once; what became of each.

        Args:
            command: What to change of a queue; None if nothing.
            later: Whether it will do that a new member votes once it has caught up.
        """
        self._check_majority()
        why_not = self._members.why_not
        await self._until_all(queues, lambda queue: not why_not(queue), SETTLE_SECONDS)
        attempts: list[Attempt] = []
        slices = Slices()
        crowded = False
        for queue in queues:
            if not crowded and not self._has_room():
                await self._until(self._has_room)
                crowded = not self._has_room()
            attempts.append(self._attempt(queue, command))
            await slices.breathe()
        await self._until_all(attempts, self._came_about, WAIT_SECONDS)
        rows: list[dict[str, Any]] = []
        for attempt in attempts:
            rows.append(row_of(attempt.queue, self._result(attempt, later)))
            await slices.breathe()
        return rows

    def _has_room(self) -> bool:
        """Whether there are not too many changes under way."""
        return len(self._node.tables.member().proposals) < CHANGES_AT_ONCE_MAX

    def _attempt(
        self, queue: QueueRecord, command: Callable[[QueueRecord], SetMembers | None]
    ) -> Attempt:
        attempt = Attempt(queue)
        if not self._has_room():
            attempt.problem = CROWDED
            return attempt
        attempt.problem = self._members.why_not(queue)
        if not attempt.problem:
            try:
                wanted = command(queue)
            except ClusterError as error:
                attempt.problem = str(error)
            else:
                if wanted is None:
                    attempt.problem = CHANGED
                else:
                    self._host.guarded(lambda: self._node.tables.submit(wanted, attempt))
                    self._host.after_event()
        return attempt

    def _came_about(self, attempt: Attempt) -> bool:
        """Whether there is nothing to wait for any more."""
        if attempt.problem or self._gone(attempt.queue):
            return True
        return attempt.outcome is not None and self._members.settled(attempt.queue)

    def _result(self, attempt: Attempt, later: bool) -> str:
        if attempt.problem:
            return ERROR + attempt.problem
        if self._gone(attempt.queue):
            return ERROR + "it was deleted"
        if attempt.outcome is not None and not attempt.outcome.changed:
            return ERROR + CHANGED
        if self._came_about(attempt):
            return "ok"
        return LATER if later and attempt.outcome is not None else TIMED_OUT

    # --- leaders --------------------------------------------------------------------------------

    async def _transfer_leadership(self, asked: Asked) -> str:
        queue = self._queue(asked)
        if asked.node not in voters(queue):
            raise ClusterError(
                f"{title(queue)} has no member on node '{asked.node}': its members are "
                f"{', '.join(voters(queue))}"
            )
        self._check_running(asked.node)
        leader = self._members.leader(queue)
        if leader == asked.node:
            raise ClusterError("The target node is already the leader of this queue")
        if not leader:
            raise ClusterError(f"{title(queue)}: {self._members.why_not(queue)}")
        if not await self._move(queue, asked.node):
            raise ClusterError(
                f"{title(queue)}: the leader has not moved to node '{asked.node}' within "
                f"{TRANSFER_SECONDS:.0f} s; it is on node '{self._members.leader(queue)}'"
            )
        return f"{title(queue)} is led by node '{asked.node}'"

    async def _rebalance(self, asked: Asked) -> list[dict[str, Any]]:
        if asked.type not in TYPES:
            raise ClusterError(
                f"type {asked.type} is not supported. Try one of {', '.join(TYPES)}."
            )
        if self._rebalancing:
            raise ClusterError("a rebalance is in progress; wait for its end")
        self._rebalancing = True
        try:
            queues = await self._matching(asked)
            by_group = {int(queue.group_id): queue for queue in queues}
            room = asyncio.Semaphore(TRANSFERS_AT_ONCE)

            async def move(group_id: int, target: str) -> None:
                async with room:
                    await self._move(by_group[group_id], target)

            planned = moves(self._members.led(queues), self._members.running())
            await asyncio.gather(*(move(group_id, target) for group_id, target in planned))
        finally:
            self._rebalancing = False
        counts = dict.fromkeys(self._members.running(), 0)
        for led in self._members.led(queues):
            counts[led.leader] = counts.get(led.leader, 0) + 1
        return [{"node": node, "queues": count} for node, count in counts.items()]

    async def _move(self, queue: QueueRecord, target: str) -> bool:
        """Hand the lead of a queue over; whether that came about."""
        loop = asyncio.get_running_loop()
        until = loop.time() + TRANSFER_SECONDS
        while loop.time() < until and not self._gone(queue):
            self._host.guarded(lambda: self._members.transfer(int(queue.group_id), target))
            self._host.after_event()
            again = loop.time() + ASK_AGAIN_SECONDS
            while loop.time() < again:
                if self._members.leader(queue) == target:
                    return True
                await asyncio.sleep(POLL_SECONDS)
        return False

    # --- status ---------------------------------------------------------------------------------

    async def _quorum_status(self, asked: Asked) -> list[dict[str, Any]]:
        queue = self._queue(asked)
        running = self._members.running()
        number = self._members.ask(queue)
        awaited = [row.node for row in queue.members if row.node in running]
        try:
            told = self._members.told(number)
            await self._until(lambda: all(node in told for node in awaited), STATUS_SECONDS)
        finally:
            told = self._members.forget(number)
        member = self._node.cluster.members.get(int(queue.group_id))
        voting = [] if member is None else [copy.node for copy in member.raft.members if copy.voter]
        rows = []
        for row in sorted(queue.members, key=lambda row: row.node):
            silent = Standing("timeout" if row.node in running else "nodedown", [])
            standing = told.get(row.node, silent)
            votes = "voter" if row.node in voting else "promotable" if row.voter else "non_voter"
            rows.append(status_row(row.node, votes, standing))
        return rows

    # --- what all need --------------------------------------------------------------------------

    def _queue(self, asked: Asked) -> QueueRecord:
        machine = self._node.tables.machine
        queue = quorum_queue(machine, asked.vhost, asked.queue)
        if asked.node:
            check_node(machine, asked.node)
        return queue

    def _gone(self, queue: QueueRecord) -> bool:
        return self._node.tables.machine.queue(queue.vhost, queue.name) is not queue

    def _check_running(self, node: str) -> None:
        if node not in self._members.running():
            raise ClusterError(f"node '{node}' is not running: start it first")

    def _check_majority(self) -> None:
        if not self._node.queue_members.tables_leader():
            raise ClusterError(f"{self._members.no_majority()}: nothing can be changed")

    async def _matching(self, asked: Asked) -> list[QueueRecord]:
        vhosts, names = pattern(asked.vhost_pattern), pattern(asked.queue_pattern)
        return await Slices().those(
            self._members.queues(),
            lambda queue: vhosts.search(queue.vhost) and names.search(queue.name),
        )

    async def _until(self, done: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        """Wait for something, but not for ever."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not done() and loop.time() < until:
            await asyncio.sleep(POLL_SECONDS)

    async def _until_all(
        self, things: Iterable[Thing], done: Callable[[Thing], bool], seconds: float
    ) -> None:
        """Wait until something was so of each of many things, but not for ever."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        left = await Slices().those(things, lambda thing: not done(thing))
        while left and loop.time() < until:
            await asyncio.sleep(POLL_SECONDS)
            left = await Slices().those(left, lambda thing: not done(thing))


def pattern(text: str) -> re.Pattern[str]:
    """A pattern for names, which may match anywhere in them.

    Raises:
        ClusterError: It is no regular expression.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise ClusterError(f"'{text}' is no regular expression: {error}") from None


def title(queue: QueueRecord) -> str:
    """How texts call a queue."""
    return f"queue '{queue.name}' in vhost '{queue.vhost}'"


def holders(queue: QueueRecord, asked: Asked) -> list[str]:
    """The nodes with members of the kind that is asked for."""
    return voters(queue) if asked.votes else [row.node for row in queue.members]


def fits(queue: QueueRecord, asked: Asked) -> bool:
    """Whether the strategy is for queues with as many members as this one."""
    return asked.strategy == "all" or len(voters(queue)) % 2 == 0


def row_of(queue: QueueRecord, result: str) -> dict[str, Any]:
    """What became of one queue, as RabbitMQ's `grow` and `shrink` list it."""
    return {
        "vhost": queue.vhost,
        "name": queue.name,
        "size": "?" if result == TIMED_OUT else len(voters(queue)),
        "result": result,
        "ok": not result.startswith(ERROR),
    }


def status_row(node: str, membership: str, standing: Standing) -> dict[str, Any]:
    """One copy of a queue, as RabbitMQ's `quorum_status` lists it."""
    names = (
        "Last Log Index",
        "Last Written",
        "Last Applied",
        "Commit Index",
        "Snapshot Index",
        "Term",
        "Machine Version",
    )
    numbers: Sequence[int | str] = standing.numbers or [""] * len(names)
    row: dict[str, Any] = {
        "Node Name": node,
        "Raft State": standing.state,
        "Membership": membership,
    }
    return {**row, **dict(zip(names, numbers, strict=True))}
