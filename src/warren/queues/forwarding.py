"""Messages that died in a quorum queue, on their way elsewhere: at least once.

The leader's node takes the first of them, routes each, and has it leave the queue when all queues
that it was routed to have confirmed it. What is not confirmed, or has no route, is tried again a
while later, and until then it is kept. All this is forgotten with the lead: the next leader begins
anew with what the queue has, so that a message may come twice.

The tables of a node that leads since a moment ago may be older than those by which the messages
came: it first has them brought up to that moment. What was delayed and has no route is dropped only
when they are no older than when that was found.

Source: R-30, DL-02, DL-03, DL-10 to DL-14; `rabbit_fifo_dlx_worker` of RabbitMQ 4.3.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i32_le
from mypy_extensions import i32, i64, trait

from warren.log.batch import Batch
from warren.log.facts import failures_at
from warren.message.dead_letters import DeadLetter, DeadLetters
from warren.message.flavours import AMQP091, dead_letters_of, delayed_of
from warren.pending import PendingResult, Result
from warren.queues.fan_out import FanOut
from warren.queues.links import Fetching
from warren.queues.publishing import Publisher, PublishRun
from warren.queues.queue import Queue

if TYPE_CHECKING:
    from warren.queues.quorum import QuorumQueue

PREFETCH: Final = 32
"""So many dead letters of a queue are on their way at a time (DL-13)."""
TURN_MESSAGES: Final = 256
"""So many are sent in one turn."""
UNDERWAY_BYTES: Final = 16_777_216
"""No more of them are taken while those on their way take so much."""
BEHIND_LETTERS: Final = 1_024
"""With more than these left to send, publishers to their queue wait for some of them, ..."""
CATCH_UP_LETTERS: Final = 256
"""which are so many, before the next input of each, ..."""
CATCH_UP_MS_MAX: Final = 100
"""and no longer than this; nor if none has got to where it belongs for that time."""
RETRY_MS: Final = 1_000
"""A dead letter that did not get to where it belongs is tried again after this time, ..."""
RETRY_MS_MAX: Final = 60_000
"""and after twice the time before each time that follows, up to this."""


@trait
class Forwarder:
    """Routes dead letters that are to be confirmed."""

    @abstractmethod
    def targets(
        self, letter: DeadLetter, letters: DeadLetters, reason: i64, again: bool
    ) -> list[Queue]:
        """The queues to which the message goes that `letters` looked at last.

        Args:
            again: Whether it was tried before.
        """

    @abstractmethod
    def spent(self) -> bool:
        """Whether headers and routes took so much in this turn that the rest is for the next."""

    @abstractmethod
    def lacks(self) -> bool:
        """Whether it goes to one more, which this node does not have yet."""

    @abstractmethod
    def generation(self) -> i64:
        """As of which generation of routes they go there."""


@final
class OutgoingLetter(Publisher):
    """One dead letter on its way.

    Attributes:
        death: Its number among those of its queue.
        number: That of the message.
        reason: Why it died.
        failed: How often deliveries of it failed.
        size: What its record takes, while it is on its way.
        waiting: Queues that have not answered.
        again_ms: When it is tried again, in monotonic time.
        routed: As of which generation of routes it was sent the last time.
        lacks: Whether one of its queues is not here yet.
        full: Queues that had no room for it the last time.
        doubted: Whether it had no route, and the tables are asked whether that is so.
        sure: Whether they have answered: what it is routed by is no older than that.
    """

    def __init__(
        self, forwarding: Forwarding, death: i64, number: i64, reason: i64, failed: i64
    ) -> None:
        self.death: i64 = death
        self.number: i64 = number
        self.reason: i64 = reason
        self.failed: i64 = failed
        self.size: i64 = 0
        self.waiting: i64 = 0
        self.again_ms: i64 = 0
        self.routed: i64 = 0
        self.lacks: bool = False
        self.full: list[Queue] = []
        self.doubted: bool = False
        self.sure: bool = False
        self._forwarding: Forwarding = forwarding
        self._tries: i64 = 0
        self._targets: list[Queue] = []
        """Where it was sent the last time."""
        self._confirmed: dict[str, None] = {}
        """The queues that have it."""

    def send(self, targets: list[Queue], record: bytes, letter: DeadLetter, flavour: i64) -> None:
        """Put it into those queues that do not have it."""
        left: list[Queue] = []
        for target in targets:
            if target.name not in self._confirmed:
                left.append(target)
        self._tries += 1
        if not left:
            # Where it has no route any more, one that has it is enough.
            done = not self.lacks and (
                len(self._confirmed) > 0 or (self._forwarding.delays and self.sure)
            )
            if not done and self._forwarding.delays and not self.doubted:
                self.doubted = True
                self._forwarding.doubt(self)
            self._forwarding.answered(self, done)
            return
        self._targets = left
        self.full = []
        self.waiting = len(left)
        into = LetterFanOut(self, left, record, letter.persistent, flavour, letter.life_ms)
        if not into.go_on():
            self._forwarding.queue.host.do_in_parts(into)

    def settled(self, run: PublishRun) -> None:
        """A queue has it, or does not take it."""
        target = self._targets[run.first]
        self.waiting -= 1
        if run.rejected is not None:
            self.full.append(target)
        elif not (run.refused or target.deleted):
            self._confirmed[target.name] = None
            self._forwarding.has_room(target)
        if self.waiting == 0:
            confirmed = not self.lacks
            for each in self._targets:
                confirmed = confirmed and each.name in self._confirmed
            self._targets = []
            self._forwarding.answered(self, confirmed)

    def wait(self, now_ms: i64) -> i64:
        """Have it tried again, later each time; gives in how many milliseconds."""
        wait_ms: i64 = RETRY_MS
        tries = self._tries
        while tries > 1 and wait_ms < RETRY_MS_MAX:
            wait_ms *= 2
            tries -= 1
        wait_ms = min(wait_ms, RETRY_MS_MAX)
        self.again_ms = now_ms + wait_ms
        return wait_ms

    def tried(self) -> bool:
        """Whether it was sent before."""
        return self._tries > 0


@final
class LetterFanOut(FanOut):
    """A dead letter on its way into the queues that do not have it."""

    def __init__(
        self,
        outgoing: OutgoingLetter,
        queues: list[Queue],
        record: bytes,
        persistent: bool,
        flavour: i64,
        life_ms: i64,
    ) -> None:
        super().__init__(queues)
        size = BytesWriter()
        write_i32_le(size, i32(len(record)))
        self._outgoing: OutgoingLetter = outgoing
        self._record: bytes = record
        self._lengths: bytes = size.getvalue()
        self._persistent: bool = persistent
        self._flavour: i64 = flavour
        self._life_ms: i64 = life_ms
        self._number: i64 = 0

    def put(self, queues: list[Queue]) -> None:
        """Put it into some of the queues, each of which answers for itself."""
        for queue in queues:
            run = PublishRun(self._outgoing, self._number, 1, 1)
            self._number += 1
            queue.publish(
                self._record,
                self._lengths,
                1,
                self._persistent,
                run,
                self._flavour,
                self._life_ms,
                True,
            )


@final
class RoutesAsked(PendingResult):
    """A queue's node waits for its tables to be no older than when this was begun."""

    def __init__(self, forwarding: Forwarding, lead: i64) -> None:
        self._forwarding: Forwarding = forwarding
        self._lead: i64 = lead

    def succeeded(self, result: Result) -> None:
        """They are not."""
        self._forwarding.routes_known(self._lead)


