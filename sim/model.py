"""What the simulated clients know: messages, their copies in queues, and who holds one."""

from __future__ import annotations

from collections import deque
from typing import final

# What became of a publish, as far as its publisher was told.
SENT = 0
CONFIRMED = 1
REFUSED = 2
RETURNED = 3
UNCOMMITTED = 4
ROLLED_BACK = 5

STATUS_NAMES = ("sent", "confirmed", "refused", "returned", "uncommitted", "rolled back")

# Whether a copy left its queue.
WAITING = 0
SETTLED_MAYBE = 1
"""Someone asked for it, but the node need not have heard."""
SETTLED = 2
"""The node has taken the settlement; a crash may still undo it."""
SETTLED_FOR_GOOD = 3
"""Something behind it in the log is known to be durable."""


NEVER = 1 << 60
"""A step that no run comes to."""


class Violation(Exception):
    """The node broke a promise."""


@final
class Message:
    """One publish.

    Attributes:
        id: Unique in a run; the body names it.
        channel: The publishing channel; a new one each time a channel is opened.
        sequence: Its place among the publishes of its channel.
        life, turn, step: The node's life and turn, and the run's step, when its last byte was
            handed to the node; -1 before.
        site: Which node of a cluster that was.
        priority: What it was published with.
        sent_ms: When, in virtual time.
        status: One of the constants above.
        copies: One for each queue it goes to.
    """

    __slots__ = (
        "channel",
        "copies",
        "id",
        "life",
        "persistent",
        "priority",
        "sent_ms",
        "sequence",
        "site",
        "size",
        "status",
        "step",
        "turn",
    )

    def __init__(
        self, number: int, channel: int, sequence: int, size: int, persistent: bool
    ) -> None:
        self.id = number
        self.channel = channel
        self.sequence = sequence
        self.size = size
        self.persistent = persistent
        self.priority = 0
        self.sent_ms = 0
        self.life = -1
        self.site = ""
        self.turn = -1
        self.step = -1
        self.status = SENT
        self.copies: list[Copy] = []

    def __str__(self) -> str:
        kind = "persistent" if self.persistent else "transient"
        return (
            f"message {self.id} ({kind}, channel {self.channel} #{self.sequence}, "
            f"{STATUS_NAMES[self.status]}, handed over in life {self.life} at step {self.step})"
        )


@final
class Copy:
    """One message in one queue.

    Attributes:
        seen: How often a client was given it.
        rejected: How often it came again because a client rejected it, as far as that is certain.
        rejected_before: The same, before the node's life of `rejected_life`, in which it came last.
        held_in: What `Stage.era` was when it was given to a client.
        rejecting: The same if that client has rejected it since, and its node knows; else -1.
        holder: Who was given it last and has not settled it.
        settled: One of the constants above.
        settled_life: The node's life in which it was settled.
    """

    __slots__ = (
        "held_in",
        "holder",
        "message",
        "queue",
        "rejected",
        "rejected_before",
        "rejected_life",
        "rejecting",
        "seen",
        "settled",
        "settled_life",
    )

    def __init__(self, message: Message, queue: QueueState) -> None:
        self.message = message
        self.queue = queue
        self.seen = 0
        self.rejected = 0
        self.rejected_before = 0
        self.rejected_life = -1
        self.held_in = -1
        self.rejecting = -1
        self.holder: Holder | None = None
        self.settled = WAITING
        self.settled_life = -1

    def survives_restart(self) -> bool:
        """Whether the message is one that outlives the node's process in this queue."""
        if self.queue.kind == "quorum":
            return True
        return self.queue.durable and self.message.persistent


