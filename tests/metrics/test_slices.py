"""Scrapes in this process: clients have their turns between slices of one over many queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.admin.host import service_with_queues
from tests.metrics.exposition import families
from warren.admin.metrics import exposition
from warren.admin.metrics.application import MetricsApplication
from warren.admin.metrics.exposition import written
from warren.admin.service import slices, sought
from warren.admin.service.metrics import scrapes
from warren.admin.service.metrics.families import GAUGE, Family
from warren.admin.service.metrics.samples import Series, escaped, labelled, single
from warren.admin.service.service import AdminService

QUEUES = 60


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> AdminService:
    """The service of a node with some queues, whose slices are one step each."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(slices, "QUEUES_AT_ONCE", 1)
    monkeypatch.setattr(exposition, "PART_ROWS", 1)
    return service_with_queues(QUEUES)


async def turns_during(work: Awaitable[object]) -> int:
    """How many turns others had meanwhile."""
    turns, over = 0, False

    async def others() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await work
    over = True
    await task
    return turns


@pytest.mark.parametrize("read", [scrapes.aggregated, scrapes.per_object])
def test_clients_are_served_between_slices(
    service: AdminService, read: Callable[[AdminService], Awaitable[list[Series]]]
) -> None:
    assert asyncio.run(turns_during(read(service))) >= QUEUES


def test_text_is_written_in_slices(service: AdminService) -> None:
    async def run() -> tuple[int, str]:
        series = await scrapes.per_object(service)
        parts: list[bytes] = []

        async def write() -> None:
            parts.extend([part async for part in written(series)])

        return await turns_during(write()), b"".join(parts).decode()

    turns, text = asyncio.run(run())
    found = families(text)
    assert len(found["rabbitmq_queue_messages"].samples) == QUEUES
    assert found["rabbitmq_queues"].value() == QUEUES
    assert len(found["rabbitmq_raft_term"].samples) == QUEUES // 2 + 1
    assert turns >= sum(len(family.samples) for family in found.values())


def test_labels_are_escaped() -> None:
    name = 'a"b\\c\nd'
    assert escaped(name) == 'a\\"b\\\\c\\nd'

    async def run() -> str:
        series = single(Family("x", GAUGE, "Help"), 0.5, labelled(queue=name, vhost="\udcff"))
        return b"".join([part async for part in written([series])]).decode()

    (sample,) = families(asyncio.run(run()))["rabbitmq_x"].samples
    assert sample.labels == {"queue": name, "vhost": "\ufffd"} and sample.value == 0.5


def test_a_pattern_that_takes_too_much_is_refused(
    service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who scrapes says no name: the bound is of all looks that a request has."""
    monkeypatch.setattr(sought, "REQUEST_STEPS_MAX", 8 * QUEUES)
    application = MetricsApplication(service, "/metrics", False, False)

    async def ask(pattern: str) -> tuple[int, str]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        query = urlencode({"family": "queue_coarse_metrics", "queue": pattern}).encode()
        scope = {"type": "http", "method": "GET", "path": "/metrics/detailed", "headers": []}
        await application({**scope, "query_string": query}, receive, send)
        return sent[0]["status"], b"".join(each["body"] for each in sent[1:]).decode()

    async def receive() -> Any:
        raise AssertionError("a scrape has no body")

    status, text = asyncio.run(ask("^q"))
    assert (status, "rabbitmq_detailed_queue_messages_ready{" in text) == (200, True)
    status, text = asyncio.run(ask("^(q|[0-9]+|q[0-9]*)+[.]x$"))
    assert status == 400
    assert f"takes more than {8 * QUEUES} steps: use fewer repetitions" in text
    status, text = asyncio.run(ask("^q"))
    assert status == 200, "the next scrape is answered"
