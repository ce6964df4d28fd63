"""Groups of readers that are deleted, and that take again what their lease ran out with."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.client.table import decode_runs
from warren.limits import READER_GROUPS_MAX
from warren.wire.amqp091 import spec

QUEUE = "q"
LEASE_MS = 30_000
NO_BOUND = (1 << 63) - 1


@pytest.fixture(params=["quorum", "classic"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def holding(pair: Pair, client: Client, kind: str, rows: int = 4) -> None:
    """Six messages are there, and a group with a lease has the first so many."""
    pair.minds_seconds = True
    client.declare(QUEUE, kind=kind)
    client.publish_confirmed(QUEUE, 6)
    assert acquire(client) == 1
    taken = client.call(spec.TableCheckout(0, QUEUE, "g", 1, 0, rows, 0, NO_BOUND))
    assert isinstance(taken, spec.TableCheckoutOk) and (taken.number, taken.count) == (1, rows)


def acquire(client: Client) -> int:
    answer = client.call(spec.TableAcquire(0, QUEUE, "g", LEASE_MS))
    assert isinstance(answer, spec.TableAcquireOk)
    return int(answer.epoch)


def held(pair: Pair) -> int:
    return int(pair.a.queue(QUEUE).counts().held)


def wait(pair: Pair, milliseconds: int) -> None:
    """Let time pass."""
    until = pair.clock.monotonic_ms() + milliseconds
    while pair.clock.monotonic_ms() < until:
        pair.step()


def lapse(pair: Pair) -> None:
    """Nobody hears of the group for longer than its lease."""
    wait(pair, LEASE_MS + 5_000)
    assert held(pair) == 0


def retake(client: Client, epoch: int) -> tuple[int, int, list[tuple[int, int]]]:
    """Messages of checkout 1 if it is open now, those that are gone, and which they are."""
    answer = client.call(spec.TableRetake(0, QUEUE, "g", epoch, 1))
    assert isinstance(answer, spec.TableRetakeOk)
    return int(answer.count), int(answer.gone), decode_runs(bytes(client.rows[-1]))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_checkout_whose_lease_ran_out_is_had_again(restarts: bool, kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    holding(pair, client, kind)
    lapse(pair)
    if restarts:
        pair.a.kill()
        pair.a.start()
        pair.until(lambda: pair.a.knows(QUEUE) and pair.a.queue(QUEUE).ready_count() == 6)
        client = pair.a.client()
    epoch = acquire(client)
    for _ in range(2):
        assert retake(client, epoch) == (4, 0, [(0, 3)])
        assert held(pair) == 4
    assert isinstance(client.call(spec.TableSettle(0, QUEUE, "g", epoch, 1)), spec.TableSettleOk)
    assert int(pair.a.queue(QUEUE).ready_count()) == 2
    assert retake(client, epoch) == (0, 0, []), "it is settled"


def test_a_checkout_that_others_had_some_of_is_not(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    holding(pair, client, kind)
    lapse(pair)
    consumer = pair.a.client()
    for requeued in (False, True):
        got = consumer.get(QUEUE)
        assert got is not None
        consumer.send(spec.BasicReject(got.tag, requeued))
    pair.until(lambda: int(pair.a.queue(QUEUE).ready_count()) == 5)
    assert retake(client, acquire(client)) == (0, 2, [(0, 1)]), "one left, one was with somebody"
    assert held(pair) == 0


def test_what_the_group_took_since_ends_its_claim(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    holding(pair, client, kind)
    lapse(pair)
    epoch = acquire(client)
    taken = client.call(spec.TableCheckout(0, QUEUE, "g", epoch, 0, 1, 0, NO_BOUND))
    assert isinstance(taken, spec.TableCheckoutOk) and taken.number == 2
    assert retake(client, epoch) == (0, 0, [])


def test_a_deleted_group_gives_back_what_it_has_and_none_of_its_readers_settles(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    holding(pair, client, kind)
    operator = pair.a.client()
    assert isinstance(operator.call(spec.TableDelete(0, QUEUE, "g")), spec.TableDeleteOk)
    assert (held(pair), int(pair.a.queue(QUEUE).ready_count())) == (0, 6)
    refused = client.call(spec.TableSettle(0, QUEUE, "g", 1, 1))
    assert isinstance(refused, spec.ChannelClose) and "unknown group" in refused.reply_text
    assert acquire(operator) == 2, "no epoch comes twice"
    late = pair.a.client()
    refused = late.call(spec.TableSettle(0, QUEUE, "g", 1, 1))
    assert isinstance(refused, spec.ChannelClose) and "fenced" in refused.reply_text
    taken = operator.call(spec.TableCheckout(0, QUEUE, "g", 2, 0, 9, 0, NO_BOUND))
    assert isinstance(taken, spec.TableCheckoutOk)
    assert (taken.number, taken.count) == (2, 6), "nor does the number of a checkout"
    for _ in range(2):
        answer = pair.a.client().call(spec.TableDelete(0, QUEUE, "g"))
    assert isinstance(answer, spec.ChannelClose) and "unknown group" in answer.reply_text


def test_a_cluster_of_two_releases_has_neither() -> None:
    kind = "quorum"
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    client = pair.a.client()
    holding(pair, client, kind)
    lapse(pair)
    epoch = acquire(client)
    for request in (
        spec.TableRetake(0, QUEUE, "g", epoch, 1),
        spec.TableDelete(0, QUEUE, "g"),
    ):
        refused = pair.a.client().call(request)
        assert isinstance(refused, (spec.ChannelClose, spec.ConnectionClose))
        assert "this needs cluster version 4" in refused.reply_text


def test_the_time_that_a_broker_is_down_does_not_count_against_a_lease(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    holding(pair, client, kind)
    wait(pair, LEASE_MS // 2)
    pair.a.kill()
    pair.clock.jump(100 * LEASE_MS)
    pair.a.start()
    pair.until(lambda: pair.a.knows(QUEUE) and held(pair) == 4)
    wait(pair, LEASE_MS - 1_000)
    assert held(pair) == 4
    wait(pair, 5_000)
    assert held(pair) == 0


def test_a_queue_has_so_many_groups_and_no_more(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare(QUEUE, kind=kind)
    for number in range(READER_GROUPS_MAX):
        acquired = client.call(spec.TableAcquire(0, QUEUE, f"g{number}", LEASE_MS))
        assert isinstance(acquired, spec.TableAcquireOk)
    refused = client.call(spec.TableAcquire(0, QUEUE, "more", LEASE_MS))
    assert isinstance(refused, spec.ChannelClose) and refused.reply_code == 406
    assert "delete one" in refused.reply_text
    again = client.call(spec.TableAcquire(0, QUEUE, "g7", LEASE_MS))
    assert isinstance(again, spec.TableAcquireOk) and again.epoch == 2
    assert isinstance(client.call(spec.TableDelete(0, QUEUE, "g9")), spec.TableDeleteOk)
    more = client.call(spec.TableAcquire(0, QUEUE, "more", LEASE_MS))
    assert isinstance(more, spec.TableAcquireOk)
