"""Snapshots between nodes, at moments that no seed of the simulator is likely to meet."""

from __future__ import annotations

from zlib import crc32

import pytest
from librt.strings import write_i64_le

from sim.cluster.ledger import batch_of
from sim.cluster.site import Site
from sim.cluster.world import ClusterWorld
from tests.node.pair import sealed
from warren.errors import CorruptRecord
from warren.log.batch import write_checksum
from warren.metadata.commands import DeclareVhost
from warren.node.cluster import transfer
from warren.node.store import METADATA_GROUP
from warren.raft import wire
from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.raft.messages import SnapshotOffer
from warren.replication.frames import HEAD_BYTES, SEAL_BYTES, raft_frame
from warren.replication.kinds import SNAPSHOT
from warren.replication.member import Member
from warren.replication.raft_entries import RAFT_SESSION
from warren.replication.wrapping import wrap_head


def formed() -> ClusterWorld:
    """Three nodes, and no trouble."""
    seed = 0
    while ClusterWorld(seed).faults.size != 3:
        seed += 1
    world = ClusterWorld(seed)
    world.troubles.heal()
    world._form()
    return world


def tables_of(site: Site) -> Member:
    """A node's copy of the tables."""
    assert site.node is not None
    return site.node.cluster.members[METADATA_GROUP]


def offer(member: Member, sender: str, target: str, index: int) -> SnapshotOffer:
    """A snapshot for somebody."""
    copies = {copy.node: copy.incarnation for copy in member.raft.members}
    return SnapshotOffer(
        sender,
        copies[sender],
        target,
        copies[target],
        member.raft.term,
        index,
        member.raft.term,
        member.raft.members,
    )


@pytest.mark.rule("QQ-27")
def test_who_gives_up_its_log_sends_no_snapshot_of_it() -> None:
    """What is missing would be taken for settled: the receiver would be without it for good."""
    world = formed()
    site = world.sites["n1"]
    assert site.node is not None and site.peers is not None
    member = tables_of(site)
    site.guarded(site.life, member.snapshot)
    world.until(5_000, "no snapshot", lambda: bool(member.snapshots.payload))
    transfers = site.node.cluster.transfers
    index = int(member.log.snapshot_index)
    transfers.send(member, SendSnapshot(offer(member, "n1", "n3", index)))
    given = offer(member, "n2", "n1", int(member.log.last_index) + 9)
    transfers.accept(member, AcceptSnapshot(given))
    last = site.peers.links["n3"].queue[-1]
    assert (last[0], last[HEAD_BYTES]) == (SNAPSHOT, transfer.LOST)
    assert int.from_bytes(last[HEAD_BYTES + 1 : -SEAL_BYTES], "little") == index
    # An answer that comes late has nothing else sent.
    site.peers.links["n3"].queue.clear()
    late = transfer.snapshot_frame(METADATA_GROUP, transfer.READY, index).getvalue()
    transfers.received("n3", member, sealed(late))
    assert site.peers.links["n3"].queue == [last]


@pytest.mark.rule("QQ-27")
def test_who_gets_no_more_of_a_snapshot_begins_with_nothing() -> None:
    """Else it would wait for the rest, and take nothing from anybody."""
    world = formed()
    site = world.sites["n3"]
    assert site.node is not None
    member = tables_of(site)
    transfers = site.node.cluster.transfers
    given = offer(member, "n2", "n3", int(member.log.last_index) + 9)
    transfers.accept(member, AcceptSnapshot(given))
    assert member.log.incomplete
    lost = transfer.snapshot_frame(METADATA_GROUP, transfer.LOST, given.index).getvalue()
    transfers.received("n2", member, sealed(lost))
    assert not member.log.incomplete and member.raft.last_index == 0
    # It vouches for nothing before its log is as long as it would have been.
    assert not member.raft.state.is_vote_eligible()
    node = site.node
    world.until(5_000, "nothing is written", lambda: node.log.idle and not node.needs_turn)
    site.kill()
    world.until(5_000, "no start", lambda: site.node is not None and world.serves(site))
    state = tables_of(site).raft.state
    assert (state.floor_term, state.floor_index) == (given.snapshot_term, given.index)


