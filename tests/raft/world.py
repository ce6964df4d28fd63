"""A cluster with one group in virtual time, all of it from one seed.

Faults: loss, duplication, reordering, one-way and two-way cuts, crashes that lose unsynced writes,
damage to what was synced, pauses, slow disks, clocks of different speed. Members come and go,
leadership is handed over, reads are made. Then everything heals: the group has to work again, to
agree, and to fall silent.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from tests.raft.checks import Checks, Violation, demand
from tests.raft.disk import Disk, Entry, Snapshot, Write
from tests.raft.host import Host
from warren.raft import wire
from warren.raft.effects import Effect
from warren.raft.members import Replica
from warren.raft.messages import Append, Message, PreVote, SnapshotOffer
from warren.raft.raft import Options

DETECT_MS = 250
DETECTOR_PERIOD_MS = 100


class Swarm:
    """How bad this seed's world is."""

    def __init__(self, random: Random) -> None:
        self.size = random.choice((1, 2, 3, 3, 3, 5, 5, 7))
        self.loss = random.choice((0, 0, 1, 5, 20))
        self.duplicates = random.choice((0, 0, 5, 20))
        self.delay_ms = random.choice((2, 10, 60))
        self.disk_ms = random.choice((1, 5, 60, 400))
        self.crashes = random.choice((0, 3, 10))
        self.cuts = random.choice((0, 3, 10))
        self.pauses = random.choice((0, 0, 4))
        self.members = random.choice((0, 0, 4, 12))
        self.transfers = random.choice((0, 2, 6))
        self.compactions = random.choice((0, 3, 10))
        self.damage = random.random() < 0.15
        self.report_ms = random.choice((0, 3, 150))
        self.codec = random.randrange(4) == 0
        self.each_write = random.randrange(3) == 0
        self.options = Options(
            election_timeout_ms=1_000,
            resend_ms=250,
            entries_max=random.choice((1, 3, 64)),
            inflight_max=random.choice((1, 3, 16)),
        )


