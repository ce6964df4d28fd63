"""The cluster's tables as a machine over a log: vhosts, users, exchanges, queues, nodes, policies.

Commands come in by the log's order, and every node has the same tables after each. What clients and
operators ask for is checked here first, by functions that change nothing and refuse by raising.
No queue's messages, no connection and no clock come in.
"""
