"""Policies right and wrong, and what RabbitMQ 4.3 says to each.

    python -m tests.admin.bad_policies HOST:PORT     store what a RabbitMQ 4.3 says

The RabbitMQ has its management listener 10,000 ports above, and user guest.
"""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FAILS = "it fails"
"""Said of what ends a process of RabbitMQ, so that its client gets no reason."""

STORED = Path(__file__).with_name("policies-rabbitmq-4.3.json")

KEYS = (
    "alternate-exchange",
    "consumer-disconnected-timeout",
    "consumer-timeout",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-type",
    "delivery-limit",
    "expires",
    "federation-upstream",
    "ha-mode",
    "initial-cluster-size",
    "max-age",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "max-priority",
    "message-ttl",
    "overflow",
    "queue-leader-locator",
    "queue-master-locator",
    "queue-mode",
    "queue-version",
    "single-active-consumer",
    "stream-filter-size-bytes",
    "stream-max-segment-size-bytes",
    "target-group-size",
    "x-max-length",
)
"""Those there are, some that older versions had, and some that are arguments only."""

VALUES: tuple[Any, ...] = (
    None, True, False, -2, -1, 0, 1, 2, 3, 15, 16, 255, 256, 4294967296, 315360000001, 3000000001,
    0.5, 1.0, -1.5, "", "5", "x", "\u20ac", 'a"b\\c', "drop-head", "DROP-HEAD", "reject-publish",
    "reject-publish-dlx", "at-most-once", "at-least-once", "all", "failed", "returned", "disabled",
    "default", "lazy", "client-local", "balanced", "random", "least-leaders", "min-masters", "1D",
    "7Y", "1h", "D1", "1d", [], [1], ["a", 2, None], {}, {"a": 1},
)  # fmt: skip
"""One of each type of JSON, borders of numbers, and every word that a key knows."""

DEFINITIONS: dict[str, Any] = {
    "nothing": {},
    "unknown": {"a": 1},
    "two unknown": {"b": [1.5, None], "a": {"c": True}},
    "unknown beside known": {"max-length": 1, "a": 1},
    "wrong beside unknown": {"max-length": -1, "a": 1},
    "two wrong": {"message-ttl": -1, "expires": 0},
    "two wrong, the other way": {"expires": "a", "message-ttl": "b", "overflow": "c"},
    "retries without a time": {"delayed-retry-type": "all"},
    "retries without the shortest": {"delayed-retry-type": "failed", "delayed-retry-max": 5},
    "retries shorter than the shortest": {
        "delayed-retry-type": "returned", "delayed-retry-min": 2, "delayed-retry-max": 1,
    },
    "retries of no type, shorter": {"delayed-retry-min": 9, "delayed-retry-max": 8},
    "retries disabled": {"delayed-retry-type": "disabled"},
    "retries whole": {
        "delayed-retry-type": "all", "delayed-retry-min": 7, "delayed-retry-max": 7,
    },
    "retries wrong and too short": {
        "delayed-retry-type": "some", "delayed-retry-min": 9, "delayed-retry-max": 8,
    },
    "at least once, drops the first": {
        "dead-letter-strategy": "at-least-once", "overflow": "drop-head",
    },
    "a key without an exchange": {"dead-letter-routing-key": "k"},
    "limits of streams and queues": {"max-age": "1D", "max-length": 5},
    "of quorum and classic queues": {"delivery-limit": 5, "queue-mode": "lazy"},
    "an old name beside a wrong one": {"expires": 0, "queue-master-locator": "random"},
    "an old name beside an unknown one": {"x": 0, "queue-master-locator": "random"},
    "an old name beside a known one": {"queue-master-locator": "random", "max-length": 1},
    "a list": [],
    "a number": 5,
    "a text": "max-length",
}  # fmt: skip

APPLY_TO = (
    "queues",
    "exchanges",
    "all",
    "classic_queues",
    "quorum_queues",
    "streams",
    "topics",
    "",
)
PATTERNS = (".*", "", "(", "[a", "*", "a{2,1}", "(?<n>a)", "\\", "^\u20ac$", "(?i)a")


class Policy(NamedTuple):
    """One to be set.

    Attributes:
        case: Names it among the answers.
    """

    case: str
    operator: bool
    definition: Any
    pattern: str = "^nothing$"
    apply_to: str = "all"


def cases() -> Iterator[Policy]:
    """All of them."""
    for operator in (False, True):
        kind = "operator policy" if operator else "policy"
        for key in KEYS:
            for value in VALUES:
                yield Policy(f"{kind}: {key} {json.dumps(value)}", operator, {key: value})
        for name, definition in DEFINITIONS.items():
            yield Policy(f"{kind}: {name}", operator, definition)
        fine = {"max-length": 5}
        for apply_to in APPLY_TO:
            case = f"{kind}: for {apply_to!r}"
            yield Policy(case, operator, fine, apply_to=apply_to)
        for pattern in PATTERNS:
            yield Policy(f"{kind}: pattern {pattern!r}", operator, fine, pattern)


class RabbitPolicies:
    """Asks a RabbitMQ over HTTP."""

    def __init__(self, host: str, port: int) -> None:
        self._where = f"http://{host}:{port}/api"

    def set(self, policy: Policy) -> str:
        """What it says to a policy; empty if it is taken."""
        kind = "operator-policies" if policy.operator else "policies"
        body = {
            "pattern": policy.pattern,
            "definition": policy.definition,
            "apply-to": policy.apply_to,
        }
        url = f"{self._where}/{kind}/%2F/p"
        request = urllib.request.Request(url, json.dumps(body).encode(), method="PUT")
        known = base64.b64encode(b"guest:guest").decode()
        request.add_header("Authorization", f"Basic {known}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30):
                return ""
        except urllib.error.HTTPError as error:
            if error.code != 400:
                return FAILS
            reason = json.load(error)["reason"]
            return str(reason).removeprefix("Validation failed\n\n").removesuffix("\n")


def main() -> None:
    """Store what a RabbitMQ says."""
    host, _, port = sys.argv[1].rpartition(":")
    rabbit = RabbitPolicies(host, int(port) + 10_000)
    said = {policy.case: rabbit.set(policy) for policy in cases()}
    STORED.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(said)} answers, {sum(1 for each in said.values() if each)} of them refusals")


if __name__ == "__main__":
    main()
