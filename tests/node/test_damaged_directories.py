"""Damage anywhere in a node's log: it starts all the same, and a majority of others mends it.

`WARREN_DAMAGE_SEEDS` sets the number of clusters; in each, one place after the other is damaged.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from sim.disk import SimDisk
from tests.node.pair import Pair, Station
from warren.errors import CorruptRecord
from warren.log.manifest import DIRECTORY, MANIFEST_PATH, decode, log_path, sidecar_path
from warren.replication.member import Member
from warren.wire.amqp091 import spec

FILE_BYTES = 1 << 15
QUEUES = ("one", "two")
BLOCK_BYTES = 4_096
SMALL_BYTES = 500
"""Small files are chosen as if they were larger by so much."""
PLACES = 5
SEEDS = int(os.environ.get("WARREN_DAMAGE_SEEDS", "2"))


def body(number: int) -> bytes:
    """A message."""
    return b"message %06d " % number + b"." * 1_000


class Trial:
    """Three nodes with two quorum queues; the disk of c is damaged again and again.

    Attributes:
        published: What each queue has.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pair = Pair(seed, alone=True, file_bytes=FILE_BYTES)
        for name in "bc":
            self.pair.add(name)
        self.published: dict[str, int] = dict.fromkeys(QUEUES, 0)
        self.client = self.pair.a.client()
        self.client.call(spec.ConfirmSelect(False))
        for queue in QUEUES:
            assert isinstance(self.client.declare(queue, kind="quorum"), spec.QueueDeclareOk)
        self.publish(80)

    @property
    def c(self) -> Station:
        """The node whose disk is damaged."""
        return self.pair.stations["c"]

    def publish(self, count: int) -> None:
        """Publish to both queues, a few messages at a time, and wait for the confirms."""
        for at in range(count):
            queue = QUEUES[at % 2]
            self.published[queue] += 1
            self.client.publish(queue, body(self.published[queue]))
            if self.random.random() < 0.5:
                self.pair.until(lambda: len(self.client.acked) == self.client.published)
        self.pair.until(lambda: len(self.client.acked) == self.client.published)

    def damage(self) -> str:
        """Stop c, and spoil one place of its log; says what was done."""
        if self.random.random() < 0.5:
            self.pair.settle(self.random.randrange(40))
        self.c.kill()
        image = self.c.disk.image()
        paths = [MANIFEST_PATH]
        for number, _ in decode(image[MANIFEST_PATH]).files:
            paths += [log_path(number), sidecar_path(number)]
        sizes = {path: len(image[path].rstrip(b"\0")) for path in paths if path in image}
        path = self.random.choices(list(sizes), [size + SMALL_BYTES for size in sizes.values()])[0]
        at = self.random.randrange(max(1, sizes[path]))
        way = self.random.choice(["flip", "zero", "cut"])
        if way == "flip":
            self.c.disk.flip(path, at, 1 << self.random.randrange(8))
        elif way == "zero":
            at -= at % BLOCK_BYTES
            size = min(BLOCK_BYTES, len(image[path]) - at)
            overwrite(self.c.disk, path, at, bytes(size))
        else:
            file = self.c.disk.open(path)
            file.truncate(at)
            file.sync()
        return f"{way} {path} {at}"

    def start(self) -> bool:
        """Start c, as its server would; whether it had to begin anew."""
        c = self.c
        c.refusals.clear()
        try:
            c.start()
        except CorruptRecord as error:
            # The other two have a majority, and say so.
            if error.path == MANIFEST_PATH:
                for name in c.disk.list(DIRECTORY):
                    c.disk.remove(f"{DIRECTORY}/{name}")
            c.begin_anew()
        for _ in range(2_000):
            if c.refusals:
                c.begin_anew()
                c.refusals.clear()
            if self.whole():
                break
            self.pair.step()
        else:
            raise AssertionError("c does not come up")
        anew = c.former_uid != b""
        c.former_uid = b""
        return anew

    def whole(self) -> bool:
        """Whether c serves, and votes in each queue with all that there is."""
        c = self.c
        if not c.node.ready:
            return False
        for queue in QUEUES:
            member = self.member(queue, c)
            if member is None or not member.raft.state.is_voter():
                return False
            others = [self.member(queue, station) for station in self.pair.stations.values()]
            leader = next((m for m in others if m is not None and m.raft.is_leader), None)
            if leader is None or member.raft.commit_index < leader.raft.commit_index:
                return False
            if not any(
                copy.is_copy("c", member.hard_state.incarnation) and copy.voter
                for copy in leader.raft.members
            ):
                return False
        return True

    def member(self, queue: str, station: Station) -> Member | None:
        """A node's copy of a queue."""
        record = self.pair.a.node.metadata.queue("/", queue)
        assert record is not None
        return station.node.cluster.members.get(int(record.group_id))

    def check(self) -> None:
        """All that was confirmed is there, as c sees it."""
        client = self.c.client()
        for queue in QUEUES:
            client.messages.clear()
            client.consume(queue)
            count = self.published[queue]
            self.pair.until(lambda count=count: len(client.messages) == count)
            assert client.bodies() == [body(number) for number in range(1, count + 1)]
        client.vanish()


def overwrite(disk: SimDisk, path: str, at: int, data: bytes) -> None:
    """Change what a disk has."""
    disk.open(path).write_durable([data], at)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_majority_of_whole_nodes_mends_damage_anywhere(seed: int) -> None:
    trial = Trial(seed)
    for _ in range(PLACES):
        what = trial.damage()
        # Shown where the test fails.
        print(what, "begins anew" if trial.start() else "starts")
        trial.check()
        trial.publish(20)
