"""What is not honoured yet is refused with a clear 406, never taken and ignored. Warren only."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.fixtures import Names
from tests.clients.support import refused


@pytest.fixture(autouse=True)
def only_warren(is_warren: bool) -> None:
    """RabbitMQ honours these."""
    if not is_warren:
        pytest.skip("about Warren's present state")


ARGUMENTS: dict[str, Any] = {
    "x-member-placement-tag": "rack",
}


@pytest.mark.parametrize("argument", sorted(ARGUMENTS))
def test_queue_arguments(channel: BlockingChannel, names: Names, kind: str, argument: str) -> None:
    arguments = {"x-queue-type": kind, argument: ARGUMENTS[argument]}
    with refused(406, f"'{argument}'"):
        channel.queue_declare(names.queue(), durable=True, arguments=arguments)


def test_streams(channel: BlockingChannel, names: Names) -> None:
    with refused(406, "x-queue-type"):
        channel.queue_declare(names.queue(), durable=True, arguments={"x-queue-type": "stream"})


@pytest.mark.parametrize("argument", ["x-stream-offset"])
def test_consume_arguments(channel: BlockingChannel, queue: str, argument: str) -> None:
    with refused(406, f"'{argument}'"):
        channel.basic_consume(queue, lambda *_: None, arguments={argument: 1000})


def test_unknown_arguments_are_kept(channel: BlockingChannel, names: Names, kind: str) -> None:
    """Arguments that no feature owns are the application's own; RabbitMQ takes those too."""
    arguments = {"x-queue-type": kind, "owner": "billing", "x-mine": 1}
    queue = names.queue()
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.queue_declare(queue, durable=True, arguments=arguments)
