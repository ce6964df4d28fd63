"""The asyncio shell around a node: sockets, threads, clock, signals, command line.

The outside world comes in here, as the ports that the rooms below ask for. Rules of
queues, of the cluster and of clients' protocols are never decided here.
"""
