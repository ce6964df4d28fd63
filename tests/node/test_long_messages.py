"""Long messages between nodes, put together by the reader of a link as they come."""

from __future__ import annotations

import pytest

import warren
from sim.disk import SimFile
from tests.node.pair import Client, MemoryPeers, Pair
from warren.log.runlist import run_list
from warren.protocols.peer.framing import MessageReader, MessageWriter
from warren.replication.kinds import PROPOSE
from warren.wire.amqp091 import spec

pytestmark = pytest.mark.skipif(warren.COMPILED, reason="the tests' links are replaced")

LONG = 1_000
BODIES = (100, 20_000, 262_144, 900_000)


def send(peers: MemoryPeers, peer: str, message: list[bytes]) -> bool:
    """Have what a link's writer makes of it on its way."""
    link = peers._station.pair.links.get((peers._station.name, peer))
    if link is None:
        return False
    writer = MessageWriter(LONG)
    assert writer.add(message)
    link.append(b"".join(writer.take()))
    return True


class Carried:
    """Links with a reader at their end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proposals = 0
        monkeypatch.setattr(MemoryPeers, "send", send)
        carried = self

        def carry(pair: Pair, source: str, target: str, count: int = -1) -> int:
            link = pair.links.get((source, target))
            while link:
                data = link.popleft()
                reader = MessageReader(LONG)
                reader.splits = True
                listener = pair.stations[target].listener
                for place, message in enumerate(reader.receive(data)):
                    long = reader.long.get(place)
                    if long is None:
                        listener.received(source, message)
                        continue
                    if long.body:
                        carried.proposals += 1
                        assert message[0] == PROPOSE
                    listener.received_in_parts(source, message, long.body, long.checksum)
                pair._end_refused()
                if pair.links.get((source, target)) is not link:
                    break
            return 0

        monkeypatch.setattr(Pair, "carry", carry)


def led_by_a(pair: Pair) -> Client:
    """A quorum queue on both nodes that a leads, and a client of b."""
    pair.add("c")
    assert isinstance(pair.a.client().declare("q", kind="quorum"), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows("q"))
    client = pair.b.client()
    client.call(spec.ConfirmSelect(False))
    return client


def test_long_proposals_come_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their messages by themselves: they are confirmed, and the same on all nodes."""
    carried = Carried(monkeypatch)
    written: list[type] = []
    write = SimFile.write

    def counted(file: SimFile, buffers: list[bytes], offset: int) -> None:
        written.extend(type(buffer) for buffer in buffers if len(buffer) > BODIES[-1])
        write(file, buffers, offset)

    monkeypatch.setattr(SimFile, "write", counted)
    pair = Pair()
    client = led_by_a(pair)
    bodies = [bytes([number]) * size for number, size in enumerate(BODIES)]
    for body in bodies:
        client.publish("q", body)
        pair.until(lambda: len(client.acked) == client.published)
    assert carried.proposals == len([size for size in BODIES if size > 16_384])
    # The leader has the record by itself, the others have it in a frame, and nobody copies it.
    assert sorted(found.__name__ for found in written) == ["bytes", "memoryview", "memoryview"]
    for station in pair.stations.values():
        queue = station.queue("q")
        pair.until(lambda queue=queue: queue.ready_count() == len(bodies))
        assert run_list(queue.live()).size == 1
    pair.a.kill()
    pair.until(lambda: any(pair.stations[name].queue("q").proposer().leads() for name in "bc"))
    reader = pair.stations["c"].client()
    for body in bodies:
        got = reader.get("q")
        assert got is not None and got.body == body
