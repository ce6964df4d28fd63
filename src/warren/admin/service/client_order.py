"""Connections and channels of one node by name, sorted once for as long as none comes or goes.

Who turns the pages of 10,000 connections has no name made and sorted again that was known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

from warren.admin.service.slices import Slices
from warren.node.node import Node
from warren.protocols.client import ClientConnection
from warren.protocols.facts import ChannelFacts, ConnectionFacts

KEPT_SECONDS: Final = 30.0
"""An order holds on to connections that are gone by now; after so long it is let go of."""


def name_of(facts: ConnectionFacts) -> str:
    """Both ends of a connection."""
    return f"{facts.peer_host}:{facts.peer_port} -> {facts.host}:{facts.port}"


def channels_of(connection: ClientConnection) -> Iterator[ChannelFacts]:
    """What is told of each channel of a connection; thousands may have thousands of consumers.

    Who goes through them lets others go on in between, and channels may be closed meanwhile.
    """
    for number in connection.channel_numbers():
        facts = connection.channel_facts(number)
        if facts is not None:
            yield facts


class NamedConnection(NamedTuple):
    """A connection and its name."""

    name: str
    connection: ClientConnection


class ChannelPlace(NamedTuple):
    """A channel by its connection and number."""

    connection: ClientConnection
    number: int


class NamedChannel(NamedTuple):
    """A channel and its name."""

    name: str
    place: ChannelPlace


class ConnectionOrder:
    """The connections to one node by name."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen: list[ClientConnection] = []
        self._names: dict[ClientConnection, str] = {}
        self._ordered: list[NamedConnection] = []

    async def of_all(self) -> list[NamedConnection]:
        """All connections by name; not to be changed."""
        here = list(self._node.connections.values())
        # The same objects in the same order: that is seen without a look into any of them.
        if here == self._seen:
            return self._ordered
        names: dict[ClientConnection, str] = {}
        named: list[NamedConnection] = []
        slices = Slices()
        for connection in here:
            name = self._names.get(connection) or name_of(connection.facts())
            names[connection] = name
            named.append(NamedConnection(name, connection))
            await slices.breathe()
        ordered = [each async for each in slices.in_order(named, _name)]
        self._seen, self._names, self._ordered = here, names, ordered
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget)
        return ordered

    def _forget(self) -> None:
        self._seen, self._names, self._ordered = [], {}, []


class ChannelOrder:
    """The channels of one node by name."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connections: list[NamedConnection] = []
        self._counts = 0, 0
        self._ordered: list[NamedChannel] = []

    async def of_all(self, connections: list[NamedConnection]) -> list[NamedChannel]:
        """All channels by name; not to be changed.

        Args:
            connections: All connections to the node, as `ConnectionOrder` has just given them.
        """
        traffic = self._node.traffic
        counts = int(traffic.channels_opened), int(traffic.channels_closed)
        if connections is self._connections and counts == self._counts:
            return self._ordered
        slices = Slices()
        named: list[NamedChannel] = []
        for name, connection in connections:
            for number in connection.channel_numbers():
                place = ChannelPlace(connection, number)
                named.append(NamedChannel(f"{name} ({number})", place))
                await slices.breathe()
        ordered = [each async for each in slices.in_order(named, _name)]
        self._connections, self._counts, self._ordered = connections, counts, ordered
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._forget)
        return ordered

    def _forget(self) -> None:
        self._connections, self._counts, self._ordered = [], (0, 0), []


def _name(named: NamedConnection | NamedChannel) -> str:
    return named.name
