"""Where Warren answers otherwise than RabbitMQ 4.3 over HTTP on purpose, each with its reason.

One that is out of date fails the test that plays its talk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

JSON = {"content-type": "application/json"}


class Deviation(NamedTuple):
    """Why one answer is another, and what of it."""

    reason: str
    answer: dict[str, Any]


_ERLANG = "tells of a process or of memory of the Erlang VM"
_STORES = "tells which bodies are in memory; here that is up to the cache of the log"

LACKING: dict[str, str] = {
    "user_who_performed_action": "who declared something is not kept",
    "memory": _ERLANG,
    "reductions": _ERLANG,
    "reductions_details": _ERLANG,
    "garbage_collection": _ERLANG,
    "open_files": "queues have no files of their own",
    "storage_version": "there is one kind of storage",
    "consumer_capacity": "is not measured",
    "consumer_utilisation": "is not measured",
    "exclusive_consumer_tag": "is among the consumers' details",
    "single_active_consumer_tag": "is among the consumers' details",
    "head_message_timestamp": "is not looked up",
    "idle_since": "is not noted",
    "delayed_retry": "is among the arguments and policies",
    "publishers": "is not counted",
    "message_bytes_dlx": "is not counted",
    "messages_active_priorities": "is not counted",
    "messages_by_priority": "is not counted",
    "messages_ready_returned": "is not counted",
    "messages_ready_ram": _STORES,
    "messages_unacknowledged_ram": _STORES,
    "disk_reads": _STORES,
    "disk_reads_details": _STORES,
    "disk_writes": _STORES,
    "disk_writes_details": _STORES,
    "cluster_id": "the reserved property of messages is not kept of those published over HTTP",
}
"""Keys that Warren's bodies do not have anywhere, by why; but for a node's `memory`, an object."""

ADDED: dict[str, str] = {}
"""Keys that only Warren's have."""


def _crash(reason: object, status: int = 400, error: str = "bad_request") -> Deviation:
    """A request that RabbitMQ fails at, with status 500 or with the stack of its process."""
    return Deviation(
        "the oracle's handler crashes; ours says what is wrong",
        {"status": status, "headers": JSON, "body": {"error": error, "reason": reason}},
    )


def _pattern(text: str) -> Deviation:
    """A regular expression that is none."""
    return Deviation(
        "the engine of regular expressions has words of its own",
        {"body": {"error": "bad_request", "reason": text}},
    )


_PUT_POLICY = {kind: f"PUT /{kind}/h/p3 as guest" for kind in ("policies", "operator-policies")}
_COLUMNS = "columns are chosen in every list, and within objects"
_NAMED = [{"name": "h", "tracing": False}]

_UNROUTED = {
    "exchange": "amq.rabbitmq.trace",
    "message_count": 0,
    "payload": "p",
    "payload_bytes": 1,
    "payload_encoding": "string",
    "properties": {
        "headers": {
            "channel": 1,
            "connection": "<text>",
            "exchange_name": "",
            "node": "<node>",
            "properties": {},
            "routed_queues": [],
            "routing_keys": ["none"],
            "user": "guest",
            "vhost": "h",
        }
    },
    "redelivered": False,
    "routing_key": "publish.",
}