@pytest.mark.parametrize("told", [True, False])
def test_an_offer_that_is_no_more_is_not_waited_for(told: bool) -> None:
    """It came before this node knew of the group, and its sender has given up since."""
    world = formed()
    site = world.sites["n3"]
    assert site.node is not None
    cluster = site.node.cluster
    member = cluster.members.pop(METADATA_GROUP)
    late = offer(member, "n2", "n3", int(member.log.last_index) + 9)
    late.term += 1
    cluster.received("n2", raft_frame(METADATA_GROUP, wire.encode(late)))
    if told:
        lost = transfer.snapshot_frame(METADATA_GROUP, transfer.LOST, late.index).getvalue()
        cluster.received("n2", sealed(lost))
    cluster.members[METADATA_GROUP] = member
    cluster.start(member)
    assert member.log.incomplete is not told
    # Else it would neither send nor vote for half a minute.
    world.until(1_000, "it waits", lambda: not member.log.incomplete)


@pytest.mark.rule("QQ-27")
def test_an_offer_of_somebody_who_is_gone_is_not_taken() -> None:
    """It came before this node knew of the group, and would be waited for in vain."""
    world = formed()
    site = world.sites["n3"]
    assert site.node is not None and site.peers is not None
    cluster = site.node.cluster
    member = cluster.members.pop(METADATA_GROUP)
    late = offer(member, "n2", "n3", int(member.log.last_index) + 9)
    site.peers.listener.received("n2", raft_frame(METADATA_GROUP, wire.encode(late)))
    site.peers.listener.incoming_lost("n2")
    cluster.members[METADATA_GROUP] = member
    cluster.start(member)
    assert not member.log.incomplete


@pytest.mark.rule("QQ-27")
def test_an_offer_is_taken_only_if_that_can_be_said() -> None:
    """The log is not given up for a leader that does not hear of it."""
    world = formed()
    site = world.sites["n3"]
    assert site.node is not None and site.peers is not None
    member = tables_of(site)
    given = offer(member, "n2", "n3", int(member.log.last_index) + 9)
    site.peers.forget("n2")
    site.node.cluster.transfers.accept(member, AcceptSnapshot(given))
    assert not member.log.incomplete


@pytest.mark.rule("QQ-27")
def test_tables_stay_in_force_while_their_log_begins_anew() -> None:
    """Clients of a node that lost its copy of the tables' log to a transfer notice nothing."""
    world = formed()
    site = world.sites["n3"]
    assert site.node is not None
    store, metadata = site.node.store, site.node.metadata
    before = metadata.snapshot()
    store.restore(store.first_state())
    assert metadata.snapshot() == before
    assert store.state() == store.first_state() != before
    for entry in world.ledger.groups[METADATA_GROUP].entries:
        assert metadata.snapshot() == before
        batch = batch_of(entry)
        if batch.session != RAFT_SESSION:
            store.apply(batch, None)
    assert metadata.snapshot() == store.state() == before


@pytest.mark.rule("QQ-27")
def test_a_handover_that_fails_keeps_no_session_open() -> None:
    """A node that went meanwhile would hold what its consumers had for as long as that leads."""
    world = formed()
    leading = next(site for site in world.running() if tables_of(site).leads())
    other, gone = (site for site in world.running() if site is not leading)
    member, session = tables_of(leading), tables_of(gone).session()
    world.until(5_000, "no votes", lambda: all(copy.voter for copy in member.raft.members))
    world.submit(gone, DeclareVhost("theirs"))
    world.until(5_000, "nothing comes of it", lambda: member.client_sessions.next(session) > 1)
    # Whoever shall lead does not hear of it.
    world.network.blocked.add((leading.name, other.name))
    leading.guarded(leading.life, lambda: assert_begun(member, other.name))
    gone.lost = True
    gone.kill()
    world.until(3_000, "the session stays open", lambda: member.client_sessions.next(session) == 0)


def assert_begun(member: Member, node: str) -> None:
    """Have another node lead."""
    assert member.raft.transfer(node, member.host.monotonic_ms()) == ""
    member.work()


def waiting(world: ClusterWorld) -> tuple[Site, Site, Site]:
    """The leader, a follower that only offers a snapshot, and one that waits for it."""
    leading = next(site for site in world.running() if tables_of(site).leads())
    silent, waits = [site for site in world.running() if site is not leading]
    member, node = tables_of(waits), waits.node
    world.until(5_000, "no votes", lambda: all(copy.voter for copy in member.raft.members))
    given = offer(member, silent.name, waits.name, int(member.log.last_index) + 9)
    assert node is not None
    accept = node.cluster.transfers.accept
    waits.guarded(waits.life, lambda: accept(member, AcceptSnapshot(given)))
    assert member.log.incomplete
    return leading, silent, waits


