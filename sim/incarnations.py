"""Queues that come and go under the same names, and what may take each of them.

Each time that a name is declared it is another queue, an incarnation. What a node takes a name for
changes when it applies an entry of the tables; so whatever a client asked of a node was asked of
one of those that the node knew between the question and the answer. From that follows:

- A queue goes only if a client asked a node that knew it to delete it, if it lives in a process
  that is over, if it is exclusive to a connection that is over, on a machine that is lost, or if it
  is one that expires and nobody has used it for long (`expiring`).
- What was published to one incarnation comes out of no other one.
- What was confirmed, and can only have gone to one that is still there at the end, comes out of it.
- "no queue" is said only of what may not have been there, 405 only of what was another
  connection's; what was can be used by nobody else.

Source: DUR-02, DUR-12, PROP-03, R-20.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Final, final

from sim import delays, hops
from sim.dead_letters import SOURCE, TARGET
from sim.governed import BURIED, GOVERNED
from sim.model import CONFIRMED, NEVER, RETURNED, Message, Violation
from sim.rejecting import NARROW, SPILLED
from sim.replies import REQUESTS
from sim.told import SUBJECT
from warren.metadata.feeds import DEFAULT_QUEUE
from warren.metadata.outcome import Outcome
from warren.metadata.tables import NO_OWNER, QueueRecord
from warren.node.node import Node
from warren.wire.amqp091 import spec

if TYPE_CHECKING:
    from sim.connection import SimConnection
    from sim.stage import Stage

IDLE: Final = "idle"
"""The queue that goes when nobody uses it; see `expiring`."""
NOBODY: Final = 0
"""In the place of an incarnation: no queue has the name."""
TURNS_LEFT: Final = 2
"""So many turns after the end of a connection nothing is done any more of what came over it."""


@final
class Incarnation:
    """One queue.

    Attributes:
        id: Its group.
        owner: The connection that has it for itself, else `NO_OWNER`.
        in_memory: Whether it ends with its node's process.
        home: Where it lives, if it is a classic queue.
        life: The node's life when it was seen first; for one node only.
        index: An entry of the tables behind which it was there.
        gone: Whether some node has applied its deletion.
        came_ms: When it was seen first, in virtual time.
    """

    def __init__(self, record: QueueRecord, life: int, index: int, came_ms: int) -> None:
        self.id = int(record.group_id)
        self.name = record.name
        self.kind = record.kind
        self.owner = int(record.exclusive_owner)
        self.in_memory = record.in_memory()
        self.home = record.node
        self.life = life
        self.index = index
        self.gone = False
        self.came_ms = came_ms


@final
class Span:
    """From a question to its answer, as steps of the run.

    Attributes:
        site: The node that was asked.
        name: The queue's; empty while the node is to find one.
        identity: Of the connection that asked.
        last: `NEVER` until nothing of it can happen any more.
        handed: Whether all of it came to the node.
        answered: Whether its client was told.
    """

    __slots__ = ("answered", "first", "handed", "identity", "last", "name", "site")

    def __init__(self, site: str, name: str, identity: int, first: int) -> None:
        self.site = site
        self.name = name
        self.identity = identity
        self.first = first
        self.last = NEVER
        self.handed = False
        self.answered = False


@final
class Parcel:
    """One message to a queue that comes and goes.

    Attributes:
        span: From its publish to what its publisher was told of it.
        settled: Whether a client has acknowledged it.
    """

    def __init__(self, message: Message, span: Span) -> None:
        self.message = message
        self.span = span
        self.settled = False


@final
class Incarnations:
    """See the module's head.

    Attributes:
        known: Every queue that ever was, by group.
        parcels: By the message's number.
        deletions: What clients asked to delete, by name.
    """

    def __init__(self, world: Stage) -> None:
        self._world = world
        self.known: dict[int, Incarnation] = {}
        self._living: dict[int, Incarnation] = {}
        self.parcels: dict[int, Parcel] = {}
        self.deletions: dict[str, list[Span]] = {}
        self._lasting: set[str] = set()
        self._overlooked: set[str] = set()
        self._owners: dict[int, SimConnection] = {}
        self._views: dict[str, dict[str, int]] = {}
        """What each running node takes the names for."""
        self._history: dict[tuple[str, str], list[tuple[int, int]]] = {}
        """The same over the run: from which step on."""
        self._applied: dict[str, int] = {}
        self._changes: list[tuple[int, str, int]] = []
        """What each entry of the tables made of a name."""
        self._ending: list[tuple[Span, SimConnection, int]] = []
        """What no client is told of, and a turn when it could still be read."""

    # --- for the run ----------------------------------------------------------------------------

    def overlook(self, name: str) -> None:
        """Whoever has a queue of this name says what becomes of it."""
        self._overlooked.add(name)

    def watch(self, site: str, node: Node, turns: int) -> None:
        """An event was handled by a node: look at what its tables say now."""
        step = self._world.step_number
        began = site not in self._views
        if self._ending:
            if began:
                self._end_spans(site, NEVER, step - 1)
            else:
                self._end_spans(site, turns, step)
        machine = node.metadata
        applied = int(machine.applied_index)
        if self._applied.get(site) == applied:
            return
        last = self._applied.get(site, applied)
        self._applied[site] = applied
        vhost = machine.vhosts.get("/")
        records = [] if vhost is None else vhost.queues.items()
        now: dict[str, int] = {}
        for name, record in records:
            if self._comes_and_goes(name):
                now[name] = int(record.group_id)
                self._came(record, applied, self._world.life - 1 if began else self._world.life)
        before = self._views.get(site, {})
        self._views[site] = now
        if applied > last:
            # Some may have come and gone between.
            first = bisect_right(self._changes, last, key=itemgetter(0))
            for index, name, new in self._changes[first:]:
                if index <= applied:
                    self._history.setdefault((site, name), []).append((step, new))
        if before != now:
            for name in sorted({*before, *now}):
                old, new = before.get(name, NOBODY), now.get(name, NOBODY)
                if old != new:
                    self._history.setdefault((site, name), []).append((step, new))
                    self._world.say("%s: %s is %d, no longer %d", site, name, new, old)
        for queue in list(self._living.values()):
            if applied > queue.index and now.get(queue.name) != queue.id:
                self._went(queue)

    def changed(self, index: int, outcome: Outcome) -> None:
        """An entry of the tables is committed; for clusters."""
        created = outcome.created_queue
        if created is not None and self._comes_and_goes(created.name):
            self._came(created, index, self._world.life)
            self._changes.append((index, created.name, int(created.group_id)))
        for record in outcome.deleted_queues:
            if self._comes_and_goes(record.name):
                self._changes.append((index, record.name, NOBODY))

    def ended(self, site: str) -> None:
        """A node's process is over, and with it all that was asked of it."""
        step = self._world.step_number
        for name in self._views.pop(site, {}):
            self._history[site, name].append((step, NOBODY))
        self._applied.pop(site, None)

    def finished(self) -> None:
        """Account for every confirmed message in a queue that is still there.

        Raises:
            Violation: One is lost.
        """
        lost: dict[Incarnation, list[Message]] = {}
        for parcel in self.parcels.values():
            if parcel.message.status == CONFIRMED and not parcel.settled:
                queue = self._only(parcel.span)
                if queue is not None and not queue.gone and not self._world.halted(queue):
                    lost.setdefault(queue, []).append(parcel.message)
        for queue, messages in lost.items():
            if len(messages) > self._world.dropped_by(queue):
                raise Violation(
                    f"{len(messages)} confirmed messages of queue {queue.name} are lost, first "
                    f"{messages[0]}"
                )

    def check_published(self, queue: int, messages: Iterable[int]) -> None:
        """A queue's log has these messages.

        Raises:
            Violation: One was published to another queue.
        """
        for number in messages:
            parcel = self.parcels[number]
            if queue not in self.candidates(parcel.span):
                raise Violation(
                    f"{parcel.message} of {parcel.span.name} was published to "
                    f"{sorted(self.candidates(parcel.span))} and is in the log of {queue}"
                )

    def living(self) -> list[Incarnation]:
        """Queues that no node has seen go."""
        return list(self._living.values())

    def left(self, node: Node) -> list[str]:
        """Queues that come and go and that a node still knows."""
        vhost = node.metadata.vhosts.get("/")
        return [] if vhost is None else [name for name in vhost.queues if name not in self._lasting]

    # --- for clients ----------------------------------------------------------------------------

    def span(self, connection: SimConnection, name: str) -> Span:
        """A client asks something of a queue."""
        return Span(connection.site, name, self.identity(connection), int(self._world.step_number))

    def identity(self, connection: SimConnection) -> int:
        """How a node calls a connection; 0 once it is over."""
        handle = connection.end.handle
        if handle is None:
            return 0
        identity = int(handle.identity)
        self._owners[identity] = connection
        return identity

    def answer(self, span: Span) -> None:
        """Its client was told."""
        span.answered = True
        span.last = self._world.step_number

    def abandon(self, span: Span, connection: SimConnection) -> None:
        """Its client will not be told: it may be done in the next turn, or never.

        What a client sent before it closed its connection is done when its node has read so far,
        which an alarm may put off.
        """
        if span.last == NEVER:
            self._ending.append((span, connection, self._world.moment(connection)[1]))

    def delete(self, span: Span) -> None:
        """A client asks for a queue to be deleted."""
        self.deletions.setdefault(span.name, []).append(span)

    def candidates(self, span: Span) -> set[int]:
        """The queues that this was asked of, `NOBODY` where there may have been none."""
        before = NOBODY
        found: set[int] = set()
        for step, incarnation in self._history.get((span.site, span.name), ()):
            if step < span.first:
                before = incarnation
            elif step <= span.last:
                found.add(incarnation)
        found.add(before)
        return found

    def queues(self, span: Span) -> list[Incarnation]:
        """The same without `NOBODY`."""
        return [self.known[each] for each in sorted(self.candidates(span)) if each != NOBODY]

    def sent(self, message: Message, span: Span) -> Parcel:
        """A message is published."""
        parcel = Parcel(message, span)
        self.parcels[message.id] = parcel
        return parcel

    # --- what clients are told ------------------------------------------------------------------

    def check_used(self, span: Span, who: str) -> None:
        """A node has let a client at a queue.

        Raises:
            Violation: There was none, or it was another connection's.
        """
        found = self.queues(span)
        if not found:
            raise Violation(f"{who} could use {span.name}, which was not there")
        if all(each.owner not in (NO_OWNER, span.identity) for each in found):
            raise Violation(f"{who} could use {span.name}, which was another connection's")

    def check_deleted(self, span: Span, who: str) -> None:
        """A node has answered that a queue is deleted."""
        found = self.candidates(span)
        if len(found) == 1 and NOBODY not in found:
            raise Violation(f"{who} was told that {span.name} is deleted, and it is still there")

    def check_refused(self, span: Span, who: str, method: spec.ChannelClose) -> None:
        """A node did not let a client at a queue.

        Raises:
            Violation: There was no reason.
        """
        text = method.reply_text
        candidates, found = self.candidates(span), self.queues(span)
        if method.reply_code == 405:
            good = any(each.owner not in (NO_OWNER, span.identity) for each in found)
        elif "no queue" in text:
            good = NOBODY in candidates or len(candidates) > 1
        elif "is down or inaccessible" in text:
            good = any(
                each.kind == "classic" and (each.home != span.site or self._world.halted(each))
                for each in found
            )
        elif "no member on this node" in text:
            good = any(each.kind == "quorum" for each in found)
        else:
            good = method.reply_code == 406 and "in use" in text
        if not good:
            raise Violation(
                f"{who}: {span.name} was {[vars(each) for each in found]}, and the node says {text}"
            )

    def check_confirmed(self, parcel: Parcel) -> None:
        """A publisher was told that a message is safe, which has not come back."""
        if self.candidates(parcel.span) == {NOBODY}:
            raise Violation(f"{parcel.message} was confirmed, and {parcel.span.name} not there")
        queue = self._only(parcel.span)
        if queue is not None and not queue.gone:
            self._world.check_kept(queue, parcel.message)

    def check_returned(self, parcel: Parcel) -> None:
        """A message came back to its publisher."""
        if NOBODY not in self.candidates(parcel.span):
            raise Violation(f"{parcel.message} came back, though {parcel.span.name} is there")

    def check_delivered(self, parcel: Parcel, source: set[int], who: str) -> None:
        """A message came out of one of some queues."""
        message, span = parcel.message, parcel.span
        if message.status == RETURNED:
            raise Violation(f"{message} came out of {span.name} to {who}")
        if not self.candidates(span) & source:
            raise Violation(
                f"{message} of {span.name} was published to {sorted(self.candidates(span))} and "
                f"came out of {sorted(source)} to {who}"
            )

    # --- inside ---------------------------------------------------------------------------------

    def _only(self, span: Span) -> Incarnation | None:
        """The queue that this was asked of, if there is no doubt."""
        found = self.candidates(span)
        return self.known.get(found.pop()) if len(found) == 1 else None

    def _end_spans(self, site: str, turns: int, step: int) -> None:
        left: list[tuple[Span, SimConnection, int]] = []
        for span, connection, turn in self._ending:
            read_later = connection.condemned and not connection.dead
            if span.site != site:
                left.append((span, connection, turn))
            elif turns == NEVER or (not read_later and turns >= turn + TURNS_LEFT):
                span.last = step
            else:
                left.append((span, connection, turns if read_later else turn))
        self._ending = left

    def _comes_and_goes(self, name: str) -> bool:
        if not self._lasting:
            self._lasting = {queue.name for queue in self._world.queues}
            if self._world.letters is not None:
                self._lasting |= {SOURCE, TARGET}
            if self._world.hops is not None:
                self._lasting |= {hops.FIRST, hops.SECOND}
            if self._world.delays is not None:
                self._lasting |= {delays.STORE, delays.TARGET}
            if self._world.spills is not None:
                self._lasting |= {NARROW, SPILLED}
            if self._world.governed is not None:
                self._lasting |= {GOVERNED, BURIED}
            if self._world.talks is not None:
                self._lasting.add(REQUESTS)
            if self._world.feed is not None:
                self._lasting |= {DEFAULT_QUEUE, SUBJECT}
        return name not in self._lasting and name not in self._overlooked

    def _came(self, record: QueueRecord, index: int, life: int) -> None:
        group_id = int(record.group_id)
        if group_id not in self.known:
            came_ms = self._world.now_ms()
            queue = Incarnation(record, life, index, came_ms)
            self.known[group_id] = self._living[group_id] = queue
            self._world.count("incarnations")

    def _went(self, queue: Incarnation) -> None:
        queue.gone = True
        del self._living[queue.id]
        self._world.count("incarnations gone")
        if not self._may_go(queue):
            raise Violation(f"queue {queue.name} went, though nobody deleted it: {vars(queue)}")

    def _may_go(self, queue: Incarnation) -> bool:
        world = self._world
        if queue.in_memory and world.process_over(queue):
            return True
        if queue.kind == "classic" and world.machine_lost(queue.home):
            return True
        if queue.owner != NO_OWNER:
            owner = self._owners.get(queue.owner)
            if owner is not None and (owner.dead or owner.end.handle is None):
                world.count("exclusive queues gone with their connections")
                return True
        for span in self.deletions.get(queue.name, ()):
            if queue.owner not in (NO_OWNER, span.identity):
                continue
            if span.handed and (not span.answered or span.last >= world.step_number):
                if queue.id in self.candidates(span):
                    return True
        if world.expiring is not None and queue.name == IDLE:
            world.expiring.check_gone(queue)
            return True
        return False
