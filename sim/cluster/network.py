"""The links between simulated nodes, one a direction and pair, as TCP has them.

Within a link messages come in order and once. A link that ends takes a part of what was under way
with it, and its two ends learn of that at different times: the one that sends may have dialled anew
while the other one still gets late messages of the old link. A direction that is blocked holds
everything up, as packets that are lost and sent again do; after a while the link is given up.

See `warren.ports.Peers` for the promises, `warren.server.peers` for what is imitated.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from sim.cluster.schedule import MS
from sim.model import Violation
from warren.ports import Deaf, PeerHello, PeerListener
from warren.protocols.peer import refusal as codes
from warren.replication.frames import HEAD_BYTES, RAFT_BYTES, group_of, raft_message
from warren.replication.kinds import PONG, RAFT, STATE

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

REDIAL_MS_MIN: Final = 50
REDIAL_MS_MAX: Final = 2_000
NO_CLUSTER: Final = bytes(16)
AT_ONCE: Final = 8
"""Most messages that one read of a socket brings."""

Parcel = PeerHello | bytes | None
"""On its way: the proof that makes a link an incoming one, a message, or the link's end."""


@final
class Link:
    """One connection from one process to another.

    Attributes:
        source, target: The machines; `source_life` and `target_life` their processes.
        queue: Sent by the node, not flushed yet.
        flight: Flushed and not read at the other end, with the time of arrival.
        up: Whether the source counts it as up.
        incoming: Whether the target counts it as up.
        doomed: Whether what is flushed from now on gets lost.
        gone: Whether the target reads no more.
        damaged: Whether something came over it that was not sent.
        refused: Whether the target has had enough of it.
    """

    def __init__(self, source: Site, target: Site) -> None:
        self.source = source
        self.source_life = source.life
        self.target = target
        self.target_life = target.life
        self.queue: list[bytes] = []
        self.flight: deque[tuple[int, Parcel]] = deque()
        self.up = False
        self.incoming = False
        self.doomed = False
        self.gone = False
        self.last_us = 0
        self.pumping = False
        self.blocked_us = -1
        self.damaged = False
        self.refused = False


