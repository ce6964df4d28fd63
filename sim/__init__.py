"""The simulated world: the same node code, with faulty parts that a seed replays."""
