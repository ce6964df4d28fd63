"""Queue types behind one interface, and the FIFO machine they share.

Messages, as records, and commands come in; deliveries and confirms go out. A machine sees commands
in the log's order and nothing else, so that all members of a queue come to the same state. Who may
use a queue, its routes, and what a client's protocol is like never come in.
"""
