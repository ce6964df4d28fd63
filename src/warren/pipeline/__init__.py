"""Pipelines: queues to tables to a report, and dead letters that are found, mended and replayed.

A folder has all of a pipeline: `bronze`, what was in the queues; `silver`, the same typed and
deduplicated; `gold`, figures a minute; `replays`, what was sent again. Modules here say what a
table is made of, as functions from data frames to data frames, and have it made. What only drains
or publishes needs pyarrow; what computes needs Spark. No module knows the command line.
"""
