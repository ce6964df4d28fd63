"""The commands of `warren` against a running broker, and what its log says of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.clients.support import eventually
from tests.support.broker import HOST, Broker, free_port
from tests.support.patience import patient
from warren.__main__ import main
from warren.admin.cli import asking
from warren.admin.service.rows import MemberChange
from warren.config.config import CLUSTER_PORT_DEFAULT
from warren.spark.feed import decode

SECONDS_MAX = patient(30)


def warren(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run the command, in this process."""
    out, complaints, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaints):
            status = main(words)
    finally:
        sys.stdin = stdin
    return subprocess.CompletedProcess(words, status, out.getvalue(), complaints.getvalue())


def said(done: subprocess.CompletedProcess[str], status: int = 0) -> str:
    """What a command printed, which has to end with this status."""
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def asked(make_broker: Callable[..., Broker]) -> Broker:
    """A broker with a cluster listener of its own, so that commands can ask it."""
    broker = make_broker("--cluster-port", str(free_port()))
    return broker.start()


def test_a_broker_at_work_without_a_client(asked: Broker) -> None:
    """declare, publish, get, status and queues list, the refusals of each, and the log."""
    uri = ["--uri", f"amqp://{HOST}:{asked.port}"]
    node = ["--data-dir", str(asked.data_dir)]

    assert "'warren declare orders' creates it" in said(warren("publish", *uri, "orders", "x"), 1)
    assert "'warren declare orders' creates it" in said(warren("get", *uri, "orders"), 1)
    assert "quorum queue 'orders': 0 ready" in said(warren("declare", *uri, "orders"))
    assert "1 message to queue" in said(warren("publish", *uri, "orders", "three carrots"))
    body = b"\xff\x00 of bytes"
    assert "2 messages" in said(warren("publish", *uri, "orders", "-", "--count", "2", given=body))
    (row,) = json.loads(said(warren("queues", "list", "--json", *node)))
    assert (row["name"], row["type"], row["ready"], row["unacked"]) == ("orders", "quorum", 3, 0)
    assert row["leader"] in row["members"]
    assert row["online"] == row["members"]
    text = said(warren("get", *uri, "orders"))
    assert text == "--- key 'orders', 13 bytes, 2 left\nthree carrots\n"
    rows = said(warren("get", *uri, "orders", "--count", "9", "--requeue", "--json")).splitlines()
    assert [json.loads(row)["body_hex"] for row in rows] == [body.hex()] * 2
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, asked.port))
    channel = connection.channel()
    channel.queue_declare("log", durable=True)
    channel.basic_consume("orders", lambda *_: None)

    def seen() -> bool:
        table = said(warren("queues", *node, "list")).splitlines()
        assert table[0].split() == [
            *("vhost", "name", "type", "ready", "unacked", "consumers", "leader", "members")
        ]
        rows = [line.split()[1:6] for line in table[1:]]
        return rows == [["orders", "quorum", "0", "2", "1"], ["log", "classic", "0", "0", "0"]]

    eventually(seen, SECONDS_MAX)
    status = json.loads(said(warren("status", "--json", *node)))
    assert (status["connections"], status["queues_count"]) == (1, 2)
    assert (status["problem"], status["alarms"]) == ("", [])
    assert status["process"] == asked.pid and status["disk_free_bytes"] > 0
    text = said(warren("status", *node))
    assert "clients  1 connected, on 127.0.0.1:" in text
    assert "alarms   none" in text
    connection.close()
    assert "vhost 'none' does not exist" in said(warren("queues", *node, "list", "-p", "none"), 1)
    assert "is empty" in said(warren("get", *uri, "log"), 1)
    assert "no exchange 'none'" in said(warren("publish", *uri, "--exchange", "none", "k", "b"), 1)
    assert "no queue takes messages from exchange 'amq.topic'" in said(
        warren("publish", *uri, "--exchange", "amq.topic", "k", "b"), 1
    )
    wrong = ["--uri", f"amqp://guest:wrong@{HOST}:{asked.port}"]
    assert "refuses user 'guest' or the password" in said(warren("declare", *wrong, "q"), 1)
    wrong = ["--uri", f"amqp://{HOST}:{free_port()}"]
    assert "no broker answers at 127.0.0.1:" in said(warren("declare", *wrong, "q"), 1)
    assert "starts with amqp://" in said(warren("declare", "--uri", "http://x", "q"), 2)

    log = asked.log_text()
    assert "accepting AMQP connection 127.0.0.1:" in log
    assert "user 'guest' authenticated and granted access to vhost '/'" in log
    assert "(vhost '/', user 'guest', after 0 s)" in log


def test_an_events_feed_is_turned_on_read_and_turned_off(asked: Broker) -> None:
    uri = ["--uri", f"amqp://{HOST}:{asked.port}"]
    node = ["--data-dir", str(asked.data_dir)]
    assert said(warren("feed", *node, "list")) == "no events feeds\n"
    assert said(warren("feed", *node, "enable", "--pattern", "^ord")) == ""
    (row,) = json.loads(said(warren("feed", "--json", *node, "list")))
    assert row == {"vhost": "/", "queue": "warren.feed", "pattern": "^ord"}
    said(warren("declare", *uri, "orders"))
    said(warren("publish", *uri, "orders", "three carrots"))
    said(warren("get", *uri, "orders"))
    connection = pika.BlockingConnection(pika.ConnectionParameters(HOST, asked.port))
    channel = connection.channel()
    told: list[str] = []

    def all_told() -> bool:
        _, _, body = channel.basic_get("warren.feed", auto_ack=True)
        if body is not None:
            rows = decode(body).to_pylist()
            told.extend(row["event"] for row in rows if row["first_offset"] == 0)
        return told == ["leading", "published", "confirmed", "delivered", "acked"]

    eventually(all_told, SECONDS_MAX)
    connection.close()
    assert said(warren("feed", *node, "disable")) == ""
    assert "vhost '/' has no events feed" in said(warren("feed", *node, "disable"), 1)


