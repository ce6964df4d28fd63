"""Snapshots on their way between members: the live messages, then the state.

The sender offers (a message of Raft). What follows are SNAPSHOT frames: behind kind and group an
octet, the snapshot's index (i64), and

    READY   go on with the next part (receiver to sender)
    LIVE    whole message batches
    DONE    term i64, stamp i64, u32 CRC-32 of all before and behind it, the payload: a snapshot as
            `replication/wrapping.py` draws it
    LOST    nothing more will come: the sender has given up its own log, the transfer, or its office

One part is out at a time, and parts are paced, so a transfer takes little memory and yields to
everything else. What is not answered within `ANSWER_MS` is given up, and the leader offers anew: a
node that does not have the group yet, for one, keeps an offer for a while only. A receiver that
hears nothing more, or that its sender is down, gives up by itself and begins with nothing.

When a link breaks, all transfers with that node are none any more at once, so that nothing that
comes later is taken for a part of them. What follows for their members is done in parts, and not
where another transfer has begun in the place of one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from warren.checksum import crc32
from warren.errors import Compacted, CorruptRecord
from warren.limits import TICK_GROUPS_MAX, TURN_TRANSFERS_MAX
from warren.log.batch import write_checksum
from warren.log.listener import RawReader
from warren.log.runlist import LiveRuns, RunList
from warren.node.loop import Loop
from warren.node.sweep import Sweep
from warren.ports import Work
from warren.raft import wire
from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.raft.messages import SnapshotOffer
from warren.replication import frames
from warren.replication.feeding import BYTES_PER_MS
from warren.replication.kinds import SNAPSHOT
from warren.replication.member import Member
from warren.replication.throttle import READ_BYTES
from warren.replication.wrapping import Unwrapping

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

READY: Final = 1
LIVE: Final = 2
DONE: Final = 3
LOST: Final = 4

ANSWER_MS: Final = 5_000
"""A receiver that owes a READY for so long has never got what it was sent."""
QUIET_MS: Final = 30_000
"""A receiver that got no further part for so long gives up; a sender's turn comes sooner."""
HEAD_BYTES: Final = frames.HEAD_BYTES + 9
DONE_BYTES: Final = HEAD_BYTES + 20


def snapshot_frame(group_id: i64, what: i64, index: i64) -> BytesWriter:
    """The beginning of a SNAPSHOT frame."""
    writer = frames.head(SNAPSHOT, group_id)
    writer.append(u8(what))
    write_i64_le(writer, index)
    return writer


@final
class OutgoingSnapshot:
    """One snapshot for one peer.

    Attributes:
        asked_ms: When the peer was sent what it has to answer; -1 while a part is being read.
        sent_bytes: Of the live messages, so far.
        next_message: The first of them that was not sent.
        runs: Which they are; None before the peer has answered and that was found out.
    """

    def __init__(self, member: Member, offer: SnapshotOffer, now_ms: i64) -> None:
        self.member = member
        self.offer = offer
        self.payload = member.snapshots.payload
        self.runs: RunList | None = None
        self.asked_ms: i64 = now_ms
        self.sent_bytes: i64 = 0
        self.next_message: i64 = 0


@final
class Incoming:
    """One snapshot that this node takes over; `heard_ms` is when something of it came last."""

    def __init__(self, member: Member, offer: SnapshotOffer, now_ms: i64) -> None:
        self.member = member
        self.offer = offer
        self.heard_ms: i64 = now_ms


@final
class LiveSearch(Work):
    """What lives in a snapshot is found out, for which the peer waits."""

    def __init__(self, transfers: Transfers, outgoing: OutgoingSnapshot) -> None:
        self._transfers = transfers
        self._outgoing = outgoing
        payload = outgoing.payload
        self._unwrapping: Unwrapping = Unwrapping(payload, 0, len(payload), False)
        self._live: LiveRuns | None = None

    def go_on(self) -> bool:
        """Do the next part; whether it was the last.

        It is done to its end, wanted or not: to let go of all that was found takes long, too.
        """
        outgoing = self._outgoing
        live = self._live
        if live is None:
            if not self._unwrapping.go_on():
                return False
            live = outgoing.member.machine.live_in(self._unwrapping.parts.state)
            self._live = live
        if not live.go_on():
            return False
        outgoing.runs = live.runs
        if self._transfers.is_under_way(outgoing):
            self._transfers.send_part(outgoing)
        return True


