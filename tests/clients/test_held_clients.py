"""Clients that die, or send their last, while an alarm leaves their sockets alone."""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.raw import RawClient
from tests.clients.support import eventually
from tests.ctl.play import in_process
from tests.support.broker import HOST, Broker, free_port
from tests.support.certificates import new_certificates
from tests.support.patience import patient

pytestmark = pytest.mark.process
WAIT_S = patient(10.0)
RESET = struct.pack("ii", 1, 0)
CAPABILITIES = {"capabilities": {"connection.blocked": True}}


class Tls(RawClient):
    """A client whose socket is encrypted."""

    def __init__(self, port: int, authority: Path) -> None:
        super().__init__((HOST, port))
        context = ssl.create_default_context(cafile=authority)
        self.socket = context.wrap_socket(self.socket, server_hostname=HOST)


class Short(NamedTuple):
    """A broker that is short of memory when a test says so."""

    broker: Broker
    tls_port: int
    folder: Path

    def tool(self, words: str) -> str:
        """What `rabbitmqctl` answers."""
        code, said, wrong = in_process(
            ["rabbitmqctl", *words.split(), "--data-dir", str(self.broker.data_dir)], ""
        )
        assert code == 0, wrong
        return said

    def connections(self) -> int:
        """How many connections there are."""
        return len(json.loads(self.tool("list_connections pid --formatter json")))

    def messages(self, queue: str) -> int:
        """How many messages a queue has."""
        rows: list[dict[str, Any]] = json.loads(
            self.tool("list_queues name messages --formatter json")
        )
        return next(int(row["messages"]) for row in rows if row["name"] == queue)

    def client(self, encrypted: bool) -> RawClient:
        """A client without heartbeats."""
        client = (
            Tls(self.tls_port, self.folder / "ca.pem")
            if encrypted
            else RawClient((HOST, self.broker.port))
        )
        return client.open(channels=[1], properties=CAPABILITIES)

    def alarm(self, raised: bool) -> None:
        """Have memory be short, or not any more."""
        self.tool(f"set_vm_memory_high_watermark {'absolute 1' if raised else '0.6'}")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Short]:
    folder = new_certificates(tmp_path_factory.mktemp("certificates"), {"server": "/CN=server"})
    port = free_port()
    settings = {
        "listeners.ssl.1": f"{HOST}:{port}",
        "ssl_options.cacertfile": folder / "ca.pem",
        "ssl_options.certfile": folder / "server.pem",
        "ssl_options.keyfile": folder / "server.key",
        "cluster.port": free_port(),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = Broker(free_port(), tmp_path_factory.mktemp("held") / "data", options=words)
    broker.start()
    yield Short(broker, port, folder)
    broker.stop()


@pytest.fixture(autouse=True)
def _enough_memory(short: Short) -> Iterator[None]:
    yield
    short.alarm(False)
    eventually(lambda: short.connections() == 0, WAIT_S)


def held(short: Short, client: RawClient, what: bytes) -> None:
    """Wait until an alarm holds a client, which sends this to find out."""
    short.alarm(True)
    client.send_bytes(what)
    client.expect(0, "connection.blocked", timeout_s=WAIT_S)


def in_transaction(client: RawClient) -> None:
    client.ask(1, "tx.select")
    client.publish(1, "", "nowhere", b"waits for the commit")
    client.ask(1, "basic.qos", prefetch_size=0, prefetch_count=1)


def in_half_a_body(client: RawClient) -> None:
    whole = client.publish_bytes(1, "", "nowhere", bytes(300_000))
    client.send_bytes(whole[:200_000])


def with_deliveries(client: RawClient) -> None:
    client.ask(1, "queue.declare", queue="mine", exclusive=True)
    client.ask(1, "basic.consume", queue="mine")


def with_nothing(client: RawClient) -> None:
    """It only publishes."""


def end_with_reset(client: RawClient) -> None:
    plain = client.socket
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    plain.close()


def end_in_order(client: RawClient) -> None:
    """As the kernel does it for a process that was killed and had read all that it got."""
    client.socket.close()


ENDS = [
    (end_with_reset, with_nothing),
    (end_with_reset, in_transaction),
    (end_in_order, in_transaction),
    (end_in_order, in_half_a_body),
    (end_in_order, with_deliveries),
]


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("end", "begin"), ENDS)
def test_a_client_that_dies_while_an_alarm_holds_it_is_missed(
    short: Short,
    end: Callable[[RawClient], None],
    begin: Callable[[RawClient], None],
    encrypted: bool,
) -> None:
    client = short.client(encrypted)
    begin(client)
    more = client.publish_bytes(1, "", "nowhere", bytes(100))
    held(short, client, b"" if begin is in_half_a_body else more)
    assert short.connections() == 1
    end(client)
    eventually(lambda: short.connections() == 0, WAIT_S)


def test_what_a_client_published_that_sends_no_more_is_taken_in(short: Short) -> None:
    """Nobody waits for what its connection holds: it has until the alarm is over."""
    client = short.client(False)
    client.ask(1, "queue.declare", queue="taken")
    held(short, client, client.publish_bytes(1, "", "taken", b"first"))
    client.publish(1, "", "taken", b"second")
    end_in_order(client)
    look_twice(short)
    short.alarm(False)
    eventually(lambda: short.messages("taken") == 2, WAIT_S)


def test_a_held_client_that_is_there_stays(short: Short) -> None:
    client = short.client(False)
    client.ask(1, "queue.declare", queue="kept")
    in_transaction(client)
    held(short, client, client.publish_bytes(1, "", "kept", b"first"))
    look_twice(short)
    short.alarm(False)
    client.expect(0, "connection.unblocked", timeout_s=WAIT_S)
    client.ask(1, "tx.commit")
    eventually(lambda: short.messages("kept") == 1, WAIT_S)
    client.close()


def look_twice(short: Short) -> None:
    """Have the node look at the sockets: it misses other clients, one after the other."""
    before = short.connections()
    for _ in range(2):
        dies = short.client(False)
        dies.publish(1, "", "nowhere", b"is not taken in")
        dies.expect(0, "connection.blocked", timeout_s=WAIT_S)
        end_with_reset(dies)
        eventually(lambda: short.connections() == before, WAIT_S)
