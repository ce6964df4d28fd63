"""What a member does for nodes that observe its group: feeds them, and reads messages for them.

An observer gets what this member's machine has applied, leader or not: entries from memory, else
from disk, paced; or the machine's state where those are gone, or where it has nothing yet. The
newest entries are in memory, as for members; beyond that nothing is kept for an observer that is
slow, so it never keeps entries from going. Where it takes a while until there is something to give,
a feed without entries says now and then that this member has more, so that it is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i64_le
from mypy_extensions import i64

from warren.errors import Compacted, CorruptRecord
from warren.log.batch import Batch
from warren.log.listener import BatchReader, RawReader
from warren.replication import frames, kinds
from warren.replication import observing_frames as said
from warren.replication.feeding import BACKLOG_BYTES
from warren.replication.snapshots import Draft
from warren.replication.throttle import READ_BYTES

if TYPE_CHECKING:
    from warren.replication.member import Member

FEED_BYTES: Final = 262_144
"""A feed takes no further entry when it has this size."""
PREPARES_MS: Final = 200
"""So often an observer is told that what it misses is being prepared."""
FETCH_BYTES_MAX: Final = 1_048_576
"""An answer takes no further batch when it has this size, whatever was asked for."""


@final
class Feeds:
    """What one node is fed by members here, until a link between the two nodes breaks.

    Attributes:
        groups: Those that it observes.
        over: Whether a link has broken: nothing more is sent, or there might be a gap in it.
    """

    def __init__(self) -> None:
        self.groups: dict[int, None] = {}
        self.over = False


@final
class Watcher:
    """One node that observes the group.

    Attributes:
        observation: Its number.
        feeds: All that its node is fed.
        next_index: What it is to get next; 0 if it is to get the state.
        term: Of the entry before that, as the observer has it; -1 if it is this member's.
        told_term, told_leader: What it heard of the leader; a term of -1 if nothing yet.
        reading: Whether entries for it are being read.
        reads: How often that was done since it had all.
        read: What was read for it.
        draft: The state that it gets, while that is being written.
        has: The newest entry that it had when it asked; 0 for none.
        said_ms: When it was told last that what it misses is being prepared; -1 if it was not.
    """

    def __init__(self, observation: i64, feeds: Feeds, next_index: i64, term: i64) -> None:
        self.observation: i64 = observation
        self.feeds: Feeds = feeds
        self.next_index: i64 = next_index
        self.term: i64 = term
        self.told_term: i64 = -1
        self.told_leader = ""
        self.reading = False
        self.reads: i64 = 0
        self.read: list[Batch] = []
        self.draft: Draft | None = None
        self.draft_term: i64 = 0
        self.has: i64 = next_index - 1 if next_index > 0 else 0
        self.said_ms: i64 = -1


@final
class Observing:
    """The observers of one member's group.

    Methods are handed the member: nothing here refers to it.

    Attributes:
        watchers: By node.
        begun: Whether there ever was one: who is cut off for a moment comes back.
        doubted_term: Of entries up to this term an observer may have some that the group has lost,
            so that it gets the state; -1 for none.
    """

    def __init__(self) -> None:
        self.watchers: dict[str, Watcher] = {}
        self.begun = False
        self.doubted_term: i64 = -1

    def received(self, member: Member, node: str, frame: bytes) -> None:
        """A node asks for something.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        kind: i64 = frame[0]
        frames.need(frame, said.AT + 8)
        number = read_i64_le(frame, said.AT)
        if kind == kinds.OBSERVE:
            frames.need(frame, said.AT + 24)
            index = read_i64_le(frame, said.AT + 8)
            self._observe(member, node, number, index, read_i64_le(frame, said.AT + 16))
        elif kind == kinds.UNOBSERVE:
            watcher = self.watchers.get(node)
            if watcher is not None and watcher.observation == number:
                self.lost(member, node)
        else:
            frames.need(frame, said.AT + 32)
            first = read_i64_le(frame, said.AT + 8)
            last = read_i64_le(frame, said.AT + 16)
            max_bytes = read_i64_le(frame, said.AT + 24)
            self._fetch(member, node, number, first, last, min(max_bytes, i64(FETCH_BYTES_MAX)))

    # --- the feed -------------------------------------------------------------------------------

    def _observe(self, member: Member, node: str, observation: i64, index: i64, term: i64) -> None:
        if not member.is_complete():
            member.host.send(node, [said.unobserve_frame(member.group_id, observation)])
            return
        self._forget(member, node)
        feeds = member.host.feeds(node)
        feeds.groups[int(member.group_id)] = None
        watcher = Watcher(observation, feeds, index + 1 if index > 0 else 0, term)
        self.watchers[node] = watcher
        if not self.begun:
            self.begun = True
            member.keep_recent()
        self._feed(member, node, watcher)

    def _forget(self, member: Member, node: str) -> bool:
        """Feed a node no more; whether it was fed."""
        watcher = self.watchers.pop(node, None)
        if watcher is None:
            return False
        watcher.feeds.groups.pop(int(member.group_id), None)
        return True

    def lost(self, member: Member, node: str) -> None:
        """Feed a node no more: it needs nothing, or cannot be reached."""
        if self._forget(member, node):
            member.proceed()

    def broken(self, member: Member, node: str, feeds: Feeds) -> None:
        """Feed a node no more, unless it has asked anew since the link broke that these ended with.

        Args:
            member: Of this group.
            node: Who was fed.
            feeds: What it was fed until then.
        """
        watcher = self.watchers.get(node)
        if watcher is not None and watcher.feeds is feeds:
            self.lost(member, node)

    def end(self, member: Member) -> None:
        """This member has nothing more to give: its observers go on with others."""
        watchers = self.watchers
        self.watchers = {}
        for node, watcher in watchers.items():
            watcher.feeds.groups.pop(int(member.group_id), None)
            end = said.unobserve_frame(member.group_id, watcher.observation)
            member.host.send(node, [end])

    def feed(self, member: Member) -> None:
        """Send all observers what is new."""
        for node, watcher in list(self.watchers.items()):
            self._feed(member, node, watcher)

    def _feed(self, member: Member, node: str, watcher: Watcher) -> None:
        """Send one observer what it misses, as far as that is in memory; else fetch it."""
        while not watcher.reading and self.watchers.get(node) is watcher:
            if watcher.feeds.over:
                self.lost(member, node)
                return
            if member.host.backlog_bytes(node) > BACKLOG_BYTES:
                member.host.go_on_later(member)
                return
            if not self._go_together(member, watcher) and not self._state(member, node, watcher):
                return
            if not self._feed_some(member, node, watcher):
                return

    def _go_together(self, member: Member, watcher: Watcher) -> bool:
        """Whether what the observer has is the beginning of what this member has; or may be."""
        if watcher.draft is not None or watcher.next_index == 0:
            return False
        before = watcher.next_index - 1
        if 0 <= watcher.term <= self.doubted_term:
            return False
        if watcher.term >= 0 and before <= member.applied_index:
            if before < member.log.snapshot_index or member.log.term_at(before) != watcher.term:
                return False
            watcher.term = -1
        if before > member.log.last_index and member.raft.is_leader:
            # All that was ever committed is here: what the observer has was lost.
            return False
        return True

    def _feed_some(self, member: Member, node: str, watcher: Watcher) -> bool:
        """Send one feed, if there is news; whether more is to be sent at once."""
        applied = member.applied_index
        leader = member.raft.leader
        term = member.raft.term
        news = leader != watcher.told_leader or term != watcher.told_term
        if watcher.next_index > applied and not news:
            return False
        writer = said.feed_head(member.group_id, watcher.observation, applied, term, leader)
        head: i64 = len(writer)
        at = 0
        while watcher.next_index <= applied and len(writer) < FEED_BYTES:
            batch = member.log.recent(watcher.next_index)
            if batch is None:
                while at < len(watcher.read) and watcher.read[at].index < watcher.next_index:
                    at += 1
                if at < len(watcher.read) and watcher.read[at].index == watcher.next_index:
                    batch = watcher.read[at]
            if batch is None:
                break
            said.write_entry(writer, batch)
            watcher.next_index += 1
        watcher.read = watcher.read[at:] if at < len(watcher.read) else []
        if len(writer) > head or news:
            watcher.told_leader = leader
            watcher.told_term = term
            if not member.host.send(node, [writer.getvalue()]):
                self.lost(member, node)
                return False
        if watcher.next_index > applied:
            # What comes while it has all does not find it behind, even if it has to be read.
            watcher.reads = 0
            return False
        if member.log.recent(watcher.next_index) is None:
            return self._fetch_entries(member, node, watcher, applied)
        return True

    def _fetch_entries(self, member: Member, node: str, watcher: Watcher, applied: i64) -> bool:
        """Have entries read that an observer misses; whether it gets the state instead, now."""
        watcher.reads += 1
        if (
            watcher.next_index <= member.log.snapshot_index
            or watcher.reads > member.host.feed_reads_max
        ):
            watcher.next_index = 0
            return True
        watcher.reading = True
        if watcher.told_term < 0:
            self._say_prepares(member, node, watcher)
        reader = EntriesFetch(member, self, node, watcher, applied)
        member.host.throttle().want(reader.go)
        return False

    def fetched(
        self,
        member: Member,
        node: str,
        watcher: Watcher,
        batches: list[Batch],
        error: BaseException | None,
    ) -> None:
        """Entries for an observer were read from disk."""
        watcher.reading = False
        if member.stopped or self.watchers.get(node) is not watcher:
            return
        if error is not None and not isinstance(error, Compacted):
            member.host.damaged(member, error)
        if batches:
            watcher.read = batches
        else:
            watcher.next_index = 0
        self._feed(member, node, watcher)

    def _state(self, member: Member, node: str, watcher: Watcher) -> bool:
        """Send an observer the state of the machine, of which it takes some turns to be written.

        Returns:
            Whether it was sent.
        """
        draft = watcher.draft
        if draft is None:
            if member.is_ahead():
                # Fed again when the disk has what the machine has.
                self._say_prepares(member, node, watcher)
                member.halt()
                return False
            draft = Draft(member)
            watcher.draft = draft
            watcher.draft_term = max(member.log.term_at(draft.index), i64(0))
        if not draft.writing.go_on():
            self._say_prepares(member, node, watcher)
            member.host.apply_later(member)
            return False
        watcher.draft = None
        watcher.term = -1
        watcher.reads = 0
        watcher.next_index = draft.index + 1
        head = said.state_head(
            member.group_id, watcher.observation, draft.index, watcher.draft_term
        )
        if not member.host.send(node, [head, draft.writing.value]):
            self.lost(member, node)
            return False
        return True

    def _say_prepares(self, member: Member, node: str, watcher: Watcher) -> None:
        """Tell an observer that this member has more than it, which takes a while to be given."""
        now_ms = member.host.monotonic_ms()
        applied = member.applied_index
        if (
            watcher.has >= applied
            or 0 <= watcher.said_ms
            and now_ms - watcher.said_ms < PREPARES_MS
        ):
            return
        watcher.said_ms = now_ms
        leader, term = member.raft.leader, member.raft.term
        watcher.told_leader = leader
        watcher.told_term = term
        head = said.feed_head(member.group_id, watcher.observation, applied, term, leader)
        member.host.send(node, [head.getvalue()])

    # --- messages -------------------------------------------------------------------------------

    def _fetch(
        self, member: Member, node: str, number: i64, first: i64, last: i64, max_bytes: i64
    ) -> None:
        """A node wants some messages that are committed.

        What this member's machine does not have yet may be another message than that of the same
        number which comes to be committed.
        """
        if first < 0 or last < first or first >= member.next_message() or not member.is_complete():
            answer_none(member, node, number, first)
            return
        last = min(last, member.next_message() - 1)
        parts: list[bytes] = [b""]
        size: i64 = 0
        wanted = first
        while wanted <= last and size < max_bytes:
            batch = member.log.cached(wanted)
            if batch is None or (size > 0 and batch.first < wanted):
                # Of a batch whose messages have left but for some, one as it was and one as it is
                # now may both be in memory: each answer has one.
                break
            parts.extend(batch.parts())
            size += batch.size()
            wanted = batch.first + batch.count
        if size == 0:
            member.log.read_raw(first, last, max_bytes, BodiesFetch(member, node, number, first))
            return
        parts[0] = said.bodies_head(member.group_id, number, said.FOUND, wanted)
        member.host.send(node, parts)


