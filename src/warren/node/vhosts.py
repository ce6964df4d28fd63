"""What vhost handles get of this node: metadata, the place of queues, what is about to go."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import Refusal
from warren.metadata.access import INTERNAL_USER
from warren.metadata.commands import Command, DeclareQueue
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import QueueRecord
from warren.node.cluster.observers import Observers
from warren.node.cluster.queue_members import QueueMembers
from warren.node.direct_replies import RANDOM_BYTES, DirectReplyLinks
from warren.node.histories import Histories
from warren.node.loop import Loop
from warren.node.placing import Placing
from warren.node.queues import LocalQueues
from warren.node.removals import Going, QueueRemovals
from warren.node.repairs import Repairs
from warren.node.store import MetadataStore
from warren.node.usage import Usage
from warren.pending import PendingRequest, PendingResult
from warren.ports import Random, Work
from warren.queues.queue import Queue
from warren.vhost.host import VhostHost
from warren.vhost.pending import Resumable
from warren.vhost.routes import ReplyTarget
from warren.vhost.topology_changes import TopologyChange
from warren.vhost.tracing import TracedRun

if TYPE_CHECKING:
    from warren.node.firehose import Firehose


@final
class NodeVhosts(VhostHost):
    """The node behind its vhost handles."""

    def __init__(
        self,
        loop: Loop,
        metadata: MetadataMachine,
        store: MetadataStore,
        queues: LocalQueues,
        placing: Placing,
        removals: QueueRemovals,
        observers: Observers,
        queue_members: QueueMembers,
        repairs: Repairs,
        usage: Usage,
        histories: Histories,
        direct_replies: DirectReplyLinks,
        random: Random,
        node_name: str,
        max_message_bytes: i64,
    ) -> None:
        super().__init__(metadata, store.authority, node_name, max_message_bytes)
        self._loop: Loop = loop
        self._store: MetadataStore = store
        self._queues: LocalQueues = queues
        self._placing: Placing = placing
        self._removals: QueueRemovals = removals
        self._observers: Observers = observers
        self._queue_members: QueueMembers = queue_members
        self._repairs: Repairs = repairs
        self._usage: Usage = usage
        self._histories: Histories = histories
        self._direct_replies: DirectReplyLinks = direct_replies
        self._random: Random = random
        self._firehose: Firehose | None = None

    def wire(self, firehose: Firehose) -> None:
        """Have told of what passes, in vhosts that are traced."""
        self._firehose = firehose

    def trace(self, run: TracedRun) -> None:
        """Tell, in a later turn, of messages of a vhost that is traced."""
        if self._firehose is not None:
            self._firehose.add(run)

    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on."""
        self._loop.do_in_parts(work)

    def random_bytes(self, count: int) -> bytes:
        """Bytes that cannot be guessed."""
        return self._random.bytes(count)

    def reply_address(self) -> str:
        """An address for a channel of this node that takes replies, which cannot be guessed."""
        return self._direct_replies.new_address(self._random.bytes(RANDOM_BYTES))

    def addressed_reply(self, vhost: str, address: str) -> ReplyTarget | None:
        """Where replies to an address go that no channel here has; None if it can be none."""
        return self._direct_replies.find(vhost, address)

    def seek_reply(
        self, vhost: str, address: str, refusal: Refusal, pending: PendingRequest
    ) -> bool:
        """Ask the node of an address; False if no node that is up can have it."""
        return self._direct_replies.seek(vhost, address, refusal, pending)

    def channel_opened(self, user: str) -> None:
        """Count one more channel, unless there are as many as there may be."""
        self._usage.check_channel(user)
        self._usage.channel(user, 1)

    def channel_closed(self, user: str) -> None:
        """Count one channel less."""
        self._usage.channel(user, -1)

    def left(self, user: str, vhost: str) -> None:
        """Count one connection less."""
        self._usage.connected(user, vhost, -1)

    def submit(self, command: Command, change: PendingResult) -> None:
        """Have a change logged; `change` is told when it is in force here."""
        user = change.user if isinstance(change, TopologyChange) else INTERNAL_USER
        self._store.submit(command, change, user)

    def withdraw(self, pending: PendingResult) -> None:
        """Give up the changes that a request waits for, if they cannot come into force any more."""
        for submitted in self._store.submitted():
            change = submitted.change
            if isinstance(change, TopologyChange) and change.pending is pending:
                self._store.withdraw(submitted)

    def keep_recent(self, vhost: str, exchange: str, records: list[bytes]) -> None:
        """Have an exchange keep messages that were published to it."""
        self._histories.keep(vhost, exchange, records)

    def flush_recent(self, vhost: str, exchange: str) -> None:
        """Have all such messages logged before what is submitted from now on."""
        self._histories.flush(vhost, exchange)

    def new_group(self) -> i64:
        """The incarnation of a queue that is about to be declared."""
        return self._placing.new_group()

    def place(self, command: DeclareQueue) -> None:
        """Say where a queue about to be declared will live."""
        self._placing.place(command)

    def delete_owned(self, vhost: str, connection: i64) -> None:
        """Delete the exclusive queues of a connection that is gone (PROP-03)."""
        self._removals.delete_owned(vhost, connection)

    def majority_missing(self, queue: QueueRecord | None) -> str:
        """That a queue, or the tables, have no leader, in few words; empty if they have."""
        return self._queue_members.majority_missing(queue)

    def use(self, vhost: str, name: str) -> Queue | None:
        """Let clients of this node use a queue that only other nodes hold."""
        queue = self._queues.find(vhost, name)
        return self._observers.use(vhost, name) if queue is None else queue

    def stores(self, group_id: i64) -> bool:
        """Whether a queue's messages go to the disk of this node."""
        return group_id in self._queues.logged

    def halts(self, group_id: i64) -> bool:
        """Whether a queue could not be started here because its log is damaged."""
        return self._repairs.halts(int(group_id))

    def removing(self) -> bool:
        """Whether any queue is about to go, and the tables can be changed now."""
        return self._removals.pending and self._store.leader != ""

    def after_removal(self, vhost: str, queue: str, waiting: Resumable) -> bool:
        """Whether a queue is about to go; if so, `waiting` goes on when it is gone."""
        return _wait_for(self._removals.going(vhost, queue), waiting)

    def after_unbinding(self, vhost: str, exchange: str, waiting: Resumable) -> bool:
        """Whether such a queue may take an exchange along; if so, `waiting` goes on then."""
        removals = self._removals
        before = removals.steps
        going = removals.going_with(vhost, exchange)
        self.budget.spent += removals.steps - before
        return _wait_for(going, waiting)


def _wait_for(going: Going | None, waiting: Resumable) -> bool:
    if going is None:
        return False
    going.waiting.append(waiting)
    return True
