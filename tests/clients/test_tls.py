"""TLS for clients: encryption, certificates, and logging in by one."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.credentials import ExternalCredentials, PlainCredentials
from pika.exceptions import AMQPConnectionError, ProbableAuthenticationError

from tests.support.broker import HOST, Broker, free_port
from tests.support.certificates import new_certificates
from tests.support.patience import patient
from warren.client import PERSISTENT, connect
from warren.config.client_tls import COMMON_NAME, DISTINGUISHED_NAME, ClientTls, login_name
from warren.errors import ConfigError
from warren.server.tls_listener import HANDSHAKES_MAX

SUBJECTS = {
    "server": "/CN=server",
    "app": "/O=Firm, Inc./CN=app",
    "nobody": "/CN=nobody",
    "stranger": "/CN=app",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority with certificates of a server and two clients, and one of another authority."""
    return new_certificates(tmp_path_factory.mktemp("certificates"), SUBJECTS)


class Encrypted:
    """A broker with a listener for TLS."""

    def __init__(self, broker: Broker, port: int, folder: Path) -> None:
        self.broker = broker
        self.port = port
        self.folder = folder

    def context(self, certificate: str = "") -> ssl.SSLContext:
        """What a client checks the broker by, and what it shows."""
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if certificate:
            name = self.folder / certificate
            context.load_cert_chain(f"{name}.pem", f"{name}.key")
        return context

    def connect(self, credentials: Any, certificate: str = "") -> Any:
        options = pika.SSLOptions(self.context(certificate), HOST)
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                HOST,
                self.port,
                credentials=credentials,
                ssl_options=options,
                socket_timeout=patient(30),
                stack_timeout=patient(30),
            )
        )


