"""What is committed, as all members together show it, and what has to follow from it.

- Whatever one member applies at an index, every member applies there: same term, session,
  sequence and bytes.
- A term of a group has at most one leader.
- Members that have applied the same entries have the same state, and it is the one that the
  entries alone give, however a member came by it: applied one by one, replayed, or from a snapshot.
  So has a node that uses a queue without holding it, although it is fed entries without bodies.
- The time of an entry is never before that of the one before it.
- A reader's lease lasts as long as it asked for, whatever wall clocks say, from when its call came
  into the log that is committed.
- The entries of a session are numbered from 1 without gaps; of a session that was closed none
  follows; a publish is in the log of a queue once, and behind those that its channel published
  before.
- What is confirmed is committed.
- What deletes a queue takes no later one of the same name.

What members vouch for is in `vouching`.

Source: R-01 to R-07, R-15, R-25; G-01, G-09, G-12 and G-13.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple, final

from sim.checkers.replay import describe as describe_fifo
from sim.cluster.handed import MARK, Handed
from sim.cluster.schedule import MS
from sim.cluster.vouching import Vouching
from sim.journal import scan
from sim.model import NEVER, Message, QueueState, Violation
from sim.room import check_room
from warren.errors import CorruptRecord
from warren.log.batch import KIND_COMMAND, Batch, Header
from warren.metadata import commands, encoding
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.node.node import Node
from warren.node.replay import replay
from warren.node.store import METADATA_GROUP
from warren.queues.fifo import commands as commands_of_queues
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo
from warren.raft.state import LEADER, State
from warren.replication.machine import Machine
from warren.replication.member import Member
from warren.replication.observer import Observer
from warren.replication.raft_entries import RAFT_SESSION, closed_sessions, is_members

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

Entry = tuple[int, int, int, int, bytes]
"""Term, session, sequence, kind, and the whole batch as it is stored."""


def entry_of(batch: Batch) -> Entry | None:
    """What an entry is; None if the batch has not kept its bytes."""
    if int(batch.payload_size) and not batch.payload:
        return None
    return (
        int(batch.term),
        int(batch.session),
        int(batch.sequence),
        int(batch.kind),
        bytes(batch.encoded()),
    )


def batch_of(entry: Entry) -> Batch:
    """The entry to be applied anew."""
    data = entry[4]
    header = Header()
    problem = header.load(data, 0, len(data))
    assert not problem, problem
    return header.batch(None, data, 0)


class Lease(NamedTuple):
    """What a group of readers has of a queue.

    Attributes:
        epoch, lease_ms, seen_ms: As the machine has them.
        at_us: When what made it so came into a leader's log. That may take long to be committed,
            and a leader that waits for a majority goes on counting.
    """

    epoch: int
    lease_ms: int
    seen_ms: int
    at_us: int


@final
class Group:
    """One group's entries, and the state that they give.

    Attributes:
        entries: By index, from 1 without a hole.
        digests: Of the state behind each entry.
        published: Where each publish is, by the message's number.
        sessions: The last sequence of each session.
        purged: The last entry that purged the queue.
        changed: Whether the last entry brought or took consumers, or what cancelled ones had.
        deleted: Whether the queue is. A node that has dropped its copy, and at its next start does
            not know yet that this was committed, begins another one; of that nobody is promised
            anything.
        outcome: What the last entry changed in the tables.
        appended: When a leader took what is not committed yet, by index and term.
        handed: What the entries say of messages, if there is a feed.
        ahead: Whether a member ended that had applied what its disk may not have.
    """

    def __init__(self, group_id: int, handed: Handed | None = None) -> None:
        self.id = group_id
        self.entries: list[Entry] = []
        self.digests: list[int] = []
        self.published: dict[int, int] = {}
        self.sessions: dict[int, int] = {}
        self.closed: set[int] = set()
        self.purged = 0
        self.changed = False
        self.stamp_ms = 0
        self.holed = False
        self.deleted = False
        self.outcome = Outcome()
        self.appended: dict[tuple[int, int], int] = {}
        self.handed = handed
        self.ahead = False
        self._channels: dict[int, int] = {}
        self._leases: dict[str, Lease] = {}
        self._fifo = Fifo(NOT_SET_UP, False)
        self._tables = MetadataMachine()

    def append(self, entry: Entry, messages: dict[int, Message], now_us: int) -> list[int]:
        """The next entry is committed; the sessions that it closes."""
        self.entries.append(entry)
        index = len(self.entries)
        batch = batch_of(entry)
        if batch.stamp_ms < self.stamp_ms:
            raise Violation(
                f"group {self.id}: entry {index} is of {batch.stamp_ms}, behind {self.stamp_ms}"
            )
        self.stamp_ms = int(batch.stamp_ms)
        closed = self._follow(batch)
        if self.id == METADATA_GROUP:
            self.outcome = Outcome()
            if batch.session != RAFT_SESSION:
                self._apply_change(index, encoding.decode(batch.body()))
            state = self._tables.snapshot()
        else:
            if batch.kind != KIND_COMMAND:
                self._check_publishes(batch, messages)
            elif purges(batch.body()):
                self.purged = index
            consumers = standing(self._fifo)
            replay(self._fifo, batch, self.handed)
            check_room(self._fifo)
            self._check_leases(now_us, self.appended.pop((index, entry[0]), now_us))
            self.changed = consumers != standing(self._fifo)
            state = self._fifo.encode()
        self.digests.append(zlib.crc32(state))
        return closed

    def _check_leases(self, now_us: int, appended_us: int) -> None:
        """Nobody's rows are given to others before the lease on them is over."""
        for name in self._leases.keys() - self._fifo.groups.keys():
            del self._leases[name]
        for name, group in self._fifo.groups.items():
            now = Lease(int(group.epoch), int(group.lease_ms), int(group.seen_ms), appended_us)
            before = self._leases.get(name)
            if before is None or now[:3] != before[:3]:
                self._leases[name] = now
            if before is None or now.seen_ms != before.seen_ms or now.lease_ms > 0:
                continue
            lasted_ms = (now_us - before.at_us) // MS
            if lasted_ms < before.lease_ms:
                raise Violation(
                    f"group {self.id}: the lease of {name} on {before.lease_ms} ms ended after "
                    f"{lasted_ms} ms"
                )

    def _apply_change(self, index: int, command: commands.Command) -> None:
        """A deletion takes the queue that it was decided for, and no later one."""
        outcome = self._tables.apply(index, command)
        self.outcome = outcome
        if isinstance(command, commands.DeleteQueue):
            for record in outcome.deleted_queues:
                if record.group_id != command.group_id:
                    raise Violation(
                        f"entry {index} of the tables deletes {command.group_id}, and took "
                        f"{record.group_id} of the same name {record.name}"
                    )

    def compare(self, index: int, state: bytes) -> str:
        """A member's state beside the right one, in words."""
        if self.id == METADATA_GROUP:
            tables = MetadataMachine()
            for at, entry in enumerate(self.entries[:index], 1):
                batch = batch_of(entry)
                if batch.session != RAFT_SESSION:
                    tables.apply(at, encoding.decode(batch.body()))
            return f"{state!r}, not {tables.snapshot()!r}"
        found, wanted = Fifo(NOT_SET_UP, False), Fifo(NOT_SET_UP, False)
        found.restore(state)
        for entry in self.entries[:index]:
            replay(wanted, batch_of(entry))
        return f"{describe_fifo(found)}, not {describe_fifo(wanted)}"

    def _follow(self, batch: Batch) -> list[int]:
        """Mind the numbers of sessions."""
        session, index = int(batch.session), len(self.entries)
        if session > 0:
            last = self.sessions.get(session, 0)
            if session in self.closed:
                raise Violation(
                    f"group {self.id}: entry {index} is of session {session}, closed before"
                )
            if batch.sequence != last + 1:
                raise Violation(
                    f"group {self.id}: entry {index} is #{batch.sequence} of session {session}, "
                    f"behind #{last}"
                )
            self.sessions[session] = int(batch.sequence)
            return []
        closed = closed_sessions(batch) if session == RAFT_SESSION else []
        self.closed.update(closed)
        return closed

    def _check_publishes(self, batch: Batch, messages: dict[int, Message]) -> None:
        index = len(self.entries)
        for number in dict.fromkeys(int(found) for found in MARK.findall(batch.body())):
            message = messages.get(number)
            if message is None:
                raise Violation(f"group {self.id}: entry {index} has what nobody published")
            before = self.published.setdefault(number, index)
            if before != index:
                raise Violation(f"{message} is in group {self.id} twice: {before} and {index}")
            last = self._channels.get(message.channel, 0)
            if message.sequence <= last:
                raise Violation(f"{message} is in group {self.id} behind #{last} of its channel")
            self._channels[message.channel] = message.sequence


