"""Truncating, states, received entries and a leader's snapshot: the rules, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from zlib import crc32

import pytest

from sim.disk import Crash
from tests.log.model import World
from tests.log.replica import Base, BytesReader, Checked, Item, Replica, View, pack_lengths
from warren.errors import Compacted, CorruptRecord
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, KIND_SNAPSHOT, Header
from warren.log.extents import Extents
from warren.log.runlist import run_list

WIDE = {"wal_max_size_bytes": 1 << 22}


def begin(seed: int = 11, **settings: int) -> tuple[World, Replica]:
    """A world with one replica whose state is durable."""
    world = World(seed, **(WIDE | settings))
    replica = world.replicas[world.new_replica()]
    flush(world)
    return world, replica


def flush(world: World) -> None:
    """Write what is gathered."""
    world.log.flush()
    world.executor.drain()


def add(replica: Replica, term: int, sizes: list[int]) -> Item:
    """Append an entry of some messages, or without any a command, as a follower does."""
    item = replica._item(term, not sizes, sizes)
    view = replica.view
    batch = replica.group.append_replica(item.encoded(replica.group_id), 0, None)
    replica._did(View(view.base, [*view.items, item], view.state, False))
    replica._expect(batch)
    return item


def cut(replica: Replica, index: int) -> None:
    """Truncate, and let the model know."""
    view = replica.view
    replica.group.truncate_from(index)
    replica._void(KIND_COMMAND, index)
    replica._did(view.without(index))
    replica.check_edges()


def restarted(world: World, replica: Replica) -> None:
    """Stop without a crash: everything written stays."""
    flush(world)
    world.restart(crash=False)
    assert not replica.gone
    replica.check()


@pytest.mark.parametrize("apart", [False, True], ids=["one round", "a round each"])
@pytest.mark.parametrize("term", [2, 4], ids=["lower term", "higher term"])
def test_what_replaces_an_entry_may_have_any_term(term: int, apart: bool) -> None:
    world, replica = begin()
    add(replica, 1, [10])
    for size in (20, 30, 40):
        add(replica, 3, [size])
        if apart:
            flush(world)
    cut(replica, 2)
    assert (replica.group.last_term, replica.group.next_message) == (1, 1)
    add(replica, term, [50])
    if apart:
        flush(world)
    add(replica, 5, [])
    for _ in range(2):
        restarted(world, replica)
        group = replica.group
        assert (group.last_index, group.last_term, group.next_message) == (3, 5, 2)
        assert [group.term_at(index) for index in range(5)] == [0, 1, term, 5, -1]


def test_the_same_entries_may_come_back() -> None:
    world, replica = begin()
    items = [add(replica, 2, [10]), add(replica, 2, [20, 20])]
    flush(world)
    cut(replica, 1)
    add(replica, 3, [30])
    flush(world)
    cut(replica, 1)
    for item in items:
        view = replica.view
        batch = replica.group.append_replica(item.encoded(replica.group_id), 0, None)
        replica._did(View(view.base, [*view.items, item], view.state, False))
        replica._expect(batch)
    restarted(world, replica)
    assert replica.group.last_index == 2


def test_nothing_truncated_is_reported_or_written_in_vain() -> None:
    world, replica = begin()
    add(replica, 1, [10])
    add(replica, 1, [10])
    world.log.flush()
    add(replica, 1, [5_000])
    cut(replica, 2)
    later = add(replica, 2, [7])
    group = replica.group
    assert group.recent(2) is not None and group.recent(3) is None
    flush(world)
    assert not replica.expected and group.persisted_index == 2
    assert world.log._store.files[-1].end < 5_000, "what was only gathered is not written"
    assert group.cached(1) is not None
    later.check(group.recent(2) or group.cached(1))  # type: ignore[arg-type]


def test_a_crash_at_any_moment_of_a_truncation_leaves_what_was_or_what_is() -> None:
    outcomes: set[int] = set()
    for calls, seed in product(range(40), range(5)):
        world, replica = begin(seed)
        add(replica, 1, [10])
        add(replica, 2, [20])
        flush(world)
        world.disk.crash_after = calls
        crashed = False
        try:
            cut(replica, 2)
            flush(world)
            add(replica, 3, [30])
            add(replica, 3, [40])
            flush(world)
        except Crash:
            crashed = True
        world.restart(crash=True)
        world.check()
        outcomes.add(replica.group.last_index * 10 + replica.group.last_term)
        if not crashed:
            break
    assert not crashed and outcomes == {22, 11, 33}


def lively(world: World, replica: Replica, turns: int = 40) -> None:
    """Fill some files with another group's messages, which all stay alive."""
    group_id = world.groups()[0] if world.groups() else world.new_group()
    for _ in range(turns):
        world.publish(group_id, [700])
        flush(world)
        world.tick(10)
        world.executor.drain()


