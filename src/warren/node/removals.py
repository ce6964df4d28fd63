"""Queues that go though no client asked for it: their last consumer left, or their connection.

There may be many at once: a connection may own a hundred thousand exclusive queues. A bounded
number of deletions is under way at a time; channels that name a queue that is about to go wait.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.limits import CHANGES_AT_ONCE_MAX, SEARCH_STEPS_MAX
from warren.metadata import commands
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import ExchangeRecord, QueueRecord
from warren.node.store import MetadataStore
from warren.pending import PendingReply, PendingResult, Result
from warren.queues.queue import Queue
from warren.vhost.pending import Resumable


@final
class Going:
    """A queue that is about to go.

    Attributes:
        changes: Commands on their way that delete it, and questions whether it goes; 0 before its
            turn has come.
        waiting: Channels that go on when they are applied.
    """

    def __init__(self, record: QueueRecord) -> None:
        self.record: QueueRecord = record
        self.changes: i64 = 0
        self.waiting: list[Resumable] = []

    def let_go(self) -> None:
        """Channels that wait go on."""
        waiting = self.waiting
        self.waiting = []
        for channel in waiting:
            try:
                channel.go_on()
            except Exception as error:
                channel.failed(error)


@final
class QueueRemovals:
    """All such queues of this node.

    Attributes:
        steps: What it has taken to find out which of them may take an exchange along.
    """

    def __init__(self, metadata: MetadataMachine, store: MetadataStore) -> None:
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._going: dict[tuple[str, str], Going] = {}
        """Those whose deletion is under way or waited for, by vhost and name."""
        self._to_remove: dict[QueueRecord, None] = {}
        """Further ones, whose turn has not come."""
        self._owners_gone: dict[tuple[str, int], None] = {}
        """Vhosts and connections that are gone and have still further ones."""
        self._removing: i64 = 0
        """How many are under way."""
        self.steps: i64 = 0

    # --- what goes ------------------------------------------------------------------------------

    def delete_unused(self, queue: Queue) -> None:
        """Delete an auto-delete queue without consumers."""
        record = self._metadata.queue(queue.vhost, queue.name)
        if record is not None and record.group_id == queue.group_id:
            self._to_remove[record] = None
            self._remove_more()

    def left(self, queue: Queue) -> None:
        """Ask an auto-delete queue's node whether the last consumer here was its last of all."""
        record = self._metadata.queue(queue.vhost, queue.name)
        if record is not None and record.group_id == queue.group_id:
            going = self._note_going(record)
            going.changes += 1
            queue.count(Departure(self, going, queue))

    def delete_owned(self, vhost: str, connection: i64) -> None:
        """Delete the exclusive queues of a connection that is gone (PROP-03)."""
        if not self._metadata.owns_queues(vhost, connection):
            return
        self._owners_gone[(vhost, int(connection))] = None
        self._remove_more()

    def _remove_more(self) -> None:
        """Submit what is to be removed, as far as there is not too much under way."""
        while self._removing < CHANGES_AT_ONCE_MAX:
            if not self._to_remove and not self._note_owned():
                break
            self._removing += 1
            record, _ = self._to_remove.popitem()
            going = self._note_going(record)
            going.changes += 1
            self._store.submit(
                commands.DeleteQueue(record.vhost, record.name, record.group_id, record.durable),
                QueueRemoval(self, going),
            )

    def _note_owned(self) -> bool:
        """Note some queues of a connection that is gone as to be removed; whether there are any.

        Those already under way are fewer than what is looked at, so that some are new if not all
        of the connection's were looked at.
        """
        while self._owners_gone and not self._to_remove:
            owner, _ = self._owners_gone.popitem()
            owned = self._metadata.queues_of_owner(owner[0], owner[1])
            for record in owned.some(2 * CHANGES_AT_ONCE_MAX):
                going = self._going.get((record.vhost, record.name))
                if going is None or going.changes == 0 or going.record is not record:
                    self._to_remove[record] = None
            if len(owned) > 2 * CHANGES_AT_ONCE_MAX:
                self._owners_gone[owner] = None
        return len(self._to_remove) > 0

    def _note_going(self, record: QueueRecord) -> Going:
        name = (record.vhost, record.name)
        going = self._going.get(name)
        if going is None:
            going = Going(record)
            self._going[name] = going
        return going

    def removed(self, going: Going) -> None:
        """One such queue is gone: channels that wait for that go on."""
        self._removing -= 1
        self._remove_more()
        self.settled(going)

    def settled(self, going: Going) -> None:
        """It is known what became of one request about a queue."""
        going.changes -= 1
        if going.changes == 0 and going.record not in self._to_remove:
            del self._going[(going.record.vhost, going.record.name)]
            going.let_go()

    # --- who waits for that ---------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether any queue is about to go."""
        return len(self._going) > 0 or len(self._to_remove) > 0 or len(self._owners_gone) > 0

    def going(self, vhost: str, name: str) -> Going | None:
        """A queue of this name, if it is about to go."""
        found = self._going.get((vhost, name))
        if found is None and (self._to_remove or self._owners_gone):
            record = self._metadata.queue(vhost, name)
            if record is not None:
                if (vhost, int(record.exclusive_owner)) in self._owners_gone:
                    # A channel is about to wait for it: from here on it is seen to by itself.
                    self._to_remove[record] = None
                if record in self._to_remove:
                    found = self._note_going(record)
        return found

    def let_go(self) -> None:
        """There is no leader: no channel waits for a change now."""
        for going in list(self._going.values()):
            going.let_go()

    def going_with(self, vhost: str, exchange: str) -> Going | None:
        """A queue about to go whose last binding may take an auto-delete exchange along.

        Where it takes too long to find out, it is one of those that go next, whatever leads to it:
        who waits for that asks again then.
        """
        tables = self._metadata.vhosts.get(vhost)
        if tables is None:
            # It was deleted, and its clients have not all been told.
            return None
        exchanges = tables.exchanges
        wanted = exchanges.get(exchange)
        if wanted is None or not wanted.bound:
            return None
        most = self.steps + SEARCH_STEPS_MAX
        if self._owners_gone or len(self._going) + len(self._to_remove) > 2 * CHANGES_AT_ONCE_MAX:
            found = self._going_after(vhost, wanted, most)
        else:
            found = self._going_before(vhost, wanted, most)
        if found is None and self.steps >= most:
            for going in reversed(self._going.values()):
                return going
        return found

    def _going_before(self, vhost: str, exchange: ExchangeRecord, most: i64) -> Going | None:
        """The same, by what leads to the queues that are about to go."""
        exchanges = self._metadata.vhosts[vhost].exchanges
        leaving = [going.record for going in self._going.values()]
        leaving.extend(self._to_remove)
        self.steps += len(leaving)
        for queue in leaving:
            if queue.vhost != vhost or not queue.incoming:
                continue
            reached = [queue.incoming]
            seen: set[str] = set()
            while reached:
                for binding in reached.pop():
                    source = binding.source
                    self.steps += 1
                    if source == exchange.name:
                        return self._note_going(queue)
                    if source not in seen:
                        seen.add(source)
                        record = exchanges.get(source)
                        if record is not None and record.auto_delete:
                            reached.append(record.incoming)
                    if self.steps >= most:
                        return None
        return None

    def _going_after(self, vhost: str, exchange: ExchangeRecord, most: i64) -> Going | None:
        """The same, by what the exchange leads to: there are too many queues about to go."""
        exchanges = self._metadata.vhosts[vhost].exchanges
        sources = [exchange]
        seen = {exchange.name}
        while sources:
            for binding in sources.pop().bound.values():
                self.steps += 1
                if not binding.to_exchange:
                    going = self.going(vhost, binding.destination)
                    if going is not None:
                        return going
                elif binding.destination not in seen:
                    seen.add(binding.destination)
                    target = exchanges[binding.destination]
                    if target.auto_delete:
                        sources.append(target)
                if self.steps >= most:
                    return None
        return None


@final
class Departure(PendingReply):
    """Waits for a queue's node to say whether the queue has consumers, when the last here left.

    If it has none, that node has asked for its deletion; to ask for it here, too, tells when it is
    gone here, where clients that left are answered then.
    """

    def __init__(self, removals: QueueRemovals, going: Going, queue: Queue) -> None:
        self._removals: QueueRemovals = removals
        self._going: Going = going
        self._queue: Queue = queue

    def succeeded(self, result: Result) -> None:
        """The counts are known."""
        if self._queue.consumer_count() == 0 and not self._queue.deleted:
            self._removals.delete_unused(self._queue)
        self._removals.settled(self._going)

    def abandoned(self) -> None:
        """The queue is gone, or its node is."""
        self._removals.settled(self._going)

    def missed(self) -> None:
        """No state takes the place of commands: auto-delete queues have one node."""
        raise AssertionError("a queue of one node has seen what came of each command")


@final
class QueueRemoval(PendingResult):
    """Waits for a queue to be gone."""

    def __init__(self, removals: QueueRemovals, going: Going) -> None:
        self._removals: QueueRemovals = removals
        self._going: Going = going

    def succeeded(self, result: Result) -> None:
        """The queue is gone."""
        self._removals.removed(self._going)
