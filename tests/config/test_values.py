"""Values that RabbitMQ 4.3.6 takes are taken, but for those that nothing could be meant by."""

from __future__ import annotations

from pathlib import Path

from warren.config.building import build
from warren.config.reading import parse_lines
from warren.errors import ConfigError

TAKEN = Path(__file__).with_name("values-rabbitmq-4.3.txt").read_text("utf-8").splitlines()
"""Pairs of keys and values that RabbitMQ's own parser and schema took, of some 10,000 tried."""

REFUSED = {
    "heartbeat": (-1, 65_536),
    "channel_max": (-1, 65_536),
    "connection_max": (-1, None),
    "handshake_timeout": (0, None),
    "metadata_store.khepri.default_timeout": (0, None),
    "quorum_queue.continuous_membership_reconciliation.interval": (0, None),
    "management.tcp.port": (0, 65_536),
    "listeners.tcp.default": (0, 65_536),
    "raft.wal_max_size_bytes": (1_048_575, 2**40 + 1),
    "vm_memory_high_watermark.absolute": (-1, 2**63),
    "disk_free_limit.absolute": (-1, 2**63),
}
"""Whole numbers up to the first, and from the second on, that have no place in the protocol, in the
system or on a disk."""
OTHERS = {
    "vm_memory_high_watermark.relative = 1.5",
    "vm_memory_high_watermark.absolute = 1.5GB",
    "disk_free_limit.absolute = 1.5GB",
    "disk_free_limit.relative = 0.0",
    "ssl_cert_login_from = subject_alternative_name",
}
"""What RabbitMQ's schema lets pass and RabbitMQ refuses later, or what Warren does not have."""


def is_refused(line: str) -> bool:
    """Whether Warren is to refuse what RabbitMQ takes."""
    key, _, value = line.partition(" = ")
    low, high = REFUSED.get(key, (None, None))
    try:
        number = int(value)
    except ValueError:
        return line in OTHERS
    return (low is not None and number <= low) or (high is not None and number >= high)


def test_values_are_taken_as_by_rabbitmq() -> None:
    wrong = []
    for line in TAKEN:
        try:
            build(parse_lines(line, "w.conf"))
            refused = False
        except ConfigError as error:
            assert "allowed is" in str(error)
            refused = True
        if refused != is_refused(line):
            wrong.append(line)
    assert wrong == [] and len(TAKEN) > 300