def test_a_mark_stays_as_long_as_what_it_makes_void() -> None:
    world = World(11)
    world.new_group()
    replica = world.replicas[world.new_replica()]
    add(replica, 1, [10])
    for _ in range(3):
        add(replica, 3, [20])
    lively(world, replica)
    cut(replica, 2)
    add(replica, 2, [30])
    flush(world)
    first = world.log._store.files[0].number
    other = world.new_group()
    for _ in range(60):
        # Much that dies at once, so that the mark's file is rewritten or goes.
        world.publish(other, [700, 700])
        world.settle(other, sorted(world.machines[other].live))
        flush(world)
        world.settle(other, sorted(world.machines[other].live))
        flush(world)
        world.answer_wanted()
        world.tick(60)
        world.executor.drain()
    world.settle_down()
    assert world.log._store.files[0].number == first, "the void entries lie where they lay"
    assert replica.group.snapshot_index == 2, "no entry stands behind the snapshot"
    for crash in (False, True):
        world.restart(crash)
        assert replica.group.last_index == 2 and replica.group.term_at(2) == 2
        world.check()


@pytest.mark.parametrize("whole", [False, True], ids=["truncated", "given up"])
@pytest.mark.rule("DUR-03")
def test_what_is_void_by_a_mark_that_is_not_durable_stays(whole: bool) -> None:
    """A crash may still bring it back, and others count on it."""
    outcomes: set[int] = set()
    for steps in range(12):
        world = World(11)
        replica = world.replicas[world.new_replica()]
        add(replica, 1, [10])
        for _ in range(40):
            add(replica, 2, [900])
            flush(world)
        for _ in range(10):
            world.tick(60)
            world.executor.drain()
        add(replica, 2, [10])
        world.log.flush()
        assert len(world.log._store.files) > 2
        if whole:
            replica.begin_install()
        else:
            cut(replica, 2)
        # The mark waits for the round under way, and files are looked at meanwhile.
        for _ in range(steps):
            world.tick(60)
            world.executor.step()
        world.restart(crash=True)
        world.check()
        outcomes.add(replica.group.last_index)
    assert outcomes == {41, 42, 0 if whole else 1}


def test_the_state_outlives_its_file_and_goes_with_its_group() -> None:
    world = World(11)
    replica = world.replicas[world.new_replica()]
    kept = replica.view.state
    other = world.new_group()
    for _ in range(80):
        world.publish(other, [700, 700])
        flush(world)
        world.settle(other, sorted(world.machines[other].live))
        world.answer_wanted()
        world.tick(60)
        world.executor.drain()
    world.settle_down()
    assert world.log._store.files[0].number > 1, "its first file is gone"
    world.restart(crash=True)
    assert replica.seen_state == kept and replica.group.last_index == 0
    world.drop(replica.group_id)
    flush(world)
    world.restart(crash=True)
    assert replica.gone and replica.group_id not in world.log.group_ids()


def changed(at: int, mask: int) -> Callable[[bytes], bytes]:
    """Damage one byte."""
    return lambda data: data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


@pytest.mark.parametrize("at", [0, 5, 9, 12, 17, 25, 33, 41, 49, 57, 65, 73, 81, 90])
def test_a_damaged_batch_is_not_taken(at: int) -> None:
    world, replica = begin()
    item = replica._item(1, False, [20])
    with pytest.raises(CorruptRecord, match="received for group 1"):
        replica.group.append_replica(changed(at, 4)(item.encoded(1)), 0, None)
    assert replica.group.last_index == 0 and world.log.idle


@pytest.mark.parametrize(
    ("index", "term", "first", "group", "says"),
    [
        (3, 2, 1, 1, "does not follow"),
        (1, 2, 1, 1, "does not follow"),
        (2, 2, 2, 1, "comes where"),
        (2, 1, 1, 1, "comes behind term"),
        (2, 2, 1, 7, "is of group"),
    ],
)
def test_a_batch_that_does_not_follow_is_not_taken(
    index: int, term: int, first: int, group: int, says: str
) -> None:
    _, replica = begin()
    add(replica, 2, [20])
    other = Item(index, term, first, 5_000, [b"body"], set())
    with pytest.raises(CorruptRecord, match=says):
        replica.group.append_replica(other.encoded(group), 0, None)
    assert replica.group.last_index == 1


