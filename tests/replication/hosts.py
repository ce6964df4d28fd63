"""Members of one group on nodes that are nothing but their hosts: a log, a clock, and a network.

Logs, Raft and members are real; what a node would do with them, a test does by hand. Frames wait in
the network until `World.settle` delivers them, and a test may take some out or speak for a node.
"""

from __future__ import annotations

from random import Random

from sim.disk import SimDisk, SimExecutor
from warren.errors import CorruptRecord
from warren.log.batch import KIND_COMMAND, Batch
from warren.log.config import LogConfig
from warren.log.listener import LogListener, Replayer
from warren.log.log import Log
from warren.log.runlist import NO_RUNS, KnownRuns, LiveRuns
from warren.ports import Job
from warren.queues.queue import Host as Throttled
from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.raft.members import Replica
from warren.raft.raft import Options
from warren.replication import frames, kinds
from warren.replication.hard_state import HardState
from warren.replication.host import MemberHost
from warren.replication.machine import NoMachine
from warren.replication.member import Member
from warren.replication.observing import Feeds
from warren.replication.proposals import Load, Proposal
from warren.replication.recovered import Recovered
from warren.replication.throttle import Throttle

GROUP = 77
LIVES = {"a": 11, "b": 12, "c": 13}
"""The life that each node has."""

Frame = tuple[str, str, bytes]
"""Who sent it, to whom, and what."""


class Nothing(Replayer):
    """A directory that is new has nothing to replay."""

    def snapshot(self, group_id: int, index: int, state: bytes) -> None:
        raise AssertionError("a new directory has no snapshot")

    def entry(self, batch: Batch) -> None:
        raise AssertionError("a new directory has no entry")


class Workers:
    """A `SimExecutor` that counts.

    Attributes:
        reads: How many reads the log has begun.
    """

    def __init__(self) -> None:
        self.reads = 0
        self._inner = SimExecutor(Random(1))

    def submit(self, lane: str, job: Job) -> None:
        self.reads += lane.startswith("read")
        self._inner.submit(lane, job)

    @property
    def idle(self) -> bool:
        return self._inner.idle

    def drain(self) -> None:
        self._inner.drain()


