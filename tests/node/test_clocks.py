"""Wall clocks that are wrong: what a queue's members agree on, and leases, get by without them."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.replication.member import Member
from warren.wire.amqp091 import spec

QUEUE = "q"
HOUR_MS = 3_600_000
LEASE_MS = 20_000


def member(pair: Pair) -> Member:
    """The copy of the queue that leads."""
    return pair.a.node.cluster.members[int(pair.a.queue(QUEUE).group_id)]


def publish(pair: Pair, client: Client) -> int:
    """Publish a message, and give the time that its entry has."""
    client.publish(QUEUE, b"body")
    pair.until(lambda: len(client.acked) == client.published)
    batch = member(pair).log.recent(member(pair).log.last_index)
    assert batch is not None
    return int(batch.stamp_ms)


def begun() -> tuple[Pair, Client]:
    """A cluster with a queue, and a client."""
    pair = Pair()
    pair.minds_seconds = True
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    return pair, client


def test_behind_a_clock_that_was_ahead_time_goes_on_half_as_fast() -> None:
    pair, client = begun()
    publish(pair, client)
    pair.clock.jump(HOUR_MS)
    ahead = publish(pair, client)
    pair.clock.jump(-HOUR_MS)
    began = pair.clock.monotonic_ms()
    first = publish(pair, client)
    assert ahead <= first <= ahead + 1_000
    stamps = [first]
    for _ in range(5):
        pair.clock.advance(10 * 60_000)
        pair.settle(1)
        stamps.append(publish(pair, client))
    elapsed = pair.clock.monotonic_ms() - began
    assert stamps == sorted(stamps)
    assert abs(stamps[-1] - first - elapsed // 2) < 2_000
    # In twice the time it was ahead for, it is right again.
    pair.clock.advance(HOUR_MS + 15 * 60_000)
    pair.settle(1)
    wall = pair.clock.wall_ms()
    assert wall <= publish(pair, client) <= pair.clock.wall_ms()


def holding(pair: Pair, client: Client) -> None:
    """Have a reader take all that there is, with a lease."""
    client.publish(QUEUE, b"body")
    pair.until(lambda: len(client.acked) == client.published)
    assert isinstance(client.call(spec.TableAcquire(0, QUEUE, "g", LEASE_MS)), spec.TableAcquireOk)
    answer = client.call(spec.TableCheckout(0, QUEUE, "g", 1, 0, 10, 1_000, 1 << 40))
    assert isinstance(answer, spec.TableCheckoutOk) and answer.count == 1
    pair.until(lambda: held(pair) == 1)


def held(pair: Pair) -> int:
    """How many messages readers hold."""
    return sum(int(group.held()) for group in pair.a.queue(QUEUE).fifo.groups.values())


def wait(pair: Pair, milliseconds: int) -> None:
    """Let time pass."""
    until = pair.clock.monotonic_ms() + milliseconds
    while pair.clock.monotonic_ms() < until:
        pair.step()


@pytest.mark.parametrize("hours", [0, 1, -1], ids=["right", "ahead", "behind"])
def test_a_lease_lasts_as_long_as_it_was_asked_for(hours: int) -> None:
    """And not much longer, though its clock is set meanwhile."""
    pair, client = begun()
    holding(pair, client)
    pair.clock.jump(hours * HOUR_MS)
    wait(pair, LEASE_MS - 1_000)
    assert held(pair) == 1
    wait(pair, LEASE_MS + 5_000 if hours < 0 else 5_000)
    assert held(pair) == 0
    answer = client.call(spec.TableSettle(0, QUEUE, "g", 1, 1))
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 406


def test_a_reader_that_calls_keeps_its_lease() -> None:
    pair, client = begun()
    holding(pair, client)
    pair.clock.jump(-HOUR_MS)
    for _ in range(8):
        wait(pair, LEASE_MS // 2)
        answer = client.call(spec.TableCheckout(0, QUEUE, "g", 1, 0, 10, 1_000, 1 << 40))
        assert isinstance(answer, spec.TableCheckoutOk) and answer.count == 1
    assert held(pair) == 1


def test_whoever_leads_next_gives_a_lease_its_time_again() -> None:
    pair, client = begun()
    holding(pair, client)
    group_id = int(pair.a.queue(QUEUE).group_id)
    wait(pair, LEASE_MS // 2)
    pair.a.node.queue_members.transfer(group_id, "b")
    pair.until(lambda: pair.b.node.cluster.members[group_id].raft.is_leader)
    pair.clock.jump(HOUR_MS)
    wait(pair, LEASE_MS - 1_000)
    assert held(pair) == 1
    wait(pair, 5_000)
    assert held(pair) == 0


DAY_MS = 24 * HOUR_MS
KINDS = ["quorum", "classic", "transient"]


def glanced_ahead(pair: Pair, client: Client, kind: str) -> None:
    """The wall clock was a day ahead for a moment, in which the queue took a message."""
    if kind == "transient":
        client.declare(QUEUE, durable=False)
    else:
        client.declare(QUEUE, kind=kind)
    pair.clock.jump(DAY_MS)
    client.publish_confirmed(QUEUE, 1)
    got = client.get(QUEUE)
    assert got is not None
    client.ack(got.tag)
    pair.clock.jump(-DAY_MS)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_expire_though_the_clock_was_ahead(kind: str) -> None:
    """In twice their time at most, and not in less than it."""
    pair = Pair(alone=True)
    pair.minds_seconds = True
    client = pair.a.client()
    glanced_ahead(pair, client, kind)
    client.publish(QUEUE, b"brief", expiration="10000")
    wait(pair, 9_000)
    assert pair.a.queue(QUEUE).counts().ready == 1
    wait(pair, 12_000)
    assert pair.a.queue(QUEUE).counts().ready == 0


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_messages_expire_after_a_restart_behind_a_clock_that_was_ahead(kind: str) -> None:
    pair = Pair(alone=True)
    pair.minds_seconds = True
    client = pair.a.client()
    glanced_ahead(pair, client, kind)
    client.publish(QUEUE, b"brief", expiration="10000")
    pair.until(lambda: client.published == len(client.acked))
    pair.settle()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    pair.a.client()
    assert pair.a.queue(QUEUE).counts().ready == 1
    wait(pair, 21_000)
    assert pair.a.queue(QUEUE).counts().ready == 0


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_leases_end_though_the_clock_was_ahead(kind: str) -> None:
    pair = Pair(alone=True)
    pair.minds_seconds = True
    client = pair.a.client()
    glanced_ahead(pair, client, kind)
    holding(pair, client)
    wait(pair, LEASE_MS - 1_000)
    assert held(pair) == 1
    wait(pair, LEASE_MS + 5_000)
    assert held(pair) == 0
