"""One node, synchronous: hosts queues, runs effects, raises alarms."""