def test_received_batches_are_stored_byte_for_byte() -> None:
    world, replica = begin(cache_bytes=0)
    sent = b"".join(
        Item(at, 1, (at - 1) * 3, 100 + at, [b"a" * at, b"", b"c" * 5_000], set()).encoded(1)
        for at in range(1, 6)
    )
    place = 0
    for _ in range(5):
        batch = replica.group.append_replica(sent, place, None)
        assert batch.encoded() == sent[place : place + batch.size()]
        replica._expect(batch)
        replica.view.items.append(Item(batch.index, 1, batch.first, batch.stamp_ms, [
            batch.record(0), batch.record(1), batch.record(2)], set()))  # fmt: skip
        place += batch.size()
    assert place == len(sent)
    flush(world)
    raw = BytesReader()
    replica.group.read_raw(0, 14, 1 << 30, raw)
    world.executor.drain()
    assert raw.data == sent
    reader = Checked(replica, 1, 5, True)
    replica.group.read_entries(1, 5, 1 << 30, reader)
    world.executor.drain()
    assert b"".join(batch.encoded() for batch in reader.batches) == sent


def test_commands_and_messages_are_read_by_index() -> None:
    world, replica = begin(cache_bytes=0)
    group = replica.group
    group.keep_recent(0)
    for at in range(30):
        add(replica, 1, [] if at % 3 == 0 else [200] * (at % 4 + 1))
    flush(world)
    assert group.recent(30) is None, "what is durable goes when nothing is to be kept"
    for at in range(5):
        add(replica, 2, [] if at % 2 == 0 else [50])
    assert [group.recent(at).term for at in range(31, 36)] == [2] * 5  # type: ignore[union-attr]
    for max_bytes in (1, 2_000, 1 << 30):
        assert [batch.index for batch in replica.read_all(1, 35)] == list(range(1, 36))
        reader = Checked(replica, 4, 33, True)
        group.read_entries(4, 33, max_bytes, reader)
        world.executor.drain()
        indexes = [batch.index for batch in reader.batches]
        assert indexes and indexes == list(range(4, 4 + len(indexes)))
        assert max_bytes < 1 << 30 or indexes[-1] == 33
        assert max_bytes > 1 or len(indexes) == 1
    flush(world)
    replica.commit = 20
    replica.take_snapshot()
    flush(world)
    reader = Checked(replica, 20, 35, True)
    group.read_entries(20, 35, 1, reader)
    world.executor.drain()
    assert isinstance(reader.error, Compacted)
    assert len(replica.read_all(21, 35)) == 15


def test_recent_entries_are_bounded() -> None:
    world, replica = begin()
    group = replica.group
    group.keep_recent(3_000)
    for _ in range(30):
        add(replica, 1, [100])
        flush(world)
    kept = [at for at in range(1, 31) if group.recent(at) is not None]
    assert kept == list(range(kept[0], 31)) and 3 <= len(kept) <= 8
    group.keep_recent(0)
    assert group.recent(30) is None


def test_a_group_with_one_member_keeps_nothing_more() -> None:
    world = World(3)
    group_id = world.new_group()
    world.publish(group_id, [10])
    group = world.log.group(group_id)
    assert group._tail is None and group.recent(1) is None
    with pytest.raises(AssertionError, match="keep_recent"):
        group.truncate_from(1)


def test_truncating_below_a_snapshot_is_refused() -> None:
    world, replica = begin()
    for _ in range(4):
        add(replica, 1, [10])
    flush(world)
    replica.commit = 2
    replica.take_snapshot()
    flush(world)
    with pytest.raises(AssertionError, match="never truncated"):
        replica.group.truncate_from(2)
    cut(replica, 3)
    add(replica, 2, [20])
    restarted(world, replica)


def test_a_snapshot_behind_which_messages_are_truncated_does_not_keep_their_numbers() -> None:
    world, replica = begin()
    for _ in range(4):
        add(replica, 1, [10, 10])
    flush(world)
    replica.commit = 2
    replica.take_snapshot()
    cut(replica, 3)
    add(replica, 2, [])
    restarted(world, replica)
    assert replica.group.next_message == 4


