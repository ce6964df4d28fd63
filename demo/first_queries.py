"""Writes a table into a queue, looks at it, and takes it out: needs a running broker."""

import os
import sys
import tempfile

from pyspark.sql import SparkSession

from warren.client import connect

URI = os.environ.get("WARREN_URI", "amqp://guest:guest@localhost:5672/%2F")
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

with connect(URI) as connection:
    quorum = {"x-queue-type": "quorum"}
    connection.channel().queue_declare("vegetables", durable=True, arguments=quorum)

orders = spark.createDataFrame([("carrots", 3), ("leeks", 5), ("beets", 2)], ["what", "count"])
rows = orders.coalesce(1).selectExpr("to_json(struct(*)) AS value", "what AS message_id")
rows.write.format("warren").option("amqp.uri", URI).option("topic", "vegetables").save(
    mode="append"
)

queue = spark.read.format("warren").option("amqp.uri", URI).option("subscribe", "vegetables")
queue.load().selectExpr("offset", "message_id", "CAST(value AS string)").show(truncate=False)

with tempfile.TemporaryDirectory() as folder:
    drained = spark.readStream.format("warren").option("amqp.uri", URI)
    drained = drained.option("subscribe", "vegetables").option("groupId", "first")
    drained = drained.option("newCheckpoint", "true").load()  # the archive is new each time
    archive = drained.selectExpr("CAST(value AS string)").writeStream.format("parquet")
    archive = archive.option("checkpointLocation", f"{folder}/checkpoint")
    query = archive.trigger(availableNow=True).start(f"{folder}/archive")
    query.awaitTermination()
    print(
        "archived:", sorted(row.value for row in spark.read.parquet(f"{folder}/archive").collect())
    )

print("left in the queue:", queue.load().count())
