"""Metrics with the names, types and labels of RabbitMQ's: what there is, and what it says now.

`families` has what there is, `gathering` reads it off the node, in slices, and `scrapes` puts it
together. How that is asked for is the business of `admin.metrics`.
"""