def caught_up(leading: Site, follower: Site) -> bool:
    """Whether a follower's tables are the leader's."""
    there, here = tables_of(leading), tables_of(follower)
    return not here.log.incomplete and here.applied_index == there.applied_index > 0


@pytest.mark.rule("QQ-27")
def test_who_waits_for_a_snapshot_answers_another_leader() -> None:
    """What it said was dropped once, as if the sender of the snapshot still led."""
    world = formed()
    leading, other, waits = waiting(world)
    member = tables_of(leading)
    leading.guarded(leading.life, lambda: assert_begun(member, other.name))
    world.until(3_000, "it waits for ever", lambda: caught_up(other, waits))


@pytest.mark.rule("QQ-27")
def test_a_sender_that_is_down_is_not_waited_for() -> None:
    """Its process stands still, so that its links stay up."""
    world = formed()
    _, silent, waits = waiting(world)
    silent.paused_until_us = world.schedule.now_us + 7_000_000
    member = tables_of(waits)
    world.until(3_000, "it waits for ever", lambda: not member.log.incomplete)


@pytest.mark.rule("QQ-27")
def test_a_wait_for_a_snapshot_ends() -> None:
    """Whatever became of its sender."""
    world = formed()
    _, _, waits = waiting(world)
    member = tables_of(waits)
    world.until(transfer.QUIET_MS + 2_000, "it waits for ever", lambda: not member.log.incomplete)


@pytest.mark.rule("QQ-27")
def test_a_transfer_that_is_given_up_is_said() -> None:
    """The receiver would wait for what no longer comes."""
    world = formed()
    site = world.sites["n1"]
    assert site.node is not None and site.peers is not None
    member = tables_of(site)
    site.guarded(site.life, member.snapshot)
    world.until(5_000, "no snapshot", lambda: bool(member.snapshots.payload))
    transfers = site.node.cluster.transfers
    transfers.send(member, SendSnapshot(offer(member, "n1", "n3", int(member.log.snapshot_index))))
    transfers.tick(member.host.monotonic_ms() + transfer.ANSWER_MS)
    last = site.peers.links["n3"].queue[-1]
    assert (last[0], last[HEAD_BYTES]) == (SNAPSHOT, transfer.LOST)


@pytest.mark.rule("QQ-27")
@pytest.mark.parametrize("at", [transfer.HEAD_BYTES, transfer.DONE_BYTES + 1, -1 - SEAL_BYTES])
def test_a_snapshot_that_is_damaged_on_its_way_is_not_taken(at: int) -> None:
    """Its own record in the log would get a checksum that fits the damage."""
    world = formed()
    leading, silent, waits = waiting(world)
    member = tables_of(waits)
    state = tables_of(leading)
    payload = wrap_head(0, state.raft.members, {}).getvalue() + state.machine.state()
    index = int(awaited(waits).offer.index)
    frame = done_frame(member, index, payload)
    bad = bytearray(frame)
    bad[at] ^= 4
    with pytest.raises(CorruptRecord):
        transfers_of(waits).received(silent.name, member, bytes(bad))
    assert member.log.incomplete and not member.snapshots.is_whole()
    transfers_of(waits).received(silent.name, member, frame)
    assert member.snapshots.is_whole()


@pytest.mark.parametrize("cut", [0, transfer.DONE_BYTES, transfer.DONE_BYTES + 9, -1])
def test_the_end_of_a_snapshot_is_taken_however_it_is_cut(cut: int) -> None:
    """Its payload comes by itself, or with some of it before, or within the frame."""
    world = formed()
    leading, silent, waits = waiting(world)
    member, state = tables_of(waits), tables_of(leading)
    payload = wrap_head(0, state.raft.members, {}).getvalue() + state.machine.state()
    frame = done_frame(member, int(awaited(waits).offer.index), payload)
    head = frame[:cut] + frame[-SEAL_BYTES:] if cut > 0 else frame
    body = frame[cut:-SEAL_BYTES] if cut > 0 else b""
    transfers = transfers_of(waits)
    waits.guarded(waits.life, lambda: transfers.received(silent.name, member, head, body, cut >= 0))
    taken = member.snapshots._taken_over
    assert taken is not None and taken.payload == payload
    assert taken.parts.state == state.machine.state() and taken.term == member.raft.term