@final
class SimPeers:
    """One process's links; see `warren.ports.Peers`.

    Attributes:
        listener: The node's.
        accepted: Links to this process by the peer's name.
    """

    def __init__(self, network: Network, site: Site) -> None:
        self.listener: PeerListener = Deaf()
        self.links: dict[str, Link] = {}
        self.accepted: dict[str, Link] = {}
        self._network = network
        self._site = site
        self._life = site.life
        self._addresses: dict[str, str] = {}
        self._waits_ms: dict[str, int] = {}
        self._dirty: list[Link] = []

    def send(self, peer: str, message: list[bytes]) -> bool:
        """Queue a message."""
        link = self.links.get(peer)
        if link is None:
            return False
        if message[0][0] == STATE:
            self._network.count_state()
        if not link.queue:
            self._dirty.append(link)
        link.queue.append(message[0] if len(message) == 1 else b"".join(message))
        return True

    def backlog_bytes(self, peer: str) -> int:
        """What is queued."""
        link = self.links.get(peer)
        return 0 if link is None else sum(map(len, link.queue))

    def dial(self, peer: str, host: str, port: int) -> None:
        """Keep a link."""
        known = peer in self._addresses
        self._addresses[peer] = host
        if not known:
            self._redial(peer, 0)

    def forget(self, peer: str) -> None:
        """End the link and dial no more."""
        self._addresses.pop(peer, None)
        link = self.links.pop(peer, None)
        if link is not None:
            link.up = False
            self._network.cut_short(link)

    def refuse(self, peer: str, reason: str) -> None:
        """End the link from a peer: something came damaged over it, or it only bears a name."""
        link = self.accepted.get(peer)
        # One that has begun anew is one, too, for a node whose tables are too old to know that, and
        # one that has just joined.
        node = self._site.node
        assert node is not None
        unknown = peer not in node.metadata.nodes and reason == codes.TEXTS[codes.FORGOTTEN]
        another = self._network.is_another(peer) and reason == codes.TEXTS[codes.NAME_TAKEN]
        if link is None or not (link.damaged or unknown or another):
            raise Violation(f"what {peer} sent {self._site.name} is refused: {reason}")
        self._network.refuse(link)

    def flush(self) -> None:
        """Send what is queued."""
        dirty = self._dirty
        self._dirty = []
        for link in dirty:
            self._network.transmit(link)

    def dials(self, peer: str) -> bool:
        """Whether this process wants a link to a peer and has none."""
        return peer in self._addresses and peer not in self.links

    def redial(self, peer: str) -> None:
        """Try again after a while, longer each time."""
        wait_ms = self._waits_ms.get(peer, REDIAL_MS_MIN)
        self._waits_ms[peer] = min(REDIAL_MS_MAX, 2 * wait_ms)
        self._redial(peer, self._network.random.randrange(wait_ms // 2, wait_ms))

    def reached(self, peer: str) -> None:
        """A link came about."""
        self._waits_ms[peer] = REDIAL_MS_MIN

    def _redial(self, peer: str, wait_ms: int) -> None:
        site = self._site
        life = self._life
        self._network.after(wait_ms * MS, lambda: site.guarded(life, lambda: self._attempt(peer)))

    def _attempt(self, peer: str) -> None:
        if self.dials(peer):
            self._network.connect(self._site, peer, self._addresses[peer])


@final
class Network:
    """See the module's head.

    Attributes:
        blocked: Directions, by names, in which nothing arrives.
        damaging: Machines of which a message comes damaged: the next one of Raft, or, every other
            time, the next one behind it in kind, such as a proposal or a delivery.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self.random = world.random
        self.after = world.schedule.after
        self.blocked: set[tuple[str, str]] = set()
        self.damaging: set[str] = set()
        self.links: list[Link] = []

    # --- coming about ---------------------------------------------------------------------------

    def connect(self, source: Site, peer: str, host: str) -> None:
        """A process dials a peer."""
        peers = source.peers
        assert peers is not None
        target = self._world.sites.get(host)
        if target is None or not self.reachable(source, target):
            peers.redial(peer)
            return
        link = Link(source, target)
        life = source.life
        self.after(
            2 * self._delay_us(), lambda: source.guarded(life, lambda: self._shaken(link, peer))
        )

    def count_state(self) -> None:
        """An observer is sent the state of its group."""
        self._world.count("states for observers")

    def is_another(self, name: str) -> bool:
        """Whether what a node of this name had is lost or given up, so that it is another one."""
        site = self._world.sites[name]
        return site.uid != site.first_uid

    def reachable(self, source: Site, target: Site) -> bool:
        """Whether a machine that asks a node something gets an answer."""
        pair = (source.name, target.name)
        return (
            target.node is not None
            and not target.paused()
            and pair not in self.blocked
            and pair[::-1] not in self.blocked
        )

    def _shaken(self, link: Link, peer: str) -> None:
        """The dialling end is content; the proof goes to the other one."""
        source, target = link.source, link.target
        peers = source.peers
        assert peers is not None
        if not peers.dials(peer):
            return
        theirs = target.hello() if target.life == link.target_life else None
        if theirs is None or theirs.name != peer or not self.reachable(source, target):
            peers.redial(peer)
            return
        own = source.hello()
        assert own is not None
        foreign = own.cluster_id != theirs.cluster_id
        if foreign and NO_CLUSTER not in (own.cluster_id, theirs.cluster_id):
            peers.redial(peer)
            return
        accepting = target.peers
        assert accepting is not None
        code = accepting.listener.judge(own)
        refused = source
        if not code:
            code = peers.listener.judge(theirs)
            refused = target
        if code:
            self._world.count("links refused")
            if code == codes.OUTDATED:
                life = refused.life
                self.after(self._delay_us(), lambda: refused.guarded(life, refused.outdated))
            peers.redial(peer)
            return
        link.up = True
        self.links.append(link)
        peers.links[peer] = link
        peers.reached(peer)
        self._put(link, own)
        self._world.say("link %s>%s is up", source.name, target.name)
        peers.listener.linked(peer, theirs)

    # --- messages -------------------------------------------------------------------------------

    def transmit(self, link: Link) -> None:
        """What a node queued is on its way."""
        queue = link.queue
        link.queue = []
        if link.doomed:
            return
        for message in queue:
            self._put(link, message)

    def _delay_us(self) -> int:
        options = self._world.faults
        return options.delay_us + int(self.random.random() * options.jitter_us)

    def _put(self, link: Link, parcel: Parcel, delay_us: int = 0) -> None:
        now = self._world.schedule.now_us
        link.last_us = max(link.last_us, now + (delay_us or self._delay_us()))
        link.flight.append((link.last_us, parcel))
        self._pump_later(link)

    def _pump_later(self, link: Link) -> None:
        if link.pumping or link.gone or link.refused or not link.flight:
            return
        link.pumping = True
        wait = max(0, link.flight[0][0] - self._world.schedule.now_us)
        self.after(wait, lambda: self._pump(link))

    def _pump(self, link: Link) -> None:
        """Let a process read what has come."""
        link.pumping = False
        target = link.target
        if link.gone or target.life != link.target_life or target.node is None:
            return
        now = self._world.schedule.now_us
        if target.paused():
            link.pumping = True
            self.after(target.paused_until_us - now, lambda: self._pump(link))
            return
        if (link.source.name, target.name) in self.blocked:
            if link.blocked_us < 0:
                link.blocked_us = now
                self.after(self._world.faults.silence_us, lambda: self._give_up(link))
            return
        target.guarded(target.life, lambda: self._read(link))
        self._pump_later(link)

    def _read(self, link: Link) -> None:
        now = self._world.schedule.now_us
        left = self.random.randrange(1, AT_ONCE + 1)
        flight = link.flight
        peers = link.target.peers
        assert peers is not None
        name = link.source.name
        while left and flight and flight[0][0] <= now and not (link.gone or link.refused):
            left -= 1
            _, parcel = flight.popleft()
            if parcel is None:
                self._ended(link)
            elif isinstance(parcel, bytes):
                self._world.counts["node messages"] += 1
                if parcel[0] > PONG:
                    self._world.counts["talk"] += 1
                if name in self.damaging and self._to_damage(parcel[0]):
                    self.damaging.discard(name)
                    link.damaged = True
                    damaged = self._damaged(name, parcel)
                    seen = self._is_seen(link.target, parcel, damaged)
                    peers.listener.received(name, damaged)
                    if seen and not link.refused:
                        raise Violation(f"{link.target.name} takes what {name} did not send")
                    continue
                peers.listener.received(name, parcel)
            else:
                older = peers.accepted.get(name)
                if older is not None:
                    self._ended(older)
                    self._lose_source(older)
                peers.accepted[name] = link
                link.incoming = True
                peers.listener.incoming(name, parcel)

    def _is_seen(self, site: Site, sent: bytes, damaged: bytes) -> bool:
        """Whether a node looks at the damage now.

        A message of Raft may be early, or its member wait for a snapshot, and entries that are not
        stored are not looked at.
        """
        assert site.node is not None
        if sent[0] != RAFT:
            return True
        member = site.node.cluster.members.get(int(group_of(sent)))
        end = RAFT_BYTES + len(raft_message(sent))
        there = member is not None and not member.log.incomplete
        return there and sent[:end] != damaged[:end]

    def _to_damage(self, kind: int) -> bool:
        """Whether it is the turn of messages of this kind."""
        if self._world.counts["messages damaged"] % 2:
            return kind > RAFT
        return kind == RAFT

    def _damaged(self, name: str, message: bytes) -> bytes:
        """A message with a flipped bit, in what it says or in what it brings."""
        at = self.random.randrange(HEAD_BYTES, len(message))
        self._world.count("messages damaged")
        self._world.say("a message from %s is damaged at byte %d", name, at)
        flipped = message[at] ^ 1 << self.random.randrange(8)
        return message[:at] + bytes([flipped]) + message[at + 1 :]

    def refuse(self, link: Link) -> None:
        """The target ends a link, and reads nothing more of it."""
        link.refused = True
        self._world.count("links ended by damage" if link.damaged else "links of strangers ended")
        target, life = link.target, link.target_life
        self.after(1, lambda: target.guarded(life, lambda: self._ended_once(link)))
        self._lose_source(link, self.random.randrange(1, 50 * MS))

    def _ended(self, link: Link) -> None:
        """The target learns that a link is gone."""
        link.gone = True
        link.flight.clear()
        self._drop(link)
        if link.incoming:
            link.incoming = False
            peers = link.target.peers
            assert peers is not None
            del peers.accepted[link.source.name]
            peers.listener.incoming_lost(link.source.name)

    def _drop(self, link: Link) -> None:
        if link.gone and not link.up and link in self.links:
            self.links.remove(link)

    # --- the end --------------------------------------------------------------------------------

    def carrying(self, kind: int) -> list[Link]:
        """Links on which a message of a kind is under way."""
        return [
            link
            for link in self.links
            if not link.doomed
            and any(isinstance(parcel, bytes) and parcel[0] == kind for _, parcel in link.flight)
        ]

    def unblock(self) -> None:
        """All directions work again; what was held up comes through soon."""
        self.blocked.clear()
        for link in self.links:
            if link.blocked_us >= 0:
                link.blocked_us = -1
                first = self._world.schedule.now_us + self.random.randrange(1, 400 * MS)
                link.flight = deque((max(at, first), parcel) for at, parcel in link.flight)
                link.last_us = max(link.last_us, first)
                self._pump_later(link)

    def _give_up(self, link: Link) -> None:
        """Nothing was acknowledged for a long time."""
        if link.blocked_us >= 0 and not link.gone:
            self.cut(link, self.random.randrange(1, 500 * MS), self.random.randrange(1, 500 * MS))

    def cut_short(self, link: Link) -> None:
        """The source has closed a link: the target hears of it behind what was sent."""
        self.transmit(link)
        link.doomed = True
        self._put(link, None)

    def cut(self, link: Link, source_us: int, target_us: int) -> None:
        """A link breaks: a part of what is under way is lost, each end is told in its time."""
        if link.doomed:
            return
        link.doomed = True
        blocked = link.blocked_us >= 0
        keep = 0 if blocked else self.random.randrange(len(link.flight) + 1)
        while len(link.flight) > keep:
            link.flight.pop()
        if blocked:
            # The end is noticed by each machine alone; nothing has to get through for that.
            target = link.target
            life = link.target_life
            self.after(target_us, lambda: target.guarded(life, lambda: self._ended_once(link)))
        else:
            self._put(link, None, target_us)
        self._lose_source(link, source_us)

    def _ended_once(self, link: Link) -> None:
        if not link.gone:
            self._ended(link)

    def _lose_source(self, link: Link, delay_us: int = 1) -> None:
        """The source learns that a link is gone."""
        source = link.source
        link.doomed = True
        life = link.source_life

        def lost() -> None:
            peers = source.peers
            assert peers is not None
            if not link.up:
                return
            link.up = False
            self._drop(link)
            name = link.target.name
            if peers.links.get(name) is link:
                del peers.links[name]
                self._world.say("link %s>%s is lost", source.name, name)
                peers.listener.unlinked(name)
                if peers.dials(name):
                    peers.redial(name)

        if link.up:
            self.after(delay_us, lambda: source.guarded(life, lost))

    def process_ended(self, site: Site, abrupt: bool) -> None:
        """A process is gone; `abrupt` if its machine could not say so."""
        for link in list(self.links):
            slow = self._world.faults.silence_us if abrupt else 2 * MS
            delay = self.random.randrange(1, slow + 1)
            if link.source is site and link.source_life == site.life:
                link.up = False
                link.queue = []
                if link.doomed:
                    self._drop(link)
                    continue
                link.doomed = True
                if abrupt:
                    keep = self.random.randrange(len(link.flight) + 1)
                    while len(link.flight) > keep:
                        link.flight.pop()
                self._put(link, None, delay)
            elif link.target is site and link.target_life == site.life:
                link.gone = True
                link.flight.clear()
                self._lose_source(link, delay)
                self._drop(link)
