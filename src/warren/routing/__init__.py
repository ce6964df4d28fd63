"""Exchanges, bindings and the way from a routing key to queues, by name.

Topology comes in as it changes, and keys and headers of messages as they are published. Queues
themselves, permissions and bodies never do.
"""
