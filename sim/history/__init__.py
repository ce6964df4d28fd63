"""What clients did and were told, kept as Parquet, and what that says of the broker.

`events` is the form of a history and writes it, `recorder` does so for simulated nodes. `serial`
judges one event by event, `spark` the largest ones by the columns of `vector`, and `forge` makes
histories with faults, for the two to find.
"""