@pytest.mark.parametrize("cut", [transfer.DONE_BYTES, transfer.DONE_BYTES + 9])
def test_the_end_of_a_snapshot_that_is_too_short_is_refused(cut: int) -> None:
    """Even if its checksum holds: what takes it apart may not fail in a later turn."""
    world = formed()
    _, silent, waits = waiting(world)
    member = tables_of(waits)
    frame = done_frame(member, int(awaited(waits).offer.index), bytes(12))[: cut - 4]
    with pytest.raises(CorruptRecord):
        transfers_of(waits).received(silent.name, member, sealed(frame), b"", True)
    assert member.log.incomplete and not member.snapshots.is_whole()


def transfers_of(site: Site) -> transfer.Transfers:
    assert site.node is not None
    return site.node.cluster.transfers


def awaited(site: Site) -> transfer.Incoming:
    """The snapshot that a node takes over."""
    found = transfers_of(site)._incoming_of(METADATA_GROUP)
    assert found is not None
    return found


def done_frame(member: Member, index: int, payload: bytes) -> bytes:
    """The end of a snapshot as its sender says it."""
    writer = transfer.snapshot_frame(METADATA_GROUP, transfer.DONE, index)
    write_i64_le(writer, member.raft.term)
    write_i64_le(writer, 1_000)
    write_checksum(writer, crc32(payload, crc32(writer.getvalue())))
    return sealed(bytes(writer.getvalue()) + payload)


def test_nothing_is_waited_for_longer_than_its_bound() -> None:
    """Even if its sender leads, and is only silent."""
    world = formed()
    _, _, waits = waiting(world)
    member, transfers = tables_of(waits), transfers_of(waits)
    heard_ms = int(awaited(waits).heard_ms)
    waits.guarded(waits.life, lambda: transfers.tick(heard_ms + transfer.QUIET_MS - 1))
    assert member.log.incomplete
    waits.guarded(waits.life, lambda: transfers.tick(heard_ms + transfer.QUIET_MS))
    assert not member.log.incomplete


LOSSES = ["told", "late", "link", "down"]


@pytest.mark.rule("QQ-27")
@pytest.mark.parametrize("how", LOSSES)
def test_who_begins_with_nothing_knows_which_nodes_are_down(how: str) -> None:
    """However it comes that no more of a snapshot does: its Raft is another one, and was not there
    when they went. As leader it would count on them, and take a minority for enough.
    """
    world = formed()
    leading = next(site for site in world.running() if tables_of(site).leads())
    silent, waits = [site for site in world.running() if site is not leading]
    node, member = waits.node, tables_of(waits)
    assert node is not None
    cluster, transfers = node.cluster, transfers_of(waits)
    world.until(5_000, "no votes", lambda: all(copy.voter for copy in member.raft.members))
    leading.paused_until_us = world.schedule.now_us + 6_000_000
    world.until(5_000, "nobody finds it silent", lambda: leading.name in member.raft.state.down)
    given = offer(member, silent.name, waits.name, int(member.log.last_index) + 9)
    waits.guarded(waits.life, lambda: transfers.accept(member, AcceptSnapshot(given)))
    assert member.log.incomplete
    before, incoming = member.raft, awaited(waits)
    if how == "told":
        lost = transfer.snapshot_frame(METADATA_GROUP, transfer.LOST, incoming.offer.index)
        frame = sealed(lost.getvalue())
        waits.guarded(waits.life, lambda: cluster.received(silent.name, frame))
    elif how == "late":
        late = int(incoming.heard_ms) + transfer.QUIET_MS
        waits.guarded(waits.life, lambda: transfers.tick(late))
    elif how == "link":
        waits.guarded(waits.life, lambda: cluster.broken(silent.name))
    else:
        waits.guarded(waits.life, lambda: transfers.sender_down(silent.name))
    assert not member.log.incomplete and member.raft is not before
    assert leading.name in member.raft.state.down
    # Its time is minded, if it has any to mind, and it is brought up by whoever leads next. It
    # votes for nobody who has less than the snapshot.
    watched = METADATA_GROUP in cluster._timed._timed
    assert watched == (member.raft.deadline_ms >= 0)
    world.until(20_000, "it is not back", lambda: leading.name not in member.raft.state.down)
    there = tables_of(leading)
    leading.guarded(leading.life, lambda: assert_begun(there, silent.name))
    world.until(5_000, "it waits for ever", lambda: caught_up(silent, waits))