@final
class QueueState:
    """One queue, as clients know it.

    Attributes:
        kind: `quorum` or `classic`.
        durable: Whether it outlives the node's process.
        delivery_limit: How often a delivery of a message may fail; negative for ever.
        own_limit: Whether it is declared with that.
        retry_ms: For how long what returns waits, for each failure; 0 for not at all.
        most, most_bytes: How many ready messages it may have, and bytes of them, before it rejects
            publishes; negative for ever.
        drops: Whether it drops its first messages instead.
        max_priority: The highest priority of its messages, if it is a classic one with priorities.
        volatile: Whether clients delete it now and then.
        single: Whether it lives on one node of a cluster, and cannot be used while that is away.
        timeout_ms: How long its consumers may hold a message; negative for ever.
        single_active: Whether one consumer at a time is served.
        active: The one that was, as far as clients can know.
        came: Its consumers' subscriptions so far, oldest first.
        lost: Whether the machine that it lived on is lost for good.
        copies: Every message that was ever published to it.
        cleared_step: Messages handed over before this step may have been purged or deleted.
        cleared_turn: Messages handed over up to this turn may have been taken by a purge or delete
            that was never answered.
        doomed: Whether a deletion that no client is told of may still be carried out.
        taken_step: Messages handed over up to this step may have gone with it, by such a deletion.
        unsure_step: Messages handed over up to this step may have been handed to somebody who was
            gone before they came, and be `redelivered` though nobody has seen them.
        leaving: Consumers that are giving back what is on its way to them.
        grouped: Whether groups of readers check rows out of it.
        gone: When it may not have been there, from a step up to another one.
        settling: Settled copies that a crash may still bring back, with the turn of the ack.
    """

    def __init__(self, name: str, kind: str, durable: bool, volatile: bool) -> None:
        self.name = name
        self.kind = kind
        self.durable = durable
        self.volatile = volatile
        self.delivery_limit = -1
        self.own_limit = False
        self.retry_ms = 0
        self.most = -1
        self.most_bytes = -1
        self.drops = False
        self.max_priority = 0
        self.single = False
        self.timeout_ms = -1
        self.single_active = False
        self.active: Holder | None = None
        self.came: list[Arrival] = []
        self.lost = False
        self.copies: list[Copy] = []
        self.cleared_step = -1
        self.cleared_turn = -1
        self.doomed = False
        self.taken_step = -1
        self.unsure_step = -1
        self.leaving = 0
        self.grouped = False
        self.gone: list[tuple[int, int]] = []
        self.settling: deque[tuple[int, Copy]] = deque()

    def rejects(self) -> bool:
        """Whether it rejects publishes where there are too many."""
        return not self.drops and (self.most >= 0 or self.most_bytes >= 0)

    def level(self, message: Message) -> int:
        """Messages of one level keep their order."""
        if self.kind == "quorum":
            return message.priority
        return min(message.priority, self.max_priority)

    def deleting(self, step: int) -> None:
        """Somebody asked for it to be deleted, and perhaps to be declared again."""
        self.gone.append((step, NEVER))

    def is_being_deleted(self) -> bool:
        """Whether whoever asked for it to be deleted has not heard that it is there again."""
        return any(last == NEVER for _, last in self.gone)

    def declared_again(self, step: int, asked: int = NEVER) -> None:
        """It is there, in spite of all deletions that were asked for up to a step."""
        self.gone = [
            (first, min(last, step) if first <= asked else last) for first, last in self.gone
        ]

    def may_be_gone(self, message: Message) -> bool:
        """Whether it may not have been there since a message was handed over.

        A node that is short of memory keeps publishes for later.
        """
        return any(message.step <= last for _, last in self.gone)

    def may_be_redelivered(self, message: Message) -> bool:
        """Whether a message may be `redelivered` that no client has seen."""
        # A node gives back to a queue elsewhere what it has not sent before it says who is gone.
        free = self.grouped or self.single or self.leaving > 0 or self.timeout_ms >= 0
        return free or message.step <= self.unsure_step


@final
class Arrival:
    """A subscription on its way to a queue, or there.

    Attributes:
        favour: Priority of the consumer.
        answered_step: At which step its client was told that it is there; -1 before that.
    """

    __slots__ = ("answered_step", "favour")

    def __init__(self, favour: int) -> None:
        self.favour = favour
        self.answered_step = -1

    def may_follow(self, step_number: int) -> bool:
        """Whether it may have come after another one that was sent at a step."""
        return self.answered_step < 0 or self.answered_step > step_number


@final
class Holder:
    """A consumer, a polling channel, or a group of readers.

    Attributes:
        alive: Whether it still is there to hold what it was given.
        subscribed: Whether it is a consumer that has not cancelled.
        told: How often it was told that it held messages for too long.
        favour: Its priority among consumers.
        since: At which step it subscribed.
        last: The last sequence that was delivered for the first time, by publishing channel, queue
            and priority.
    """

    __slots__ = ("alive", "favour", "last", "name", "since", "subscribed", "told")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.subscribed = False
        self.told = 0
        self.favour = 0
        self.since = 0
        self.last: dict[tuple[int, str, int], int] = {}


def body_of(message: Message) -> bytes:
    """The body of a message: unlike any other, and unlike itself at another place."""
    mark = b"m%08d|" % message.id
    if message.size <= len(mark):
        return mark
    return (mark * (message.size // len(mark) + 1))[: message.size]


def id_of(body: bytes) -> int:
    """The message that a body names; -1 if it names none."""
    if len(body) < 10 or body[:1] != b"m" or not body[1:9].isdigit():
        return -1
    return int(body[1:9])
