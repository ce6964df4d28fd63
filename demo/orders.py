"""Orders of a shop: read from CSV, made into messages, and counted without Spark.

A CSV line is one line of an order; an order is all lines with one `InvoiceNo`, and becomes one
message. Amounts are decimal strings throughout, so that sums can be compared exactly.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from warren.wire.amqp091.properties import Properties


@dataclass
class Order:
    """One order; a cancelled one has negative quantities."""

    invoice: str
    customer: str
    country: str
    date: str
    lines: list[dict[str, str | int]] = field(default_factory=list)

    def body(self) -> bytes:
        """The order as JSON."""
        return json.dumps(self.__dict__, ensure_ascii=False).encode()

    def properties(self) -> bytes:
        """The message's AMQP properties: persistent, and named after the order."""
        return Properties(
            content_type="application/json",
            delivery_mode=2,
            message_id=self.invoice,
            type_="order",
            headers={"lines": len(self.lines)},
        ).encode()

    def revenue(self) -> Decimal:
        """What the customer pays."""
        return sum(
            (int(line["quantity"]) * Decimal(line["price"]) for line in self.lines), Decimal(0)
        )


def read_orders(path: Path) -> list[Order]:
    """All orders in a CSV file, in the order of their first lines.

    Raises:
        KeyError, ValueError, ArithmeticError: The file has other columns or values.
    """
    orders: dict[str, Order] = {}
    with path.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            invoice = row["InvoiceNo"]
            if invoice not in orders:
                orders[invoice] = Order(
                    invoice, row["CustomerID"], row["Country"], row["InvoiceDate"]
                )
            orders[invoice].lines.append(
                {
                    "stock": row["StockCode"],
                    "description": row["Description"],
                    "quantity": int(row["Quantity"]),
                    "price": str(Decimal(row["UnitPrice"])),
                }
            )
    return list(orders.values())


def revenue_by_country(orders: Iterable[Order]) -> dict[str, Decimal]:
    """What the report has to come to."""
    total: dict[str, Decimal] = {}
    for order in orders:
        total[order.country] = total.get(order.country, Decimal(0)) + order.revenue()
    return total
