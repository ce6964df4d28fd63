"""Talks about what there is over time: rates and samples, and what nodes tell of themselves."""

from __future__ import annotations

import pika

from tests.http.talk import Ask, Do, Talk

RANGES = "&".join(
    f"{kind}_age=60&{kind}_incr=5" for kind in ("lengths", "msg_rates", "data_rates", "node_stats")
)
WRONG = (
    *("lengths_age=0&lengths_incr=5", "lengths_age=60&lengths_incr=0"),
    *("msg_rates_age=-5&msg_rates_incr=5", "msg_rates_age=100000&msg_rates_incr=1"),
    *("data_rates_age=0&data_rates_incr=1", "node_stats_age=501&node_stats_incr=1"),
)
PASSED_OVER = (
    *("lengths_age=60", "lengths_incr=5", "lengths_age=x&lengths_incr=5"),
    *("lengths_age=60&lengths_incr=x", "lengths_age=60.5&lengths_incr=5"),
    *("lengths_age=&lengths_incr=", "none_age=1&none_incr=1"),
)
LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")


def traffic(host: str, port: int) -> None:
    """Publish to two queues, and take something of one."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, port, "h"))
    channel = connection.channel()
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("e", "k", b"abc")
    channel.basic_publish("e", "nowhere", b"abc")
    for _ in range(2):
        method, _, _ = channel.basic_get("q")
        channel.basic_ack(method.delivery_tag)
    connection.close()


def columns(*names: str) -> str:
    """A query for the details of some figures."""
    return "&columns=" + ",".join(f"{name}_details" for name in names)


GAUGES = ("mem_used", "disk_free", "fd_used")
CHURN = ("connection_created", "channel_closed", "queue_declared")

TALKS = [
    Talk(
        "samples",
        [
            # RabbitMQ counts with a delay, and later elsewhere.
            *(
                Ask(
                    "GET",
                    f"/{path}?columns=message_stats",
                    until=f"message_stats.{key}",
                    counts=True,
                )
                for path, key in (
                    ("queues/h/q", "ack=2"),
                    ("queues/h/other", "publish=5"),
                    ("exchanges/h/e", "publish_in=6"),
                    ("vhosts/h", "ack=2"),
                )
            ),
            Ask("GET", f"/queues/h/q?{RANGES}&columns=message_stats"),
            Ask("GET", f"/queues/h/q?{RANGES}{columns(*LENGTHS)}"),
            Ask("GET", f"/queues/h?{RANGES}&columns=name,message_stats,messages_details"),
            Ask("GET", f"/queues/h?{RANGES}&page=1&columns=name,message_stats"),
            Ask("GET", f"/exchanges/h/e?{RANGES}"),
            Ask("GET", "/exchanges/h/e"),
            Ask("GET", f"/exchanges/h?{RANGES}&columns=name,message_stats"),
            Ask("GET", f"/vhosts/h?{RANGES}&columns=message_stats"),
            Ask("GET", f"/vhosts/h?{RANGES}{columns(*LENGTHS)}"),
            Ask("GET", f"/overview?{RANGES}&columns=queue_totals,message_stats,churn_rates"),
            Ask("GET", "/overview?columns=queue_totals,message_stats,churn_rates"),
            Ask("GET", "/overview?columns=sample_retention_policies,statistics_db_event_queue"),
            Ask("GET", f"/nodes/{{node}}?{RANGES}{columns(*GAUGES, *CHURN)}"),
            Ask("GET", f"/nodes/{{node}}?{columns(*GAUGES, *CHURN)}"),
            *(Ask("GET", f"/overview?{range_}&columns=node") for range_ in WRONG),
            *(Ask("GET", f"/queues/h/q?{range_}&columns=name") for range_ in WRONG),
            *(Ask("GET", f"/overview?{range_}&columns=queue_totals") for range_ in PASSED_OVER),
        ],
        given=(
            Ask("PUT", "/queues/h/q", {"durable": True}),
            Ask("PUT", "/queues/h/other", {"durable": True}),
            Ask("PUT", "/queues/h/idle", {"durable": True}),
            Ask("PUT", "/exchanges/h/e", {"type": "topic", "durable": True}),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/e/q/other", {"routing_key": "k"}),
            Do(traffic),
        ),
    ),
    Talk(
        "what nodes tell",
        [
            Ask("GET", "/nodes/{node}/memory"),
            Ask("GET", "/nodes/{node}/memory/relative?columns=memory.total"),
            Ask("GET", "/nodes/{node}/memory?columns=memory.strategy"),
            Ask("GET", "/nodes/nowhere/memory"),
            Ask("GET", "/nodes/nowhere/memory/relative"),
            Ask("DELETE", "/auth/attempts/{node}"),
            Ask("GET", "/auth/attempts/{node}"),
            Ask("GET", "/auth/attempts/{node}/source"),
            Ask("GET", "/auth/attempts/nowhere"),
            Ask("GET", "/auth/attempts/nowhere/source"),
            Ask("DELETE", "/auth/attempts/nowhere"),
            Ask("GET", "/auth/hash_password/abc"),
            Ask("DELETE", "/reset"),
            Ask("DELETE", "/reset/{node}"),
            Ask("DELETE", "/reset/nowhere"),
            Ask("GET", "/reset"),
        ],
    ),
]
