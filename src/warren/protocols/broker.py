"""What a client protocol sees of the node: sessions, routes, and who waits for what."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, trait

from warren.errors import Refusal
from warren.limits import TURN_CHANGES_MAX
from warren.log.config import LogConfig
from warren.ports import Work
from warren.protocols.amqp091.output import OutputHost
from warren.queues.links import Waiter
from warren.queues.queue import Host, Queue
from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import PropertyScan

ALARM_MEMORY: Final = 1
ALARM_DISK: Final = 2
ELSEWHERE_SHIFT: Final = 2
"""Alarms of other nodes stand so many bits above this node's own."""


class Completion(Waiter):
    """Someone who waits for work that may turn out to be impossible."""

    def refused(self, refusal: Refusal) -> None:
        """It cannot be done."""
        raise AssertionError("a completion defines refused")

    def named(self, name: str) -> None:
        """The queue that was declared; called before the answer."""
        raise AssertionError("a completion defines named")


@trait
class SessionOwner:
    """The connection that a session belongs to."""

    def close(self, code: int, text: str) -> None:
        """End the connection from the server's side."""
        raise AssertionError("a session owner defines close")


@trait
class Confirming:
    """A channel with something to do at the end of the turn."""

    def go_on(self) -> None:
        """Take up what was put aside."""
        raise AssertionError("a confirming channel defines go_on")

    def write_confirms(self) -> None:
        """Write the confirms that are due."""
        raise AssertionError("a confirming channel defines write_confirms")

    def wake_consumers(self) -> None:
        """Let consumers take part again whose shared limit has room."""
        raise AssertionError("a confirming channel defines wake_consumers")


@final
class Login:
    """Who logged in."""

    def __init__(self, user: str, host: str) -> None:
        self.user: str = user
        self.host: str = host


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
        heartbeat_s: Heartbeat interval suggested to clients.
        connections_max: Connections of clients that may be there when one is opened; -1 for any.
        handshake_timeout_ms: Time a client has to log in.
        max_message_bytes: Largest body that may be published.
        log: The log's; the node draws the salt.
        memory_limit_bytes: More memory than this raises the memory alarm; 0 for never.
        default_vhost, default_user, default_password: Made where the data directory is empty.
        loopback_users: Users that may connect from this machine only.
        quorum_size: How many members of a quorum queue vote where its declare says nothing.
        delivery_limit: Returns that a message of a quorum queue survives (POI-03).
        majority_wait_ms: How long a client's method may wait for a majority before it is refused.
        leader_locator: Where the leader of such a queue begins; see `metadata.placement`.
        changes_at_once: Committed changes of the tables that one turn puts in force.
        reconciles: Whether queues with too few members get more; see `node.reconcile`.
        reconcile_target: How many they are to have; 0 if only their arguments say so.
        reconcile_interval_ms: How often that is looked at.
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
        self.frame_max: int = 131_072
        self.channel_max: int = 2_047
        self.heartbeat_s: int = 60
        self.connections_max: int = -1
        self.handshake_timeout_ms: int = 10_000
        self.max_message_bytes: int = 16_777_216
        self.log: LogConfig = LogConfig()
        self.memory_limit_bytes: int = 0
        self.default_vhost: str = "/"
        self.default_user: str = "guest"
        self.default_password: str = "guest"
        self.loopback_users: list[str] = ["guest"]
        self.quorum_size: int = 3
        self.delivery_limit: int = 20
        self.majority_wait_ms: int = 30_000
        self.leader_locator: str = "client-local"
        self.changes_at_once: int = TURN_CHANGES_MAX
        self.reconciles: bool = False
        self.reconcile_target: int = 0
        self.reconcile_interval_ms: int = 3_600_000
        self.reconcile_trigger_ms: int = 10_000


class ReplyTarget:
    """A channel that takes direct replies."""

    def replied(self, record: bytes) -> None:
        """A message was published to this channel's reply address."""
        raise AssertionError("a reply target defines replied")


