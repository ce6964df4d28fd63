"""What exchanges of type `x-recent-history` keep: how much, of what, and for how long."""

from __future__ import annotations

import pytest

from tests.metadata.cluster import Cluster
from warren.limits import RECENT_BYTES_MAX, RECENT_MESSAGE_BYTES_MAX, RECENT_TOTAL_BYTES_MAX
from warren.metadata.commands import DeclareExchange, DeleteExchange, DeleteVhost, KeepRecent
from warren.metadata.machine import MetadataMachine
from warren.wire.amqp091.table import Table

HISTORY = "x-recent-history"


def declare(cluster: Cluster, name: str = "x", kind: str = HISTORY, length: int = 0) -> None:
    arguments: Table = {"x-recent-history-length": length} if length else {}
    cluster.apply(DeclareExchange("/", name, kind, True, False, False, arguments))


def keep(cluster: Cluster, *records: bytes, name: str = "x") -> bool:
    return cluster.apply(KeepRecent("/", name, list(records), 0)).changed


def kept(machine: MetadataMachine, name: str = "x") -> list[bytes]:
    exchange = machine.exchange("/", name)
    assert exchange is not None
    assert exchange.recent_bytes == sum(len(record) for _, record in exchange.recent)
    return [record for _, record in exchange.recent]


@pytest.mark.parametrize(("length", "count"), [(0, 20), (1, 1), (3, 3), (50, 50), (10**9, 1_024)])
def test_the_newest_are_kept(length: int, count: int) -> None:
    cluster = Cluster("a")
    declare(cluster, length=length)
    records = [b"%d" % number for number in range(1_100)]
    keep(cluster, *records[:7])
    keep(cluster, *records[7:])
    assert kept(cluster.machine) == records[-count:]


def test_a_snapshot_has_them() -> None:
    cluster = Cluster("a")
    declare(cluster)
    keep(cluster, b"one", b"", b"two")
    restored = MetadataMachine()
    restored.restore(cluster.machine.snapshot())
    assert kept(restored) == [b"one", b"", b"two"]
    assert restored.state_hash() == cluster.machine.state_hash()


def test_a_message_that_is_too_large_is_not_kept() -> None:
    cluster = Cluster("a")
    declare(cluster)
    assert not keep(cluster, bytes(RECENT_MESSAGE_BYTES_MAX + 1))
    largest = bytes(RECENT_MESSAGE_BYTES_MAX)
    assert keep(cluster, b"1", largest, bytes(RECENT_MESSAGE_BYTES_MAX + 1), b"2")
    assert kept(cluster.machine) == [b"1", largest, b"2"]


def test_an_exchange_and_all_of_them_keep_so_many_bytes() -> None:
    cluster = Cluster("a")
    record = bytes(RECENT_MESSAGE_BYTES_MAX)
    most = RECENT_BYTES_MAX // RECENT_MESSAGE_BYTES_MAX
    for number in range(RECENT_TOTAL_BYTES_MAX // RECENT_BYTES_MAX):
        declare(cluster, f"x{number}")
        for _ in range(most + 1):
            keep(cluster, record, name=f"x{number}")
        assert len(kept(cluster.machine, f"x{number}")) == most
    declare(cluster, "late")
    keep(cluster, b"more", name="late")
    assert kept(cluster.machine, "late") == []
    cluster.apply(DeleteExchange("/", "x0", False, True))
    keep(cluster, b"more", name="late")
    assert kept(cluster.machine, "late") == [b"more"]


def test_what_came_too_late_changes_nothing() -> None:
    cluster = Cluster("a")
    assert not keep(cluster, b"1")
    declare(cluster, kind="fanout")
    assert not keep(cluster, b"1")
    cluster.apply(DeleteVhost("/"))
    assert not keep(cluster, b"1")
