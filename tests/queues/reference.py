"""A queue by its rules alone, message by message, which machines are held against.

Everything lies in plain lists and dicts, is looked for from the beginning each time, and is done in
one go. What is said here is what the rules say (docs/rules.md, and `rabbit_fifo` where they are
silent); nothing of `warren.queues` is used, so that a mistake there is not made here, too.

A command is a method. `settle_down` has behind each entry what follows from it: what has waited is
ready, what has expired dies, who waits is served, what there is no room for goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = "rejected", "expired", "maxlen", "delivery_limit"

FORGOTTEN, AT_MOST_ONCE, AT_LEAST_ONCE = "forgotten", "at-most-once", "at-least-once"

SERVED, WAITING, QUIESCING, TIMED_OUT = "served", "waiting", "quiescing", "timed out"

NORMAL = 4
"""The priority of a quorum queue's message without one."""


@dataclass(eq=False)
class Message:
    """One message.

    Attributes:
        number: Its place among all that came.
        size: Its bytes.
        expires_ms: When it does; 0 for never.
        priority: By which it goes.
        acquired, failed: How often it came back, and how often a delivery failed.
    """

    number: int
    size: int
    expires_ms: int
    priority: int
    acquired: int = 0
    failed: int = 0


@dataclass(eq=False)
class Consumer:
    """Somebody who is handed messages.

    Attributes:
        prefetch: How many it may hold.
        timeout_ms: How long it may hold each; negative for ever.
        active: Whether it wants more; a poll does not.
        held: Messages by id, with when it got them.
        late: Ids that were taken from it for its timeout, and that it has not settled.
    """

    id: int
    session: int
    prefetch: int
    priority: int = 0
    automatic: bool = False
    timeout_ms: int = -1
    active: bool = True
    suspected: bool = False
    standing: str = SERVED
    next_mid: int = 0
    held: dict[int, tuple[Message, int]] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)

    @property
    def credit(self) -> int:
        """How many more it may be given."""
        return self.prefetch - len(self.held)

    def willing(self) -> bool:
        """Whether it may be handed a message."""
        served = self.standing == SERVED and not self.suspected
        return self.active and served and self.credit > 0


@dataclass
class Settings:
    """How the queue is set up; negative is no limit."""

    delivery_limit: int = -1
    failures: bool = False
    ttl_ms: int = -1
    expires_ms: int = -1
    length: int = -1
    size: int = -1
    rejects: bool = False
    single: bool = False
    max_priority: int = 0
    ranking: str = ""
    dead: str = FORGOTTEN
    retry: str = "disabled"
    retry_min_ms: int = 1
    retry_max_ms: int = 1


