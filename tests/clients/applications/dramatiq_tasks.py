"""A Dramatiq application; the environment says where the broker is, and where to leave traces."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

broker = RabbitmqBroker(url=os.environ["BROKER"], confirm_delivery=True, max_priority=10)
dramatiq.set_broker(broker)
TRACES = Path(os.environ["TRACES"])


def leave(name: str) -> int:
    """Add a line to a file; how many it has now."""
    with (TRACES / name).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    return len((TRACES / name).read_text("utf-8").splitlines())


@dramatiq.actor
def note(name: str) -> None:
    """Leave a trace."""
    leave(name)


@dramatiq.actor(max_retries=5, min_backoff=50, max_backoff=100)
def succeeds_at_the_third(name: str) -> None:
    """Fail twice; Dramatiq tries again through its queue of delayed messages."""
    if leave(name) < 3:
        raise ValueError("as it was asked to")


@dramatiq.actor(max_retries=0)
def fails(name: str) -> None:
    """Fail for good: the message goes to the queue of dead ones."""
    leave(name)
    raise ValueError("as it was asked to")


@dramatiq.actor
def hangs_once(name: str) -> None:
    """Hang in the first worker, until that is killed."""
    if leave(name) == 1:
        time.sleep(600)
