"""What vhost handles need of their node."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64

from warren.errors import Refusal
from warren.metadata.commands import Command, DeclareQueue
from warren.metadata.machine import MetadataMachine
from warren.metadata.permissions import Authority
from warren.metadata.tables import QueueRecord
from warren.pending import PendingRequest, PendingResult
from warren.ports import Work
from warren.queues.queue import Queue
from warren.queues.traffic import PublishedTraffic
from warren.turn_budget import TurnBudget
from warren.vhost.pending import Resumable
from warren.vhost.routes import ReplyTarget
from warren.vhost.tracing import TracedRun, Tracer


class VhostHost:
    """The node around all vhost handles.

    Attributes:
        tables: Vhosts, users and what else the cluster agrees on; read only, `submit` changes it.
        authority: Answers for users and permissions.
        node_name: As in `warren@host`.
        max_message_bytes: Largest body that may be published.
        consumer_timeout_ms: How long consumers of queues that mind it may hold a message (CT-08).
        default_queue_type: The type of queues that are declared without one, if their vhost says
            nothing; empty for the usual one.
        relaxed_declares: Whether a quorum queue may be declared like a classic one.
        disk_full: Whether nothing more may go to the disk of this node.
        replies: What takes direct replies on this node, by vhost and address.
        traffic: What clients of this node published, by vhost.
        former_traffic: The same to vhosts that are gone, all counts added up.
        counted_anew: Vhosts that ended, of which statistics have yet to forget the figures.
        tracers: Whether vhosts are traced on this node, by name.
        budget: What searches for routes draw on.
    """

    def __init__(
        self,
        tables: MetadataMachine,
        authority: Authority,
        node_name: str,
        max_message_bytes: i64,
    ) -> None:
        self.tables: MetadataMachine = tables
        self.authority: Authority = authority
        self.node_name: str = node_name
        self.max_message_bytes: i64 = max_message_bytes
        self.consumer_timeout_ms: i64 = 1_800_000
        self.default_queue_type: str = ""
        self.relaxed_declares: bool = False
        self.disk_full: bool = False
        self.replies: dict[tuple[str, str], ReplyTarget] = {}
        self.traffic: dict[str, PublishedTraffic] = {}
        self.former_traffic: PublishedTraffic = PublishedTraffic()
        self.counted_anew: dict[str, None] = {}
        self.tracers: dict[str, Tracer] = {}
        self.budget: TurnBudget = TurnBudget()

    def traffic_of(self, vhost: str) -> PublishedTraffic:
        """What clients of this node published to a vhost."""
        found = self.traffic.get(vhost)
        if found is None:
            found = self.traffic[vhost] = PublishedTraffic()
        return found

    def forget_traffic(self, vhost: str) -> None:
        """Count anew what is published to a vhost of a name: the former one is gone."""
        self.counted_anew[vhost] = None
        gone = self.traffic.pop(vhost, None)
        if gone is not None:
            self.former_traffic.add(gone)

    def all_traffic(self) -> PublishedTraffic:
        """What clients of this node published, also to vhosts that are gone."""
        whole = PublishedTraffic()
        whole.add(self.former_traffic)
        for counts in self.traffic.values():
            whole.add(counts)
        return whole

    def tracer_of(self, vhost: str) -> Tracer:
        """Whether a vhost is traced on this node."""
        found = self.tracers.get(vhost)
        if found is None:
            found = self.tracers[vhost] = Tracer()
        return found

    @abstractmethod
    def trace(self, run: TracedRun) -> None:
        """Tell, in a later turn, of messages of a vhost that is traced."""

    @abstractmethod
    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on: of all that is long, one part a turn."""

    @abstractmethod
    def random_bytes(self, count: int) -> bytes:
        """Bytes that cannot be guessed."""

    # Direct replies.

    @abstractmethod
    def reply_address(self) -> str:
        """An address for a channel of this node that takes replies, which cannot be guessed."""

    @abstractmethod
    def addressed_reply(self, vhost: str, address: str) -> ReplyTarget | None:
        """Where replies to an address go that no channel here has; None if it can be none."""

    @abstractmethod
    def seek_reply(
        self, vhost: str, address: str, refusal: Refusal, pending: PendingRequest
    ) -> bool:
        """Ask another node whether its channel takes replies to an address; `pending` is told.

        It is refused with `refusal` if none does, or no answer comes in time; False if no node that
        is up can have it.
        """

    # Limits.

    @abstractmethod
    def channel_opened(self, user: str) -> None:
        """Count one more channel of a user.

        Raises:
            Refusal: `NOT_ALLOWED`, there are as many as there may be.
        """

    @abstractmethod
    def channel_closed(self, user: str) -> None:
        """Count one channel of a user less."""

    @abstractmethod
    def left(self, user: str, vhost: str) -> None:
        """Count one connection less of a user and of a vhost."""

    # Changes of the tables.

    @abstractmethod
    def submit(self, command: Command, change: PendingResult) -> None:
        """Have a change logged; `change` is told when it is in force here."""

    @abstractmethod
    def withdraw(self, pending: PendingResult) -> None:
        """Give up the changes that a request waits for, if they cannot come into force any more."""

    @abstractmethod
    def new_group(self) -> i64:
        """The incarnation of a queue that is about to be declared."""

    @abstractmethod
    def place(self, command: DeclareQueue) -> None:
        """Say where a queue about to be declared will live."""

    @abstractmethod
    def delete_owned(self, vhost: str, connection: i64) -> None:
        """Delete the exclusive queues of a connection that is gone."""

    @abstractmethod
    def majority_missing(self, queue: QueueRecord | None) -> str:
        """Why a queue, or for None the tables, can do nothing now; empty if that is not known."""

    @abstractmethod
    def keep_recent(self, vhost: str, exchange: str, records: list[bytes]) -> None:
        """Have an exchange keep messages that were published to it."""

    @abstractmethod
    def flush_recent(self, vhost: str, exchange: str) -> None:
        """Have all such messages logged before what is submitted from now on."""

    # Queues.

    @abstractmethod
    def use(self, vhost: str, name: str) -> Queue | None:
        """Let clients of this node use a queue that only other nodes hold, or that is yet to begin
        here; None if it is no such.

        From then on it is among those that the vhost has on this node.
        """

    @abstractmethod
    def stores(self, group_id: i64) -> bool:
        """Whether a queue's messages go to the disk of this node."""

    @abstractmethod
    def halts(self, group_id: i64) -> bool:
        """Whether a queue is not to be used, because its log is damaged."""

    @abstractmethod
    def removing(self) -> bool:
        """Whether any queue is about to go because its consumers or its connection went.

        Not while the tables cannot be changed: then there is no point in waiting for it.
        """

    @abstractmethod
    def after_removal(self, vhost: str, queue: str, waiting: Resumable) -> bool:
        """Whether such a queue is about to go; if so, `waiting` goes on when it is gone."""

    @abstractmethod
    def after_unbinding(self, vhost: str, exchange: str, waiting: Resumable) -> bool:
        """Whether such a queue may take an exchange along; if so, `waiting` goes on then."""
