"""The scripts about the arguments of queues: each with every type of value, and declared again.

Source: ARG-01, PROP-07, PROP-08; the checks of RabbitMQ 4.3's `rabbit_amqqueue`.
"""

from __future__ import annotations

from typing import Any

from tests.clients.raw import (
    METHOD,
    RawClient,
    Typed,
    encode_method,
    encode_table,
    long_string,
)
from tests.oracle.registry import scenario
from tests.oracle.session import Session

ANY_VALUE: tuple[Any, ...] = (
    None, True, -1, 0, 1, Typed("b", 5), Typed("i", 2**32 - 1), Typed("l", 2**63 - 1),
    Typed("T", 1_700_000_000), 1.5, Typed("D", (0, 5)), "", "5", Typed("x", b"raw"), [1], {"a": 1},
)  # fmt: skip
"""One value of each type that a table can have, and the borders of the numbers."""

WORDS: dict[str, tuple[str, ...]] = {
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx", "DROP-HEAD"),
    "x-queue-mode": ("default", "lazy", "other"),
    "x-queue-leader-locator": ("client-local", "balanced", "random", "least-leaders", "nearest"),
    "x-queue-master-locator": ("client-local", "min-masters", "random", "nearest"),
    "x-dead-letter-exchange": ("amq.fanout", "o.none", "x" * 255),
    "x-dead-letter-routing-key": ("k", "k" * 255),
    "x-dead-letter-strategy": ("at-most-once", "at-least-once", "never"),
    "x-delayed-retry-type": ("disabled", "all", "failed", "returned", "other"),
    "x-queue-type": ("classic", "quorum", "Classic", "rabbit_quorum_queue"),
    "x-max-age": ("1Y", "7D", "5", "1h", "D7"),
}
"""By argument: the words it knows, and one that it does not."""

COUNTS: dict[str, tuple[int, ...]] = {
    "x-max-priority": (10, 255, 256, 1000),
    "x-queue-version": (2, 3),
    "x-expires": (4_294_967_295, 4_294_967_296, 315_360_000_000, 315_360_000_001),
    "x-message-ttl": (4_294_967_295, 4_294_967_296, 315_360_000_000, 315_360_000_001),
    "x-delivery-limit": (-2, 20),
    "x-quorum-initial-group-size": (3, 5, 99),
}
"""By argument: numbers that are a border to it."""

CLASSIC = {
    "x-expires": "",
    "x-message-ttl": "",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "",
    "x-max-length": "",
    "x-max-length-bytes": "",
    "x-max-priority": "",
    "x-overflow": "",
    "x-single-active-consumer": "",
    "x-queue-mode": "",
    "x-queue-version": "",
    "x-queue-leader-locator": "",
    "x-queue-type": "",
    "x-custom": "",
}
"""What classic queues have an argument for, and the rule that waits for it."""

QUORUM = {
    "x-expires": "",
    "x-message-ttl": "",
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "",
    "x-dead-letter-strategy": "",
    "x-max-length": "",
    "x-max-length-bytes": "",
    "x-max-in-memory-length": "",
    "x-max-in-memory-bytes": "",
    "x-overflow": "",
    "x-single-active-consumer": "",
    "x-quorum-initial-group-size": "",
    "x-quorum-target-group-size": "",
    "x-delivery-limit": "",
    "x-queue-leader-locator": "",
    "x-consumer-timeout": "",
    "x-consumer-disconnected-timeout": "",
    "x-delayed-retry-type": "",
    "x-delayed-retry-min": "",
    "x-delayed-retry-max": "",
    "x-max-priority": "",
    "x-queue-mode": "",
    "x-queue-version": "",
    "x-custom": "",
}
"""The same of quorum queues, some that they have not beside them."""


def values_of(argument: str) -> tuple[Any, ...]:
    """What an argument is tried with."""
    return (*ANY_VALUE, *WORDS.get(argument, ()), *COUNTS.get(argument, ()))


def _each_value(s: Session, argument: str, others: dict[str, Any]) -> None:
    """Declare a queue with each value; one that was made is deleted again, unrecorded."""
    client = s.open()
    for value in values_of(argument):
        s.given = repr(value) if not isinstance(value, Typed) else f"{value.tag} {value.value}"
        event = s.queue("o.q", {**others, argument: value})
        if event is not None and event.name == "queue.declare-ok":
            client.ask(1, "queue.delete", queue="o.q")


@scenario(cases=list(CLASSIC), lacking=CLASSIC)
def classic_argument(s: Session, argument: str) -> None:
    """An argument of a classic queue with every type of value."""
    _each_value(s, argument, {})


@scenario(cases=list(QUORUM), lacking=QUORUM)
def quorum_argument(s: Session, argument: str) -> None:
    """An argument of a quorum queue with every type of value."""
    _each_value(s, argument, {"x-queue-type": "quorum"})


@scenario(lacking="CQ-14")
def stream_declared(s: Session) -> None:
    """A queue of the third type."""
    s.open()
    s.queue("o.s", {"x-queue-type": "stream"})
    s.queue("o.s", {"x-queue-type": "stream"})
    s.queue("o.s", {"x-queue-type": "stream"}, durable=False)


