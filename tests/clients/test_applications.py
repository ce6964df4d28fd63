"""Celery and Dramatiq against the broker: workers as processes, with all that they turn on."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.broker import Broker
from tests.support.patience import patient

ROOT = Path(__file__).parents[2]
WAIT_S = patient(60.0)


class Workers:
    """Processes that run an application; each is ended with the test."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Run `python -m` with these words."""
        with (self._folder / "workers.log").open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=ROOT, env={**os.environ, **self._environment}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._running.append(worker)
        return worker

    def application(self, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
        """The module of an application, imported anew, for this process to send tasks by."""
        for variable, value in self._environment.items():
            monkeypatch.setenv(variable, value)
        whole = f"tests.clients.applications.{name}"
        sys.modules.pop(whole, None)
        return importlib.import_module(whole)

    def log(self) -> str:
        """What all of them have printed."""
        return (self._folder / "workers.log").read_text("utf-8", "replace")

    def end(self) -> None:
        """Kill those that still run, with all that they started."""
        for worker in self._running:
            if worker.poll() is None:
                kill_all(worker)


def kill_all(worker: subprocess.Popen[bytes]) -> None:
    """Kill a process that began a session, and all that it started."""
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def until(done: Callable[[], bool], workers: Workers) -> None:
    """Wait for a condition, in the other processes."""
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end, workers.log()[-8_000:]
        time.sleep(0.02)


@pytest.fixture
def started(make_broker: Callable[..., Broker]) -> Broker:
    """A broker of the test's own: applications leave queues behind."""
    return make_broker().start()


@pytest.fixture
def workers(started: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workers]:
    """Starts workers with the broker's address and the kind of queue that the test asks for."""
    kind = getattr(request, "param", "classic")
    traces = tmp_path / "traces"
    traces.mkdir()
    made = Workers(tmp_path, {"BROKER": started.url, "QUEUE_TYPE": kind, "TRACES": str(traces)})
    yield made
    made.end()


# --- Celery ---------------------------------------------------------------------------------


CELERY = ("celery", "-A", "tests.clients.applications.celery_tasks")
THREADS = ("worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "INFO")


@pytest.fixture
def celery_app(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The application, as the process that sends tasks imports it."""
    tasks = workers.application("celery_tasks", monkeypatch)
    yield tasks
    tasks.app.close()


def is_ready(app: Any) -> bool:
    """Whether a worker answers what the control queue asks."""
    return bool(app.control.inspect(timeout=1.0).ping())


@pytest.mark.parametrize("workers", ["classic", "quorum"], indirect=True)
def test_celery(workers: Workers, celery_app: Any) -> None:
    """Tasks with results, retries, delays and failures; broadcasts to workers and their answers."""
    tasks, app = celery_app, celery_app.app
    workers.start(*CELERY, *THREADS)
    until(lambda: is_ready(app), workers)
    results = [tasks.add.delay(n, n) for n in range(100)]
    assert [result.get(timeout=WAIT_S) for result in results] == [2 * n for n in range(100)]
    assert tasks.succeeds_at_the_third.delay().get(timeout=WAIT_S) == 3
    assert tasks.add.apply_async((1, 2), countdown=1).get(timeout=WAIT_S) == 3
    with pytest.raises(ValueError, match="as it was asked to"):
        tasks.fails.delay().get(timeout=WAIT_S)
    inspect = app.control.inspect(timeout=WAIT_S, limit=1)
    (queues,) = inspect.active_queues().values()
    assert [queue["name"] for queue in queues] == ["celery-work"]
    (statistics,) = inspect.stats().values()
    assert statistics["total"]["tests.clients.applications.celery_tasks.add"] == 101


@pytest.mark.parametrize("workers", ["classic", "quorum"], indirect=True)
def test_celery_task_of_a_killed_worker(workers: Workers, celery_app: Any, tmp_path: Path) -> None:
    """With late acks it is run again by another one."""
    seen = tmp_path / "seen"
    seen.mkdir()
    # One process and no pool: to kill it is to kill the task.
    alone = (*CELERY, "worker", "--pool", "solo", "--loglevel", "INFO")
    first = workers.start(*alone, "--hostname", "first@%h")
    until(lambda: is_ready(celery_app.app), workers)
    result = celery_app.touch_then_wait.delay(str(seen))
    until(lambda: len(list(seen.iterdir())) == 1, workers)
    workers.start(*alone, "--hostname", "second@%h")
    kill_all(first)
    assert result.get(timeout=WAIT_S) == "done"
    assert len(list(seen.iterdir())) == 2


# --- Dramatiq -------------------------------------------------------------------------------


DRAMATIQ = ("dramatiq", "tests.clients.applications.dramatiq_tasks")


def lines(traces: Path, name: str) -> int:
    """How many traces tasks have left."""
    path = traces / name
    return len(path.read_text("utf-8").splitlines()) if path.exists() else 0


def test_dramatiq(
    workers: Workers, started: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks, retries and delays, the queue of dead messages, priorities, and a killed worker."""
    traces = tmp_path / "traces"
    tasks = workers.application("dramatiq_tasks", monkeypatch)
    alone = ("--processes", "1", "--threads", "2")
    first = workers.start(*DRAMATIQ, *alone)
    for _ in range(50):
        tasks.note.send("note")
    tasks.note.send_with_options(args=("later",), delay=500)
    tasks.note.send_with_options(args=("urgent",), broker_priority=9)
    tasks.succeeds_at_the_third.send("third")
    tasks.fails.send("fails")
    until(lambda: lines(traces, "note") == 50, workers)
    until(lambda: lines(traces, "later") == 1, workers)
    until(lambda: lines(traces, "urgent") == 1, workers)
    until(lambda: lines(traces, "third") == 3, workers)
    with pika.BlockingConnection(pika.URLParameters(started.url)) as connection:
        channel = connection.channel()

        def dead() -> int:
            return int(channel.queue_declare("default.XQ", passive=True).method.message_count)

        until(lambda: dead() == 1, workers)
    tasks.hangs_once.send("hangs")
    until(lambda: lines(traces, "hangs") == 1, workers)
    kill_all(first)
    workers.start(*DRAMATIQ, *alone)
    until(lambda: lines(traces, "hangs") == 2, workers)
    tasks.broker.close()
