"""When a quorum queue lets go of a dead letter that has to arrive: what every target has for good.

`test_at_least_once` has what becomes of letters on their way; here power fails at every step of it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Client, Pair
from tests.node.test_at_least_once import bodies, jump, keeping, kept
from tests.node.test_dead_letters import KINDS, declare, drained, ready, reject
from warren.queues.forwarding import RETRY_MS_MAX
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

DURABLE = [kind for kind in KINDS if kind != "transient"]

STEPS = 12
"""More than it takes from a rejection until the target has confirmed, and the source knows that."""


def live(pair: Pair) -> int:
    """Messages of the source whose bodies are needed."""
    return sum(int(last - first) + 1 for first, last in pair.a.queue("q").fifo.live())


def bound(client: Client, names: list[str]) -> None:
    """Have letters of the source go to all of these queues."""
    for name in names:
        client.call(spec.QueueBind(0, name, "amq.fanout", "", False, {}))


def all_go_on(pair: Pair) -> None:
    """Wait until the source has no dead letter any more."""
    pair.until(lambda: kept(pair.a, "q") == 0)


def dying(pair: Pair, to: str) -> Callable[[], None]:
    """Three letters for a queue on `b` are about to die on `a`; gives what has them die.

    One has gone there before, so that the tables of `a` are known to be new enough.
    """
    declare(pair.b.client(), "dead", to)
    pair.until(lambda: pair.a.knows("dead"))
    source = pair.a.client()
    keeping(source, "q")
    source.publish_confirmed("q", 4)
    reject(source, "q")
    pair.until(lambda: kept(pair.a, "q") == 0 and ready(pair.b, "dead") == 1)
    last = [source.get("q") for _ in range(3)][-1]
    assert last is not None
    method = spec.BasicNack(last.tag, True, False)
    return lambda: source.send(method)


@pytest.mark.rule("R-30", "DL-02")
@pytest.mark.parametrize("to", DURABLE)
@pytest.mark.parametrize("held", [False, True])
def test_power_that_fails_at_any_step_loses_none(to: str, held: bool) -> None:
    """That of both nodes at once, also where the target's disk has been slow for all that time."""
    for steps in range(STEPS):
        pair = Pair(seed=steps + 1)
        die = dying(pair, to)
        pair.b.hold_disk = held
        die()
        pair.settle(steps)
        left = kept(pair.a, "q")
        pair.a.kill()
        pair.b.kill()
        pair.b.hold_disk = False
        pair.a.start()
        pair.b.start()
        pair.until(pair.usable)
        target = pair.b.client()
        all_go_on(pair)
        found = drained(target) + drained(pair.a.client(), "q")
        assert set(found) == set(bodies(4)), f"after {steps} steps"
    assert left == (3 if held else 0), "the last time was behind the confirms, if there were any"


@pytest.mark.rule("R-30", "DL-02", "DL-03", "DL-10")
@pytest.mark.parametrize("to", KINDS)
def test_what_a_target_has_stays_until_its_confirms_have_come(to: str) -> None:
    pair = Pair()
    die = dying(pair, to)
    pair.deaf.add(("b", "a"))
    die()
    pair.until(lambda: ready(pair.b, "dead") == 4)
    pair.settle(20)
    assert (kept(pair.a, "q"), live(pair)) == (3, 3)
    pair.deaf.clear()
    pair.until(lambda: (kept(pair.a, "q"), live(pair)) == (0, 0))
    assert sorted(set(drained(pair.b.client()))) == bodies(4)


@pytest.mark.rule("DL-02")
def test_only_what_died_goes_elsewhere() -> None:
    """What is ready, held or given back stays for consumers, wherever it lies between letters."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    keeping(client, "q")
    client.publish_confirmed("q", 9)
    got = [client.get("q") for _ in range(7)]
    died, back, held = got[0::3], got[1::3], got[2::3]
    for one in died + back:
        assert one is not None
        client.send(spec.BasicReject(one.tag, one in back))
    pair.until(lambda: ready(pair.a, "dead") == len(died) and kept(pair.a, "q") == 0)
    pair.settle()
    counts = pair.a.queue("q").counts()
    assert (int(counts.ready), int(counts.held)) == (len(back) + 2, len(held))
    assert drained(client) == [one.body for one in died if one]
    assert sorted(drained(client, "q")) == sorted([one.body for one in back if one] + bodies(2, 8))


@pytest.mark.rule("DL-10", "R-30")
@pytest.mark.parametrize("orderly", [True, False])
def test_it_lives_until_the_last_of_its_targets_has_it(orderly: bool) -> None:
    """With its body, behind a restart too, and while the files about it are written anew."""
    pair = Pair(alone=True, file_bytes=1 << 16)
    client = pair.a.client()
    no_room: Table = {"x-max-length": 0, "x-overflow": "reject-publish"}
    for name in ("dead", "full", "later"):
        declare(client, name, **(no_room if name == "full" else {}))
    bound(client, ["dead", "full", "later"])
    keeping(client, "q", exchange="amq.fanout")
    client.publish_confirmed("q", 2)
    reject(client, "q", 2)
    pair.until(lambda: ready(pair.a, "dead") == ready(pair.a, "later") == 2)
    for _ in range(8):
        for _ in range(20):
            client.publish("q", bytes(4_000))
        pair.settle()
        assert len(drained(client, "q")) == 20
        pair.a.queue("q").snapshot()
        pair.settle()
    assert (kept(pair.a, "q"), live(pair)) == (2, 2)
    if orderly:
        pair.a.node.prepare_close()
        pair.settle()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    pair.until(lambda: kept(pair.a, "q") == live(pair) == 2)
    client.call(spec.QueueDelete(0, "full", False, False, False))
    declare(client, "full")
    bound(client, ["full"])
    jump(pair, RETRY_MS_MAX)
    pair.until(lambda: (kept(pair.a, "q"), live(pair)) == (0, 0))
    assert sorted(drained(client, "full")) == bodies(2)
    assert set(drained(client)) == set(bodies(2))