@scenario(cases=["x-max-age", "x-stream-max-segment-size-bytes", "x-initial-cluster-size"])
def stream_argument_elsewhere(s: Session, argument: str) -> None:
    """What only streams have, of queues of other types."""
    s.open()
    for kind in ("classic", "quorum"):
        for value in ("1D", 1000, None):
            s.queue(f"o.{kind}", {"x-queue-type": kind, argument: value})


SAME: dict[str, tuple[Any, ...]] = {
    "x-expires": (60_000, Typed("l", 60_000), 60_001, "60000"),
    "x-message-ttl": (60_000, Typed("s", 60), 60_001, 60_000.0),
    "x-max-length": (10, Typed("b", 10), 11, True),
    "x-max-length-bytes": (1000, Typed("u", 1000), 1001, None),
    "x-overflow": ("drop-head", Typed("x", b"drop-head"), "reject-publish", None),
    "x-dead-letter-exchange": ("amq.fanout", Typed("x", b"amq.fanout"), "amq.topic", None),
    "x-dead-letter-routing-key": ("k", Typed("x", b"k"), "l", ""),
    "x-single-active-consumer": (True, False, None, 1),
    "x-max-priority": (10, Typed("b", 10), 5, None),
    "x-delivery-limit": (5, Typed("b", 5), 6, -1),
    "x-dead-letter-strategy": ("at-most-once", "at-least-once", None),
    "x-consumer-timeout": (60_000, Typed("l", 60_000), 60_001),
    "x-consumer-disconnected-timeout": (60_000, Typed("l", 60_000), 0),
    "x-delayed-retry-type": ("all", Typed("x", b"all"), "failed", 1),
    "x-delayed-retry-min": (500, Typed("l", 500), 501, "500"),
    "x-delayed-retry-max": (500, Typed("b", 5), 501, None),
    "x-quorum-initial-group-size": (1, Typed("b", 1), 3, None),
    "x-quorum-target-group-size": (1, Typed("b", 1), 3, None),
    "x-queue-leader-locator": ("client-local", "balanced", None),
    "x-queue-version": (2, Typed("b", 2), None),
    "x-custom": (1, 2, "one", None),
}
"""By argument: what a queue has, then what it is declared with again."""


def _declared_again(s: Session, argument: str, others: dict[str, Any]) -> None:
    s.open()
    first, *further = SAME[argument]
    had = {**others, argument: first}
    for value in further:
        s.queue("o.q", had)
        s.queue("o.q", {**others, argument: value})
    s.queue("o.q", others)
    s.queue("o.plain", others)
    s.queue("o.plain", had)


@scenario(cases=[name for name in SAME if name in CLASSIC], lacking=CLASSIC)
def classic_argument_again(s: Session, argument: str) -> None:
    """Declared again with the same argument, another, of another type, and without."""
    _declared_again(s, argument, {})


@scenario(
    cases=[name for name in SAME if name in QUORUM],
    lacking={**QUORUM, "x-max-priority": "", "x-overflow": ""},
)
def quorum_argument_again(s: Session, argument: str) -> None:
    """The same of a quorum queue."""
    _declared_again(s, argument, {"x-queue-type": "quorum"})


@scenario(cases=["classic", "quorum"])
def arguments_nobody_knows(s: Session, kind: str) -> None:
    """They are kept, ignored, and no part of what makes two declares the same."""
    s.open()
    known = {"x-queue-type": kind}
    s.queue("o.q", {**known, "x-my-own": 1, "anything": {"a": [1, None, {}]}, "": ""})
    s.queue("o.q", {**known, "x-my-own": 2})
    s.queue("o.q", known)


@scenario
def arguments_several_wrong(s: Session) -> None:
    """Which of several faults is told."""
    s.open()
    wrong = {"x-queue-leader-locator": "nearest", "x-queue-version": -1, "x-queue-type": "quorum"}
    s.queue("o.q", wrong)
    s.queue("o.q", {**wrong, "x-queue-type": "sideways"})
    s.queue("o.q", {"x-quorum-initial-group-size": 0, "x-queue-version": 5})
    s.queue("o.q", {"x-queue-type": "quorum", "x-queue-mode": 5, "x-max-priority": "no"})
    s.queue("o.q", {"x-queue-type": 5}, exclusive=True, auto_delete=True)
    s.queue("amq.q", {"x-queue-type": 5})


@scenario
def argument_given_twice(s: Session) -> None:
    """One key twice in a table: one of them counts."""
    client = s.open()
    pair = encode_table({"x-queue-version": 2})[4:] + encode_table({"x-queue-version": 7})[4:]
    for table in (pair, pair[len(pair) // 2 :] + pair[: len(pair) // 2]):
        payload = encode_method("queue.declare", {"queue": "o.q", "durable": True})
        payload = payload[:-4] + long_string(table)
        client.send_bytes(RawClient.frame(METHOD, 1, payload))
        s.queues.append("o.q")
        event = s.take(1)
        if event is not None and event.name == "channel.close":
            client.ask(1, "channel.open")
            s.closed.clear()
