"""How long queues are, and how fast messages come and go, as the HTTP API tells it."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.http.talk import Ask, Peer
from tests.support.patience import patient

QUORUM = {"x-queue-type": "quorum"}


def until(done: Callable[[], Any], seconds: float = 15.0) -> Any:
    """What something comes to, once it is true."""
    over = time.monotonic() + patient(seconds)
    while not (found := done()) and time.monotonic() < over:
        time.sleep(0.05)
    return found


def shown(peer: Peer, path: str) -> Any:
    status, _, body = peer.raw(Ask("GET", path))
    assert status == 200, body
    return json.loads(body)


@pytest.fixture
def channel(peer: Peer) -> Iterator[Any]:
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            peer.host, peer.amqp_port, client_properties={"connection_name": "figures"}
        )
    )
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.mark.rule("MET-05")
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_lengths_are_told_over_http(kind: str, peer: Peer, channel: Any) -> None:
    """As by `queue.declare-ok`: what is ready, and apart from it what consumers hold."""
    queue, path = f"length.{kind}", f"/queues/%2F/length.{kind}"
    arguments = {"x-queue-type": kind}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("", queue, b"abc")
    held = [channel.basic_get(queue)[0].delivery_tag for _ in range(2)]
    found = until(lambda: shown(peer, path)["messages_unacknowledged"] == 2 and shown(peer, path))
    declared = channel.queue_declare(queue, passive=True)
    assert found["messages_ready"] == declared.method.message_count == 3
    assert (found["messages"], found["messages_unacknowledged"]) == (5, 2)
    (listed,) = (row for row in shown(peer, "/queues") if row["name"] == queue)
    assert (listed["messages_ready"], listed["messages"]) == (3, 5)
    totals = shown(peer, "/overview")["queue_totals"]
    assert totals["messages_ready"] >= 3 and totals["messages_unacknowledged"] >= 2
    channel.basic_ack(held[-1], multiple=True)
    assert until(lambda: shown(peer, path)["messages"] == 3)
    channel.queue_delete(queue)


@pytest.mark.rule("MET-01")
def test_a_queue_tells_what_it_holds_and_where(peer: Peer, channel: Any) -> None:
    """Over HTTP and in the page: length, rates, consumers, ready, held, persistent, in memory."""
    queues = {"where.d": (True, {}), "where.t": (False, {}), "where.q": (True, QUORUM)}
    channel.confirm_delivery()
    for queue, (durable, arguments) in queues.items():
        channel.queue_declare(queue, durable=durable, exclusive=not durable, arguments=arguments)
        for number in range(6):
            mode = pika.BasicProperties(delivery_mode=1 + number % 2)
            channel.basic_publish("", queue, b"x" * (1 + number), mode)
        channel.basic_get(queue)
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(queue, lambda *_: None)
    for queue, persistent, in_memory in (("where.d", 3, 0), ("where.t", 0, 6), ("where.q", 6, 0)):
        path = f"/queues/%2F/{queue}"
        found = until(
            lambda path=path: (
                shown(peer, path)["messages_unacknowledged"] == 2
                and shown(peer, path).get("message_stats", {}).get("publish") == 6
                and shown(peer, path)
            )
        )
        assert (found["messages"], found["messages_ready"]) == (6, 4)
        # As in RabbitMQ, who polled a quorum queue counts while it holds the message.
        assert found["consumers"] == (2 if queue == "where.q" else 1)
        assert {"publish_details", "deliver_get_details"} <= set(found["message_stats"])
        assert (found["messages_persistent"], found["messages_ram"]) == (persistent, in_memory)
        every, some = found["message_bytes"], found["message_bytes_persistent"]
        assert {0: some == 0, 3: 0 < some < every, 6: some == every}[persistent]
        assert found["message_bytes_ram"] == (every if in_memory else 0)
        (listed,) = (row for row in shown(peer, "/queues") if row["name"] == queue)
        assert (listed["messages_persistent"], listed["messages_ram"]) == (persistent, in_memory)
        if queue != "where.t":
            channel.queue_delete(queue)


def test_counters_and_rates(peer: Peer, channel: Any) -> None:
    """Each message is counted where it belongs; the rates come from looks some seconds apart."""
    queue, path = "rates", "/queues/%2F/rates"
    channel.queue_declare(queue, durable=True)
    assert "message_stats" not in shown(peer, path)
    channel.confirm_delivery()
    for _ in range(10):
        channel.basic_publish("", queue, b"abc")
    got: list[int] = []
    channel.basic_qos(prefetch_count=4)
    channel.basic_consume(queue, lambda ch, method, *_: got.append(method.delivery_tag))
    until(lambda: channel.connection.process_data_events(0.05) or len(got) == 4)
    channel.basic_ack(got[1], multiple=True)
    until(lambda: channel.connection.process_data_events(0.05) or len(got) == 6)
    channel.cancel()
    channel.basic_get(queue, auto_ack=True)
    channel.basic_get(queue)

    def counted() -> dict[str, int]:
        stats = shown(peer, path).get("message_stats", {})
        return {key: value for key, value in stats.items() if isinstance(value, int)}

    expected = {"publish": 10, "ack": 2, "get": 1, "get_no_ack": 1, "get_empty": 0, "deliver": 6}
    assert until(lambda: expected.items() <= counted().items()), counted()
    assert counted()["deliver_get"] == 8
    rates = until(
        lambda: (
            shown(peer, path)["message_stats"]["publish_details"]["rate"] > 0
            and shown(peer, path)["message_stats"]
        )
    )
    assert 0 < rates["publish_details"]["rate"] <= 10
    assert until(lambda: shown(peer, path)["message_stats"]["publish_details"]["rate"] == 0)
    vhost = shown(peer, "/vhosts/%2F")
    assert vhost["message_stats"]["publish"] >= 10 and vhost["messages"] >= 7
    assert shown(peer, "/overview")["message_stats"]["publish"] >= 10
    channel.queue_delete(queue)


def test_what_is_published_to_a_vhost_is_counted(peer: Peer, channel: Any) -> None:
    """Also what went to no queue; and what publishers were told of it."""

    def counted() -> dict[str, int]:
        stats = shown(peer, "/vhosts/%2F").get("message_stats", {})
        names = ("publish", "confirm", "drop_unroutable", "return_unroutable")
        return {name: stats.get(name, 0) for name in names}

    before = counted()
    channel.basic_publish("", "nowhere", b"dropped")
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"dropped")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"returned", mandatory=True)
    channel.queue_declare("counted", durable=True)
    channel.basic_publish("", "counted", b"kept")
    wanted = {"publish": 4, "confirm": 3, "drop_unroutable": 2, "return_unroutable": 1}
    assert until(
        lambda: {name: count - before[name] for name, count in counted().items()} == wanted
    ), (before, counted())
    channel.queue_delete("counted")


def test_a_vhost_of_a_name_that_was_there_before_counts_anew(peer: Peer) -> None:
    """At once, as with RabbitMQ; the whole node goes on counting."""

    def made() -> Any:
        assert peer.raw(Ask("PUT", "/vhosts/again", {}))[0] == 201
        parameters = pika.ConnectionParameters(peer.host, peer.amqp_port, "again")
        return pika.BlockingConnection(parameters)

    def used(count: int) -> None:
        connection = made()
        own = connection.channel()
        own.confirm_delivery()
        own.queue_declare("q")
        for _ in range(count):
            own.basic_publish("", "q", b"x")
            assert own.basic_get("q", auto_ack=True)[0] is not None
        connection.close()

    def counted() -> list[int]:
        stats = shown(peer, "/vhosts/again").get("message_stats", {})
        return [stats.get(name, 0) for name in ("publish", "confirm", "get_no_ack")]

    used(7)
    assert until(lambda: counted() == [7, 7, 7]), counted()
    whole = shown(peer, "/overview")["message_stats"]["publish"]
    assert peer.raw(Ask("DELETE", "/vhosts/again"))[0] == 204
    used(2)
    assert max(counted()) <= 2
    assert until(lambda: counted() == [2, 2, 2]), counted()
    assert until(lambda: shown(peer, "/overview")["message_stats"]["publish"] >= whole + 2)
    assert peer.raw(Ask("DELETE", "/vhosts/again"))[0] == 204


def test_redeliveries_and_automatic_ones_are_counted(peer: Peer, channel: Any) -> None:
    queue, path = "again", "/queues/%2F/again"
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"abc")
    channel.basic_nack(channel.basic_get(queue)[0].delivery_tag, requeue=True)
    got: list[bytes] = []
    channel.basic_consume(queue, lambda *given: got.append(given[3]), auto_ack=True)
    until(lambda: channel.connection.process_data_events(0.05) or len(got) == 1)
    wanted = {"redeliver": 1, "deliver_no_ack": 1, "get": 1, "ack": 0, "deliver": 0}
    assert until(lambda: wanted.items() <= shown(peer, path)["message_stats"].items())
    channel.queue_delete(queue)


def test_clients_are_shown_and_closed(peer: Peer, channel: Any) -> None:
    """A connection with its channel and its consumer, by the names that lists give them."""
    channel.queue_declare("shown", durable=True)
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("shown", lambda *_: None, consumer_tag="the-tag")
    (connection,) = (
        row for row in shown(peer, "/connections") if row.get("user_provided_name") == "figures"
    )
    assert (connection["user"], connection["state"], connection["channels"]) == (
        "guest",
        "running",
        1,
    )
    path = f"/connections/{quote(connection['name'], safe='')}"
    assert shown(peer, path)["protocol"] == "AMQP 0-9-1"
    (own,) = shown(peer, f"{path}/channels")
    assert (own["number"], own["consumer_count"], own["prefetch_count"]) == (1, 1, 7)
    details = shown(peer, f"/channels/{quote(own['name'], safe='')}")["consumer_details"]
    assert [row["consumer_tag"] for row in details] == ["the-tag"]
    (consumer,) = shown(peer, "/queues/%2F/shown")["consumer_details"]
    assert consumer["queue"] == {"name": "shown", "vhost": "/"}
    assert consumer["channel_details"]["connection_name"] == connection["name"]
    assert (consumer["channel_details"]["user"], consumer["consumer_timeout"]) == (
        "guest",
        1_800_000,
    )
    assert consumer in shown(peer, "/consumers/%2F")
    closing = Ask("DELETE", path, headers={"x-reason": "for the test"})
    assert peer.raw(closing)[0] == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        until(lambda: channel.connection.process_data_events(0.05))
    assert closed.value.reply_code == 320 and "for the test" in closed.value.reply_text
    assert until(lambda: peer.raw(Ask("GET", path))[0] == 404)
    assert peer.raw(Ask("DELETE", "/queues/%2F/shown"))[0] == 204


RANGES = "&".join(f"{kind}_age=60&{kind}_incr=5" for kind in ("lengths", "msg_rates", "data_rates"))


def test_samples_follow_what_happens(peer: Peer, channel: Any) -> None:
    """The newest sample comes to what is counted, and averages are those of the samples."""
    queue, path = "sampled", f"/queues/%2F/sampled?{RANGES}"
    channel.exchange_declare("sampled", "fanout")
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, "sampled")
    channel.confirm_delivery()
    for _ in range(10):
        channel.basic_publish("sampled", "", b"abc")

    def newest(where: str, *keys: str) -> Any:
        found = shown(peer, where)
        for key in keys:
            found = found.get(key, {})
        return found.get("samples", [{}])[0].get("sample")

    assert until(lambda: newest(path, "message_stats", "publish_details") == 10)
    found = shown(peer, path)
    details = found["messages_details"]
    samples = details["samples"]
    assert [each["sample"] for each in samples] == sorted(
        (each["sample"] for each in samples), reverse=True
    )
    assert samples[0]["sample"] == 10 and samples[-1]["sample"] == 0
    moments = [each["timestamp"] for each in samples]
    assert len(moments) == 13
    assert all(new - old == 5_000 for new, old in zip(moments, moments[1:], strict=False))
    assert details["avg"] == sum(each["sample"] for each in samples) / 13
    assert details["avg_rate"] == 10 / 60
    exchange = f"/exchanges/%2F/sampled?{RANGES}"
    assert until(lambda: newest(exchange, "message_stats", "publish_out_details") == 10)
    assert newest(exchange, "message_stats", "publish_in_details") == 10
    assert newest(f"/overview?{RANGES}", "message_stats", "publish_details") >= 10
    assert newest(f"/overview?{RANGES}", "queue_totals", "messages_ready_details") >= 10
    assert newest(f"/vhosts/%2F?{RANGES}", "message_stats", "confirm_details") >= 10
    assert peer.raw(Ask("DELETE", "/reset"))[0] == 204
    assert newest(path, "message_stats", "publish_details") == 10, "what is now is known"
    channel.queue_delete(queue)
    channel.exchange_delete("sampled")
    # Another one of that name begins anew.
    channel.exchange_declare("sampled", "fanout")
    assert "message_stats" not in shown(peer, exchange)
    channel.exchange_delete("sampled")


def test_rates_of_connections_and_channels(peer: Peer, channel: Any) -> None:
    """They are looked at from when they are asked for on."""
    (connection,) = (
        row for row in shown(peer, "/connections") if row.get("user_provided_name") == "figures"
    )
    path = f"/connections/{quote(connection['name'], safe='')}"
    (own,) = shown(peer, f"{path}/channels")
    assert "message_stats" not in own
    channel.confirm_delivery()
    of_channel = f"/channels/{quote(own['name'], safe='')}?{RANGES}"
    published = 0

    def rates() -> Any:
        nonlocal published
        channel.basic_publish("amq.fanout", "", b"x" * 1_000)
        published += 1
        found = shown(peer, f"{path}?{RANGES}")
        stats = shown(peer, of_channel)["message_stats"]
        details = found["recv_oct_details"], stats["publish_details"]
        fast = all(each["rate"] > 0 for each in details)
        # Samples end a second ago at most.
        return fast and all(each["samples"][0]["sample"] > 0 for each in details) and (found, stats)

    found, stats = until(rates)
    assert stats["publish"] == stats["confirm"] == stats["drop_unroutable"] == published
    assert stats["publish_details"]["samples"][0]["sample"] <= published
    assert "deliver" not in stats, "it consumed nothing"


def test_nodes_are_looked_at_over_time(peer: Peer, channel: Any) -> None:
    path = f"/nodes/{peer.node}?node_stats_age=60&node_stats_incr=5"
    found = until(
        lambda: shown(peer, path)["mem_used_details"]["samples"][0]["sample"] and shown(peer, path)
    )
    assert found["mem_used_details"]["avg"] > 0 and found["connection_created"] >= 1
    assert found["connection_created_details"]["samples"][0]["sample"] >= 0
    parts = shown(peer, f"/nodes/{peer.node}/memory")["memory"]
    total = parts.pop("total")["rss"]
    assert parts.pop("strategy") == "rss"
    assert sum(parts.values()) == total > parts["code"] > 0


def test_attempts_to_log_in_are_counted(peer: Peer, channel: Any) -> None:
    path = f"/auth/attempts/{peer.node}"
    assert peer.raw(Ask("DELETE", path))[0] == 204
    assert peer.raw(Ask("GET", "/whoami", user="nobody"))[0] == 401
    (http,) = shown(peer, path)
    assert (http["protocol"], http["auth_attempts"], http["auth_attempts_failed"]) == ("http", 2, 1)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(
            pika.ConnectionParameters(
                peer.host, peer.amqp_port, credentials=pika.PlainCredentials("nobody", "x")
            )
        )
    (amqp,) = (row for row in shown(peer, path) if row["protocol"] == "amqp091")
    assert (amqp["auth_attempts"], amqp["auth_attempts_succeeded"]) == (1, 0)


def test_settings_in_force_are_a_text_without_secrets(peer: Peer) -> None:
    status, headers, body = peer.raw(Ask("GET", "/config/effective"))
    assert (status, headers["content-type"]) == (200, "text/plain")
    lines = dict(line.split(" = ", 1) for line in body.decode().splitlines())
    assert lines["quorum_queue.compat"] == "4.3"
    assert peer.raw(Ask("GET", "/config/effective", headers={"accept": "text/*"}))[0] == 200
    assert peer.raw(Ask("GET", "/config/effective", headers={"accept": "image/png"}))[0] == 406
    assert peer.raw(Ask("GET", "/overview", headers={"accept": "text/plain"}))[0] == 406
    assert peer.raw(Ask("GET", "/config/effective", user="h.monitoring"))[0] == 401


def test_what_is_deprecated_is_told_as_the_command_tells_it(peer: Peer) -> None:
    found = {row["name"]: row for row in shown(peer, "/deprecated-features")}
    assert found["ram_node_type"]["state"] == "denied"
    assert found["queue_master_locator"]["deprecation_phase"] == "denied_by_default"
    assert shown(peer, "/deprecated-features/used") == []


def test_the_overview_names_what_runs_the_broker(peer: Peer) -> None:
    """Tools read the version of Erlang there, and fail where it is not."""
    found = shown(peer, "/overview")
    assert found["erlang_version"] == f"CPython {platform.python_version()}"
    assert found["erlang_full_version"].startswith(found["erlang_version"])


def test_a_cluster_has_an_identity(peer: Peer) -> None:
    found = {row["name"]: row["value"] for row in shown(peer, "/global-parameters")}
    assert found["cluster_tags"] == []
    assert found["internal_cluster_id"].startswith("rabbitmq-cluster-id-")
    assert shown(peer, "/global-parameters/internal_cluster_id") == {
        "name": "internal_cluster_id",
        "value": found["internal_cluster_id"],
    }


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_lengths_that_fall_have_rates_below_zero(kind: str, peer: Peer, channel: Any) -> None:
    """Of a queue, its vhost and the cluster: above zero as messages come, below as they go."""
    assert peer.raw(Ask("PUT", "/vhosts/falling"))[0] in (201, 204)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(peer.host, peer.amqp_port, "falling")
    )
    own = connection.channel()
    own.queue_declare("falls", durable=True, arguments={"x-queue-type": kind})
    own.confirm_delivery()

    def rates(name: str) -> list[float]:
        key = f"{name}_details"
        of_queue = shown(peer, "/queues/falling/falls")
        of_vhost = shown(peer, "/vhosts/falling")
        totals = shown(peer, "/overview")["queue_totals"]
        return [found.get(key, {}).get("rate", 0.0) for found in (of_queue, of_vhost, totals)]

    for _ in range(50):
        own.basic_publish("", "falls", b"x")
    assert until(lambda: all(rate > 0 for rate in rates("messages_ready"))), rates("messages_ready")
    held = [own.basic_get("falls")[0].delivery_tag for _ in range(50)]
    assert until(lambda: all(rate < 0 for rate in rates("messages_ready"))), rates("messages_ready")
    assert all(rate >= 0 for rate in rates("messages_unacknowledged"))
    own.basic_ack(held[-1], multiple=True)
    unacked = "messages_unacknowledged"
    assert until(lambda: all(rate < 0 for rate in rates(unacked))), rates(unacked)
    connection.close()
    assert peer.raw(Ask("DELETE", "/vhosts/falling"))[0] == 204


def test_a_binding_says_where_it_is_as_a_path(peer: Peer, channel: Any) -> None:
    """A slash within a name is none of the path."""
    channel.queue_declare("there/too")
    path = "/bindings/%2F/e/amq.direct/q/there%2Ftoo"
    status, headers, _ = peer.raw(Ask("POST", path, {"routing_key": "a/b", "arguments": {}}))
    # The key of a binding is the routing key as a path has it, and stands in a path itself.
    assert (status, headers["location"]) == (201, "there%2Ftoo/a%252Fb")
    (binding,) = shown(peer, path)
    assert binding["properties_key"] == "a%2Fb"
    assert shown(peer, f"{path}/a%252Fb") == binding
    channel.queue_delete("there/too")


def test_a_filtered_page_in_an_order_tells_how_many_there_are(peer: Peer, channel: Any) -> None:
    """Of all, and of those that fit, whatever the list and its order."""
    for number in range(5):
        channel.queue_declare(f"paged.{number}")
        channel.exchange_declare(f"paged.{number}", "fanout")
    channel.connection.channel()
    for path, name, sorts, fits in (
        ("/queues", "paged.", ("", "name", "messages", "message_stats.publish", "type"), 5),
        ("/queues/%2F", "paged.3", ("", "name", "consumers"), 1),
        ("/exchanges", "paged.", ("", "name", "type", "message_stats.publish_in"), 5),
        ("/connections", "127.0.0.1", ("", "name", "channels", "recv_oct_details.rate"), None),
        ("/channels", "(1)", ("", "name", "number", "user"), None),
        ("/vhosts", "nothing", ("", "name", "messages"), 0),
        ("/users", "h.m", ("", "name", "tags"), 2),
        ("/nodes", "nothing", ("", "name"), 0),
        ("/feature-flags", "policy", ("", "name", "state"), 2),
    ):
        every = shown(peer, path)
        for sort in sorts:
            for reverse in ("false", "true"):
                page = f"?page=1&page_size=2&name={quote(name)}&sort={sort}&sort_reverse={reverse}"
                found = shown(peer, f"{path}{page}")
                told = (found["total_count"], found["filtered_count"], found["item_count"])
                fitting = sum(name in row["name"] for row in every)
                assert fits in (None, fitting)
                assert told == (len(every), fitting, min(fitting, 2)), (path, sort, reverse)
                assert found["page_count"] == -(-fitting // 2)
    for number in range(5):
        channel.queue_delete(f"paged.{number}")
        channel.exchange_delete(f"paged.{number}")
