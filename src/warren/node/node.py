"""One node, synchronous: connections, queues, the log and the cluster's tables, composed.

Driven by events from outside: bytes of a client, finished jobs of the log, ticks. What an event
stirs up is gathered and done once in `turn`: queues make record batches, the log starts its write,
deliveries and confirms are written, outputs are flushed. No clock, socket, thread or file of its
own; see `warren.ports`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.errors import NOT_ALLOWED, CorruptRecord, Refusal
from warren.limits import (
    ASSEMBLY_SHARE,
    INPUT_ALONE_BYTES,
    INPUT_SHARE_BYTES_MIN,
    NODE_ASSEMBLY_BYTES_MAX,
    TURN_CONNECTIONS_MAX,
    TURN_INPUT_BYTES,
)
from warren.log.batch import Batch
from warren.log.log import Log
from warren.metadata.grants import TokenVerifier, like_token
from warren.metadata.machine import MetadataMachine
from warren.metadata.permissions import IMPERSONATOR
from warren.node.alarms import NodeAlarms
from warren.node.announcing import Announcer
from warren.node.cluster.dispatch import Cluster
from warren.node.cluster.links import NoPeers
from warren.node.cluster.membership import Membership
from warren.node.cluster.observers import Observers
from warren.node.cluster.parts import NodeParts
from warren.node.cluster.queue_members import QueueMembers
from warren.node.cluster.reconcile import Reconciler
from warren.node.cluster.stranded import StrandedGroups
from warren.node.copies import Copies
from warren.node.dead_letters import DeadLetterWorker
from warren.node.direct_replies import DirectReplyLinks
from warren.node.due_snapshots import DueSnapshots
from warren.node.events import NodeEvents
from warren.node.evictions import Evictions
from warren.node.feeds import EventFeeds
from warren.node.firehose import Firehose
from warren.node.freshness import Freshness
from warren.node.histories import Histories
from warren.node.hosting import QueueHosting
from warren.node.identities import Counter
from warren.node.log_listener import NodeLogListener
from warren.node.logins import Logins
from warren.node.loop import Loop
from warren.node.own_messages import OwnMessages
from warren.node.placing import Placing
from warren.node.policies import QueuePolicies
from warren.node.queues import LocalQueues
from warren.node.reactions import Reactions
from warren.node.relief import Relief
from warren.node.remote.proxying import Remotes
from warren.node.removals import QueueRemovals
from warren.node.repairs import Repairs
from warren.node.replay import NodeReplayer
from warren.node.small_works import SmallWorks
from warren.node.store import MetadataStore
from warren.node.timers import ConnectionTimers, QueueTimers
from warren.node.usage import Usage
from warren.node.vhosts import NodeVhosts
from warren.ports import Clock, Disk, Executor, Peers, Random, Work
from warren.protocols.broker import (
    ALARM_DISK,
    ALARM_MEMORY,
    Login,
    LoginListener,
    Settings,
)
from warren.protocols.client import ClientConnection, EndOfTurn
from warren.protocols.facts import ConsumerFacts
from warren.protocols.output import Output
from warren.queues.dead_letters import DeadLettering
from warren.queues.forwarding import Forwarding
from warren.queues.paging import Pages
from warren.queues.queue import Queue
from warren.queues.traffic import Traffic
from warren.raft.state import Options
from warren.turn_budget import TurnBudget
from warren.vhost.handle import VhostHandle
from warren.vhost.pending import Resumable

NONCE_BYTES: Final = 16
NS_PER_MS: Final = 1_000_000
DEFERRING_MIN: Final = 16
"""Queues that log what they kept together, at least."""
DEFERRING_PARTS: Final = 8
"""Where many queues keep something, so large a part of them logs it at a time: an entry costs the
node much the same whatever is in it, and more gathers for each in 40 ms than in 5."""
STOP_MS_MIN: Final = 1_500
"""More between two ticks is a stop of this node, which says nothing of its clients."""


def not_contained(text: str, error: Exception) -> None:
    """Let an error end the node that would end one connection: nothing may hide it in a test."""
    raise error


@final
class Node(Loop):
    """A broker node, to which events from outside are told and which acts on them in turns.

    Attributes:
        needs_turn: Whether something waits for `turn`.
        deferring: Whether entries that no client waits for are not on their way to disk yet; they
            go with the next that one does wait for, or with `flush_deferred`.
        tokens: Sees what tokens say that clients log in by; None where they do not.
        failure: Why the node has to stop, or None; nothing is confirmed once it is set.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        random: Random,
        disk: Disk,
        executor: Executor,
        warn: Callable[[str], None],
        peers: Peers | None = None,
        contain: Callable[[str, Exception], None] = not_contained,
    ) -> None:
        """Prepare.

        Args:
            warn: Writes a line to the node's log.
            contain: Writes an error to it that ends one connection, with what ends.
        """
        self.settings = settings
        self.traffic = Traffic()
        self.tokens: TokenVerifier | None = None
        self.needs_turn = False
        self.turn_planned: bool = False
        self.deferring: bool = False
        self.failure: BaseException | None = None
        self.assembled_bytes = 0
        self.assembly_bytes_max = assembly_max(settings)
        self.turn_number = 0
        self._accepted = 0
        """Clients that have connected; no two of a life have the same number."""
        self.inputs = 0
        self.input_share = INPUT_ALONE_BYTES
        self.budget = TurnBudget()
        self._sharing: i64 = 0
        """How many connections bring input in a turn, of late."""
        self.random: Random = random
        settings.log.salt = int.from_bytes(random.bytes(8), "big") >> 1
        self.log: Log = Log(disk, executor, settings.log, NodeLogListener(self))
        self.commands_soft_limit = settings.commands_soft_limit
        self.part_runs = settings.part_runs
        self.pages = Pages(disk, executor, warn)
        self.uid: bytes = settings.node_uid
        drawn = random.bytes(NONCE_BYTES)
        self.nonce: bytes = settings.life or drawn
        self._wall_ns: Callable[[], int] = clock.wall_ns
        self._monotonic_ns: Callable[[], int] = clock.monotonic_ns
        self.metadata: MetadataMachine = MetadataMachine(settings.node_name)
        self.queues: LocalQueues = LocalQueues(self.metadata, settings.node_name)
        self.cluster: Cluster = Cluster(
            self,
            random,
            self.log,
            self.metadata,
            NoPeers() if peers is None else peers,
            Options(),
        )
        self.store: MetadataStore = MetadataStore(
            self, self.log, random, self.metadata, self.cluster
        )
        self._logins: Logins = Logins(
            executor, self._monotonic_ns, random, self.store, self.metadata, settings
        )
        self.announcer: Announcer = Announcer(
            self, random, self.uid, self.nonce, self.metadata, self.store, self.cluster
        )
        self.placing: Placing = Placing(
            self, random, self.metadata, self.store, self.queues, self.cluster
        )
        self.removals: QueueRemovals = QueueRemovals(self.metadata, self.store)
        self.timers: QueueTimers = QueueTimers()
        self.freshness: Freshness = Freshness(self, self.store)
        self.policies: QueuePolicies = QueuePolicies(self, self.metadata, self.freshness)
        self.remotes: Remotes = Remotes(self, self.metadata, self.queues, self.cluster)
        self.membership: Membership = Membership(
            self,
            self.log,
            self.uid,
            self.nonce,
            self.metadata,
            self.store,
            self.freshness,
            self.placing,
            self.cluster,
        )
        self.observers: Observers = Observers(
            self, self.log, self.metadata, self.queues, self.policies, self.cluster
        )
        self.queue_members: QueueMembers = QueueMembers(
            self, self.metadata, self.store, self.cluster, self.observers
        )
        self.reconciler: Reconciler = Reconciler(
            self,
            random,
            self.metadata,
            self.store,
            self.queues,
            self.placing,
            self.cluster,
            self.queue_members,
        )
        self.repairs: Repairs = Repairs(
            self,
            self.log,
            self.metadata,
            self.queues,
            self.store,
            self.placing,
            self.cluster,
            self.queue_members,
        )
        self.copies: Copies = Copies(
            self,
            self.log,
            self.metadata,
            self.queues,
            self.cluster,
            self.observers,
            self.queue_members,
            self.policies,
            self.repairs,
            self.uid,
        )
        self.hosting: QueueHosting = QueueHosting(
            self,
            self.log,
            self.metadata,
            self.queues,
            self.cluster,
            self.observers,
            self.copies,
            self.repairs,
            self.remotes,
            self.policies,
            self.timers,
        )
        self.usage: Usage = Usage(self.metadata, self.cluster)
        self.direct_replies: DirectReplyLinks = DirectReplyLinks(self, self.metadata, self.cluster)
        self.vhosts: NodeVhosts = NodeVhosts(
            self,
            self.metadata,
            self.store,
            self.queues,
            self.placing,
            self.removals,
            self.observers,
            self.queue_members,
            self.repairs,
            self.usage,
            Histories(self, self.metadata, self.store),
            self.direct_replies,
            random,
            settings.node_name,
            settings.max_message_bytes,
        )
        self.direct_replies.wire(self.vhosts)
        self.vhosts.budget = self.budget
        self.vhosts.consumer_timeout_ms = settings.consumer_timeout_ms
        self.vhosts.default_queue_type = settings.default_queue_type
        self.vhosts.relaxed_declares = settings.relaxed_declares
        self.own_messages: OwnMessages = OwnMessages(self, self.metadata, self.queues, self.vhosts)
        self.firehose: Firehose = Firehose(self, self.own_messages)
        self.vhosts.wire(self.firehose)
        self.feeds: EventFeeds = EventFeeds(self, self.metadata, self.cluster, self.own_messages)
        self.policies.wire(self.feeds)
        self.events: NodeEvents = NodeEvents(self, self.metadata, self.own_messages, self.feeds)
        self.dead_letters: DeadLetterWorker = DeadLetterWorker(
            self, self.metadata, self.queues, self.vhosts, self.remotes, self.store
        )
        self.stranded: StrandedGroups = StrandedGroups(
            self, self.metadata, self.queues, self.cluster, self.repairs
        )
        self.cluster.wire(
            NodeParts(
                self.queues,
                self.copies,
                self.observers,
                self.repairs,
                self.remotes,
                self.removals,
                self.announcer,
                self.membership,
                self.queue_members,
                self.reconciler,
                self.usage,
                self.direct_replies,
                self.stranded,
            )
        )
        self.queue_members.wire(self.copies, self.repairs)
        self.repairs.wire(self.hosting)
        self.store.wire(
            Reactions(
                self,
                random,
                self.nonce,
                self.metadata,
                self.store,
                self.queues,
                self.hosting,
                self.policies,
                self.cluster,
                self.membership,
                self.reconciler,
                self.announcer,
                Evictions(self),
                self.usage,
                self.vhosts,
            ),
            self.events,
        )
        self.connections = {}
        self._pulses: ConnectionTimers = ConnectionTimers()
        self._pulses_due: bool = False
        """Whether more were due than one turn looks at."""
        self._warn: Callable[[str], None] = warn
        self._contain: Callable[[str, Exception], None] = contain
        self._now_ms: int = clock.wall_ns() // NS_PER_MS
        self._in_turn: bool = False
        self._closing: dict[int, ClientConnection] = {}
        self._dirty_queues: list[Queue] = []
        self._dirty_outputs: list[Output] = []
        self._confirming: list[EndOfTurn] = []
        self._waking: dict[EndOfTurn, None] = {}
        self._going_on: list[Resumable] = []
        self._going_last: list[Resumable] = []
        """Those of them that used up what others are to have first."""
        self._works: deque[Work] = deque()
        self._small_works: SmallWorks = SmallWorks(self)
        self._spent_outputs: list[Output] = []
        self.due_snapshots: DueSnapshots = DueSnapshots(self.store, self.queues)
        self._congested: dict[Queue, None] = {}
        self._to_tick: deque[ClientConnection] = deque()
        """Connections whose timers are still to be looked at in this second."""
        self._deferring: list[Queue] = []
        self._appended_urgent: bool = False
        self._ticked_ms: int = self.monotonic_ms()
        self._alarms: NodeAlarms = NodeAlarms(self, self.vhosts, self.events, self.cluster.disks)
        self._relief: Relief = Relief(self)
        self._identities: Counter = Counter("connections")

    # Life.

    def recover(self) -> None:
        """Bring back what the disk holds; before the first connection.

        Raises:
            CorruptRecord: The data directory is damaged; nothing in it was changed.
            StorageError: It cannot be used; nothing in it was changed.
        """
        settings = self.settings
        replayer = NodeReplayer(settings.node_name, settings.salvage, len(settings.former_uid) > 0)
        self.log.recover(replayer)
        if self.pages is not None:
            self.pages.clear()
        self.repairs.take(replayer)
        self.announcer.first_round = self.log.round_number
        self.store.recover(replayer)
        self.hosting.recover(replayer)
        self.store.start()
        self.turn()

    @property
    def ready(self) -> bool:
        """Whether clients may come.

        The cluster has to know this life of the node, its first user has to be there, every quorum
        queue has to have a copy here, through which it is used, and what consumers of the life
        before held has to be back in its queues.
        """
        return (
            self.cluster.session > 0
            and self.store.in_force
            and self.hosting.furnished()
            and self.cluster.taken_over()
        )

    def accept(self, connection: ClientConnection) -> None:
        """Look after a client that connected; before the node is `ready` it can declare nothing."""
        self._accepted += 1
        connection.number = self._accepted
        self.connections[id(connection)] = connection

    def turn(self) -> None:
        """Do what events since the last turn have stirred up."""
        self.needs_turn = False
        self.turn_number += 1
        self._share_input()
        self.budget.begin_turn()
        self._now_ms = self._wall_ns() // NS_PER_MS
        self._in_turn = True
        if self._going_on or self._going_last:
            going_on = self._going_on + self._going_last
            self._going_on = []
            self._going_last = []
            for channel in going_on:
                try:
                    channel.go_on()
                except Exception as error:
                    channel.failed(error)
        if self._spent_outputs:
            spent = self._spent_outputs
            self._spent_outputs = []
            for output in spent:
                try:
                    output.go_on()
                except Exception as error:
                    output.failed(error)
        if self._works:
            work = self._works.popleft()
            try:
                done = work.go_on()
            except Exception as error:
                work.failed(error)
                done = True
            if not done:
                self._works.append(work)
        if self.timers.more or self.timers.behind():
            self.timers.go_on(self.monotonic_ms())
        self._serve_queues()
        self.cluster.go_on()
        self.cluster.work()
        if self.cluster.disks.crowded():
            self.cluster.disks.look()
        if self._congested:
            self._relieve()
        if self.due_snapshots.groups:
            self.due_snapshots.write()
            # No client waits for one.
            self.deferring = True
        if self._to_tick:
            self._tick_connections()
        if self._pulses_due:
            self._pulse()
        if self.log.has_work:
            self.log.go_on()
        if self._appended_urgent:
            self._flush_log()
            # A brief write may be durable already: what it brought goes out in this turn.
            self._serve_queues()
        if self._confirming:
            confirming = self._confirming
            self._confirming = []
            for channel in confirming:
                try:
                    channel.write_confirms()
                except Exception as error:
                    channel.failed(error)
        if self._dirty_outputs:
            outputs = self._dirty_outputs
            self._dirty_outputs = []
            # Confirms were written last: who waits for one publishes while deliveries go out.
            for output in reversed(outputs):
                try:
                    output.end_turn()
                except Exception as error:
                    output.failed(error)
        self.remotes.work()
        if self.usage.untold:
            self.usage.tell()
        self.cluster.peers.flush()
        self._in_turn = False
        # What is left came up behind its place in this turn.
        self.needs_turn = (
            self._passes_on()
            or len(self._works) > 0
            or len(self.due_snapshots.groups) > 0
            or len(self._to_tick) > 0
            or self._pulses_due
            or self.timers.more
            or self.cluster.has_work
            or self.log.has_work
        )

    def messages_wait(self) -> bool:
        """Whether the next turn has something of clients to pass on, and not its own work only."""
        return self.inputs > 0 or self._passes_on()

    def _passes_on(self) -> bool:
        """Whether there is something of clients to pass on that has come this far."""
        return (
            len(self._dirty_queues) > 0
            or len(self._going_on) > 0
            or len(self._going_last) > 0
            or len(self._spent_outputs) > 0
            or len(self._dirty_outputs) > 0
            or len(self._confirming) > 0
            or self._appended_urgent
        )

    def _share_input(self) -> None:
        """Say how much input the next turn takes of one connection, from how many brought some."""
        sharing = max(self.inputs, self._sharing * 3 // 4)
        self._sharing = sharing
        self.inputs = 0
        if sharing > 1:
            self.input_share = max(INPUT_SHARE_BYTES_MIN, TURN_INPUT_BYTES // sharing)
        else:
            self.input_share = INPUT_ALONE_BYTES

    def _serve_queues(self) -> None:
        """Seal what queues gathered, and pass on what they hand out."""
        queues = self._dirty_queues
        if not queues and not self._waking:
            return
        self._dirty_queues = []
        for queue in queues:
            queue.dirty = False
            queue.seal()
        if self._waking:
            waking = self._waking
            self._waking = {}
            for channel in waking:
                try:
                    channel.wake_consumers()
                except Exception as error:
                    channel.failed(error)
            # Which of a channel's queues has its turn first, it is for the channel to say.
            for queue in list(self._dirty_queues):
                queue.dispatch()
        for queue in queues:
            queue.dispatch()

    def flush_deferred(self) -> None:
        """Log what no client waited for; called a moment after `deferring` was seen."""
        if self.deferring:
            self._flush_queues()
            self._flush_log()

    def tick_log(self) -> None:
        """Let the log look after its files; called some times a second."""
        self._pulse()
        self.cluster.tick()
        self.timers.tick(self.monotonic_ms())
        self.feeds.tick()
        self._logins.tick()
        self.log.tick(self.monotonic_ms())
        self._flush_queues()
        self._flush_log()
        self.needs_turn = True

    def at_rest(self, ms: i64) -> bool:
        """Whether for so long only what comes from outside can give this node something to do."""
        until = self.monotonic_ms() + ms
        return (
            len(self.metadata.nodes) == 1
            and self.log.idle
            and self.cluster.at_rest()
            and not (self._congested or self._deferring or self.feeds.waiting())
            and not self._logins.waiting()
            and not (self.timers.any_before(until) or self._pulses.any_before(until))
        )

    def weigh(self, memory_bytes: int) -> None:
        """Raise or clear the alarm of memory by what this process uses."""
        limit = self.settings.memory_limit_bytes
        self.assembly_bytes_max = assembly_max(self.settings)
        if limit:
            self._alarms.set(ALARM_MEMORY, memory_bytes > limit)

    def tick(self, memory_bytes: int) -> None:
        """Mind time; called about once a second with the memory this process uses."""
        now = self.monotonic_ms()
        if now - self._ticked_ms > STOP_MS_MIN:
            for connection in list(self.connections.values()):
                connection.excuse()
        self._ticked_ms = now
        self.weigh(memory_bytes)
        self._relief.tick(now, memory_bytes)
        self.store.room.count_anew()
        paging = self.settings.paging_limit_bytes()
        if paging and self.pages is not None and not self._alarms.own & ALARM_DISK:
            self.pages.tick(memory_bytes - paging)
        if not self._to_tick:
            self._to_tick.extend(self.connections.values())
            self._tick_connections()
        self.queues.expire_leases(now)
        self.announcer.again()
        self.dead_letters.tick()
        for queue in list(self._congested):
            queue.look_after()
        self.needs_turn = True

    def _tick_connections(self) -> None:
        """Let some of the connections mind their time, in the order of `_to_tick`."""
        now = self.monotonic_ms()
        for _ in range(min(len(self._to_tick), TURN_CONNECTIONS_MAX)):
            connection = self._to_tick.popleft()
            if id(connection) in self.connections:
                try:
                    connection.tick(now)
                except Exception as error:
                    connection.failed(error)

    def shut_down(self) -> None:
        """Tell all clients; `close` follows when their sockets had a moment to drain."""
        for connection in list(self.connections.values()):
            connection.shut_down("broker forced connection closure with reason 'shutdown'")

    def prepare_close(self) -> None:
        """Write everything down for an orderly end; `close` follows when the disk is done."""
        for connection in list(self.connections.values()) + list(self._closing.values()):
            try:
                connection.lost()
            except Exception as error:
                connection.failed(error)
        self.remotes.shut_down()
        while self._deferring:
            self._flush_queues()
        self.turn()
        if self.feeds.waiting():
            self.feeds.flush()
            self.turn()
        self.queues.write_clean_snapshots()
        self.log.wind_down()

    def close(self) -> None:
        """Close the log; nothing may be in flight."""
        self.log.close()

    # For queues and channels.

    def queue_dirty(self, queue: Queue) -> None:
        """Have a queue sealed and dispatched in this turn."""
        self._dirty_queues.append(queue)
        self.budget.add_queue()
        self.needs_turn = True

    def appended(self, urgent: bool) -> None:
        """A queue appended to the log."""
        if urgent:
            self._appended_urgent = True
        else:
            self.deferring = True

    def queue_defers(self, queue: Queue) -> None:
        """Have a queue log, a moment later, settles that no client waits for."""
        self.deferring = True
        if not queue.deferring:
            queue.deferring = True
            self._deferring.append(queue)

    def _flush_queues(self) -> None:
        """Have queues log what they kept; where they are many, a part of them, the first ones."""
        deferring = self._deferring
        most = max(DEFERRING_MIN, len(deferring) // DEFERRING_PARTS)
        queues = deferring[:most]
        self._deferring = deferring[most:]
        for queue in queues:
            queue.deferring = False
            queue.flush()

    def queue_congested(self, queue: Queue) -> None:
        """Publishers wait for a queue."""
        self._congested[queue] = None

    def queue_leased(self, queue: Queue) -> None:
        """Mind the leases of readers."""
        self.queues.leased(queue)

    def next_barrier(self) -> i64:
        """The number of the first barrier that is yet to be asked for."""
        return self.freshness.next_barrier()

    def tables_known(self, barrier: i64, queue: Queue) -> bool:
        """Whether the tables here are as new as a queue's leader has to have them."""
        return self.freshness.known(barrier, queue)

    def queue_later(self, queue: Queue, in_ms: i64) -> None:
        """Call a queue's `due` a while later."""
        self.timers.plan(queue, self.monotonic_ms() + in_ms)

    def queue_unused(self, queue: Queue) -> None:
        """Delete an auto-delete queue that lost its last consumer (PROP-04), or an expired one."""
        self.removals.delete_unused(queue)

    def queue_left(self, queue: Queue) -> None:
        """Find out whether an auto-delete queue of another node lost its last consumer here."""
        self.removals.left(queue)

    def dead_letter_confirmed(self, queue: Queue) -> None:
        """Count a dead letter that is where it belongs."""
        self.traffic.of_deaths(queue.type, True).confirmed += 1

    def queue_dead_letters(self, dead_lettering: DeadLettering) -> None:
        """Have a queue's dead letters routed in a later turn."""
        self.dead_letters.add(dead_lettering)

    def queue_forwards(self, forwarding: Forwarding) -> None:
        """The same of those that stay in their queue until they are confirmed."""
        self.dead_letters.add_kept(forwarding)

    def queue_damaged(self, queue: Queue, error: BaseException) -> None:
        """Mind that messages of a queue cannot be read from the disk of this node."""
        self.repairs.queue_damaged(queue, error)

    def queue_lost(self, queue: Queue, lost: list[tuple[int, int]], error: CorruptRecord) -> None:
        """Say that a queue goes on without messages."""
        self.repairs.say_gone(queue, lost, error)

    def queue_stalled(self, queue: Queue) -> None:
        """Have a queue read again a while later."""
        self.repairs.stalled.append(queue)

    def now_ms(self) -> int:
        """Wall time as of this turn, in milliseconds since the epoch; between turns that of now.

        A node at rest, or one that was stopped, had its last turn long before the event at hand.
        """
        if not self._in_turn:
            self._now_ms = self._wall_ns() // NS_PER_MS
        return self._now_ms

    def wall_ms(self) -> int:
        """Wall time, in milliseconds since the epoch, which may be after that of the turn."""
        return self._wall_ns() // NS_PER_MS

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start."""
        return self._monotonic_ns() // NS_PER_MS

    def output_dirty(self, output: Output) -> None:
        """Have an output flushed in this turn."""
        self._dirty_outputs.append(output)
        self.needs_turn = True

    def output_spent(self, output: Output) -> None:
        """Have an output's links go on in the next turn."""
        self._spent_outputs.append(output)
        self.needs_turn = True

    def confirm_later(self, channel: EndOfTurn) -> None:
        """Have a channel write its confirms in this turn."""
        self._confirming.append(channel)
        self.needs_turn = True

    def go_on_later(self, channel: Resumable, spent: bool = False) -> None:
        """Have a channel go on in the next turn, behind the others if it spent much."""
        if spent:
            self._going_last.append(channel)
        else:
            self._going_on.append(channel)
        self.needs_turn = True

    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on: of all that is long, one part a turn."""
        self._works.append(work)
        self.needs_turn = True

    def do_small(self, work: Work) -> None:
        """Have something done from the next turn on that pays for its steps."""
        self._small_works.add(work)

    def wake_later(self, channel: EndOfTurn) -> None:
        """Have a channel's consumers looked at when settles have been applied."""
        self._waking[channel] = None
        self.needs_turn = True

    # For connections.

    def login_waits(self, user: str, password: str, host: str, listener: LoginListener) -> bool:
        """Whether it takes a while until a password may be answered."""
        tokens = self.tokens
        if tokens is not None and (tokens.alone or like_token(password)):
            return False
        secret = password.encode("utf-8", "surrogateescape")
        return self._logins.wait(user, secret, host, listener)

    def login(self, user: str, password: str, host: str) -> Login | None:
        """Check name and password, and from where a loopback-only user comes."""
        tokens = self.tokens
        if tokens is not None and (tokens.alone or like_token(password)):
            grants = tokens.verify(password)
            return None if grants is None else Login(grants.user, host, grants)
        secret = password.encode("utf-8", "surrogateescape")
        # The setting of today counts, and not the one with which the user was made.
        if not self._may_come_from(user, host):
            return None
        record = self.store.authority.authenticate(user, secret, True)
        return None if record is None else Login(user, host)

    def login_tried(self, connection: ClientConnection, user: str, problem: str) -> None:
        """Tell of a client that said who it is."""
        if self.events.on():
            self.events.login(connection.facts(), user, problem)

    def renew_login(self, login: Login, secret: str, vhost: str) -> bool:
        """Let a client go on by another token in its vhost."""
        grants = login.grants
        if grants is None:
            return True
        renewed = None if self.tokens is None else self.tokens.verify(secret)
        if renewed is None or renewed.user != login.user:
            return False
        renewed.check_vhost(vhost)
        grants.renew(renewed)
        return True

    def login_certified(self, user: str, host: str) -> Login | None:
        """Check that there is a user, whom a certificate names, and from where it comes."""
        if not self._may_come_from(user, host) or user not in self.metadata.users:
            return None
        return Login(user, host)

    def _may_come_from(self, user: str, host: str) -> bool:
        if user not in self.settings.loopback_users or is_loopback(host):
            return True
        self._warn(
            f"user '{user}' may connect from this machine only, not from {host}, unless "
            f"loopback_users.{user} = false is set"
        )
        return False

    def open_vhost(self, login: Login, vhost: str) -> VhostHandle:
        """Give a logged-in client its vhost."""
        most = self.settings.connections_max
        if 0 <= most < len(self.connections):
            text = f"connection refused: node connection limit ({most}) is reached"
            raise Refusal(NOT_ALLOWED, text)
        authority = self.store.authority
        authority.vhost(vhost)
        self.usage.check_connection(login.user, vhost)
        grants = login.grants
        if grants is None:
            authority.check_vhost(login.user, vhost)
            user = self.metadata.users.get(login.user)
            impersonates = user is not None and IMPERSONATOR in user.tags
        else:
            grants.check_vhost(vhost)
            impersonates = IMPERSONATOR in grants.tags
        identity = self._identities.take(self.cluster.session)
        self.usage.connected(login.user, vhost, 1)
        self.traffic.connections_opened += 1
        return VhostHandle(
            self.vhosts,
            vhost,
            self.metadata.vhosts[vhost].router,
            self.queues.vhosts[vhost].queues,
            login.user,
            identity,
            impersonates,
            grants=grants,
        )

    def pulse_later(self, connection: ClientConnection, at_ms: int) -> None:
        """Have a connection see to what is due at a time."""
        self._pulses.plan(id(connection), at_ms)

    def _pulse(self) -> None:
        """Let connections see to what is due, some of them; another turn goes on."""
        now = self.monotonic_ms()
        pulses = self._pulses
        left: i64 = TURN_CONNECTIONS_MAX
        while left > 0:
            identity = pulses.take(now)
            if identity == 0:
                break
            left -= 1
            connection = self.connections.get(identity) or self._closing.get(identity)
            if connection is not None:
                try:
                    connection.pulse(now)
                except Exception as error:
                    connection.failed(error)
        self._pulses_due = left == 0

    def connection_closed(self, connection: ClientConnection) -> None:
        """Forget a connection."""
        known = self.connections.pop(id(connection), None)
        self._closing.pop(id(connection), None)
        if known is not None and self.events.on():
            self.events.connection(
                "connection.closed", connection.facts(), connection.user, connection.vhost
            )
        if known is not None and connection.vhost:
            # A closed one that waits for its client's answer comes here once more.
            self.traffic.connections_closed += 1

    def connection_opened(self, connection: ClientConnection) -> None:
        """Tell of a connection, which may be used now."""
        if self.events.on():
            self.events.connection(
                "connection.created", connection.facts(), connection.user, connection.vhost
            )

    def channel_changed(self, connection: ClientConnection, number: i64, opened: bool) -> None:
        """Tell of a channel that was opened or closed."""
        if self.events.on():
            key = "channel.created" if opened else "channel.closed"
            name = connection.name()
            self.events.channel(key, name, number, connection.user, connection.vhost)

    def consumer_changed(
        self, connection: ClientConnection, channel: i64, consumer: ConsumerFacts, begun: bool
    ) -> None:
        """Tell of a consumer that has begun or is gone."""
        if self.events.on():
            name = connection.name()
            self.events.consumer(name, channel, consumer, connection.user, connection.vhost, begun)

    def connection_closing(self, connection: ClientConnection) -> None:
        """Keep a connection until its client answers."""
        self._closing[id(connection)] = connection

    def shed_assembly(self, limit: int = -1) -> bool:
        """Refuse something of the connection that has most of what no queue has."""
        worst: ClientConnection | None = None
        for connection in list(self.connections.values()):
            if worst is None or connection.assembled_bytes > worst.assembled_bytes:
                worst = connection
        return worst is not None and worst.shed_assembly(
            self.assembly_bytes_max if limit < 0 else limit
        )

    def alarms(self) -> i64:
        """Alarms raised now, here or at another node."""
        return self._alarms.raised()

    def own_alarms(self) -> i64:
        """Alarms raised now for what this node is short of."""
        return self._alarms.own

    def say_alarm(self, alarm: i64, raised: bool) -> None:
        """Raise an alarm for an operator, whatever this node is short of, or end that."""
        self._alarms.say(alarm, raised)

    def alarm_reason(self) -> str:
        """What blocked publishers are told; RabbitMQ's words."""
        return self._alarms.reason()

    def alarms_changed(self) -> None:
        """Other nodes raised alarms or are over theirs."""
        self._alarms.changed_elsewhere()

    def log_warning(self, text: str) -> None:
        """Write to the node's log."""
        self._warn(text)

    def contain(self, text: str, error: Exception) -> None:
        """Write an error to the node's log that ends one connection."""
        self._contain(text, error)

    # For the log.

    def persisted(self, batches: list[Batch]) -> None:
        """Batches are durable: their groups apply and confirm them."""
        for batch in batches:
            group = batch.group
            assert group is not None
            owner = group.owner
            if owner is not None:
                owner.persisted(batch)
        self.cluster.work()
        self.needs_turn = True

    def disk_full(self, full: bool) -> None:
        """The disk alarm's edges."""
        self._alarms.set(ALARM_DISK, full)

    def fail(self, error: BaseException) -> None:
        """The log cannot go on: stop, and confirm nothing more."""
        self.failure = error

    def want_snapshot(self, group_id: int) -> None:
        """A group's snapshot is due; written in the next turn.

        Not while it would only wait for the disk, with all those that were wanted before: the log
        asks again. On a full disk it may be what frees space.
        """
        if self.disk_behind and not self.log.full:
            return
        self.due_snapshots.groups[group_id] = None
        self.needs_turn = True

    def _flush_log(self) -> None:
        awaited = self._appended_urgent
        self._appended_urgent = False
        self.deferring = len(self._deferring) > 0
        self.log.flush(awaited)

    def _relieve(self) -> None:
        """Let the publishers of queues go on that have caught up."""
        behind: dict[Queue, None] = {}
        caught_up: list[Queue] = []
        for queue in self._congested:
            if queue.congested() and not queue.deleted:
                behind[queue] = None
            else:
                caught_up.append(queue)
        self._congested = behind
        for queue in caught_up:
            queue.let_go()


def assembly_max(settings: Settings) -> int:
    """How much a node may have of messages that no queue has, in bytes."""
    share = settings.memory_limit_bytes // ASSEMBLY_SHARE
    if not settings.memory_limit_bytes:
        share = NODE_ASSEMBLY_BYTES_MAX
    return max(share, settings.max_message_bytes)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own; the empty one is a local socket's."""
    return host == "" or host == "::1" or host.startswith(("127.", "::ffff:127."))
