"""The HTTP API and metrics over TLS."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.ctl.play import in_process
from tests.support.broker import HOST, Broker, free_port
from tests.support.certificates import new_certificates
from tests.support.patience import patient
from warren.server.tls_listener import HANDSHAKES_MAX

GUEST = {"authorization": f"Basic {b64encode(b'guest:guest').decode()}"}


class Secure:
    """A broker whose API and metrics speak TLS only."""

    def __init__(self, broker: Broker, api: int, metrics: int, folder: Path) -> None:
        self.broker = broker
        self.api = api
        self.metrics = metrics
        self.folder = folder

    def context(self, certificate: str = "") -> ssl.SSLContext:
        """What a client checks the broker by, and what it shows."""
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if certificate:
            name = self.folder / certificate
            context.load_cert_chain(f"{name}.pem", f"{name}.key")
        return context

    def ask(self, port: int, path: str, certificate: str = "") -> tuple[int, bytes]:
        """Status and body of an answer."""
        context = self.context(certificate)
        connection = http.client.HTTPSConnection(HOST, port, context=context, timeout=patient(30))
        try:
            connection.request("GET", path, headers=GUEST)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def words_of(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    subjects = {"server": "/CN=server", "app": "/CN=app", "stranger": "/CN=app"}
    return new_certificates(tmp_path_factory.mktemp("certificates"), subjects)


@pytest.fixture(scope="module")
def secure(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    api, metrics = free_port(), free_port()
    settings: dict[str, Any] = {}
    for prefix, port in (("management", api), ("prometheus", metrics)):
        settings |= {
            f"{prefix}.ssl.port": port,
            f"{prefix}.ssl.cacertfile": certificates / "ca.pem",
            f"{prefix}.ssl.certfile": certificates / "server.pem",
            f"{prefix}.ssl.keyfile": certificates / "server.key",
        }
    settings |= {
        "prometheus.ssl.verify": "verify_peer",
        "prometheus.ssl.fail_if_no_peer_cert": "true",
        "management.ssl.versions.1": "tlsv1.3",
    }
    broker = Broker(free_port(), tmp_path_factory.mktemp("https") / "data")
    broker.options = [*words_of(settings), "--cluster-port", str(free_port())]
    broker.start()
    yield Secure(broker, api, metrics, certificates)
    broker.stop()


def test_the_api_answers_over_tls(secure: Secure) -> None:
    status, body = secure.ask(secure.api, "/api/overview")
    found = json.loads(body)
    assert status == 200
    listeners = {row["protocol"]: (row["port"], row["tls"]) for row in found["listeners"]}
    assert listeners["https"] == (secure.api, True)
    assert listeners["https/prometheus"] == (secure.metrics, True)
    assert [row["port"] for row in found["contexts"]] == [str(secure.api)]


def test_the_cookie_of_a_session_stays_on_tls(secure: Secure) -> None:
    connection = http.client.HTTPSConnection(
        HOST, secure.api, context=secure.context(), timeout=patient(30)
    )
    form = {"content-type": "application/x-www-form-urlencoded"}
    try:
        connection.request("POST", "/login", "username=guest&password=guest", form)
        answer = connection.getresponse()
        assert answer.status == 303
        assert "Secure" in (answer.headers["set-cookie"] or "").split("; ")
    finally:
        connection.close()


def headers_of(answer: http.client.HTTPResponse) -> tuple[str | None, str | None]:
    answer.read()
    names = ("strict-transport-security", "content-security-policy")
    return answer.headers[names[0]], answer.headers[names[1]]


def test_browsers_are_told_to_stay_on_tls(secure: Secure) -> None:
    """Also by refusals and by pages; metrics are for no browser."""
    connection = http.client.HTTPSConnection(
        HOST, secure.api, context=secure.context(), timeout=patient(30)
    )
    try:
        for path in ("/api/overview", "/login", "/nowhere"):
            connection.request("GET", path)
            strict, content = headers_of(connection.getresponse())
            assert strict == "max-age=31536000"
            assert content is None or "'self'" in content
    finally:
        connection.close()


def test_operators_say_what_browsers_may(certificates: Path, tmp_path: Path) -> None:
    """In the words of RabbitMQ's file; without TLS nothing is said of it."""
    plain, encrypted = free_port(), free_port()
    broker = Broker(free_port(), tmp_path / "data")
    broker.management = str(plain)
    settings = {
        "management.ssl.port": encrypted,
        "management.ssl.certfile": certificates / "server.pem",
        "management.ssl.keyfile": certificates / "server.key",
        "management.hsts.policy": "max-age=600; includeSubDomains",
        "management.csp.policy": "default-src 'none'",
    }
    broker.options = words_of(settings)
    broker.start()
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    context.check_hostname = False
    try:
        for connection, strict in (
            (http.client.HTTPConnection(HOST, plain, timeout=patient(30)), None),
            (
                http.client.HTTPSConnection(HOST, encrypted, context=context, timeout=patient(30)),
                "max-age=600; includeSubDomains",
            ),
        ):
            for path in ("/api/overview", "/login"):
                connection.request("GET", path)
                found = headers_of(connection.getresponse())
                assert found == (strict, "default-src 'none'")
            connection.close()
    finally:
        broker.stop()


