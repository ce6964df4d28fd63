"""The same as `test_checkers`, of what is promised of clusters: by clients, members and entries."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sim import room
from sim.cluster import checkers, ledger, timeouts, vouching
from sim.cluster.checkers import (
    ActiveChecker,
    ClusterCheckoutChecker,
    ClusterDeliveryChecker,
    ClusterDurabilityChecker,
    ClusterLossChecker,
)
from sim.cluster.ledger import Group, Ledger, Seen
from sim.cluster.vouching import Vouching
from sim.model import Arrival, Copy, Holder, Message, QueueState
from sim.room import check_room
from tests.sim.forged import Forged, History, complained, complaints_in
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, Batch
from warren.metadata import commands, encoding
from warren.node.store import METADATA_GROUP
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo
from warren.raft.members import GroupConfig, Replica
from warren.replication.raft_entries import CLOSE, RAFT_SESSION

QUEUE = METADATA_GROUP + 4
"""A group of a queue."""

# --- clients ------------------------------------------------------------------------------------


def delivered_by_clusters_as_it_should_be() -> None:
    stage = Forged(ClusterDeliveryChecker, ClusterLossChecker)
    queue, gone, holder = stage.queue(), Holder("a"), Holder("b")
    message = stage.confirmed(queue)
    stage.give(message, gone)
    gone.alive = False
    stage.settle(stage.give(message, holder, True))
    stage.finish()


def again_after_it_was_settled_in_a_cluster() -> None:
    stage = Forged(ClusterDeliveryChecker)
    message, holder = stage.confirmed(stage.queue()), Holder("a")
    stage.settle(stage.give(message, holder))
    stage.start_again()
    stage.give(message, holder, True)


def failed(members: int) -> None:
    """A message with a limit of 0 fails, its queue's nodes start again, and it comes once more."""
    stage = Forged(ClusterDeliveryChecker)
    stage.group_size = members
    queue, holder = stage.queue(), Holder("a")
    queue.delivery_limit = 0
    message = stage.confirmed(queue)
    copy = stage.give(message, holder)
    copy.rejected, copy.holder = 1, None
    stage.start_again()
    stage.give(message, holder, True)


def beyond_the_limit_of_three_members() -> None:
    failed(3)


def beyond_the_limit_of_a_sole_member_that_started_again() -> None:
    failed(1)


def lost_in_a_cluster() -> None:
    stage = Forged(ClusterLossChecker)
    stage.confirmed(stage.queue())
    stage.finish()


def purged_or_lost_with_its_machine() -> None:
    stage = Forged(ClusterLossChecker)
    lost = stage.queue("classic")
    lost.lost = lost.single = True
    stage.confirmed(lost)
    stage.confirmed(stage.queue())
    stage.purged = True
    stage.finish()


def settlements(over: bool, kept: bool = False) -> None:
    """A message is settled through a node, and a later one through it is confirmed."""
    stage = Forged(ClusterDurabilityChecker, ClusterDeliveryChecker)
    checker = stage.checkers[0]
    assert isinstance(checker, ClusterDurabilityChecker)
    stage.kept = kept
    queue, holder = stage.queue(), Holder("a")
    copy = stage.give(stage.confirmed(queue), holder)
    checker.settled_through("n1", stage.turns, copy)
    stage.settle(copy)
    stage.turns += 1
    if not over:
        stage.confirmed(queue)
    checker.over("n1", queue.name)
    stage.give(copy.message, holder, True)


def settled_before_what_is_confirmed() -> None:
    settlements(False)


def settled_before_a_session_is_over() -> None:
    settlements(True)
    settlements(False, True)


# --- one active consumer, and those who hold messages for too long ------------------------------


def served(favour: int = 0, gone: bool = False, timeout_ms: int = -1) -> None:
    """One consumer is served, and then another one."""
    stage = Forged(ActiveChecker)
    queue, first, second = stage.queue(), Holder("a"), Holder("b")
    queue.single_active, queue.timeout_ms = True, timeout_ms
    first.subscribed = second.subscribed = True
    queue.came = [Arrival(0), Arrival(favour)]
    stage.give(stage.confirmed(queue), first)
    first.subscribed = not gone
    stage.give(stage.confirmed(queue), second)


