"""The scripts about exchanges that give recent messages to what is bound to them.

The oracle has to have the plugin `rabbitmq_recent_history_exchange`.

Source: `rabbit_exchange_type_recent_history` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Any

from tests.clients.raw import Typed
from tests.oracle.registry import scenario
from tests.oracle.scenarios_spreading import where
from tests.oracle.session import Session

LENGTHS: dict[str, Any] = {
    "1": 1, "2": 2, "long": Typed("l", 3), "byte": Typed("b", 2), "short": Typed("s", 2),
    "unsigned": Typed("i", 2), "zero": 0, "minus": -1, "text": "2", "double": 2.0, "true": True,
    "void": None,
}  # fmt: skip


@scenario(cases=LENGTHS)
def recent_length(s: Session, length: Any) -> None:
    """How many messages a queue that is bound gets."""
    s.open()
    arguments = {"x-recent-history-length": length}
    declared = {"exchange": "o.x", "type": "x-recent-history"}
    s.call(1, "exchange.declare", **declared, arguments=arguments)
    s.call(1, "exchange.declare", **declared)
    s.call(1, "confirm.select")
    for number in range(5):
        s.publish(1, "o.x", f"k{number}", b"%d" % number)
    s.confirmed(1, 5)
    s.queue("o.q")
    s.call(1, "queue.bind", queue="o.q", exchange="o.x")
    s.until_settled("o.q")
    s.drain("o.q")


@scenario
def recent_default(s: Session) -> None:
    """Twenty where nothing is said; what is marked is not kept; a second queue gets them, too."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="x-recent-history")
    s.call(1, "confirm.select")
    for number in range(25):
        headers = {"x-recent-history-no-store": number % 5 == 0}
        s.publish(1, "o.x", "k", b"%d" % number, {"headers": headers})
    s.confirmed(1, 25)
    for queue in ("o.q1", "o.q2"):
        s.queue(queue)
        s.call(1, "queue.bind", queue=queue, exchange="o.x")
        s.until_settled(queue)
    where(s, "o.q1", "o.q2")
    s.call(1, "queue.bind", queue="o.q1", exchange="o.x")
    s.call(1, "queue.bind", queue="o.q1", exchange="o.x", routing_key="again")
    s.until_settled("o.q1")
    s.publish(1, "o.x", "k", b"new", {"message_id": "m", "delivery_mode": 2}, mandatory=True)
    s.confirmed(1, 1)
    where(s, "o.q1", "o.q2")


@scenario(cases=["fanout", "direct", "direct that takes none"])
def recent_to_exchange(s: Session, case: str) -> None:
    """An exchange that is bound gets them, and passes them on as it does."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type="x-recent-history")
    s.call(1, "exchange.declare", exchange="o.y", type=case.split(" ")[0])
    key = "none" if "none" in case else "k"
    s.call(1, "queue.bind", queue="o.q", exchange="o.y", routing_key=key)
    s.call(1, "confirm.select")
    for number in range(3):
        s.publish(1, "o.x", "k", b"%d" % number, mandatory=True)
        s.confirmed(1, 1)
    s.call(1, "exchange.bind", destination="o.y", source="o.x")
    s.until_settled("o.q")
    s.drain("o.q")
