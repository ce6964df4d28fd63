"""Clients that log in by a token of OAuth 2.0, over AMQP and over HTTP."""

from __future__ import annotations

import http.client
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.support.broker import Broker, free_port
from tests.support.patience import patient
from tests.support.tokens import AUDIENCE, Issuer

EVERYTHING = ("configure:*/*", "write:*/*", "read:*/*")


class Trusting:
    """A broker that trusts an issuer."""

    def __init__(self, broker: Broker, issuer: Issuer) -> None:
        self.broker = broker
        self.issuer = issuer

    def connect(self, token: str, user: str = "", vhost: str = "/") -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                self.broker.host,
                self.broker.port,
                vhost,
                pika.PlainCredentials(user, token),
                socket_timeout=patient(30),
            )
        )

    def ask(self, method: str, path: str, header: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(
            self.broker.host, int(self.broker.management), timeout=patient(30)
        )
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, f"/api{path}", text, {"authorization": header})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    folder = tmp_path_factory.mktemp("oauth2")
    issuer = Issuer()
    settings = {
        "auth_backends.1": "oauth2",
        "auth_backends.2": "internal",
        "auth_oauth2.resource_server_id": AUDIENCE,
        f"auth_oauth2.signing_keys.{issuer.key_id}": issuer.public_file(folder),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = Broker(free_port(), folder / "data", options=words)
    broker.management = str(free_port())
    broker.start()
    yield Trusting(broker, issuer)
    broker.stop()


def closed_soon(connection: pika.BlockingConnection) -> ConnectionClosedByBroker:
    """How the broker ends a connection, within a bound."""
    over = time.monotonic() + patient(20)
    with pytest.raises(ConnectionClosedByBroker) as closed:
        while time.monotonic() < over:
            connection.process_data_events(0.05)
    return closed.value


def test_a_token_lets_its_bearer_do_what_its_scopes_say(trusting: Trusting) -> None:
    token = trusting.issuer.token(
        "configure:%2F/own.*", "write:%2F/own.*", "read:%2F/own.*", "write:%2F/amq.topic/eu.*"
    )
    connection = trusting.connect(token)
    channel = connection.channel()
    channel.queue_declare("own.q", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "eu.x", b"")
    for wrong, said in (
        (lambda c: c.queue_declare("other", durable=True), "configure access to queue 'other'"),
        (lambda c: c.basic_publish("amq.topic", "us.x", b""), "write access to topic 'us.x'"),
        (lambda c: c.basic_publish("", "own.q", b""), "write access to exchange 'amq.default'"),
        (lambda c: c.queue_bind("own.q", "amq.fanout"), "read access to exchange 'amq.fanout'"),
    ):
        refused = connection.channel()
        refused.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker) as closed:
            wrong(refused)
        assert closed.value.reply_code == 403
        assert said in closed.value.reply_text and "user 'app'" in closed.value.reply_text
    channel.queue_delete("own.q")
    connection.close()


def test_who_has_no_good_token_is_not_let_in(trusting: Trusting) -> None:
    issuer = trusting.issuer
    for token in (issuer.token(*EVERYTHING, seconds=-1), Issuer().token(*EVERYTHING), "eyJ.a.b"):
        with pytest.raises(ProbableAuthenticationError):
            trusting.connect(token)
    with pytest.raises(ProbableAccessDeniedError):
        trusting.connect(issuer.token("read:elsewhere/*"))
    with pytest.raises(ProbableAuthenticationError):
        trusting.connect("wrong", "guest")
    trusting.connect("guest", "guest").close()


def test_a_connection_ends_when_its_token_expires(trusting: Trusting) -> None:
    connection = trusting.connect(trusting.issuer.token(*EVERYTHING, seconds=2))
    began = time.monotonic()
    closed = closed_soon(connection)
    assert (
        closed.reply_code == 320 and closed.reply_text == "CONNECTION_FORCED - credential expired"
    )
    assert time.monotonic() - began > 1


def update(connection: pika.BlockingConnection, secret: str) -> Callable[[], bool]:
    """Send `connection.update-secret`; returns what says whether it was accepted."""
    answers: list[Any] = []
    inner = connection._impl
    inner.callbacks.add(0, pika.spec.Connection.UpdateSecretOk, answers.append)
    inner.update_secret(secret, "renewed", callback=answers.append)
    return lambda: bool(answers)


def test_a_new_token_takes_the_place_of_the_old_one(trusting: Trusting) -> None:
    """A connection lives on by it, and may do what it says from then on."""
    issuer = trusting.issuer
    connection = trusting.connect(issuer.token(*EVERYTHING, seconds=3))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"")
    accepted = update(connection, issuer.token("write:*/amq.topic", "read:*/*"))
    over = time.monotonic() + patient(10)
    while not accepted() and time.monotonic() < over:
        connection.process_data_events(0.05)
    assert accepted()
    expired = time.monotonic() + 4
    while time.monotonic() < expired:
        connection.process_data_events(0.1)
    channel.basic_publish("amq.topic", "", b"")
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.basic_publish("amq.fanout", "", b"")
    assert closed.value.reply_code == 403, "what was permitted before is looked at again"
    update(connection, issuer.token(*EVERYTHING, sub="other"))
    refused = closed_soon(connection)
    assert (refused.reply_code, "New secret was refused" in refused.reply_text) == (530, True)