def another_one_beside_the_active_consumer() -> None:
    served()


def another_one_in_the_place_of_the_active_consumer() -> None:
    served(gone=True)
    served(favour=7)
    served(timeout_ms=1)


def taken(held_ms: int, jumps: bool = False) -> None:
    """A message is taken from one that holds it, some time after it was published."""
    stage = Forged(ClusterDeliveryChecker)
    stage.wall_jumps = jumps
    queue = stage.queue()
    queue.timeout_ms = 200
    message = stage.confirmed(queue)
    holder = Holder("a")
    copy = stage.give(message, holder)
    stage.now += held_ms
    stage.timeouts.taken(copy, stage.now, Holder("b"))
    # No client of the stage holds it, so that it is one's that is gone.
    assert stage.counts["messages held too long"] == 1


def taken_too_early() -> None:
    taken(199)


def taken_in_time() -> None:
    taken(200)
    taken(0, True)


def a_row_settled_twice_in_a_cluster() -> None:
    stage = Forged(ClusterCheckoutChecker)
    checker = stage.checkers[0]
    assert isinstance(checker, ClusterCheckoutChecker)
    queue = stage.queue()
    copy = stage.give(stage.confirmed(queue), Holder("a"))
    stage.settle(copy)
    stage.start_again()
    checker.checked_out(queue, "g", 1, [(0, 0)])
    checker.settled_rows(queue, "g", 1, [(0, copy)])


# --- room ---------------------------------------------------------------------------------------


def held(count: int, most: int, most_bytes: int = -1) -> None:
    """A queue that drops its first messages holds some, of 10 bytes each."""
    fifo = Fifo(NOT_SET_UP, False)
    fifo.config.max_length, fifo.config.max_bytes = most, most_bytes
    fifo.ready.count, fifo.ready.bytes = count, 10 * count
    check_room(fifo)


def as_many_as_it_may() -> None:
    held(3, 3, 30)


def more_than_it_may() -> None:
    held(4, 3)


def more_bytes_than_it_may() -> None:
    held(4, -1, 39)


# --- what members vouch for ---------------------------------------------------------------------


def state(terms: str, term: int = 0, vote: str = "", incarnation: int = 1) -> Any:
    """A member's state, with the terms of its entries."""
    log = SimpleNamespace(
        snapshot_index=0,
        term_at=lambda index: int(terms[index - 1]) if 0 < index <= len(terms) else -1,
    )
    members = [Replica(f"n{number}", 1, True) for number in (1, 2, 3)]
    return SimpleNamespace(
        log=log,
        term=term,
        voted_for=vote,
        incarnation=incarnation,
        persisted_index=len(terms),
        state_persisted=1,
        state_sequence=1,
        configs=SimpleNamespace(_history=[GroupConfig(0, members)]),
    )


def site(name: str, its_state: Any, rotten: bool = False) -> Any:
    """A machine whose node has one group."""
    member = SimpleNamespace(raft=SimpleNamespace(state=its_state), log=SimpleNamespace())
    member.log.incomplete = False
    node = SimpleNamespace(cluster=SimpleNamespace(members={QUEUE: member}))
    return SimpleNamespace(name=name, node=node, rotten=rotten, life=1)


def start_again(before: Any, after: Any, rotten: bool = False, deleted: bool = False) -> None:
    """A process ends and another one begins."""
    known = Vouching()
    known.ended(site("n1", before))
    known.began(site("n1", after, rotten), {QUEUE} if deleted else set())


def started_with_all_it_vouched_for() -> None:
    start_again(state("11", 1, "n2"), state("11", 1, "n2"))
    start_again(state("11", 1, "n2"), state("112", 2, "n3"))
    start_again(state("11", 1), state("11", 1, "n3"))
    for how in ({"rotten": True}, {"deleted": True}):
        start_again(state("11", 1, "n2"), state(""), **how)
    start_again(state("11", 1, "n2"), state("", incarnation=2))


def a_term_is_forgotten() -> None:
    start_again(state("1", 2), state("1", 1))


