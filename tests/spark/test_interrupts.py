"""Ctrl-C of commands that take long: one line that says how to go on, exit status 130."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.spark.conftest import environment
from tests.spark.test_pipeline import planned
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.__main__ import main
from warren.client import PERSISTENT, Connection, connect
from warren.pipeline.layout import PipelineFolder
from warren.spark.archiving import archived_files

pytestmark = pytest.mark.process

VHOST = "interrupts"


def interrupted(words: list[str], ready: Callable[[], bool]) -> tuple[int, str]:
    """The exit status and the standard error of a command that Ctrl-C ends when it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "warren", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        end = time.monotonic() + patient(60)
        while not ready():
            assert process.poll() is None and time.monotonic() < end, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=patient(60))
    finally:
        process.kill()
        process.wait()
    return process.returncode, errors


def fill(connection: Connection, queue: str, count: int) -> None:
    bodies = [b"%d" % number for number in range(count)]
    assert connection.channel().publish_many("", queue, bodies, PERSISTENT) == []


def depth(connection: Connection, queue: str) -> int:
    channel = connection.channel()
    messages = channel.queue_declare(queue, passive=True).messages
    channel.close()
    return messages


def test_an_archive_that_follows(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 5)
    folder = tmp_path / "archive"
    words = ["archive", queue, str(folder), "--uri", broker.url]
    ended = interrupted([*words, "--follow"], lambda: any(folder.glob("*.parquet")))
    assert ended == (130, f"warren: {queue}: ended; the same command goes on from here\n")
    assert main(words) == 0 and len(archived_files(folder)) == 1


def test_a_pipeline_that_archives_again_and_again(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    fill(connection, queue, 5)
    words = ["pipeline", "bronze", str(tmp_path / "p"), queue, "--uri", broker.url, "--every", "1h"]
    ended = interrupted(words, lambda: any(tmp_path.rglob("_manifest/*.json")))
    assert ended == (130, "warren: bronze: ended; the same command goes on from here\n")


def test_a_replay(broker: Broker, connection: Connection, queue: str, tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path / "p")
    planned(folder, queue, count=10, batch_rows=1)
    words = ["pipeline", "replay", str(folder.path), "--resume", "r", "--uri", broker.url]
    ended = interrupted([*words, "--rate", "0.01"], lambda: any(tmp_path.rglob("sent/*.jsonl")))
    assert ended == (130, "warren: replay r is not done; --resume r goes on with it\n")
    assert main(words) == 0 and depth(connection, queue) == 10


@pytest.fixture
def elsewhere(broker: Broker) -> Iterator[str]:
    """The URI of another vhost."""
    node = ["--data-dir", str(broker.data_dir)]
    assert main(["vhosts", "add_vhost", VHOST, *node]) == 0
    assert (
        main(["permissions", "set_permissions", "guest", ".*", ".*", ".*", "-p", VHOST, *node]) == 0
    )
    yield broker.url.replace("%2F", VHOST)
    assert main(["vhosts", "delete_vhost", VHOST, *node]) == 0


def test_a_migration(broker: Broker, connection: Connection, queue: str, elsewhere: str) -> None:
    fill(connection, queue, 2_000)
    with connect(elsewhere) as there:
        there.channel().queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        words = ["migrate", "--from", broker.url, "--to", elsewhere, "--rate", "1", queue]
        # One batch was moved and the next has come, which waits for the rate.
        status, error = interrupted(words, lambda: depth(connection, queue) == 1_000)
        assert depth(there, queue) == 500
    assert status == 130 and error.count("\n") == 1
    assert f"{queue}: ended with 500 messages moved; the same command moves the others" in error
    assert depth(connection, queue) == 1_500