def test_replay_stops_where_it_is_told() -> None:
    world, replica = begin()
    for _ in range(3):
        add(replica, 1, [10])
    flush(world)
    replica.commit = 2
    replica.save_state()
    add(replica, 1, [10])
    flush(world)
    limits: set[int] = set()
    for _ in range(12):
        world.restart(crash=True)
        limits.add(replica.limit)
        group = replica.group
        assert (group.last_index, group.persisted_index, group.written_messages) == (4, 4, 4)
        assert replica.replayed == (set(range(4)) if replica.limit < 0 else {0, 1})
        assert [batch.index for batch in replica.read_all(3, 4)] == [3, 4]
    assert limits == {-1, 2}


def offer() -> Base:
    """A leader's snapshot: three entries' messages, some of them settled."""
    base = Base(40, 6, 90)
    for index, first, term in ((7, 10, 2), (8, 20, 2), (31, 60, 5)):
        records = [b"%d:%d" % (first, at) * 9 for at in range(6)]
        base.items.append(Item(index, term, first, 900 + index, records, set()))
    base.live = {10, 11, 14, 15, *range(20, 26), 63}
    return base


def install(world: World, replica: Replica, base: Base, stop: int = 9) -> None:
    """Take a leader's snapshot over, with a round after each step; or stop on the way."""
    old = replica.view
    replica.group.reset_for_install()
    replica._void(KIND_SNAPSHOT, 0)
    replica._did(View(Base(), [], old.state, True))
    flush(world)
    one, two, three = base.items
    parts = [
        one.encoded(1, 0, 2) + one.encoded(1, 4, 6),
        two.encoded(1),
        three.encoded(1, 3, 4),
    ]
    for part in parts[:stop]:
        at = 0
        while at < len(part):
            batch = replica.group.store_live(part, at)
            replica._expect(batch)
            at += batch.size()
        flush(world)
    if stop < 9:
        return
    state = " ".join(map(str, [40, *sorted(base.live)])).encode()
    replica._did(View(base, [], old.state, False))
    replica.offer = base
    replica.waiting = True
    replica._expect(replica.group.snapshot(40, state, 1, 6, 90))
    assert replica.group.incomplete
    flush(world)


def test_a_leaders_snapshot_takes_the_place_of_all() -> None:
    world, replica = begin()
    for _ in range(5):
        add(replica, 1, [30])
    flush(world)
    replica.commit = 3
    replica.take_snapshot()
    base = offer()
    install(world, replica, base)
    for _ in range(2):
        group = replica.group
        assert not group.incomplete
        assert (group.last_index, group.persisted_index, group.snapshot_index) == (40, 40, 40)
        assert (group.next_message, group.last_term, group.term_at(40)) == (90, 6, 6)
        assert [group.term_at(index) for index in (7, 8, 31)] == [2, 2, 5]
        world.check()
        restarted(world, replica)
    add(replica, 6, [10])
    add(replica, 7, [10])
    cut(replica, 42)
    add(replica, 8, [])
    restarted(world, replica)
    assert replica.group.next_message == 91


def test_a_crash_at_any_moment_of_an_installation() -> None:
    outcomes: set[str] = set()
    for calls, seed in product(range(60), range(5)):
        world, replica = begin(seed)
        for _ in range(5):
            add(replica, 1, [30])
        flush(world)
        kept = replica.view.state
        world.disk.crash_after = calls
        crashed = False
        try:
            install(world, replica, offer())
        except Crash:
            crashed = True
        world.restart(crash=True)
        world.check()
        group = replica.group
        assert replica.seen_state == kept, "the state stays"
        if group.incomplete:
            assert (group.last_index, group.next_message, group.last_term) == (0, 0, 0)
            assert replica.replayed is None
            outcomes.add("incomplete")
            install(world, replica, offer())
            assert not replica.group.incomplete
        else:
            outcomes.add("before" if group.last_index == 5 else "after")
        restarted(world, replica)
        if not crashed:
            break
    assert not crashed and outcomes == {"before", "incomplete", "after"}


