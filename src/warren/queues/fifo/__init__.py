"""The FIFO machine under classic and quorum queues, and what it is made of.

Commands go in, in the order of the log; replies and deliveries come out. Nothing here knows a log,
a node or a client, and a message is its number.
"""
