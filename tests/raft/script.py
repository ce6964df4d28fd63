"""Plays scenarios written as text: commands, and below each what the members do about it.

    # a comment
    group a b [c]            the first members; learners in brackets
    new d                    an empty copy that is no member yet
    timeout a                let a's clock reach its next deadline
    wait 500                 let all clocks go on
    deliver  |  deliver a>b  hand over the messages that are on their way, not those that follow
    drop     |  drop a>b     lose them
    sync     |  sync a       let the writes queued so far become durable
    run                      deliver and sync until nothing moves
    cut a>b  |  heal         lose what is sent on a link from now on; or no more
    down a b |  up a b       the failure detector of a suspects b, or does so no more
    restarted a b            it has seen that b runs anew
    propose a 3              append three batches at a
    members a b c [d]        the first name proposes the members that follow
    transfer a b  |  read a 7  |  snapshot a  |  crash a  |  restart a  |  show

`quiet` before a command leaves its lines out. Lines of a transcript that begin with two blanks are
the expected answer. With `WARREN_REWRITE=1` in the environment the answers are written anew, to be
reviewed as a diff.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.raft.checks import Checks
from tests.raft.disk import Disk, Entry, Snapshot, Write
from tests.raft.host import Host
from warren.raft import effects as fx
from warren.raft import messages as ms
from warren.raft.members import Replica
from warren.raft.raft import Options


class Script:
    """A cluster that moves only when it is told to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.hosts: dict[str, Host] = {}
        self.disks: dict[tuple[str, int], Disk] = {}
        self.checks = Checks(self)
        self.now_ms = 0
        self.flying: list[tuple[ms.Message, Any]] = []
        self.cuts: set[tuple[str, str]] = set()
        self.payload = 0
        self.entries_max = 100
        self.boots: dict[str, int] = {}

    def play(self, command: str) -> list[str]:
        """Carry out one command; the lines it gives rise to."""
        self.lines = []
        words = command.split()
        quiet = words[0] == "quiet"
        if quiet:
            words = words[1:]
        getattr(self, f"do_{words[0]}")(*words[1:])
        return [] if quiet else self.lines

    def say(self, text: str) -> None:
        self.lines.append(text)

    # --- what hosts ask for ---------------------------------------------------------------------

    def now(self, host: Host) -> int:
        return self.now_ms

    def appended(self, host: Host, index: int, entry: Entry) -> None:
        self.checks.appended(host, index, entry.term, entry.payload)

    def applied(self, host: Host, index: int, entry: Entry) -> None:
        self.checks.applied(host, index, entry.term, entry.payload)

    def installed(self, host: Host, snapshot: Snapshot) -> None:
        self.say(f"{host.node}: installs the snapshot up to {snapshot.index}")

    def readable(self, host: Host, message: ms.Append) -> int:
        return min(message.last_index, message.prev_index + self.entries_max)

    def write(self, host: Host, write: Write) -> None:
        host.disk.queue.append(write)

    def later(self, host: Host, action: Any) -> None:
        action()

    def send(self, host: Host, message: ms.Message, extra: Any) -> None:
        lost = (message.sender, message.target) in self.cuts
        self.say(tell_message(message) + (" (lost)" if lost else ""))
        if not lost:
            self.flying.append((message, extra))
        if isinstance(message, ms.SnapshotOffer):
            host.raft.snapshot_sent(message, not lost, self.now_ms)

    def effect(self, host: Host, effect: fx.Effect) -> None:
        text = tell_effect(effect)
        if text:
            self.say(f"{host.node}: {text}")
        if isinstance(effect, fx.ReadReady):
            self.checks.reads.setdefault(effect.context, 0)
        self.checks.effect(host, effect)

    # --- commands -------------------------------------------------------------------------------

    def do_group(self, *names: str) -> None:
        members = [Replica(name.strip("[]"), 1, "[" not in name) for name in names]
        for member in members:
            self.disks[member.node, 1] = Disk(members)
            self.do_restart(member.node)

    def do_new(self, node: str) -> None:
        self.disks[node, 1] = Disk([])
        self.do_restart(node)

    def do_batch(self, entries_max: str) -> None:
        self.entries_max = int(entries_max)

    def do_restart(self, node: str) -> None:
        self.boots[node] = self.boots.get(node, 0) + 1
        seed = sum(node.encode())
        host = Host(self, node, 1, self.disks[node, 1], Options(), seed)
        self.hosts[node] = host
        host.raft.start(self.now_ms)
        self.settle(host)

    def do_crash(self, node: str) -> None:
        """Nothing that was queued has made it."""
        host = self.hosts[node]
        host.alive = False
        host.disk.queue.clear()
        host.disk.crash(Random(0))

    def do_damage(self, node: str, keep: str) -> None:
        self.disks[node, 1].damage(int(keep))

    def settle(self, host: Host) -> None:
        host.drain()
        host.end_turn()
        self.checks.invariants(host)

    def do_timeout(self, node: str) -> None:
        host = self.hosts[node]
        assert host.raft.deadline_ms >= 0, f"{node} waits for nothing"
        self.now_ms = max(self.now_ms, host.raft.deadline_ms)
        host.raft.tick(self.now_ms)
        self.settle(host)

    def do_wait(self, ms_more: str) -> None:
        self.now_ms += int(ms_more)
        for host in self.hosts.values():
            if host.alive:
                host.raft.tick(self.now_ms)
                self.settle(host)

    def take(self, link: str) -> list[tuple[ms.Message, Any]]:
        """The messages on their way on a link, or on all; they are no longer."""
        taken = [
            (message, extra)
            for message, extra in self.flying
            if not link or link in (f"{message.sender}>{message.target}", f">{message.target}")
        ]
        self.flying = [pair for pair in self.flying if pair not in taken]
        return taken

    def do_deliver(self, link: str = "") -> None:
        for message, extra in self.take(link):
            host = self.hosts[message.target]
            if host.alive:
                host.receive(message, extra)
                self.settle(host)

    def do_drop(self, link: str = "") -> None:
        self.take(link)

    def do_sync(self, node: str = "") -> None:
        for host in self.hosts.values():
            if host.alive and node in ("", host.node):
                for write in list(host.disk.queue):
                    host.disk.queue.pop(0)
                    host.disk.apply(write)
                    host.written(write)
                self.settle(host)

    def do_run(self) -> None:
        for _ in range(100):
            if not self.flying and not any(
                host.alive and host.disk.queue for host in self.hosts.values()
            ):
                return
            self.do_sync()
            self.do_deliver()
        raise AssertionError("it never ends")

    def do_cut(self, *links: str) -> None:
        for link in links:
            source, target = link.split(">")
            self.cuts.add((source, target))

    def do_split(self, *pairs: str) -> None:
        """Both directions of links, written a-b."""
        for pair in pairs:
            a, b = pair.split("-")
            self.do_cut(f"{a}>{b}", f"{b}>{a}")
            self.do_down(a, b)
            self.do_down(b, a)

    def do_join(self, *pairs: str) -> None:
        for pair in pairs:
            a, b = pair.split("-")
            self.cuts -= {(a, b), (b, a)}
            self.do_up(a, b)
            self.do_up(b, a)

    def do_heal(self) -> None:
        self.cuts.clear()

    def do_down(self, node: str, other: str) -> None:
        host = self.hosts[node]
        host.raft.peer_down(other, self.now_ms)
        self.settle(host)

    def do_up(self, node: str, other: str) -> None:
        host = self.hosts[node]
        host.raft.peer_up(other, False, self.now_ms)
        self.settle(host)

    def do_restarted(self, node: str, other: str) -> None:
        host = self.hosts[node]
        host.raft.peer_up(other, True, self.now_ms)
        self.settle(host)

    def do_propose(self, node: str, count: str = "1") -> None:
        host = self.hosts[node]
        if not host.raft.can_propose():
            self.say(f"{node}: takes no commands")
            return
        for _ in range(int(count)):
            self.payload += 1
            host.propose(self.payload)
        self.settle(host)

    def do_members(self, node: str, *names: str) -> None:
        host = self.hosts[node]
        members = [Replica(name.strip("[]"), 1, "[" not in name) for name in names]
        reason = host.raft.propose_config(members)
        if reason:
            self.say(f"{node}: refuses: {reason}")
        self.settle(host)

    def do_alone(self, node: str) -> None:
        host = self.hosts[node]
        self.checks.alone.add(node)
        reason = host.raft.go_on_alone(self.now(host))
        if reason:
            self.say(f"not alone: {reason}")
        self.settle(host)

    def do_transfer(self, node: str, target: str) -> None:
        host = self.hosts[node]
        reason = host.raft.transfer(target, self.now_ms)
        if reason:
            self.say(f"{node}: refuses: {reason}")
        self.settle(host)

    def do_read(self, node: str, context: str) -> None:
        host = self.hosts[node]
        self.checks.reads[int(context)] = self.checks.top
        host.raft.read(int(context))
        self.settle(host)

    def do_snapshot(self, node: str) -> None:
        host = self.hosts[node]
        host.compact(host.applied)
        self.do_sync(node)

    def do_show(self) -> None:
        for host in self.hosts.values():
            if not host.alive:
                self.say(f"{host.node}: crashed")
                continue
            state = host.raft.state
            runs = " ".join(f"{first}:t{term}" for first, term in state.log.pairs())
            wait = "waits" if host.raft.deadline_ms >= 0 else "idle"
            self.say(
                f"{host.node}: {host.raft.role_name} term {state.term}"
                f" leader {state.leader or '-'} log ({state.log.snapshot_index}) {runs}"
                f" to {state.log.last_index}, durable {state.persisted_index},"
                f" committed {state.commit_index}, {wait}"
            )