class Owner(LogListener):
    """Hands what is durable to the member."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host

    def persisted(self, batches: list[Batch]) -> None:
        for batch in batches:
            self.host.member.persisted(batch)

    def snapshot_wanted(self, group_id: int) -> None:
        """A test takes snapshots when it wants."""

    def live_runs(self, group_id: int) -> LiveRuns:
        return KnownRuns(NO_RUNS)

    def disk_full(self, full: bool) -> None:
        raise AssertionError("the disk is large")

    def damaged(self, error: CorruptRecord) -> None:
        raise error

    def failed(self, error: BaseException) -> None:
        raise error


class FakeHost(MemberHost):
    """One node with one member.

    Attributes:
        member: Its member.
        log, executor: Its log, and what writes it when the test says so.
        full, over, backlog, written, pinned, size, sent: What it says when the member asks.
        later, applies, damage, to_send, to_accept, given_up: What the member asked for.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.recent_bytes = 1 << 30
        self.disk_behind = False
        self.full = False
        self.over: set[int] = set()
        self.lost: set[int] = set()
        self.backlog: dict[str, int] = {}
        self.written = 0
        self.pinned = 1 << 30
        self.size = 0
        self.sent: dict[str, int] = {}
        self.later = 0
        self.damage: list[BaseException] = []
        self.to_send: list[SendSnapshot] = []
        self.to_accept: list[AcceptSnapshot] = []
        self.given_up = 0
        self.led = 0
        self.dirty = False
        self.applies = False
        self.own_load = Load(Throttled(), 1 << 30)
        self.own_throttle = Throttle(0)
        self.disk = SimDisk(1)
        self.executor = Workers()
        config = LogConfig(reserve_bytes=1 << 16, wal_max_size_bytes=1 << 20, cache_bytes=1 << 16)
        self.log = Log(self.disk, self.executor, config, Owner(self))
        self.log.recover(Nothing())
        copies = [Replica(node, 1, True) for node in world.names]
        recovered = Recovered(HardState(1, copies), name)
        log = self.log.group(GROUP)
        self.member = Member(self, log, NoMachine(), recovered, LIVES[name], Options(), 1)
        self.member.save_hard_state(None)

    # --- what a member asks ---------------------------------------------------------------------

    def load(self) -> Load:
        return self.own_load

    def throttle(self) -> Throttle:
        return self.own_throttle

    def wall_ms(self) -> int:
        return 1_000_000 + self.world.now

    def monotonic_ms(self) -> int:
        return self.world.now

    def appended(self, urgent: bool) -> None:
        """The test flushes."""

    def send(self, node: str, message: list[bytes]) -> bool:
        if (self.name, node) in self.world.cut:
            return False
        if message[0][0] != kinds.RAFT:
            frames.seal(message)
        self.world.frames.append((self.name, node, b"".join(message)))
        return True

    def backlog_bytes(self, node: str) -> int:
        return self.backlog.get(node, 0)

    def go_on_later(self, member: Member) -> None:
        self.later += 1

    def acquaint(self, member: Member) -> None:
        """A test says which nodes are down."""

    def member_dirty(self, member: Member) -> None:
        self.dirty = True

    def apply_later(self, member: Member) -> None:
        self.applies = True

    def session_over(self, session: int) -> bool:
        return session in self.over

    def session_lost(self, session: int) -> bool:
        return session in self.lost

    def session_past(self, session: int) -> bool:
        return session in self.over and session not in self.lost

    def session_of_another(self, session: int, node: str) -> bool:
        return False

    def session_closed(self, member: Member) -> int:
        return LIVES[self.name]

    def leadership(self, member: Member) -> None:
        self.led += member.leads()

    def members_changed(self, member: Member) -> None:
        """They stay."""

    def send_snapshot(self, member: Member, effect: SendSnapshot) -> None:
        self.to_send.append(effect)

    def accept_snapshot(self, member: Member, effect: AcceptSnapshot) -> None:
        self.to_accept.append(effect)

    def sent_bytes(self, member: Member, peer: str) -> int:
        return self.sent.get(peer, 0)

    def feeds(self, node: str) -> Feeds:
        """A test speaks for such nodes, and their links do not break."""
        return Feeds()

    def snapshot_given_up(self, member: Member) -> None:
        self.given_up += 1

    def damaged(self, member: Member, error: BaseException) -> None:
        self.damage.append(error)

    def short_of_disk(self) -> bool:
        return self.full

    def written_bytes(self) -> int:
        return self.written

    def log_bytes(self) -> int:
        return self.size

    def pinned_bytes_max(self) -> int:
        return self.pinned

    # --- what a test does -----------------------------------------------------------------------

    def append(self, count: int, size: int = 10) -> None:
        """As leader, append some commands that are of no session."""
        for _ in range(count):
            command = Proposal(0, KIND_COMMAND, 0, b"", bytes(size), None)
            self.member.append(0, command)

    def forget_entries(self) -> None:
        """Keep none of the newest entries in memory that are durable."""
        self.recent_bytes = 0
        self.member.keep_recent()

    def idle(self) -> bool:
        """Whether all that was appended is durable, and nothing is read."""
        return self.log.idle and self.executor.idle

    def under_way(self) -> bool:
        """Whether there is something to do without a further message."""
        return self.dirty or self.applies or not self.idle()

    def write(self) -> None:
        """Make all durable that was appended, and have the member act on it."""
        self.log.flush()
        self.executor.drain()
        self.member.work()

    def turn(self) -> None:
        """Let the member go on with what it left for another turn."""
        if self.applies:
            self.applies = False
            self.member.apply_more()

    def entries(self) -> list[tuple[int, int, bytes]]:
        """Session, sequence and payload of the commands that are in memory, in their order."""
        found = []
        for index in range(1, int(self.member.log.last_index) + 1):
            batch = self.member.log.recent(index)
            assert batch is not None, f"entry {index} is in memory"
            if batch.session >= 0:
                found.append((int(batch.session), int(batch.sequence), batch.body()))
        return found


