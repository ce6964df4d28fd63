"""Nodes whose disk has changed what it was given, as processes see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, declare, ready, seen_by
from tests.cluster.test_recovery import QUEUE, bodies, fill, membership, take
from tests.support.broker import Broker
from warren.client import PERSISTENT, connect
from warren.config.identity import read_identity


def newest(folder: Path) -> Path:
    """The file that was being written."""
    lines = (folder / "log" / "MANIFEST").read_text().splitlines()
    number = next(line.split()[1] for line in lines if line.endswith(" open"))
    return folder / "log" / f"{int(number):08d}.log"


def flip(path: Path, text: bytes) -> None:
    """Flip a bit of the first place at which a file has some text."""
    data = bytearray(path.read_bytes())
    data[data.index(text)] ^= 0x20
    path.write_bytes(data)


def spoil(folder: Path, what: str) -> None:
    """Damage a directory in a way that leaves it open what was there."""
    if what == "newest file":
        flip(newest(folder), bodies(50, 51)[0])
    else:
        (folder / "log" / "MANIFEST").write_bytes(bytes(100))


@pytest.mark.parametrize("what", ["newest file", "manifest"])
def test_a_damaged_node_begins_anew(cluster: Cluster, what: str) -> None:
    """As soon as the others can do without what it has, and not before."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    for node in nodes:
        seen_by(node, QUEUE)
    for first in range(0, 100, 10):
        # One write each: the newest one could not be told from one that the kill cut off.
        fill(nodes[0], first, first + 10)
    damaged = nodes[2]
    eventually(lambda: len(known(damaged.folder)) == 2, WAIT_S)
    damaged.broker.kill()
    spoil(damaged.folder, what)
    nodes[1].broker.kill()
    image = (damaged.folder / "log" / "MANIFEST").read_bytes()
    damaged.broker.launch()
    damaged.says("The directory stays as it is until a majority of the other nodes")
    damaged.says("it begins anew once the others are a majority without it")
    assert (damaged.folder / "log" / "MANIFEST").read_bytes() == image
    nodes[1].broker.start()
    damaged.broker.wait()
    damaged.says("the node begins anew, since its log is damaged")
    cluster.settled()
    eventually(lambda: membership(damaged, damaged) == "voter", WAIT_S)
    # With the damaged one as half of the majority, nothing is missing.
    nodes[0].broker.kill()
    assert take(nodes[1], 100) == bodies(0, 100)
    assert eventually(lambda: ready(damaged, QUEUE) == 0, WAIT_S)
    # From now on it starts like any other.
    damaged.broker.restart(kill=True)
    assert damaged.broker.log_text().count("begins anew, since") == 1


def known(folder: Path) -> list[tuple[str, str, int]]:
    """The other nodes that a directory knows of."""
    identity = read_identity(str(folder))
    return [] if identity is None else identity.nodes


def test_a_single_node_says_what_to_do_and_does_it(make_broker: Callable[..., Broker]) -> None:
    broker = make_broker()
    broker.start()
    with connect(broker.url) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_select()
        for first in range(0, 100, 10):
            bunch = bodies(first, first + 10)
            assert channel.publish_many("", "q", bunch, PERSISTENT) == []
    broker.kill()
    assert broker.data_dir is not None
    path = newest(broker.data_dir)
    flip(path, bodies(50, 51)[0])
    image = path.read_bytes()
    assert broker.launch().wait(WAIT_S) == 2
    said = broker.log_text()
    assert f"{path}: damaged at byte " in said and "start with --salvage" in said
    assert "Traceback" not in said and path.read_bytes() == image
    broker.options.append("--salvage")
    broker.start()
    got = []
    with connect(broker.url) as connection:
        channel = connection.channel()
        while (delivery := channel.get("q", no_ack=True)) is not None:
            got.append(delivery.body)
    # One write, or ten messages, is gone, and it is said which.
    lost = [n for n, text in enumerate(bodies(0, 100)) if text not in got]
    assert 50 in lost and len(lost) <= 10
    assert got == [text for text in bodies(0, 100) if text in got]
    first, last = lost[0], lost[-1]
    assert f"messages {first} to {last} of queue 'q' in vhost '/' are gone" in broker.log_text()
    # From now on it starts like any other, and what is left of the look it does by itself.
    broker.options.remove("--salvage")
    broker.restart(kill=True)
    assert eventually(lambda: not (path.parent / "SALVAGE").exists(), WAIT_S)