class World:
    """One run."""

    def __init__(self, seed: int, duration_ms: int = 10_000, trace: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.swarm = Swarm(self.random)
        self.duration_ms = duration_ms
        self.trace = trace
        self.lines: list[str] = []
        self.now_ms = 0
        self.healed = False
        self.sent = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.checks = Checks(self)

        self.nodes = [f"n{number}" for number in range(1, 8)]
        self.rates = {node: self.random.choice((95, 100, 100, 105)) for node in self.nodes}
        self.starts = {node: self.random.randrange(1_000_000) for node in self.nodes}
        self.hosts: dict[str, Host] = {}
        self.disks: dict[tuple[str, int], Disk] = {}
        self.incarnations = dict.fromkeys(self.nodes, 0)
        self.boots = dict.fromkeys(self.nodes, 0)
        self.paused = dict.fromkeys(self.nodes, 0)
        self.up = dict.fromkeys(self.nodes, True)
        self.cut: dict[tuple[str, str], bool] = {}
        self.heard: dict[tuple[str, str], tuple[int, int]] = {}
        self.suspected: dict[tuple[str, str], bool] = {}
        self.ticks: dict[str, int] = {}
        self.links: dict[tuple[str, str], int] = {}
        self.payload = 0
        self.context = 0
        self.damaged = False
        self.counts = dict.fromkeys(
            ("proposed", "committed", "elections", "reads", "configs", "crashes", "snapshots"), 0
        )

    # --- running --------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._sequence, action))

    def run_until(self, end_ms: int, done: Callable[[], bool] | None = None) -> bool:
        """Run events up to a time, or until a condition holds."""
        while self._queue and self._queue[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
            if done is not None and done():
                return True
        self.now_ms = end_ms
        return done is None

    def note(self, text: str) -> None:
        """One line of the trace."""
        if self.trace:
            self.lines.append(f"{self.now_ms:>7} {text}")

    def run(self) -> None:
        """The whole run; raises `Violation`, or any error of the code under test."""
        initial = [Replica(node, 1, True) for node in self.nodes[: self.swarm.size]]
        for member in initial:
            self.incarnations[member.node] = 1
            self.disks[member.node, 1] = Disk(initial)
            self.boot(member.node)
        self.at(DETECTOR_PERIOD_MS, self.detect)
        self.at(5, self.work)
        self.schedule_faults()
        self.run_until(self.duration_ms)
        self.heal()
        self.check_progress()
        self.check_silence()

    # --- nodes ----------------------------------------------------------------------------------

    def boot(self, node: str) -> None:
        """Start the copy on a node."""
        incarnation = self.incarnations[node]
        disk = self.disks[node, incarnation]
        self.boots[node] += 1
        self.ticks[node] = 0
        seed = self.random.randrange(1 << 31)
        host = Host(self, node, incarnation, disk, self.swarm.options, seed)
        self.hosts[node] = host
        self.up[node] = True
        self.note(f"{node} starts, term {host.raft.term}, last {host.last}")
        for other in self.nodes:
            self.suspected[node, other] = False
            self.heard[node, other] = (self.now_ms, self.boots[other])
        host.raft.start(self.now(host))
        self.after(host)

    def crash(self, node: str) -> None:
        """Power off: queued writes may be lost."""
        host = self.hosts.get(node)
        if host is None or not host.alive:
            return
        self.note(f"{node} crashes")
        self.counts["crashes"] += 1
        host.alive = False
        self.up[node] = False
        disk = host.disk
        disk.crash(self.random)
        if self.swarm.damage and not self.damaged and len(host.raft.members) >= 3:
            self.damaged = True
            keep = self.random.randint(disk.base, disk.base + len(disk.entries))
            self.note(f"{node} loses durable entries behind {keep}")
            disk.damage(keep)
            # Connections end with the process: nothing it said before comes later.
            for other in self.nodes:
                self.links[node, other] = self.links.get((node, other), 0) + 1

    def restart(self, node: str) -> None:
        """Power on."""
        host = self.hosts.get(node)
        if host is not None and not host.alive:
            self.boot(node)

    def guarded(self, host: Host, action: Callable[[], None]) -> None:
        """Do something at a copy, unless it is gone; later, if its process is stopped."""
        if not host.alive:
            return
        if self.paused[host.node] > self.now_ms:
            wait = self.paused[host.node] - self.now_ms
            self.at(wait, lambda: self.guarded(host, action))
            return
        action()
        self.after(host)

    def after(self, host: Host) -> None:
        """End of a turn: flush, look, and see to the next tick."""
        host.drain()
        host.end_turn()
        self.checks.invariants(host)
        deadline = host.raft.deadline_ms
        if deadline >= 0:
            start, rate = self.starts[host.node], self.rates[host.node]
            due = max(self.now_ms + 1, -(-(deadline - start) * 100 // rate))
            if not self.now_ms < self.ticks.get(host.node, 0) <= due:
                self.ticks[host.node] = due
                self.at(due - self.now_ms, lambda: self.guarded(host, lambda: self.tick(host)))

    def tick(self, host: Host) -> None:
        host.raft.tick(self.now(host))

    # --- what hosts ask for ---------------------------------------------------------------------

    def now(self, host: Host) -> int:
        """The node's own clock."""
        return self.starts[host.node] + self.now_ms * self.rates[host.node] // 100

    def effect(self, host: Host, effect: Effect) -> None:
        name = type(effect).__name__
        if name == "BecameLeader":
            self.counts["elections"] += 1
            self.note(f"{host.node} leads term {host.raft.term}, last {host.last}")
        elif name == "ConfigChanged":
            self.counts["configs"] += 1
        elif name == "ReadReady":
            self.counts["reads"] += 1
        self.checks.effect(host, effect)

    def appended(self, host: Host, index: int, entry: Entry) -> None:
        self.checks.appended(host, index, entry.term, entry.payload)

    def applied(self, host: Host, index: int, entry: Entry) -> None:
        self.counts["committed"] += 1
        self.checks.applied(host, index, entry.term, entry.payload)

    def installed(self, host: Host, snapshot: Snapshot) -> None:
        self.counts["snapshots"] += 1
        self.note(f"{host.node} installs snapshot {snapshot.index}")
        digest = self.checks.digests.setdefault(snapshot.index, snapshot.digest)
        demand(digest == snapshot.digest, "a snapshot of another machine")

    def readable(self, host: Host, message: Append) -> int:
        """How many of an append's entries the shell manages to read."""
        if self.random.randrange(10) == 0:
            return self.random.randint(message.prev_index, message.last_index)
        return message.last_index

    def write(self, host: Host, write: Write) -> None:
        """Queue a write; the disk works through its queue, several writes at a time."""
        disk = host.disk
        disk.queue.append(write)
        if len(disk.queue) == 1:
            self.sync(host)

    def sync(self, host: Host) -> None:
        batch = len(host.disk.queue)
        delay = self.random.randint(0, self.swarm.disk_ms)
        self.at(delay, lambda: self.synced(host, batch))

    def synced(self, host: Host, batch: int) -> None:
        """A round of the write-ahead log is durable."""
        if not host.alive:
            return
        disk = host.disk
        done = disk.queue[:batch]
        for write in done:
            disk.apply(write)
        del disk.queue[:batch]
        if not self.swarm.each_write:
            # As a write-ahead log does that reports a group's newest entry of a round only.
            newest = [write for write in done if write.kind == "entries"][-1:]
            done = [write for write in done if write.kind != "entries"] + newest
        # Told a little later: meanwhile the log may have been truncated.
        for write in done:
            late = self.swarm.report_ms if write.kind == "entries" else 3
            self.at(
                self.random.randint(0, late),
                lambda write=write: self.guarded(host, lambda: host.written(write)),
            )
        if disk.queue:
            self.sync(host)

    def later(self, host: Host, action: Callable[[], None]) -> None:
        self.at(self.random.randint(1, 50), lambda: self.guarded(host, action))

    def send(self, host: Host, message: Message, extra: Any) -> None:
        """Put a message on the network."""
        self.sent += 1
        source, target = message.sender, message.target
        data = wire.encode(message) if self.swarm.codec else None
        if self.trace:
            self.note(f"{source}>{target} {describe(message)}")
        lost = self.cut.get((source, target), False)
        if self.random.randrange(100) < self.swarm.loss and not self.healed:
            lost = True
        copies = 0 if lost else 1
        if copies and self.random.randrange(100) < self.swarm.duplicates and not self.healed:
            copies = 2
        link = self.links.get((source, target), 0)
        boot = self.boots[source]
        for _ in range(copies):
            delay = self.random.randint(1, self.swarm.delay_ms)
            if self.random.randrange(100) == 0 and not self.healed:
                delay += self.random.randint(1, 3_000)
            self.at(delay, lambda: self.deliver(message, data, extra, link, boot))
        if isinstance(message, SnapshotOffer):
            offer: SnapshotOffer = message
            wait = self.random.randint(20, 200)
            done = copies > 0
            self.at(
                wait,
                lambda: self.guarded(
                    host, lambda: host.raft.snapshot_sent(offer, done, self.now(host))
                ),
            )

    def deliver(
        self, message: Message, data: bytes | None, extra: Any, link: int, boot: int
    ) -> None:
        if data is not None:
            message = wire.decode(data)
        host = self.hosts.get(message.target)
        if host is None or link < self.links.get((message.sender, message.target), 0):
            return

        def step() -> None:
            pair = (host.node, message.sender)
            known = self.heard.get(pair)
            if known is not None and known[1] < boot:
                # A new process is announced before its first message.
                self.heard[pair] = (self.now_ms, boot)
                self.suspected[pair] = False
                host.raft.peer_up(message.sender, True, self.now(host))
            before = self.checks.around_step(host)
            host.receive(message, extra)
            if isinstance(message, PreVote):
                demand(self.checks.around_step(host) == before, "a pre-vote had side effects")

        self.guarded(host, step)

    # --- failure detector -----------------------------------------------------------------------

    def detect(self) -> None:
        """Each node listens for every other one."""
        self.at(DETECTOR_PERIOD_MS * (3 if self.healed else 1), self.detect)
        for node in self.nodes:
            host = self.hosts.get(node)
            if host is None or not host.alive or self.paused[node] > self.now_ms:
                continue
            for other in self.nodes:
                if other != node and other in self.hosts:
                    self._listen(host, other)

    def _listen(self, host: Host, other: str) -> None:
        pair = (host.node, other)
        seen_ms, boot = self.heard.get(pair, (self.now_ms, self.boots[other]))
        quiet = self.paused[other] > self.now_ms or self.cut.get((other, host.node), False)
        if self.up[other] and not quiet:
            self.heard[pair] = (self.now_ms, self.boots[other])
            restarted = boot != self.boots[other]
            if restarted or self.suspected.get(pair, False):
                self.suspected[pair] = False
                host.raft.peer_up(other, restarted, self.now(host))
                self.after(host)
        elif self.now_ms - seen_ms > DETECT_MS * (
            4 if self.healed else 1
        ) and not self.suspected.get(pair, False):
            self.suspected[pair] = True
            host.raft.peer_down(other, self.now(host))
            self.after(host)

    # --- load -----------------------------------------------------------------------------------

    def leaders(self) -> list[Host]:
        """Those that think they lead."""
        return [
            host
            for host in self.hosts.values()
            if host.alive and host.raft.is_leader and self.paused[host.node] <= self.now_ms
        ]

    def work(self) -> None:
        """Clients: a few batches, a read now and then."""
        if self.now_ms < self.duration_ms:
            self.at(self.random.randint(1, 120), self.work)
        for host in self.leaders():
            if host.raft.can_propose():
                for _ in range(self.random.randint(0, 4)):
                    self.payload += 1
                    self.counts["proposed"] += 1
                    host.propose(self.payload)
            if self.random.randrange(3) == 0:
                self.read(host)
            self.after(host)

    def read(self, host: Host) -> None:
        """A client reads from who it thinks leads."""
        self.context += 1
        self.checks.reads[self.context] = self.checks.top
        host.raft.read(self.context)

    # --- faults ---------------------------------------------------------------------------------

    def schedule_faults(self) -> None:
        swarm, random = self.swarm, self.random
        plans: list[tuple[int, Callable[[], None]]] = [
            (swarm.crashes, self.fault_crash),
            (swarm.cuts, self.fault_cut),
            (swarm.pauses, self.fault_pause),
            (swarm.members, self.change_members),
            (swarm.transfers, self.transfer),
            (swarm.compactions, self.compact),
        ]
        for count, action in plans:
            for _ in range(count):
                self.at(random.randrange(500, self.duration_ms), action)

    def fault_crash(self) -> None:
        """One node, or now and then all of them."""
        random = self.random
        alive = [node for node in self.hosts if self.hosts[node].alive]
        victims = alive if random.randrange(6) == 0 else alive[:]
        if victims is not alive and victims:
            leading = [host.node for host in self.leaders()]
            pick = leading if leading and random.randrange(2) else victims
            victims = [random.choice(pick)]
        for node in victims:
            self.crash(node)
            self.at(random.choice((20, 200, 1_500)), lambda node=node: self.restart(node))

    def fault_cut(self) -> None:
        """A one-way cut, a split, one node alone, or all links but those of one node."""
        random, nodes = self.random, self.nodes
        shape = random.randrange(5)
        pairs = [(a, b) for a in nodes for b in nodes if a != b]
        if shape == 0:
            chosen = random.sample(pairs, random.randint(1, 6))
        elif shape == 1:
            side = set(random.sample(nodes, random.randint(1, 6)))
            chosen = [(a, b) for a, b in pairs if (a in side) != (b in side)]
        elif shape == 2:
            alone = random.choice(nodes)
            chosen = [(a, b) for a, b in pairs if alone in (a, b)]
        elif shape == 3:
            hub = random.choice(nodes[: self.swarm.size])
            chosen = [(a, b) for a, b in pairs if hub not in (a, b)]
        else:
            a, b = random.sample(nodes[: max(2, self.swarm.size)], 2)
            chosen = [(a, b), (b, a)]
        self.note(f"cut {' '.join(a + '>' + b for a, b in chosen)}")
        for pair in chosen:
            self.cut[pair] = True

        def mend() -> None:
            for pair in chosen:
                self.cut[pair] = False

        self.at(random.choice((300, 1_500, 4_000)), mend)

    def fault_pause(self) -> None:
        node = self.random.choice(sorted(self.hosts))
        self.paused[node] = self.now_ms + self.random.choice((100, 800, 3_000))
        self.note(f"{node} pauses until {self.paused[node]}")

    def compact(self) -> None:
        for host in self.hosts.values():
            if host.alive and self.random.randrange(2) and host.applied > host.base:
                host.compact(host.applied)

    def transfer(self) -> None:
        for host in self.leaders():
            host.raft.transfer(self.random.choice(self.nodes), self.now(host))
            self.after(host)

    def change_members(self) -> None:
        """Add, promote, demote or remove one; at whoever leads."""
        for host in self.leaders():
            members = list(host.raft.members)
            node = self.random.choice(self.nodes)
            present = [member for member in members if member.node == node]
            if not present:
                voter = self.random.randrange(3) == 0
                members.append(Replica(node, self.incarnation_to_add(node), voter))
            elif self.random.randrange(2):
                members.remove(present[0])
            else:
                at = members.index(present[0])
                members[at] = Replica(node, present[0].incarnation, not present[0].voter)
            if host.raft.propose_config(members) == "":
                self.note(f"{host.node} proposes {describe_members(members)}")
                added = self.incarnations[node]
                if not present and (node, added) not in self.disks:
                    self.disks[node, added] = Disk([])
                    self.boot(node)
            self.after(host)

    def incarnation_to_add(self, node: str) -> int:
        """A copy that was never removed for good is added again; otherwise a new one begins."""
        incarnation = self.incarnations[node]
        if incarnation == 0 or self.removed_for_good(node, incarnation):
            old = self.hosts.pop(node, None)
            if old is not None:
                old.alive = False
            self.incarnations[node] = incarnation + 1
        return self.incarnations[node]

    def removed_for_good(self, node: str, incarnation: int) -> bool:
        """Whether the newest committed configuration lacks a copy that an older one had."""
        was = False
        now = False
        for host in self.hosts.values():
            for config in host.raft.state.configs._history:
                present = config.has(node, incarnation)
                was = was or present
            now = now or host.raft.state.config().has(node, incarnation)
        newest = max(
            (host.raft.state.configs.at(host.raft.commit_index) for host in self.hosts.values()),
            key=lambda config: config.index,
        )
        return was and not now and not newest.has(node, incarnation)

    # --- the end --------------------------------------------------------------------------------

    def heal(self) -> None:
        """No faults from here on."""
        self.note("everything heals")
        self.healed = True
        self.cut.clear()
        for node in self.nodes:
            self.paused[node] = min(self.paused[node], self.now_ms)
            self.restart(node)
        self.swarm.disk_ms = min(self.swarm.disk_ms, 10)
        self.swarm.delay_ms = min(self.swarm.delay_ms, 5)
        self.swarm.report_ms = min(self.swarm.report_ms, 10)

    def check_progress(self) -> None:
        """Within bounded time, a leader commits a new entry, and every member applies it."""
        goals: dict[tuple[str, int], int] = {}

        def done() -> bool:
            leaders = self.leaders()
            for host in leaders:
                key = (host.node, host.raft.term)
                if key not in goals and host.raft.can_propose():
                    self.payload += 1
                    goals[key] = self.payload
                    host.propose(self.payload)
                    self.after(host)
            if len(leaders) != 1:
                return False
            leader = leaders[0]
            goal = goals.get((leader.node, leader.raft.term), -1)
            if goal < 0 or not self._knows(goal):
                return False
            for member in leader.raft.members:
                host = self.hosts[member.node]
                if not host.alive or host.applied < leader.applied:
                    return False
            return True

        if not self.run_until(self.now_ms + 30_000, done) and not self.halted():
            raise Violation(f"no progress after all healed: {self.summary()}")

    def _knows(self, payload: int) -> bool:
        return any(found == payload for _, found in self.checks.committed.values())

    def halted(self) -> bool:
        """Whether a damaged disk holds what all may have lost: no answer beats a wrong one."""
        return any(not host.raft.state.is_vote_eligible() for host in self.hosts.values())

    def check_silence(self) -> None:
        """An idle group is silent and wants no ticks."""
        if self.halted():
            return
        self.run_until(self.now_ms + 10_000)
        before = self.sent
        self.run_until(self.now_ms + 5_000)
        demand(self.sent == before, f"{self.sent - before} messages in an idle group")
        for host in self.hosts.values():
            demand(host.raft.deadline_ms == -1, f"{host.node} wants ticks in an idle group")
        leaders = self.leaders()
        demand(len(leaders) == 1, f"{len(leaders)} leaders in the end")
        for member in leaders[0].raft.members:
            host = self.hosts[member.node]
            demand(host.raft.leader == leaders[0].node, f"{host.node} follows somebody else")
            demand(host.applied == leaders[0].applied, f"{host.node} is behind in the end")

    def summary(self) -> str:
        """One line on each member."""
        return "; ".join(
            f"{host.node}/{host.incarnation} {host.raft.role_name} term {host.raft.term}"
            f" last {host.last} commit {host.raft.commit_index} leader {host.raft.leader!r}"
            f" of {describe_members(host.raft.members)}"
            for host in self.hosts.values()
        )


def describe(message: Message) -> str:
    """A message for people."""
    skip = ("sender", "sender_incarnation", "target", "target_incarnation")
    values = []
    for name in dir(message):
        if name[0] != "_" and name not in skip and not callable(getattr(message, name)):
            value = getattr(message, name)
            values.append(f"{name}={len(value) if isinstance(value, list) else value}")
    return f"{type(message).__name__} {' '.join(values)}"


def describe_members(members: list[Replica]) -> str:
    """Members for people; learners in brackets."""
    return ",".join(
        f"{member.node}/{member.incarnation}" if member.voter else f"[{member.node}]"
        for member in members
    )