def a_vote_is_forgotten() -> None:
    start_again(state("1", 2, "n2"), state("1", 2, "n3"))


def an_entry_is_lost() -> None:
    start_again(state("11", 1), state("1", 1))


def an_entry_is_another_one() -> None:
    start_again(state("11", 2), state("12", 2))


def with_an_older_disk(incarnation: int) -> None:
    """A machine's disk is put back, and its node is up again."""
    known = Vouching()
    known.found(site("n1", None), QUEUE, state("11"))
    known.restored(site("n1", None))
    known.begun_anew(site("n1", state("1", incarnation=incarnation)))


def an_older_copy_in_use() -> None:
    with_an_older_disk(1)


def a_fresh_copy_after_an_older_disk() -> None:
    with_an_older_disk(2)


def on_disks(*terms: str) -> None:
    """Entry 2 of term 1 is committed, with what members have on disk."""
    known = Vouching()
    for number, each in enumerate(terms, 1):
        known.found(site(f"n{number}", None), QUEUE, state(each))
    known.check_committed(QUEUE, 2, 1)


def on_the_disks_of_two() -> None:
    on_disks("11", "1", "11")


def on_the_disk_of_one() -> None:
    on_disks("11", "1", "12")


# --- entries ------------------------------------------------------------------------------------


