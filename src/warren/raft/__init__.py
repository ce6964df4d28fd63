"""Consensus for one group: messages and time in, messages and entries to write out.

It knows terms, indexes and members. What entries say, where they are stored and how messages travel
never comes in.
"""
