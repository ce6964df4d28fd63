"""What one vhost does for its clients: names to routes to queues, authorised.

Every way in comes through here, whatever protocol it speaks: with requests (`requests`), a pending
request that takes the result (`pending`), and the facts of a message. What is decided here is who
may do what, what there is, and where a message goes. No protocol's methods, codes or frames come
in, and no sockets; the node does the work behind `host`.
"""