def entry(
    body: bytes = b"",
    session: int = 0,
    sequence: int = 0,
    kind: int = KIND_COMMAND,
    stamp_ms: int = 5,
    messages: int = 0,
    first: int = 0,
) -> ledger.Entry:
    """An entry of term 1."""
    lengths = b""
    if messages:
        lengths = (len(body) // messages).to_bytes(4, "little") * messages
    batch = Batch(
        *(None, kind, 1, 1, first, messages, stamp_ms, lengths, 0, body, 0, len(body), None),
        session=session,
        sequence=sequence,
    )
    return 1, session, sequence, kind, bytes(batch.encoded())


def closing(*sessions: int) -> ledger.Entry:
    """An entry that closes sessions."""
    body = bytes([CLOSE]) + b"".join(each.to_bytes(8, "little") for each in sessions)
    return entry(body, RAFT_SESSION)


def publishing(*messages: Message) -> ledger.Entry:
    """An entry with publishes."""
    body = b"".join(b"m%08d|" % each.id for each in messages)
    first = messages[0].id
    return entry(body, kind=KIND_MESSAGES, messages=len(messages), first=first)


def append(*entries: ledger.Entry, group_id: int = QUEUE, known: tuple[Message, ...] = ()) -> Group:
    """Entries of a group are committed, one after the other."""
    group = Group(group_id)
    for each in entries:
        group.append(each, {message.id: message for message in known}, 0)
    return group


def messages(*channels: int) -> tuple[Message, ...]:
    """Messages of publishing channels, in order."""
    return tuple(
        Message(number, channel, channels[:number].count(channel), 10, True)
        for number, channel in enumerate(channels, 1)
    )


def entries_by_the_rules() -> None:
    first, other, second = messages(1, 2, 1)
    append(
        *(entry(session=7, sequence=1), entry(session=9, sequence=1)),
        *(publishing(first, other), entry(session=7, sequence=2), publishing(second)),
        *(closing(7), entry(session=9, sequence=2, stamp_ms=6)),
        known=(first, other, second),
    )


def time_goes_back() -> None:
    append(entry(stamp_ms=6), entry(stamp_ms=5))


def a_closed_session_goes_on() -> None:
    append(entry(session=7, sequence=1), closing(7), entry(session=7, sequence=2))


def a_number_of_a_session_twice() -> None:
    append(entry(session=7, sequence=1), entry(session=7, sequence=1))


def a_number_of_a_session_is_left_out() -> None:
    append(entry(session=7, sequence=1), entry(session=7, sequence=3))


def published_by_nobody() -> None:
    append(publishing(*messages(1)))


def published_twice() -> None:
    known = messages(1)
    append(publishing(*known), publishing(*known), known=known)


def published_out_of_order() -> None:
    known = messages(1, 1)
    append(publishing(known[1]), publishing(known[0]), known=known)


def a_later_queue_is_deleted() -> None:
    group = Group(METADATA_GROUP)
    record = SimpleNamespace(group_id=QUEUE + 1, name="q")
    outcome = SimpleNamespace(deleted_queues=[record])
    group._tables = SimpleNamespace(apply=lambda *_: outcome)  # type: ignore[assignment]
    body = encoding.encode(commands.DeleteQueue("/", "q", QUEUE, True))
    group.append(entry(body), {}, 0)


def lease(lasted_ms: int) -> None:
    """A reader's lease of 100 ms is over some time after it came into a log."""
    group = Group(QUEUE)
    reader = SimpleNamespace(epoch=1, lease_ms=100, seen_ms=5)
    group._fifo = SimpleNamespace(groups={"g": reader})  # type: ignore[assignment]
    group._check_leases(50_000, 20_000)
    reader.lease_ms = 0
    group._check_leases(20_000 + 1_000 * lasted_ms, 0)


def a_lease_lasts() -> None:
    lease(100)


def a_lease_is_over_early() -> None:
    lease(99)


# --- members, beside what is committed ----------------------------------------------------------


def known_of(group: Group | None = None) -> Any:
    """What is known of a cluster with one group."""
    stage: Any = Forged()
    stage.schedule = SimpleNamespace(now_us=0)
    stage.suspected = stage.closed = lambda *_: None
    known = Ledger(stage)
    if group is not None:
        known.groups[QUEUE] = group
    known.began(site("n1", state("1")))
    return known


def member(applied: int, what: bytes = b"") -> Any:
    """A member of a group whose machine has a state."""
    return SimpleNamespace(
        group_id=QUEUE,
        applied_index=applied,
        log=SimpleNamespace(last_index=applied, snapshot_index=0, recent=lambda _: None),
        machine=SimpleNamespace(state=lambda: what, unfinished=lambda: False),
        is_ahead=lambda: False,
        _entries=SimpleNamespace(size=lambda: 0),
    )


def two_lead_one_term() -> None:
    known = known_of()
    known._leads(site("n1", None), QUEUE, 3)
    known._leads(site("n2", None), QUEUE, 3)


def each_leads_a_term() -> None:
    known = known_of()
    known._leads(site("n1", None), QUEUE, 3)
    known._leads(site("n2", None), QUEUE, 4)
    known._leads(site("n1", None), QUEUE, 3)


def what_was_applied_is_undone() -> None:
    known = known_of(append(entry(), entry()))
    seen = Seen(member(2))
    seen.applied = 2
    known._applied(site("n1", None), None, member(1), seen, 1)


def another_entry_is_applied() -> None:
    group = append(entry(session=7, sequence=1))
    known_of(group)._take(site("n1", None), group, 1, entry(session=9, sequence=1))


def the_same_entry_is_applied() -> None:
    group = append(entry(session=7, sequence=1))
    known = known_of(group)
    known._take(site("n1", None), group, 1, group.entries[0])
    known._compare(site("n1", None), group, member(1, group._fifo.encode()), 1)


def another_state() -> None:
    group = append(entry(session=7, sequence=1))
    other = Fifo(NOT_SET_UP, False)
    other.next_message = 5
    known_of(group)._compare(site("n1", None), group, member(1, other.encode()), 1)


def confirm(committed: bool, queues: int = 1) -> None:
    """A publish is confirmed, committed or not."""
    (message,) = messages(1)
    for number in range(queues):
        queue = QueueState(f"q{number}", "quorum", True, False)
        message.copies.append(Copy(message, queue))
    group = append(publishing(message), known=(message,)) if committed else append()
    known_of(group).check_confirmed(message)


def confirmed_when_committed() -> None:
    confirm(True)


def confirmed_before_it_is_committed() -> None:
    confirm(False)


def confirmed_when_one_of_two_queues_has_it() -> None:
    confirm(True, 2)


def at_the_end(applied: int) -> None:
    """A member has applied some of two entries."""
    known = known_of(append(entry(), entry()))
    node = SimpleNamespace(cluster=SimpleNamespace(members={QUEUE: member(applied)}))
    known._world.running = lambda: [SimpleNamespace(name="n1", node=node)]
    known.check_agreement()


def all_is_applied() -> None:
    at_the_end(2)


def not_all_is_applied() -> None:
    at_the_end(1)


GOOD = (
    delivered_by_clusters_as_it_should_be,
    beyond_the_limit_of_a_sole_member_that_started_again,
    purged_or_lost_with_its_machine,
    settled_before_a_session_is_over,
    another_one_in_the_place_of_the_active_consumer,
    taken_in_time,
    as_many_as_it_may,
    started_with_all_it_vouched_for,
    a_fresh_copy_after_an_older_disk,
    on_the_disks_of_two,
    entries_by_the_rules,
    a_lease_lasts,
    each_leads_a_term,
    the_same_entry_is_applied,
    confirmed_when_committed,
    all_is_applied,
)
BAD = {
    again_after_it_was_settled_in_a_cluster: "came again after it was settled",
    beyond_the_limit_of_three_members: "after 1 rejections, with a limit of 0",
    lost_in_a_cluster: "1 confirmed messages of queue q0 are lost",
    settled_before_what_is_confirmed: "came again after it was settled",
    another_one_beside_the_active_consumer: "went to b, while a is the active consumer",
    taken_too_early: "was taken from a, 199 ms after it was published",
    a_row_settled_twice_in_a_cluster: "was settled as row 0 and before that",
    more_than_it_may: "a queue holds 4 messages of 40 bytes, with limits of 3 and -1",
    more_bytes_than_it_may: "with limits of -1 and 39",
    a_term_is_forgotten: "n1 forgot term 2, it is in 1 again",
    a_vote_is_forgotten: "n1 forgot its vote for n2 in term 2",
    an_entry_is_lost: "n1 lost entry 2 of term 1, which it had on disk",
    an_entry_is_another_one: "n1 lost entry 2 of term 1, which it had on disk",
    an_older_copy_in_use: "n1 goes on with an older copy",
    on_the_disk_of_one: "entry 2 of term 1 is applied while only n1 has it on disk",
    time_goes_back: "entry 2 is of 5, behind 6",
    a_closed_session_goes_on: "entry 3 is of session 7, closed before",
    a_number_of_a_session_twice: "entry 2 is #1 of session 7, behind #1",
    a_number_of_a_session_is_left_out: "entry 2 is #3 of session 7, behind #1",
    published_by_nobody: "entry 1 has what nobody published",
    published_twice: "twice: 1 and 2",
    published_out_of_order: "behind #2 of its channel",
    a_later_queue_is_deleted: f"deletes {QUEUE}, and took {QUEUE + 1} of the same name q",
    a_lease_is_over_early: "the lease of g on 100 ms ended after 99 ms",
    two_lead_one_term: "n1 in life 1 and n2 in life 1 both lead term 3",
    what_was_applied_is_undone: "n1 had applied 2 and now 1",
    another_entry_is_applied: "as entry 1, others (term 1, session 7 #1",
    another_state: "n1 has another state than its entries give at 1",
    confirmed_before_it_is_committed: "was confirmed before it was committed",
    confirmed_when_one_of_two_queues_has_it: "was confirmed before it was committed",
    not_all_is_applied: "n1 has applied 1 of 2 entries",
}
HISTORIES = [History(act) for act in GOOD] + [History(act, words) for act, words in BAD.items()]
CHECKERS = (checkers, ledger, room, timeouts, vouching)


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_history(history: History) -> None:
    """A checker complains of this history, or does not, as it says."""
    assert (complained(history) is not None) == bool(history.words)


@pytest.mark.parametrize("module", CHECKERS, ids=lambda module: module.__name__)
def test_every_complaint_of_a_checker_is_caused(module: ModuleType) -> None:
    """No complaint of a checker is without a history that causes it."""
    caused = [complained(history) for history in HISTORIES if history.words]
    lines = {each[1] for each in caused if each is not None and each[0] == module.__name__}
    for first, last in complaints_in(module):
        assert any(first <= line <= last for line in lines), f"{module.__name__}:{first}"