@pytest.fixture(scope="module")
def encrypted(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """Asks clients for certificates, and takes them without one."""
    port = free_port()
    settings = {
        "listeners.ssl.1": f"{HOST}:{port}",
        "ssl_options.cacertfile": certificates / "ca.pem",
        "ssl_options.certfile": certificates / "server.pem",
        "ssl_options.keyfile": certificates / "server.key",
        "ssl_options.verify": "verify_peer",
        "ssl_cert_login_from": "common_name",
        "auth_mechanisms.1": "PLAIN",
        "auth_mechanisms.2": "EXTERNAL",
        "default_user": "app",
        "default_pass": "secret",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = Broker(free_port(), tmp_path_factory.mktemp("tls") / "data", options=words)
    broker.start()
    yield Encrypted(broker, port, certificates)
    broker.stop()


def test_a_client_that_speaks_tls_is_served_as_any_other(encrypted: Encrypted) -> None:
    connection = encrypted.connect(PlainCredentials("app", "secret"))
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    for size in (0, 100, 1_000_000):
        channel.basic_publish("", "q", b"x" * size)
        _, _, body = channel.basic_get("q", auto_ack=True)
        assert body == b"x" * size
    connection.close()
    with pytest.raises(ProbableAuthenticationError):
        encrypted.connect(PlainCredentials("app", "wrong"))


def test_warrens_own_client_speaks_tls(encrypted: Encrypted) -> None:
    place = f"{HOST}:{encrypted.port}/?cacertfile={encrypted.folder / 'ca.pem'}"
    with connect(f"amqps://app:secret@{place}") as connection:
        channel = connection.channel()
        channel.queue_declare("own", durable=True, arguments={"x-queue-type": "quorum"})
        bodies = [b"", b"y" * 100, b"z" * 3_000_000]
        assert channel.publish_many("", "own", bodies, PERSISTENT) == []
        got = [channel.get("own", no_ack=True) for _ in bodies]
        assert [each and each.body for each in got] == bodies
    with pytest.raises(OSError, match="certificate verify failed"):
        connect(f"amqps://app:secret@{HOST}:{encrypted.port}")
    with pytest.raises(ConfigError, match="cannot be read"):
        connect(f"amqps://app:secret@{place}&certfile=/none.pem")


def test_a_certificate_says_who_its_client_is(encrypted: Encrypted) -> None:
    connection = encrypted.connect(ExternalCredentials(), "app")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"", pika.BasicProperties(user_id="app"))
    connection.close()


def test_who_shows_no_certificate_of_a_user_does_not_come_in_by_one(
    encrypted: Encrypted,
) -> None:
    with pytest.raises(ProbableAuthenticationError):
        encrypted.connect(ExternalCredentials(), "nobody")
    # It is not offered without a certificate, and not taken either.
    with pytest.raises(AMQPConnectionError):
        encrypted.connect(ExternalCredentials())
    with pytest.raises(AMQPConnectionError):
        encrypted.connect(ExternalCredentials(), "stranger")
    with pytest.raises(AMQPConnectionError):
        pika.BlockingConnection(
            pika.ConnectionParameters(
                HOST, encrypted.broker.port, credentials=ExternalCredentials()
            )
        )
    encrypted.connect(PlainCredentials("app", "secret"), "nobody").close()


def test_silent_and_wrong_clients_keep_no_other_out(encrypted: Encrypted) -> None:
    silent = [socket.create_connection((HOST, encrypted.port)) for _ in range(HANDSHAKES_MAX + 10)]
    with socket.create_connection((HOST, encrypted.port)) as plain:
        plain.sendall(b"AMQP\x00\x00\x09\x01")
        plain.settimeout(patient(30))
        while plain.recv(4096):
            pass
    encrypted.connect(ExternalCredentials(), "app").close()
    # The oldest of those that say nothing had to go.
    silent[0].settimeout(patient(30))
    assert silent[0].recv(1) == b""
    for each in silent:
        each.close()
    assert "TLS failed" in encrypted.broker.log_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"key_file": "ca.key"}, "certificate"),
        ({"cert_file": "none.pem"}, "No such file"),
        ({"ca_file": "server.key"}, "certificates of authorities"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    certificates: Path, changes: dict[str, str], said: str
) -> None:
    files = {"cert_file": "server.pem", "key_file": "server.key", "ca_file": "ca.pem"}
    named = {field: str(certificates / name) for field, name in (files | changes).items()}
    ClientTls(**{field: str(certificates / name) for field, name in files.items()}).context()
    with pytest.raises(ConfigError, match=said) as refused:
        ClientTls(**named, verify=True).context()
    assert str(certificates) in str(refused.value)


def subject(*parts: tuple[str, str]) -> dict[str, Any]:
    """A certificate as `getpeercert` shows it."""
    return {"subject": tuple(((name, value),) for name, value in parts)}


@pytest.mark.parametrize(
    ("certificate", "distinguished", "common"),
    [
        (None, "", ""),
        ({}, "", ""),
        (subject(("commonName", "app")), "CN=app", "app"),
        (
            subject(("countryName", "DE"), ("organizationName", "Firm, Inc."), ("commonName", "a")),
            "CN=a,O=Firm\\, Inc.,C=DE",
            "a",
        ),
        (subject(("organizationName", "Firm")), "O=Firm", ""),
        (subject(("commonName", " #a ")), "CN=\\ #a\\ ", " #a "),
        (subject(("commonName", "#a")), "CN=\\#a", "#a"),
        (subject(("commonName", "ü")), "CN=\\C3\\BC", "ü"),
        (subject(("commonName", "a"), ("commonName", "b")), "CN=b,CN=a", "a,b"),
        (
            {"subject": ((("commonName", "a"), ("userId", "7")),)},
            "CN=a+UID=7",
            "a",
        ),
    ],
)
def test_names_in_certificates_are_read_as_rabbitmq_reads_them(
    certificate: object, distinguished: str, common: str
) -> None:
    assert login_name(certificate, DISTINGUISHED_NAME) == distinguished
    assert login_name(certificate, COMMON_NAME) == common
