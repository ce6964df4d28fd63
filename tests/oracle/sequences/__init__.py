"""Random sequences of requests, played to RabbitMQ and to Warren.

A sequence is a list of steps, plain data (`steps.py`). `draw.py` draws some, `play.py` plays one
to a broker and writes down what came of each step, `shrink.py` makes one that differs smaller, and
`stored.py` keeps those whose answers were recorded.
"""