@final
class Seen:
    """How far one process's member has been looked at: what it applied, and its log's end; its
    state, and the last term in which it led."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.state: State | None = None
        self.led = -1
        self.applied = -1
        self.last = int(member.log.last_index)
        ahead = member._entries
        batches = [ahead.at(place) for place in range(ahead.size())]
        self.pending = {int(batch.index): batch for batch in batches}


class Compared(NamedTuple):
    """An observer, and the entry at which its state was looked at last."""

    observer: Observer
    applied: int


@final
class Ledger:
    """See the module's head.

    Attributes:
        groups: What is committed, by group.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self.groups: dict[int, Group] = {}
        self._leaders: dict[tuple[int, int], str] = {}
        self._vouching = Vouching()
        self._seen: dict[str, dict[int, Seen]] = {}
        self._compared: dict[str, dict[int, Compared]] = {}

    def began(self, site: Site) -> None:
        """A process has begun."""
        self._seen[site.name] = {}
        self._compared[site.name] = {}
        deleted = {group.id for group in self.groups.values() if group.deleted}
        self._vouching.began(site, deleted)

    def ending(self, site: Site) -> None:
        """A process is about to be gone."""
        self._vouching.ended(site)
        assert site.node is not None
        for group_id, member in site.node.cluster.members.items():
            if member.is_ahead():
                self._group(int(group_id)).ahead = True

    def handed(self) -> dict[int, Handed]:
        """What the entries of queues say of their messages, where all that was applied is known."""
        return {
            group.id: group.handed
            for group in self.groups.values()
            if group.handed is not None and not (group.holed or group.deleted or group.ahead)
        }

    def restored(self, site: Site) -> None:
        """The disk of a process that is gone is put back to an older copy."""
        self._vouching.restored(site)

    def begun_anew(self, site: Site) -> None:
        """A process whose disk was put back is up."""
        deleted = {group.id for group in self.groups.values() if group.deleted}
        self._vouching.begun_anew(site, deleted)

    def forget(self, group_id: int) -> None:
        """The only copy of a queue is lost: nobody is promised anything of it any more."""
        self._group(group_id).deleted = True

    def watch(self, site: Site) -> None:
        """Look at what an event has changed."""
        node = site.node
        assert node is not None
        seen = self._seen[site.name]
        if site.rotten:
            self._vouching.rots(site)
        for group_id, member in node.cluster.members.items():
            known = seen.get(group_id)
            if known is None or known.member is not member:
                known = Seen(member)
                seen[group_id] = known
            state = member.raft.state
            if known.state is not state:
                known.state = state
                self._vouching.found(site, int(group_id), state)
            leads = state.role == LEADER
            if leads and state.term != known.led:
                known.led = int(state.term)
                self._leads(site, group_id, known.led)
            last = member.log.last_index
            if last != known.last:
                for index in range(known.last + 1, last + 1):
                    batch = member.log.recent(index)
                    if batch is not None:
                        # It may have left memory when it is applied.
                        known.pending[index] = batch
                if leads and group_id != METADATA_GROUP:
                    self._appended(group_id, known.last + 1, last, int(state.term))
                known.last = last
            applied = member.applied_index
            if applied != known.applied:
                self._applied(site, node, member, known, applied)
                known.applied = applied
                if group_id == METADATA_GROUP and self._group(METADATA_GROUP).holed:
                    self._unnamed(node, seen)
        self._watch_observers(site, node)

    def _unnamed(self, node: Node, seen: dict[int, Seen]) -> None:
        """Tables whose entries cannot all be seen say themselves which queues are deleted."""
        named = {
            int(record.group_id)
            for tables in node.metadata.vhosts.values()
            for record in tables.queues_in_order()
        }
        for group_id in seen:
            if group_id != METADATA_GROUP and group_id not in named:
                self._group(group_id).deleted = True

    def _watch_observers(self, site: Site, node: Node) -> None:
        """Compare what observers have with what its entries give.

        An observer applies nothing ahead of its group and leaves nothing out. It may have what no
        member has shown yet, of one that stopped as it fed it: then it is looked at again later.
        """
        compared = self._compared[site.name]
        for group_id, observed in node.observers._observed.items():
            observer = observed.observer
            applied = int(observer.applied_index)
            known = compared.get(group_id)
            if known is not None and known.observer is observer and known.applied == applied:
                continue
            group = self._group(group_id)
            if applied == 0 or group.holed or group.deleted or applied > len(group.digests):
                continue
            compared[group_id] = Compared(observer, applied)
            self._world.count("observers compared")
            self._check_state(group, f"{site.name}, an observer,", observer.machine, applied)

    def _leads(self, site: Site, group_id: int, term: int) -> None:
        if group_id in self.groups and self.groups[group_id].deleted:
            return
        who = f"{site.name} in life {site.life}"
        before = self._leaders.get((group_id, term))
        if before is None:
            self._leaders[group_id, term] = who
            self._world.count("elections")
            self._world.say("%s leads group %d in term %d", site.name, group_id, term)
        elif before != who:
            raise Violation(f"group {group_id}: {before} and {who} both lead term {term}")

    def _appended(self, group_id: int, first: int, last: int, term: int) -> None:
        appended = self._group(group_id).appended
        for index in range(first, last + 1):
            appended.setdefault((index, term), self._world.schedule.now_us)

    def _applied(self, site: Site, node: Node, member: Member, seen: Seen, applied: int) -> None:
        group_id = int(member.group_id)
        group = self._group(group_id)
        if group.holed or group.deleted:
            return
        if 0 < applied < seen.applied:
            # Nothing at all is what a snapshot leaves that did not come whole.
            raise Violation(
                f"group {group_id}: {site.name} had applied {seen.applied} and now {applied}"
            )
        first = max(0, seen.applied) + 1
        if seen.applied < 0:
            # Recovered: what is known has been checked when it was applied first.
            first = len(group.entries) + 1
        if seen.applied >= 0 and applied == member.log.snapshot_index and applied - first > 0:
            if member.log.recent(applied) is None:
                self._world.count("snapshots installed")
        found: dict[int, Entry] = {}
        for index in range(first, applied + 1):
            batch = member.log.recent(index)
            if batch is None and member.log.cut_count() == 0:
                batch = seen.pending.get(index)
            entry = None if batch is None else entry_of(batch)
            if entry is None and index > len(group.entries):
                if not found and not site.rotten:
                    found = self._on_disk(node, group_id)
                entry = found.get(index)
                if entry is None:
                    self._world.count("groups with holes")
                    self._world.say("group %d: entry %d cannot be seen", group_id, index)
                    group.holed = True
                    self._world.unseen(group_id)
                    return
            seen.pending.pop(index, None)
            if entry is not None:
                self._take(site, group, index, entry)
        self._compare(site, group, member, applied)

    def _on_disk(self, node: Node, group_id: int) -> dict[int, Entry]:
        entries: dict[int, Entry] = {}
        for file in node.log._store.files:
            try:
                batches = scan(file)
            except CorruptRecord:
                # A bit of it was flipped; what else it has is not looked for.
                continue
            for batch in batches:
                if int(batch.group_id) == group_id:
                    entry = entry_of(batch)
                    if entry is not None:
                        entries[int(batch.index)] = entry
        return entries

    def _take(self, site: Site, group: Group, index: int, entry: Entry) -> None:
        if index <= len(group.entries):
            known = group.entries[index - 1]
            if known != entry:
                raise Violation(
                    f"group {group.id}: {site.name} applied {describe(entry)} as entry {index}, "
                    f"others {describe(known)}"
                )
            return
        self._world.count("committed entries")
        self._vouching.check_committed(group.id, index, entry[0])
        closed = group.append(entry, self._world.messages, self._world.schedule.now_us)
        if group.id == METADATA_GROUP:
            self._tables_changed(index, group.outcome)
        if entry[1] == RAFT_SESSION and is_members(batch_of(entry)):
            self._world.count("members changed")
        elif entry[1] == 0 and entry[3] == KIND_COMMAND:
            for session in suspects(batch_of(entry).body()):
                self._world.suspected(group.id, session)
        if closed:
            self._world.count("sessions closed", len(closed))
            self._world.closed(group.id, index, closed)
        if group.changed:
            self._world.consumers_changed(group.id)

    def _tables_changed(self, index: int, outcome: Outcome) -> None:
        for record in outcome.deleted_queues:
            self._group(int(record.group_id)).deleted = True
        self._world.incarnations.changed(index, outcome)

    def _group(self, group_id: int) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = Group(group_id, Handed() if self._world.options.told else None)
            self.groups[group_id] = group
        return group

    def _compare(self, site: Site, group: Group, member: Member, applied: int) -> None:
        if applied == 0 or applied > len(group.digests):
            return
        if member.machine.unfinished():
            # Its last entry is in force in part: there is no state to compare yet.
            return
        if member.is_ahead():
            # Nor is it compared in this turn: it is when its disk has all that it has.
            self._world.count("machines ahead of their disks")
            return
        self._world.count("states compared")
        self._check_state(group, site.name, member.machine, applied)

    @staticmethod
    def _check_state(group: Group, who: str, machine: Machine, applied: int) -> None:
        state = machine.state()
        if zlib.crc32(state) != group.digests[applied - 1]:
            raise Violation(
                f"group {group.id}: {who} has another state than its entries give at "
                f"{applied}: {group.compare(applied, state)}"
            )

    def check_confirmed(self, message: Message) -> None:
        """A publish was confirmed: every queue that it went to has it."""
        found = sum(message.id in group.published for group in self.groups.values())
        wanted = sum(not copy.queue.single for copy in message.copies)
        if found < wanted and not any(g.holed for g in self.groups.values()):
            raise Violation(f"{message} was confirmed before it was committed")

    def may_be_purged(self, queue: QueueState, message: Message) -> bool:
        """Whether a purge of a quorum queue may have taken a message."""
        group = self.groups.get(self._world.group_of(queue))
        if group is None or group.holed:
            return message.step < queue.cleared_step
        return group.published.get(message.id, NEVER) < group.purged

    def check_agreement(self) -> None:
        """At the end all members have applied all that is committed."""
        for site in self._world.running():
            node = site.node
            assert node is not None
            for group_id, member in node.cluster.members.items():
                group = self.groups.get(group_id)
                if group is not None and member.applied_index != len(group.entries):
                    if not group.holed:
                        raise Violation(
                            f"group {group_id}: {site.name} has applied {member.applied_index} of "
                            f"{len(group.entries)} entries"
                        )


