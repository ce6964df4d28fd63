"""Messages that go on elsewhere: those alone are taken that go, and no others are marked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service.caller import LOCAL
from warren.admin.service.looking import look
from warren.admin.service.messages import get_messages
from warren.admin.service.moving import Choice, Destination, MoveProgress, move_messages
from warren.admin.service.operation import Operation
from warren.errors import Refusal
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

COUNT = 1_200
"""Messages of the queue: more than are looked at at a time."""
EVERY = 40
"""One in so many died."""
DIED = tuple(range(7, COUNT, EVERY))
MOVES: Operation[..., Any] = move_messages


def filled(kind: str) -> Pair:
    """A queue of node `a`, with letters among others that died in `dying`."""
    pair = Pair()
    client = pair.a.client()
    client.declare("q", kind=kind)
    client.declare("here", kind="quorum")
    dying: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    dying["x-message-ttl"] = 0
    client.call(spec.QueueDeclare(0, "dying", False, True, False, False, False, dying))
    client.call(spec.ConfirmSelect(False))
    for number in range(COUNT):
        client.publish("dying" if number in DIED else "q", b"%d" % number)
    pair.until(lambda: ready(pair) == COUNT)
    return pair


def ready(pair: Pair) -> int:
    """How many messages are ready in `q`."""
    return int(pair.a.queue("q").ready_count())


def moved(pair: Pair, on: str, seen: Any = None, to: str = "here") -> MoveProgress:
    """How far a move to `here` of what died in `dying` has come."""

    async def run() -> MoveProgress:
        service = service_of(pair, on)
        last = MoveProgress()
        asked = {"vhost": "/", "queue": "q", "count": COUNT, "choice": Choice(queue="dying")}
        destination = Destination(way="queue", name=to)
        async for parts in MOVES(service, LOCAL, **asked, destination=destination):
            last = parts[-1]
            if seen is not None:
                seen(last)
        return last

    return answered(pair, run)


def bodies(pair: Pair, queue: str) -> list[int]:
    """What lies in a queue, none of which was ever handed out."""
    found: list[int] = []
    while True:
        words = {"vhost": "/", "queue": queue, "position": len(found) + 1, "count": 1_000}
        some = answered(pair, lambda words=words: look(service_of(pair), LOCAL, **words))
        if not some.messages:
            return found
        for each in some.messages:
            assert not each.redelivered and each.delivery_count == 0, each
        found += [int(each.body) for each in some.messages]


@pytest.mark.parametrize(("kind", "on"), [("quorum", "a"), ("classic", "a"), ("classic", "b")])
def test_a_move_takes_those_alone_that_go(kind: str, on: str) -> None:
    """The others are neither held meanwhile nor marked, on whichever node the queue is."""
    pair = filled(kind)
    before = bodies(pair, "q")
    least = COUNT

    def seen(done: MoveProgress) -> None:
        nonlocal least
        least = min(least, ready(pair) + done.moved)

    done = moved(pair, on, seen)
    assert (done.moved, done.passed_over) == (len(DIED), COUNT - len(DIED))
    # One at most is on its way, and counts for neither.
    assert least >= COUNT - 1
    assert bodies(pair, "q") == [each for each in before if each not in DIED]
    assert sorted(bodies(pair, "here")) == list(DIED)


def test_consumers_go_on_meanwhile() -> None:
    """What they take moves all that is behind it; nothing is left out or doubled."""
    pair = filled("quorum")
    client = pair.a.client()
    client.qos(100)
    client.consume("q")
    acked = 0

    def seen(done: MoveProgress) -> None:
        # More than are looked at at a time leave from the head on.
        nonlocal acked
        if acked < len(client.messages) and acked < 700:
            acked = len(client.messages)
            client.ack(client.messages[-1].tag, multiple=True)

    done = moved(pair, "a", seen)
    got = [int(body) for body in client.bodies()]
    gone, left = bodies(pair, "here"), bodies(pair, "q")
    assert len(got) > 500 and done.moved == len(gone) > 0
    assert sorted(gone + got + left) == list(range(COUNT))
    assert set(gone) <= set(DIED) and not set(left) & set(DIED)


def test_what_cannot_go_stays_as_it_was() -> None:
    """It was held, and no delivery of it failed: it does not come nearer to its limit."""
    pair = filled("quorum")
    with pytest.raises(Refusal, match="no queue takes"):
        moved(pair, "a", to="nowhere")
    pair.until(lambda: ready(pair) == COUNT)
    found = answered(pair, lambda: look(service_of(pair), LOCAL, vhost="/", queue="q", count=1_000))
    assert all(each.delivery_count == 0 for each in found.messages)
    assert sum(each.redelivered for each in found.messages) == 1


@pytest.mark.parametrize("fate", ["settled", "returned", "discarded"])
def test_messages_are_got_through_a_node_without_the_queue(fate: str) -> None:
    """What is settled there came back, since another name for who holds it was said."""
    pair = Pair()
    client = pair.a.client()
    client.declare("q")
    client.publish_confirmed("q", 3)

    def got() -> list[bytes]:
        words = {"vhost": "/", "queue": "q", "count": 2, "fate": fate}
        found = answered(pair, lambda: get_messages(service_of(pair, "b"), LOCAL, **words))
        return [each.body for each in found]

    assert got() == [b"1", b"2"]
    pair.settle()
    left = 3 if fate == "returned" else 1
    assert ready(pair) == left
    assert got() == ([b"1", b"2"] if fate == "returned" else [b"3"])
