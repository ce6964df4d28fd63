"""Numbers that fill all 64 bits of the wire cost nobody anything, least of all compiled code."""

from __future__ import annotations

import pytest

from sim.connection import SimConnection
from sim.world import World
from warren.wire.amqp091 import spec

HIGH = 1 << 63
HIGHEST = (1 << 64) - 1

METHODS: list[spec.Method] = [
    spec.BasicAck(HIGHEST),
    spec.BasicAck(HIGHEST, True),
    spec.BasicReject(HIGH),
    spec.BasicNack(HIGHEST),
    spec.BasicNack(HIGHEST, True),
    spec.TableAcquire(0, "q", "g", HIGHEST),
    spec.TableCheckout(0, "q", "g", HIGHEST, 0, 0, 0, 0),
    spec.TableCheckout(0, "q", "g", 1, HIGH, HIGH, HIGH, HIGH),
    spec.TableCheckout(0, "q", "g", 1, 0, 5, 0, HIGH - 1),
    spec.TableCheckouts(0, "q", "g", 0, HIGHEST),
    spec.TableRead(0, "q", HIGH, HIGHEST),
    spec.TableRead(0, "q", HIGH - 1, HIGH - 1, HIGHEST),
    spec.TableSettle(0, "q", "g", 1, HIGHEST),
    spec.TableRelease(0, "q", "g", HIGHEST),
]


def settle_down(world: World, connection: SimConnection | None) -> None:
    """Let everything happen that is due."""
    node = world.node
    assert node is not None
    moved = True
    while moved:
        moved = False
        if connection is not None and connection.outbox:
            connection.hand_over(len(connection.outbox))
            moved = True
        while world.executor.step():
            moved = True
        if node.needs_turn:
            world.turn()
            moved = True
        if connection is not None and connection.inbox:
            connection.receive()
            moved = True


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.NAME)
def test_wide_numbers(method: spec.Method) -> None:
    """The node answers, if only by closing the channel, and serves other channels as before."""
    world = World(1, 1)
    world.keep_up()
    settle_down(world, None)
    connection = SimConnection(world, "x", 131_072)
    settle_down(world, connection)
    assert connection.ready
    connection.send(1, spec.ChannelOpen())
    quorum = {"x-queue-type": "quorum"}
    connection.send(1, spec.QueueDeclare(queue="q", durable=True, arguments=dict(quorum)))
    connection.send(1, spec.TableAcquire(0, "q", "g", 0))
    settle_down(world, connection)
    connection.send(1, method)
    settle_down(world, connection)
    connection.send(2, spec.ChannelOpen())
    connection.send(2, spec.QueueDeclare(queue="q", passive=True))
    settle_down(world, connection)
    assert world.node is not None and world.node.failure is None
    assert not connection.dead and not connection.condemned
    assert 2 in connection.end.channels and not connection.end.channels[2].aside
