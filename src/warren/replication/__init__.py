"""Replication: one member of a group, that is consensus, log and machine tied together.

What lives here: a node's member of one Raft group, its proposals and its leader's record of client
sessions, entries and snapshots on their way to peers, hard state and what a start recovers, and the
frames that members exchange. What may come in: `raft`, `log`, `wire` and what is below them. What
never does: what a group is about. A queue or the metadata store is a `Machine` here, and the node a
`MemberHost`.
"""
