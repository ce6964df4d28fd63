"""Entries that a leader sent, checked before Raft hears of them.

Raft takes an append's word for the entries that came along, and every later one builds on it: if
one of them turned out to be damaged then, nothing that follows would fit any more.
"""

from __future__ import annotations

from typing import NoReturn

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.log.batch import Batch
from warren.log.group import GroupLog
from warren.raft import wire
from warren.raft.messages import Append
from warren.raft.raft import Raft
from warren.replication.raft_entries import RAFT_SESSION, closes_badly, is_members


def entries_of(raft: Raft, log: GroupLog, message: Append, frame: bytes, at: i64) -> list[Batch]:
    """The entries of an append that Raft is about to take, all of them good; none if it takes none.

    Args:
        frame, at: Where the append's batches are.

    Raises:
        CorruptRecord: One is damaged, out of place, or not what the message says.
    """
    first = raft.first_to_store(message)
    if first == 0:
        return []
    entries: list[Batch] = []
    index = message.prev_index
    number: i64 = -1
    configs: i64 = 0
    while index < message.last_index:
        index += 1
        batch = log.received_entry(frame, at)
        if batch.index != index or batch.term != message.term_of(index):
            _fail(at, f"entry {batch.index} of term {batch.term} comes as entry {index}")
        if number < 0 or index == first:
            # What this log knows counts, where it knows it.
            known = log.message_at(index)
            number = batch.first if known < 0 else known
        if batch.first != number:
            _fail(at, f"message {batch.first} comes where {number} belongs")
        number += batch.count
        if batch.session == RAFT_SESSION:
            configs += _check_own(message, batch, at)
        at += batch.size()
        if index >= first:
            entries.append(batch)
    if at != len(frame):
        _fail(at, "bytes behind the entries")
    if configs != len(message.configs):
        _fail(at, "members without their entry")
    return entries


def _check_own(message: Append, batch: Batch, at: i64) -> i64:
    """An entry of Raft's own; how many configurations it is."""
    body = batch.body()
    if is_members(batch):
        for config in message.configs:
            if config.index == batch.index and wire.encode_members(config.members) == body[1:]:
                return 1
        _fail(at, f"entry {batch.index} has other members than it is said to have")
    if closes_badly(body):
        _fail(at, f"entry {batch.index} is none of Raft's own")
    return 0


def _fail(at: i64, reason: str) -> NoReturn:
    raise CorruptRecord("entries of a leader", int(at), reason)