@final
class PartReader(RawReader):
    """A part of the live messages is read from disk."""

    def __init__(self, transfers: Transfers, outgoing: OutgoingSnapshot) -> None:
        self._transfers = transfers
        self._outgoing = outgoing

    def go(self) -> None:
        """Have the log read the part."""
        outgoing = self._outgoing
        log = outgoing.member.log
        assert outgoing.runs is not None, "they were found out before"
        log.read_live(outgoing.runs, outgoing.next_message, READ_BYTES, self)

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        """Send the part that was read."""
        self._outgoing.member.host.throttle().done(len(data))
        self._transfers.part_read(self._outgoing, data, next_message, error)


@final
class BrokenSendings(Sweep[OutgoingSnapshot]):
    """Gives up, in parts, what was under way to a node when a link to it broke."""

    def __init__(self, loop: Loop, transfers: Transfers) -> None:
        super().__init__(loop, TURN_TRANSFERS_MAX)
        self._transfers = transfers

    def see_to(self, thing: OutgoingSnapshot) -> None:
        """Have a leader send its snapshot anew."""
        self._transfers.sending_lost(thing)


@final
class BrokenInstalls(Sweep[Incoming]):
    """Gives up, in parts, what a node was about to send when the link to it broke."""

    def __init__(self, loop: Loop, transfers: Transfers) -> None:
        super().__init__(loop, TURN_TRANSFERS_MAX)
        self._transfers = transfers

    def see_to(self, thing: Incoming) -> None:
        """Have a member wait for no more of a snapshot."""
        self._transfers.install_lost(thing)