@final
class Forwarding(Fetching):
    """A quorum queue's dead letters, as its leader's node sees to them.

    Attributes:
        queue: Where they died.
        exchange, key: Where they go; without a key of the queue's, by their own.
        delays: Whether they have waited for their time only: what has no route then is dropped.
        prefetch: How many may be on their way at a time.
        due: Whether the node is going to call `carry`.
        looked_at: As of which generation of routes the node has looked at where they go.
        told: What was said of why they do not get on, since all of them last did.
    """

    def __init__(self, queue: QuorumQueue, delays: bool = False) -> None:
        self.queue: QuorumQueue = queue
        self.delays: bool = delays
        self.exchange: str = ""
        self.key: str | None = None
        self.prefetch: i64 = PREFETCH
        self.due: bool = False
        self.looked_at: i64 = 0
        self.told: dict[str, None] = {}
        self._letters: DeadLetters = self._letters_for(AMQP091)
        self._flavour: i64 = AMQP091
        self._underway: dict[int, OutgoingLetter] = {}
        """By death, those that were taken and have not left the queue."""
        self._failed: dict[int, OutgoingLetter] = {}
        """Those of them that are to be tried again."""
        self._bytes: i64 = 0
        self._next: i64 = 0
        """The first death that was not taken."""
        self._waiting: bool = False
        """Whether a message is being read."""
        self._routes_changed: i64 = 0
        """Since which generation of routes they may go elsewhere, as far as that was told."""
        self._lead: i64 = 0
        """Which time it is that this node leads."""
        self._knows: bool = False
        """Whether the tables are no older than that."""
        self._asks: bool = False
        """Whether it is waited for tables that are no older than now."""
        self._asked: list[OutgoingLetter] = []
        """Those whose routes that is about."""
        self._doubtful: list[OutgoingLetter] = []
        """Those that have found no route since."""
        self._arrived: i64 = 0
        """How many have got to where they belong."""
        self._arrived_ms: i64 = -CATCH_UP_MS_MAX
        """When the last of them did, in monotonic time."""
        self._catch_up: i64 = -1
        """Until how many have, publishers wait; negative while none does."""
        self._catch_up_ms: i64 = 0
        """Since when they wait."""
        self._full: dict[Queue, None] = {}
        """Queues that had no room for some of them, as far as is known."""

    def _letters_for(self, flavour: i64) -> DeadLetters:
        return delayed_of(flavour) if self.delays else dead_letters_of(flavour, self.queue.name)

    def aim(self, exchange: str, key: str | None) -> None:
        """Have them go through an exchange from now on; what was in vain is tried again."""
        if exchange != self.exchange or key != self.key:
            self.exchange = exchange
            self.key = key
            self._letters.aim(exchange, key)
            self.told = {}
        self.hurry()

    def hurry(self) -> None:
        """Something may be otherwise than before: try at once what was in vain."""
        for outgoing in self._failed.values():
            outgoing.again_ms = 0
        self.go_on()

    def look_for_room(self) -> None:
        """Have one of them tried again for each queue that had no room and may have some now.

        If that gets there, all others are tried again that the queue had no room for.
        """
        tried = False
        for queue in list(self._full):
            found: OutgoingLetter | None = None
            for outgoing in self._failed.values():
                if queue in outgoing.full:
                    found = outgoing
                    break
            if queue.deleted or found is None:
                del self._full[queue]
            elif not queue.is_full():
                found.again_ms = 0
                tried = True
        if tried:
            self.go_on()

    def has_room(self, queue: Queue) -> None:
        """A queue has taken one of them: try those again at once that it had no room for."""
        if queue not in self._full:
            return
        del self._full[queue]
        for outgoing in self._failed.values():
            if queue in outgoing.full:
                outgoing.again_ms = 0
        self.go_on()

    def routes_changed(self, generation: i64) -> None:
        """They may go elsewhere than before a generation: try again what was in vain until then."""
        if generation <= self._routes_changed:
            return
        self._routes_changed = generation
        for outgoing in self._failed.values():
            if outgoing.routed < generation:
                outgoing.again_ms = 0
        self.go_on()

    def anew(self) -> None:
        """Begin with the first of what the queue has: nothing is known of what became of it."""
        self._underway = {}
        self._failed = {}
        self._full = {}
        self._bytes = 0
        self._next = 0
        self._lead += 1
        self._knows = False
        self._asks = False
        self._asked = []
        self._doubtful = []
        self.go_on()

    def go_on(self) -> None:
        """Ask the node to carry on, if there is something to do."""
        if not self.due and not self._waiting and self.queue.forwards() and self._wants():
            self.due = True
            self.queue.host.queue_forwards(self)

    def _wants(self) -> bool:
        """Whether there is something to send now, or to ask."""
        if self._asks and not self._knows:
            return False
        if self._doubtful and not self._asks:
            return True
        discards = self.queue.fifo.discards
        if self._has_room() and self._next < self.queue.safe_deaths() and discards.count > 0:
            return True
        now_ms: i64 = self.queue.host.monotonic_ms()
        for outgoing in self._failed.values():
            if outgoing.again_ms <= now_ms:
                return True
        return False

    def doubt(self, outgoing: OutgoingLetter) -> None:
        """One of them has no route, by tables that may be old."""
        self._doubtful.append(outgoing)

    def asks_routes(self) -> RoutesAsked | None:
        """What is to be told when the tables are no older than now, if anything is."""
        if self._asks or not self.queue.forwards() or (self._knows and not self._doubtful):
            return None
        self._asks = True
        self._asked = self._doubtful
        self._doubtful = []
        return RoutesAsked(self, self._lead)

    def routes_known(self, lead: i64) -> None:
        """The tables are no older than when that was asked."""
        if lead != self._lead:
            return
        self._knows = True
        self._asks = False
        for outgoing in self._asked:
            outgoing.sure = True
            outgoing.again_ms = 0
        self._asked = []
        self.go_on()

    def catching_up(self) -> bool:
        """Whether publishers wait until more have got to where they belong; some, and some time.

        Each goes to the disk a few at a time, and messages in as many as clients have: what dies
        faster than it goes on would be read back from the disk by the time it does.
        """
        if self._failed or self.queue.fifo.discards.count < BEHIND_LETTERS:
            self._catch_up = -1
            return False
        now_ms: i64 = self.queue.host.monotonic_ms()
        if self._catch_up < 0:
            if now_ms - self._arrived_ms >= CATCH_UP_MS_MAX:
                return False
            self._catch_up = self._arrived + CATCH_UP_LETTERS
            self._catch_up_ms = now_ms
            return True
        if self._arrived < self._catch_up and now_ms - self._catch_up_ms < CATCH_UP_MS_MAX:
            return True
        self._catch_up = -1
        return False

    def _has_room(self) -> bool:
        return len(self._underway) < self.prefetch and self._bytes < UNDERWAY_BYTES

    def underway(self) -> i64:
        """How many are on their way, or are to be tried again."""
        return len(self._underway)

    def resume(self) -> None:
        """A message was read."""
        self._waiting = False
        self.go_on()

    def answered(self, outgoing: OutgoingLetter, confirmed: bool) -> None:
        """One of them is where it belongs, or is not."""
        if self._underway.get(int(outgoing.death)) is not outgoing:
            # Another node led meanwhile.
            return
        self._bytes -= outgoing.size
        outgoing.size = 0
        if confirmed:
            del self._underway[int(outgoing.death)]
            self._arrived += 1
            self._arrived_ms = self.queue.host.monotonic_ms()
            self.queue.forwarded(outgoing.death, outgoing.death)
            if not self.delays:
                self.queue.host.dead_letter_confirmed(self.queue)
            if self.told and not self._failed:
                self.told = {}
        else:
            self._failed[int(outgoing.death)] = outgoing
            for queue in outgoing.full:
                self._full[queue] = None
            wait_ms = outgoing.wait(self.queue.host.monotonic_ms())
            if outgoing.routed < self._routes_changed:
                outgoing.again_ms = 0
            else:
                self.queue.host.queue_later(self.queue, wait_ms)
        self.go_on()

    def mind(self) -> None:
        """Time has passed: try again what is to be, and ask to be called for the rest."""
        if not self.queue.forwards():
            return
        self.go_on()
        now_ms: i64 = self.queue.host.monotonic_ms()
        next_ms: i64 = -1
        for outgoing in self._failed.values():
            if outgoing.again_ms > now_ms and (next_ms < 0 or outgoing.again_ms < next_ms):
                next_ms = outgoing.again_ms
        if next_ms >= 0:
            self.queue.host.queue_later(self.queue, next_ms - now_ms)

    def carry(self, forwarder: Forwarder) -> None:
        """Send what is to be tried again, and more as far as there is room."""
        queue = self.queue
        if not queue.forwards() or not self._knows:
            return
        now_ms: i64 = queue.host.monotonic_ms()
        discards = queue.fifo.discards
        left: i64 = TURN_MESSAGES
        for outgoing in list(self._failed.values()):
            if outgoing.again_ms > now_ms or left == 0 or forwarder.spent():
                continue
            left -= 1
            kept, _ = discards.from_death(outgoing.death)
            if kept is None or kept.key != outgoing.death:
                # Somebody purged the queue.
                self._forget(outgoing)
            elif queue.gone_up_to(outgoing.number) >= outgoing.number:
                self._forget(outgoing)
                queue.forwarded(outgoing.death, outgoing.death)
            elif not self._send(outgoing, forwarder):
                return
        safe = queue.safe_deaths()
        while left > 0 and self._has_room() and not forwarder.spent():
            left -= 1
            run, reason = discards.from_death(self._next)
            if run is None or run.key >= safe:
                self._next = max(self._next, safe)
                return
            gone = queue.gone_up_to(run.first)
            if gone >= run.first:
                count = min(gone - run.first + 1, min(run.count, safe - run.key))
                queue.forwarded(run.key, run.key + count - 1)
                self._next = run.key + count
                continue
            outgoing = OutgoingLetter(self, run.key, run.first, reason, run.failed)
            if not self._send(outgoing, forwarder):
                return

    def _forget(self, outgoing: OutgoingLetter) -> None:
        del self._failed[int(outgoing.death)]
        del self._underway[int(outgoing.death)]

    def _send(self, outgoing: OutgoingLetter, forwarder: Forwarder) -> bool:
        """Send one of them; False if it has to be read first."""
        batch = self.queue.batch_of(outgoing.number)
        if batch is None:
            self._waiting = True
            self.queue.fetch(outgoing.number, self)
            return False
        self._underway[int(outgoing.death)] = outgoing
        self._failed.pop(int(outgoing.death), None)
        self._next = max(self._next, outgoing.death + 1)
        letters = self._letters_of(batch)
        record = batch.record(outgoing.number - batch.first)
        failed = outgoing.failed - failures_at(batch.facts, outgoing.number - batch.first)
        letter = letters.make(record, outgoing.reason, failed, self.queue.host.now_ms())
        targets = forwarder.targets(letter, letters, outgoing.reason, outgoing.tried())
        outgoing.routed = forwarder.generation()
        outgoing.lacks = forwarder.lacks()
        dead = letters.record() if targets else b""
        outgoing.size = len(dead)
        self._bytes += outgoing.size
        outgoing.send(targets, dead, letter, letters.flavour)
        return True

    def _letters_of(self, batch: Batch) -> DeadLetters:
        if batch.flavour != self._flavour:
            self._flavour = batch.flavour
            self._letters = self._letters_for(batch.flavour)
            self._letters.aim(self.exchange, self.key)
        return self._letters
