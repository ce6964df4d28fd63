"""The demonstration behind `make demo`: orders through a queue into Spark."""
