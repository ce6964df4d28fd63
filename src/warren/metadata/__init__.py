"""The cluster's tables as a machine over a log."""
