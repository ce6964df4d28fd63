"""Whoever reads a command's output may go before its end: `warren queues list | head`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.broker import HOST, Broker, free_port
from tests.support.patience import patient
from warren.__main__ import main

TOOLS = "from warren.admin.cli.tools.main import rabbitmqctl as main; import sys; sys.exit(main())"
WARREN = "from warren.__main__ import main; import sys; sys.exit(main())"
QUEUE = "left.unread"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a queue, which commands ask."""
    folder = tmp_path_factory.mktemp("unread") / "broker"
    made = Broker(free_port(), folder, options=["--cluster-port", str(free_port())])
    made.start()
    uri = f"amqp://guest:guest@{HOST}:{made.port}"
    assert main(["declare", QUEUE, "--uri", uri]) == 0
    assert main(["publish", QUEUE, "unread", "--uri", uri, "--count", "9"]) == 0
    yield made
    made.stop()


def unread(program: str, *words: str) -> tuple[int, str]:
    """Run a command nobody reads the output of; its status, and what it complains of."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=patient(60.0),
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["server", "--help"],
        ["server", "--check", "--set", "log.level=debug"],
        ["completion", "bash"],
        ["queues", "list", "--data-dir", "{data}"],
        ["status", "--data-dir", "{data}"],
        ["status", "--data-dir", "{data}", "--json"],
        ["declare", "another", "--uri", "{uri}"],
        ["publish", QUEUE, "again", "--uri", "{uri}"],
        ["get", QUEUE, "--uri", "{uri}"],
        ["groups", "list", "--uri", "{uri}", QUEUE],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_command_ends_quietly(words: list[str], asked: Broker) -> None:
    uri = f"amqp://guest:guest@{HOST}:{asked.port}"
    named = [word.format(data=asked.data_dir, uri=uri) for word in words]
    assert unread(WARREN, *named) == (0, "")


@pytest.mark.parametrize("words", [["help"], ["list_queues"], ["export_definitions", "-"]])
def test_a_tool_ends_quietly(
    words: list[str], asked: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_DATA_DIR", str(asked.data_dir))
    assert unread(TOOLS, *words) == (0, "")


def test_a_message_that_nobody_read_stays(asked: Broker) -> None:
    """It is let go of once it is written."""
    uri = f"amqp://guest:guest@{HOST}:{asked.port}"
    assert main(["declare", "kept", "--uri", uri]) == 0
    assert main(["publish", "kept", "unread", "--uri", uri]) == 0
    assert unread(WARREN, "get", "kept", "--uri", uri) == (0, "")
    assert main(["get", "kept", "--uri", uri]) == 0
