"""Metrics for Prometheus over HTTP, as RabbitMQ's plugin answers; imported when a node listens.

`application` has the paths, and `exposition` writes the text format. What is read off the node is
in `admin.service.metrics`.
"""
