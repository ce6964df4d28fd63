"""The families of metrics: names and types are RabbitMQ's, by which dashboards find them.

What RabbitMQ has beside these is of Erlang, of its plugins, or of its ways to store messages;
docs/metrics.md lists it. Source: `rabbitmq_prometheus` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
UNTYPED: Final = "untyped"
HISTOGRAM: Final = "histogram"
SUMMARY: Final = "summary"

PREFIX: Final = "rabbitmq_"
DETAILED: Final = "rabbitmq_detailed_"
CLUSTER: Final = "rabbitmq_cluster_"
"""What names begin with; the last two are of `/metrics/detailed`."""


class Family(NamedTuple):
    """Samples of one name.

    Attributes:
        name: Without a prefix.
        type: As Prometheus has it.
        help: What it is, for people.
    """

    name: str
    type: str
    help: str


class FamilyGroup(NamedTuple):
    """Families that are read together, and asked for together of `/metrics/detailed`.

    Attributes:
        families: By the name of the column that has their values.
    """

    families: dict[str, Family]


def _counter(name: str, text: str) -> Family:
    return Family(name, COUNTER, text)


def _gauge(name: str, text: str) -> Family:
    return Family(name, GAUGE, text)


# --- the node -----------------------------------------------------------------------------------

CHURN: Final = FamilyGroup(
    {
        "connections_opened": _counter(
            "connections_opened_total", "Connections that clients opened to this node"
        ),
        "connections_closed": _counter("connections_closed_total", "Connections that ended"),
        "channels_opened": _counter("channels_opened_total", "Channels that clients opened"),
        "channels_closed": _counter("channels_closed_total", "Channels that ended"),
        "queues_declared": _counter(
            "queues_declared_total", "Declares of queues, whether or not they were there"
        ),
        "queues_created": _counter("queues_created_total", "Queues that began at this node"),
        "queues_deleted": _counter("queues_deleted_total", "Queues of this node that ended"),
    }
)
NODE_COARSE: Final = FamilyGroup(
    {
        "descriptors": _gauge("process_open_fds", "File descriptors in use"),
        "memory": _gauge("process_resident_memory_bytes", "Memory of the process that is in RAM"),
        "disk_free": _gauge(
            "disk_space_available_bytes", "Free space of the data directory's disk"
        ),
    }
)
NODE: Final = FamilyGroup(
    {
        "descriptors_max": _gauge("process_max_fds", "File descriptors that the process may have"),
        "memory_limit": _gauge(
            "resident_memory_limit_bytes", "Memory above which publishers have to wait"
        ),
        "disk_limit": _gauge(
            "disk_space_available_limit_bytes",
            "Free disk space below which publishers have to wait",
        ),
        "uptime": _gauge(
            "erlang_uptime_seconds", "How long the node runs; the name is that of dashboards"
        ),
    }
)
LOGINS: Final = FamilyGroup(
    {
        "logins": _counter("auth_attempts_total", "Clients that said who they are"),
        "logins_succeeded": _counter("auth_attempts_succeeded_total", "Those that were let in"),
        "logins_failed": _counter("auth_attempts_failed_total", "Those that were not let in"),
    }
)
ALARMS: Final = FamilyGroup(
    {
        "disk": Family(
            "alarms_free_disk_space_watermark", UNTYPED, "1 while this node's disk is short"
        ),
        "memory": Family(
            "alarms_memory_used_watermark", UNTYPED, "1 while this node's memory is short"
        ),
    }
)
UNREACHABLE: Final = _gauge(
    "unreachable_cluster_peers_count", "Nodes of the cluster that this one does not reach"
)
STARTED: Final = _gauge(
    "process_start_time_seconds", "When the process started, in seconds since the epoch"
)
BUILD: Final = Family("build_info", UNTYPED, "Which release this is, and which RabbitMQ it is like")
IDENTITY: Final = Family("identity_info", UNTYPED, "Which node of which cluster this is")
TOTALS: Final = FamilyGroup(
    {
        "connections": _gauge("connections", "Connections of clients that are open"),
        "channels": _gauge("channels", "Channels that are open"),
        "consumers": _gauge("consumers", "Consumers of this node's clients"),
        "queues": _gauge("queues", "Queues that this node leads"),
    }
)
SCRAPES: Final = FamilyGroup(
    {
        "seconds": Family("telemetry_scrape_duration_seconds", SUMMARY, "How long scrapes took"),
        "bytes": Family("telemetry_scrape_size_bytes", SUMMARY, "How large scrapes were"),
    }
)

# --- queues -------------------------------------------------------------------------------------

QUEUE_COARSE: Final = FamilyGroup(
    {
        "ready": _gauge("queue_messages_ready", "Messages that wait for a consumer"),
        "held": _gauge("queue_messages_unacked", "Messages that clients hold"),
        "messages": _gauge("queue_messages", "Messages that wait or are held"),
    }
)
QUEUE_CONSUMERS: Final = FamilyGroup(
    {"consumers": _gauge("queue_consumers", "Consumers of a queue")}
)
QUEUE: Final = FamilyGroup(
    {
        **QUEUE_CONSUMERS.families,
        "bytes": _gauge("queue_messages_bytes", "What messages take"),
        "ready_bytes": _gauge("queue_messages_ready_bytes", "What those take that wait"),
        "held_bytes": _gauge("queue_messages_unacked_bytes", "What those take that are held"),
    }
)
QUEUE_DELIVERY: Final = FamilyGroup(
    {
        "polled": _counter(
            "queue_get_ack_total", "Messages got one by one from a queue, to be acknowledged"
        ),
        "polled_automatic": _counter(
            "queue_get_total", "Messages got one by one from a queue, settled as sent"
        ),
        "manual": _counter(
            "queue_messages_delivered_ack_total", "Messages sent to consumers, to be acknowledged"
        ),
        "automatic": _counter(
            "queue_messages_delivered_total", "Messages sent to consumers, settled as sent"
        ),
        "redelivered": _counter(
            "queue_messages_redelivered_total", "Messages that were sent once more"
        ),
        "acknowledged": _counter("queue_messages_acked_total", "Messages that were acknowledged"),
        "polled_empty": _counter(
            "queue_get_empty_total", "Asked for one message, and the queue had none"
        ),
    }
)
QUEUE_INFO: Final = _gauge("queue_info", "Type of a queue, and what this node is to it; always 1")

# --- clients ------------------------------------------------------------------------------------

CONNECTION_COARSE: Final = FamilyGroup(
    {
        "received_bytes": _counter("connection_incoming_bytes_total", "Bytes that clients sent"),
        "sent_bytes": _counter("connection_outgoing_bytes_total", "Bytes sent to clients"),
    }
)
CONNECTION: Final = FamilyGroup(
    {
        "received": _counter("connection_incoming_packets_total", "Reads from clients"),
        "sent": _counter("connection_outgoing_packets_total", "Writes to clients"),
        "pending": _gauge("connection_pending_packets", "Bytes that wait to be sent to clients"),
        "channels": _gauge("connection_channels", "Channels of a connection"),
    }
)
CHANNEL: Final = FamilyGroup(
    {
        "consumers": _gauge("channel_consumers", "Consumers of a channel"),
        "unacknowledged": _gauge("channel_messages_unacked", "Messages that a channel holds"),
        "unconfirmed": _gauge(
            "channel_messages_unconfirmed", "Messages that its publisher has no answer for"
        ),
        "uncommitted": _gauge("channel_messages_uncommitted", "Messages of a transaction"),
        "acks_uncommitted": _gauge("channel_acks_uncommitted", "Acknowledgements of a transaction"),
        "prefetch": _gauge("consumer_prefetch", "Messages that each consumer may hold"),
        "global_prefetch": _gauge("channel_prefetch", "Messages that all consumers may hold"),
    }
)
CHANNEL_EXCHANGE: Final = FamilyGroup(
    {
        "published": _counter(
            "channel_messages_published_total", "Messages published through an exchange"
        ),
        "confirmed": _counter("channel_messages_confirmed_total", "Those that were confirmed"),
        "returned": _counter(
            "channel_messages_unroutable_returned_total", "Those that came back: no queue took them"
        ),
        "dropped": _counter(
            "channel_messages_unroutable_dropped_total",
            "Those that were dropped: no queue took them",
        ),
    }
)
CHANNEL_QUEUE: Final = FamilyGroup(
    {
        "polled": _counter(
            "channel_get_ack_total", "Messages got one by one on a channel, to be acknowledged"
        ),
        "polled_automatic": _counter(
            "channel_get_total", "Messages got one by one on a channel, settled as sent"
        ),
        "manual": _counter(
            "channel_messages_delivered_ack_total",
            "Messages sent to a channel's consumers, to be acknowledged",
        ),
        "automatic": _counter(
            "channel_messages_delivered_total",
            "Messages sent to a channel's consumers, settled as sent",
        ),
        "redelivered": _counter(
            "channel_messages_redelivered_total", "Messages that a channel was sent once more"
        ),
        "acknowledged": _counter(
            "channel_messages_acked_total", "Messages that a channel acknowledged"
        ),
        "polled_empty": _counter(
            "channel_get_empty_total", "Asked for one message on a channel, and there was none"
        ),
    }
)
EXCHANGE: Final = FamilyGroup(
    {
        "published": _counter(
            "exchange_messages_published_total", "Messages published through an exchange"
        ),
        "confirmed": _counter("exchange_messages_confirmed_total", "Those that were confirmed"),
        "returned": _counter(
            "exchange_messages_unroutable_returned_total", "Those that came back unroutable"
        ),
        "dropped": _counter(
            "exchange_messages_unroutable_dropped_total", "Those that were dropped unroutable"
        ),
    }
)
ROUTED: Final = (
    _counter(
        "queue_messages_published_total", "Messages published into queues, counted for each queue"
    ),
    _counter(
        "queue_exchange_messages_published_total",
        "Messages published into queues through exchanges, counted for each queue",
    ),
)

# --- by protocol --------------------------------------------------------------------------------

PROTOCOL: Final = FamilyGroup(
    {
        "received": _counter("global_messages_received_total", "Messages that publishers sent"),
        "with_confirms": _counter(
            "global_messages_received_confirm_total", "Messages whose publishers want a confirm"
        ),
        "routed": _counter(
            "global_messages_routed_total", "Messages put into queues, counted for each queue"
        ),
        "dropped": _counter(
            "global_messages_unroutable_dropped_total", "Messages dropped: no queue took them"
        ),
        "returned": _counter(
            "global_messages_unroutable_returned_total", "Messages returned: no queue took them"
        ),
        "confirmed": _counter("global_messages_confirmed_total", "Messages that were confirmed"),
        "publishers": _gauge("global_publishers", "Channels that have published"),
        "consumers": _gauge("global_consumers", "Consumers of this node's clients"),
    }
)
PROTOCOL_QUEUE: Final = FamilyGroup(
    {
        "delivered": _counter("global_messages_delivered_total", "Messages sent to clients"),
        "manual": _counter(
            "global_messages_delivered_consume_manual_ack_total",
            "Messages sent to consumers, to be acknowledged",
        ),
        "automatic": _counter(
            "global_messages_delivered_consume_auto_ack_total",
            "Messages sent to consumers, settled as sent",
        ),
        "polled": _counter(
            "global_messages_delivered_get_manual_ack_total",
            "Messages got one by one, to be acknowledged",
        ),
        "polled_automatic": _counter(
            "global_messages_delivered_get_auto_ack_total",
            "Messages got one by one, settled as sent",
        ),
        "polled_empty": _counter(
            "global_messages_get_empty_total", "Asked for one message, and there was none"
        ),
        "redelivered": _counter(
            "global_messages_redelivered_total", "Messages that were sent once more"
        ),
        "acknowledged": _counter(
            "global_messages_acknowledged_total", "Messages that clients acknowledged"
        ),
    }
)
DEATHS: Final = (
    _counter(
        "global_messages_dead_lettered_rejected_total",
        "Messages dead-lettered: clients rejected them",
    ),
    _counter(
        "global_messages_dead_lettered_expired_total", "Messages dead-lettered: their time was over"
    ),
    _counter(
        "global_messages_dead_lettered_maxlen_total", "Messages dead-lettered: queues had no room"
    ),
    _counter(
        "global_messages_dead_lettered_delivery_limit_total",
        "Messages dead-lettered: they came back too often",
    ),
)
"""In the order of `message.dead_letters.REASONS`."""
DEATHS_CONFIRMED: Final = _counter(
    "global_messages_dead_lettered_confirmed_total", "Dead letters that are where they belong"
)
SIZES: Final = Family("message_size_bytes", HISTOGRAM, "Sizes of the bodies that were published")

# --- Raft ---------------------------------------------------------------------------------------

RAFT: Final = FamilyGroup(
    {
        "term": _counter("raft_term", "Raft's term"),
        "snapshot_index": _counter("raft_snapshot_index", "Last entry in a snapshot"),
        "applied_index": _gauge("raft_last_applied", "Last entry that was applied"),
        "commit_index": _counter("raft_commit_index", "Last entry known to be committed"),
        "written_index": _counter("raft_last_written_index", "Last entry that is durable here"),
        "commit_latency": _gauge(
            "raft_commit_latency_seconds", "From an entry's append by the leader to its commit"
        ),
    }
)
RAFT_LOG: Final = FamilyGroup({"last_index": _counter("raft_last_index", "Last entry of the log")})
RAFT_MORE: Final = FamilyGroup({**RAFT.families, **RAFT_LOG.families})
RAFT_LATENCY_MAX: Final = _gauge(
    "raft_max_commit_latency_seconds", "The longest of those latencies among queues"
)

# --- the whole cluster --------------------------------------------------------------------------

VHOST_STATUS: Final = FamilyGroup({"up": _gauge("vhost_status", "1 for a vhost that can be used")})
EXCHANGE_BINDINGS: Final = FamilyGroup(
    {"bindings": _gauge("exchange_bindings", "Bindings of an exchange")}
)
EXCHANGE_NAMES: Final = FamilyGroup({"one": _gauge("exchange_name", "1 for each exchange")})
