"""The log under every queue: record batches, group commit, compaction, recovery."""
