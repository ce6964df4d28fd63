"""Entries on their way to a leader's peers: from memory, and else from disk.

What is read from disk is paced, and at most one read is under way for each peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import Compacted
from warren.log.batch import Batch
from warren.log.listener import BatchReader
from warren.raft import wire
from warren.replication import frames
from warren.replication.throttle import READ_BYTES

if TYPE_CHECKING:
    from warren.replication.member import Member

APPEND_BYTES: Final = 1_048_576
"""An append to a peer takes no further entry when it has this size."""
BACKLOG_BYTES: Final = 33_554_432
"""With more than this queued for a node, no further entries go there: memory is bounded by this and
one entry, however many appends Raft would have out."""
BYTES_PER_MS: Final = 32_768
"""What is large is granted time to arrive as if a link brought no more: a quarter of 1 Gbit/s."""


@final
class Feeding:
    """What one member sends to its peers while it leads.

    Methods are handed the member: nothing here refers to it.
    """

    def __init__(self) -> None:
        self._reading: list[str] | None = None
        """Peers for whom entries are being read."""
        self._held_up: list[str] | None = None
        """Peers that are fed again in a moment: what is queued for them is to be sent first, or a
        read for them has failed."""
        self._read: dict[str, list[Batch]] | None = None
        """What was read for a peer and is to be sent next."""

    def begin(self) -> None:
        """This member leads from now on: what was read for a term before may not be its log."""
        self._read = None
        self._held_up = None

    def feed(self, member: Member, node: str) -> None:
        """Send a peer what it misses, as far as that is in memory; else fetch it."""
        raft = member.raft
        while self._reading is None or node not in self._reading:
            if member.host.backlog_bytes(node) > BACKLOG_BYTES:
                if self._held_up is None:
                    self._held_up = [node]
                elif node not in self._held_up:
                    self._held_up.append(node)
                member.host.go_on_later(member)
                return
            message = raft.next_append(node)
            if message is None:
                return
            parts: list[bytes] = [b""]
            size: i64 = 0
            index = message.prev_index + 1
            fetched = self._read.pop(node, None) if self._read is not None else None
            at = 0
            while index <= message.last_index and size < APPEND_BYTES:
                batch = member.log.recent(index)
                if batch is None and fetched is not None:
                    while at < len(fetched) and fetched[at].index < index:
                        at += 1
                    # What was read may have been truncated since: terms say whether it is the same.
                    if (
                        at < len(fetched)
                        and fetched[at].index == index
                        and fetched[at].term == member.log.term_at(index)
                    ):
                        batch = fetched[at]
                if batch is None:
                    break
                parts.extend(batch.parts())
                size += batch.size()
                index += 1
            if index <= message.last_index:
                last = message.last_index
                raft.shorten(message, index - 1)
                if index == message.prev_index + 1:
                    if self._reading is None:
                        self._reading = []
                    self._reading.append(node)
                    member.host.throttle().want(Fetch(member, self, node, index, last).go)
            parts[0] = frames.raft_frame(member.group_id, wire.encode(message))
            member.host.send(node, parts)
            if size > 2 * APPEND_BYTES:
                raft.takes_long(node, size // BYTES_PER_MS, member.host.monotonic_ms())

    def go_on(self, member: Member) -> None:
        """Feed peers again that were left for a moment."""
        held_up = self._held_up
        if held_up is None:
            return
        self._held_up = None
        for node in held_up:
            self.feed(member, node)

    def fetched(
        self, member: Member, node: str, batches: list[Batch], error: BaseException | None
    ) -> None:
        """Entries for a peer were read from disk."""
        assert self._reading is not None, "it was being read"
        self._reading.remove(node)
        if member.stopped:
            return
        if error is not None and not isinstance(error, Compacted):
            member.host.damaged(member, error)
            # Tried again in a moment, if this member leads still: Raft has offered these entries,
            # and waits until they are sent.
            if self._held_up is None:
                self._held_up = []
            self._held_up.append(node)
            member.host.go_on_later(member)
            return
        if batches:
            if self._read is None:
                self._read = {}
            self._read[node] = batches
        # What was compacted meanwhile is replaced by a snapshot.
        self.feed(member, node)
        member.mark()


@final
class Fetch(BatchReader):
    """Entries on their way from disk to a peer."""

    def __init__(
        self,
        member: Member,
        feeding: Feeding,
        node: str,
        first_index: i64,
        last_index: i64,
    ) -> None:
        self._member = member
        self._feeding = feeding
        self._node = node
        self._first: i64 = first_index
        self._last: i64 = last_index

    def go(self) -> None:
        """Have the log read the entries."""
        self._member.log.read_entries(self._first, self._last, READ_BYTES, self)

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """Hand them on."""
        size: i64 = 0
        for batch in batches:
            size += batch.size()
        self._member.host.throttle().done(size)
        self._feeding.fetched(self._member, self._node, batches, error)
