"""Who belongs to the cluster, and how its groups follow.

The tables say which nodes there are and which members a quorum queue should have; the leader of
each group changes its configuration towards that, one member at a time (R-12). What nodes say
about it are MessagePack arrays behind a kind:

    JOIN      name, uid, host, port, incarnation of its member of the tables' group, and the uid
              that it gave up to begin anew or nothing. Its own uid there means that it has its
              place, but that the group counts another copy of it than this one.
    JOINED    cluster id, nodes as [name, host, port]; or a reason why not, as a string
    COMMAND   a command for the tables that belongs to no session
    DURABLE   16 bytes, the life of the node that speaks, and u64, the newest round of its log that
              is durable; both as they are
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from mypy_extensions import i64

from warren.errors import ClusterError, CorruptRecord
from warren.ids import LIFE_MAX, may_begin
from warren.limits import TICK_GROUPS_MAX
from warren.log.log import Log
from warren.metadata import commands, encoding
from warren.metadata.foreign_checks import foreign_command
from warren.metadata.machine import MetadataMachine
from warren.metadata.membership import node_with
from warren.metadata.node_checks import check_node_that_joins
from warren.node.freshness import Freshness
from warren.node.loop import Loop
from warren.node.placing import Placing
from warren.node.store import METADATA_GROUP, MetadataStore
from warren.pending import PendingResult, Result
from warren.ports import PeerHello
from warren.protocols.peer import refusal as codes
from warren.protocols.peer.hello import NO_CLUSTER
from warren.raft.members import Replica
from warren.replication.kinds import COMMAND, DURABLE, JOIN, JOINED
from warren.replication.member import Member

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

DURABLE_BYTES: Final = 25
DURABLE_EVERY_MS: Final = 100
"""How often a node says how far its log is durable, while that changes."""
JOIN_AGAIN_MS: Final = 1_000
JOIN_ASKS_MAX: Final = 5
"""Another contact is asked when one has not answered so often."""

NO_LIFE: Final = (
    f"the cluster's tables have had {LIFE_MAX} changes, which are the most: no node can take its "
    "own place again; begin a new cluster, with empty data directories"
)


@final
class Joining(PendingResult):
    """A node that waits to be in the tables."""

    def __init__(self, membership: Membership, peer: str, name: str, uid: bytes) -> None:
        self._membership: Membership = membership
        self._peer: str = peer
        self._name: str = name
        self._uid: bytes = uid

    def succeeded(self, result: Result) -> None:
        """It is, or another one has its name."""
        self._membership.added(self._peer, self._name, self._uid)


@final
class Membership:
    """Nodes that come and go, and the groups that have to follow.

    Attributes:
        cluster_id: Of the cluster that took this node in; empty if none is known to have.
    """

    def __init__(
        self,
        loop: Loop,
        log: Log,
        node_uid: bytes,
        nonce: bytes,
        metadata: MetadataMachine,
        store: MetadataStore,
        freshness: Freshness,
        placing: Placing,
        cluster: Cluster,
    ) -> None:
        self.cluster_id: bytes = b""
        self._loop: Loop = loop
        self._log: Log = log
        self._node_uid: bytes = node_uid
        self._nonce: bytes = nonce
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._freshness: Freshness = freshness
        self._placing: Placing = placing
        self._cluster: Cluster = cluster
        self._unsettled: dict[int, None] = {}
        self._turns: deque[int] = deque()
        """The same groups, in the order in which they are looked at."""
        self._barriers: dict[int, tuple[i64, i64]] = {}
        """Of groups that change: the term in which they are led here, and a barrier behind which
        the tables here are new enough for that."""
        self._asked_ms: int = -JOIN_AGAIN_MS
        self._asks: int = 0
        self._pending_ups: dict[str, commands.NodeUp] = {}
        self._said_round: i64 = 0
        self._said_ms: i64 = 0
        self._rounds: dict[str, tuple[bytes, int]] = {}
        """Lives of other nodes, and the newest round of the log that each said is durable."""
        self._kept: dict[str, tuple[bytes, int]] = {}
        """Those of them that this node has had logged, whether the tables say so yet or not."""
        self._contacts: list[str] = []
        """Nodes that may take this one in; the first one is being asked."""

    # --- who may come ---------------------------------------------------------------------------

    def judge(self, hello: PeerHello) -> int:
        """Whether a link with a node is wanted; 0 or the code of a refusal."""
        machine = self._metadata
        if hello.cluster_version < machine.version:
            return codes.BEHIND
        if self._is_outdated(hello):
            # Before it drops what it has, others must have a majority without it.
            goes_on = self._store.has_majority_without(hello.name)
            return codes.OUTDATED if goes_on else codes.OLDER
        if not self._cluster.session:
            return 0
        record = machine.nodes.get(hello.name)
        if record is not None:
            if record.uid == hello.node_uid or record.uid == hello.former_uid:
                return 0
            if hello.cluster_id == machine.cluster_id:
                # It may have taken that one's place since, and even lead the tables by now.
                certain = self._store.has_majority_without(hello.name)
                return codes.NAME_TAKEN if certain else 0
            return codes.NAME_TAKEN
        if node_with(machine.nodes, hello.node_uid) is not None:
            return codes.RENAMED
        # One that is to join says so by naming no cluster.
        if hello.cluster_id != machine.cluster_id:
            return 0
        # With a majority, what is not in the tables here is about to be at most. Without, it may
        # have joined since, and even lead them by now.
        certain = self._store.has_majority_without(hello.name)
        return codes.FORGOTTEN if certain else 0

    def _is_outdated(self, hello: PeerHello) -> bool:
        """Whether a node's disk lacks what was durable on it before (R-20).

        A node names the lives of its data directory. One that was restored from a copy does not
        name the life that the tables know, or comes with a boot number that is none after it; or it
        names that life, and its log ends before what the node said was durable then.
        """
        nonce, boot, round_number = b"", -1, 0
        record = self._metadata.nodes.get(hello.name)
        if record is not None and record.uid == hello.node_uid:
            nonce, boot, round_number = record.nonce, record.boot, record.round
        pending = self._pending_ups.get(hello.name)
        if pending is not None and pending.uid == hello.node_uid and pending.boot > boot:
            nonce, boot, round_number = pending.nonce, pending.boot, pending.round
        if not nonce or not hello.life or hello.life == nonce:
            return False
        age = hello.boot - boot
        # One that stopped while it began anew names none either.
        names_cluster = hello.cluster_id != NO_CLUSTER or hello.former_uid != b""
        if age <= 0 or not names_cluster:
            return True
        if age > len(hello.lives):
            # The tables here are too old to tell.
            return False
        if hello.lives[age - 1] != nonce:
            return True
        return hello.round < max(round_number, self._heard_round(hello.name, nonce))

    def _note_life(self, peer: str, hello: PeerHello) -> None:
        """A node says of its life, over its link, what tables that are old here lack (R-20).

        One that is not taken in yet has nothing that others count on.
        """
        if not hello.life or hello.cluster_id == NO_CLUSTER:
            return
        known = self._pending_ups.get(peer)
        if known is None or known.uid != hello.node_uid or known.boot < hello.boot:
            self._pending_ups[peer] = commands.NodeUp(
                peer, hello.node_uid, hello.life, hello.boot, hello.round
            )

    def note_pending(self, command: commands.Command) -> None:
        """A start finds in the log what a node said of itself, whether that is committed or not."""
        if isinstance(command, commands.NodeUp):
            self._pending_ups[command.name] = command
        elif isinstance(command, commands.NodeSeen):
            self._rounds[command.name] = (command.nonce, command.round)

    def _heard_round(self, peer: str, life: bytes) -> int:
        heard = self._rounds.get(peer)
        return heard[1] if heard is not None and heard[0] == life else 0

    def _mind_rounds(self, now: i64) -> None:
        """Say how far the log here is durable, and keep what nodes said that are down now."""
        number = self._log.round_number
        if number != self._said_round and now - self._said_ms >= DURABLE_EVERY_MS:
            self._said_round = number
            self._said_ms = now
            message = bytes([DURABLE]) + self._nonce + int(number).to_bytes(8, "little")
            for name in self._metadata.nodes:
                if name != self._loop.settings.node_name:
                    self._cluster.send(name, [message])
        if not self._store.member().raft.can_propose():
            return
        for name, record in self._metadata.nodes.items():
            heard = self._heard_round(name, record.nonce)
            if heard > record.round and self._cluster.detector.suspected(name):
                # What was heard counts on: that node may come again before the tables say so.
                seen = (record.nonce, heard)
                if self._kept.get(name) != seen:
                    self._kept[name] = seen
                    self._store.submit(commands.NodeSeen(name, record.nonce, heard), None)

    # --- joining --------------------------------------------------------------------------------

    def joining(self) -> bool:
        """Whether this node waits to be taken in."""
        return not self._metadata.nodes and not self._store.member().raft.members

    def linked(self, peer: str, hello: PeerHello) -> None:
        """The link to a node is up: it may not have heard how far the log here is durable."""
        self._note_life(peer, hello)
        self._said_round = 0
        if self.joining():
            if peer not in self._contacts:
                self._contacts.append(peer)
            if peer == self._contacts[0]:
                self._ask()
        elif hello.cluster_id == NO_CLUSTER:
            record = self._metadata.nodes.get(peer)
            if record is not None and record.uid != hello.former_uid:
                self.added(peer, peer, hello.node_uid)

    def met(self, peer: str, hello: PeerHello) -> None:
        """A node has a link to this one: one back is needed, wherever the node is by now.

        The tables here may be too old to name it, and this node would not get newer ones without.
        """
        self._note_life(peer, hello)
        machine = self._metadata
        record = machine.nodes.get(peer)
        if not hello.host:
            return
        if record is not None:
            if record.host != hello.host or record.port != hello.port:
                self._cluster.know(peer, hello.host, hello.port)
                if self._cluster.session:
                    self._store.submit(commands.NodeMoved(peer, hello.host, hello.port), None)
        elif hello.cluster_id != NO_CLUSTER:
            # One that was taken in, and has not heard so, belongs to whoever has a link to it.
            own = machine.cluster_id or self.cluster_id or hello.cluster_id
            if hello.cluster_id == own:
                self._cluster.know(peer, hello.host, hello.port)

    def _ask(self) -> None:
        """Ask to be taken in."""
        if self._asks >= JOIN_ASKS_MAX:
            self._ask_another()
        self._asks += 1
        row = self._own_row(self._loop.settings.former_uid)
        if not self._say(self._contacts[0], JOIN, row):
            self._ask_another()

    def _own_row(self, former_uid: bytes) -> list[Any]:
        """What `JOIN` says of this node."""
        settings = self._loop.settings
        return [
            settings.node_name,
            self._node_uid,
            settings.cluster_host,
            settings.cluster_port,
            int(self._store.member().hard_state.incarnation),
            former_uid,
        ]

    def _counts_no_more(self) -> bool:
        """Whether the tables' group, as others say, does not count the copy that is here."""
        state = self._store.member().raft.state
        return state.removed or state.passed_over

    def _ask_to_count_again(self) -> None:
        """Say which copy of the tables is here: others do not count it any more.

        A node that begins anew and ends before that is durable asks again with another copy. What
        it asked first may be heard last, so that the tables name a copy that is no more.
        """
        row = self._own_row(self._node_uid)
        for name in self._metadata.nodes:
            if name != self._loop.settings.node_name:
                self._say(name, JOIN, row)

    def _ask_another(self) -> None:
        self._asks = 0
        self._contacts.append(self._contacts.pop(0))

    def _moved(self) -> bool:
        """Whether the tables have another address for this node."""
        settings = self._loop.settings
        own = self._metadata.nodes.get(settings.node_name)
        return own is not None and (
            own.host != settings.cluster_host or own.port != settings.cluster_port
        )

    def _move(self) -> None:
        """Have the tables give this node its present address."""
        settings = self._loop.settings
        moved = commands.NodeMoved(settings.node_name, settings.cluster_host, settings.cluster_port)
        self._store.submit(moved, None)

    def _label(self) -> None:
        """Have the tables say where this node is, if they say otherwise."""
        settings = self._loop.settings
        machine = self._metadata
        own = machine.nodes.get(settings.node_name)
        labelled = commands.NodeLabelled(settings.node_name, settings.host_label, settings.zone)
        if own is None or machine.version < labelled.cluster_version():
            return
        if own.host_label != settings.host_label or own.zone != settings.zone:
            self._store.submit(labelled, None)

    def _say(self, peer: str, kind: int, content: Any) -> bool:
        return self._cluster.send(peer, [bytes([kind]), msgspec.msgpack.encode(content)])

    def received(self, peer: str, message: bytes) -> None:
        """A node says something about membership.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        kind = message[0]
        if kind == COMMAND:
            foreign_command(message[1:])
            self._store.member().propose_plain(message[1:])
            return
        if kind == DURABLE:
            if len(message) != DURABLE_BYTES:
                raise CorruptRecord("a frame of a node", 0, "a durable round of another size")
            self._rounds[peer] = (message[1:17], int.from_bytes(message[17:], "little"))
            return
        try:
            content = msgspec.msgpack.decode(message[1:])
            if kind == JOIN:
                name, uid, host, port, incarnation, former_uid = content
                asked = commands.ReplaceNode(name, former_uid, uid, host, port, incarnation)
                foreign_command(encoding.encode(asked))
                self._asked(peer, asked)
            elif kind == JOINED and isinstance(content, str):
                self._loop.log_warning(f"node {peer} does not take this node in: {content}")
                if peer in self._contacts and self._contacts[0] == peer:
                    self._ask_another()
            elif kind == JOINED:
                if self.joining() and self.cluster_id in (b"", content[0]):
                    self.cluster_id = content[0]
                    for name, host, port in content[1]:
                        self._cluster.know(name, host, port)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise CorruptRecord("a frame of a node", 0, f"this is no message: {error}") from error

    def _asked_to_count(self, command: commands.ReplaceNode) -> None:
        """Have the tables name the copy that a node has, if it is in them with another one."""
        record = self._metadata.nodes.get(command.name)
        if (
            record is not None
            and record.uid == command.uid
            and record.incarnation != command.incarnation
            and self._cluster.session
        ):
            name, uid, host, port = record.name, record.uid, record.host, record.port
            self._store.submit(commands.AddNode(name, uid, host, port, command.incarnation), None)

    def _asked(self, peer: str, command: commands.ReplaceNode) -> None:
        if command.former_uid == command.uid:
            self._asked_to_count(command)
            return
        if not self._cluster.session:
            self._say(peer, JOINED, "the node asked is not up itself; ask again or ask another one")
            return
        try:
            needed = check_node_that_joins(self._metadata, command)
        except ClusterError as error:
            self._say(peer, JOINED, str(error))
            return
        if isinstance(needed, commands.ReplaceNode) and self._is_last_life():
            self._say(peer, JOINED, NO_LIFE)
            return
        self._cluster.know(command.name, command.host, command.port)
        if needed is None:
            self.added(peer, command.name, command.uid)
        else:
            self._store.submit(needed, Joining(self, peer, command.name, command.uid))

    def _is_last_life(self) -> bool:
        """Whether the tables have had so many changes that no copies get new identities."""
        return not may_begin(self._metadata.applied_index + 1)

    def added(self, peer: str, name: str, uid: bytes) -> None:
        """A node was taken in, unless another one came first; tell it."""
        machine = self._metadata
        record = machine.nodes.get(name)
        if record is None or record.uid != uid:
            another = f"another node {name} is in the cluster"
            self._say(peer, JOINED, NO_LIFE if self._is_last_life() else another)
            return
        rows = [[node.name, node.host, node.port] for node in machine.nodes.values()]
        self._say(peer, JOINED, [machine.cluster_id, rows])

    # --- groups ---------------------------------------------------------------------------------

    def unsettle(self, group_id: int) -> None:
        """What a group's members are, or should be, has changed."""
        if group_id not in self._unsettled:
            self._unsettled[group_id] = None
            if group_id == METADATA_GROUP:
                # All others follow what it says.
                self._turns.appendleft(group_id)
            else:
                self._turns.append(group_id)

    def nodes_changed(self) -> None:
        """Nodes came or went: the tables' group has to follow."""
        self.unsettle(METADATA_GROUP)

    def tick(self) -> None:
        """Bring groups that this node leads nearer to what they should be."""
        for _ in range(min(len(self._turns), TICK_GROUPS_MAX)):
            group_id = self._turns.popleft()
            member = self._cluster.members.get(group_id)
            if member is None or not member.raft.is_leader:
                del self._unsettled[group_id]
                self._barriers.pop(group_id, None)
            elif self._settled(member, self._placing.desired(group_id)):
                del self._unsettled[group_id]
            else:
                self._turns.append(group_id)
        now = self._loop.monotonic_ms()
        self._mind_rounds(now)
        if now - self._asked_ms >= JOIN_AGAIN_MS:
            self._asked_ms = now
            if self._contacts and self.joining():
                self._ask()
            elif self._counts_no_more():
                self._ask_to_count_again()
            elif self._cluster.session:
                self._cluster.end_links_of_strangers()
                if self._moved():
                    self._move()
                self._label()

    def _settled(self, member: Member, desired: list[Replica]) -> bool:
        """Whether nothing is left to do; else do the next step if it can be done now.

        The leader before may have gone by newer tables than there are here. To undo what it did
        could take votes from nodes that run, and leave the group to ones that do not.
        """
        current = member.raft.members
        if not desired:
            return True
        step = next_step(member, current, desired)
        if step is None:
            return True
        if self._knows_enough(member) and step:
            member.raft.propose_config(step)
            member.work()
        return False

    def _knows_enough(self, member: Member) -> bool:
        """Whether the tables here say all that could be known when a group's term began."""
        group_id = int(member.group_id)
        if group_id == METADATA_GROUP:
            return True
        term, barrier = self._barriers.get(group_id, (i64(-1), i64(0)))
        if term != member.raft.term:
            barrier = self._freshness.next_barrier()
            self._barriers[group_id] = (member.raft.term, barrier)
        return self._freshness.passed(barrier)


def next_step(
    member: Member, current: list[Replica], desired: list[Replica]
) -> list[Replica] | None:
    """The configuration to propose next; empty if something has to be waited for; None if done."""
    waits = False
    for wanted in desired:
        found = find(current, wanted.node)
        if found is None:
            return [*current, Replica(wanted.node, wanted.incarnation, False)]
        if found.incarnation != wanted.incarnation:
            return [copy for copy in current if copy is not found]
        if found.voter == wanted.voter:
            continue
        if not wanted.voter or member.raft.ready_to_promote(wanted.node):
            return [wanted if copy is found else copy for copy in current]
        waits = True
    for copy in current:
        if find(desired, copy.node) is None:
            return [other for other in current if other is not copy]
    return [] if waits else None


def find(copies: list[Replica], node: str) -> Replica | None:
    """The copy on a node."""
    for copy in copies:
        if copy.node == node:
            return copy
    return None