def test_an_installation_that_is_given_up() -> None:
    world, replica = begin()
    add(replica, 1, [30])
    install(world, replica, offer(), stop=2)
    world.restart(crash=True)
    assert replica.group.incomplete
    with pytest.raises(AssertionError, match="takes no entries"):
        add(replica, 7, [10])
    replica.group.begin_empty()
    replica._did(View(Base(), [], replica.view.state, False))
    add(replica, 7, [10])
    add(replica, 7, [20])
    for _ in range(2):
        restarted(world, replica)
        assert not replica.group.incomplete and replica.group.last_index == 2
        assert replica.group.next_message == 2


def test_a_reset_survives_the_rewriting_of_its_file() -> None:
    world = World(11)
    replica = world.replicas[world.new_replica()]
    add(replica, 1, [30])
    lively(world, replica)
    install(world, replica, offer(), stop=1)
    holder = [place.file.number for place in replica.group.places if place.tombstones]
    world.restart(crash=True)
    other = world.groups()[0]
    for _ in range(60):
        world.publish(other, [700, 700])
        flush(world)
        # The first file stays alive, and with it what the RESET makes void.
        world.settle(other, sorted(n for n in world.machines[other].live if n > 15))
        world.answer_wanted()
        world.tick(60)
        world.executor.drain()
    world.settle_down()
    moved = [place.file.number for place in replica.group.places if place.tombstones]
    assert moved and moved != holder, "its file was rewritten"
    for crash in (False, True):
        world.restart(crash)
        assert replica.group.incomplete and replica.group.last_index == 0


def test_what_lives_is_sent_and_stored_elsewhere() -> None:
    world, replica = begin()
    base = offer()
    install(world, replica, base)
    target_world, target = begin()
    target.group.reset_for_install()
    runs = run_list([(10, 11), (15, 15), (20, 25), (61, 64)])
    behind = 0
    header = Header()
    numbers: list[int] = []
    while runs.reaches(behind):
        raw = BytesReader()
        replica.group.read_live(runs, behind, 200, raw)
        world.executor.drain()
        assert raw.error is None and len(raw.data) < 700
        at = 0
        while at < len(raw.data):
            assert header.load(raw.data, at, len(raw.data)) == ""
            batch = target.group.store_live(raw.data, at)
            base.items[[7, 8, 31].index(batch.index)].check(batch)
            numbers += range(batch.first, batch.first + batch.count)
            at += header.size
        behind = raw.next_message
    assert numbers == [10, 11, 15, *range(20, 26), 63]
    assert target_world.log.idle is False


def test_a_reset_ends_the_sending_of_what_lived() -> None:
    world, replica = begin()
    install(world, replica, offer())
    raw = BytesReader()
    replica.group.read_live(run_list([(10, 30)]), 0, 100, raw)
    replica.group.reset_for_install()
    world.order.clear()
    world.executor.drain()
    assert isinstance(raw.error, Compacted)


def test_a_read_under_way_does_not_hand_out_what_became_void() -> None:
    world, replica = begin(cache_bytes=0)
    for _ in range(3):
        add(replica, 1, [30])
        flush(world)
    by_number = Checked(replica, 0, 5, False)
    by_index = Checked(replica, 1, 5, True)
    replica.group.read(0, 5, 1 << 20, by_number)
    replica.group.read_entries(1, 5, 1 << 20, by_index)
    while not world.executor._finished:
        world.executor.step()
    cut(replica, 2)
    add(replica, 2, [31])
    flush(world)
    assert by_number.answers == by_index.answers == 1
    assert [batch.term for batch in by_number.batches] == [1]
    assert [batch.term for batch in by_index.batches] in ([1], [1, 2])


def test_a_damaged_state_is_told() -> None:
    world, replica = begin()
    add(replica, 1, [10])
    flush(world)
    place: Extents = replica.group.places[0]
    path, offset = place.file.path, place.state_offset
    world.disk.restart()
    world.disk.flip(path, int(offset) + 85, 0x10)
    with pytest.raises(CorruptRecord):
        world.start()


def test_kinds_of_a_batch_and_its_count_agree() -> None:
    _, replica = begin()
    item = Item(1, 1, 0, 5_000, [b"body"], set())
    assert item.kind in (KIND_MESSAGES, KIND_MESSAGES + 1)
    head = bytearray(item.encoded(1))
    head[12] = KIND_COMMAND
    head[8:12] = crc32(bytes(head[12:])).to_bytes(4, "little")
    with pytest.raises(CorruptRecord, match="contradict"):
        replica.group.append_replica(bytes(head), 0, None)
    assert pack_lengths([b"abc"]) == b"\x03\0\0\0"
