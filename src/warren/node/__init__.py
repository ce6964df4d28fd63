"""One node, synchronous: hosts queues and groups, takes turns, raises alarms, talks to its cluster.

Events come in from outside, and are worked off in the next turn. It implements the ports of the
rooms below (`vhost.host`, `queues.queue.Host`, `protocols.broker`). No socket, thread or file comes
in but through `warren.ports`, and no method or code of a client's protocol.
"""