def test_tokens_are_taken_over_http(trusting: Trusting) -> None:
    issuer = trusting.issuer

    def bearer(*scopes: str, **claims: Any) -> str:
        return f"Bearer {issuer.token(*scopes, **claims)}"

    administrator = bearer(*EVERYTHING, "tag:administrator")
    status, found = trusting.ask("GET", "/whoami", administrator)
    assert status == 200
    assert found == {"name": "app", "tags": ["administrator"], "is_internal_user": False}
    assert trusting.ask("PUT", "/queues/%2F/h", administrator, {"durable": True})[0] == 201
    assert [row["name"] for row in trusting.ask("GET", "/queues", administrator)[1]] == ["h"]
    basic = basic_of(issuer)
    assert trusting.ask("GET", "/whoami", basic)[1]["tags"] == ["management"]
    manager = bearer("read:%2F/*", "tag:management")
    assert trusting.ask("GET", "/queues/%2F/h", manager)[0] == 200
    assert trusting.ask("GET", "/nodes", manager)[0] == 401
    status, found = trusting.ask("PUT", "/queues/%2F/i", manager, {"durable": True})
    assert (status, found["error"]) == (401, "not_authorised")
    assert trusting.ask("GET", "/queues", bearer("tag:management"))[1] == []
    for wrong in (bearer(*EVERYTHING), bearer("tag:management", seconds=-1), "Bearer x", "Bearer "):
        assert trusting.ask("GET", "/whoami", wrong)[0] == 401
    assert trusting.ask("DELETE", "/queues/%2F/h", administrator)[0] == 204


def basic_of(issuer: Issuer) -> str:
    """A token as the password of basic authentication."""
    token = issuer.token("read:*/*", "tag:management")
    return f"Basic {b64encode(f'x:{token}'.encode()).decode()}"


def test_where_only_tokens_are_taken_passwords_are_none(tmp_path: Path) -> None:
    issuer = Issuer()
    settings = {
        "auth_backends.1": "rabbit_auth_backend_oauth2",
        "auth_oauth2.resource_server_id": AUDIENCE,
        f"auth_oauth2.signing_keys.{issuer.key_id}": issuer.public_file(tmp_path),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = Broker(free_port(), tmp_path / "data", options=words)
    broker.start()
    try:
        trusting = Trusting(broker, issuer)
        trusting.connect(issuer.token(*EVERYTHING)).close()
        with pytest.raises(ProbableAuthenticationError):
            trusting.connect("guest", "guest")
    finally:
        broker.stop()


LOGIN_REFUSED = (
    403,
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the "
    "broker logfile.",
)
NO_VHOST = (530, "NOT_ALLOWED - access to vhost '/' refused for user 'app'")
NO_USER = (401, {"error": "not_authorized", "reason": "Not_Authorized"})
NO_TAG = (401, {"error": "not_authorised", "reason": "Not management user"})
AS_RABBITMQ_4_3_6_REFUSES: list[tuple[dict[str, Any], tuple[int, str], tuple[int, Any]]] = [
    ({"seconds": -10}, LOGIN_REFUSED, NO_USER),
    ({"aud": "other"}, LOGIN_REFUSED, NO_USER),
    ({"aud": None}, LOGIN_REFUSED, NO_USER),
    ({"exp": None}, LOGIN_REFUSED, NO_USER),
    ({"scope": ""}, NO_VHOST, NO_TAG),
    ({"scope": None}, NO_VHOST, NO_TAG),
    ({"scope": f"{AUDIENCE}.read:elsewhere/*"}, NO_VHOST, NO_TAG),
]
"""Claims of a token, and what its bearer is told over AMQP and over HTTP; as recorded."""


@pytest.mark.parametrize(("claims", "over_amqp", "over_http"), AS_RABBITMQ_4_3_6_REFUSES)
def test_refusals_are_those_of_rabbitmq(
    trusting: Trusting,
    claims: dict[str, Any],
    over_amqp: tuple[int, str],
    over_http: tuple[int, Any],
) -> None:
    token = trusting.issuer.token(*EVERYTHING, **claims)
    with pytest.raises((ProbableAuthenticationError, ProbableAccessDeniedError)) as refused:
        trusting.connect(token)
    code, text = over_amqp
    # pika wraps the broker's code and text.
    assert f"({code})" in str(refused.value) and text in str(refused.value).replace("\\'", "'")
    assert trusting.ask("GET", "/whoami", f"Bearer {token}") == over_http


def test_what_scopes_lack_is_said_over_http_as_by_rabbitmq(trusting: Trusting) -> None:
    bearer = f"Bearer {trusting.issuer.token('tag:management', 'read:*/*')}"
    queue = trusting.ask("PUT", "/queues/%2F/refused", bearer, {})
    assert queue == (401, {"error": "not_authorised", "reason": "Access refused."})
    user = trusting.ask("PUT", "/users/refused", bearer, {"password": "x", "tags": ""})
    assert user == (401, {"error": "not_authorised", "reason": "Not administrator user"})


@pytest.mark.parametrize("scope", ["", f"{AUDIENCE}.read:elsewhere/*"])
def test_a_connection_goes_no_further_by_a_token_without_its_vhost(
    trusting: Trusting, scope: str
) -> None:
    connection = trusting.connect(trusting.issuer.token(*EVERYTHING))
    update(connection, trusting.issuer.token(scope=scope))
    closed = closed_soon(connection)
    assert (closed.reply_code, closed.reply_text) == NO_VHOST
