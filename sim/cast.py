"""Who takes part in a run: its queues, clients and actors, as the options say."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from sim.actors import Client
from sim.admin import Admin
from sim.closing import add_quitters
from sim.consumer import Consumer, Poller
from sim.copies import add_copies
from sim.model import QueueState
from sim.publisher import Publisher
from sim.reader import Reader
from sim.short_lived import add_owners

if TYPE_CHECKING:
    from sim.stage import Stage
    from sim.swarm import Options

FRAME_SIZES = (8_192, 131_072)

EAGER_WEIGHT = 5
"""Eager readers act so many times as often as others, and who publishes for them."""


def make_queues(world: Stage) -> list[QueueState]:
    """The queues of a run."""
    options = world.options
    name = options.name
    count = options.quorum_queues
    if options.has_eager_readers():
        # One is theirs.
        count = max(2, count)
    queues = [QueueState(name(f"q{n}"), "quorum", True, False) for n in range(count)]
    queues += [
        QueueState(name(f"c{n}"), "classic", True, False) for n in range(options.classic_queues)
    ]
    if options.transient_queue:
        queues.append(QueueState(name("t"), "classic", False, False))
    if options.volatile:
        kind = world.random.choice(("quorum", "classic"))
        queues.append(QueueState(name("v"), kind, True, True))
    queues[0].grouped = bool(options.groups and options.quorum_queues)
    limit_queues(queues, options, world.clustered)
    return queues


def limit_queues(queues: list[QueueState], options: Options, clustered: bool = False) -> None:
    """Say what limits the queues are to be declared with.

    Args:
        clustered: Whether those count that only the checkers of clusters know of.
    """
    for queue in queues:
        queue.most = options.most
        queue.most_bytes = options.most_bytes
        queue.drops = options.drops and queue.kind == "quorum"
        if queue.kind == "classic" and options.priorities:
            queue.max_priority = options.priorities[-1] - 2
        if queue.kind == "quorum":
            queue.delivery_limit = options.delivery_limit
            queue.own_limit = options.own_limit
            queue.retry_ms = options.retry_ms
            if clustered and not queue.volatile:
                queue.timeout_ms = options.timeout_ms or -1
                queue.single_active = options.single_active and not queue.grouped


def make_clients(world: Stage) -> list[Client]:
    """The clients of a run."""
    options, random = world.options, world.random
    clients: list[Client] = []

    def new(name: str) -> Client:
        client = Client(world, name, random.choice(FRAME_SIZES))
        clients.append(client)
        return client

    for n in range(options.clients):
        publishing = new(f"p{n}")
        for number in range(1, random.randrange(2, 4)):
            _add_publisher(
                world, publishing, number, random.choice(("confirm", "confirm", "plain"))
            )
        if random.random() < 0.3:
            # Some connections publish and consume.
            _add_receiver(world, publishing, 5, False)
        consuming = new(f"c{n}")
        for number in range(1, random.randrange(2, 4)):
            _add_receiver(world, consuming, number, True)
    if random.random() < 0.25:
        _add_publisher(world, new("x"), 1, "tx")
    if options.groups and options.quorum_queues:
        readers: list[Reader] = []
        for n in range(2):
            name = f"r{n}"
            client = new(name)
            lease_ms = options.eager_lease_ms if options.eager else options.lease_ms
            reader = Reader(world, name, 1, world.queues[0], options.name("g"), lease_ms)
            client.actors.append(reader)
            readers.append(reader)
            # Readers do one thing after another; let them come to it.
            clients += [client] * (EAGER_WEIGHT if options.eager else options.reader_weight)
        for reader in readers:
            reader.executors = readers
        if options.eager:
            # They are to find something.
            client = new("rp")
            client.actors.append(Publisher(world, "rp.1", 1, "confirm", world.queues[:1]))
            clients += [client] * EAGER_WEIGHT
    cleared = [q for q in world.queues if q.volatile or (options.purges and q.kind == "quorum")]
    if options.purges:
        cleared = world.queues
    if cleared and (options.purges or options.volatile):
        client = new("a")
        client.actors.append(Admin(world, "a", 1, cleared))
    if options.exclusive:
        add_owners(world, clients)
    if options.copies:
        add_copies(world, clients, Random(f"{world.seed} copies of"))
    if options.quits:
        add_quitters(world, clients)
    return clients


def _add_publisher(world: Stage, client: Client, number: int, mode: str) -> None:
    durable = [q for q in world.queues if q.durable and not q.volatile]
    if world.options.fanout and len(durable) > 1 and world.random.random() < 0.5:
        queues = durable
    else:
        queues = [world.random.choice(world.queues)]
    name = f"{client.name}.{mode}{number}"
    client.actors.append(Publisher(world, name, number, mode, queues))


def _add_receiver(world: Stage, client: Client, number: int, sure: bool) -> None:
    random = world.random
    eager = world.options.has_eager_readers()
    queue = random.choice(world.queues[1:] if eager else world.queues)
    name = f"{client.name}.{number}"
    no_ack = random.random() < 0.2
    if random.random() < 0.2 and not queue.single_active:
        client.actors.append(Poller(world, name, number, queue, sure, no_ack))
        return
    prefetch = random.choice(world.options.prefetches)
    shared = queue.kind == "classic" and random.random() < 0.3
    client.actors.append(Consumer(world, name, number, queue, sure, prefetch, no_ack, shared))
