"""The types of queues and what each can do: the one place that tells types apart by name.

Tables, vhosts, protocols, nodes and operators ask a type for what they want to know, and never
which one it is, so that a further type is a row here and a class in `queues`. It lies below both
`metadata` and `queues`, of which neither imports the other.

Source: the capabilities of each queue type in RabbitMQ 4.3 (`rabbit_queue_type`).
"""

from __future__ import annotations

from typing import Final, final

from warren.errors import StorageError

DELIVERY_LIMIT: Final = "delivery-limit"
X_DELIVERY_LIMIT: Final = "x-delivery-limit"
TARGET_GROUP_SIZE: Final = "target-group-size"
QUEUE_LEADER_LOCATOR: Final = "queue-leader-locator"
EXPIRES: Final = "expires"
MESSAGE_TTL: Final = "message-ttl"
MAX_LENGTH: Final = "max-length"
MAX_LENGTH_BYTES: Final = "max-length-bytes"
OVERFLOW: Final = "overflow"
DEAD_LETTER_EXCHANGE: Final = "dead-letter-exchange"
DEAD_LETTER_KEY: Final = "dead-letter-routing-key"
DEAD_LETTER_STRATEGY: Final = "dead-letter-strategy"
"""Keys of policies."""

X_EXPIRES: Final = "x-expires"
X_MESSAGE_TTL: Final = "x-message-ttl"
X_MAX_LENGTH: Final = "x-max-length"
X_MAX_LENGTH_BYTES: Final = "x-max-length-bytes"
X_OVERFLOW: Final = "x-overflow"
X_DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
X_DEAD_LETTER_KEY: Final = "x-dead-letter-routing-key"
X_DEAD_LETTER_STRATEGY: Final = "x-dead-letter-strategy"
"""The arguments of the same meaning as the keys from `expires` on."""

X_MAX_PRIORITY: Final = "x-max-priority"
PRIORITY_MAX: Final = 255

DROP_HEAD: Final = "drop-head"
QUEUE_MODE: Final = "queue-mode"
LAZY: Final = "lazy"
REJECT_PUBLISH: Final = "reject-publish"
REJECT_PUBLISH_DLX: Final = "reject-publish-dlx"
"""What may become of messages that are too many."""

AT_MOST_ONCE: Final = "at-most-once"
AT_LEAST_ONCE: Final = "at-least-once"
"""How messages that die may go on elsewhere."""

X_SINGLE_ACTIVE_CONSUMER: Final = "x-single-active-consumer"
"""An argument only: no policy says so."""

CONSUMER_TIMEOUT: Final = "consumer-timeout"
"""A key of policies."""
X_CONSUMER_TIMEOUT: Final = "x-consumer-timeout"
"""The argument of the same meaning, of queues and of consumers."""

DISCONNECTED_TIMEOUT: Final = "consumer-disconnected-timeout"
"""A key of policies."""
X_DISCONNECTED_TIMEOUT: Final = "x-consumer-disconnected-timeout"
"""The argument of the same meaning."""

DELAYED_RETRY_TYPE: Final = "delayed-retry-type"
DELAYED_RETRY_MIN: Final = "delayed-retry-min"
DELAYED_RETRY_MAX: Final = "delayed-retry-max"
"""Keys of policies; arguments of the same meaning begin with `x-`."""
X_DELAYED_RETRIES: Final = ("x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max")

OF_STREAMS: Final = ("max-age", "stream-max-segment-size-bytes", "initial-cluster-size")
"""Keys of policies that mean something to streams alone."""

TARGET_SIZE: Final = "x-quorum-target-group-size"
"""RabbitMQ does not count it among a queue's arguments: a type that does not honour it may have it
all the same, to no effect, and two declares of one queue may differ in it."""


