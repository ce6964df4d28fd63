"""The cluster version: what all nodes of a cluster understand, so that two releases can run in one.

It is one number for all that nodes agree on: commands in the logs of the metadata store and of
queues, state in snapshots that travel, record batches, and messages between nodes. A release knows
every version from `OLDEST` to `NEWEST`. Each node says its newest with each start; the metadata
store keeps the cluster's, which moves up when every node knows a newer one and never moves down.
What is newer than the cluster's version is not written and not sent. See docs/upgrading.md.
"""

from __future__ import annotations

from typing import Final

OLDEST: Final = 1
"""The first release that others can be mixed with, 0.1.0, knows it."""
NEWEST: Final = 4

POLICY_DELIVERY_LIMIT: Final = 2
"""Policies may set `delivery-limit`, which a queue's leader logs for a queue that exists."""

NODE_LABELS: Final = 3
"""Nodes have labels, their host and zone, by which members of queues are spread."""

ACCESS: Final = 4
"""Passwords, tags and limits of users change one by one; vhosts have properties and limits; topic
permissions."""
PASSWORD_HASHES: Final = 4
"""Passwords may have hashes by Argon2id or MD5, by which older nodes let nobody in."""
RENEWED_HASHES: Final = 4
"""Passwords with hashes that RabbitMQ made are hashed anew at their first login."""
SPREADING_EXCHANGES: Final = 4
"""Exchanges of types that spread messages by a hash or at random."""

POLICY_KEYS: Final = 4
"""Policies may set all that they can set today, for exchanges, too."""

EXPIRY: Final = 4
"""Queues go when nobody uses them for long, and messages expire: as arguments of queues, policies
and messages say."""

LENGTH_LIMITS: Final = 4
"""Queues drop their first messages where there are too many, or reject publishes."""

PRIORITIES: Final = 4
"""Messages of classic queues go by their priorities."""

DEAD_LETTERS: Final = 4
"""Messages that queues were to be rid of go through an exchange again; records may have a note."""

SINGLE_ACTIVE: Final = 4
"""Queues may serve one consumer at a time."""

CONSUMER_TIMEOUTS: Final = 4
"""Consumers of quorum queues may hold messages for so long only."""

DELIVERY_LIMIT_ARGUMENT: Final = 4
"""Quorum queues may be declared with a delivery limit."""

COUNTED_FAILURES: Final = 4
"""Quorum queues compare the delivery limit with failed deliveries, and no other returns."""

DELAYED_RETRIES: Final = 4
"""Messages that return to a quorum queue may wait before they are ready again."""

SAID_BY_LOGS: Final = 4
"""Nodes of 0.1.0 could not read what is on disk: the log's manifest says of which version it is."""

DELAYED_MESSAGES: Final = 4
"""Exchanges may delay messages, which wait in quorum queues of their own."""

DISCONNECTED_TIMEOUTS: Final = 4
"""What consumers hold whose node nobody hears returns to a quorum queue after a time only."""

PARAMETERS: Final = 4
"""There are runtime parameters, of vhosts and of the whole cluster."""

READER_GROUPS: Final = 4
"""Groups of readers can be deleted, and take a checkout again whose lease ran out."""

CLASSIC_READERS: Final = 4
"""Durable classic queues have groups of readers, whose checkouts are in their logs."""

PICKED_MESSAGES: Final = 4
"""A message can be taken out of a queue by its number, from between others."""

DIRECT_REPLIES: Final = 4
"""Direct replies reach channels of other nodes."""

CREATION_INDEXES: Final = 4
"""Vhosts and users are told from former ones of their names."""

FEATURES: Final = {
    "policy_delivery_limit": POLICY_DELIVERY_LIMIT,
    "node_labels": NODE_LABELS,
    "access": ACCESS,
    "password_hashes": PASSWORD_HASHES,
    "spreading_exchanges": SPREADING_EXCHANGES,
    "policy_keys": POLICY_KEYS,
    "expiry": EXPIRY,
    "length_limits": LENGTH_LIMITS,
    "priorities": PRIORITIES,
    "dead_letters": DEAD_LETTERS,
    "single_active_consumer": SINGLE_ACTIVE,
    "consumer_timeouts": CONSUMER_TIMEOUTS,
    "delivery_limit_argument": DELIVERY_LIMIT_ARGUMENT,
    "counted_failures": COUNTED_FAILURES,
    "delayed_retries": DELAYED_RETRIES,
    "delayed_messages": DELAYED_MESSAGES,
    "disconnected_timeouts": DISCONNECTED_TIMEOUTS,
    "parameters": PARAMETERS,
    "direct_replies": DIRECT_REPLIES,
    "reader_groups": READER_GROUPS,
    "classic_readers": CLASSIC_READERS,
    "picked_messages": PICKED_MESSAGES,
}
"""What each version after the oldest brings, by name."""


def too_new(what: str, version: int, known: int) -> str:
    """The text for what a later release wrote, or a cluster that has moved on.

    Args:
        what: What has the version, such as "the cluster".
        version: That version.
        known: The newest one that this node may use.
    """
    return (
        f"{what} is of cluster version {version}, and this node knows versions up to {known}: "
        "start the release that wrote it, or a newer one"
    )
