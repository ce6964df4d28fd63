"""Connections of users and vhosts that are gone: they are closed, and their clients told why."""

from __future__ import annotations

from typing import Final, final

from warren.metadata.departed import Departed
from warren.node.loop import Loop
from warren.node.sweep import Sweep
from warren.protocols.client import ClientConnection

CLOSED_AT_ONCE: Final = 64
"""Connections closed in one turn: each costs some ten microseconds for each of its consumers."""


@final
class Evictions:
    """Of one node."""

    def __init__(self, loop: Loop) -> None:
        self._loop: Loop = loop

    def user_deleted(self, user: str) -> None:
        """Close the connections of a user that is no more."""
        self._close(
            [each for each in self._loop.connections.values() if each.user == user],
            user_gone(user),
        )

    def vhost_deleted(self, vhost: str) -> None:
        """Close the connections to a vhost that is no more."""
        self._close(
            [each for each in self._loop.connections.values() if each.vhost == vhost],
            vhost_gone(vhost),
        )

    def take_over(self, departed: Departed) -> None:
        """Metadata came as a whole from another node: close what was of those that are gone."""
        if not departed.vhosts and not departed.users:
            return
        gone: dict[str, list[ClientConnection]] = {}
        for each in self._loop.connections.values():
            if each.vhost in departed.vhosts:
                gone.setdefault(vhost_gone(each.vhost), []).append(each)
            elif each.user in departed.users:
                gone.setdefault(user_gone(each.user), []).append(each)
        for text, connections in gone.items():
            self._close(connections, text)

    def vhosts_in_use(self) -> set[str]:
        """Vhosts of which a connection is left."""
        return {each.vhost for each in self._loop.connections.values()}

    def _close(self, connections: list[ClientConnection], text: str) -> None:
        Eviction(self._loop, text).begin(connections)


@final
class Eviction(Sweep[ClientConnection]):
    """Closes some connections and tells their clients why, from the next turn on."""

    def __init__(self, loop: Loop, text: str) -> None:
        super().__init__(loop, CLOSED_AT_ONCE)
        self._text: str = text

    def see_to(self, thing: ClientConnection) -> None:
        """Close a connection."""
        thing.shut_down(self._text)


def user_gone(user: str) -> str:
    """What clients of a user that was deleted are told; RabbitMQ's words."""
    return f"user '{user}' is deleted"


def vhost_gone(vhost: str) -> str:
    """What clients of a vhost that was deleted are told; RabbitMQ's words."""
    return f"vhost '{vhost}' is deleted"
