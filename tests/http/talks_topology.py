"""Talks about policies, queues, exchanges, bindings and messages."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.http.talk import Ask, Talk

BASIC = "name,type,durable,auto_delete,exclusive,arguments,vhost,state"


def publish(
    exchange: str,
    key: str,
    payload: str = "p",
    encoding: str = "string",
    properties: dict[str, Any] | None = None,
    **more: Any,
) -> Ask:
    """A request that publishes a message."""
    body = {"properties": properties or {}, "routing_key": key, "payload": payload,
            "payload_encoding": encoding, **more}  # fmt: skip
    return Ask("POST", f"/exchanges/h/{exchange}/publish", body)


def get(
    queue: str, count: Any = 10, mode: str = "ack_requeue_true", encoding: str = "auto", **more: Any
) -> Ask:
    """A request that gets messages."""
    body = {"count": count, "ackmode": mode, "encoding": encoding, **more}
    return Ask("POST", f"/queues/h/{queue}/get", body)


def told() -> Ask:
    """A request that takes what the firehose has told of, once it has."""
    return get("traces", mode="ack_requeue_false")._replace(until="payload")


def policies(kind: str) -> list[Ask]:
    """Requests about policies of one kind."""
    path = f"/{kind}/h"
    five = {"max-length": 5}
    return [
        Ask("PUT", f"{path}/p1", {"pattern": "^a", "definition": five}),
        Ask("PUT", f"{path}/p1", {"pattern": "^a", "definition": five, "priority": 3}),
        Ask("PUT", f"{path}/p%2F2", {
            "pattern": "^b", "definition": {"expires": 1000}, "priority": -1,
            "apply-to": "queues",
        }),
        Ask("GET", path),
        Ask("GET", f"{path}/p1"),
        Ask("GET", f"{path}/p%2F2"),
        Ask("GET", f"{path}/none"),
        Ask("GET", f"{path}?page=1&page_size=1"),
        Ask("GET", f"{path}?name=p1&page=1&columns=name,definition.max-length"),
        Ask("GET", f"/{kind}/nowhere"),
        Ask("PUT", f"/{kind}/nowhere/p", {"pattern": "^a", "definition": five}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a"}),
        Ask("PUT", f"{path}/p3", {"definition": five}),
        Ask("PUT", f"{path}/p3", {}),
        Ask("PUT", f"{path}/p3", "nothing"),
        Ask("PUT", f"{path}/p3", {"pattern": "^a(", "definition": five}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a", "definition": {}}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a", "definition": {"nothing": 5}}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a", "definition": {"max-length": "x"}}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a", "definition": {"max-length": -1}}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a", "definition": five, "apply-to": "x"}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a", "definition": five, "priority": "x"}),
        Ask("PUT", f"{path}/p3", {"pattern": 5, "definition": five}),
        Ask("PUT", f"{path}/p3", {"pattern": "^a", "definition": 5}),
        Ask("DELETE", f"{path}/p3"),
        Ask("DELETE", f"{path}/p1"),
        Ask("GET", path),
        Ask("POST", f"{path}/p1", {}),
    ]  # fmt: skip


NAMED = tuple(
    Ask("PUT", f"/queues/h/{name}", {"durable": True})
    for name in ("keda-1", "KEDA-2", "keda.x", "other")
)
FILTERS = (
    *("keda(?i)-1", "(?i)keda", "KEDA", "ke(?i:DA)", "a(?i", "(?-i)keda", "(?i)KEDA(?-i)-1"),
    *("k(?s).(?i)DA", "^keda$", "keda(?#c)", "(?<x>k)eda", "k++eda", "[[:alpha:]]+-1", "(?-i)KE"),
    *(r"\Qkeda-\E1", "((?i)KE)da", "(a|(?i)KE)DA", "(?-i:keda|(?i)OTHER)", "(?-i)x|KEDA-2|OTHER"),
    *("((?-i)x|OTHER)|KEDA", "a)|(b", "[", "[]k]eda", "(?-i)[(?i)]", r"\(?i"),
)
"""Regular expressions of PCRE, in which flags may stand anywhere."""

TALKS = [
    Talk("policies", policies("policies")),
    Talk("operator policies", policies("operator-policies")),
    Talk(
        "queues declared",
        [
            Ask("PUT", "/queues/h/q", {"durable": True}),
            Ask("PUT", "/queues/h/q", {"durable": True}),
            Ask("GET", f"/queues/h/q?columns={BASIC}", until="durable"),
            Ask("PUT", "/queues/h/q", {"durable": False}),
            Ask("PUT", "/queues/h/q", {"durable": True, "auto_delete": True}),
            Ask("PUT", "/queues/h/q", {
                "durable": True, "arguments": {"x-queue-type": "quorum"},
            }),
            Ask("PUT", "/queues/h/quorum", {
                "durable": True, "arguments": {"x-queue-type": "quorum", "x-max-length": 5},
            }),
            Ask("PUT", "/queues/h/none", {"arguments": {"x-queue-type": "none"}}),
            Ask("PUT", "/queues/h/none", {"arguments": {"x-max-length": "five"}}),
            Ask("PUT", "/queues/h/none", {"arguments": {"x-max-length": -5}}),
            Ask("PUT", "/queues/h/none", {"arguments": {"x-expires": 1.5}}),
            Ask("PUT", "/queues/h/none", {"arguments": 5}),
            Ask("PUT", "/queues/h/none", {"durable": "x"}),
            Ask("PUT", "/queues/h/strings", {"durable": "true", "auto_delete": "false"}),
            Ask("PUT", "/queues/h/none", "{"),
            Ask("PUT", "/queues/h/amq.none", {}),
            Ask("PUT", "/queues/nowhere/q", {}),
            Ask("PUT", "/queues/h/a%2Fb%20c%25", {"durable": True}),
            Ask("GET", "/queues/h/a%2Fb%20c%25?columns=name", until="name"),
            Ask("PUT", "/queues/h/%C3%A9", {"durable": True}),
            Ask("GET", "/queues/h/%C3%A9?columns=name", until="name"),
            Ask("PUT", f"/queues/h/{'n' * 256}", {"durable": True}),
            Ask("GET", "/queues/h?columns=name,type,arguments", until="type"),
            Ask("GET", "/queues/h/none"),
            Ask("GET", "/queues/nowhere/q"),
            Ask("GET", "/queues/nowhere"),
            Ask("DELETE", "/queues/h/none"),
            Ask("DELETE", "/queues/h/q?if-unused=true&if-empty=true"),
            Ask("DELETE", "/queues/h/quorum?if-empty=true"),
            Ask("DELETE", "/queues/h/quorum"),
            Ask("DELETE", "/queues/nowhere/q"),
            Ask("PUT", "/queues/h/mine", {"exclusive": True}),
        ],
    ),
    Talk(
        "queue figures",
        [
            Ask("GET", "/queues/h", until="consumers"),
            Ask("GET", "/queues/h/fig.classic"),
            Ask("GET", "/queues/h/fig.quorum"),
            Ask("GET", "/queues/detailed?page=1&name=fig&columns=name,messages"),
            Ask("GET", "/queues/h?disable_stats=true"),
            Ask("GET", "/queues/h?disable_stats=true&enable_queue_totals=true"),
            Ask("GET", "/queues/h/fig.classic?disable_stats=true"),
        ],
        given=(
            Ask("PUT", "/queues/h/fig.classic", {"durable": True}),
            Ask("PUT", "/queues/h/fig.quorum", {
                "durable": True, "arguments": {"x-queue-type": "quorum"},
            }),
        ),
    ),
    Talk(
        "queues with policies",
        [
            Ask("GET", "/queues/h?columns=name,policy,operator_policy", until="policy"),
            Ask("GET", "/queues/h/pol?columns=name,policy,operator_policy,"
                "effective_policy_definition", until="effective_policy_definition"),
            Ask("GET", "/exchanges/h/pol.e"),
            Ask("GET", "/queues/h/pol?disable_stats=true"),
        ],
        given=(
            Ask("PUT", "/policies/h/p", {
                "pattern": "^pol", "definition": {"max-length": 9, "expires": 90_000},
                "apply-to": "queues",
            }),
            Ask("PUT", "/policies/h/e", {
                "pattern": "^pol", "definition": {"alternate-exchange": "amq.fanout"},
                "apply-to": "exchanges",
            }),
            Ask("PUT", "/operator-policies/h/o", {
                "pattern": "^pol", "definition": {"max-length": 5}, "apply-to": "queues",
            }),
            Ask("PUT", "/queues/h/pol", {"durable": True}),
            Ask("PUT", "/exchanges/h/pol.e", {"type": "topic"}),
        ),
    ),
    Talk(
        "queue pages",
        [
            Ask("GET", "/queues/h?page=1&page_size=2&columns=name"),
            Ask("GET", "/queues/h?page=2&page_size=2&columns=name"),
            Ask("GET", "/queues/h?page=3&page_size=2&columns=name"),
            Ask("GET", "/queues/h?page=4&page_size=2&columns=name"),
            Ask("GET", "/queues/h?page=0&columns=name"),
            Ask("GET", "/queues/h?page=-1&columns=name"),
            Ask("GET", "/queues/h?page=x&columns=name"),
            Ask("GET", "/queues/h?page=&columns=name"),
            Ask("GET", "/queues/h?page=1&page_size=0&columns=name"),
            Ask("GET", "/queues/h?page=1&page_size=500&columns=name"),
            Ask("GET", "/queues/h?page=1&page_size=501&columns=name"),
            Ask("GET", "/queues/h?page=1&page_size=x&columns=name"),
            Ask("GET", "/queues/h?page_size=2&columns=name"),
            Ask("GET", "/queues/h?page=1&name=B&columns=name"),
            Ask("GET", "/queues/h?page=1&name=b&columns=name"),
            Ask("GET", "/queues/h?page=1&name=^b&use_regex=true&columns=name"),
            Ask("GET", "/queues/h?page=1&name=^b&use_regex=false&columns=name"),
            Ask("GET", "/queues/h?page=1&name=(&use_regex=true&columns=name"),
            Ask("GET", "/queues/h?page=1&page_size=2&name=b&columns=name"),
            Ask("GET", "/queues/h?name=b&columns=name"),
            Ask("GET", "/queues/h?sort=name&sort_reverse=true&columns=name"),
            Ask("GET", "/queues/h?sort=name&columns=name"),
            Ask("GET", "/queues/h?sort_reverse=true&columns=name"),
            Ask("GET", "/queues/h?sort=durable&columns=name,durable"),
            Ask("GET", "/queues/h?page=1&page_size=2&sort=name&sort_reverse=true&columns=name"),
            Ask("GET", "/queues/h?columns=name,arguments.x-max-length"),
            Ask("GET", "/queues/h?columns=nothing"),
            Ask("GET", "/queues/h?columns="),
            Ask("GET", "/queues/h?page=1&page_size=2&pagination=false&columns=name"),
        ],
        given=tuple(
            Ask("PUT", f"/queues/h/{name}", {
                "durable": name < "b1", "arguments": {"x-max-length": 5} if name == "a2" else {},
            })
            for name in ("a1", "a2", "b1", "b2", "c")
        ),
    ),
    Talk(
        "pages at their ends",
        [
            *(
                Ask("GET", f"/{kind}/h?columns=name&page={page}&page_size={size}{rest}")
                for kind in ("queues", "exchanges")
                for page, size, rest in (
                    (2, 4, ""), (3, 2, ""), (4, 2, ""), (5, 1, ""), (6, 1, ""), (12, 1, ""),
                    (4, 1, "&name=keda"), (5, 1, "&name=keda"), (2, 4, "&name=keda"),
                    (5, 1, "&sort=durable"), (6, 1, "&sort=durable"),
                    (2, 4, "&sort=durable&name=keda"), (4, 1, "&sort=durable&name=keda"),
                )
            ),
            Ask("GET", "/connections?page=2&page_size=100"),
            Ask("GET", "/channels?page=2"),
        ],
        given=NAMED,
    ),
    Talk(
        "names by regular expressions",
        [
            Ask("GET", f"/queues/h?columns=name&page=1&use_regex=true&name={quote(text)}")
            for text in FILTERS
        ],
        given=NAMED,
    ),
    Talk(
        "exchanges",
        [
            Ask("GET", "/exchanges/h"),
            Ask("GET", "/exchanges/h/amq.topic"),
            Ask("GET", "/exchanges/h/amq.default"),
            Ask("PUT", "/exchanges/h/e", {}),
            Ask("PUT", "/exchanges/h/e", {"type": "direct"}),
            Ask("PUT", "/exchanges/h/e", {"type": "fanout"}),
            Ask("PUT", "/exchanges/h/e", {"type": "direct", "durable": True}),
            Ask("GET", "/exchanges/h/e"),
            Ask("PUT", "/exchanges/h/i", {
                "type": "topic", "internal": True, "auto_delete": True, "durable": True,
                "arguments": {"alternate-exchange": "e"},
            }),
            Ask("GET", "/exchanges/h/i"),
            Ask("PUT", "/exchanges/h/none", {"type": "none"}),
            Ask("PUT", "/exchanges/h/amq.none", {"type": "topic"}),
            Ask("PUT", "/exchanges/h/amq.topic", {"type": "topic", "durable": True}),
            Ask("PUT", "/exchanges/h/amq.default", {"type": "direct", "durable": True}),
            Ask("PUT", "/exchanges/nowhere/e", {"type": "topic"}),
            Ask("PUT", "/exchanges/h/none", "{"),
            Ask("PUT", "/exchanges/h/none", {"type": 5}),
            Ask("PUT", "/exchanges/h/%2F", {"type": "fanout"}),
            Ask("GET", "/exchanges/h/%2F"),
            Ask("GET", "/exchanges/h?columns=name&page=1&page_size=3"),
            Ask("GET", "/exchanges/h/none"),
            Ask("DELETE", "/exchanges/h/none"),
            Ask("DELETE", "/exchanges/h/e?if-unused=true"),
            Ask("DELETE", "/exchanges/h/i"),
            Ask("DELETE", "/exchanges/h/amq.topic"),
            Ask("DELETE", "/exchanges/h/amq.default"),
            Ask("GET", "/exchanges/nowhere"),
        ],
    ),
    Talk(
        "bindings",
        [
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "k", "arguments": {"a": 1}}),
            Ask("POST", "/bindings/h/e/e/q/q", {}),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "a/b ~c"}),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "", "arguments": {"x": "y"}}),
            Ask("POST", "/bindings/h/e/e/e/f", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/e/q/none", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/none/q/q", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/amq.default/q/q", {"routing_key": "k"}),
            Ask("POST", "/bindings/nowhere/e/e/q/q", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/e/x/q", {"routing_key": "k"}),
            Ask("POST", "/bindings/h/e/e/q/q", "{"),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": 5}),
            Ask("GET", "/bindings/h/e/e/q/q"),
            Ask("GET", "/bindings/h/e/e/e/f"),
            Ask("GET", "/bindings/h/e/e/q/q/k"),
            Ask("GET", "/bindings/h/e/e/q/q/~"),
            Ask("GET", "/bindings/h/e/e/q/q/a%2Fb%20%7Ec"),
            Ask("GET", "/bindings/h/e/e/q/q/none"),
            Ask("GET", "/bindings/h/e/none/q/q"),
            Ask("GET", "/bindings/h"),
            Ask("GET", "/bindings/nowhere"),
            Ask("GET", "/queues/h/q/bindings"),
            Ask("GET", "/queues/h/none/bindings"),
            Ask("GET", "/exchanges/h/e/bindings/source"),
            Ask("GET", "/exchanges/h/f/bindings/destination"),
            Ask("GET", "/exchanges/h/none/bindings/source"),
            Ask("GET", "/exchanges/h/amq.default/bindings/source"),
            Ask("DELETE", "/bindings/h/e/e/q/q/k"),
            Ask("DELETE", "/bindings/h/e/e/q/q/k"),
            Ask("DELETE", "/bindings/h/e/e/e/f/k"),
            Ask("DELETE", "/bindings/h/e/e/q/q/~"),
            Ask("GET", "/bindings/h/e/e/q/q"),
            Ask("DELETE", "/exchanges/h/e?if-unused=true"),
            Ask("GET", "/bindings/h/e/amq.default/q/q"),
        ],
        given=(
            Ask("PUT", "/queues/h/q", {"durable": True}),
            Ask("PUT", "/exchanges/h/e", {"type": "topic"}),
            Ask("PUT", "/exchanges/h/f", {"type": "topic"}),
        ),
    ),
    Talk(
        "firehose",
        [
            publish("amq.default", "q", "first"),
            told(),
            publish("amq.default", "none"),
            told(),
            publish("e", "a.b", "AAH/", "base64", {
                "content_type": "text/plain", "delivery_mode": 2, "priority": 3,
                "correlation_id": "c", "expiration": "60000", "message_id": "m",
                "timestamp": 17, "type": "t", "user_id": "guest", "app_id": "a",
                "headers": {"n": 1, "s": "text", "l": [1, "two"], "CC": ["q"], "BCC": ["p"]},
            }),
            told(),
            get("q", 1),
            told(),
            get("q", 1, "ack_requeue_false"),
            told(),
            get("q", 1, "reject_requeue_true"),
            told(),
            get("q", 2, "reject_requeue_false"),
            told(),
            get("q", 1),
            Ask("GET", "/queues/h/traces?columns=name"),
            get("traces", 10, "ack_requeue_false"),
        ],
        given=(
            Ask("PUT", "/queues/h/q", {"durable": True}),
            Ask("PUT", "/queues/h/traces", {"durable": True}),
            Ask("PUT", "/exchanges/h/e", {"type": "topic"}),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "a.*"}),
            *(
                Ask("POST", "/bindings/h/e/amq.rabbitmq.trace/q/traces", {"routing_key": key})
                for key in ("publish.#", "deliver.q")
            ),
            Ask("PUT", "/vhosts/h", {"tracing": True}),
        ),
    ),
    Talk(
        "messages",
        [
            get("q"),
            publish("amq.default", "q", "first"),
            publish("amq.default", "none"),
            publish("amq.default", "q", "AAH/", "base64", {"delivery_mode": 2}),
            publish("amq.default", "q", "properties", properties={
                "content_type": "text/plain", "content_encoding": "utf-8", "priority": 3,
                "correlation_id": "c", "reply_to": "r", "message_id": "m", "timestamp": 17,
                "type": "t", "user_id": "guest", "app_id": "a", "cluster_id": "i",
                "headers": {
                    "n": 1, "long": 5_000_000_000, "f": 1.5, "t": True, "s": "text",
                    "l": [1, "two"], "d": {"a": {"b": 2}}, "negative": -3,
                },
            }),
            publish("e", "a.b", "é\n\u0001"),
            publish("e", "z"),
            get("q"),
            get("q", 2),
            get("q", encoding="base64"),
            get("q", truncate=3),
            get("q", mode="reject_requeue_true"),
            get("q", 1, "ack_requeue_false"),
            get("q", 1, "reject_requeue_false"),
            get("q"),
            get("q", "1", "ack_requeue_false"),
            get("q", 0),
            get("q", -1),
            get("q", "x"),
            get("q", 1.5),
            get("q", mode="none"),
            get("q", encoding="none"),
            get("q", truncate="x"),
            Ask("POST", "/queues/h/q/get", {}),
            Ask("POST", "/queues/h/q/get", {"count": 1}),
            Ask("POST", "/queues/h/q/get", "{"),
            get("none"),
            Ask("GET", "/queues/h/q/get"),
            publish("none", "q"),
            publish("i", "q"),
            publish("amq.default", "q", "x", "none"),
            publish("amq.default", "q", "!", "base64"),
            publish("amq.default", "q", properties={"delivery_mode": "x"}),
            publish("amq.default", "q", properties={"nothing": 1}),
            publish("amq.default", "q", properties={"priority": 300}),
            publish("amq.default", "q", properties={"headers": {"n": None}}),
            publish("amq.default", "q", properties={"headers": 5}),
            publish("amq.default", "q", properties={"expiration": "x"}),
            publish("amq.default", "q", properties={"user_id": "other"}),
            publish("amq.default", "q", properties={"timestamp": "x"}),
            Ask("POST", "/exchanges/h/amq.default/publish", {}),
            Ask("POST", "/exchanges/h/amq.default/publish", {"payload": "p"}),
            Ask("POST", "/exchanges/h/amq.default/publish", {
                "properties": [], "routing_key": "q", "payload": "p",
                "payload_encoding": "string",
            }),
            Ask("POST", "/exchanges/h/amq.default/publish", {
                "properties": {}, "routing_key": "q", "payload": 5, "payload_encoding": "string",
            }),
            Ask("POST", "/exchanges/h/amq.default/publish", {
                "properties": {}, "routing_key": 5, "payload": "p", "payload_encoding": "string",
            }),
            Ask("DELETE", "/queues/h/q/contents"),
            get("q"),
            Ask("DELETE", "/queues/h/none/contents"),
            Ask("GET", "/queues/h/q/contents"),
        ],
        given=(
            Ask("PUT", "/queues/h/q", {"durable": True}),
            Ask("PUT", "/exchanges/h/e", {"type": "topic"}),
            Ask("PUT", "/exchanges/h/i", {"type": "topic", "internal": True}),
            Ask("POST", "/bindings/h/e/e/q/q", {"routing_key": "a.*"}),
        ),
    ),
    Talk(
        "messages of a quorum queue",
        [
            publish("amq.default", "q", "first"),
            publish("amq.default", "q", "second", properties={"headers": {"a": 1}}),
            get("q", 1),
            get("q", 10),
            get("q", 1, "reject_requeue_true"),
            get("q", 10),
            get("q", 10, "ack_requeue_false"),
            get("q", 10),
        ],
        given=(
            Ask("PUT", "/queues/h/q", {
                "durable": True, "arguments": {"x-queue-type": "quorum"},
            }),
        ),
    ),
    Talk(
        "message rates",
        [
            publish("amq.default", "rated", "first"),
            publish("amq.default", "rated", "second"),
            get("rated", 1, "ack_requeue_false"),
            Ask("GET", "/queues/h/rated?columns=name,message_stats",
                until="message_stats.publish"),
        ],
        given=(Ask("PUT", "/queues/h/rated", {"durable": True}),),
    ),
]  # fmt: skip
