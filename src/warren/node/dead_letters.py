"""Dead letters on their way from the queues of this node, through exchanges, into other queues.

They take the way of a publish, with its routes and queues, but no user's rights: those were asked
for when the queue was declared. What has no route is dropped, and so is what would go round for
ever: from queue to queue without a client that rejects it. Those that stay in their queue until
they are confirmed are not dropped: what holds them up is told of, once (`Forwarding`).

Source: DL-01, DL-11, QQ-21; `rabbit_dead_letter` and `rabbit_fifo_dlx_worker` of RabbitMQ 4.3.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, write_i32_le
from mypy_extensions import i32, i64

from warren.limits import QUEUE_STEPS, QUEUES_FREE, STEP_BYTES, TURN_STEPS_MAX
from warren.message.dead_letters import REJECTED, DeadLetter, DeadLetters
from warren.message.flavours import AMQP091
from warren.metadata.commands import Barrier
from warren.metadata.machine import MetadataMachine
from warren.node.loop import Loop
from warren.node.queues import LocalQueues
from warren.node.remote.proxying import Remotes
from warren.node.store import MetadataStore
from warren.node.vhosts import NodeVhosts
from warren.ports import Work
from warren.queues.dead_letters import DeadLettering, DeadLetterRouter
from warren.queues.fan_out import RunFanOut, is_wide
from warren.queues.forwarding import Forwarder, Forwarding
from warren.queues.queue import Queue
from warren.queues.traffic import DeathTraffic
from warren.vhost.handle import is_to_keep

TURN_MESSAGES: Final = 1_024
TURN_BYTES: Final = 1_048_576
"""No more is routed in one turn: some milliseconds."""
PUBLISH_BYTES: Final = 262_144
"""Messages with one route are handed over when they pass this size."""
DELAYED_PREFETCH: Final = 1_024
"""So many messages that were delayed are on their way from an exchange at a time."""
CIRCLES_MAX: Final = 1_024
"""So many circles are told of."""


@final
class DeadLetterWorker(Work, DeadLetterRouter, Forwarder):
    """Of one node: serves its queues in turns, one of them in a turn of the node."""

    def __init__(
        self,
        loop: Loop,
        metadata: MetadataMachine,
        queues: LocalQueues,
        vhosts: NodeVhosts,
        remotes: Remotes,
        store: MetadataStore,
    ) -> None:
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._vhosts: NodeVhosts = vhosts
        self._remotes: Remotes = remotes
        self._store: MetadataStore = store
        self._lines_opened: i64 = 0
        """How many lines to other nodes there had been when those below were looked at."""
        self._underway: dict[int, Forwarding] = {}
        """Queues of which some are on their way, or in vain until now."""
        self._lacks: bool = False
        """Whether a queue is not here yet to which the message goes that was looked at last."""
        self._due: deque[DeadLettering] = deque()
        self._forwarding: deque[Forwarding] = deque()
        self._at_work: bool = False
        self._vhost: str = ""
        """That of the queue whose turn it is."""
        self._exchange: str = ""
        self._forwarded: Forwarding | None = None
        """Those of the queue whose turn it is, if they stay until they are confirmed."""
        self._letter: DeadLetter | None = None
        """Whose route is known, as of `_generation`."""
        self._generation: i64 = 0
        self._route: list[Queue] = []
        self._keepers: list[str] = []
        self._targets: list[Queue] = []
        """Where what was gathered goes."""
        self._fan_out: RunFanOut | None = None
        """What is on its way into more queues than one turn serves."""
        self._persistent: bool = False
        self._prioritised: bool = False
        self._flavour: i64 = AMQP091
        self._records: list[bytes] = []
        self._lengths: BytesWriter = BytesWriter()
        self._bytes: i64 = 0
        self._steps: i64 = 0
        """What headers and routes took of those that stay, in this turn."""
        self._circles: dict[str, None] = {}
        self._deaths: DeathTraffic = DeathTraffic()
        """Where those of the queue are counted whose turn it is."""

    def add(self, dead_lettering: DeadLettering) -> None:
        """A queue has dead letters."""
        self._due.append(dead_lettering)
        self._begin()

    def add_kept(self, forwarding: Forwarding) -> None:
        """A queue has dead letters that stay until they are confirmed."""
        if forwarding.delays:
            forwarding.prefetch = DELAYED_PREFETCH
        else:
            forwarding.prefetch = self._loop.settings.dead_letter_prefetch
        self._forwarding.append(forwarding)
        self._begin()

    def tick(self) -> None:
        """Go on where the disk had no room, and where what was in vain need not be any more.

        A look at each queue a tick that has some on their way, and at those that had no room for
        them; and at where its letters go if any route has changed. What is tried again then is
        bounded for each queue, as ever.
        """
        if self._due or self._forwarding:
            self._begin()
        is_back = self._lines_opened != self._remotes.lines_opened
        self._lines_opened = self._remotes.lines_opened
        for group_id, forwarding in list(self._underway.items()):
            tables = self._metadata.vhosts.get(forwarding.queue.vhost)
            if tables is None or forwarding.underway() == 0 or not forwarding.queue.forwards():
                del self._underway[group_id]
                continue
            forwarding.look_for_room()
            if is_back:
                forwarding.hurry()
            elif tables.router.generation != forwarding.looked_at:
                forwarding.looked_at = tables.router.generation
                forwarding.routes_changed(tables.router.changed(forwarding.exchange))

    def _begin(self) -> None:
        if not self._at_work and not self._vhosts.disk_full:
            self._at_work = True
            self._loop.do_in_parts(self)

    def go_on(self) -> bool:
        """Route some dead letters of the queue whose turn it is."""
        fan_out = self._fan_out
        if fan_out is not None:
            # What comes behind must not overtake it.
            if fan_out.go_on():
                self._fan_out = None
        elif self._due and not self._vhosts.disk_full:
            dead_lettering = self._due.popleft()
            dead_lettering.due = False
            if dead_lettering.queue.deleted:
                dead_lettering.forget()
            else:
                self._serve(dead_lettering)
        if self._forwarding and not self._vhosts.disk_full:
            self._forward(self._forwarding.popleft())
        more = len(self._due) > 0 or len(self._forwarding) > 0
        self._at_work = self._fan_out is not None or (more and not self._vhosts.disk_full)
        return not self._at_work

    def _forward(self, forwarding: Forwarding) -> None:
        self._vhost = forwarding.queue.vhost
        self._exchange = forwarding.exchange
        self._letter = None
        self._steps = 0
        self._forwarded = forwarding
        forwarding.due = False
        forwarding.carry(self)
        asked = forwarding.asks_routes()
        if asked is not None:
            self._store.submit(Barrier(), asked)
        if forwarding.underway() > 0:
            self._underway[int(forwarding.queue.group_id)] = forwarding
        self._route = []
        self._forwarded = None
        forwarding.go_on()

    def targets(
        self, letter: DeadLetter, letters: DeadLetters, reason: i64, again: bool
    ) -> list[Queue]:
        """The queues to which a message goes that stays in its own until they confirmed it."""
        forwarding = self._forwarded
        tables = self._metadata.vhosts.get(self._vhost)
        assert forwarding is not None, "asked while dead letters are forwarded"
        if not again and not forwarding.delays:
            deaths = self._loop.traffic.of_deaths(forwarding.queue.type, True)
            deaths.by_reason[reason] += 1
        self._steps += letters.steps
        if tables is None:
            return []
        why = ""
        self._keepers = []
        self._lacks = False
        if self._exchange and self._exchange not in tables.exchanges:
            names: list[str] = []
            why = f"there is no exchange '{self._exchange}'"
        else:
            before = tables.router.steps
            names = self._names(letter)
            self._steps += tables.router.steps - before + QUEUE_STEPS * len(names)
            if not names:
                why = f"exchange '{self._exchange}' has no route for some of them"
            elif reason != REJECTED:
                names = [name for name in names if not self._goes_round(letter, name)]
        targets = self._named(names)
        self._lacks = len(targets) < len(names)
        if names and not targets:
            why = f"exchange '{self._exchange}' has no route for some of them"
        if why and not forwarding.delays and why not in forwarding.told:
            forwarding.told[why] = None
            self._loop.log_warning(
                f"dead letters stay in {forwarding.queue} and are tried again: {why}; this is not "
                "said again before all of them got on"
            )
        if self._keepers and not again:
            record = letters.record()
            if is_to_keep(record):
                for exchange in self._keepers:
                    self._vhosts.keep_recent(self._vhost, exchange, [record])
        return targets

    def spent(self) -> bool:
        """Whether headers and routes took as many steps as one turn may have."""
        return self._steps >= TURN_STEPS_MAX

    def lacks(self) -> bool:
        """Whether one of the queues is not here yet."""
        return self._lacks

    def generation(self) -> i64:
        """As of which generation of routes the queues just found are those."""
        tables = self._metadata.vhosts.get(self._vhost)
        return 0 if tables is None else tables.router.generation

    def _serve(self, dead_lettering: DeadLettering) -> None:
        self._vhost = dead_lettering.queue.vhost
        self._deaths = self._loop.traffic.of_deaths(dead_lettering.queue.type, False)
        self._exchange = dead_lettering.exchange
        self._letter = None
        dead_lettering.carry(self, TURN_MESSAGES, TURN_BYTES)
        self._hand_over()
        for target in self._targets:
            if target.congested() and not target.deleted:
                dead_lettering.hold(target)
                break
        self._targets = []
        self._route = []
        dead_lettering.go_on()

    def take(self, letter: DeadLetter, letters: DeadLetters, reason: i64, flavour: i64) -> i64:
        """Route the message that `letters` looked at last; gives the bytes that it takes.

        What its headers and its route take counts as bytes, too.
        """
        self._deaths.by_reason[reason] += 1
        searched: i64 = STEP_BYTES * letters.steps
        tables = self._metadata.vhosts.get(self._vhost)
        if tables is None:
            return searched
        router = tables.router
        if router.generation != self._generation or not self._goes_like(letter):
            self._letter = None
            self._keepers = []
            before = router.steps
            names = self._names(letter)
            searched += STEP_BYTES * (router.steps - before)
            if reason != REJECTED:
                names = [name for name in names if not self._goes_round(letter, name)]
            self._route = self._named(names)
            if not router.by_message(self._exchange):
                self._letter = letter
                self._generation = router.generation
        if not self._route and not self._keepers:
            return 1 + searched
        record = letters.record()
        if self._keepers and is_to_keep(record):
            for exchange in self._keepers:
                self._vhosts.keep_recent(self._vhost, exchange, [record])
        if self._route:
            self._gather(record, letter, flavour)
            if is_wide(self._route):
                # It is the last one of this turn, as it takes those that follow, too.
                searched += TURN_BYTES
            elif len(self._route) > QUEUES_FREE:
                searched += STEP_BYTES * QUEUE_STEPS * len(self._route)
        return len(record) + searched

    def _goes_like(self, letter: DeadLetter) -> bool:
        """Whether it goes where the one did whose route is known."""
        last = self._letter
        if letter is last:
            return True
        return last is not None and letter.keys is last.keys and letter.deaths is last.deaths

    def _names(self, letter: DeadLetter) -> list[str]:
        """The queues to which a dead letter goes."""
        router = self._metadata.vhosts[self._vhost].router
        exchange = self._exchange
        keys = letter.keys
        if not keys:
            return []
        if not exchange:
            return router.route_keys(exchange, keys)
        headers = letter.headers() if router.by_message(exchange) else None
        properties = letter.properties() if router.needs_properties(exchange) else None
        if router.keeps(exchange):
            return router.route_kept(exchange, keys, headers, properties, self._keepers)
        if len(keys) > 1:
            return router.route_keys(exchange, keys, headers, properties)
        return router.route(exchange, keys[0], headers, properties)

    def _goes_round(self, letter: DeadLetter, queue: str) -> bool:
        """Whether a queue is not to have a dead letter, because it would go round for ever."""
        if not letter.goes_round(queue):
            return False
        circle = " -> ".join([queue, *[name for name, _ in letter.deaths]])
        if circle not in self._circles and len(self._circles) < CIRCLES_MAX:
            self._circles[circle] = None
            self._loop.log_warning(
                f"dead letters in vhost '{self._vhost}' go round without being rejected, and do "
                f"not get to queue '{queue}', the latest first: {circle}; this is not said again"
            )
        return True

    def _named(self, names: list[str]) -> list[Queue]:
        here = self._queues.vhosts.get(self._vhost)
        found: list[Queue] = []
        for name in names:
            queue = None if here is None else here.queues.get(name)
            if queue is None:
                queue = self._vhosts.use(self._vhost, name)
            if queue is not None:
                found.append(queue)
        return found

    def _gather(self, record: bytes, letter: DeadLetter, flavour: i64) -> None:
        """Keep a message until those that are alike to queues are handed over together."""
        if (
            self._route != self._targets
            or letter.persistent != self._persistent
            or letter.prioritised != self._prioritised
            or flavour != self._flavour
            or self._bytes > PUBLISH_BYTES
        ):
            self._hand_over()
            self._targets = self._route
            self._persistent = letter.persistent
            self._prioritised = letter.prioritised
            self._flavour = flavour
        self._records.append(record)
        write_i32_le(self._lengths, i32(len(record)))
        self._bytes += len(record)

    def _hand_over(self) -> None:
        """Put what was gathered into its queues."""
        count: i64 = len(self._records)
        if count == 0:
            return
        records = self._records[0] if count == 1 else b"".join(self._records)
        lengths = self._lengths.getvalue()
        self._records = []
        self._lengths = BytesWriter()
        self._bytes = 0
        into = RunFanOut(
            self._targets, records, lengths, count, self._persistent, None, self._flavour, -1, True
        )
        if not into.go_on():
            self._fan_out = into
