"""Consensus for one group."""
