"""Entries that belong to Raft itself, not to a machine: those of session -1.

An empty one is a leader's no-op, others begin with an octet:

    MEMBERS   the members from here on, as `raft.wire` writes them
    CLOSE     client sessions that are over, i64 each
    LOSE      the same of nodes that are not heard any more, whose clients may be at work still;
              from cluster version 4 on
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le

from warren.log.batch import Batch

RAFT_SESSION: Final = -1
MEMBERS: Final = 1
CLOSE: Final = 2
LOSE: Final = 3
CLOSED_MAX: Final = 1_024
"""Closed sessions that are remembered; by then nothing of older ones can still be under way."""
CLOSED_ENOUGH: Final = 32
"""So many are remembered of nodes that live other lives by now: what is on its way of an older life
ends with its links."""


def is_members(batch: Batch) -> bool:
    """Whether an entry of Raft's own changes the members."""
    return batch.payload_size > 0 and batch.payload[batch.payload_at] == MEMBERS


def closed_sessions(batch: Batch) -> list[int]:
    """The sessions that an entry of Raft's own closes."""
    if batch.payload_size == 0 or batch.payload[batch.payload_at] not in (CLOSE, LOSE):
        return []
    body = batch.body()
    return [int(read_i64_le(body, at)) for at in range(1, len(body), 8)]


def are_lost(batch: Batch) -> bool:
    """Whether sessions are over because their nodes are not heard any more."""
    return batch.payload_size > 0 and batch.payload[batch.payload_at] == LOSE


def closes_badly(body: bytes) -> bool:
    """Whether an entry that has no members is none that a leader appends."""
    return len(body) > 0 and (body[0] not in (CLOSE, LOSE) or len(body) % 8 != 1)


def note_session(sessions: dict[int, int], batch: Batch) -> None:
    """Keep the last number of each session; of those closed last its complement."""
    if batch.session > 0:
        sessions[batch.session] = batch.sequence
    elif batch.session == RAFT_SESSION:
        closed = closed_sessions(batch)
        for session in closed:
            # Behind those closed before.
            last = sessions.pop(session, 0)
            sessions[session] = ~last if last >= 0 else last
        if closed and len(sessions) > CLOSED_MAX:
            for session in closed_before(sessions, CLOSED_MAX):
                del sessions[session]


def closed_before(sessions: dict[int, int], newest: int) -> list[int]:
    """The closed sessions but for so many that were closed last, in the order of their closing."""
    return [session for session in sessions if sessions[session] < 0][:-newest]
