"""Queues that gather what a turn of the node brings, and pass it on as batches.

Publishes become record batches, and what consumers want becomes encoded commands, whether a machine
of this node takes them or they are sent to another node. `seal` makes batches of both, once a turn;
a type says what becomes of those (`_seal_messages`, `_seal_commands`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.log.batch import KIND_MESSAGES, KIND_TRANSIENT
from warren.log.facts import FAILURES, PRIORITIES
from warren.message.flavours import AMQP091, is_known, priority_of
from warren.pending import PendingReply, PendingRequest
from warren.queue_types import QueueType
from warren.queues.fifo import commands
from warren.queues.fifo.consumers import Limiter
from warren.queues.fifo.machine import UNLIMITED
from warren.queues.links import Link
from warren.queues.measuring import any_failed, measured
from warren.queues.publishing import PublishRun
from warren.queues.queue import Host, Queue

SEAL_BYTES: Final = 262_144
"""A record batch is sealed when its records pass this size, whatever the turn still brings."""

JOINED_BYTES_MAX: Final = 4_194_304
"""Longer records are a batch of their own: joined to others they would be copied."""

NOT_SETTLED: Final = -1
ALL_IDS: Final = (1 << 62) - 1


@final
class Gathered:
    """The messages of one record batch to be; the fields are those of `GroupLog.append`.

    Attributes:
        kind: `KIND_MESSAGES` if they asked to survive a restart, else `KIND_TRANSIENT`.
        unowed: Whether some of them are in none of the runs.
    """

    def __init__(
        self,
        kind: i64,
        count: i64,
        lengths: bytes,
        payload: bytes,
        runs: list[PublishRun],
        flavour: i64,
        life_ms: i64,
        facts: bytes,
    ) -> None:
        self.kind: i64 = kind
        self.count: i64 = count
        self.lengths: bytes = lengths
        self.payload: bytes = payload
        self.runs: list[PublishRun] = runs
        self.flavour: i64 = flavour
        self.life_ms: i64 = life_ms
        self.facts: bytes = facts
        self.unowed: bool = False

    def is_nobodys(self) -> bool:
        """Whether all who published them are gone."""
        if self.unowed:
            return False
        for run in self.runs:
            if not run.publisher.gone():
                return False
        return True


@final
class Unsealed:
    """The messages that the next record batch has so far; there is one only while there are any.

    Attributes:
        parts, lengths: Their records and the sizes of these, as they were published.
        runs: Who is told when they are safe.
        bytes: What the records take.
        persistent, flavour, life_ms: What is the same of all of them.
        prioritised: Whether some of them have a priority that counts.
        noted: Whether some of them may say that deliveries failed in queues before.
        unowed: Whether nobody is told of some of them.
    """

    def __init__(self, persistent: bool, flavour: i64, life_ms: i64) -> None:
        self.parts: list[bytes] = []
        self.lengths: list[bytes] = []
        self.runs: list[PublishRun] = []
        self.bytes: i64 = 0
        self.persistent: bool = persistent
        self.flavour: i64 = flavour
        self.life_ms: i64 = life_ms
        self.prioritised: bool = False
        self.noted: bool = False
        self.unowed: bool = False


@final
class Unsent:
    """The commands gathered; there is such an object only while there are any.

    Attributes:
        out: All of them, encoded.
        run_consumer, run_first, run_behind: Whose message ids the newest settle is about, and
            which: from the first up to the one before the last of the three.
        run_end: Where that settle ends, which may yet grow.
    """

    def __init__(self) -> None:
        self.out: BytesWriter = BytesWriter()
        self.run_consumer: i64 = 0
        self.run_first: i64 = 0
        self.run_behind: i64 = 0
        self.run_end: i64 = NOT_SETTLED

    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Append that message ids of a consumer are done with; neighbours are one command."""
        out = self.out
        if (
            len(out) == self.run_end
            and consumer_id == self.run_consumer
            and first == self.run_behind
        ):
            out.truncate(self.run_end - commands.SETTLE_BYTES)
        else:
            self.run_consumer = consumer_id
            self.run_first = first
        commands.settle(out, consumer_id, self.run_first, last)
        self.run_behind = last + 1
        self.run_end = len(out)


