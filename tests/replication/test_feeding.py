"""What a leader sends to peers that lack entries, and from where it takes them."""

from __future__ import annotations

from tests.replication.hosts import Frame, World
from warren.errors import CorruptRecord
from warren.replication import kinds
from warren.replication.feeding import APPEND_BYTES, BACKLOG_BYTES
from warren.replication.throttle import BYTES_PER_MS

SIZE = 100_000
COUNT = 40


def behind(count: int = COUNT, size: int = SIZE) -> World:
    """A leader a, a member c that follows, and b, which is away and misses some entries."""
    world = World()
    world.part("a", "b")
    world.hosts["a"].append(count, size)
    world.settle()
    assert last(world, "a") - last(world, "b") == count
    return world


def last(world: World, name: str) -> int:
    """The newest entry of a member."""
    return int(world.hosts[name].member.log.last_index)


def caught_up(world: World, name: str = "b") -> bool:
    """Whether a member has what the leader has."""
    return last(world, name) == last(world, "a")


def steps(world: World, most: int = 200) -> list[Frame]:
    """Let time pass until b has caught up; what it was sent."""
    sent: list[Frame] = []
    for _ in range(most):
        if caught_up(world):
            return sent
        sent += [frame for frame in world.frames if frame[1] == "b"]
        for frame in world.taken():
            world.deliver(frame)
        for host in world.hosts.values():
            host.write()
        world.now += 10
        for host in world.hosts.values():
            host.own_throttle.tick(world.now, host.written)
            host.member.raft.tick(world.now)
            host.member.work()
    raise AssertionError("b has not caught up")


def reading(world: World) -> None:
    """Have b back, and the leader begin to read for it: all has happened but the read."""
    world.join("a", "b")
    for _ in range(4):
        for frame in world.taken():
            world.deliver(frame)
        world.hosts["b"].write()
        world.hosts["a"].member.work()


def test_what_is_in_memory_is_sent_from_there_in_appends_of_a_bounded_size() -> None:
    world = behind()
    leader = world.hosts["a"]
    world.join("a", "b")
    sent = steps(world)
    assert leader.executor.reads == 0
    assert max(len(frame) for _, _, frame in sent) < APPEND_BYTES + SIZE + 1_000
    assert len([frame for _, _, frame in sent if len(frame) > SIZE]) >= COUNT * SIZE // APPEND_BYTES


def test_the_rest_is_read_from_disk_in_part_after_part() -> None:
    world = behind()
    leader = world.hosts["a"]
    leader.forget_entries()
    world.join("a", "b")
    begun = world.now
    sent = steps(world)
    assert leader.executor.reads >= COUNT * SIZE // APPEND_BYTES
    assert max(len(frame) for _, _, frame in sent) < APPEND_BYTES + SIZE + 1_000
    # Two reads may begin at once; the others are paid for by time.
    assert world.now - begun > (COUNT * SIZE - 4 * APPEND_BYTES) // BYTES_PER_MS
    assert not leader.damage


def test_one_read_at_a_time_for_a_peer_and_nothing_else_is_sent_there_meanwhile() -> None:
    world = behind()
    leader = world.hosts["a"]
    leader.forget_entries()
    reading(world)
    leader.append(5)
    for _ in range(3):
        leader.member.work()
    assert leader.executor.reads == 1
    assert [frame for frame in world.frames if frame[1] == "b" and len(frame[2]) > SIZE] == []
    assert caught_up(world, "c") is False
    world.hosts["a"].write()
    steps(world)
    assert caught_up(world, "c")


def test_what_the_link_has_to_take_first_holds_up_that_peer_alone() -> None:
    world = World()
    leader = world.hosts["a"]
    leader.backlog["b"] = BACKLOG_BYTES + 1
    leader.append(3, SIZE)
    leader.member.work()
    to_b = [frame for _, _, frame in world.taken(to="b") if frame[0] == kinds.RAFT]
    assert all(len(frame) < 1_000 for frame in to_b)
    assert leader.later > 0
    world.settle()
    assert caught_up(world, "c") and not caught_up(world, "b")
    later = leader.later
    leader.member.go_on()
    world.settle()
    assert leader.later > later and not caught_up(world, "b"), "it is too much still"
    leader.backlog["b"] = BACKLOG_BYTES
    leader.member.go_on()
    world.settle()
    assert caught_up(world, "b")


def test_what_cannot_be_read_is_told_to_the_node_and_sent_when_it_can() -> None:
    world = behind(10)
    leader = world.hosts["a"]
    leader.forget_entries()
    files = leader.disk.image()
    path = max(files, key=lambda path: len(files[path].rstrip(b"\0")))
    at = len(files[path]) // 2
    leader.disk.flip(path, at, 0xFF)
    world.join("a", "b")
    world.settle()
    for times in (1, 2):
        assert [type(error) for error in leader.damage] == [CorruptRecord] * times
        assert not caught_up(world, "b") and leader.later == times
        leader.member.go_on()
        world.settle()
    leader.disk.flip(path, at, 0xFF)
    leader.member.go_on()
    steps(world)


def test_what_was_compacted_while_it_was_to_be_read_is_replaced_by_a_snapshot() -> None:
    world = behind()
    leader = world.hosts["a"]
    leader.forget_entries()
    for _ in range(4):
        leader.own_throttle.want(lambda: None)
    reading(world)
    assert leader.executor.reads == 0, "the allowance is used up by other groups"
    assert leader.member.snapshots.take(leader.member, at_once=True) > 0
    leader.write()
    world.wait(400)
    assert leader.executor.reads > 0 and not leader.damage
    assert [effect.offer.target for effect in leader.to_send] == ["b"]
    assert leader.to_send[0].offer.index == leader.member.applied_index


def test_a_read_that_brought_little_leaves_the_rest_of_its_share_to_others() -> None:
    world = behind(5, 100)
    leader = world.hosts["a"]
    leader.forget_entries()
    world.join("a", "b")
    world.settle()
    assert caught_up(world) and leader.executor.reads == 1
    begun: list[int] = []
    for number in range(3):
        leader.own_throttle.want(lambda number=number: begun.append(number))
    assert begun == [0, 1]


def test_of_a_member_that_was_stopped_nothing_is_sent_any_more() -> None:
    world = behind()
    leader = world.hosts["a"]
    leader.forget_entries()
    reading(world)
    leader.member.stop()
    world.taken()
    leader.executor.drain()
    assert world.taken(to="b") == []
