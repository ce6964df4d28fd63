"""One run: a node, its disk and its clients, moved one step at a time by a seed.

A step is the smallest thing that can happen: a client acts, bytes are handed over or read, a worker
runs a job or reports one, the node takes its turn, time passes, something breaks. First everything
that the options allow happens in any order; then nothing breaks any more, and the node has to give
out all it holds within a bounded number of steps.
"""

from __future__ import annotations

from typing import Final, final

from sim.actors import Client
from sim.cast import make_clients, make_queues
from sim.checkers.checkouts import CheckoutChecker
from sim.checkers.delivery import DeliveryChecker
from sim.checkers.durability import DurabilityChecker
from sim.checkers.loss import LossChecker
from sim.checkers.order import OrderChecker
from sim.checkers.ranks import RankChecker
from sim.checkers.replay import ReplayChecker
from sim.clearing import Clearings
from sim.clock import CONSUMER_TIMEOUT_MS, DISCONNECTED_TIMEOUT_MS, SeededRandom, VirtualClock
from sim.connection import SimConnection
from sim.consumer import Receiver
from sim.disk import Crash, SimDisk, SimExecutor
from sim.drain import Drain
from sim.incarnations import Incarnation
from sim.model import SETTLED_FOR_GOOD, Copy, Message, QueueState, Violation
from sim.replies import add_talks
from sim.room import check_room, is_at_rest
from sim.stage import Stage
from sim.told import add_feed
from sim.troubles import Troubles
from warren.errors import StorageError
from warren.log.config import LogConfig
from warren.metadata.commands import Command
from warren.node.node import Node
from warren.protocols.broker import Settings
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo_queue import FifoQueue
from warren.queues.quorum import QuorumQueue

STEPS_PER_OPERATION: Final = 40
"""More steps than this per operation and the run is stuck."""
MEMORY_LIMIT_BYTES: Final = 1_000_000
TICK_MS: Final = 1_000
CRAWL_SHARE: Final = 0.05
"""What a slow disk does, of what it could."""
GROUPS_AT_ONCE: Final = 2
"""So few that looking through the log takes several ticks."""
CHANGES_AT_ONCE: Final = 2
"""So few that what is committed of the tables often waits for a turn."""
PART_RUNS: Final = 3
"""So few that the states of queues are written and read over several turns."""