class World:
    """The nodes, and what is on its way between them.

    Attributes:
        now: Milliseconds since the beginning.
        cut: Links, as pairs of sender and receiver, over which nothing goes.
        frames: What was sent and not delivered.
    """

    def __init__(self, names: str = "abc") -> None:
        self.now = 0
        self.names = names
        self.cut: set[tuple[str, str]] = set()
        self.frames: list[Frame] = []
        self.hosts = {name: FakeHost(self, name) for name in names}
        for host in self.hosts.values():
            host.member.start()
        # The first leader of a new group is said.
        self.hosts["a"].member.campaign()
        self.settle()
        assert self.hosts["a"].member.raft.can_propose(), "a leads"

    def hand_over(self, name: str) -> FakeHost:
        """Have the leader give its place to another node."""
        for host in self.hosts.values():
            if host.member.leads():
                host.member.raft.transfer(name, self.now)
                host.member.work()
        self.settle()
        assert self.hosts[name].member.leads(), f"{name} leads"
        return self.hosts[name]

    def part(self, one: str, other: str) -> None:
        """Cut two nodes off from each other, which both notice."""
        for here, there in ((one, other), (other, one)):
            self.cut.add((here, there))
            self.hosts[here].member.raft.peer_down(there, self.now)

    def join(self, one: str, other: str) -> None:
        """Have two nodes hear from each other again."""
        for here, there in ((one, other), (other, one)):
            self.cut.discard((here, there))
            self.hosts[here].member.raft.peer_up(there, False, self.now)
            self.hosts[here].member.work()

    def lose(self, name: str) -> FakeHost:
        """Cut the leader off, which the others notice; gives the next one."""
        others = [host for host in self.hosts.values() if host.name != name]
        for other in others:
            self.cut |= {(name, other.name), (other.name, name)}
            other.member.raft.peer_down(name, self.now)
        for _ in range(500):
            for other in others:
                if other.member.raft.can_propose():
                    return other
            self.wait(20)
        raise AssertionError("none of the others was elected")

    def settle(self) -> None:
        """Write and deliver until nothing is under way."""
        while self.frames or any(host.under_way() for host in self.hosts.values()):
            for host in self.hosts.values():
                host.turn()
                host.dirty = False
                host.write()
            for frame in self.taken():
                self.deliver(frame)

    def taken(self, kind: int = -1, to: str = "") -> list[Frame]:
        """Take what is on its way out of the network, or what of it is of a kind or to a node."""
        chosen = [
            frame for frame in self.frames if kind in (-1, frame[2][0]) and to in ("", frame[1])
        ]
        self.frames = [frame for frame in self.frames if frame not in chosen]
        return chosen

    def deliver(self, frame: Frame) -> None:
        """Bring one over."""
        sender, receiver, message = frame
        if receiver in self.hosts:
            self.hosts[receiver].member.received(sender, message)

    def wait(self, milliseconds: int) -> None:
        """Let time pass for all."""
        self.now += milliseconds
        for host in self.hosts.values():
            host.own_throttle.tick(self.now, host.written)
            host.member.raft.tick(self.now)
            host.member.work()
        self.settle()


def proposed(session: int, sequence: int, payload: bytes) -> bytes:
    """A frame in which a node proposes a command."""
    proposal = Proposal(sequence, KIND_COMMAND, 0, b"", payload, None)
    parts = frames.propose_frame(GROUP, session, proposal)
    frames.seal(parts)
    return b"".join(parts)
