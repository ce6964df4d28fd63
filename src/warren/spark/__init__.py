"""Queues as Spark tables: data source, sink, pipelines."""