def standing(fifo: Fifo) -> list[tuple[int, bool, int]]:
    """The consumers of a queue, and what those still have that were cancelled.

    A node answers a cancel before it is committed, and gives back what came for it meanwhile.
    """
    consumers = fifo.consumers.values()
    return [(int(c.id), c.active, 0 if c.active else int(c.held)) for c in consumers]


def purges(body: bytes) -> bool:
    """Whether commands of a queue purge it; see `warren.queues.fifo.commands`."""
    at = 0
    while 0 <= at < len(body):
        if body[at] == commands_of_queues.PURGE:
            return True
        at = int(commands_of_queues.command_end(body, at, len(body)))
    return False


def suspects(body: bytes) -> list[int]:
    """The sessions whose nodes nobody hears, as commands of a queue's leader say."""
    found: list[int] = []
    at = 0
    while 0 <= at < len(body):
        if body[at] == commands_of_queues.SUSPECT:
            found.append(int.from_bytes(body[at + 1 : at + 9], "big"))
        at = int(commands_of_queues.command_end(body, at, len(body)))
    return found


def describe(entry: Entry) -> str:
    """An entry in a few words."""
    term, session, sequence, kind, data = entry
    return f"(term {term}, session {session} #{sequence}, kind {kind}, {len(data)} bytes)"
