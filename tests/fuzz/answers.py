"""What a node may never answer, whatever it is sent."""

from __future__ import annotations

import re
import struct

from tests.clients.raw import BODY, FRAME_END, HEADER, HEARTBEAT, METHOD
from tests.fuzz.scripts import Script

INTERNAL_ERROR = 541
CLOSES = {(10, 50), (20, 40)}
ANSWER = b"HTTP/1.1 "
FAILED = re.compile(rb"HTTP/1\.1 500 ")


def wrong_in_frames(data: bytes) -> str:
    """What is wrong with the frames that a client was sent; empty for nothing.

    They may end anywhere, for the client may have gone.
    """
    if data[:4] == b"AMQP":
        return "" if len(data) <= 8 else "more came after the header of another protocol"
    at = 0
    while len(data) - at >= 7:
        kind, _, size = struct.unpack_from(">BHI", data, at)
        if kind not in (METHOD, HEADER, BODY, HEARTBEAT) or size > 1 << 20:
            return f"no frame at {at}: {data[at : at + 20].hex()}"
        stop = at + 8 + size
        if stop > len(data):
            return ""
        if data[stop - 1] != FRAME_END:
            return f"the frame at {at} does not end as it has to: {data[at:stop][:80].hex()}"
        if kind == METHOD and size >= 6:
            class_id, method_id, code = struct.unpack_from(">HHH", data, at + 7)
            if (class_id, method_id) in CLOSES and code == INTERNAL_ERROR:
                return f"closed for an internal error: {bytes(data[at + 13 : stop])!r}"
        at = stop
    return ""


def wrong_in_answers(script: Script, data: bytes) -> str:
    """What is wrong with what a client was answered; empty for nothing."""
    if script.port.startswith("amqp"):
        return wrong_in_frames(data)
    if data and data[: len(ANSWER)] not in (ANSWER, ANSWER[: len(data)]):
        return f"no answer of HTTP: {data[:200]!r}"
    failed = FAILED.search(data)
    return "" if failed is None else f"{bytes(data[failed.start() : failed.start() + 800])!r}"