@final
class Route:
    """Where messages with one exchange and one routing key go, as of one generation.

    Attributes:
        exchange, routing_key, mandatory: As published.
        generation: Routing state this was computed from; stale when the session's differs.
        queues: The destinations, each once.
        by_headers: Whether the exchange routes by each message's headers.
        reply: Set where the message is a direct reply.
    """

    def __init__(self, exchange: str, routing_key: str, mandatory: bool, generation: i64) -> None:
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        self.mandatory: bool = mandatory
        self.generation: i64 = generation
        self.queues: list[Queue] = []
        self.by_headers: bool = False
        self.reply: ReplyTarget | None = None


class Session:
    """An authenticated connection's view of one vhost; the one place that authorises (R-39).

    Methods that change topology check first, raise for what is wrong, and complete when the change
    is durable. Reply texts are those of B-07.

    Attributes:
        max_message_bytes: Largest body that may be published.
    """

    max_message_bytes: i64

    # Publishing.

    def generation(self) -> i64:
        """Changes whenever a route may have changed."""
        raise AssertionError("a session defines generation")

    def resolve(self, method: bytes) -> Route:
        """The route of a `basic.publish` method frame.

        Raises:
            Refusal: This user may not publish there, or it does not exist, or `immediate` is set.
        """
        raise AssertionError("a session defines resolve")

    def route_by_headers(self, route: Route, scan: PropertyScan, properties: bytes) -> Route:
        """The route of one message by its headers, CC and BCC among them."""
        raise AssertionError("a session defines route_by_headers")

    def check_properties(self, scan: PropertyScan, route: Route) -> None:
        """Refuse what this user may not claim and what is not supported.

        Raises:
            Refusal: `PRECONDITION_FAILED`.
        """
        raise AssertionError("a session defines check_properties")

    def refuses(self, route: Route) -> bool:
        """Whether publishes to this route cannot be taken now, for want of disk space."""
        raise AssertionError("a session defines refuses")

    # Topology.

    def declare_exchange(self, method: spec.ExchangeDeclare, done: Completion) -> None:
        """`exchange.declare`."""
        raise AssertionError("a session defines declare_exchange")

    def delete_exchange(self, method: spec.ExchangeDelete, done: Completion) -> None:
        """`exchange.delete`."""
        raise AssertionError("a session defines delete_exchange")

    def bind_exchange(
        self, method: spec.ExchangeBind | spec.ExchangeUnbind, done: Completion
    ) -> None:
        """`exchange.bind` and `exchange.unbind`."""
        raise AssertionError("a session defines bind_exchange")

    def declare_queue(self, method: spec.QueueDeclare, name: str, done: Completion) -> None:
        """`queue.declare`; the reply's `a` is the message count, `b` the consumer count."""
        raise AssertionError("a session defines declare_queue")

    def bind_queue(
        self, method: spec.QueueBind | spec.QueueUnbind, name: str, key: str, done: Completion
    ) -> None:
        """`queue.bind` and `queue.unbind`."""
        raise AssertionError("a session defines bind_queue")

    def delete_queue(self, method: spec.QueueDelete, name: str, done: Completion) -> None:
        """`queue.delete`; the reply's `a` is how many messages went with it."""
        raise AssertionError("a session defines delete_queue")

    def queue_for(self, name: str, permission: str) -> Queue:
        """A queue that this user may use.

        Raises:
            Refusal: It is not there, there is no permission, or it is another connection's.
        """
        raise AssertionError("a session defines queue_for")

    # The rest.

    def new_name(self, prefix: str) -> str:
        """A name that nobody can guess."""
        raise AssertionError("a session defines new_name")

    def register_reply(self, address: str, target: ReplyTarget) -> None:
        """Direct replies to an address go to this channel."""
        raise AssertionError("a session defines register_reply")

    def forget_reply(self, address: str) -> None:
        """The address is dead."""
        raise AssertionError("a session defines forget_reply")

    def confirm_later(self, channel: Confirming) -> None:
        """Have a channel write its confirms at the end of the turn."""
        raise AssertionError("a session defines confirm_later")

    def wake_later(self, channel: Confirming) -> None:
        """Have a channel's consumers looked at when settles have been applied."""
        raise AssertionError("a session defines wake_later")

    def log_warning(self, text: str) -> None:
        """Write to the node's log."""
        raise AssertionError("a session defines log_warning")

    def timed_out(
        self, request: spec.Method, name: str, queue: Queue | None, done: Completion
    ) -> Refusal:
        """The error for a method that waited too long for its cluster, or its queue.

        Args:
            request: The method.
            name: The queue that it declares.
            queue: The queue that it uses.
            done: Whoever waits for it; is told no more, as far as that can be.
        """
        raise AssertionError("a session defines timed_out")

    def without_majority(self, queues: list[Queue]) -> Queue | None:
        """The first of some queues that nobody leads; None if all are led, or need nobody to."""
        raise AssertionError("a session defines without_majority")

    def removing(self) -> bool:
        """Whether any queue is about to go because its consumers or its connection went."""
        raise AssertionError("a session defines removing")

    def after_removal(self, queue: str, channel: Confirming) -> bool:
        """Whether a queue is about to go; if so, the channel goes on when it is gone."""
        raise AssertionError("a session defines after_removal")

    def after_unbinding(self, exchange: str, channel: Confirming) -> bool:
        """Whether such a queue may take an exchange along; if so, the channel goes on then."""
        raise AssertionError("a session defines after_unbinding")

    def go_on_later(self, channel: Confirming) -> None:
        """Have a channel go on in the next turn."""
        raise AssertionError("a session defines go_on_later")

    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on, in turns with whatever else is long."""
        raise AssertionError("a session defines do_in_parts")

    def closed(self) -> None:
        """The connection is gone: so are its exclusive queues."""
        raise AssertionError("a session defines closed")


class Broker(Host, OutputHost):
    """The node, as a connection sees it before and beside its session.

    Attributes:
        settings: What the configuration says.
        assembled_bytes: What is here of messages that are not whole, of all connections.
        assembly_bytes_max: How much that may be.
    """

    settings: Settings
    assembled_bytes: i64
    assembly_bytes_max: i64

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        raise AssertionError("a broker defines monotonic_ms")

    def greeting(self) -> bytes:
        """The frame of `connection.start`, the same for everybody."""
        raise AssertionError("a broker defines greeting")

    def login(self, user: str, password: str, host: str) -> Login | None:
        """Check who a client says it is; None if it may not come in."""
        raise AssertionError("a broker defines login")

    def open_session(self, login: Login, vhost: str, owner: SessionOwner) -> Session:
        """Give a logged-in client its vhost.

        Raises:
            Refusal: `NOT_ALLOWED`, there is no such vhost or no access to it.
        """
        raise AssertionError("a broker defines open_session")

    def pulse_later(self, connection: SessionOwner, at_ms: int) -> None:
        """Call a connection's `pulse` at this time of `monotonic_ms`, if it is still there."""
        raise AssertionError("a broker defines pulse_later")

    def connection_closed(self, connection: SessionOwner) -> None:
        """A connection has nothing left in the broker."""
        raise AssertionError("a broker defines connection_closed")

    def connection_closing(self, connection: SessionOwner) -> None:
        """A closed connection waits for its client's answer."""
        raise AssertionError("a broker defines connection_closing")

    def shed_assembly(self) -> None:
        """Refuse a message that is not whole: there is too much of such."""
        raise AssertionError("a broker defines shed_assembly")

    def alarms(self) -> i64:
        """Alarms raised now, a sum of the `ALARM_` constants, here and elsewhere."""
        raise AssertionError("a broker defines alarms")

    def alarm_reason(self) -> str:
        """What blocked publishers are told."""
        raise AssertionError("a broker defines alarm_reason")

    def log_warning(self, text: str) -> None:
        """Write to the node's log."""
        raise AssertionError("a broker defines log_warning")
