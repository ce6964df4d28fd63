"""The log under every queue: record batches, group commit, compaction, recovery.

Batches and entries of many groups come in, and are durable in the order in which they came when the
log says so. It knows groups and message numbers; what a message or a command says never matters
here, nor which protocol it came by.
"""