def test_certificates_that_expire_soon_are_named(secure: Secure) -> None:
    """Over HTTP and by RabbitMQ's command; those of tests are good for two days."""
    check = "/api/health/checks/certificate-expiration"
    assert secure.ask(secure.api, f"{check}/1/days") == (200, b'{"status":"ok"}')
    status, body = secure.ask(secure.api, f"{check}/1/weeks")
    said = json.loads(body)
    assert (status, said["status"], said["reason"]) == (503, "failed", "Certificates expiring")
    rows = {row["port"]: row for row in said["expired"]}
    assert sorted(rows) == sorted([secure.api, secure.metrics])
    row = rows[secure.api]
    assert sorted(row) == sorted(
        (
            *("node", "port", "protocol", "interface", "cacertfile", "certfile"),
            *("cacertfile_expires_on", "certfile_expires_on"),
        )
    )
    assert (row["protocol"], row["certfile"]) == ("https", str(secure.folder / "server.pem"))
    text = subprocess.run(
        ["openssl", "x509", "-noout", "-enddate", "-in", row["certfile"]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    ends = datetime.strptime(text, "notAfter=%b %d %H:%M:%S %Y GMT")
    assert row["certfile_expires_on"] == [str(ends)]
    assert len(row["cacertfile_expires_on"]) == 1

    at = ["--data-dir", str(secure.broker.data_dir)]
    expiration = ["rabbitmq-diagnostics", "check_certificate_expiration", *at]
    code, out, _ = in_process([*expiration, "--within", "1", "--unit", "days", "-q"], "")
    assert (code, out) == (0, "No certificates are expiring within 1 days.\n")
    code, _, err = in_process(expiration, "")
    assert code == 69 and f"{row['certfile']} expires on {ends} (UTC)" in err
    code, out, _ = in_process([*expiration, "--formatter", "json"], "")
    assert code == 69 and len(json.loads(out)["expired"]) == 2
    said = in_process(["rabbitmq-diagnostics", "certificates", *at, "--formatter", "json"], "")
    shown = {row["port"]: row for row in json.loads(said[1])}
    own = (secure.folder / "server.pem").read_text()
    assert shown[secure.api]["certfile"] == own and "PRIVATE" not in said[1]


def test_what_tls_can_do_is_told(secure: Secure) -> None:
    at = ["--data-dir", str(secure.broker.data_dir), "-s"]
    assert in_process(["rabbitmq-diagnostics", "tls_versions", *at], "")[1] == "tlsv1.3\ntlsv1.2\n"
    usual = in_process(["rabbitmq-diagnostics", "cipher_suites", *at], "")[1].split()
    every = in_process(["rabbitmq-diagnostics", "cipher_suites", "--all", *at], "")[1].split()
    assert "TLS_AES_256_GCM_SHA384" in usual and set(usual) < set(every)


def test_only_versions_that_are_listed_are_spoken(secure: Secure) -> None:
    context = secure.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((HOST, secure.api)) as stream, pytest.raises(ssl.SSLError):
        context.wrap_socket(stream, server_hostname=HOST)


def test_a_plain_request_gets_no_answer(secure: Secure) -> None:
    with socket.create_connection((HOST, secure.api), patient(30)) as stream:
        stream.sendall(b"GET /api/overview HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"HTTP/1.1 200" not in stream.recv(1_000)
    secure.broker.check_alive()


def test_metrics_are_for_those_with_a_certificate(secure: Secure) -> None:
    status, body = secure.ask(secure.metrics, "/metrics", "app")
    assert status == 200 and b"rabbitmq_identity_info" in body
    for certificate in ("", "stranger"):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            secure.ask(secure.metrics, "/metrics", certificate)


def test_clients_that_do_not_finish_their_handshake_keep_none_out(secure: Secure) -> None:
    silent = [socket.create_connection((HOST, secure.api)) for _ in range(HANDSHAKES_MAX + 5)]
    assert secure.ask(secure.api, "/api/whoami")[0] == 200
    silent[0].settimeout(patient(30))
    over = time.monotonic() + patient(30)
    assert silent[0].recv(1) == b"" and time.monotonic() < over, "the oldest went"
    for each in silent:
        each.close()


def test_both_listen_where_both_are_asked_for(certificates: Path, tmp_path: Path) -> None:
    plain, encrypted = free_port(), free_port()
    settings = {
        "management.ssl.port": encrypted,
        "management.ssl.certfile": certificates / "server.pem",
        "management.ssl.keyfile": certificates / "server.key",
    }
    broker = Broker(free_port(), tmp_path / "data", options=words_of(settings))
    broker.management = str(plain)
    broker.start()
    try:
        assert Secure(broker, encrypted, 0, certificates).ask(encrypted, "/api/whoami")[0] == 200
        connection = http.client.HTTPConnection(HOST, plain, timeout=patient(30))
        connection.request("GET", "/api/whoami", headers=GUEST)
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        broker.stop()
