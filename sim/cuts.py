"""Trouble between clients and their node: connections that are cut, clients that do not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.stage import Stage


def lose_one(world: Stage) -> None:
    """A client goes, without a word or with one."""
    if not world.connections:
        return
    connection = world.random.choice(world.connections)
    if world.random.random() < 0.3 and connection.ready and not connection.condemned:
        world.say("%s says goodbye", connection.name)
        connection.say_goodbye()
        return
    world.say("%s is cut", connection.name)
    world.count("cuts")
    world.disconnect(connection)


def garble_one(world: Stage) -> None:
    """A frame of a client comes damaged: its connection ends, and nothing else happens."""
    ready = [c for c in world.connections if c.ready and not c.condemned and c.outbox]
    if ready:
        connection = world.random.choice(ready)
        if connection.garble():
            world.say("%s sends a damaged frame", connection.name)
            world.count("damaged frames")


def deafen_one(world: Stage) -> None:
    """A client stops reading, or reads again."""
    if not world.connections:
        return
    connection = world.random.choice(world.connections)
    if connection.dead:
        return
    connection.deaf = not connection.deaf
    world.say("%s %s", connection.name, "stops reading" if connection.deaf else "reads again")
    world.count("slow readers")
    connection.end.set_writable(not connection.deaf)
    world.stirred(connection)


def have_all_read(world: Stage) -> None:
    """From now on every client reads."""
    for connection in world.connections:
        if connection.deaf:
            connection.deaf = False
            connection.end.set_writable(True)
            world.stirred(connection)
