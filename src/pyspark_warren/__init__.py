"""Makes `format("warren")` known to Spark: it looks for `DefaultSource` in modules `pyspark_*`."""

from warren.spark.source import WarrenDataSource as DefaultSource

__all__ = ["DefaultSource"]