def test_the_log_says_who_comes_and_goes(make_broker: Callable[..., Broker]) -> None:
    """A wrong protocol, a client that is lost, and more for who asks for more."""
    broker = make_broker("--log-level", "debug").start()
    for sent, shown in (
        (b"GET / HTTP/1.1\r\n\r\n", "bad header, b'GET / HT': the client speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "the client speaks TLS"),
    ):
        with socket.create_connection((HOST, broker.port)) as stream:
            stream.sendall(sent)
            stream.recv(8)
        eventually(lambda shown=shown: shown in broker.log_text())
    pid = os.fork()
    if pid == 0:
        # A client that dies: its socket closes without a word.
        pika.BlockingConnection(pika.ConnectionParameters(HOST, broker.port))
        os._exit(0)
    os.waitpid(pid, 0)
    eventually(lambda: "client unexpectedly closed TCP connection" in broker.log_text())
    assert "'product': 'Pika Python Client Library'" in broker.log_text()


def test_listen_errors_say_what_is_wrong(make_broker: Callable[..., Broker]) -> None:
    """A busy port, an address of another machine, and none."""
    with socket.socket() as busy:
        busy.bind((HOST, 0))
        busy.listen()
        for words, shown in (
            (["--port", str(busy.getsockname()[1])], "another process listens there"),
            (["--bind", "192.0.2.1"], "this machine has no such address"),
            (["--bind", "no-such-host.invalid"], "no such host is known"),
        ):
            broker = make_broker(*words)
            assert broker.launch().wait(SECONDS_MAX) == 2
            assert shown in broker.log_text()
            assert "Traceback" not in broker.log_text()


def test_a_node_whose_default_cluster_port_is_busy_can_be_asked(
    make_broker: Callable[..., Broker],
) -> None:
    """Nobody named a port, so that the node goes on; commands find it by its data directory."""
    with socket.socket() as busy:
        busy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            # Else somebody else has it.
            busy.bind((HOST, CLUSTER_PORT_DEFAULT))
            busy.listen()
        broker = make_broker().start()
        assert "until --cluster-port names a free port, no other node can join" in broker.log_text()
        asked = warren("status", "--data-dir", str(broker.data_dir))
        assert asked.returncode == 0, asked.stderr
        assert str(broker.port) in asked.stdout


def test_a_busy_cluster_port_is_not_remembered(make_broker: Callable[..., Broker]) -> None:
    """A start that fails leaves the address of before, at which commands ask the node."""
    port = free_port()
    broker = make_broker("--cluster-port", str(port)).start()
    assert broker.data_dir is not None
    kept = (broker.data_dir / "node").read_text()
    assert f":{port}\n" in kept
    assert broker.stop() == 0
    with socket.socket() as busy:
        busy.bind((HOST, 0))
        busy.listen()
        broker.options = ["--cluster-port", str(busy.getsockname()[1])]
        assert broker.launch().wait(SECONDS_MAX) == 2
        assert "choose another port with --cluster-port" in broker.log_text()
    assert f":{port}\n" in (broker.data_dir / "node").read_text()


def test_the_first_user_and_vhost_are_as_configured(make_broker: Callable[..., Broker]) -> None:
    """The defaults that an empty data directory begins with; `guest` is not among them then."""
    settings = {"default_user": "app", "default_pass": "secret", "default_vhost": "shop"}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = make_broker(*words).start()
    said(warren("declare", "--uri", f"amqp://app:secret@{HOST}:{broker.port}/shop", "orders"))
    refused = said(warren("declare", "--uri", f"amqp://{HOST}:{broker.port}", "orders"), 1)
    assert "refuses user 'guest'" in refused
    refused = said(
        warren("declare", "--uri", f"amqp://app:secret@{HOST}:{broker.port}", "orders"), 1
    )
    assert "refuses vhost '/'" in refused


ROWS = [
    MemberChange(vhost="/", name="q1", size=1, result="refused", problem="no majority"),
    MemberChange(vhost="/", name="q2", size=2, result="ok", problem=""),
]


@pytest.mark.parametrize("action", ["grow n1@h all", "shrink n1@h"])
def test_a_queue_that_fails_is_one_row_of_many(
    action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stands; the table and the JSON have RabbitMQ's columns."""

    def answered(words: Any, operation: Any, asked: Any, shape: Any, _: float) -> tuple[int, Any]:
        assert (operation, shape) == (action.split()[0], list[MemberChange])
        return 0, ROWS

    monkeypatch.setattr(asking, "put", answered)
    done = warren("queues", *action.split())
    assert done.returncode == 1
    assert [line.split()[:3] for line in done.stdout.splitlines()] == [
        ["vhost", "name", "size"],
        ["/", "q1", "1"],
        ["/", "q2", "2"],
    ]
    done = warren("queues", *action.split(), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == [
        {"vhost": "/", "name": "q1", "size": 1, "result": "error: no majority"},
        {"vhost": "/", "name": "q2", "size": 2, "result": "ok"},
    ]
    done = warren("queues", *action.split(), "--json", "--errors-only")
    assert [row["name"] for row in json.loads(done.stdout)] == ["q1"]
