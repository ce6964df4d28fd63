"""What a client's connection asks of the node."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.limits import (
    FEED_READS_MAX,
    GROUP_RECENT_BYTES_MAX,
    TABLES_VOTERS_MAX,
    TURN_CHANGES_MAX,
)
from warren.log.config import LogConfig
from warren.metadata.grants import Grants
from warren.ports import Work
from warren.protocols.client import ClientConnection, EndOfTurn
from warren.protocols.facts import ConsumerFacts
from warren.protocols.output import OutputHost
from warren.queues.fifo.live import PART_RUNS
from warren.queues.queue import Host
from warren.queues.traffic import Traffic
from warren.turn_budget import TurnBudget
from warren.versions import NEWEST
from warren.vhost.handle import VhostHandle
from warren.vhost.pending import Resumable

ALARM_MEMORY: Final = 1
ALARM_DISK: Final = 2
ELSEWHERE_SHIFT: Final = 2
"""Alarms of other nodes stand so many bits above this node's own."""


@final
class Login:
    """Who logged in.

    Attributes:
        grants: What they may do by a token; None for what the tables say.
    """

    def __init__(self, user: str, host: str, grants: Grants | None = None) -> None:
        self.user: str = user
        self.host: str = host
        self.grants: Grants | None = grants


@final
class Settings:
    """What a node is told by its configuration; sizes in bytes.

    Attributes:
        node_name: As in `warren@host`.
        node_uid: 16 bytes drawn once for the data directory.
        boot: How often the data directory was started, this time included.
        life: 16 random bytes that were drawn for this start; empty for the node to draw them.
        former_uid: The uid that the data directory gave up, because it lacks what it acknowledged:
            the node takes its own place in the cluster, and its copies begin with nothing.
        salvage: Whether a start goes on over damage of which nobody knows what was there.
        cluster_host, cluster_port: Where other nodes reach this one.
        join: Whether an empty data directory waits to be taken into a cluster.
        frame_max: Largest frame offered to clients.
        channel_max: Most channels a connection may have.
        metadata_bytes_max: What all definitions may take in memory; 0 for what fits the limit.
        consumers_max: Consumers that one channel may have; -1 for any number.
        tx_messages_max: Messages that may wait for the commit of one channel; -1 for any number.
        heartbeat_s: Heartbeat interval suggested to clients.
        connections_max: Connections of clients that may be there when one is opened; -1 for any.
        handshake_timeout_ms: Time a client has to log in.
        max_message_bytes: Largest body that may be published.
        log: The log's; the node draws the salt.
        memory_limit_bytes: More memory than this raises the memory alarm; 0 for never.
        paging_share: Above this share of it, bodies of queues in memory go to disk; 0 for never.
        default_vhost, default_user, default_password: Made where the data directory is empty.
        loopback_users: Users that may connect from this machine only.
        mechanisms: SASL mechanisms by which clients may log in.
        quorum_size: How many members of a quorum queue vote where its declare says nothing.
        commands_soft_limit: Messages under way to a quorum queue before its publishers wait; 0 for
            no such limit.
        delivery_limit: Failed deliveries that a message of a quorum queue survives (POI-03).
        default_queue_type: The type of queues that are declared without one, if their vhost says
            nothing; empty for the usual one.
        relaxed_declares: Whether a quorum queue may be declared like a classic one.
        consumer_timeout_ms: How long consumers of quorum queues may hold a message (CT-08).
        consumer_disconnected_timeout_ms: How long they keep what they hold when their node is not
            heard.
        dead_letter_prefetch: How many dead letters of a quorum queue are on their way at a time,
            where they are to be confirmed (DL-14).
        majority_wait_ms: How long a client's method may wait for a majority before it is refused.
        leader_locator: Where the leader of such a queue begins; see `metadata.placement`.
        strict_priorities: Whether the highest priority always goes first in a new one, of 32; else
            there are two levels.
        tables_voters: Nodes that vote on what the tables say, at most.
        changes_at_once: Committed changes of the tables that one turn puts in force.
        part_runs: So many runs of messages one part of what takes long looks at.
        reconciles: Whether queues with too few members get more; see `node.reconcile`.
        reconcile_target: How many they are to have; 0 if only their arguments say so.
        reconcile_interval_ms: How often that is looked at.
        host_label, zone: Where this node is, see `NodeRecord`.
        cluster_version_max: The newest cluster version that this node uses; see `warren.versions`.
        recent_bytes_max: Of a group's newest entries so much is kept in memory, for other nodes.
        renews_hashes: Whether each login costs an Argon2id hash until its password is known, and
            other hashes give way to that. Simulations log in too often.
        feed_reads_max: How often the disk is read for an observer before it gets the group's state.
        reconcile_trigger_ms: How long after a change of the cluster it is looked at.
    """

    def __init__(self, node_name: str) -> None:
        self.node_name: str = node_name
        self.node_uid: bytes = bytes(16)
        self.boot: int = 0
        self.life: bytes = b""
        self.former_uid: bytes = b""
        self.salvage: bool = False
        self.cluster_host: str = ""
        self.cluster_port: int = 0
        self.join: bool = False
        self.host_label: str = ""
        self.zone: str = ""
        self.cluster_version_max: int = NEWEST
        self.frame_max: int = 131_072
        self.channel_max: int = 2_047
        self.metadata_bytes_max: int = 0
        self.consumers_max: int = -1
        self.tx_messages_max: int = -1
        self.heartbeat_s: int = 60
        self.connections_max: int = -1
        self.handshake_timeout_ms: int = 10_000
        self.max_message_bytes: int = 16_777_216
        self.log: LogConfig = LogConfig()
        self.memory_limit_bytes: int = 0
        self.paging_share: float = 0.0
        self.default_vhost: str = "/"
        self.default_user: str = "guest"
        self.default_password: str = "guest"
        self.loopback_users: list[str] = ["guest"]
        self.mechanisms: list[str] = ["PLAIN", "AMQPLAIN"]
        self.quorum_size: int = 3
        self.commands_soft_limit: int = 0
        self.delivery_limit: int = 20
        self.default_queue_type: str = ""
        self.relaxed_declares: bool = False
        self.consumer_timeout_ms: int = 1_800_000
        self.consumer_disconnected_timeout_ms: int = 60_000
        self.dead_letter_prefetch: int = 32
        self.majority_wait_ms: int = 30_000
        self.leader_locator: str = "client-local"
        self.strict_priorities: bool = False
        self.tables_voters: int = TABLES_VOTERS_MAX
        self.changes_at_once: int = TURN_CHANGES_MAX
        self.part_runs: int = PART_RUNS
        self.reconciles: bool = False
        self.reconcile_target: int = 0
        self.reconcile_interval_ms: int = 3_600_000
        self.reconcile_trigger_ms: int = 10_000
        self.feed_reads_max: int = FEED_READS_MAX
        self.recent_bytes_max: int = GROUP_RECENT_BYTES_MAX
        self.renews_hashes: bool = True

    def paging_limit_bytes(self) -> int:
        """Memory above which bodies of queues in memory go to disk; 0 for never."""
        limit = int(self.memory_limit_bytes * self.paging_share)
        return max(limit, 1) if self.memory_limit_bytes and self.paging_share else 0


