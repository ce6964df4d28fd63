"""The node among others: who is alive, who is a member of what, and what travels between members.

What lives here: the host of all groups' members, failure detection, joining, leaving and forgetting
nodes, placing and reconciling queues' members, snapshots on their way, and shortages of disks. What
may come in: `replication` and what is below it, the metadata, and the node's queues. What never
does: a client's protocol, a socket, a thread or a clock.
"""
