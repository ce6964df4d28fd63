"""What the log says of clients: each of a few, and numbers of many."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from warren.server.client_log import LINES_BURST, LINES_PER_SECOND, ClientLog, LineFormatter


class Client:
    """Looks like a connection."""

    def __init__(self, number: int, vhost: str = "/") -> None:
        self.peer = f"10.0.0.7:{number}"
        self.user = "app"
        self.vhost = vhost
        self.agreement = SimpleNamespace(
            client_properties={"connection_name": "shop\n" + "x" * 1000}
        )


def test_ten_thousand_clients_make_a_hundred_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = ClientLog(logging.getLogger("test"))
    for number in range(10_000):
        client = Client(number)
        log.accepted(client)
        log.opened(client)
        log.closed(client, True, True, 1.0)
    assert len(caplog.messages) == LINES_BURST
    assert all("\n" not in text and len(text) < 300 for text in caplog.messages)
    caplog.clear()
    log.tick()
    (text,) = caplog.messages
    counts = [int(word) for word in text.split() if word.isdecimal()]
    assert sum(counts) == 30_000 - LINES_BURST
    assert "accepted" in text and "opened" in text and "closed" in text
    caplog.clear()
    for number in range(100):
        log.accepted(Client(number))
    assert len(caplog.messages) == LINES_PER_SECOND
    caplog.clear()
    for _ in range(10):
        log.tick()
    assert len(caplog.messages) == 1, "nothing is said when nothing happens"


def test_warnings_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = ClientLog(logging.getLogger("test"))
    for number in range(1_000):
        log.warn(f"no {number}")
    log.tick()
    assert caplog.messages[:2] == ["no 0", "no 1"]
    assert len(caplog.messages) == LINES_BURST + 1
    assert caplog.messages[-1] == f"{1_000 - LINES_BURST} more warnings in the last second"


def test_a_look_without_a_word_is_for_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ClientLog(logging.getLogger("test")).closed(Client(1, ""), False, False, 0.0)
    ((_, level, text),) = caplog.record_tuples
    assert (level, text) == (logging.DEBUG, "10.0.0.7:1 came and went without a word")


def test_a_client_that_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ClientLog(logging.getLogger("test")).closed(Client(1), True, False, 4.2)
    ((_, level, text),) = caplog.record_tuples
    assert level == logging.WARNING
    assert text == (
        "closing AMQP connection 10.0.0.7:1 (vhost '/', user 'app', after 4 s): "
        "client unexpectedly closed TCP connection"
    )


def test_a_message_is_one_line_whatever_a_client_calls_itself() -> None:
    hostile = "login refused for user 'x\n2026-01-01 [INFO] forged\x1b[2J\u202e'"
    record = logging.LogRecord("n", logging.WARNING, "f", 1, "%s", (hostile,), None)
    line = LineFormatter("[%(levelname)s] %(message)s").format(record)
    assert line.startswith("[WARNING] login refused") and line.isprintable()
    assert "x\\n2026-01-01" in line
    record.exc_info = (ValueError, ValueError("why"), None)
    assert LineFormatter("%(message)s").format(record).splitlines()[1:] == ["ValueError: why"]