@trait
class LoginListener:
    """Waits until a password was checked.

    Attributes:
        waited: Whether the password has had its turn.
        turned_away: Whether it got none, since too many wrong ones came from the same address. The
            client is not let in.
    """

    waited: bool
    turned_away: bool

    @abstractmethod
    def verified(self) -> None:
        """What comes of the password is known: `Broker.login` says it at once."""


class Broker(Host, OutputHost):
    """The node, as a connection sees it beside its vhost.

    Attributes:
        settings: What the configuration says.
        assembled_bytes: What is here of messages that no queue has, of all connections.
        assembly_bytes_max: How much that may be.
        turn_number: How manieth turn of the loop this is.
        inputs: How many connections brought input since the last turn; they count themselves.
        input_share: How many bytes of input one connection may bring before the next turn.
        traffic: What is counted of messages and clients.
        budget: What one turn may cost beside bytes of input.
    """

    settings: Settings
    assembled_bytes: i64
    assembly_bytes_max: i64
    turn_number: i64
    inputs: i64
    input_share: i64
    traffic: Traffic
    budget: TurnBudget

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""

    # Coming and going.

    @abstractmethod
    def login_waits(self, user: str, password: str, host: str, listener: LoginListener) -> bool:
        """Whether it takes a while until a password may be answered; the listener is told then.

        Args:
            host: From where the client comes.
        """

    @abstractmethod
    def login(self, user: str, password: str, host: str) -> Login | None:
        """Check who a client says it is; None if it may not come in."""

    @abstractmethod
    def login_tried(self, connection: ClientConnection, user: str, problem: str) -> None:
        """Tell of a client that said who it is.

        Args:
            user: As it called itself; empty if that could not be told.
            problem: Why it may not come in; empty if it may.
        """

    @abstractmethod
    def renew_login(self, login: Login, secret: str, vhost: str) -> bool:
        """Let a client go on by another token; whether that is good, and of the same user.

        One that came in by a password needs no other.

        Raises:
            Refusal: `NOT_ALLOWED`, the token is good for no access to the client's vhost.
        """

    @abstractmethod
    def login_certified(self, user: str, host: str) -> Login | None:
        """The login of a client whose certificate was verified and names a user; None if there is
        no such user, or it may not come from there."""

    @abstractmethod
    def open_vhost(self, login: Login, vhost: str) -> VhostHandle:
        """Give a logged-in client its vhost.

        Raises:
            Refusal: `NOT_ALLOWED`, there is no such vhost or no access to it.
        """

    @abstractmethod
    def connection_opened(self, connection: ClientConnection) -> None:
        """Tell of a connection, which may be used now."""

    @abstractmethod
    def channel_changed(self, connection: ClientConnection, number: i64, opened: bool) -> None:
        """Tell of a channel that was opened or closed."""

    @abstractmethod
    def consumer_changed(
        self, connection: ClientConnection, channel: i64, consumer: ConsumerFacts, begun: bool
    ) -> None:
        """Tell of a consumer that has begun or is gone."""

    @abstractmethod
    def connection_closed(self, connection: ClientConnection) -> None:
        """Forget a connection, which has nothing left in the broker."""

    @abstractmethod
    def connection_closing(self, connection: ClientConnection) -> None:
        """Keep a closed connection, which waits for its client's answer."""

    # Later.

    @abstractmethod
    def pulse_later(self, connection: ClientConnection, at_ms: int) -> None:
        """Call a connection's `pulse` at this time of `monotonic_ms`, if it is still there."""

    @abstractmethod
    def confirm_later(self, channel: EndOfTurn) -> None:
        """Have a channel write its confirms at the end of the turn."""

    @abstractmethod
    def wake_later(self, channel: EndOfTurn) -> None:
        """Have a channel's consumers looked at when settles have been applied."""

    @abstractmethod
    def go_on_later(self, channel: Resumable, spent: bool = False) -> None:
        """Have a channel go on in the next turn.

        Args:
            spent: Whether it used up more than its bytes of input say; it is among the last then.
        """

    @abstractmethod
    def do_small(self, work: Work) -> None:
        """Have something done from the next turn on that pays for each step from the turn's budget.

        Of such works one turn does as many parts as the budget allows.
        """

    # Shortages, and the log.

    @abstractmethod
    def shed_assembly(self, limit: int = -1) -> bool:
        """Refuse something of what no queue has; whether there was any.

        Args:
            limit: What is too much, in bytes; 0 where memory is short because of it, and -1 where
                it is more than the node may have.
        """

    @abstractmethod
    def alarms(self) -> i64:
        """Alarms raised now, a sum of the `ALARM_` constants, here and elsewhere."""

    @abstractmethod
    def alarm_reason(self) -> str:
        """What blocked publishers are told."""

    @abstractmethod
    def log_warning(self, text: str) -> None:
        """Write to the node's log."""

    @abstractmethod
    def contain(self, text: str, error: Exception) -> None:
        """Write an error of this program's own to the node's log, with its stack.

        Args:
            text: What ends because of it.
        """
