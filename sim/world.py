"""One run: a node, its disk and its clients, moved one step at a time by a seed.

A step is the smallest thing that can happen: a client acts, bytes are handed over or read, a worker
runs a job or reports one, the node takes its turn, time passes, something breaks. First everything
that the options allow happens in any order; then nothing breaks any more, and the node has to give
out all it holds within a bounded number of steps.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final, final

from sim.actors import Client
from sim.cast import make_clients, make_queues
from sim.checkers import Checker
from sim.checkers.checkouts import CheckoutChecker
from sim.checkers.delivery import DeliveryChecker
from sim.checkers.durability import DurabilityChecker
from sim.checkers.loss import LossChecker
from sim.checkers.order import OrderChecker
from sim.checkers.replay import ReplayChecker
from sim.clock import SeededRandom, VirtualClock
from sim.connection import SimConnection
from sim.disk import Crash, SimDisk, SimExecutor
from sim.drain import Drain
from sim.model import (
    CONFIRMED,
    WAITING,
    Copy,
    Holder,
    Message,
    QueueState,
    Violation,
    body_of,
    id_of,
)
from sim.swarm import Options
from sim.troubles import Troubles
from warren.errors import StorageError
from warren.log.config import LogConfig
from warren.node.node import Node
from warren.protocols.broker import Settings
from warren.queues.queue import Queue

STEPS_PER_OPERATION: Final = 40
"""More steps than this per operation and the run is stuck."""
MEMORY_LIMIT_BYTES: Final = 1_000_000
TICK_MS: Final = 1_000


@final
class World:
    """See the module's head.

    Attributes:
        life: Counts the node's starts.
        turns: Turns that the node has taken, over all lives.
        step_number: Steps so far.
        node: None while it is down.
        lines: Event lines, if they are wanted.
        counts: How often what happened.
    """

    def __init__(self, seed: int, operations: int = 300, traced: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.options = Options(self.random, operations)
        self.lines: list[str] | None = [] if traced else None
        self.counts: Counter[str] = Counter()
        self.clock = VirtualClock()
        self.disk = SimDisk(self.random.getrandbits(32))
        self.executor = SimExecutor(self.random)
        self.node: Node | None = None
        self.life = 0
        self.turns = 0
        self.step_number = 0
        self.operations = 0
        self.memory_bytes = 0
        self.tolerated: set[int] = set()
        self.messages: dict[int, Message] = {}
        self.connections: list[SimConnection] = []
        self.checkouts = CheckoutChecker(self)
        self._replays = ReplayChecker(self)
        self.checkers: list[Checker] = [
            DeliveryChecker(self),
            OrderChecker(self),
            DurabilityChecker(self),
            self.checkouts,
            LossChecker(self),
            self._replays,
        ]
        self.troubles = Troubles(self)
        self.queues: list[QueueState] = make_queues(self)
        self.clients: list[Client] = make_clients(self)
        self._channels = 0
        self._listening = False
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

    def step(self) -> None:
        """Let one thing happen."""
        self.step_number += 1
        try:
            self._step()
        except Crash:
            self.say("power fails within a call to the disk")
            self.fail_power()
        node = self.node
        if node is not None and node.failure is not None:
            self._stopped_by_failure(node.failure)
        self.keep_up()

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
        self.executor = SimExecutor(self.random)
        settings = Settings("sim@node")
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
        )
        settings.memory_limit_bytes = MEMORY_LIMIT_BYTES
        node = Node(
            settings,
            self.clock,
            SeededRandom(self.random),
            self.disk,
            self.executor,
            self._warned,
        )
        try:
            node.recover()
        except Crash:
            self.say("power fails during recovery")
            self.count("power failures")
            self.count("crashes in recovery")
            self.disk.crash()
            return
        except StorageError as error:
            raise Violation(f"the node does not start: {error}") from error
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
        for checker in self.checkers:
            checker.ended(orderly)
        self.node = None
        for connection in self.connections:
            connection.vanish()
        self.connections = []

    # For clients.

    def listening(self) -> bool:
        """Whether clients may connect: what recovery calls for has to be durable first."""
        node = self.node
        if not self._listening and node is not None and not node.needs_turn:
            self._listening = node.log.idle and bool(node.tables.machine.users)
        return self._listening

    def new_channel(self) -> int:
        """A number for a publishing channel."""
        self._channels += 1
        return self._channels

    def new_message(self, channel: int, sequence: int, size: int, persistent: bool) -> Message:
        """A message nobody published before."""
        message = Message(len(self.messages) + 1, channel, sequence, size, persistent)
        self.messages[message.id] = message
        return message

    def copy_to(self, message: Message, queues: list[QueueState]) -> None:
        """A message goes to some queues."""
        for queue in queues:
            copy = Copy(message, queue)
            message.copies.append(copy)
            queue.copies.append(copy)

    def confirm(self, message: Message) -> None:
        """A publisher was told that a message is safe."""
        self.counts["confirmed"] += 1
        message.status = CONFIRMED
        for checker in self.checkers:
            checker.confirmed(message)

    def deliver(self, queue: QueueState, content: bytes, redelivered: bool, holder: Holder) -> Copy:
        """A client was given a message."""
        copy = self.find(queue, content, holder.name)
        if self.lines is not None:
            word = " redelivered" if redelivered else ""
            self.say("%s gets m%d%s", holder.name, copy.message.id, word)
        self.counts["delivered"] += 1
        if redelivered:
            self.counts["redelivered"] += 1
        for checker in self.checkers:
            checker.delivered(copy, redelivered, holder)
        copy.seen += 1
        copy.settled = WAITING
        return copy

    def find(self, queue: QueueState, content: bytes, name: str) -> Copy:
        """The copy whose content came out of a queue to somebody."""
        message = self.messages.get(id_of(content))
        if message is None:
            raise Violation(f"{name} got what nobody published: {content[:40]!r}")
        if content != body_of(message):
            raise Violation(f"{message} came out altered to {name}")
        for copy in message.copies:
            if copy.queue is queue:
                return copy
        raise Violation(f"{message} came out of queue {queue.name}")

    def queue_of(self, queue: QueueState) -> Queue | None:
        """The node's queue, if it is there."""
        assert self.node is not None
        vhost = self.node.tables.vhosts.get("/")
        return None if vhost is None else vhost.queues.get(queue.name)

    def dropped(self, queue: QueueState) -> int:
        """Messages that a queue dropped at its delivery limit."""
        found = self.queue_of(queue)
        return 0 if found is None else int(found.fifo.dropped)

    # Records.

    def count(self, what: str, times: int = 1) -> None:
        """Something happened."""
        self.counts[what] += times

    def say(self, text: str, *values: object) -> None:
        """Write an event line: step, virtual time, life, what."""
        if self.lines is not None:
            self.lines.append(
                f"{self.step_number:6d} {self.clock.monotonic_ms():8d}ms "
                f"L{self.life} {text % values}"
            )

    def _warned(self, text: str) -> None:
        self.say("node: %s", text)