class Reference:
    """The queue.

    Attributes:
        fresh: What was never handed out, and what went to the back, in order.
        returned: What came back: in order, in a classic queue by number.
        delayed: What came back and waits: (until when, message).
        dead: Dead letters that are kept, by death: (why, message, failures).
        line: Consumers with room, in the order of their turns.
        deliveries: What was handed out: consumer, id, number, times it came back, times that count.
        died: What went elsewhere: why, number, failures.
        told: Consumers that held something for too long.
        gone: Numbers of messages that have left.
    """

    def __init__(self, classic: bool) -> None:
        self.classic = classic
        self.settings = Settings()
        self.now_ms = 0
        self.used_ms = 0
        self.next_number = 0
        self.next_death = 0
        self.dropped = 0
        self.turn = 0
        self.blocked = False
        self.fresh: list[Message] = []
        self.returned: list[Message] = []
        self.delayed: list[tuple[int, Message]] = []
        self.dead: dict[int, tuple[str, Message, int]] = {}
        self.consumers: dict[int, Consumer] = {}
        self.line: list[Consumer] = []
        self.suspects: set[int] = set()
        self.deliveries: list[tuple[int, int, int, int, int]] = []
        self.died: list[tuple[str, int, int]] = []
        self.told: list[int] = []
        self.gone: list[int] = []
        self._crowded = False
        self._at_once = False
        """Whether messages came that are for those only who wait now."""

    # --- what there is --------------------------------------------------------------------------

    def ready(self) -> list[Message]:
        """All that waits for a consumer, in the order in which it would go if nothing came."""
        if not self.classic:
            return self.returned + self.by_priority(self.fresh)
        return sorted(self.returned + self.fresh, key=lambda m: (-m.priority, m.number))

    @staticmethod
    def by_priority(messages: list[Message]) -> list[Message]:
        """Messages, those of the highest priority first."""
        return sorted(messages, key=lambda message: -message.priority)

    def held(self) -> list[Message]:
        """All that consumers hold."""
        return [message for c in self.consumers.values() for message, _ in c.held.values()]

    def waiting(self) -> list[Message]:
        """All that waits before it is ready again, in order."""
        return [message for _, message in sorted(self.delayed, key=lambda d: (d[0], d[1].number))]

    def kept(self) -> list[Message]:
        """All dead letters that are kept."""
        return [message for _, message, _ in self.dead.values()]

    def everything(self) -> list[Message]:
        """All messages there are."""
        return self.ready() + self.held() + self.waiting() + self.kept()

    def unused_since(self) -> int:
        """Since when nobody uses it; -1 if somebody does."""
        return -1 if any(not c.suspected for c in self.consumers.values()) else self.used_ms

    def next_expiry(self) -> int:
        """When a message expires that nothing stands before, or has waited; 0 for never."""
        heads = [queue[0].expires_ms for queue in self._heads() if queue]
        times = [ms for ms in heads if ms] + [due for due, _ in self.delayed]
        return min(times, default=0)

    def locked_until(self) -> int:
        """When the first message will have been held for too long; 0 for never."""
        times = [
            since + consumer.timeout_ms
            for consumer in self.consumers.values()
            for _, since in consumer.held.values()
            if consumer.timeout_ms >= 0
        ]
        return min(times, default=0)

    # --- which message is next ------------------------------------------------------------------

    def _heads(self) -> list[list[Message]]:
        """The lines at whose heads messages expire: each of a quorum queue, one in a classic."""
        if self.classic:
            return [self.ready()]
        priorities = sorted({message.priority for message in self.fresh}, reverse=True)
        fresh = [[m for m in self.fresh if m.priority == priority] for priority in priorities]
        return [self.returned, *fresh]

    def _levels(self) -> list[list[Message]]:
        """The higher and the lower one of two levels, of what was never handed out."""
        high = [message for message in self.fresh if message.priority]
        return [high, [message for message in self.fresh if not message.priority]]

    def first(self) -> Message:
        """The message that is next; there must be one."""
        high, normal = self._levels()
        if self.settings.ranking == "fair" and not self.returned and high and normal:
            # Two of the higher level, then one of the lower unless a higher one is older.
            return high[0] if self.turn < 2 or high[0].number < normal[0].number else normal[0]
        return self.ready()[0]

    def take(self) -> Message:
        """Take it."""
        message = self.first()
        if self.settings.ranking == "fair" and not self.returned:
            self.turn = self.turn + 1 if all(self._levels()) and self.turn < 2 else 0
        self._remove(message)
        return message

    def _remove(self, message: Message) -> None:
        (self.returned if message in self.returned else self.fresh).remove(message)

    # --- what follows from an entry -------------------------------------------------------------

    def settle_down(self) -> None:
        """Do all there is to do."""
        while True:
            before = len(self.deliveries), len(self.gone), len(self.died), len(self.dead)
            self.end_waits()
            self.hand_out()
            if self._at_once:
                self._at_once = False
                if self.settings.length == 0:
                    # For want of room a message goes when it comes, expired or not.
                    self.make_room()
                self.expire()
            self.make_room()
            if before == (len(self.deliveries), len(self.gone), len(self.died), len(self.dead)):
                break
        self.notice_room()

    def end_waits(self) -> None:
        """What has waited long enough is ready, behind what returned before."""
        for message in self.waiting():
            if any(due <= self.now_ms for due, each in self.delayed if each is message):
                self.delayed = [each for each in self.delayed if each[1] is not message]
                self.returned.append(message)

    def hand_out(self) -> None:
        """Serve whoever has room, one message at a time in turn."""
        if self.settings.single:
            self.elect()
        if any(due <= self.now_ms for due, _ in self.delayed):
            return
        if self._crowded:
            # What returned to a full classic queue has to find room first.
            self._drop()
            self._crowded = False
        self.expire()
        while self.fresh or self.returned:
            consumer = max(self.line, key=lambda each: each.priority, default=None)
            if consumer is None:
                return
            self.give(consumer)
            self.line.remove(consumer)
            if consumer.willing():
                self.line.append(consumer)
            self.expire()

    def give(self, consumer: Consumer) -> tuple[int, int, int, int, int]:
        """Hand the next message to a consumer; gives what is told of that."""
        told = self._hold(consumer, self.take())
        self.deliveries.append(told)
        return told

    def _hold(self, consumer: Consumer, message: Message) -> tuple[int, int, int, int, int]:
        mid = consumer.next_mid
        consumer.next_mid += 1
        consumer.held[mid] = (message, self.now_ms)
        counted = message.failed if self.settings.failures else message.acquired
        return (consumer.id, mid, message.number, message.acquired, counted)

    def expire(self) -> None:
        """What has expired at a head dies."""
        now_ms = self.now_ms - 1 if self._at_once else self.now_ms
        found = True
        while found:
            found = False
            for queue in self._heads():
                head = queue[0] if queue else None
                if head is not None and 0 < head.expires_ms <= now_ms:
                    found = True
                    self.dropped += 1
                    self._remove(head)
                    self.die(EXPIRED, head, head.failed)
                    break

    def make_room(self) -> None:
        """Drop the first messages, where that is how the queue is limited."""
        if not self.settings.rejects and not any(due <= self.now_ms for due, _ in self.delayed):
            self._drop()

    def _drop(self) -> None:
        while self.is_over():
            if self.fresh or self.returned:
                message = self.take()
            else:
                message = self.waiting()[0]
                self.delayed = [each for each in self.delayed if each[1] is not message]
            self.dropped += 1
            self.die(MAXLEN, message, message.failed)

    def counted(self) -> tuple[int, int]:
        """Messages that a limit is for, and their bytes."""
        found = self.ready() + self.waiting()
        if self.settings.rejects:
            found += self.kept()
        return len(found), sum(message.size for message in found)

    def is_over(self) -> bool:
        """Whether there is more than there may be."""
        count, size = self.counted()
        return 0 <= self.settings.length < count or 0 <= self.settings.size < size

    def notice_room(self) -> None:
        """Publishers are told at the limit, and again at four fifths of it."""
        settings = self.settings
        count, size = self.counted()
        limited = settings.length >= 0 or settings.size >= 0
        if self.classic or not settings.rejects or not limited:
            self.blocked = False
        elif self.is_over():
            self.blocked = True
        elif self.blocked:
            short = settings.length < 0 or count <= settings.length * 8 // 10
            small = settings.size < 0 or size <= settings.size * 8 // 10
            self.blocked = not (short and small)

    def elect(self) -> None:
        """Find out whose turn it is at being the one that is served."""
        there = [c for c in self.consumers.values() if c.active]
        before = next((c for c in there if c.standing in (SERVED, QUIESCING)), None)
        if before is not None and (before.standing == QUIESCING or before.suspected):
            if before.held:
                return
            self._stand(before, WAITING)
            before = None
        waiting = [c for c in there if c.standing == WAITING and not c.suspected]
        best = max(
            waiting, key=lambda c: (c.priority, 0 if self.classic else c.credit), default=None
        )
        if before is None:
            if best is not None:
                self._stand(best, SERVED)
        elif not self.classic and best is not None and best.priority > before.priority:
            self._stand(before, QUIESCING if before.held else WAITING)
            if before.standing == WAITING:
                self._stand(best, SERVED)

    def _stand(self, consumer: Consumer, standing: str) -> None:
        """A consumer is served from now on, or not."""
        consumer.standing = standing
        self._line_up(consumer)

    def _line_up(self, consumer: Consumer) -> None:
        """A consumer stands in line if it can be served, where it stood or behind all others."""
        if consumer in self.line and not consumer.willing():
            self.line.remove(consumer)
        elif consumer not in self.line and consumer.willing():
            self.line.append(consumer)

    # --- commands -------------------------------------------------------------------------------

    def enqueue(
        self, each: Iterable[tuple[int, int | None]], life_ms: int, failed: int = 0
    ) -> None:
        """Messages of these sizes and priorities arrive, that live so long at most.

        Without any time to live they are for those who wait: in a classic queue now, and in a
        quorum queue until time goes on.

        Args:
            failed: How often deliveries of them failed elsewhere.
        """
        lives = [ms for ms in (life_ms, self.settings.ttl_ms) if ms >= 0]
        least = 0 if self.classic else 1
        expires_ms = self.now_ms + max(least, min(lives)) if lives else 0
        self._at_once = self.classic and 0 in lives
        rank = 0
        for at, (size, priority) in enumerate(each):
            if at > 0 and self._rank(priority) != rank and self.line:
                # Who waits has each as it comes, whatever comes behind it.
                self.hand_out()
            rank = self._rank(priority)
            message = Message(self.next_number, size, expires_ms, rank, failed=failed)
            self.fresh.append(message)
            self.next_number += 1

    def _rank(self, priority: int | None) -> int:
        """What a message goes by."""
        settings = self.settings
        if self.classic:
            return min(priority or 0, settings.max_priority)
        if settings.ranking == "fair":
            return int(priority is not None and priority > NORMAL)
        if settings.ranking == "strict":
            return min(NORMAL if priority is None else priority, 31)
        return 0

    def rank(self, ranking: str) -> None:
        """From now on messages go by priorities; those that are there have none."""
        if not self.settings.ranking:
            self.settings.ranking = ranking
            for message in self.everything():
                message.priority = self._rank(None)

    def attach(self, consumer: Consumer) -> None:
        """A consumer arrives."""
        consumer.suspected = consumer.session in self.suspects
        consumer.standing = WAITING if self.settings.single else SERVED
        self.consumers[consumer.id] = consumer
        self._line_up(consumer)

    def serve_one(self) -> None:
        """From now on one at a time is served."""
        if not self.settings.single:
            self.settings.single = True
            for consumer in self.consumers.values():
                if consumer.active and consumer.standing != TIMED_OUT:
                    self._stand(consumer, WAITING)

    def cancel(self, consumer_id: int) -> None:
        """A consumer wants no more."""
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            consumer.active = False
            consumer.late = set()
            self._line_up(consumer)
            self._forget_idle(consumer)

    def _forget_idle(self, consumer: Consumer) -> None:
        if not consumer.active and not consumer.held and consumer.id in self.consumers:
            del self.consumers[consumer.id]
            self.used_ms = self.now_ms

    def _release(self, consumer_id: int, first: int, last: int) -> list[Message]:
        """A consumer gives up ids; it may be served again for that."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            return []
        mids = [mid for mid in sorted(consumer.held) if first <= mid <= last]
        taken = [consumer.held.pop(mid)[0] for mid in mids]
        self._line_up(consumer)
        self._forget_idle(consumer)
        if consumer.active and consumer.standing == TIMED_OUT:
            consumer.late -= set(range(first, last + 1))
            if not consumer.late:
                self._stand(consumer, WAITING if self.settings.single else SERVED)
        return taken

    def settle(self, consumer_id: int, first: int, last: int) -> None:
        """Messages are done with."""
        self.gone += [message.number for message in self._release(consumer_id, first, last)]

    def discard(self, consumer_id: int, first: int, last: int, failed: bool) -> None:
        """Messages were rejected for good."""
        for message in self._release(consumer_id, first, last):
            self.die(REJECTED, message, message.failed + failed)

    def return_(self, consumer_id: int, first: int, last: int, failed: bool) -> None:
        """Messages go back."""
        self._come_back(self._release(consumer_id, first, last), failed, given=True)

    def down(self, consumer_ids: list[int], failed: bool = True) -> None:
        """Consumers are gone at once; what they held returns, the oldest first where they share."""
        held: list[list[Message]] = []
        for consumer_id in consumer_ids:
            consumer = self.consumers.pop(consumer_id, None)
            if consumer is None:
                continue
            self.used_ms = self.now_ms
            consumer.active = False
            self._line_up(consumer)
            messages = [consumer.held[mid][0] for mid in sorted(consumer.held)]
            if consumer.automatic:
                self.dropped += len(messages)
                self.gone += [message.number for message in messages]
            else:
                held.append(messages)
        back: list[Message] = []
        while any(held):
            first = min((one for one in held if one), key=lambda one: one[0].number)
            back.append(first.pop(0))
        self._come_back(back, failed)

    def _come_back(self, messages: list[Message], failed: bool, given: bool = False) -> None:
        """Messages return, but for those past their limit."""
        settings = self.settings
        for message in messages:
            message.failed += failed
            counted = message.failed if settings.failures else message.acquired + 1
            if 0 <= settings.delivery_limit < counted:
                self.dropped += 1
                self.die(DELIVERY_LIMIT, message, message.failed)
                continue
            message.acquired += 1
            if not self.classic and settings.retry in ("all", "failed" if failed else "returned"):
                wait_ms = settings.retry_min_ms * max(1, message.failed)
                due = self.now_ms + min(wait_ms, settings.retry_max_ms)
                self.delayed.append((due, message))
            elif self.classic:
                self.returned.append(message)
                self.returned.sort(key=lambda each: each.number)
                self._crowded = True
            elif settings.delivery_limit >= 0 or (
                settings.failures and (not given or settings.ranking == "strict")
            ):
                self.returned.append(message)
            else:
                self.fresh.append(message)
        if settings.rejects or (settings.length < 0 and settings.size < 0):
            self._crowded = False

    def die(self, reason: str, message: Message, failed: int) -> None:
        """A message is not for anybody here any more."""
        if self.settings.dead == AT_LEAST_ONCE:
            self.dead[self.next_death] = (reason, message, failed)
            self.next_death += 1
            return
        if self.settings.dead == AT_MOST_ONCE:
            self.died.append((reason, message.number, failed))
        self.gone.append(message.number)

    def delivered(self, first: int, last: int) -> None:
        """Dead letters are where they belong."""
        for death in [death for death in self.dead if first <= death <= last]:
            self.gone.append(self.dead.pop(death)[1].number)

    def dead_letter(self, strategy: str) -> None:
        """What dies goes elsewhere otherwise; what was kept, and is not to be, goes nowhere."""
        self.settings.dead = strategy
        if strategy != AT_LEAST_ONCE:
            self._forget_dead()

    def _forget_dead(self) -> None:
        self.gone += [message.number for message in self.kept()]
        self.dead = {}

    def get(self, consumer: Consumer) -> tuple[int, int, int, int, int] | None:
        """One message for a channel that polls."""
        self.used_ms = self.now_ms
        self.expire()
        if not self.fresh and not self.returned:
            return None
        return self._poll(consumer, self.take())

    def pick(self, consumer: Consumer, number: int) -> tuple[int, int, int, int, int] | None:
        """One message by its number, from between others that stay as they are."""
        self.used_ms = self.now_ms
        self.expire()
        for message in self.ready():
            if message.number == number:
                if 0 < message.expires_ms <= self.now_ms:
                    return None
                self._remove(message)
                return self._poll(consumer, message)
        return None

    def _poll(self, consumer: Consumer, message: Message) -> tuple[int, int, int, int, int]:
        """A channel that polls has a message."""
        found = self.consumers.setdefault(consumer.id, consumer)
        found.active = False
        found.suspected = found.session in self.suspects
        told = self._hold(found, message)
        if self.classic:
            self.expire()
        return told

    def purge(self) -> int:
        """All goes that nobody holds; gives how much that was."""
        numbers = [message.number for message in self.ready() + self.waiting() + self.kept()]
        self.gone += numbers
        self.fresh, self.returned, self.delayed, self.dead = [], [], [], {}
        return len(numbers)

    def suspect(self, session: int) -> None:
        """Nobody hears a node: its consumers keep what they hold, and get nothing more."""
        if session not in self.suspects:
            self.suspects.add(session)
            self.used_ms = self.now_ms
            self._mark(session, True)

    def trust(self, session: int) -> None:
        """It is heard again."""
        if session in self.suspects:
            self.suspects.discard(session)
            self._mark(session, False)

    def _mark(self, session: int, suspected: bool) -> None:
        for consumer in self.consumers.values():
            if consumer.session == session:
                consumer.suspected = suspected
                self._line_up(consumer)

    def close(self, session: int, lost: bool) -> None:
        """A node's consumers are gone."""
        self.suspects.discard(session)
        gone = [each.id for each in self.consumers.values() if each.session == session]
        self.down(gone, not lost)

    def time_out(self) -> None:
        """What was held for too long returns, and whoever held it gets nothing more for now."""
        for consumer in list(self.consumers.values()):
            if consumer.timeout_ms < 0:
                continue
            due = self.now_ms - consumer.timeout_ms
            late = [mid for mid, (_, since) in consumer.held.items() if since <= due]
            if not late:
                continue
            self.told.append(consumer.id)
            if consumer.active:
                consumer.late |= set(late)
                self._stand(consumer, TIMED_OUT)
            self._come_back([consumer.held.pop(mid)[0] for mid in late], failed=False)
            self._forget_idle(consumer)

    def doubt(self) -> None:
        """What is ready may have been handed out before."""
        for message in self.fresh + self.returned:
            message.acquired = max(message.acquired, 1)

    def restart(self, lost: Callable[[Message], bool]) -> None:
        """A classic queue's node was killed: all there is is ready, and may have been seen."""
        self.fresh = sorted(self.ready() + self.held(), key=lambda message: message.number)
        self.fresh = [message for message in self.fresh if not lost(message)]
        self.returned, self.consumers, self.line, self.died = [], {}, [], []
        self._crowded = False
        for message in self.fresh:
            message.acquired, message.failed = 1, 0