def answer_none(member: Member, node: str, number: i64, first: i64) -> None:
    """Say that this member does not have what a node wants."""
    head = said.bodies_head(member.group_id, number, said.NOT_HERE, first)
    member.host.send(node, [head])


@final
class EntriesFetch(BatchReader):
    """Entries on their way from disk to an observer."""

    def __init__(
        self, member: Member, observing: Observing, node: str, watcher: Watcher, last_index: i64
    ) -> None:
        self._member = member
        self._observing = observing
        self._node = node
        self._watcher = watcher
        self._last: i64 = last_index

    def go(self) -> None:
        """Have the log read the entries."""
        self._member.log.read_entries(self._watcher.next_index, self._last, READ_BYTES, self)

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """Hand the entries on."""
        size: i64 = 0
        for batch in batches:
            size += batch.size()
        self._member.host.throttle().done(size)
        self._observing.fetched(self._member, self._node, self._watcher, batches, error)


@final
class BodiesFetch(RawReader):
    """Messages on their way from disk to a node that wants them."""

    def __init__(self, member: Member, node: str, number: i64, first: i64) -> None:
        self._member = member
        self._node = node
        self._number: i64 = number
        self._first: i64 = first

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        """Send the messages that were read, or say what is known of them."""
        member = self._member
        if member.stopped:
            return
        gone = member.machine.gone_up_to(self._first)
        if gone >= 0:
            # No index need know of a hole: those behind it are found without an error.
            head = said.bodies_head(member.group_id, self._number, said.GONE, gone + 1)
            member.host.send(self._node, [head])
            return
        if error is None or (data and not self._lacks_first(error)):
            # Where there is a hole, what is whole before and behind it.
            head = said.bodies_head(member.group_id, self._number, said.FOUND, next_message)
            member.host.send(self._node, [head, data])
            return
        if not isinstance(error, Compacted):
            member.host.damaged(member, error)
        answer_none(member, self._node, self._number, self._first)

    def _lacks_first(self, error: BaseException) -> bool:
        """Whether the first message is in a hole: all that waits for it would ask for it again."""
        return isinstance(error, CorruptRecord) and any(
            first <= self._first <= last for first, last in error.lost
        )