DEVIATIONS: dict[tuple[str, str], Deviation] = {
    **{
        (f"read as h.{role}", f"GET /vhosts?columns=name,tracing as h.{role}"): Deviation(
            _COLUMNS, {"body": body}
        )
        for role, body in {
            "management": _NAMED,
            "policymaker": _NAMED,
            "monitoring": [{"name": "/", "tracing": False}, *_NAMED],
            "administrator": [{"name": "/", "tracing": False}, *_NAMED],
        }.items()
    },
    ("users", "PUT /users/h.u as guest (10)"): _crash(
        "tags are a list of texts, or a text with commas"
    ),
    ("permissions", "PUT /permissions/h/h.p as guest (4)"): _pattern(
        "regular expression '(' is invalid: missing ), unterminated subpattern at position 0"
    ),
    ("permissions", "PUT /permissions/h/h.p as guest (5)"): _crash("configure should be a text"),
    (
        "members of quorum queues",
        "POST /queues/quorum/replicas/on/{node}/grow as guest (2)",
    ): Deviation(
        "the oracle takes any strategy, and grows nothing; ours names those that there are",
        {
            "status": 400,
            "headers": JSON,
            "body": {"error": "bad_request", "reason": "strategy is one of all, even"},
        },
    ),
    (
        "members of quorum queues",
        "POST /queues/quorum/replicas/on/nowhere/grow as guest",
    ): _crash("node 'nowhere' is not in the cluster, whose nodes are <node>", 404, "not_found"),
    **{
        (kind.replace("-", " "), f"{title} ({place})"): deviation
        for kind, title in _PUT_POLICY.items()
        for place, deviation in (
            (
                5,
                _pattern(
                    "Validation failed\n\npattern should be regular expression but is invalid: "
                    "'^a(': missing ), unterminated subpattern at position 2\n"
                ),
            ),
            (13, _crash("Validation failed\n\ndefinition must be a JSON object: 5\n")),
        )
    },
    ("firehose", "POST /queues/h/traces/get as guest (2)"): Deviation(
        "the firehose names the queues that got a message; the oracle names that of the routing key"
        " of the default exchange, whether it is there or not",
        {"body": [_UNROUTED]},
    ),
    ("queues declared", "PUT /queues/h/none as guest (5)"): _crash("arguments is no object"),
    ("queues declared", "PUT /queues/h/mine as guest"): Deviation(
        "the oracle declares it, and deletes it at once with the connection of the request",
        {
            "status": 400,
            "headers": JSON,
            "body": {
                "error": "bad_request",
                "reason": "an exclusive queue goes with its connection, which there is none of",
            },
        },
    ),
    ("queue pages", "GET /queues/h?columns=name,arguments.x-max-length as guest"): Deviation(
        _COLUMNS,
        {
            "body": [
                {"arguments": {"x-max-length": 5} if name == "a2" else [], "name": name}
                for name in ("a1", "a2", "b1", "b2", "c")
            ]
        },
    ),
    ("exchanges", "PUT /exchanges/h/none as guest (3)"): _crash("unknown exchange type '5'"),
    ("bindings", "POST /bindings/h/e/e/x/q as guest"): _crash("a destination is q or e, not x"),
    ("bindings", "POST /bindings/h/e/e/q/q as guest (7)"): _crash("not_json"),
    ("bindings", "POST /bindings/h/e/e/q/q as guest (8)"): _crash("routing_key should be a text"),
    ("bindings", "GET /queues/h/none/bindings as guest"): Deviation(
        "the oracle shows the default exchange's binding of a queue that there is not",
        {"body": []},
    ),
    ("messages", "POST /queues/h/q/get as guest (14)"): Deviation(
        "the oracle takes fractions",
        {
            "status": 400,
            "body": {"error": "bad_request", "reason": ["not_integer", 1.5]},
        },
    ),
    ("messages", "POST /exchanges/h/amq.default/publish as guest (9)"): Deviation(
        "the oracle takes the lowest eight bits",
        {
            "status": 400,
            "body": {
                "error": "bad_request",
                "reason": "properties: Expected `int` <= 255 - at `$.priority`",
            },
        },
    ),
    ("messages", "POST /exchanges/h/amq.default/publish as guest (11)"): _crash(
        "headers are no object"
    ),
    ("messages", "POST /exchanges/h/amq.default/publish as guest (17)"): Deviation(
        "the oracle's handler crashes at properties that are an empty list, which it gives itself",
        {"status": 200, "headers": JSON, "body": {"routed": True}},
    ),
    ("messages", "POST /exchanges/h/amq.default/publish as guest (19)"): _crash(
        "routing_key should be a text"
    ),
}
"""By talk and request; a request that comes again in its talk has its number behind it."""
