"""Keys of policies, arguments and limits that forms offer, with the type of each one's value."""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.admin.ui.forms import BOOLEAN, NUMBER, STRING
from warren.queue_types import TYPES


class Key(NamedTuple):
    """One key.

    Attributes:
        name: As it is written.
        title: What buttons call it.
        type: The type of its value, as forms have it.
        hint: What the value is.
    """

    name: str
    title: str
    type: str
    hint: str


class KeyGroup(NamedTuple):
    """Keys that belong together."""

    title: str
    keys: tuple[Key, ...]


LOCATOR_HINT: Final = "client-local or balanced"
POLICY_GROUPS: Final = (
    KeyGroup(
        "Limits",
        (
            Key("max-length", "Max length", NUMBER, "messages"),
            Key("max-length-bytes", "Max length bytes", NUMBER, "bytes"),
            Key("overflow", "Overflow", STRING, "drop-head, reject-publish or reject-publish-dlx"),
            Key("message-ttl", "Message TTL", NUMBER, "milliseconds"),
            Key("expires", "Auto expire", NUMBER, "milliseconds without use"),
        ),
    ),
    KeyGroup(
        "Dead letters",
        (
            Key("dead-letter-exchange", "Dead letter exchange", STRING, "an exchange"),
            Key("dead-letter-routing-key", "Dead letter routing key", STRING, "a routing key"),
            Key("dead-letter-strategy", "Strategy", STRING, "at-most-once or at-least-once"),
        ),
    ),
    KeyGroup(
        "Consumers",
        (
            Key("consumer-timeout", "Consumer timeout", NUMBER, "milliseconds"),
            Key("delivery-limit", "Delivery limit", NUMBER, "deliveries; quorum queues"),
            Key("delayed-retry-type", "Retry type", STRING, "all, failed, returned or disabled"),
            Key("delayed-retry-min", "Retry min", NUMBER, "milliseconds"),
            Key("delayed-retry-max", "Retry max", NUMBER, "milliseconds"),
        ),
    ),
    KeyGroup(
        "Placement",
        (
            Key("queue-leader-locator", "Leader locator", STRING, LOCATOR_HINT),
            Key("target-group-size", "Target group size", NUMBER, "members; quorum queues"),
            Key("queue-mode", "Queue mode", STRING, "default or lazy; classic queues"),
        ),
    ),
    KeyGroup(
        "Exchanges", (Key("alternate-exchange", "Alternate exchange", STRING, "an exchange"),)
    ),
)
OPERATOR_KEYS: Final = (
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-type",
    "delivery-limit",
    "expires",
    "max-length",
    "max-length-bytes",
    "message-ttl",
    "overflow",
    "target-group-size",
)
"""Those that operator policies may set."""
OPERATOR_GROUPS: Final = tuple(
    KeyGroup(group.title, offered)
    for group in POLICY_GROUPS
    if (offered := tuple(key for key in group.keys if key.name in OPERATOR_KEYS))
)
QUEUE_GROUPS: Final = (
    KeyGroup(
        "Limits",
        (
            Key("x-max-length", "Max length", NUMBER, "messages"),
            Key("x-max-length-bytes", "Max length bytes", NUMBER, "bytes"),
            Key("x-overflow", "Overflow", STRING, "drop-head or reject-publish"),
            Key("x-message-ttl", "Message TTL", NUMBER, "milliseconds"),
            Key("x-expires", "Auto expire", NUMBER, "milliseconds without use"),
        ),
    ),
    KeyGroup(
        "Dead letters",
        (
            Key("x-dead-letter-exchange", "Dead letter exchange", STRING, "an exchange"),
            Key("x-dead-letter-routing-key", "Dead letter routing key", STRING, "a routing key"),
            Key("x-dead-letter-strategy", "Strategy", STRING, "at-most-once or at-least-once"),
        ),
    ),
    KeyGroup(
        "Consumers",
        (
            Key("x-single-active-consumer", "Single active consumer", BOOLEAN, "true or false"),
            Key("x-consumer-timeout", "Consumer timeout", NUMBER, "milliseconds"),
            Key("x-delivery-limit", "Delivery limit", NUMBER, "deliveries; quorum queues"),
            Key("x-max-priority", "Max priority", NUMBER, "1 to 255; classic queues"),
        ),
    ),
    KeyGroup(
        "Placement",
        (
            Key("x-queue-leader-locator", "Leader locator", STRING, LOCATOR_HINT),
            Key("x-quorum-initial-group-size", "Initial group size", NUMBER, "members"),
        ),
    ),
)
EXCHANGE_GROUPS: Final = (
    KeyGroup("Exchange", (Key("alternate-exchange", "Alternate exchange", STRING, "an exchange"),)),
)
DELAYED_GROUPS: Final = (
    KeyGroup(
        "Delayed messages",
        (Key("x-delayed-type", "Delayed type", STRING, "direct, fanout, topic or headers"),),
    ),
)
APPLY_TO: Final = (
    ("all", "Exchanges and queues"),
    ("queues", "Queues"),
    ("classic_queues", "Classic queues"),
    ("quorum_queues", "Quorum queues"),
    ("exchanges", "Exchanges"),
)
OPERATOR_APPLY_TO: Final = APPLY_TO[1:4]
QUEUE_TYPES: Final = tuple(each.name for each in TYPES.values() if each.supported)
"""The types that queues can be declared with."""
VHOST_LIMITS: Final = (("max-connections", "Connections"), ("max-queues", "Queues"))
USER_LIMITS: Final = (("max-connections", "Connections"), ("max-channels", "Channels"))
TAGS: Final = (
    ("administrator", "May do everything"),
    ("monitoring", "Sees nodes, and what is of all users"),
    ("policymaker", "Sets policies and parameters in its vhosts"),
    ("management", "Sees and changes what is in its vhosts"),
)


SHORT: Final = {
    "x-max-length": "Lim",
    "x-max-length-bytes": "Lim B",
    "x-overflow": "Ovfl",
    "x-message-ttl": "TTL",
    "x-expires": "Exp",
    "x-dead-letter-exchange": "DLX",
    "x-dead-letter-routing-key": "DLK",
    "x-dead-letter-strategy": "DLS",
    "x-single-active-consumer": "SAC",
    "x-consumer-timeout": "CTO",
    "x-delivery-limit": "DL",
    "x-max-priority": "Pri",
    "alternate-exchange": "AE",
    "x-delayed-type": "Delayed",
}
"""What lists call arguments, of which a title there says all."""


def by_name(groups: tuple[KeyGroup, ...]) -> dict[str, Key]:
    """All keys of some groups, by name."""
    return {key.name: key for group in groups for key in group.keys}


ALL: Final = {
    **by_name(POLICY_GROUPS),
    **by_name(QUEUE_GROUPS),
    **by_name(EXCHANGE_GROUPS),
    **by_name(DELAYED_GROUPS),
}
