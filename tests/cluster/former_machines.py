"""Histories of what 0.1.0 knows, through the machines of whichever release is found first.

    python former_machines.py queues|tables SEEDS

A line says what there is of each history in turn, so that the lines of two releases can be
compared: nodes of both are in one cluster, where the same log has to come to the same state.
"""

from __future__ import annotations

import hashlib
import sys
from random import Random

from librt.strings import BytesWriter

from tests.queues.driver import Driven
from warren.metadata import commands as tables
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import MemberRecord
from warren.queues.fifo import commands as queues
from warren.wire.amqp091.table import Table

QUEUE_STEPS = 400
TABLE_STEPS = 150
VERSION = 3
LIMITS = (-1, -1, 0, 2, 20)
NODES = ("a", "b", "c", "d")


class QueueHistory:
    """A queue, and what is done with it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.driven = Driven(self.random.choice(LIMITS))
        self.next = 0
        self.newest = 0
        self.consumers: list[int] = []
        self.epochs: dict[str, int] = {}

    def step(self) -> None:
        """Do something, which the machine may refuse."""
        random, driven = self.random, self.driven
        choice = random.randrange(16)
        if choice < 4:
            count = random.randint(1, 40)
            driven.enqueue(self.next, count, random.randint(1, 5_000))
            self.next += count
        elif choice < 6:
            self.newest += 1
            self.consumers.append(self.newest)
            driven.attach(self.newest, random.choice([1, 2, 10, 1_000]), random.randint(-1, 2))
        elif choice < 10 and self.consumers:
            self.answer(random.choice(self.consumers))
        elif choice == 10 and self.consumers:
            self.leave()
        elif choice == 11:
            self.newest += 1
            self.consumers.append(self.newest)
            driven.get(self.newest)
        elif choice == 12:
            name = random.choice("ab")
            out = BytesWriter()
            queues.acquire(out, name, 0)
            self.epochs[name] = int(driven.run(out.getvalue()).epoch)
        elif choice == 13 and self.epochs:
            name = random.choice(sorted(self.epochs))
            driven.checkout(name, self.epochs[name], 0, random.randint(1, 50))
        elif choice == 14 and self.epochs:
            name = random.choice(sorted(self.epochs))
            if random.random() < 0.5:
                driven.write(
                    lambda out: queues.group_settle(
                        out, name, self.epochs[name], random.randint(1, 4)
                    )
                )
            else:
                driven.write(lambda out: queues.group_release(out, name, self.epochs[name]))
        elif random.random() < 0.3:
            driven.write(queues.purge)
        driven.dispatch()

    def answer(self, consumer: int) -> None:
        """A consumer settles, gives back or discards some of what it was given."""
        random, driven = self.random, self.driven
        found = driven.fifo.consumers.get(consumer)
        if found is None or found.next_mid == 0:
            return
        first = random.randrange(found.next_mid)
        last = min(first + random.choice([0, 0, 3, 50]), found.next_mid - 1)
        choice = random.randrange(6)
        if choice < 3:
            driven.settle(consumer, first, last)
        elif choice < 5:
            driven.return_(consumer, first, last, choice == 3)
        else:
            driven.write(lambda out: queues.discard(out, consumer, first, last))

    def leave(self) -> None:
        """Consumers cancel, go, or end with their session."""
        consumer = self.random.choice(self.consumers)
        choice = self.random.randrange(3)
        if choice == 0:
            self.driven.cancel(consumer)
            return
        self.consumers.remove(consumer)
        if choice == 1:
            self.driven.down(consumer)
        else:
            self.driven.down_all([consumer])


def queue_lines(seed: int) -> list[str]:
    """What there is of a queue, every now and then, and all that it has handed out."""
    history = QueueHistory(seed)
    lines: list[str] = []
    handed = 0
    for step in range(QUEUE_STEPS):
        try:
            history.step()
        except Exception as error:
            lines.append(f"{seed} {step} {type(error).__name__}")
        if step % 20 == 19:
            new = history.driven.deliveries[handed:]
            handed += len(new)
            out = ",".join(f"{each.first}+{each.count}" for each in new)
            state = history.driven.fifo.encode()
            lines.append(f"{seed} {step} {len(state)} {_digest(state)} {out}")
    return lines


def table_lines(seed: int) -> list[str]:
    """The tables after commands drawn at random, and which of them changed something."""
    random = Random(seed)
    machine = MetadataMachine()
    done = ""
    index = 0

    def apply(command: tables.Command) -> None:
        nonlocal done, index
        index += 1
        done += "1" if machine.apply(index, command).changed else "0"

    apply(tables.BeginCluster(b"c" * 16, VERSION))
    for node in NODES:
        apply(tables.AddNode(node, node.encode() * 16, node, 1, 7))
        apply(tables.NodeUp(node, node.encode() * 16, b"life" + node.encode(), 1, 0, VERSION))
    for _ in range(TABLE_STEPS):
        command = _command(machine, random, index)
        if command is not None:
            apply(command)
    state = machine.snapshot()
    return [f"{seed} {len(state)} {_digest(state)} {done}"]


def _command(machine: MetadataMachine, random: Random, index: int) -> tables.Command | None:
    vhost = random.choice(["/", "v", "w"])
    queue = f"q{random.randrange(6)}"
    exchange = f"x{random.randrange(4)}"
    node = random.choice(NODES)
    choice = random.randrange(20)
    if choice < 2:
        return tables.DeclareVhost(vhost)
    if choice == 2:
        return tables.DeleteVhost(vhost)
    if choice == 3:
        scheme = "rabbit_password_hashing_sha256"
        return tables.SetUser(random.choice("mn"), b"h" * 36, scheme, [], False)
    if choice == 4:
        return tables.SetPermissions(random.choice("mn"), vhost, ".*", ".*", "")
    if choice < 7:
        kind = random.choice(["direct", "topic", "fanout", "headers"])
        return tables.DeclareExchange(vhost, exchange, kind, True, random.random() < 0.3, False, {})
    if choice < 12:
        kind = random.choice(["classic", "quorum"])
        members = [MemberRecord(name, 100 + index, True) for name in random.sample(NODES, 3)]
        held = members if kind == "quorum" else []
        given: Table = {"x-queue-type": kind}
        return tables.DeclareQueue(vhost, queue, kind, True, False, 0, given, index, node, held)
    if choice < 14:
        key = f"k{random.randrange(3)}"
        return tables.Bind(vhost, exchange, queue, False, key, {}, True)
    if choice == 14:
        record = machine.queue(vhost, queue)
        return record and tables.DeleteQueue(vhost, queue, int(record.group_id), True)
    if choice < 18:
        definition = {"target-group-size": 5, "queue-leader-locator": "balanced"}
        place = random.randrange(3)
        return tables.SetPolicy(
            vhost, random.choice("pq"), False, "^q", "queues", place, definition
        )
    if choice == 18:
        life = index.to_bytes(4, "big")
        return tables.NodeUp(node, node.encode() * 16, life, 2, 0, VERSION)
    return tables.RemoveNode(random.choice(NODES[1:]), random.random() < 0.5)


def _digest(data: bytes) -> str:
    return hashlib.sha256(bytes(data)).hexdigest()[:16]


if __name__ == "__main__":
    lines = queue_lines if sys.argv[1] == "queues" else table_lines
    for seed in range(int(sys.argv[2])):
        print("\n".join(lines(seed)))