class GatheringQueue(Queue):
    """A queue that keeps publishes and commands until the turn ends.

    Attributes:
        links: Consumers of this node by id.
        exclusive_consumer: Whether its only consumer asked to be the only one.
        known_facts: Which facts the batches of messages say of each of these.
    """

    def __init__(self, host: Host, vhost: str, name: str, queue_type: QueueType) -> None:
        super().__init__(host, vhost, name, queue_type)
        self.links: dict[int, Link] = {}
        self.exclusive_consumer: bool = False
        self.known_facts: i64 = 0
        self._next_consumer: i64 = 1
        self._automatic: dict[int, bool] | None = None
        """Consumers of this node whose acks are automatic."""
        self._pending: i64 = 0
        """How many messages are gathered."""
        self._unsealed: Unsealed | None = None
        """Those; None where there are none."""
        self._commands: Unsent | None = None
        """The commands gathered; see `_unsent`."""
        self._pending_commands: bool = False
        self._urgent: bool = False
        """Whether somebody waits for the pending commands."""

    # For publishers and consumers.

    def publish(
        self,
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        flavour: i64 = AMQP091,
        life_ms: i64 = -1,
        noted: bool = False,
    ) -> None:
        """Gather message records for the batch that the end of the turn makes."""
        if self.deleted:
            if run is not None:
                run.safe()
            return
        unsealed = self._unsealed
        if unsealed is not None and (
            persistent != unsealed.persistent
            or flavour != unsealed.flavour
            or life_ms != unsealed.life_ms
            or unsealed.bytes > SEAL_BYTES
            or len(records) > JOINED_BYTES_MAX
        ):
            self._seal_messages()
            unsealed = self._unsealed
        if unsealed is None:
            unsealed = Unsealed(persistent, flavour, life_ms)
            self._unsealed = unsealed
        if noted:
            unsealed.noted = True
        if not unsealed.prioritised and self._minds_priorities():
            # All of one publish have one, or none has.
            unsealed.prioritised = is_known(flavour) and priority_of(flavour, records, 0) >= 0
        unsealed.parts.append(records)
        unsealed.lengths.append(lengths)
        unsealed.bytes += len(records)
        self._pending += count
        if run is not None:
            unsealed.runs.append(run)
        else:
            unsealed.unowed = True
        if not self.dirty:
            self.dirty = True
            self.host.queue_dirty(self)

    def new_consumer(self) -> i64:
        """An id for a consumer or for a channel that polls."""
        consumer_id = self._next_consumer
        self._next_consumer += 1
        return consumer_id

    def admit(self, exclusive: bool) -> bool:
        """Let one more consumer of this node come, as the only one if `exclusive`."""
        if self.exclusive_consumer or (exclusive and self.links):
            return False
        self.exclusive_consumer = exclusive
        return True

    def subscribe(
        self,
        link: Link,
        consumer_id: i64,
        credit: i64,
        priority: i64,
        limiter: Limiter | None,
        waiter: PendingReply,
        automatic: bool = False,
    ) -> None:
        """Attach a consumer. `waiter` is answered before its first delivery."""
        self._before_asking()
        self.links[consumer_id] = link
        if credit <= 0:
            credit = self.unlimited_credit()
        self._write_attach(consumer_id, credit, priority, automatic)
        if automatic:
            if self._automatic is None:
                self._automatic = {}
            self._automatic[int(consumer_id)] = True
        self._ask(waiter)
        self._adopt(consumer_id, limiter)

    def unlimited_credit(self) -> i64:
        """Credit of a consumer without a prefetch limit."""
        return UNLIMITED

    def settle(self, consumer_id: i64, first: i64, last: i64) -> None:
        """Message ids of a consumer are done with."""
        self.settled += last - first + 1
        self._unsent().settle(consumer_id, first, last)
        self._pending_commands = True
        self._mark()

    def return_(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Message ids of a consumer go back to the queue."""
        commands.return_(self._writer(), consumer_id, first, last, failed)
        self._command()

    def discard(self, consumer_id: i64, first: i64, last: i64, failed: bool) -> None:
        """Message ids of a consumer were rejected for good."""
        told = failed and self._tells_deaths()
        commands.discard(self._writer(), consumer_id, first, last, told)
        self._command()

    def cancel(self, consumer_id: i64) -> None:
        """A consumer wants no more; it may still settle what it holds."""
        commands.cancel(self._writer(), consumer_id)
        self._command()
        self._unlink(consumer_id)

    def down(self, consumer_id: i64) -> None:
        """A consumer's channel is gone; what it was not sent is for others."""
        if self._automatic is not None and self._automatic.pop(int(consumer_id), False):
            # What it was sent it has settled before.
            commands.return_(self._writer(), consumer_id, 0, ALL_IDS, True)
        commands.down(self._writer(), consumer_id)
        self._command()
        self._unlink(consumer_id)

    def vanished(self, consumer_id: i64) -> None:
        """A consumer is gone, and nobody knows what it has seen of what it was handed."""
        if self._automatic is not None:
            self._automatic.pop(int(consumer_id), None)
        self.down(consumer_id)

    def get(self, consumer_id: i64, waiter: PendingRequest) -> None:
        """Ask for one message; a `PollReply` has it, or none."""
        self._before_asking()
        self._write_get(consumer_id)
        self._ask(waiter)

    def pick(self, consumer_id: i64, number: i64, waiter: PendingRequest) -> None:
        """Ask for one message by its number; a `PollReply` has it, or none if it is not ready."""
        self._before_asking()
        commands.pick(self._writer(), consumer_id, number, self._hold_ms(consumer_id))
        self._ask(waiter)

    def purge(self, waiter: PendingReply) -> None:
        """Drop all ready messages; a `PurgeReply` says how many."""
        self._before_asking()
        commands.purge(self._writer())
        self._ask(waiter)

    def ask(self, command: bytes, waiter: PendingReply) -> None:
        """Submit an encoded command that wants an answer."""
        self._before_asking()
        self._writer().write(command)
        self._ask(waiter)

    # For the node.

    def seal(self) -> None:
        """Make batches of what was gathered, and submit or apply them."""
        if self._pending > 0:
            self._seal_messages()
        if self._pending_commands:
            self._seal_commands(None)

    def flush(self) -> None:
        """Seal in this turn what was kept for a moment."""
        if self._pending_commands and not self.deleted:
            self._urgent = True
            self._mark()

    def close(self) -> None:
        """The queue was deleted: consumers are told, and whoever waits is let go."""
        super().close()
        links = self.links
        self.links = {}
        for link in links.values():
            link.cancelled()

    def consumer_count(self) -> i64:
        """Consumers of this node."""
        return len(self.links)

    # For types.

    def _minds_priorities(self) -> bool:
        """Whether batches say priorities where any of their messages has one."""
        return False

    def _know(self, fact: i64, wanted: bool) -> None:
        """Have the batches from now on say a fact of their messages, or not."""
        self.known_facts = self.known_facts | fact if wanted else self.known_facts & ~fact

    @abstractmethod
    def _seal_messages(self) -> None:
        """Make a record batch of what was published, and pass it on."""

    @abstractmethod
    def _seal_commands(self, waiter: PendingReply | None) -> None:
        """Pass on the commands; a waiter gets the reply to the last of them."""

    def _write_attach(self, consumer_id: i64, credit: i64, priority: i64, automatic: bool) -> None:
        """Write the command that a consumer arrives."""
        commands.attach(self._writer(), consumer_id, credit, priority, automatic)

    def _write_get(self, consumer_id: i64) -> None:
        """Write the command that one message is wanted."""
        commands.get(self._writer(), consumer_id)

    def _hold_ms(self, consumer_id: i64) -> i64:
        """How long a channel that polls may hold a message; negative for any time."""
        return -1

    def _tells_deaths(self) -> bool:
        """Whether messages that die here go on elsewhere, and say how often they failed."""
        return False

    def _adopt(self, consumer_id: i64, limiter: Limiter | None) -> None:
        """Give a new consumer its channel's shared limit; types without one ignore it."""

    def _before_asking(self) -> None:
        """A command that somebody waits for is about to be written."""

    def _command(self) -> None:
        self._pending_commands = True
        self._urgent = True
        self._mark()

    def _ask(self, waiter: PendingReply) -> None:
        """Seal everything so far with the command just written, which `waiter` waits for."""
        if self._pending > 0:
            self._seal_messages()
        self._seal_commands(waiter)
        self._mark()

    def _take_messages(self) -> Gathered:
        """All messages gathered, as one record batch; what comes is the next one's."""
        unsealed = self._unsealed
        assert unsealed is not None, "there are messages"
        pieces = unsealed.lengths
        lengths = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        parts = unsealed.parts
        payload = parts[0] if len(parts) == 1 else b"".join(parts)
        assert self._pending > 0 and 4 * self._pending == len(lengths), "each has a length"
        assert unsealed.bytes == len(payload), "all that was counted is there"
        facts = b""
        flavour = unsealed.flavour
        which = self.known_facts | PRIORITIES if unsealed.prioritised else self.known_facts
        replicated = self.type.replicated
        if unsealed.noted and replicated:
            # A classic queue has no limit that they count towards (POI-02).
            if any_failed(payload, lengths, self._pending, flavour):
                which |= FAILURES
        if which:
            facts = measured(payload, lengths, self._pending, flavour, which, replicated)
        gathered = Gathered(
            KIND_MESSAGES if unsealed.persistent else KIND_TRANSIENT,
            self._pending,
            lengths,
            payload,
            unsealed.runs,
            flavour,
            unsealed.life_ms,
            facts,
        )
        gathered.unowed = unsealed.unowed
        self._forget_messages()
        return gathered

    def _forget_messages(self) -> list[PublishRun]:
        """Have no messages gathered; gives who waits for those that there were."""
        unsealed = self._unsealed
        self._unsealed = None
        self._pending = 0
        return [] if unsealed is None else unsealed.runs

    def _pending_bytes(self) -> i64:
        """What the messages gathered take."""
        unsealed = self._unsealed
        return 0 if unsealed is None else unsealed.bytes

    def _unsent(self) -> Unsent:
        """Where commands are gathered; there is such only while there are commands."""
        if self._commands is None:
            self._commands = Unsent()
        return self._commands

    def _writer(self) -> BytesWriter:
        """Where commands are written."""
        return self._unsent().out

    def _take_commands(self) -> bytes:
        payload = b"" if self._commands is None else self._commands.out.getvalue()
        self._commands = None
        self._pending_commands = False
        self._urgent = False
        return payload

    def _unlink(self, consumer_id: i64) -> None:
        if self.links.pop(consumer_id, None) is not None and not self.links:
            self.exclusive_consumer = False
            if self.auto_delete and not self.deleted:
                self.host.queue_unused(self)
