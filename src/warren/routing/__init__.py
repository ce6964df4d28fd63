"""Exchanges, bindings and the way from a routing key to queues."""