def tell_members(members: list[Replica]) -> str:
    """Members in a line."""
    return " ".join(m.node if m.voter else f"[{m.node}]" for m in members)


def tell_message(message: ms.Message) -> str:
    """A message in a line."""
    head = f"{message.sender}>{message.target} {type(message).__name__} t{message.term}"
    if isinstance(message, ms.Append):
        count = message.last_index - message.prev_index
        what = f"{message.prev_index + 1}..{message.last_index}" if count else "nothing"
        return (
            f"{head} {what} behind {message.prev_index}:t{message.prev_term}"
            f" commit {message.commit_index}"
        )
    if isinstance(message, ms.AppendReply):
        if not message.accepted:
            return f"{head} no, {message.hint_index}:t{message.hint_term} perhaps"
        return (
            f"{head} durable {message.match_index} received {message.received_index}"
            f" commit {message.commit_index}"
        )
    if isinstance(message, ms.PreVote | ms.Vote):
        return f"{head} last {message.last_index}:t{message.last_term}"
    if isinstance(message, ms.PreVoteReply):
        why = f" {message.leader} leads" if message.leader else ""
        out = " you are out" if message.removed else ""
        return f"{head} {'yes' if message.granted else 'no'}{why}{out}"
    if isinstance(message, ms.VoteReply):
        return f"{head} {'yes' if message.granted else 'no'}"
    if isinstance(message, ms.SnapshotOffer):
        return f"{head} up to {message.index}:t{message.snapshot_term}"
    if isinstance(message, ms.ReadProbe | ms.ReadAck):
        return f"{head} round {message.round}"
    return head


