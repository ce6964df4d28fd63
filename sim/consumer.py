"""Clients that consume, by subscription and by polling, and settle in every way there is."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, ignore
from sim.connection import Mark
from sim.model import (
    SETTLED,
    SETTLED_FOR_GOOD,
    SETTLED_MAYBE,
    WAITING,
    Arrival,
    Copy,
    Holder,
    QueueState,
    Violation,
)
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage


FAVOURS: Final = (-3, 0, 7)
"""Priorities of consumers."""


@final
class Acked(Mark):
    """Settlements on their way to the node."""

    def __init__(self, consumer: Receiver, copies: list[Copy], sure: bool) -> None:
        self._consumer = consumer
        self._copies = copies
        self._sure = sure

    def handed(self, certain: bool) -> None:
        """The node has them."""
        self._consumer.settle(self._copies, certain and self._sure)


@final
class Rejected(Mark):
    """Rejections on their way to the node."""

    def __init__(self, copies: list[Copy], sure: bool) -> None:
        self._copies = copies
        self._sure = sure

    def handed(self, certain: bool) -> None:
        """The node has them."""
        for copy in self._copies:
            if certain and self._sure and copy.holder is None:
                copy.rejecting = copy.held_in


class Receiver(Actor):
    """What consumers and pollers share: deliveries they hold, and ways to be rid of them.

    Attributes:
        queue: Where the messages come from.
        holder: This channel, in the eyes of the checkers.
        held: Unsettled deliveries by tag, in order.
        void: Those among them that the node may have taken back without a word.
        doubted: What came while that was possible.
        told_of: What it had, settled or not, when it was last told that it had that for too long.
        renewed: What came again although somebody may have settled it: it may have been on its way
            since before that, if this client is told that it held something for too long.
        sure: Whether what this client's connection is handed is taken at once.
        no_ack: Whether messages settle themselves.
    """

    def __init__(
        self, world: Stage, name: str, number: int, queue: QueueState, sure: bool, no_ack: bool
    ) -> None:
        super().__init__(world, name, number)
        self.queue = queue
        self.sure = sure
        self.no_ack = no_ack
        self.holder = Holder(name)
        self.held: dict[int, Copy] = {}
        self.void: set[int] = set()
        self.doubted: set[Copy] = set()
        self.told_of: set[Copy] = set()
        self.renewed: set[Copy] = set()
        self._settled: list[Copy] = []
        self._last_tag = 0
        self._giving_back = False
        self._leaving = 0

    def set_up(self) -> None:
        """A new channel holds nothing."""
        self.holder = Holder(self.name)
        self.held = {}
        self.void = set()
        self.doubted = set()
        self.told_of = set()
        self.renewed = set()
        self._settled = []
        self._last_tag = 0
        self._giving_back = False

    def ended(self) -> None:
        """What was held goes back."""
        self.forget_renewed()
        self.holder.alive = False
        self.held = {}
        self._left(self._leaving)
        self.world.unsettle(self.queue)

    def _leaves(self) -> None:
        """What is on its way to this client may go back from now on."""
        self._leaving += 1
        self.queue.leaving += 1

    def once_at_most(self) -> bool:
        """Whether what it is sent comes never again, whatever ends."""
        return False

    def _timed(self) -> bool:
        """Whether the node may take back what it holds after a while."""
        return self.queue.timeout_ms >= 0

    def held_too_long(self) -> None:
        """The node says that it took something back; the client does not know what."""
        self.world.count("consumers timed out")
        self.holder.told += 1
        # Also what it has settled, and its node has not: that may have been held for too long.
        self.told_of = {copy for copy in self.queue.copies if copy.holder is self.holder}
        self.void |= set(self.held)
        self.doubted |= set(self.held.values())
        self.forget_renewed()
        self._let_go(self.held.values())
        self.world.unsettle(self.queue)

    def forget_renewed(self) -> None:
        """What may have been settled before it came, and is held no more, may be settled still."""
        for copy in self.renewed:
            if copy.holder is self.holder and copy.settled == WAITING:
                copy.settled = SETTLED_MAYBE
        self.renewed = set()

    def _left(self, times: int = 1) -> None:
        """What was on its way has gone back."""
        self._leaving -= times
        self.queue.leaving -= times
        self.world.unsettle(self.queue)

    def missed(self, method: spec.Method, content: bytes) -> None:
        """It counts as delivered; what settles itself when it is sent is gone."""
        if isinstance(method, (spec.BasicDeliver, spec.BasicGetOk)):
            copy = self.world.find(self.queue, content, self.name)
            copy.seen += 1
            if self.no_ack and copy.settled == WAITING:
                copy.settled = SETTLED_MAYBE

    def take(self, tag: int, redelivered: bool, content: bytes) -> None:
        """A message came."""
        if tag <= self._last_tag:
            raise Violation(f"{self.name}: delivery tag {tag} after {self._last_tag}")
        self._last_tag = tag
        if self._giving_back:
            # It was under way when everything was given back, and goes back too. Others may have
            # been given it before this client reads of it.
            self.world.find(self.queue, content, self.name).seen += 1
            return
        if self.world.doubtful(self) or self._is_late(redelivered, content):
            self._take_doubtful(tag, content)
            return
        renewed = redelivered and self._timed() and self._may_be_settled(content)
        copy = self.world.deliver(self.queue, content, redelivered, self.holder)
        if renewed:
            self.renewed.add(copy)
        if self.no_ack:
            self.settle([copy], True)
        else:
            self.held[tag] = copy
            copy.holder = self.holder
            self.told_of.discard(copy)

    def _is_late(self, redelivered: bool, content: bytes) -> bool:
        """Whether this client held a message for too long before its node came to send it."""
        if not self._timed() or self.no_ack:
            return False
        copy = self.world.find(self.queue, content, self.name)
        # Whoever got it next may have been sent it, or have settled it.
        gone = copy.settled in (SETTLED, SETTLED_FOR_GOOD) if redelivered else copy.seen > 0
        return gone and self.world.sent_late(self, copy)

    def _may_be_settled(self, content: bytes) -> bool:
        """Whether somebody settled a message, as far as can be told, that comes again."""
        return self.world.find(self.queue, content, self.name).settled == SETTLED_MAYBE

    def _take_doubtful(self, tag: int, content: bytes) -> None:
        """A message came that others may have been given already: nobody holds it for sure."""
        copy = self.world.find(self.queue, content, self.name)
        copy.seen += 1
        if not self.no_ack:
            self.held[tag] = copy
            self.void.add(tag)
            self.doubted.add(copy)
        elif copy.settled == WAITING:
            copy.settled = SETTLED_MAYBE

    def settle(self, copies: list[Copy], sure: bool) -> None:
        """The node has been told that these are done with."""
        for copy in copies:
            settled = self.world.settlement(self, copy, sure)
            if settled == WAITING:
                continue
            copy.holder = None
            copy.settled = settled
            copy.settled_life = self.world.life
            if settled == SETTLED:
                self._settled.append(copy)
                for checker in self.world.checkers:
                    checker.settled(copy)
        self.world.count("settled", len(copies))

    def refused(self, method: spec.ChannelClose) -> None:
        """The node closed the channel before the client knew: nothing is certain any more."""
        for copy in self._settled:
            if copy.settled == SETTLED:
                copy.settled = SETTLED_MAYBE

    def settle_some(self) -> None:
        """Ack, nack or reject some of what is held."""
        random = self.random
        way = self.world.options.pick_settling(random)
        tags = list(self.held)
        if way in ("multiple", "nack-multiple"):
            tag = tags[min(len(tags) - 1, random.randrange(2 * len(tags)))]
            gone = [t for t in tags if t <= tag]
        else:
            tag = tags[0] if random.random() < 0.5 else random.choice(tags)
            gone = [tag]
        self.world.say("%s %s %d: %s", self.name, way, tag, marks_of([self.held[t] for t in gone]))
        copies = self._take_out(gone)
        if way == "ack" or way == "multiple":
            self.send(spec.BasicAck(tag, way == "multiple"))
            self._done(copies)
        elif way == "drop":
            self.send(spec.BasicReject(tag, False))
            self._done(copies)
        else:
            if way == "reject":
                self.send(spec.BasicReject(tag, True))
                connection = self.connection
                if connection is not None and 0 <= self.queue.delivery_limit and not self._timed():
                    sure = self.sure and not self.busy() and not self.world.doubtful(self)
                    mine = [copy for copy in copies if copy.holder is self.holder]
                    connection.mark(Rejected(mine, sure and tag not in self.void))
            else:
                self.send(spec.BasicNack(tag, way == "nack-multiple", True))
            self._let_go(copies)
            self.world.count("returned", len(copies))

    def settle_all(self) -> None:
        """Ack everything that is held."""
        self.send(spec.BasicAck(max(self.held), True))
        self._done(self._take_out(list(self.held)))

    def _take_out(self, tags: list[int]) -> list[Copy]:
        """What these tags stand for; not what was taken back and came again under a later tag."""
        copies = [(tag, self.held.pop(tag)) for tag in tags]
        if not self.void:
            return [copy for _, copy in copies]
        newest: dict[Copy, int] = {}
        for tag, copy in (*self.held.items(), *copies):
            newest[copy] = max(tag, newest.get(copy, 0))
        return [copy for tag, copy in copies if tag not in self.void or newest[copy] == tag]

    def _let_go(self, copies: Iterable[Copy]) -> None:
        """These are nobody's, except what was taken back meanwhile and given to another."""
        for copy in copies:
            if copy.holder is self.holder:
                copy.holder = None

    def recover(self) -> None:
        """Give everything back with `basic.recover`."""
        self.world.say("%s recovers", self.name)
        self._let_go(self.held.values())
        self.held = {}
        self._giving_back = True
        self._leaves()
        self.call(spec.BasicRecover(True), self._recovered)

    def _recovered(self, method: spec.Method, content: bytes) -> None:
        self._giving_back = False
        self._left()

    def spoil(self) -> None:
        """Ack what was never delivered; the node has to close the channel."""
        self.world.say("%s acks a tag of nobody", self.name)
        self.tolerated.add(406)
        self.send(spec.BasicAck(self._last_tag + 1_000_000, False))
        self.ready = False
        self._giving_back = True
        self.holder.alive = False
        self.held = {}

    def _done(self, copies: list[Copy]) -> None:
        connection = self.connection
        assert connection is not None
        # The holder keeps them until the node can know; nobody else may be given them.
        connection.mark(Acked(self, copies, self.sure and not self.busy()))


