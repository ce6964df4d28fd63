"""What a node's memory is for, as far as that can be told.

The system tells what is mapped of files, the C library what it keeps free, and the node what bodies
it holds. The rest is the objects of queues, connections and the like, which nothing tells apart.

Source: `GET /api/nodes/{node}/memory` of RabbitMQ 4.3.
"""

from __future__ import annotations

import ctypes
from typing import Final

from warren.admin.service.caller import MONITORING, Caller
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices

KIBIBYTE: Final = 1_024

NOT_APART: Final = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other"),
    *("queue_procs", "quorum_queue_procs", "quorum_queue_dlx_procs", "stream_queue_procs"),
    *("stream_queue_replica_reader_procs", "stream_queue_coordinator_procs", "plugins"),
    *("metadata_store", "metrics", "mgmt_db", "mnesia", "quorum_ets", "metadata_store_ets"),
    *("other_ets", "msg_index", "atom", "other_system", "reserved_unallocated"),
)
"""Parts that RabbitMQ has, and that are here among `other_proc`, or not at all."""


class MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library, in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def kept_free() -> int:
    """What the C library has of the system and does not use; 0 where it does not tell."""
    try:
        tell = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return 0
    tell.restype = MallocInfo
    return int(tell().fordblks)


def resident_parts() -> tuple[int, int]:
    """What this process has in memory, and what of that is mapped of files, in bytes."""
    found = {"VmRSS": 0, "RssFile": 0}
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) * KIBIBYTE
    return found["VmRSS"], found["RssFile"]


@operation(MONITORING)
async def memory_breakdown(service: AdminService, caller: Caller) -> dict[str, int]:
    """Show what the memory of this node is for, in bytes, by all categories that RabbitMQ has.

    Of those in `NOT_APART` nothing is known, and they are 0; `total` is all of it.
    """
    total, mapped = resident_parts()
    bodies = int(service.node.log.cached_bytes())
    slices = Slices()
    for here in list(service.node.queues.vhosts.values()):
        for queue in list(here.queues.values()):
            await slices.breathe()
            bodies += int(queue.own_body_bytes())
    unused = min(kept_free(), max(0, total - mapped - bodies))
    return {
        **dict.fromkeys(NOT_APART, 0),
        "total": total,
        "code": mapped,
        "binary": bodies,
        "allocated_unused": unused,
        "other_proc": max(0, total - mapped - bodies - unused),
    }
