"""A Celery application; the environment says where the broker is and how its queue is."""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery, Task

app = Celery("tasks", broker=os.environ["BROKER"], backend="rpc://")
app.conf.update(
    task_default_queue="celery-work",
    task_default_queue_type=os.environ["QUEUE_TYPE"],
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    worker_prefetch_multiplier=2,
    result_expires=60,
)


@app.task
def add(x: int, y: int) -> int:
    """A task with a result."""
    return x + y


@app.task(bind=True, max_retries=5)
def succeeds_at_the_third(self: Task) -> int:
    """A task that is retried; the number of the attempt that succeeded."""
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return int(self.request.retries) + 1


@app.task
def fails() -> None:
    """A task that raises."""
    raise ValueError("as it was asked to")


@app.task(acks_late=True)
def touch_then_wait(folder: str) -> str:
    """Leave a file for this worker; the first one then hangs until it is killed."""
    Path(folder, str(os.getpid())).touch()
    if len(list(Path(folder).iterdir())) == 1:
        time.sleep(600)
    return "done"