def tell_effect(effect: fx.Effect) -> str:
    """An effect in a line; "" for those that show otherwise."""
    if isinstance(effect, fx.PersistState):
        return f"writes term {effect.term}, vote {effect.voted_for or '-'}"
    if isinstance(effect, fx.StoreEntries):
        return f"stores {effect.first_index}..{effect.message.last_index}"
    if isinstance(effect, fx.Truncate):
        return f"truncates from {effect.from_index}"
    if isinstance(effect, fx.Committed):
        return f"applies up to {effect.index}"
    if isinstance(effect, fx.ConfigChanged):
        return f"members {tell_members(effect.members)}"
    if isinstance(effect, fx.BecameLeader):
        return f"leads term {effect.term}"
    if isinstance(effect, fx.BecameFollower):
        return f"follows {effect.leader or 'nobody'} in term {effect.term}"
    if isinstance(effect, fx.ReadReady):
        return f"read {effect.context} is good at {effect.index}"
    if isinstance(effect, fx.ReadRefused):
        return f"read {effect.context} is refused"
    if isinstance(effect, fx.TransferDone):
        return f"handed over to {effect.node}"
    if isinstance(effect, fx.TransferFailed):
        return f"could not hand over to {effect.node}"
    if isinstance(effect, fx.Removed):
        return "hears that it is out"
    return ""
