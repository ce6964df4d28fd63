"""Class `table`: what nodes answer that are behind, how much a checkout takes, which queue."""

from __future__ import annotations

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

NO_BOUND = (1 << 63) - 1


def follower_behind(pair: Pair) -> Client:
    """A client of node b, which does not hear of the three messages that node a has confirmed."""
    pair.add("c")
    pair.a.client().declare("q", kind="quorum")
    client = pair.b.client()
    pair.until(lambda: pair.b.knows("q"))
    pair.settle()
    assert pair.a.queue("q").proposer().leads()
    pair.withheld_group = int(pair.a.record("q").group_id)
    pair.withheld = {("a", "b"): []}
    pair.a.client().publish_confirmed("q", 3)
    return client


def test_a_follower_that_is_behind_tells_the_status_as_it_is() -> None:
    pair = Pair()
    client = follower_behind(pair)
    seen = len(client.methods)
    client.send(spec.TableStatus(0, "q", ""))
    pair.settle()
    assert len(client.methods) == seen, "it cannot know yet"
    pair.release()
    pair.until(lambda: len(client.methods) > seen)
    status = client.methods[-1]
    assert isinstance(status, spec.TableStatusOk)
    assert (status.ready, status.next) == (3, 3)


def test_a_follower_that_is_behind_knows_each_open_checkout() -> None:
    pair = Pair()
    client = follower_behind(pair)
    leader = pair.a.client()
    acquired = leader.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)
    taken = leader.call(spec.TableCheckout(0, "q", "g", acquired.epoch, 0, 0, 0, NO_BOUND))
    assert isinstance(taken, spec.TableCheckoutOk) and taken.count == 3
    seen = len(client.methods)
    client.send(spec.TableCheckouts(0, "q", "g", 0, 9))
    pair.settle()
    pair.release()
    pair.until(lambda: len(client.methods) > seen)
    open_ = client.methods[-1]
    assert isinstance(open_, spec.TableCheckoutsOk) and open_.count == 1


def test_a_checkout_goes_by_the_sizes_of_what_it_takes() -> None:
    """Not by the mean of all that came: small ones before made it many times too large."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind="quorum")
    client.call(spec.ConfirmSelect(False))
    for _ in range(200):
        client.publish("q", b"")
    pair.until(lambda: len(client.acked) == 200)
    for number in range(20):
        client.publish("q", b"x" * 10_000)
        pair.until(lambda count=201 + number: len(client.acked) == count)
    acquired = client.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)

    def take(after: int, size: int) -> spec.TableCheckoutOk:
        taken = client.call(
            spec.TableCheckout(0, "q", "g", acquired.epoch, after, 0, size, NO_BOUND)
        )
        assert isinstance(taken, spec.TableCheckoutOk)
        return taken

    first = take(0, 30_000)
    assert 200 <= first.count <= 203 and first.bytes <= 30_000
    second = take(1, 50_000)
    assert second.count == 4 and 40_000 < second.bytes <= 50_000
    assert take(2, 1).count == 1, "one is taken whatever its size"


def test_a_queue_made_anew_is_another_one() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    found: list[int] = []
    for _ in range(2):
        client.declare("q", kind="quorum")
        for _ in range(2):
            told = client.call(spec.TableIdentify(0, "q"))
            assert isinstance(told, spec.TableIdentifyOk)
            found.append(told.incarnation)
        client.call(spec.QueueDelete(0, "q", False, False, False))
    assert found[0] == found[1] != found[2] == found[3]


def test_a_follower_that_is_behind_knows_each_group() -> None:
    pair = Pair()
    client = follower_behind(pair)
    leader = pair.a.client()
    acquired = leader.call(spec.TableAcquire(0, "q", "later", 1_000))
    assert isinstance(acquired, spec.TableAcquireOk)
    seen = len(client.methods)
    client.send(spec.TableGroups(0, "q"))
    pair.settle()
    assert len(client.methods) == seen, "it cannot know yet"
    pair.release()
    pair.until(lambda: len(client.methods) > seen)
    groups = client.methods[-1]
    assert isinstance(groups, spec.TableGroupsOk) and groups.count == 1
