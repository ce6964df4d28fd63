"""Snapshots that the log asks for: no client waits for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Client, Pair
from warren.log.group import GroupLog
from warren.log.wal import RoundJob
from warren.ports import Job
from warren.wire.amqp091 import spec

KINDS = ["classic", "quorum", "the tables"]


@pytest.fixture
def lone() -> tuple[Pair, Client]:
    """A node that is alone, has a queue of each type with a message, and is at rest."""
    pair = Pair(alone=True)
    client = pair.a.client()
    for kind in KINDS[:2]:
        client.declare(kind, kind=kind)
        client.publish(kind, b"m")
    pair.until(lambda: not pair.a.node.deferring and pair.a.node.log.idle)
    return pair, client


def group_of(pair: Pair, kind: str) -> GroupLog:
    """The log of a queue, or of the tables."""
    node = pair.a.node
    return node.store.member().log if kind == KINDS[2] else pair.a.queue(kind).messages


def watch_rounds(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each round that begins from now on whether it may keep the loop."""
    brief: list[bool] = []
    submit: Callable[[str, Job], None] = pair.a.executor.submit

    def noted(lane: str, job: Job) -> None:
        if isinstance(job, RoundJob):
            brief.append(bool(job.brief))
        submit(lane, job)

    monkeypatch.setattr(pair.a.executor, "submit", noted)
    return brief


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_starts_no_round_and_never_keeps_the_loop(
    lone: tuple[Pair, Client], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, _ = lone
    node, group = pair.a.node, group_of(pair, kind)
    brief = watch_rounds(pair, monkeypatch)
    node.want_snapshot(int(group.id))
    pair.turn(pair.a)
    assert not node.due_snapshots.groups and not node.log.idle, "it is taken"
    assert node.deferring and not brief
    node.flush_deferred()
    assert brief == [False]
    pair.until(lambda: group.snapshot_index == group.last_index)


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_goes_with_what_a_client_waits_for(
    lone: tuple[Pair, Client], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, client = lone
    node, group = pair.a.node, group_of(pair, kind)
    brief = watch_rounds(pair, monkeypatch)
    last = group.last_index
    node.want_snapshot(int(group.id))
    pair.turn(pair.a)
    client.send(spec.QueueDeclare(0, "new", False, True, False, False, False, {}))
    client.exchange()
    pair.turn(pair.a)
    assert brief == [True] and not node.deferring
    pair.a.executor.step()
    pair.a.executor.step()
    assert group.snapshot_index == last


def test_an_orderly_stop_writes_what_was_taken(lone: tuple[Pair, Client]) -> None:
    pair, _ = lone
    node = pair.a.node
    groups = [group_of(pair, kind) for kind in KINDS]
    for group in groups:
        node.want_snapshot(int(group.id))
    node.prepare_close()
    pair.a.executor.drain()
    node.close()
    assert all(group.snapshot_index == group.last_index for group in groups)


def test_a_full_disk_gets_the_snapshots_that_may_free_it(lone: tuple[Pair, Client]) -> None:
    pair, client = lone
    node, group = pair.a.node, group_of(pair, "quorum")
    disk = pair.a.disk
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes()
    pair.until(lambda: node.log.full)
    node.want_snapshot(int(group.id))
    pair.turn(pair.a)
    disk.capacity_bytes += 1 << 20
    pair.until(lambda: group.snapshot_index == group.last_index)
