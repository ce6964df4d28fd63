"""Which errors of this program's own end a client's connection, and which the whole node.

An error that was raised in a connection's own code says nothing of what other clients use. One that
went through the log, a queue's machine or the tables may have left these half done: the node stops
then, and its log tells the next start what is true.
"""

from __future__ import annotations

from typing import Final

SHARED_ROOMS: Final = frozenset(("log", "metadata", "queues", "raft", "replication"))
"""Rooms below `warren` whose state all clients depend on."""


def went_through_shared(error: BaseException) -> bool:
    """Whether an error was raised in, or passed through, what all clients depend on.

    Its traceback says so, which begins where the error was caught.
    """
    trace = error.__traceback__
    while trace is not None:
        folders = trace.tb_frame.f_code.co_filename.split("/")[:-1]
        for at in range(len(folders) - 1):
            if folders[at] == "warren" and folders[at + 1] in SHARED_ROOMS:
                return True
        trace = trace.tb_next
    return False
