"""The asyncio shell around a node: sockets, threads, clock, command line."""
