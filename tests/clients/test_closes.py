"""Clients that say goodbye in every order, and reset real sockets at every step."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.raw import RawClient, encode_method
from tests.clients.support import eventually
from tests.support.broker import HOST, Broker, free_port
from tests.support.certificates import new_certificates
from tests.support.patience import patient

pytestmark = pytest.mark.process
WAIT_S = patient(10.0)
RESET = struct.pack("ii", 1, 0)
HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {"capabilities": {"authentication_failure_close": True}}


def method(channel: int, name: str, **args: object) -> bytes:
    """Lay out one method's frame."""
    return RawClient.frame(1, channel, encode_method(name, args))


BYE = method(0, "connection.close", reply_code=200, reply_text="bye", class_id=0, method_id=0)
BYE_OK = method(0, "connection.close-ok")
GOOD_LOGIN = method(
    0,
    "connection.start-ok",
    client_properties=CAPABILITIES,
    mechanism="PLAIN",
    response=b"\0guest\0guest",
    locale="en_US",
)
BAD_LOGIN = GOOD_LOGIN.replace(b"\0guest\0guest", b"\0other\0wrong")
"""Of a user whose answers wait in another line than those of `guest`."""
OPENED = [
    HEADER,
    GOOD_LOGIN,
    method(0, "connection.tune-ok", channel_max=0, frame_max=131072, heartbeat=0)
    + method(0, "connection.open", virtual_host="/"),
    method(1, "channel.open"),
]
ERROR = method(1, "channel.open")

STARTS: dict[str, list[bytes]] = {
    "stranger": [HEADER],
    "wrong password": [HEADER, BAD_LOGIN],
    "right password": [HEADER, GOOD_LOGIN],
    "opened": OPENED,
    "failed": [*OPENED, ERROR],
}
ENDS = [
    list(order) for count in (1, 2, 3) for order in itertools.product((BYE, BYE_OK), repeat=count)
]


class Listeners:
    """A broker with a plain listener and one for TLS."""

    def __init__(self, broker: Broker, tls_port: int, folder: Path) -> None:
        self.broker = broker
        self._tls_port = tls_port
        self._folder = folder

    def connect(self, encrypted: bool) -> socket.socket:
        """A socket to one of them."""
        port = self._tls_port if encrypted else self.broker.port
        plain = socket.create_connection((HOST, port), WAIT_S)
        if not encrypted:
            return plain
        context = ssl.create_default_context(cafile=self._folder / "ca.pem")
        return context.wrap_socket(plain, server_hostname=HOST)

    def check(self) -> None:
        """The process is there, it met no error of its own, and another client is served."""
        self.broker.check_alive()
        with RawClient((self.broker.host, self.broker.port)) as client:
            client.open()
            client.ask(1, "channel.open")
        log = self.broker.log_text()
        assert "CRITICAL" not in log and "Traceback" not in log, log


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    folder = new_certificates(tmp_path_factory.mktemp("certificates"), {"server": "/CN=server"})
    port = free_port()
    settings = {
        "listeners.ssl.1": f"{HOST}:{port}",
        "ssl_options.cacertfile": folder / "ca.pem",
        "ssl_options.certfile": folder / "server.pem",
        "ssl_options.keyfile": folder / "server.key",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = Broker(free_port(), tmp_path_factory.mktemp("closes") / "data", options=words)
    broker.start()
    yield Listeners(broker, port, folder)
    broker.stop()


def read_some(client: socket.socket) -> None:
    """Wait for an answer, or the end."""
    client.settimeout(WAIT_S)
    client.recv(65_536)


def reset(client: socket.socket) -> None:
    """End the socket with a reset and not in order."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("start", STARTS)
def test_closes_in_every_order(listeners: Listeners, start: str, encrypted: bool) -> None:
    """In one write with what comes before, in one of their own, and in one each."""
    steps = STARTS[start]
    for end, joined in itertools.product(ENDS, ("all", "ends", "apart")):
        with listeners.connect(encrypted) as client:
            data = [*steps, *end]
            if joined == "ends":
                data = [*steps, b"".join(end)]
            elif joined == "all":
                data = [*steps[:1], b"".join([*steps[1:], *end])]
            try:
                for at, part in enumerate(data):
                    client.sendall(part)
                    if at == 0:
                        read_some(client)
            except OSError:
                # The broker may be done with it before all was written.
                pass
    listeners.check()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_resets_at_every_step(listeners: Listeners, encrypted: bool) -> None:
    """Behind each write, and in the middle of it."""
    steps = [*OPENED, ERROR, BYE_OK, BYE]
    for count in range(len(steps) + 1):
        for cut in (0, 1, 7, 11):
            client = listeners.connect(encrypted)
            try:
                for at, part in enumerate(steps[:count]):
                    client.sendall(part)
                    if at == 0:
                        read_some(client)
                if count < len(steps):
                    client.sendall(steps[count][:cut])
            except OSError:
                pass
            reset(client)
    listeners.check()


def test_a_short_ack_ends_its_connection_alone(listeners: Listeners) -> None:
    """A frame of 12 bytes where an ack has 13: 501, and the node goes on."""
    with RawClient((listeners.broker.host, listeners.broker.port)) as client:
        client.open()
        client.ask(1, "channel.open")
        client.send_bytes(bytes.fromhex("0100010000000c003c00500000000000000001ce"))
        assert client.expect(0, "connection.close").args["reply_code"] == 501
    listeners.check()


def test_a_client_that_answers_its_own_error_leaves_nothing(listeners: Listeners) -> None:
    """Descriptors of all these connections are given back."""
    folder = Path(f"/proc/{listeners.broker.pid}/fd")
    before = len(list(folder.iterdir()))
    for _ in range(50):
        with listeners.connect(False) as client:
            client.sendall(HEADER)
            read_some(client)
            client.sendall(BYE + BYE + BYE_OK)
    eventually(lambda: len(list(folder.iterdir())) <= before, WAIT_S)
    listeners.check()
