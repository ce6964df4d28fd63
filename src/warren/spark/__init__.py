"""Queues as Spark tables: data source, sink, pipelines.

It is a client of a broker, in the processes of Spark, and reads what queues store as columns. What
lives in a node never comes in.
"""
