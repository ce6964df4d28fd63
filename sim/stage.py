"""What simulated clients act on, whatever runs behind it: one node, or a cluster of them.

A stage keeps what clients know (queues, messages, who was given what), tells the checkers, and
writes the event lines.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from sim.incarnations import Incarnation, Incarnations
from sim.model import (
    CONFIRMED,
    SETTLED,
    SETTLED_MAYBE,
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
from warren.metadata.commands import Command
from warren.node.node import Node
from warren.wire.amqp091 import spec

if TYPE_CHECKING:
    from sim.actors import Actor, Client
    from sim.checkers import Checker
    from sim.checkers.checkouts import CheckoutChecker
    from sim.checkers.ranks import RankChecker
    from sim.connection import SimConnection
    from sim.consumer import Receiver
    from sim.dead_letters import Letters
    from sim.delays import Delays
    from sim.expiring import Expiring
    from sim.governed import Governed
    from sim.hops import Hops
    from sim.rejecting import Spills
    from sim.replies import Talks
    from sim.told import Feed


MAJORITY_MS = 30_000
"""So long a client's method waits for its majority's disks."""
READ_MS = 10_000
"""So long for a read of its node's own disk."""


class Stage:
    """See the module's head.

    Attributes:
        life: Counts the starts of the node.
        turns: Turns that the node has taken, over all lives.
        step_number: Steps so far.
        lines: Event lines, if they are wanted.
        counts: How often what happened.
        incarnations: Queues that come and go.
        letters: What becomes of dead letters, if there are any.
        hops: Likewise of those that come back, if any do.
        delays: Likewise of messages that wait.
        talks: What was asked and answered, if anybody does.
        expiring: Who has used a queue that expires, if there is one.
        spills: What becomes of publishes that a full queue sends elsewhere, if there is one.
        governed: What becomes of messages of a queue that policies change, if there is one.
        feed: The events feed, if there is one.
        clustered: Whether it is a cluster.
    """

    clustered = False

    checkouts: CheckoutChecker
    ranks: RankChecker

    def __init__(self, seed: int, operations: int, traced: bool) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.options = Options(self.random, operations, seed)
        self.lines: list[str] | None = [] if traced else None
        self.counts: Counter[str] = Counter()
        self.life = 0
        self.turns = 0
        self.step_number = 0
        self.operations = 0
        self.tolerated: set[int] = set()
        self.messages: dict[int, Message] = {}
        self.connections: list[SimConnection] = []
        self.checkers: list[Checker] = []
        self.queues: list[QueueState] = []
        self.clients: list[Client] = []
        self.incarnations = Incarnations(self)
        self.letters: Letters | None = None
        self.hops: Hops | None = None
        self.delays: Delays | None = None
        self.talks: Talks | None = None
        self.expiring: Expiring | None = None
        self.spills: Spills | None = None
        self.governed: Governed | None = None
        self.feed: Feed | None = None
        self._channels = 0

    # What runs behind it.

    def connect(self, client: Client) -> SimConnection | None:
        """A new connection; None if there is nobody to connect to."""
        raise AssertionError("a stage defines connect")

    def disconnect(self, connection: SimConnection) -> None:
        """A connection is cut."""
        raise AssertionError("a stage defines disconnect")

    def entry(self) -> Node:
        """The node that a connection without a choice leads to."""
        raise AssertionError("a stage defines entry")

    def nodes(self) -> list[Node]:
        """All nodes that run."""
        raise AssertionError("a stage defines nodes")

    def moment(self, connection: SimConnection) -> tuple[int, int]:
        """Life and turn of the node at the other end."""
        return self.life, self.turns

    def stirred(self, connection: SimConnection) -> None:
        """There are bytes to hand over or to read."""

    def doubtful(self, receiver: Receiver) -> bool:
        """Whether what comes now may have been given to others meanwhile."""
        return False

    def sent_late(self, receiver: Receiver, copy: Copy) -> bool:
        """Whether a message that others have seen may come as if for the first time."""
        return False

    def settlement(self, receiver: Receiver, copy: Copy, sure: bool) -> int:
        """What a settlement makes of a copy; `WAITING` if it does nothing."""
        return SETTLED if sure else SETTLED_MAYBE

    def era(self, queue: QueueState) -> int:
        """Another number whenever what a queue's consumers held came back without a client's doing,
        and a node's word for what it was told is void.
        """
        raise AssertionError("a stage defines era")

    def may_be_cleared(self, queue: QueueState, connection: SimConnection) -> None:
        """Somebody asked for a purge or a delete, and will not be told whether it was done."""
        raise AssertionError("a stage defines may_be_cleared")

    def unsettle(self, queue: QueueState) -> None:
        """Consumers of a queue changed: what one was handed may come again, seen or not."""
        queue.unsure_step = self.step_number

    def may_refuse(self, message: Message) -> bool:
        """Whether there is a reason to nack a publish."""
        raise AssertionError("a stage defines may_refuse")

    def may_return(self, message: Message, queue: QueueState) -> bool:
        """Whether a publish may have found no queue."""
        return queue.may_be_gone(message)

    def excuses(self, actor: Actor, method: spec.ChannelClose) -> bool:
        """Whether the node may close a channel like this, whatever its user did."""
        return False

    def check_internal_error(self, connection: SimConnection, text: str) -> None:
        """The node closed a connection with 541.

        Raises:
            Violation: Nothing has waited for so long.
        """
        waits = [actor.waits_ms() for actor in connection.users()]
        waited_ms = max(waits, default=0)
        # Of a connection that ends before its client has read this nobody waits any more.
        least_ms = READ_MS if "a read did not come back" in text else MAJORITY_MS
        if waits and waited_ms < least_ms:
            raise Violation(f"{connection.name}: 541 after {waited_ms} ms: {text}")
        self.count("asked in vain")

    def dropped(self, queue: QueueState) -> int:
        """Messages that a queue dropped at its delivery limit."""
        raise AssertionError("a stage defines dropped")

    def process_over(self, queue: Incarnation) -> bool:
        """Whether the process that a queue lived in is over."""
        raise AssertionError("a stage defines process_over")

    def at_rest(self, queue: QueueState) -> bool:
        """Whether nobody holds anything of a queue, and nothing of it waits or returns."""
        raise AssertionError("a stage defines at_rest")

    def ready_in(self, queue: QueueState) -> int:
        """Messages that are ready in a queue, by the copy with most."""
        raise AssertionError("a stage defines ready_in")

    def change_tables(self, site: str, command: Command) -> None:
        """Have the tables changed through a node, in a while or never."""
        raise AssertionError("a stage defines change_tables")

    def machine_lost(self, name: str) -> bool:
        """Whether a machine is lost for good."""
        return False

    def halted(self, queue: Incarnation) -> bool:
        """Whether the node where a queue lives cannot start it, for its disk is damaged."""
        return False

    def check_kept(self, queue: Incarnation, message: Message) -> None:
        """A queue has confirmed a message: it has to have it."""

    def dropped_by(self, queue: Incarnation) -> int:
        """Messages that a queue may have lost."""
        return 0

    def now_ms(self) -> int:
        """Virtual time."""
        raise AssertionError("a stage defines now_ms")

    # For clients.

    def new_channel(self) -> int:
        """A number for a publishing channel."""
        self._channels += 1
        return self._channels

    def new_message(self, channel: int, sequence: int, size: int, persistent: bool) -> Message:
        """A message nobody published before."""
        message = Message(len(self.messages) + 1, channel, sequence, size, persistent)
        message.sent_ms = self.now_ms()
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
        era = self.era(queue)
        if copy.rejecting == era:
            copy.rejected += 1
            self.count("delivered after a rejection")
        copy.rejecting = -1
        copy.held_in = era
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

    # Records.

    def count(self, what: str, times: int = 1) -> None:
        """Something happened."""
        self.counts[what] += times

    def say(self, text: str, *values: object) -> None:
        """Write an event line: step, virtual time, life, what."""
        if self.lines is not None:
            self.lines.append(
                f"{self.step_number:6d} {self.now_ms():8d}ms L{self.life} {text % values}"
            )