@final
class QueueType:
    """What queues of one type can do.

    Attributes:
        name: As `x-queue-type` and the tables have it.
        module: RabbitMQ's, which its error texts name.
        title: How texts call a queue of the type that could not be declared in time.
        policies: What the `apply-to` of a policy calls queues of the type.
        supported: Whether this version has such queues.
        replicated: Whether members on several nodes hold the queue, by Raft. Else it lives on one
            node, and is used from the others by a proxy.
        transient: Whether it may be declared not durable, and then lives in memory.
        exclusive: Whether it may belong to one connection.
        auto_delete: Whether it may go with its last consumer.
        server_named: Whether a declare without a name is given one.
        conditional_delete: Whether a delete may ask for it to be unused, or empty.
        exclusive_consumers: Whether a consumer's wish to be the only one is heeded.
        single_active_polls: Whether `basic.get` is possible where one consumer is active at a time.
        global_qos: Whether it honours a prefetch limit over all consumers of a channel. Else such a
            limit is one for each consumer (D-22).
        shows_delivery_counts: Whether messages that come again say how often (POI-01).
        priority_levels: Whether messages of high priority overtake others (PRI-02).
        arguments: Those that it has a meaning for, in the order in which RabbitMQ compares them.
        further_arguments: Honoured, but no part of what makes two declares the same.
        consumer_arguments: Of a consumer's arguments, those that other types do not have.
        delays: Whether messages wait here, out of sight of clients, until they go on.
        policy_keys: Settings of policies that this version honours for it.
        foreign_policy_keys: Settings of other types, which keep a whole policy from it.
    """

    def __init__(
        self,
        name: str,
        module: str,
        title: str,
        policies: str,
        *,
        supported: bool,
        replicated: bool,
        transient: bool,
        exclusive: bool,
        auto_delete: bool,
        server_named: bool,
        conditional_delete: bool,
        exclusive_consumers: bool,
        single_active_polls: bool,
        global_qos: bool,
        shows_delivery_counts: bool,
        priority_levels: bool,
        arguments: tuple[str, ...],
        further_arguments: tuple[str, ...],
        consumer_arguments: tuple[str, ...],
        policy_keys: tuple[str, ...],
        foreign_policy_keys: tuple[str, ...],
        delays: bool = False,
    ) -> None:
        self.name: str = name
        self.module: str = module
        self.title: str = title
        self.policies: str = policies
        self.supported: bool = supported
        self.replicated: bool = replicated
        self.transient: bool = transient
        self.exclusive: bool = exclusive
        self.auto_delete: bool = auto_delete
        self.server_named: bool = server_named
        self.conditional_delete: bool = conditional_delete
        self.exclusive_consumers: bool = exclusive_consumers
        self.single_active_polls: bool = single_active_polls
        self.global_qos: bool = global_qos
        self.shows_delivery_counts: bool = shows_delivery_counts
        self.priority_levels: bool = priority_levels
        self.arguments: tuple[str, ...] = arguments
        self.further_arguments: tuple[str, ...] = further_arguments
        self.consumer_arguments: tuple[str, ...] = consumer_arguments
        self.policy_keys: tuple[str, ...] = policy_keys
        self.foreign_policy_keys: tuple[str, ...] = foreign_policy_keys
        self.delays: bool = delays


CLASSIC: Final = QueueType(
    "classic",
    "rabbit_classic_queue",
    "queue",
    "classic_queues",
    supported=True,
    replicated=False,
    transient=True,
    exclusive=True,
    auto_delete=True,
    server_named=True,
    conditional_delete=True,
    exclusive_consumers=True,
    single_active_polls=True,
    global_qos=True,
    shows_delivery_counts=False,
    priority_levels=False,
    arguments=(
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        X_SINGLE_ACTIVE_CONSUMER,
        "x-queue-type",
        "x-queue-master-locator",
        "x-queue-leader-locator",
    ),
    further_arguments=(),
    consumer_arguments=(),
    policy_keys=(
        QUEUE_LEADER_LOCATOR,
        EXPIRES,
        MESSAGE_TTL,
        MAX_LENGTH,
        MAX_LENGTH_BYTES,
        OVERFLOW,
        DEAD_LETTER_EXCHANGE,
        DEAD_LETTER_KEY,
    ),
    foreign_policy_keys=(
        *OF_STREAMS,
        DELIVERY_LIMIT,
        "dead-letter-strategy",
        "max-in-memory-length",
        "max-in-memory-bytes",
        TARGET_GROUP_SIZE,
    ),
)

