"""This node among others: its session, its members of groups, and what is said between nodes."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.ids import life_of_session
from warren.limits import (
    TICK_GROUPS_MAX,
)
from warren.log.group import GroupLog
from warren.log.log import Log
from warren.metadata.machine import MetadataMachine
from warren.node.beginnings import Beginning
from warren.node.cluster.detector import Detector, DetectorOptions
from warren.node.cluster.disks import BEHIND, PING_BYTES, Disks
from warren.node.cluster.news import BrokenFeeds, MemberNews
from warren.node.cluster.parts import NodeParts
from warren.node.cluster.timed import TimedMembers
from warren.node.cluster.transfer import Transfers
from warren.node.early import EarlyFrame, EarlyFrames
from warren.node.loop import Loop
from warren.node.store import METADATA_GROUP
from warren.ports import PeerHello, Peers, Random
from warren.protocols.peer import refusal
from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.raft.state import Options
from warren.replication import frames, kinds
from warren.replication.host import MemberHost
from warren.replication.machine import Machine
from warren.replication.member import Member
from warren.replication.observing import Feeds
from warren.replication.proposals import Load, Proposals
from warren.replication.recovered import Recovered
from warren.replication.throttle import Throttle
from warren.sharded_dict import ShardedDict
from warren.versions import COUNTED_FAILURES

EARLY_MS: Final = 5_000
"""How long messages are kept for a group that is not here yet; all are sent again if need be, so
that those for which there is no room are dropped."""
RECENT_BYTES: Final = 67_108_864
"""Newest entries that groups keep in memory, all together, however many groups there are."""
RECENT_BYTES_MIN: Final = 65_536
PARTING_MS: Final = 5_000
"""How long the link to a node that was removed stays, so that the node hears of it."""


@final
class Cluster(MemberHost):
    """See the module's head.

    Attributes:
        name: This node's name.
        session: Index of the entry that announced this life of the node; 0 before it is applied.
        newest: Index of the entry that gave it sessions last, that one or a later one.
        wants_sessions: Whether few of those are left in some group.
        members: This node's members, by group.
        detector: Which other nodes are believed to be alive.
        disks: Whether the disks of this node and the others are behind.
    """

    def __init__(
        self,
        loop: Loop,
        random: Random,
        log: Log,
        metadata: MetadataMachine,
        peers: Peers,
        options: Options,
    ) -> None:
        self.name: str = loop.settings.node_name
        self._loop: Loop = loop
        self._random: Random = random
        self._log: Log = log
        self._metadata: MetadataMachine = metadata
        self._wired: NodeParts | None = None
        self._load: Load = Load(loop, loop.settings.log.waiting_bytes_max)
        self.feed_reads_max = loop.settings.feed_reads_max
        self.recent_bytes: int = loop.settings.recent_bytes_max
        self.session: i64 = 0
        self.newest: i64 = 0
        self._hellos: dict[str, PeerHello] = {}
        """Of the nodes that have a link to this one."""
        self.wants_sessions: bool = False
        self.members: ShardedDict[int, Member] = ShardedDict()
        self.peers: Peers = peers
        self.detector: Detector = Detector(DetectorOptions(), loop.monotonic_ms())
        self.transfers: Transfers = Transfers(loop, self)
        self.disks: Disks = Disks(loop, log, metadata, self)
        self._throttle: Throttle = Throttle(loop.monotonic_ms())
        self._options: Options = options
        self._dirty: list[Member] = []
        self._beginning: Beginning | None = None
        """What is left to do since the tables know this life."""
        self._applying: dict[int, Member] = {}
        """Members whose machine was given only some of what is committed."""
        self._news: MemberNews = MemberNews(loop, self)
        self._timed: TimedMembers = TimedMembers(loop)
        self._to_take_over: list[Member] = []
        """Members of which it is not known that they go on from where the last life ended."""
        self._held_up: dict[int, Member] = {}
        """Members that wait for a link to take what is queued."""
        self._early: EarlyFrames = EarlyFrames()
        """What came for groups that are not here yet."""
        self._spoken: dict[str, bool] = {}
        self._feeds: dict[str, Feeds] = {}
        """What members here feed other nodes, by node."""
        self._parting: dict[str, int] = {}
        """Nodes that the tables name no more, and when their links end."""

    def wire(self, parts: NodeParts) -> None:
        """Name the parts that hear of what happens; before anything is recovered."""
        self._wired = parts

    def _parts(self) -> NodeParts:
        parts = self._wired
        assert parts is not None, "the node wires its parts first"
        return parts

    # --- groups ---------------------------------------------------------------------------------

    def add(self, log: GroupLog, machine: Machine, recovered: Recovered) -> Member:
        """This node's member of a group."""
        seed = int.from_bytes(self._random.bytes(7), "little")
        member = Member(self, log, machine, recovered, self.newest, self._options, seed)
        self.members[int(log.id)] = member
        if recovered.lost or self._loop.settings.former_uid:
            # Where it is the only copy, others may have what it has not: they get its state.
            member.observing.doubted_term = recovered.hard_state.term
        if not self.session:
            self._to_take_over.append(member)
        self._share_memory()
        return member

    def _share_memory(self) -> None:
        """Grant each group its part of the memory for newest entries, in steps of two."""
        share = self._loop.settings.recent_bytes_max
        while share > RECENT_BYTES_MIN and share * len(self.members) > RECENT_BYTES:
            share //= 2
        if share != self.recent_bytes:
            self.recent_bytes = share
            for member in self.members.values():
                member.keep_recent()

    def start(self, member: Member) -> None:
        """Let a member take part, and have what came for it early."""
        self.acquaint(member)
        member.start()
        for entry in self._early.take(member.group_id):
            try:
                self._about_group(entry.node, entry.frame, entry.frame[0])
            except CorruptRecord as error:
                self.peers.refuse(entry.node, str(error))
        self._timed.watch(member)

    def _watched(self) -> list[str]:
        return [name for name in self._metadata.nodes if name != self.name]

    def remove(self, group_id: i64) -> None:
        """A group is deleted here."""
        member = self.members.pop(int(group_id))
        if member is not None:
            member.stop()
            self._timed.forget(group_id)
            self._share_memory()

    def leave(self, member: Member) -> None:
        """A group goes on without this node's member, whose machine goes on, too."""
        self.members.pop(int(member.group_id))
        member.leave()
        self._timed.forget(member.group_id)
        self._share_memory()

    def running(self) -> list[str]:
        """The nodes that are up, as far as this one knows, in the order of the metadata."""
        suspected = self.detector.suspected
        return [name for name in self._metadata.nodes if name == self.name or not suspected(name)]

    def leaders(self) -> dict[int, str]:
        """Who leads each group, where that is known."""
        found: dict[int, str] = {}
        for member in self.members.values():
            if member.raft.leader:
                found[int(member.group_id)] = member.raft.leader
        return found

    def session_begun(self, session: i64) -> None:
        """This life of the node is known to the cluster."""
        self.session = session
        self.newest = max(session, self.newest)
        self._parts().observers.session_begun()
        self.end_links_of_strangers()

    def begin_member(self, member: Member) -> None:
        """Give a member this life's session, if it was here before the node had that.

        One beside an observer gets it with what the observer's clients have submitted.
        """
        observed = self._parts().observers.is_observed(member.group_id)
        if member.session() == 0 and not observed:
            member.set_session(self.newest)

    def begin(self, beginning: Beginning) -> None:
        """Do what that calls for, in parts."""
        self._beginning = beginning
        beginning.go_on()
        self._loop.needs_turn = True
        self.work()

    def tables_anew(self) -> None:
        """The tables were taken over from another node."""
        if self._beginning is not None:
            self._beginning.tables_anew()

    def end_links_of_strangers(self) -> None:
        """End links that were taken before this node knew that they are not a member's.

        A node that came back without its disk would else be taken for the one that it was, and for
        running, and could not be forgotten; one that was forgotten would not be told.
        """
        for name, hello in list(self._hellos.items()):
            code = self._parts().membership.judge(hello)
            if code in (refusal.NAME_TAKEN, refusal.FORGOTTEN):
                self.peers.refuse(name, refusal.TEXTS[code])

    def sessions_given(self, newest: i64) -> None:
        """The tables gave this node further sessions; each group takes one when it needs it."""
        self.newest = newest
        self.wants_sessions = False

    def taken_over(self) -> bool:
        """Whether every group that is this node's alone goes on from where its last life ended.

        Those of which that was seen are not looked at again, so that asking costs little.
        """
        beginning = self._beginning
        if not self.session or (beginning is not None and not beginning.ready):
            return False
        waiting = self._to_take_over
        while waiting:
            member = waiting[-1]
            if not member.stopped and not member.client_sessions.taken_over(member):
                return False
            waiting.pop()
        return True

    def close_sessions(self) -> None:
        """A node began another life: what belonged to the one before is over."""
        self._news.add("", None)

    @property
    def has_work(self) -> bool:
        """Whether a member waits for `work`, or there is something to go on with."""
        return (
            len(self._dirty) > 0
            or self._news.has_any()
            or self._parts().observers.has_news()
            or len(self._applying) > 0
            or self._timed.has_more()
            or self._beginning is not None
        )

    def go_on(self) -> None:
        """Do the next part of what one turn does not all of; once in each turn."""
        self._news.turn_begun()
        beginning = self._beginning
        if beginning is not None:
            beginning.go_on()
            if beginning.over:
                self._beginning = None
        if self._timed.has_more():
            self._timed.tick_some(self.monotonic_ms())
        elif self._news.has_any():
            self._news.tell()
        self.tell_observers()
        if self._applying:
            applying = self._applying
            self._applying = {}
            for member in applying.values():
                member.apply_more()
                self._timed.watch(member)

    def work(self) -> None:
        """Let members do what is due."""
        while self._dirty:
            dirty = self._dirty
            self._dirty = []
            for member in dirty:
                member.work()
                self._timed.watch(member)

    def stirred(self, member: Member) -> None:
        """Something was asked of a member's Raft."""
        member.work()
        self._timed.watch(member)

    def tick(self) -> None:
        """Mind time; to be called every 50 ms or so."""
        now = self.monotonic_ms()
        self.disks.look()
        for peer, number in self.detector.tick(now):
            self.disks.ping(peer, number)
        self._heed()
        self.disks.hand_over()
        self._throttle.tick(now, self._log.written_bytes)
        parts = self._parts()
        parts.membership.tick()
        parts.copies.tick(now)
        parts.observers.tick(now)
        parts.reconciler.tick(now)
        parts.repairs.tick(now)
        parts.stranded.tick(now)
        parts.remotes.tick()
        parts.direct_replies.tick(now)
        self.transfers.tick(now)
        if self._held_up:
            held_up = self._held_up
            self._held_up = {}
            for member in held_up.values():
                member.go_on()
                self._timed.watch(member)
        self._timed.tick(now)
        self._early.drop("", now)
        if self._parting:
            self._part(now)

    def at_rest(self) -> bool:
        """Whether no member has a time to mind, or anything else to go on with."""
        return len(self._timed) == 0 and not (self._held_up or self._parting)

    def _heed(self) -> None:
        """Tell the members which nodes came and went."""
        for change in self.detector.take_changes():
            state = "up" if change.up else "down"
            self._loop.log_warning(f"node {change.peer} is {state}")
            if change.restarted or not change.up:
                self._parts().remotes.broken(change.peer)
                self._parts().observers.broken(change.peer)
                self.disks.gone(change.peer)
                self.transfers.sender_down(change.peer)
            self._news.add(change.peer, change)

    def tell_behind(self, peer: str, behind: bool) -> None:
        """A node's disk is behind, or keeps up again."""
        self._news.add(peer, None, BEHIND if behind else 0)

    def tell_observers(self) -> None:
        """Tell some of this node's observers of links that came or went."""
        if self._news.room > 0:
            self._news.room = self._parts().observers.tell(self._news.room)

    def hand_over(self) -> int:
        """Give the lead of some groups to other nodes; how many of those are led here still.

        To be called again and again until none is left, or it has taken too long.
        """
        now = self.monotonic_ms()
        left = 0
        room: i64 = TICK_GROUPS_MAX
        for member in self.members.values():
            raft = member.raft
            if raft.is_leader:
                others: list[str] = []
                for copy in raft.members:
                    if copy.voter and not self.detector.suspected(copy.node):
                        others.append(copy.node)
                prompt = [name for name in others if self.disks.fit(name)]
                if prompt:
                    others = prompt
                if others:
                    left += 1
                    if raft.can_propose():
                        raft.transfer(others[left % len(others)], now)
                        self.stirred(member)
                        room -= 1
                        if room == 0:
                            break
        return left

    # --- links ----------------------------------------------------------------------------------

    def watch_nodes(self) -> None:
        """The tables name other nodes than before: dial those, and mind whether they live."""
        nodes = self._metadata.nodes
        self._log.allow_brief_rounds(len(nodes) == 1 and self.name in nodes)
        for name, record in nodes.items():
            self.know(name, record.host, record.port)
            self._spoken[name] = True
        for name in list(self._spoken):
            if name not in nodes:
                del self._spoken[name]
                if name != self.name:
                    self._parts().remotes.broken(name)
                    self.disks.gone(name)
                    self._parting[name] = self.monotonic_ms() + PARTING_MS

    def _part(self, now: i64) -> None:
        """End the links to nodes that were removed a while ago."""
        for name, end_ms in list(self._parting.items()):
            if end_ms <= now:
                del self._parting[name]
                self.detector.remove(name)
                self.peers.forget(name)

    def know(self, name: str, host: str, port: int) -> None:
        """A node that the tables here do not name yet: have a link to it."""
        self._parting.pop(name, None)
        if name != self.name:
            self.peers.dial(name, host, port)
            self.detector.add(name, self.monotonic_ms())

    def judge(self, hello: PeerHello) -> int:
        """Whether a link with a node is wanted; 0 or the code of a refusal."""
        return self._parts().membership.judge(hello)

    def refused(self, peer_or_address: str, reason: str) -> None:
        """A link did not come about."""
        self._loop.log_warning(f"link with {peer_or_address}: {reason}")

    def linked(self, peer: str, hello: PeerHello) -> None:
        """The link to a node is up."""
        self.disks.ping(peer)
        self.detector.greeted(peer, hello, self.monotonic_ms())
        self._heed()
        self._parts().membership.linked(peer, hello)
        self._parts().observers.linked(peer)
        self._parts().remotes.linked(peer)
        self._parts().usage.linked(peer)
        self._offer_again(peer)

    def _offer_again(self, leader: str) -> None:
        """What was said to a leader, or by it, may be lost."""
        self._news.add(leader, None)

    def is_of_this_cluster(self, peer: str) -> bool:
        """Whether a node that has a link to this one says so, be it in the tables here or not."""
        hello = self._hellos.get(peer)
        own = self._metadata.cluster_id
        return hello is not None and own != b"" and hello.cluster_id == own

    def greeted(self, peer: str, hello: PeerHello) -> None:
        """A node has a link to this one."""
        self._hellos[peer] = hello
        self._parts().usage.cut_off(peer)
        self._parts().membership.met(peer, hello)
        self.transfers.greeted(peer)
        self._parts().remotes.greeted(peer)
        self.detector.greeted(peer, hello, self.monotonic_ms())
        self._heed()
        self._offer_again(peer)

    def cut_off(self, peer: str) -> None:
        """The link from a node is gone; what came over it and was kept is not to be acted on.

        A snapshot that was offered, above all: who offered it may never send it.
        """
        self._early.drop(peer, 0)
        self._hellos.pop(peer, None)
        self._parts().usage.cut_off(peer)
        self.broken(peer)

    def broken(self, peer: str) -> None:
        """A link to or from a node is gone."""
        self.transfers.broken(peer)
        feeds = self._feeds.pop(peer, None)
        if feeds is not None:
            # From here on it gets nothing more: the rest may be done in parts.
            feeds.over = True
            BrokenFeeds(self._loop, self, peer, feeds).begin_now(list(feeds.groups))
        self._parts().observers.broken(peer)
        self._parts().remotes.broken(peer)
        self._parts().direct_replies.broken(peer)
        self.detector.broken(peer, self.monotonic_ms())

    def gone(self, peer: str) -> None:
        """Take up that no process listens where a node should be."""
        self.detector.gone(peer)
        self._heed()

    def received(
        self, peer: str, message: bytes, body: bytes = b"", checksum: int = frames.UNKNOWN
    ) -> None:
        """A message came from a node; for the rest see `PeerListener.received_in_parts`."""
        self.detector.heard(peer, self.monotonic_ms())
        kind: i64 = message[0]
        try:
            if kind != kinds.RAFT:
                frames.check_seal(message, checksum)
                if kind < kinds.FIRST_OF_GROUP:
                    message = message[: -frames.SEAL_BYTES]
            if kind >= kinds.FIRST_OF_GROUP:
                frames.need(message, frames.HEAD_BYTES)
            if kind >= kinds.FIRST_OF_REPLIES:
                self._loop.needs_turn = True
                self._parts().direct_replies.received(peer, message)
            elif kind >= kinds.FIRST_OF_LINE:
                self._parts().remotes.received(peer, message)
            elif kind >= kinds.FIRST_OF_GROUP:
                self._about_group(peer, message, kind, body, checksum != frames.UNKNOWN)
            elif kind == kinds.PING:
                self.send(peer, [bytes([kinds.PONG]) + message[1:PING_BYTES]])
                self.disks.heard(peer, message)
            elif kind == kinds.PONG:
                pass
            elif kind == kinds.USED:
                self._parts().usage.heard(peer, message)
            elif kind >= kinds.TRANSFER and kind != kinds.DURABLE:
                self._parts().queue_members.received(peer, message)
            else:
                self._parts().membership.received(peer, message)
        except CorruptRecord as error:
            # What else comes this way may be damaged too, unnoticed: a new link starts over.
            self.peers.refuse(peer, str(error))
        self._heed()

    def _about_group(
        self, peer: str, message: bytes, kind: i64, body: bytes = b"", long: bool = False
    ) -> None:
        group_id = frames.group_of(message)
        member = self.members.get(int(group_id))
        if member is None and body:
            # There is hardly room for so much, and it is sent again.
            pass
        elif member is None:
            if self._parts().observers.received(peer, message, group_id, kind):
                return
            if self._early.has_room_for(message):
                until = self.monotonic_ms() + EARLY_MS
                self._early.keep(group_id, EarlyFrame(peer, message, until))
        elif kind == kinds.SNAPSHOT:
            self.transfers.received(peer, member, message, body, long)
        elif kind == kinds.EXPECT or kind >= kinds.UNOBSERVE:
            # A copy that is new here may have an observer beside it.
            if self._parts().observers.is_observed(group_id):
                self._parts().observers.received(peer, message, group_id, kind)
            if kind <= kinds.UNOBSERVE:
                member.received(peer, message)
                self._timed.watch(member)
        else:
            member.received(peer, message, body)
            self._timed.watch(member)

    # --- for members ----------------------------------------------------------------------------

    def load(self) -> Load:
        """What all groups keep until it is applied."""
        return self._load

    def wall_ms(self) -> int:
        """Wall time, which may be long after the last turn: a process may have stood still."""
        return self._loop.wall_ms()

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start."""
        return self._loop.monotonic_ms()

    def appended(self, urgent: bool) -> None:
        """Something was appended to the log."""
        self._loop.appended(urgent)
        self._loop.needs_turn = True

    def send(self, node: str, message: list[bytes]) -> bool:
        """Send to another node."""
        self._loop.needs_turn = True
        if message[0][0] != kinds.RAFT:
            frames.seal(message)
        return self.peers.send(node, message)

    def backlog_bytes(self, node: str) -> int:
        """What was sent to another node and has not left this one."""
        return self.peers.backlog_bytes(node)

    def go_on_later(self, member: Member) -> None:
        """Let a member try again with the next tick."""
        self._held_up[int(member.group_id)] = member

    def apply_later(self, member: Member) -> None:
        """Let a member's machine go on in the next turn."""
        self._applying[int(member.group_id)] = member
        self._loop.needs_turn = True

    def acquaint(self, member: Member) -> None:
        """Tell a member's Raft, which knows of no node yet, which are down, and slow."""
        for name in self._watched():
            if not self.detector.is_up(name):
                member.raft.peer_down(name, self.monotonic_ms())
        self.disks.acquaint(member.raft)

    def member_dirty(self, member: Member) -> None:
        """Have a member work before the turn ends."""
        self._dirty.append(member)
        self._loop.needs_turn = True

    def session_over(self, session: i64) -> bool:
        """Whether the node of a session is gone, or lives another life."""
        life = life_of_session(session)
        if life in (self.session, self.newest):
            return False
        for name, record in self._metadata.nodes.items():
            if life in (record.session, record.newest):
                return name != self.name and self.detector.suspected(name)
        return True

    def session_lost(self, session: i64) -> bool:
        """Whether a session is over since its node is not heard, whose clients may be at work."""
        if self._metadata.version < COUNTED_FAILURES:
            return False
        life = life_of_session(session)
        for record in self._metadata.nodes.values():
            if life in (record.session, record.newest):
                return True
        return False

    def session_past(self, session: i64) -> bool:
        """Whether the life of a session is over, by tables that are newer than its beginning."""
        life = life_of_session(session)
        if life > self._metadata.applied_index or life in (self.session, self.newest):
            return False
        for record in self._metadata.nodes.values():
            if life in (record.session, record.newest):
                return False
        return True

    def session_of_another(self, session: i64, node: str) -> bool:
        """Whether the tables give a session to some other node than this."""
        life = life_of_session(session)
        for name, record in self._metadata.nodes.items():
            if life in (record.session, record.newest):
                return name != node
        return False

    def session_closed(self, member: Member) -> i64:
        """This node goes on in a group with another session."""
        return self.next_session(member.proposals)

    def next_session(self, proposals: Proposals) -> i64:
        """What the tables gave this node last, for the session behind one that was closed."""
        if proposals.runs_out() and life_of_session(proposals.session) == self.newest:
            self.wants_sessions = True
        return self.newest

    def leadership(self, member: Member) -> None:
        """Who leads a group is known anew."""
        group_id = int(member.group_id)
        parts = self._parts()
        if member.raft.is_leader:
            # What the group decides is decided here from now on.
            parts.observers.arrived(member.group_id)
        parts.membership.unsettle(group_id)
        record = parts.queues.record_of(group_id)
        if record is not None and not parts.queues.is_elsewhere(record):
            parts.copies.replace(record)
        if group_id == METADATA_GROUP:
            parts.announcer.again()
            if not member.raft.leader:
                parts.removals.let_go()

    def members_changed(self, member: Member) -> None:
        """Another configuration of a group is in force."""
        self._parts().membership.unsettle(int(member.group_id))

    def send_snapshot(self, member: Member, effect: SendSnapshot) -> None:
        """A peer needs the newest snapshot."""
        self.transfers.send(member, effect)

    def accept_snapshot(self, member: Member, effect: AcceptSnapshot) -> None:
        """The leader offers one."""
        self.transfers.accept(member, effect)

    def sent_bytes(self, member: Member, peer: str) -> i64:
        """How much of the snapshot under way a peer was sent."""
        return self.transfers.sent_bytes(member.group_id, peer)

    def snapshot_given_up(self, member: Member) -> None:
        """The rest of a snapshot is of no use."""
        self.transfers.begun_anew(int(member.group_id))

    def feeds(self, node: str) -> Feeds:
        """Give what members here feed a node, until a link to or from it breaks."""
        feeds = self._feeds.get(node)
        if feeds is None:
            feeds = Feeds()
            self._feeds[node] = feeds
        return feeds

    def throttle(self) -> Throttle:
        """Who lets reads for peers begin."""
        return self._throttle

    def damaged(self, member: Member, error: BaseException) -> None:
        """What a peer needs cannot be read from the disk here: another member has to lead."""
        self._parts().repairs.member_damaged(member, error)

    def short_of_disk(self) -> bool:
        """Whether publishes are refused for lack of space."""
        return self._log.full

    def written_bytes(self) -> i64:
        """How much the log of this node wrote in this life."""
        return self._log.written_bytes

    def log_bytes(self) -> i64:
        """The size of this node's log."""
        return self._log.size_bytes

    def pinned_bytes_max(self) -> i64:
        """How much may be written while a peer that does not get on keeps entries from going."""
        return self._loop.settings.log.pinned_bytes_max
