"""Starts and stops this node's queues as the metadata calls for them, and says what is lacking.

A quorum queue is here as the copy that this node holds (`copies`), or as what clients use of one
that other nodes hold (`cluster.observers`); a classic queue as itself, or as its proxy.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.limits import CHANGE_STEPS, TURN_MEMBERS_MAX
from warren.log.log import Log
from warren.log.runlist import NO_RUNS, KnownRuns, LiveRuns
from warren.metadata.arguments import max_priority
from warren.metadata.machine import MetadataMachine
from warren.metadata.patterns import WORK
from warren.metadata.rows import Lot
from warren.metadata.tables import QueueRecord, queues_of
from warren.node.beginnings import Beginning
from warren.node.copies import Copies
from warren.node.loop import Loop
from warren.node.policies import QueuePolicies
from warren.node.queues import LocalQueues, TakingOver, VirtualHost
from warren.node.store import METADATA_GROUP
from warren.node.timers import QueueTimers
from warren.ports import Work
from warren.queues.classic import ClassicQueue
from warren.queues.fifo.machine import Fifo
from warren.queues.lines import Line
from warren.queues.logged import LoggedQueue
from warren.queues.proxy import ProxyQueue
from warren.queues.queue import Queue
from warren.queues.transient import TransientQueue

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.cluster.observers import Observers
    from warren.node.remote.proxying import Remotes
    from warren.node.repairs import Repairs
    from warren.node.replay import NodeReplayer


@final
class QueueHosting(TakingOver):
    """Of one node."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        metadata: MetadataMachine,
        queues: LocalQueues,
        cluster: Cluster,
        observers: Observers,
        copies: Copies,
        repairs: Repairs,
        remotes: Remotes,
        policies: QueuePolicies,
        timers: QueueTimers,
    ) -> None:
        self._loop: Loop = loop
        self._log: Log = log
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._cluster: Cluster = cluster
        self._observers: Observers = observers
        self._copies: Copies = copies
        self._repairs: Repairs = repairs
        self._remotes: Remotes = remotes
        self._policies: QueuePolicies = policies
        self._timers: QueueTimers = timers
        self._node_name: str = loop.settings.node_name
        self._begins_anew: bool = len(loop.settings.former_uid) > 0
        self._lacking: dict[int, None] = {}
        """Quorum queues that lack the copy that should be here, by group."""
        self._unsure: dict[int, QueueRecord] = {}
        """Some of those: tables older than the log name them, and may not know that they went."""
        self._tables_known: i64 = 0
        """The last entry of the tables that the log had at the start."""
        self._replayer: NodeReplayer | None = None
        """What the log holds of queues that the metadata does not name yet."""
        self._lots: deque[Lot] = deque()
        """Of metadata that came as a whole: rows of queues that are still to be seen to,"""
        self._records: list[QueueRecord] = []
        """those of the lot under way, the next one last,"""
        self._gone: list[Queue] = []
        """queues in whose place there are others, which are still to be stopped,"""
        self._leaving: list[VirtualHost] = []
        """and vhosts that may still have some that were here before."""

    # --- a life of the node ---------------------------------------------------------------------

    def recover(self, replayer: NodeReplayer) -> None:
        """Start the queues that the metadata names, with what the log holds of them."""
        self._replayer = replayer
        self._tables_known = self._log.group(METADATA_GROUP).last_index
        for name, tables in self._metadata.vhosts.items():
            self._queues.vhosts[name] = VirtualHost(name)
            for record in tables.queues_in_order():
                self._start(record)

    def begin_life(self) -> None:
        """The metadata knows this life of the node: begin what that calls for (`beginnings`)."""
        self._repairs.life_begins()
        replayer = self._replayer
        doubtful = replayer is not None and len(replayer.doubts) > 0
        if replayer is not None:
            self._replayer = None
            forgetting = replayer.forgetting()
            if forgetting is not None:
                self._loop.do_in_parts(forgetting)
        if self._unsure:
            self._loop.do_in_parts(Furnishing(self, list(self._unsure.values())))
            self._unsure = {}
        self._cluster.begin(
            Beginning(
                self._loop,
                self._log,
                self._metadata,
                self._queues,
                self._cluster,
                self._copies,
                doubtful,
            )
        )

    def furnished(self) -> bool:
        """Whether every quorum queue that should have a copy on this node has one."""
        if self._queues.taking_over is not None:
            return False
        for group_id in self._lacking:
            if not self._repairs.halts(group_id):
                return False
        return True

    def live(self, group_id: int) -> LiveRuns:
        """Messages of a group that are needed, also where its queue is yet to be heard of."""
        queue = self._queues.logged.get(group_id)
        if queue is not None:
            return queue.gather_live()
        fifo = None if self._replayer is None else self._replayer.machines.get(group_id)
        return KnownRuns(NO_RUNS) if fifo is None else fifo.gather_live([], [])

    # --- as the metadata changes ----------------------------------------------------------------

    def created(self, record: QueueRecord) -> None:
        """A queue was declared."""
        if not self._queues.has(record):
            self._start(record)

    def deleted(self, record: QueueRecord) -> None:
        """A queue was deleted; one of its name that was declared since stays."""
        vhost = self._queues.vhosts.get(record.vhost)
        queue = None if vhost is None else vhost.queues.get(record.name)
        if vhost is not None and queue is not None and queue.group_id == record.group_id:
            del vhost.queues[queue.name]
            self._end(queue)

    def members_set(self, record: QueueRecord) -> None:
        """A queue's members should be others."""
        if not self.furnish(record):
            self._keep_copy(record)

    def furnish_known(self, record: QueueRecord) -> None:
        """Begin the copy that waited for the tables, if they name its queue still."""
        known = self._metadata.queue(record.vhost, record.name)
        if known is not None and known.group_id == record.group_id:
            self.furnish(known)

    def furnish(self, record: QueueRecord) -> bool:
        """Begin a quorum queue's copy that is to be on this node and is not; whether it was not."""
        if self._queues.taking_over is not None:
            self.see_to(record)
        lacking = self._lacks(self._queues.vhosts[record.vhost], record)
        if lacking:
            self._start(record)
        return lacking

    # --- metadata that came as a whole ----------------------------------------------------------

    def take_over(self) -> None:
        """Begin to start and stop queues as metadata that came as a whole demands.

        There may be a hundred thousand: `take_over_more` does it in parts, of which another such
        metadata may be the end. From here on clients find no queue that was not seen to.
        """
        for here in self._queues.vhosts.values():
            if len(here.queues) > 0:
                here.before.append(here.queues.move())
        for name in self._metadata.vhosts:
            self._queues.vhost(name)
        self._lots = self._metadata.queue_lots()
        self._records = []
        self._leaving = list(self._queues.vhosts.values())
        self._queues.taking_over = self

    def take_over_more(self, room: i64) -> bool:
        """See to so many queues; whether these were the last.

        Those that the metadata names come first: clients that hear that a queue is gone go on at
        once, with others.
        """
        while room > 0:
            before = WORK.steps
            if self._records:
                self.see_to(self._records.pop())
            elif self._lots:
                self._records = queues_of(self._lots.popleft())
                self._records.reverse()
                continue
            else:
                queue = self._next_gone()
                if queue is None:
                    self._queues.taking_over = None
                    return True
                self._end(queue)
            room -= 1 + (WORK.steps - before) // CHANGE_STEPS
        return False

    def see_to(self, record: QueueRecord) -> None:
        """Have a queue be here as the metadata says, whether it was here before or not."""
        vhost = self._queues.vhost(record.vhost)
        before = vhost.take_before(record.name)
        if before is not None:
            if before.group_id == record.group_id:
                vhost.queues[record.name] = before
            else:
                self._gone.append(before)
        if self._lacks(vhost, record):
            self._start(record)
            return
        self._keep_copy(record)
        queue: Queue | None = self._queues.logged.get(int(record.group_id))
        if queue is None:
            queue = vhost.queues.get(record.name)
        if queue is not None:
            self._policies.tell_all(queue, record)
        member = self._cluster.members.get(int(record.group_id))
        if member is not None:
            self._cluster.members_changed(member)

    def _next_gone(self) -> Queue | None:
        """Take out a queue that the metadata does not name; None if there is none left."""
        if self._gone:
            return self._gone.pop()
        while self._leaving:
            here = self._leaving[-1]
            while here.before:
                entry = here.before[-1].take_any()
                if entry is not None:
                    return entry[1]
                here.before.pop()
            self._leaving.pop()
        return None

    # --- copies of quorum queues ----------------------------------------------------------------

    def _lacks(self, vhost: VirtualHost, record: QueueRecord) -> bool:
        """Whether a queue is not here, or a quorum queue only as one that has no member here."""
        if not record.type.replicated:
            return record.name not in vhost.queues
        if int(record.group_id) in self._queues.logged:
            return False
        if self._queues.is_elsewhere(record):
            # Metadata that came as a whole may not have named the queue before.
            return self._has_left_over(record)
        return record.name not in vhost.queues or self._copies.here(record) is not None

    def _has_left_over(self, record: QueueRecord) -> bool:
        """Whether the log holds a copy that is to go, and that its group may still count."""
        replayer = self._replayer
        if replayer is None or self._begins_anew:
            return False
        recovered = replayer.groups.get(int(record.group_id))
        return recovered is not None and not recovered.is_empty()

    def _keep_copy(self, record: QueueRecord) -> None:
        """Hold what there is of a quorum queue here against the metadata."""
        if not record.type.replicated:
            return
        self._observers.changed(record)
        if self._queues.is_elsewhere(record):
            if int(record.group_id) in self._queues.logged:
                self._copies.leave_later(record)
            else:
                self._forget_proxy(record)
        else:
            self._copies.replace(record)
        self._note_copy(record)

    def _note_copy(self, record: QueueRecord) -> None:
        """Remember whether a quorum queue lacks its copy here; its members may be others."""
        group_id = int(record.group_id)
        if self._queues.is_elsewhere(record):
            self._lacking.pop(group_id, None)
        elif self._copies.here(record) is None:
            self._lacking[group_id] = None
        elif not self._may_be_gone(record):
            self._lacking.pop(group_id, None)
        else:
            # It may have been lacking for another reason: the tables named the copy of a disk that
            # was lost, before they named this one.
            self._lacking[group_id] = None
            self._unsure[group_id] = record

    def _may_be_gone(self, record: QueueRecord) -> bool:
        """Whether the log has nothing of a copy, and the tables are older than the log.

        They may name a queue whose copy went with it. One that began anew, empty, could lead others
        like it, and contradict those that have not heard of the end.
        """
        replayer = self._replayer
        return (
            replayer is not None
            and self._metadata.applied_index < self._tables_known
            and int(record.group_id) not in replayer.groups
        )

    def _forget_proxy(self, record: QueueRecord) -> None:
        """What stood for a copy that was to come refuses; the queue is observed from now on."""
        queues = self._queues.vhosts[record.vhost].queues
        queue = queues.get(record.name)
        if queue is not None and self._observers.queue(record.group_id) is None:
            del queues[record.name]
            self._metadata.vhosts[record.vhost].router.generation += 1

    # --- queues ---------------------------------------------------------------------------------

    def _start(self, record: QueueRecord) -> None:
        """Create a queue's object, with the machine that the log replayed if there was one."""
        elsewhere = self._queues.is_elsewhere(record)
        if elsewhere and not self._has_left_over(record):
            return
        queue: Queue
        remotes = self._remotes
        halted = self._repairs.halts(int(record.group_id))
        served = False
        if record.type.replicated:
            if elsewhere:
                self._copies.leave_later(record)
                queue = self._started(self._copies.start(record, self._replayer, None))
            elif self._copies.here(record) is None or self._may_be_gone(record):
                # It is used by its member here, and refuses until there is one.
                queue = self._proxy(record, remotes.no_line(record.node))
            else:
                used = self._observers.queue(record.group_id)
                queue = self._copies.start(record, self._replayer, used)
                self._started(self._queues.logged[int(record.group_id)])
            self._note_copy(record)
        elif record.node != self._node_name:
            proxy = self._proxy(record, remotes.line(record.node))
            if not halted:
                remotes.fronts(proxy)
            queue = proxy
        elif halted:
            # It refuses, too: its log is damaged.
            queue = self._proxy(record, remotes.no_line(record.node))
        elif not record.durable:
            queue = TransientQueue(self._loop, record.vhost, record.name)
            queue.group_id = record.group_id
            served = True
        else:
            queue = self._started(self._start_classic(record, self._replayer))
            served = True
        queue.auto_delete = record.auto_delete
        vhost = self._queues.vhost(record.vhost)
        if record.name in vhost.queues:
            # A quorum queue came to this node: what routes remember is not it.
            self._metadata.vhosts[record.vhost].router.generation += 1
        vhost.queues[record.name] = queue
        if served or not record.type.replicated:
            self._policies.tell(queue, record)
        if served:
            remotes.started(queue)
        elif halted and not record.type.replicated:
            remotes.halt(queue)

    def _started(self, queue: LoggedQueue) -> LoggedQueue:
        """See to a queue that has a group in the log, and may have been there before."""
        queue.mind_leases()
        self._repairs.started(queue)
        return queue

    def _proxy(self, record: QueueRecord, line: Line) -> ProxyQueue:
        """Stands for a queue that is not here."""
        queue = ProxyQueue(self._loop, record.vhost, record.name, record.type, record.durable, line)
        queue.group_id = record.group_id
        return queue

    def _start_classic(self, record: QueueRecord, replayer: NodeReplayer | None) -> LoggedQueue:
        group_id = int(record.group_id)
        fifo = None if replayer is None else replayer.machines.get(group_id)
        group = self._log.group(group_id)
        queue = ClassicQueue(
            self._loop, record.vhost, record.name, group, Fifo(-1, True) if fifo is None else fifo
        )
        group.owner = queue
        self._queues.logged[group_id] = queue
        if replayer is not None and fifo is not None:
            queue.seen_messages, queue.seen_bytes = replayer.seen.get(group_id, (0, 0))
            queue.recovered(replayer.clean.get(group_id, False))
        else:
            queue.set_max_priority(max_priority(record.arguments))
            queue.configure()
        return queue

    def _end(self, queue: Queue) -> None:
        """Stop a queue that is found by its name no more; its clients hear of that."""
        group_id = int(queue.group_id)
        self._lacking.pop(group_id, None)
        queue.seal()
        queue.close()
        self._timers.forget(queue)
        unfit = self._repairs.begun(group_id)
        self._remotes.stopped(queue)
        observer = self._observers.end(queue.group_id)
        if observer is not None:
            observer.stop()
        if self._queues.logged.pop(group_id) is not None or unfit:
            self._cluster.remove(i64(group_id))
            self._log.drop(group_id)
            self._loop.appended(True)


@final
class Furnishing(Work):
    """Copies begin that waited until the tables knew this life of the node, some each turn."""

    def __init__(self, hosting: QueueHosting, records: list[QueueRecord]) -> None:
        self._hosting: QueueHosting = hosting
        self._records: list[QueueRecord] = records

    def go_on(self) -> bool:
        """Begin some of them."""
        for _ in range(min(len(self._records), TURN_MEMBERS_MAX)):
            self._hosting.furnish_known(self._records.pop())
        return not self._records
