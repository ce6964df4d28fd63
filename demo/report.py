"""What Spark makes of the archive: pure functions from DataFrame to DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

#: The body of a message, as `demo.orders.Order` writes it.
ORDER = (
    "invoice string, customer string, country string, date timestamp, "
    "lines array<struct<stock: string, description: string, quantity: int, price: decimal(12, 4)>>"
)


def order_lines(archive: DataFrame) -> DataFrame:
    """One row for each line of each archived order."""
    order = F.from_json(F.col("value").cast("string"), ORDER)
    orders = archive.select(order.alias("order")).select("order.*")
    lines = orders.select("invoice", "country", "date", F.explode("lines").alias("line"))
    return lines.select("invoice", "country", "date", "line.*")


def revenue_by_country(lines: DataFrame) -> DataFrame:
    """Orders, lines and revenue of each country, the largest revenue first."""
    return (
        lines.groupBy("country")
        .agg(
            F.countDistinct("invoice").alias("orders"),
            F.count("*").alias("lines"),
            F.sum(F.col("quantity") * F.col("price")).alias("revenue"),
        )
        .orderBy(F.desc("revenue"), "country")
    )


def lost_and_doubled(archive: DataFrame, published: DataFrame) -> DataFrame:
    """Messages whose number of copies in the archive is not the number that was published.

    Args:
        archive: The archived messages.
        published: The column `message_id` of every confirmed message.
    """
    expected = published.groupBy("message_id").agg(F.count("*").alias("published"))
    found = archive.groupBy("message_id").agg(F.count("*").alias("archived"))
    both = expected.join(found, "message_id", "full_outer").na.fill(0)
    return both.where("published <> archived")
