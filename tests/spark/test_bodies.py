"""What docs/spark.md says of bodies in JSON, Avro and Protobuf: its code runs as it stands."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

from tests.support.broker import Broker
from warren.client import PERSISTENT, Connection
from warren.spark.queue_rows import read_queue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "spark.md"
GOOD = b'{"id": "a", "country": "Malta", "total": 1.5, "more": [1]}'

#: What a module has that `protoc` makes of a message with a text `id` and a double `total`.
ORDERS_PB2 = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
message = file.message_type.add(name="Order")
message.field.add(name="id", number=1, type=9, label=1)
message.field.add(name="total", number=2, type=1, label=1)
descriptor_pool.Default().Add(file)
Order = message_factory.GetMessageClass(
    descriptor_pool.Default().FindMessageTypeByName("shop.Order")
)
"""


class Recipe:
    """The blocks of the guide's section, each run in the names that those before have made."""

    def __init__(self, spark: SparkSession, uri: str, queue: str, folder: Path) -> None:
        section = GUIDE.read_text(encoding="utf-8").split("\n## Bodies: ")[1].split("\n## ")[0]
        self.section = section
        self._blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        self.names: dict[str, Any] = {"__name__": "__main__", "spark": spark, "URI": uri}
        self._here = {'"orders"': json.dumps(queue), "orders.bad": f"{queue}.bad",
                      '"/data/': f'"{folder}/'}  # fmt: skip

    def run(self, *marks: str) -> None:
        """Run the one block that each of some texts is in."""
        for mark in marks:
            (block,) = (block for block in self._blocks if mark in block)
            for shown, here in self._here.items():
                block = block.replace(shown, here)
            exec(compile(block, str(GUIDE), "exec"), self.names)

    def orders(self) -> list[dict[str, Any] | None]:
        """What is in the column `order`, in the order of the queue."""
        rows = self.names["orders"].orderBy("offset").select("order").collect()
        return [row.order and row.order.asDict() for row in rows]


@pytest.fixture
def recipe(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> Iterator[Recipe]:
    channel = connection.channel()
    arguments = {"x-queue-type": "quorum"}
    channel.queue_declare(f"{queue}.bad", durable=True, arguments=arguments)
    yield Recipe(spark, broker.url, queue, tmp_path)
    channel.queue_delete(f"{queue}.bad")


def put(connection: Connection, queue: str, *bodies: bytes) -> None:
    assert connection.channel().publish_many("", queue, list(bodies), PERSISTENT) == []


def order(id: str | None = None, total: float | None = None, wrong: str | None = None) -> Any:
    return {"id": id, "country": None, "total": total, "wrong": wrong}


def test_json_that_is_wrong_shows_as_the_guide_says(
    recipe: Recipe, connection: Connection, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = {
        b'{"id": "a", "total": 1.5, "more": [1]}': order("a", 1.5),
        b'{"id": "a", "total": "x"}': order("a", wrong='{"id": "a", "total": "x"}'),
        b"{bad": order(wrong="{bad"),
        b"5": order(wrong="5"),
        b"null": order(wrong="null"),
        b'[{"id": "z"}]': order(wrong='[{"id": "z"}]'),
        b"\xff\xfe": order(wrong="\ufffd\ufffd"),
        b"{}": order(),
        b"": None,
        b" ": None,
        b'{"id": "a"} and more': order("a"),
        b'{"id": "\xff"}': order("\ufffd"),
    }
    put(connection, queue, *cases)
    recipe.run("def with_orders")
    assert recipe.orders() == list(cases.values())
    assert "{bad" in capsys.readouterr().out, "the guide's code shows it"
    bad = recipe.names["orders"].where(f"NOT ({recipe.names['IS_ORDER']})").orderBy("offset")
    assert [row.offset for row in bad.collect()] == [1, 2, 3, 4, 5, 6, 8, 9]


def test_failfast_fails_the_query(recipe: Recipe, connection: Connection, queue: str) -> None:
    put(connection, queue, b"", GOOD)
    recipe.run("def with_orders")
    recipe.names["SAID"]["mode"] = "FAILFAST"
    load, with_orders = recipe.names["queue"].load, recipe.names["with_orders"]
    assert with_orders(load()).selectExpr("count(order.id)").first()[0] == 1
    put(connection, queue, b"{bad")
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        with_orders(load()).select("order").collect()


def test_a_drain_sorts_out_what_is_wrong(
    recipe: Recipe, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    put(connection, queue, GOOD, b"{bad", GOOD, b"")
    recipe.run("def with_orders", "def sort_out")
    (file,) = (tmp_path / "orders").glob("*.parquet")
    table = pyarrow.parquet.read_table(file)
    assert table["value"].to_pylist() == [GOOD, GOOD]
    assert [row["total"] for row in table["order"].to_pylist()] == [1.5, 1.5]
    left = read_queue(f"{queue}.bad", broker.url).read_all()
    assert left["value"].to_pylist() == [b"{bad", b""]
    assert read_queue(queue, broker.url).read_all().num_rows == 0


@pytest.mark.parametrize("function", ["from_avro", "from_protobuf"])
def test_functions_of_jars_are_called_as_spark_has_them(
    recipe: Recipe, tmp_path: Path, function: str
) -> None:
    """Their jars are not there: what Spark finds wrong is that, and nothing before."""
    (tmp_path / "orders.desc").write_bytes(b"")
    recipe.run("def with_orders")
    with pytest.raises(Exception, match=r"(AVRO|PROTOBUF)_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"):
        recipe.run(f"import {function}\n")
    assert "AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE" in recipe.section


def test_avro_in_python(recipe: Recipe, connection: Connection, queue: str) -> None:
    import fastavro

    recipe.run("def with_orders")
    fields = [{"name": "id", "type": "string"}, {"name": "total", "type": "double"}]
    schema = fastavro.parse_schema({"type": "record", "name": "Order", "fields": fields})
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, {"id": "é", "total": 1.5})
    good = body.getvalue()
    put(connection, queue, good, good[:-1], good + b"x", b"", b"\xff" * 20)
    recipe.run("import fastavro")
    assert recipe.orders() == [{"id": "é", "total": 1.5}, None, None, None, None]


def test_protobuf_in_python(
    recipe: Recipe, spark: SparkSession, connection: Connection, queue: str, tmp_path: Path
) -> None:
    module = tmp_path / "orders_pb2.py"
    module.write_text(ORDERS_PB2)
    spark.sparkContext.addPyFile(str(module))
    recipe.run("def with_orders")
    import orders_pb2

    good = orders_pb2.Order(id="é", total=1.5).SerializeToString()
    put(connection, queue, good, good[:-1], b"", b"{bad")
    recipe.run("orders_pb2 import")
    assert recipe.orders() == [{"id": "é", "total": 1.5}, None, {"id": "", "total": 0.0}, None]
    del sys.modules["orders_pb2"]
