"""A shop with a pipeline: orders, some of them wrong, and a consumer that rejects those.

    python -m demo.shop open [--uri amqp://...] [--orders orders.csv]   queues, and orders in them
    python -m demo.shop work [--uri amqp://...]                         consume what there is
    python -m demo.shop close [--uri amqp://...]                        remove the queues

Queue `shop.orders` is the consumer's, `shop.copy` has a copy of each order for the pipeline, and
`shop.letters` gets what was rejected. `docs/pipeline.md` shows what the pipeline makes of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from demo.orders import Order, read_orders
from warren.client import Connection, connect
from warren.wire.amqp091.table import Value

ORDERS = Path(__file__).resolve().parent / "orders.csv"
URI = os.environ.get("WARREN_URI", "amqp://guest:guest@localhost:5672/%2F")

KINDS = ("", "words", "", "cut", "nobody")
"""How orders are made wrong, by turns; the first and the third of five are right."""


def spoiled(body: bytes, how: str) -> bytes:
    """An order that the consumer cannot read."""
    if how == "cut":
        return body[:-5]
    order = json.loads(body)
    if how == "words":
        order["lines"][0]["quantity"] = "six"
    elif how == "nobody":
        order["customer"] = None
    return json.dumps(order, ensure_ascii=False).encode()


def declare(connection: Connection) -> None:
    """Make the shop's exchanges and queues."""
    channel = connection.channel()
    quorum: dict[str, Value] = {"x-queue-type": "quorum"}
    channel.exchange_declare("shop", "topic", durable=True)
    channel.exchange_declare("shop.dead", "fanout", durable=True)
    for queue, arguments, exchange in (
        ("shop.orders", {**quorum, "x-dead-letter-exchange": "shop.dead"}, "shop"),
        ("shop.copy", quorum, "shop"),
        ("shop.letters", quorum, "shop.dead"),
    ):
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind(queue, exchange, "#")
    channel.close()


def publish(connection: Connection, orders: list[Order]) -> dict[str, str]:
    """Publish orders, the first one twice; returns how some were made wrong, by their invoice.

    Raises:
        SystemExit: The broker did not take all of them.
    """
    channel = connection.channel()
    channel.confirm_select()
    wrong: dict[str, str] = {}
    for number, order in enumerate(orders):
        how = KINDS[number % len(KINDS)]
        if how:
            wrong[order.invoice] = how
        body = spoiled(order.body(), how) if how else order.body()
        for _ in range(2 if number == 0 else 1):
            channel.publish("shop", "order.new", body, order.properties(), mandatory=True)
    if channel.wait_for_confirms() or channel.returned:
        raise SystemExit("the broker did not take all orders")
    channel.close()
    return wrong


def work(connection: Connection) -> tuple[list[str], int]:
    """Consume orders until there are none; returns which were processed, and how many rejected."""
    channel = connection.channel()
    processed: list[str] = []
    rejected = 0
    while (delivery := channel.get("shop.orders")) is not None:
        try:
            order = json.loads(bytes(delivery.body))
            if order["customer"] is None:
                raise ValueError("no customer")
            if not all(isinstance(line["quantity"], int) for line in order["lines"]):
                raise ValueError("a quantity that is no number")
        except ValueError:
            channel.reject(delivery.delivery_tag, requeue=False)
            rejected += 1
        else:
            channel.ack(delivery.delivery_tag)
            processed.append(order["invoice"])
    channel.close()
    return processed, rejected


def close(connection: Connection) -> None:
    """Remove what `declare` made."""
    channel = connection.channel()
    for queue in ("shop.orders", "shop.copy", "shop.letters"):
        channel.queue_delete(queue)
    for exchange in ("shop", "shop.dead"):
        channel.exchange_delete(exchange)
    channel.close()


def main(given: list[str] | None = None) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m demo.shop")
    parser.add_argument("command", choices=("open", "work", "close"))
    parser.add_argument("--uri", default=URI, help="a running broker")
    parser.add_argument("--orders", type=Path, default=ORDERS, help="CSV file as demo/orders.csv")
    said = parser.parse_args(given)
    with connect(said.uri) as connection:
        if said.command == "close":
            close(connection)
            return 0
        if said.command == "open":
            declare(connection)
            orders = read_orders(said.orders)
            wrong = publish(connection, orders)
            print(f"{len(orders):,} orders published, {len(wrong):,} of them wrong")
        processed, rejected = work(connection)
        print(f"{len(processed):,} orders processed, {rejected:,} rejected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
