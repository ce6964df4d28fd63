"""The first node of a list with an empty disk: whatever others answer, and in whatever order."""

from __future__ import annotations

import asyncio
from random import Random

from warren.config.config import ServerConfig
from warren.ports import Deaf, PeerHello, PeerListener
from warren.protocols.peer.hello import NO_CLUSTER
from warren.server.formation import has_to_join

CLUSTER = bytes(range(16))
SEEDS = 150
EVENTS = 60


class Answers:
    """In the place of the network: what nodes say comes from a script."""

    def __init__(self) -> None:
        self.listener: PeerListener = Deaf()
        self.refused_by: dict[str, PeerHello] = {}
        self.dialled: set[str] = set()

    def dial(self, peer: str, host: str, port: int) -> None:
        self.dialled.add(peer)


class Run:
    """The other nodes of a list, some of which may have a cluster, or come to have one.

    Attributes:
        said: Who has proven who it is, and said whether it has a cluster.
        found: Whether one of them had.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names = [f"n{number}" for number in range(2, self.random.randrange(3, 7))]
        # Those that answer at all, often not everybody.
        self.awake = [name for name in self.names if self.random.random() < 0.8]
        self.members = {name for name in self.names if self.random.random() < 0.15}
        self.said: set[str] = set()
        self.found = False
        self.network = Answers()
        self.linked: set[str] = set()

    async def run(self) -> None:
        nodes = tuple((name, "127.0.0.1", 1) for name in ("n1", *self.names))
        config = ServerConfig(node_name="n1", data_dir="", listeners=(), cluster_nodes=nodes)
        deciding = asyncio.create_task(has_to_join(config, self.network))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        assert self.network.dialled == set(self.names)
        for _ in range(EVENTS):
            # Several may come before it gets its turn.
            for _ in range(self.random.randrange(1, 4)):
                if self.awake and not deciding.done():
                    self.happen(self.random.choice(self.awake))
            for _ in range(4):
                await asyncio.sleep(0)
            assert deciding.done() == (self.found or self.said == set(self.names))
        if deciding.done():
            assert deciding.result() == self.found
        deciding.cancel()

    def happen(self, name: str) -> None:
        """Something that one node does."""
        listener, network = self.network.listener, self.network
        cluster_id = CLUSTER if name in self.members else NO_CLUSTER
        hello = PeerHello(name, name.encode().ljust(16), cluster_id, 1, "1", 1)
        event = self.random.choice(("link", "refuse", "refuse unproven", "reach", "member"))
        if event == "member":
            if self.random.random() < 0.1:
                self.members.add(name)
        elif event == "reach":
            listener.incoming(name, hello)
            listener.received(name, b"\0")
            listener.incoming_lost(name)
        elif event == "refuse unproven":
            if name not in network.refused_by:
                listener.refused(name, "the secret is another one")
        elif name in self.linked:
            self.linked.discard(name)
            listener.unlinked(name)
        else:
            self.said.add(name)
            self.found = self.found or name in self.members
            if event == "link":
                self.linked.add(name)
                listener.linked(name, hello)
            else:
                network.refused_by[name] = hello
                listener.refused(name, "another node of this name is in the cluster")


def test_it_begins_a_cluster_only_when_all_others_have_none() -> None:
    """It joins as soon as one has a cluster, and waits as long as one has not said anything."""
    decided = set()
    for seed in range(SEEDS):
        run = Run(seed)
        asyncio.run(run.run())
        decided.add((run.found, run.said == set(run.names)))
    assert decided == {(True, True), (True, False), (False, True), (False, False)}
