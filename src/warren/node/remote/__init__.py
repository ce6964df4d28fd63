"""Queues of other nodes: a proxy here for each, the queue's side there, and the frames between.

What lives here: lines between nodes, over which a client of one node publishes to and consumes from
a classic queue of another. What may come in: queues as `queues.queue` describes them, and frames of
other nodes, which are checked like a client's. What never does: consensus, and a client's protocol.
"""
