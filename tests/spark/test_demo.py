"""The demonstration's parts: orders from CSV, the report, and a proof that can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from demo.orders import Order, read_orders, revenue_by_country
from tests.spark.conftest import quick_environment
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.wire.amqp091.properties import decode_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = ROOT / "demo" / "orders.csv"
FIRST = ROOT / "demo" / "first_queries.py"
DEMO_SECONDS_MAX = patient(300)


def test_orders_are_the_lines_of_one_invoice(tmp_path: Path) -> None:
    table = tmp_path / "orders.csv"
    table.write_text(
        "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
        '1,A,"Cup, blue",2,2026-01-01 10:00:00,0.10,7,Malta\n'
        "2,B,Plate,1,2026-01-01 10:01:00,3.0,8,Chile\n"
        "1,B,Plate,3,2026-01-01 10:00:00,3.0,7,Malta\n"
        "C1,A,Cup,-1,2026-01-02 10:00:00,0.10,7,Malta\n"
    )
    orders = read_orders(table)
    assert [order.invoice for order in orders] == ["1", "2", "C1"]
    assert orders[0].revenue() == Decimal("9.20")
    assert revenue_by_country(orders) == {"Malta": Decimal("9.10"), "Chile": Decimal("3.0")}
    body = json.loads(orders[0].body())
    assert body["lines"][0] == {
        "stock": "A", "description": "Cup, blue", "quantity": 2, "price": "0.10",
    }  # fmt: skip
    properties = orders[0].properties()
    decoded = decode_properties(properties, 0, len(properties))
    assert (decoded.message_id, decoded.delivery_mode) == ("1", 2)


def test_the_sample_has_a_return_and_a_name_that_is_not_ascii() -> None:
    orders = read_orders(SAMPLE)
    assert min(order.revenue() for order in orders) < 0
    assert any(not order.country.isascii() for order in orders)


@pytest.mark.spark
def test_the_report_adds_up_and_the_proof_finds_what_is_planted(spark: SparkSession) -> None:
    from demo.report import lost_and_doubled, order_lines
    from demo.report import revenue_by_country as report

    orders = read_orders(SAMPLE)

    def archived(kept: list[Order]) -> list[tuple[str, bytearray]]:
        return [(order.invoice, bytearray(order.body())) for order in kept]

    columns = "message_id string, value binary"
    ids = spark.createDataFrame([(order.invoice,) for order in orders], "message_id string")
    whole = spark.createDataFrame(archived(orders), columns)
    revenue = {row.country: Decimal(row.revenue) for row in report(order_lines(whole)).collect()}
    assert revenue == revenue_by_country(orders)
    assert lost_and_doubled(whole, ids).collect() == []

    stranger = Order("X", "1", "Nowhere", "2026-01-01 00:00:00")
    damaged = archived([*orders[1:], orders[3], stranger])
    wrong = lost_and_doubled(spark.createDataFrame(damaged, columns), ids).collect()
    assert {(row.message_id, row.published, row.archived) for row in wrong} == {
        (orders[0].invoice, 1, 0),
        (orders[3].invoice, 1, 2),
        ("X", 0, 1),
    }


@pytest.mark.early
@pytest.mark.spark
def test_the_demonstration_runs(broker: Broker) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo.run", "--uri", broker.url, "--orders", str(SAMPLE)],
        cwd=ROOT,
        env={**os.environ, **quick_environment()},
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    assert "25 confirmed, 25 archived" in done.stdout
    assert "0 lost, 0 doubled" in done.stdout
    assert "BAD" not in done.stdout


def test_the_guide_shows_the_file_that_runs() -> None:
    shown = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    assert f"```python\n{FIRST.read_text(encoding='utf-8')}```" in shown


@pytest.mark.early
@pytest.mark.spark
def test_the_first_queries_print_what_the_guide_says(broker: Broker) -> None:
    done = subprocess.run(
        [sys.executable, str(FIRST)],
        env={**os.environ, **quick_environment(), "WARREN_URI": broker.url},
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    shown = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    assert f"```\n{done.stdout}```" in shown
