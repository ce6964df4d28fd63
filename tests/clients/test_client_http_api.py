"""Clients of RabbitMQ's HTTP API, as they come from their registries: pyrabbit2, rabbitmq-admin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pyrabbit2.api import Client
from pyrabbit2.http import HTTPError

from tests.clients.javascript import node_path, run_check
from tests.clients.support import eventually
from tests.support.broker import Broker, free_port
from tests.support.patience import patient

__all__ = ["node_path"]

VHOST = "p/vhost"


@pytest.fixture(scope="module")
def _api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(free_port(), tmp_path_factory.mktemp("api") / "broker")
    broker.management = str(free_port())
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def api(_api: Broker) -> Iterator[Broker]:
    """A broker with the HTTP API; it has to live through each test."""
    yield _api
    _api.check_alive()


@pytest.mark.parametrize("check", ["figures", "queues", "bindings", "messages", "vhosts"])
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_rabbitmq_admin(check: str, kind: str, api: Broker, node_path: Path) -> None:
    address = (api.host, int(api.management))
    run_check("rabbitmq-admin.js", check, address, f"r.{check}.{kind}", kind, node_path)


@pytest.fixture
def client(api: Broker) -> Client:
    """pyrabbit2, logged in."""
    return Client(f"{api.host}:{api.management}", "guest", "guest", timeout=patient(15))


@pytest.fixture
def vhost(client: Client) -> Iterator[str]:
    """A vhost with a slash in its name, that the user may use."""
    assert client.create_vhost(VHOST) == 201
    client.set_vhost_permissions(VHOST, "guest", ".*", ".*", ".*")
    yield VHOST
    assert client.delete_vhost(VHOST) == 204
    assert status_of(lambda: client.get_vhost(VHOST)) == 404


def status_of(ask: Callable[[], object]) -> int:
    """What a request was refused with."""
    with pytest.raises(HTTPError) as refused:
        ask()
    return int(refused.value.status)


def test_pyrabbit2_reads_lists_and_figures(client: Client) -> None:
    assert client.is_alive()
    assert client.get_whoami()["name"] == "guest"
    assert client.get_overview()["object_totals"]["exchanges"] >= 7
    assert client.get_nodes()[0]["running"]
    assert [user["name"] for user in client.get_users()] == ["guest"]
    assert client.get_vhost_names() == ["/"]
    assert client.get_cluster_name()["name"]
    assert {"users", "vhosts", "queues"} <= set(client.get_definitions())
    for ask in (
        client.get_connections,
        client.get_channels,
        client.get_bindings,
        client.get_all_policies,
        client.get_all_shovels,
        client.get_extensions,
        client.get_queues,
    ):
        assert ask() == [], ask
    assert client.get_permissions()[0]["user"] == "guest"


def test_pyrabbit2_declares_binds_publishes_and_gets(client: Client, vhost: str) -> None:
    assert client.create_queue(vhost, "q", durable=True, arguments={"x-queue-type": "quorum"})
    assert client.create_exchange(vhost, "x", "topic")
    assert client.get_exchange(vhost, "x")["type"] == "topic"
    assert {"x", "amq.topic"} <= {each["name"] for each in client.get_exchanges(vhost)}
    assert client.create_binding(vhost, "x", "q", "a.#") == 201
    assert client.create_binding(vhost, "amq.fanout", "q") == 201
    assert client.create_binding(vhost, "x", "q", "b", {"some": 1}) == 201
    bindings = client.get_queue_bindings(vhost, "q")
    keys = {(each["source"], each["routing_key"]) for each in bindings}
    assert keys == {("", "q"), ("x", "a.#"), ("amq.fanout", ""), ("x", "b")}

    assert client.publish(vhost, "x", "a.b", "hello", properties={"message_id": "one"})
    assert not client.publish(vhost, "x", "none", "hello")
    eventually(lambda: client.get_queue_depth(vhost, "q") == 1)
    (kept,) = client.get_messages(vhost, "q", requeue=True)
    assert (kept["payload"], kept["properties"]["message_id"]) == ("hello", "one")
    (taken,) = client.get_messages(vhost, "q", count=5, truncate=2)
    assert (taken["payload"], taken["redelivered"]) == ("he", True)
    assert client.get_messages(vhost, "q") == []
    client.publish(vhost, "amq.fanout", "", "more")
    assert client.purge_queue(vhost, "q") == 204

    (key,) = [each["properties_key"] for each in bindings if each["routing_key"] == "a.#"]
    assert client.delete_binding(vhost, "x", "q", quote(key, "")) == 204
    assert len(client.get_queue_bindings(vhost, "q")) == 3
    assert [each["name"] for each in client.get_queues(vhost)] == ["q"]
    assert [each["name"] for each in client.get_queues(vhost, "^q$", True)] == ["q"]
    assert client.get_queues(vhost, "none") == []
    assert client.get_queue(vhost, "q")["type"] == "quorum"
    assert client.delete_queue(vhost, "q") == 204
    assert client.delete_exchange(vhost, "x")
    assert status_of(lambda: client.get_queue(vhost, "q")) == 404
    assert status_of(lambda: client.create_exchange("none", "x", "topic")) == 404


def test_pyrabbit2_sets_users_permissions_and_policies(client: Client, vhost: str) -> None:
    assert client.create_user("p.user", "secret", tags="management") == 201
    assert client.set_vhost_permissions(vhost, "p.user", "^a", "^b", "^c") == 201
    found = client.get_permission(vhost, "p.user")
    assert (found["configure"], found["read"], found["write"]) == ("^a", "^b", "^c")
    assert len(client.get_vhost_permissions(vhost)) == 2
    assert client.delete_permission(vhost, "p.user") == 204
    assert client.get_user_permissions("p.user") == []
    assert client.delete_user("p.user") == 204
    definition = {"max-length": 5}
    assert client.create_policy(vhost, "p", pattern="^q", definition=definition) == 201
    assert client.get_policy(vhost, "p")["definition"] == definition
    assert client.delete_policy(vhost, "p") == 204
    assert status_of(lambda: client.get_policy(vhost, "p")) == 404