@final
class Transfers:
    """All transfers of one node."""

    def __init__(self, loop: Loop, cluster: Cluster) -> None:
        self._loop = loop
        self._cluster = cluster
        self._outgoing: dict[str, dict[int, OutgoingSnapshot]] = {}
        """What this node sends, by receiver and group."""
        self._incoming: dict[str, dict[int, Incoming]] = {}
        """What this node takes over, by sender and group; of each group it is one at most."""
        self._to_answer: deque[OutgoingSnapshot] = deque()
        """What is sent, in the order in which ticks look whether an answer is overdue."""
        self._to_hear: deque[Incoming] = deque()
        """What is taken over, in the order in which ticks look whether something came of it."""
        self._put_off: list[int] = []
        """Groups whose next part is not asked for while this node's disk is behind."""

    def _outgoing_of(self, group_id: int, peer: str) -> OutgoingSnapshot | None:
        """What a peer is sent of a group; None if that is nothing."""
        sent = self._outgoing.get(peer)
        return None if sent is None else sent.get(group_id)

    def _incoming_of(self, group_id: int) -> Incoming | None:
        """What is taken over of a group; None if that is nothing."""
        for awaited in self._incoming.values():
            found = awaited.get(group_id)
            if found is not None:
                return found
        return None

    # --- sending --------------------------------------------------------------------------------

    def send(self, member: Member, effect: SendSnapshot) -> None:
        """Offer a peer the newest snapshot."""
        offer = effect.offer
        outgoing = OutgoingSnapshot(member, offer, self._cluster.monotonic_ms())
        # One before it that is being read is found to be none any more.
        self._outgoing.setdefault(offer.target, {})[int(member.group_id)] = outgoing
        self._to_answer.append(outgoing)
        frame = frames.raft_frame(member.group_id, wire.encode(offer))
        if not self._cluster.send(offer.target, [frame]):
            self._end(int(member.group_id), offer.target, False)

    def _ready(self, peer: str, member: Member, index: i64) -> None:
        outgoing = self._outgoing_of(int(member.group_id), peer)
        if outgoing is None or outgoing.offer.index != index:
            # The peer has taken up an offer that is no more, and waits.
            self._say_lost(int(member.group_id), peer, index)
            return
        if outgoing.asked_ms < 0:
            # An answer to an earlier offer of the same; the part that is being read answers both.
            return
        if outgoing.runs is not None:
            self.send_part(outgoing)
            return
        outgoing.asked_ms = -1
        search = LiveSearch(self, outgoing)
        if not search.go_on():
            self._loop.do_in_parts(search)

    def send_part(self, outgoing: OutgoingSnapshot) -> None:
        """Have the next live messages read that a peer waits for; behind them goes the state."""
        assert outgoing.runs is not None, "they were found out before"
        if outgoing.runs.reaches(outgoing.next_message):
            outgoing.asked_ms = -1
            self._cluster.throttle().want(PartReader(self, outgoing).go)
            return
        member = outgoing.member
        peer = outgoing.offer.target
        writer = snapshot_frame(member.group_id, DONE, outgoing.offer.index)
        write_i64_le(writer, outgoing.offer.snapshot_term)
        write_i64_le(writer, member.stamp_ms())
        write_checksum(writer, crc32(outgoing.payload, crc32(writer.getvalue())))
        self._cluster.send(peer, [writer.getvalue(), outgoing.payload])
        extra_ms = len(outgoing.payload) // BYTES_PER_MS
        member.raft.takes_long(peer, extra_ms, self._cluster.monotonic_ms())
        self._end(int(member.group_id), peer, True)

    def part_read(
        self,
        outgoing: OutgoingSnapshot,
        data: bytes,
        next_message: int,
        error: BaseException | None,
    ) -> None:
        """A part is there; go on behind it next time."""
        offer = outgoing.offer
        if not self.is_under_way(outgoing):
            return
        if error is not None:
            if not isinstance(error, Compacted):
                # Another member has to lead and to send: the receiver is free to hear from it.
                self._say_lost(int(outgoing.member.group_id), offer.target, offer.index)
                self._cluster.damaged(outgoing.member, error)
            self._end(int(outgoing.member.group_id), offer.target, False)
            return
        outgoing.next_message = next_message
        outgoing.sent_bytes += len(data)
        outgoing.asked_ms = self._cluster.monotonic_ms()
        writer = snapshot_frame(outgoing.member.group_id, LIVE, offer.index)
        self._cluster.send(offer.target, [writer.getvalue(), data])

    def is_under_way(self, outgoing: OutgoingSnapshot) -> bool:
        """Whether a transfer has not ended, and no other one took its place."""
        group_id = int(outgoing.member.group_id)
        return self._outgoing_of(group_id, outgoing.offer.target) is outgoing

    def _end(self, group_id: int, peer: str, done: bool) -> None:
        sent = self._outgoing.get(peer)
        outgoing = None if sent is None else sent.pop(group_id, None)
        if outgoing is not None:
            self._ended(outgoing, done)

    def _ended(self, outgoing: OutgoingSnapshot, done: bool) -> None:
        """Tell a member, and its peer, that a transfer is over."""
        member, offer = outgoing.member, outgoing.offer
        if not done:
            self._say_lost(int(member.group_id), offer.target, offer.index)
        member.raft.snapshot_sent(offer, done, self._cluster.monotonic_ms())
        self._cluster.member_dirty(member)

    def _say_lost(self, group_id: int, peer: str, index: i64) -> None:
        frame = snapshot_frame(group_id, LOST, index)
        self._cluster.send(peer, [frame.getvalue()])

    def tick(self, now_ms: i64) -> None:
        """Time has passed: give up what no answer came to. Each tick looks at some."""
        room: i64 = TURN_TRANSFERS_MAX
        for _ in range(min(len(self._to_answer), TICK_GROUPS_MAX)):
            if room == 0:
                break
            outgoing = self._to_answer.popleft()
            if not self.is_under_way(outgoing):
                continue
            if 0 <= outgoing.asked_ms <= now_ms - ANSWER_MS:
                room -= 1
                self._end(int(outgoing.member.group_id), outgoing.offer.target, False)
            else:
                self._to_answer.append(outgoing)
        for _ in range(min(len(self._to_hear), TICK_GROUPS_MAX)):
            if room == 0:
                break
            incoming = self._to_hear.popleft()
            group_id = int(incoming.member.group_id)
            if self._incoming_of(group_id) is not incoming:
                continue
            if incoming.heard_ms <= now_ms - QUIET_MS:
                room -= 1
                self._give_up(group_id)
            else:
                self._to_hear.append(incoming)

    def broken(self, peer: str) -> None:
        """The link is gone, and with it what was under way to a peer."""
        self._lose_sendings(peer)
        self.sender_down(peer)

    def _lose_sendings(self, peer: str) -> None:
        sent = self._outgoing.pop(peer, None)
        if sent:
            BrokenSendings(self._loop, self).begin_now(list(sent.values()))

    def sending_lost(self, outgoing: OutgoingSnapshot) -> None:
        """A transfer to a peer was cut off: end it, unless another one is in its place."""
        group_id = int(outgoing.member.group_id)
        if self._outgoing_of(group_id, outgoing.offer.target) is None:
            self._ended(outgoing, False)

    def sender_down(self, peer: str) -> None:
        """The rest of what a peer was about to send will not come, or another leader sends it."""
        awaited = self._incoming.pop(peer, None)
        if awaited:
            BrokenInstalls(self._loop, self).begin_now(list(awaited.values()))

    def install_lost(self, incoming: Incoming) -> None:
        """A transfer from a peer was cut off: its member waits no more, if it does still.

        It does not if another transfer is in its place, or another member.
        """
        member = incoming.member
        group_id = int(member.group_id)
        if self._incoming_of(group_id) is None and self._cluster.members.get(group_id) is member:
            member.snapshots.give_up_install(member)

    def _forget_incoming(self, group_id: int) -> None:
        for awaited in self._incoming.values():
            awaited.pop(group_id, None)

    def _give_up(self, group_id: int) -> None:
        """Wait for no more of a snapshot."""
        self._forget_incoming(group_id)
        member = self._cluster.members.get(group_id)
        if member is not None:
            member.snapshots.give_up_install(member)

    def go_on(self) -> None:
        """This node's disk keeps up again: ask for what was put off, if it is still to be had."""
        put_off = self._put_off
        self._put_off = []
        for group_id in put_off:
            incoming = self._incoming_of(group_id)
            if incoming is not None:
                incoming.heard_ms = self._cluster.monotonic_ms()
                self._answer(group_id, incoming.offer)

    def sent_bytes(self, group_id: i64, peer: str) -> i64:
        """How much of the snapshot under way a peer was sent; 0 if none is."""
        outgoing = self._outgoing_of(int(group_id), peer)
        return 0 if outgoing is None else outgoing.sent_bytes

    def greeted(self, peer: str) -> None:
        """A link from a peer is new: what it had answered before may be lost, so offer again."""
        self._lose_sendings(peer)

    # --- receiving ------------------------------------------------------------------------------

    def accept(self, member: Member, effect: AcceptSnapshot) -> None:
        """The leader offers a snapshot; take it over."""
        offer = effect.offer
        # A leader that cannot hear the answer offers again once there is a link to it.
        if self._answer(member.group_id, offer):
            group_id = int(member.group_id)
            self._withdraw(group_id)
            self._forget_incoming(group_id)
            incoming = Incoming(member, offer, self._cluster.monotonic_ms())
            self._incoming.setdefault(offer.sender, {})[group_id] = incoming
            self._to_hear.append(incoming)
            member.snapshots.prepare_install(member, offer)

    def _withdraw(self, group_id: int) -> None:
        """The log is about to be given up: what of it was not sent yet cannot be any more."""
        for peer in list(self._outgoing):
            self._end(group_id, peer, False)

    def begun_anew(self, group_id: int) -> None:
        """A copy here was dropped: what was sent of it ends, and what was sent to it is not for
        the one that comes in its place.
        """
        self._withdraw(group_id)
        self._forget_incoming(group_id)

    def _answer(self, group_id: i64, offer: SnapshotOffer) -> bool:
        writer = snapshot_frame(group_id, READY, offer.index)
        return self._cluster.send(offer.sender, [writer.getvalue()])

    def received(
        self, peer: str, member: Member, frame: bytes, body: bytes = b"", sealed: bool = False
    ) -> None:
        """A SNAPSHOT frame came, with its checksum at its end.

        Args:
            body: What would be in the frame before that: what is long comes by itself, and stays
                where it is.
            sealed: Whether the checksum was looked at as the frame came, which is long then.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        frames.need(frame, HEAD_BYTES)
        what: i64 = frame[frames.HEAD_BYTES]
        index = read_i64_le(frame, frames.HEAD_BYTES + 1)
        if what == READY:
            self._ready(peer, member, index)
            return
        if not LIVE <= what <= LOST:
            raise CorruptRecord("a frame of a node", 0, f"a part of a snapshot of kind {what}")
        incoming = self._incoming_of(int(member.group_id))
        if incoming is None or incoming.offer.index != index or incoming.offer.sender != peer:
            return
        offer = incoming.offer
        if what == LIVE:
            incoming.heard_ms = self._cluster.monotonic_ms()
            if body and frames.end_of(frame) == HEAD_BYTES:
                self._store_live(member, body, 0, len(body))
            else:
                whole = _whole(frame, body)
                self._store_live(member, whole, HEAD_BYTES, frames.end_of(whole))
            self._cluster.appended(True)
            if self._cluster.disk_behind:
                self._put_off.append(int(member.group_id))
            else:
                self._answer(member.group_id, offer)
        elif what == LOST:
            self._give_up(int(member.group_id))
        else:
            unwrapping = _unwrapping(frame, body, sealed, offer)
            self._forget_incoming(int(member.group_id))
            member.snapshots.take_over(
                member,
                index,
                read_i64_le(frame, HEAD_BYTES),
                read_i64_le(frame, HEAD_BYTES + 8),
                unwrapping,
            )
            self._cluster.appended(True)

    def _store_live(self, member: Member, data: bytes, at: i64, end: i64) -> None:
        """Have the log keep live messages that came, whole batches.

        Raises:
            CorruptRecord: They are none.
        """
        while at < end:
            at += member.log.store_live(data, at).size()


def _whole(frame: bytes, body: bytes) -> bytes:
    """A frame with its body in its place: who sent it has cut it somewhere else."""
    return frame[: -frames.SEAL_BYTES] + body + frame[-frames.SEAL_BYTES :] if body else frame


def _unwrapping(frame: bytes, body: bytes, sealed: bool, offer: SnapshotOffer) -> Unwrapping:
    """What takes the payload of a DONE apart, whose checksum is looked at if it was not before.

    Raises:
        CorruptRecord: It is not what was sent, or offered.
    """
    if body and frames.end_of(frame) != DONE_BYTES:
        frame = _whole(frame, body)
        body = b""
    frames.need(frame, DONE_BYTES)
    end = frames.end_of(frame)
    if not sealed:
        # Nothing is long that did not come in parts.
        view = memoryview(frame)
        checksum = crc32(view[DONE_BYTES:end], crc32(view[: DONE_BYTES - 4]))
        if checksum != i64(read_i32_le(frame, DONE_BYTES - 4)) & 0xFFFF_FFFF:
            raise CorruptRecord("a frame of a node", 0, "a snapshot has another checksum")
    if read_i64_le(frame, HEAD_BYTES) != offer.snapshot_term:
        raise CorruptRecord("a frame of a node", 0, "a snapshot of another term than offered")
    if body:
        return Unwrapping(body, 0, len(body), True)
    return Unwrapping(frame, DONE_BYTES, end, True)