@final
class Consumer(Receiver):
    """Subscribes to a queue.

    Attributes:
        prefetch: Limit on what it holds; 0 for none.
        shared: Whether the limit is the channel's (`global`), for classic queues.
    """

    def __init__(
        self,
        world: Stage,
        name: str,
        number: int,
        queue: QueueState,
        sure: bool,
        prefetch: int,
        no_ack: bool,
        shared: bool,
    ) -> None:
        super().__init__(world, name, number, queue, sure, no_ack)
        self.prefetch = prefetch
        self.shared = shared
        self._favour = Random(f"{world.seed} {name} favoured")
        self._arrival = Arrival(0)
        self._tag = ""
        self._tags = 0
        self._older = 0
        """Deliveries up to this tag belong to earlier subscriptions of the channel."""

    def once_at_most(self) -> bool:
        """With automatic acks a hand-out is a settlement, and durable before it is sent."""
        return self.no_ack

    def set_up(self) -> None:
        """Declare, limit, subscribe."""
        super().set_up()
        self.declare(self.queue)
        if self.prefetch:
            self.call(spec.BasicQos(0, self.prefetch, self.shared), ignore)
        self._subscribe()

    def _subscribe(self) -> None:
        self._tags += 1
        self._tag = f"t{self._tags}"
        self._older = self._last_tag
        self.holder.last = {}
        self.holder.subscribed = True
        if self.queue.active is self.holder:
            # It was by an earlier subscription; now it stands in line like others.
            self.queue.active = None
        arguments: Table = {}
        if self.world.options.favours:
            self.holder.favour = self._favour.choice(FAVOURS)
            arguments["x-priority"] = self.holder.favour
        self.holder.since = self.world.step_number
        self._arrival = Arrival(self.holder.favour)
        self.queue.came.append(self._arrival)
        self.call(
            spec.BasicConsume(
                queue=self.queue.name,
                consumer_tag=self._tag,
                no_ack=self.no_ack,
                arguments=arguments,
            ),
            self._consuming,
        )

    def _consuming(self, method: spec.Method, content: bytes) -> None:
        # A later subscription may be answered when its client has closed the channel.
        self.ready = not self._closing
        self._arrival.answered_step = self.world.step_number

    def act(self) -> None:
        """Settle something, or now and then do something rarer."""
        options, random = self.world.options, self.random
        chance = random.random()
        if chance < options.close_share:
            self.close_channel()
        elif chance < options.close_share + options.cancel_share and not self.busy():
            if self._tag:
                self._cancel()
            else:
                self._subscribe()
        elif (self.queue.single or self._timed()) and not self._tag and not self.busy():
            self._subscribe()
        elif not self.held:
            return
        elif chance > 1 - options.recover_share and not self.no_ack:
            self.recover()
        elif chance > 1 - options.recover_share - options.spoil_share:
            self.spoil()
        else:
            self.settle_some()

    def _cancel(self) -> None:
        self.world.say("%s cancels %s", self.name, self._tag)
        self.holder.subscribed = False
        self._leaves()
        self.call(spec.BasicCancel(self._tag), self._cancelled)
        self.world.count("cancels")

    def _cancelled(self, method: spec.Method, content: bytes) -> None:
        self._tag = ""
        self._left()

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A delivery, or the end of the queue."""
        if isinstance(method, spec.BasicDeliver):
            if method.consumer_tag != self._tag:
                raise Violation(f"{self.name}: a delivery for consumer {method.consumer_tag}")
            self.take(method.delivery_tag, method.redelivered, content)
            if self.prefetch and not self.no_ack:
                self._check_limit()
        elif isinstance(method, spec.BasicCancel):
            if self._timed() and method.consumer_tag == self._tag:
                self.world.say("%s held messages for too long", self.name)
                self._tag = ""
                self.holder.subscribed = False
                self.held_too_long()
                return
            if not self.queue.volatile and not self.queue.single:
                raise Violation(f"{self.name}: cancelled, though its queue was not deleted")
            if method.consumer_tag == self._tag:
                self._tag = ""
                self._let_go(self.held.values())
                self.world.unsettle(self.queue)
        else:
            super().pushed(method, content)

    def _check_limit(self) -> None:
        """The node counts more than the client: what was acked and is still under way."""
        older = 0 if self.shared else self._older
        held = sum(tag > older and tag not in self.void for tag in self.held)
        if held > self.prefetch:
            raise Violation(f"{self.name}: {held} unsettled with a limit of {self.prefetch}")


@final
class Poller(Receiver):
    """Asks for messages one by one."""

    def set_up(self) -> None:
        """Declare the queue."""
        super().set_up()
        self.declare(self.queue)
        self.call(spec.BasicQos(), self.begin)

    def act(self) -> None:
        """Ask for a message, or settle one."""
        random = self.random
        if random.random() < self.world.options.close_share:
            self.close_channel()
        elif self.held and random.random() < 0.6:
            self.settle_some()
        elif not self.busy():
            self.call(spec.BasicGet(queue=self.queue.name, no_ack=self.no_ack), self._got)

    def _got(self, method: spec.Method, content: bytes) -> None:
        if isinstance(method, spec.BasicGetOk):
            self.world.count("polled")
            if self._closing:
                self.missed(method, content)
                return
            self.take(method.delivery_tag, method.redelivered, content)


def marks_of(copies: list[Copy]) -> str:
    """Copies in a line."""
    return " ".join(f"m{copy.message.id}" for copy in copies[:6]) + (
        f" and {len(copies) - 6} more" if len(copies) > 6 else ""
    )