@final
class World(Stage):
    """See the module's head.

    Attributes:
        node: None while it is down.
        stalled_until: The step up to which the disk stands still.
        crawls_until: The same for a slow one.
    """

    def __init__(self, seed: int, operations: int = 300, traced: bool = False) -> None:
        super().__init__(seed, operations, traced)
        self.clock = VirtualClock()
        self.disk = SimDisk(self.random.getrandbits(32))
        self.executor = SimExecutor(self.random, self.disk)
        self.node: Node | None = None
        self.memory_bytes = 0
        self.stalled_until = 0
        self.crawls_until = 0
        self.checkouts = CheckoutChecker(self)
        self.ranks = RankChecker(self)
        self._replays = ReplayChecker(self)
        self.checkers = [
            DeliveryChecker(self),
            OrderChecker(self),
            DurabilityChecker(self),
            self.checkouts,
            self.ranks,
            LossChecker(self),
            self._replays,
        ]
        self.troubles = Troubles(self)
        # A method that waits for the disk for half a minute ends its connection.
        self.tolerated.add(541)
        self.queues = make_queues(self)
        self.clients = make_clients(self)
        self._clearings = Clearings(self)
        self._listening = False
        self._full_step = -1
        self._consumers: dict[str, list[Consumer]] = {}
        self._ticked_ms = 0
        self._log_ticked_ms = 0

    # The run.

    def run(self) -> None:
        """Run to the end.

        Raises:
            Violation: The node broke a promise.
        """
        self.say("seed %d: %s", self.seed, self.options)
        options, random = self.options, self.random
        if options.replies:
            self.talks = add_talks(self, self.clients)
        if options.told:
            self.feed = add_feed(self, self.clients, options.told)
        self.keep_up()
        limit = options.operations * STEPS_PER_OPERATION
        while self.operations < options.operations:
            self.step()
            if options.troubles and random.random() < options.trouble_share:
                self.troubles.strike(options.pick_trouble(random))
            self.keep_up()
            if self.step_number > limit:
                raise Violation("the run does not get on: clients have nothing they can do")
        self.say("healing")
        self.troubles.heal()
        Drain(self).run()
        for checker in self.checkers:
            checker.finished()

    def settlement(self, receiver: Receiver, copy: Copy, sure: bool) -> int:
        """A quorum queue's consumer with automatic acks never gets again what it was sent."""
        if sure and copy.queue.kind == "quorum" and receiver.once_at_most():
            return SETTLED_FOR_GOOD
        return super().settlement(receiver, copy, sure)

    def era(self, queue: QueueState) -> int:
        """The node's life."""
        return self.life

    def step(self) -> None:
        """Let one thing happen."""
        self.step_number += 1
        try:
            self._step()
        except Crash:
            self.say("power fails within a call to the disk")
            self.fail_power()
        node = self.node
        if node is not None:
            if node.log.full:
                self._full_step = self.step_number
            self._watch(node)
            if node.failure is not None:
                self._stopped_by_failure(node.failure)
            else:
                self._check_failures()
        self.keep_up()

    def _check_failures(self) -> None:
        """A node that was told of a failed call to its disk has to stop.

        Raises:
            Violation: It goes on.
        """
        if self.executor.failed:
            calls = ", ".join(self.disk.failing.failed)
            raise Violation(f"the node goes on after its disk has failed: {calls}")

    def keep_up(self) -> None:
        """Start the node if it is down."""
        while self.node is None:
            self.boot()

    def _step(self) -> None:
        random = self.random
        chance = random.random()
        node = self.node
        assert node is not None
        if chance < 0.22:
            if self.clients:
                self.operations += 1
                self.clients[int(random.random() * len(self.clients))].act()
        elif chance < 0.44:
            self._hand_over()
        elif chance < 0.62:
            self._receive()
        elif chance < 0.80:
            if self.step_number >= self.stalled_until and (
                self.step_number >= self.crawls_until or random.random() < CRAWL_SHARE
            ):
                self.executor.step()
        elif chance < 0.96:
            if node.needs_turn:
                self.turn()
        else:
            self.pass_time(int(random.random() * self.options.pace_ms * 25))

    def turn(self) -> None:
        """The node takes its turn."""
        node = self.node
        assert node is not None
        node.turn()
        self.turns += 1
        for queue in self.queues:
            found = self.queue_of(queue)
            now = [] if found is None else list(found.fifo.consumers.values())
            if found is not None and queue.drops:
                check_room(found.fifo)
            if now != self._consumers.get(queue.name):
                self._consumers[queue.name] = now
                self.unsettle(queue)
        self._watch(node)

    def _watch(self, node: Node) -> None:
        self.incarnations.watch("", node, self.turns)
        self._clearings.watch(node)
        if self.feed is not None:
            # A queue may come and go between two turns, when rounds of the log are done.
            self.feed.checker.watch(node)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, and the node know."""
        self.clock.advance(milliseconds)
        now = self.clock.monotonic_ms()
        node = self.node
        if node is None:
            return
        if now - self._log_ticked_ms >= self.options.tick_ms:
            self._log_ticked_ms = now
            self._replays.gather()
            node.tick_log()
        if now - self._ticked_ms >= TICK_MS:
            self._ticked_ms = now
            node.tick(self.memory_bytes)

    def _hand_over(self) -> None:
        ready = [c for c in self.connections if c.outbox and not c.held and not c.dead]
        if ready:
            connection = self.random.choice(ready)
            size = len(connection.outbox)
            if self.random.random() < 0.3:
                size = self.random.randrange(1, size + 1)
            connection.hand_over(size)

    def _receive(self) -> None:
        ready = [c for c in self.connections if (c.inbox or c.closing) and not c.deaf]
        if ready:
            connection = self.random.choice(ready)
            connection.receive()
            if connection.dead:
                self.connections.remove(connection)

    # The node's life.

    def boot(self) -> None:
        """Start the node; the machine may stop again meanwhile."""
        self.life += 1
        self._listening = False
        self.executor = SimExecutor(self.random, self.disk)
        settings = Settings("sim@node")
        settings.renews_hashes = False
        options = self.options
        settings.log = LogConfig(
            wal_max_size_bytes=options.wal_max_bytes,
            cache_bytes=options.cache_bytes,
            reserve_bytes=options.reserve_bytes,
            disk_free_limit_bytes=self.troubles.free_limit_bytes,
            live_share_percent=options.live_share_percent,
            compact_interval_ms=options.compact_interval_ms,
            extent_bytes_max=options.extent_bytes_max,
            round_bytes_max=options.round_bytes_max,
            groups_at_once=GROUPS_AT_ONCE,
        )
        settings.changes_at_once = CHANGES_AT_ONCE
        settings.part_runs = PART_RUNS
        settings.consumer_timeout_ms = CONSUMER_TIMEOUT_MS
        settings.consumer_disconnected_timeout_ms = DISCONNECTED_TIMEOUT_MS
        settings.memory_limit_bytes = MEMORY_LIMIT_BYTES
        settings.delivery_limit = -1 if options.own_limit else options.delivery_limit
        settings.strict_priorities = options.strict
        settings.max_message_bytes = options.body_bytes_max or settings.max_message_bytes
        node = Node(
            settings,
            self.clock,
            SeededRandom(self.random),
            self.disk,
            self.executor,
            self._warned,
        )
        fatal = self.disk.failing.fatal
        failures = self.disk.failing.count + self.disk.reading.count
        try:
            node.recover()
            if self.disk.failing.fatal > fatal:
                calls = ", ".join(self.disk.failing.failed)
                raise Violation(f"the node starts although its disk has failed: {calls}")
        except Crash:
            self.say("power fails during recovery")
            self.count("power failures")
            self.count("crashes in recovery")
            self.disk.crash()
            return
        except StorageError as error:
            raise Violation(f"the node does not start: {error}") from error
        except OSError as error:
            if self.disk.failing.count + self.disk.reading.count == failures:
                raise
            self.say("the start fails: %s", error)
            self._count_failures()
            self.disk.restart()
            return
        self.node = node
        self.say("life %d begins", self.life)
        for checker in self.checkers:
            checker.recovered()

    def fail_power(self) -> None:
        """The machine stops and loses what was not synced."""
        self.say("life %d ends: the machine stops", self.life)
        self.count("power failures")
        self._end_life(False)
        self.disk.crash()

    def kill(self) -> None:
        """The process stops; the machine goes on."""
        self.say("life %d ends: the process is killed", self.life)
        self.count("kills")
        self._end_life(False)
        self.disk.restart()

    def stop(self) -> None:
        """Stop the node in an orderly way."""
        node = self.node
        assert node is not None
        self.say("life %d is asked to stop", self.life)
        for connection in self.connections:
            connection.condemned = True
        fatal = self.disk.failing.fatal
        try:
            node.shut_down()
            self._finish_work()
            for connection in list(self.connections):
                if not connection.deaf and not connection.dead:
                    connection.receive()
            for connection in self.connections:
                connection.vanish()
            node.prepare_close()
            self._finish_work()
            if node.failure is None:
                node.close()
        except Crash:
            self.say("power fails during the stop")
            self.fail_power()
            return
        except OSError as error:
            # The disk failed in the last write: no better than a kill.
            self.say("the stop fails: %s", error)
            self.kill()
            return
        if node.failure is not None:
            self._stopped_by_failure(node.failure)
            return
        if self.disk.failing.fatal > fatal:
            calls = ", ".join(self.disk.failing.failed)
            raise Violation(f"the node stops in order after its disk has failed: {calls}")
        self.count("stops")
        self.say("life %d ends in order", self.life)
        self._end_life(not node.log.full)
        self.disk.restart()

    def _finish_work(self) -> None:
        node = self.node
        assert node is not None
        while node.failure is None and (node.needs_turn or self.executor.step()):
            if node.needs_turn:
                self.turn()
            if node.failure is None:
                self._check_failures()

    def _count_failures(self) -> None:
        for failing in (self.disk.failing, self.disk.reading):
            for call in failing.failed:
                self.count(f"disk calls failed: {call}")
            failing.failed.clear()

    def _stopped_by_failure(self, failure: BaseException) -> None:
        if not isinstance(failure, OSError):
            raise Violation(f"the node stopped: {failure!r}") from failure
        self.count("sync failures")
        self.say("the node stops: %s", failure)
        if self.random.random() < 0.5:
            self.kill()
        else:
            self.fail_power()

    def _end_life(self, orderly: bool) -> None:
        self._count_failures()
        for checker in self.checkers:
            checker.ended(orderly)
        self.node = None
        self.incarnations.ended("")
        for connection in self.connections:
            connection.vanish()
        self._clearings.ended()
        self.connections = []
        for queue in self.queues:
            self.unsettle(queue)

    # For clients.

    def listening(self) -> bool:
        """Whether clients may connect: what recovery calls for has to be durable first."""
        node = self.node
        if not self._listening and node is not None and not node.needs_turn:
            self._listening = node.log.idle and bool(node.metadata.users)
        return self._listening

    def connect(self, client: Client) -> SimConnection | None:
        """Connect, if the node listens."""
        if not self.listening():
            return None
        return SimConnection(self, client.name, client.frame_max)

    def disconnect(self, connection: SimConnection) -> None:
        """A connection is cut."""
        connection.lose()
        self.connections.remove(connection)

    def entry(self) -> Node:
        """The node."""
        assert self.node is not None
        return self.node

    def nodes(self) -> list[Node]:
        """The node, unless it is down."""
        return [] if self.node is None else [self.node]

    def change_tables(self, site: str, command: Command) -> None:
        """By a command that the node submits."""
        self.entry().store.submit(command, None)

    def queue_of(self, queue: QueueState) -> FifoQueue | None:
        """The node's queue, if it is there."""
        assert self.node is not None
        vhost = self.node.queues.vhosts.get("/")
        found = None if vhost is None else vhost.queues.get(queue.name)
        assert found is None or isinstance(found, FifoQueue), "one node has its queues itself"
        return found

    def keeps_settlements(self, queue: QueueState) -> bool:
        """Whether the node may log what comes now before what was settled in a queue."""
        known = None if self.node is None else self.queue_of(queue)
        return isinstance(known, QuorumQueue) and known._pending_commands

    def at_rest(self, queue: QueueState) -> bool:
        """The node's queue says so."""
        found = self.queue_of(queue)
        return found is not None and is_at_rest(found.fifo)

    def ready_in(self, queue: QueueState) -> int:
        """By the node's queue."""
        found = self.queue_of(queue)
        return 0 if found is None else int(found.fifo.ready_count())

    def may_be_cleared(self, queue: QueueState, connection: SimConnection) -> None:
        """It is done in the next turn, or much later, or never."""
        self._clearings.add(queue, connection)

    def may_refuse(self, message: Message) -> bool:
        """The disk was full, now or since it was handed over."""
        node = self.node
        return self._full_step >= message.step or (node is not None and bool(node.log.full))

    def process_over(self, queue: Incarnation) -> bool:
        """Whether the node has ended since."""
        return queue.life != self.life

    def dropped(self, queue: QueueState) -> int:
        """Messages that a queue dropped at its delivery limit."""
        found = self.queue_of(queue)
        return 0 if found is None else int(found.fifo.dropped)

    # Records.

    def now_ms(self) -> int:
        """Virtual time."""
        return self.clock.monotonic_ms()

    def _warned(self, text: str) -> None:
        self.say("node: %s", text)