QUORUM: Final = QueueType(
    "quorum",
    "rabbit_quorum_queue",
    "quorum queue",
    "quorum_queues",
    supported=True,
    replicated=True,
    transient=False,
    exclusive=False,
    auto_delete=False,
    server_named=False,
    conditional_delete=False,
    exclusive_consumers=False,
    single_active_polls=False,
    global_qos=False,
    shows_delivery_counts=True,
    priority_levels=True,
    arguments=(
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        X_SINGLE_ACTIVE_CONSUMER,
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-member-placement-tag",
        X_DELIVERY_LIMIT,
        "x-message-ttl",
        "x-queue-leader-locator",
        X_DISCONNECTED_TIMEOUT,
        X_CONSUMER_TIMEOUT,
        *X_DELAYED_RETRIES,
    ),
    further_arguments=(TARGET_SIZE,),
    consumer_arguments=(X_CONSUMER_TIMEOUT,),
    policy_keys=(
        DELIVERY_LIMIT,
        TARGET_GROUP_SIZE,
        QUEUE_LEADER_LOCATOR,
        EXPIRES,
        MESSAGE_TTL,
        MAX_LENGTH,
        MAX_LENGTH_BYTES,
        OVERFLOW,
        CONSUMER_TIMEOUT,
        DISCONNECTED_TIMEOUT,
        DEAD_LETTER_EXCHANGE,
        DEAD_LETTER_KEY,
        DEAD_LETTER_STRATEGY,
        DELAYED_RETRY_TYPE,
        DELAYED_RETRY_MIN,
        DELAYED_RETRY_MAX,
    ),
    foreign_policy_keys=(*OF_STREAMS, QUEUE_MODE),
)

STREAM: Final = QueueType(
    "stream",
    "rabbit_stream_queue",
    "queue",
    "streams",
    supported=False,
    replicated=True,
    transient=False,
    exclusive=False,
    auto_delete=False,
    server_named=False,
    conditional_delete=False,
    exclusive_consumers=False,
    single_active_polls=False,
    global_qos=False,
    shows_delivery_counts=False,
    priority_levels=False,
    arguments=(
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
    further_arguments=(),
    consumer_arguments=("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"),
    policy_keys=(),
    foreign_policy_keys=(
        "expires",
        "message-ttl",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
        "max-length",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "overflow",
        QUEUE_MODE,
        DELIVERY_LIMIT,
        TARGET_GROUP_SIZE,
    ),
)
"""Known, so that what RabbitMQ knows is told from what nobody does; not there yet."""

DELAYED: Final = QueueType(
    "delayed",
    "",
    "messages that wait",
    "",
    supported=True,
    replicated=True,
    transient=False,
    exclusive=False,
    auto_delete=False,
    server_named=False,
    conditional_delete=False,
    exclusive_consumers=False,
    single_active_polls=False,
    global_qos=False,
    shows_delivery_counts=False,
    priority_levels=False,
    arguments=(),
    further_arguments=(),
    consumer_arguments=(),
    policy_keys=(),
    foreign_policy_keys=(),
    delays=True,
)
"""What an exchange of type `x-delayed-message` keeps messages in; no client can name it."""

TYPES: Final = {each.name: each for each in (CLASSIC, QUORUM, STREAM)}

SUPPORTED: Final = tuple([each.name for each in TYPES.values() if each.supported])
"""Those of which there are queues."""

DEFAULT: Final = CLASSIC
"""The type of a queue that is declared without one."""


def find(name: str) -> QueueType | None:
    """The type of this name; None if RabbitMQ has none."""
    return TYPES.get(name)


def find_by_any_name(name: str) -> QueueType | None:
    """The same where RabbitMQ takes the names of its modules, too: as the default of a vhost."""
    for each in TYPES.values():
        if name in (each.name, each.module):
            return each
    return None


def type_of(name: str) -> QueueType:
    """The type of a queue that exists, or is about to.

    Raises:
        StorageError: Only a later version of Warren has such queues.
    """
    found = DELAYED if name == DELAYED.name else TYPES.get(name)
    if found is None:
        raise StorageError(f"this node knows no queues of type '{name}'")
    return found
