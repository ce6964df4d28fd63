"""What clients did and were told, kept as Parquet, and what that says of the broker.

`events` is the form of a history and writes it, `serial` judges one event by event, `spark` judges
the largest ones, and `forge` makes histories with faults, for the two to find.
"""
