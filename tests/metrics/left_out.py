"""What RabbitMQ has and Warren has not: names, and values that differ on purpose.

docs/metrics.md has the same names, for operators.
"""

from __future__ import annotations

import re

LEFT_OUT = {
    r"erlang_(gc|net|processes|scheduler)_.*": "of Erlang's virtual machine",
    r"(channel|connection|queue)_process_reductions_total": "of Erlang's processes",
    r"queue_process_memory_bytes": "of Erlang's processes; Warren's queues share their memory",
    r"io_.*": "RabbitMQ itself counts none of these any more",
    r"schema_db_.*": "of the database that RabbitMQ had before Raft",
    r"msg_store_.*|queue_index_.*|queue_disk_.*": "of RabbitMQ's classic queues",
    r"queue_messages_.*ram.*|queue_messages_persistent.*": "bodies are the log's, not a queue's",
    r"queue_head_message_timestamp": "RabbitMQ reads a body for it",
    r"queue_consumer_(capacity|utilisation)": "it would have to be measured at each delivery",
    r"queue_exchange_messages_published_total|queue_messages_published_total": (
        "by queue and exchange it would be a count more at each publish; added up it is there"
    ),
    r"stream_.*": "of streams, which Warren has not",
    r"raft_(?!term$|snapshot_index|last_applied|commit_|last_written|last_index|max_commit).*|"
    r"raft_term_and_voted.*": "of how RabbitMQ's library of Raft works inside",
}
"""Patterns of names behind their prefix, and why."""

DIFFERENT = {
    "queue_messages_bytes": "what messages take in the log, with their properties",
    "queue_messages_ready_bytes": "the same",
    "queue_messages_unacked_bytes": "the same",
    "queue_messages_redelivered_total": "a dead letter counts as sent for the first time",
    "global_messages_redelivered_total": "the same",
}
"""Families whose values are not RabbitMQ's after the same traffic, and why."""

ADDED_UP_ONLY = ("queue_exchange_messages_published_total", "queue_messages_published_total")
"""Left out but for `/metrics`."""
PREFIXES = ("rabbitmq_detailed_", "rabbitmq_cluster_", "rabbitmq_")


def bare(name: str) -> str:
    """A name without its prefix."""
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def is_left_out(endpoint: str, name: str) -> bool:
    """Whether Warren has no such family there."""
    if endpoint == "/metrics" and bare(name) in ADDED_UP_ONLY:
        return False
    return any(re.fullmatch(pattern, bare(name)) for pattern in LEFT_OUT)
