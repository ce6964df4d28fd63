"""Two ends of a handshake in memory, for tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from warren.ports import PeerHello
from warren.protocols.peer.handshake import Handshake, derive_key

CLUSTER = b"C" * 16


@cache
def key(secret: bytes = b"the cluster's secret") -> bytes:
    return derive_key(secret)


def hello(name: str = "a@one", uid: bytes | None = None, cluster: bytes = CLUSTER) -> PeerHello:
    """A hello whose identity follows from the name."""
    return PeerHello(name, uid or (name.encode() * 16)[:16], cluster, 7, "1.2.3", 5)


def ends(
    dialler: PeerHello | None = None,
    acceptor: PeerHello | None = None,
    *,
    dialled: str = "b@two",
    keys: tuple[bytes, bytes] | None = None,
    certified: tuple[list[str] | None, list[str] | None] = (None, None),
) -> tuple[Handshake, Handshake]:
    """The dialling end and the dialled one."""
    first, second = keys or (key(), key())
    return (
        Handshake(dialler or hello("a@one"), first, b"1" * 32, dialled, certified[0]),
        Handshake(acceptor or hello("b@two"), second, b"2" * 32, "", certified[1]),
    )


def unchanged(data: bytes) -> bytes:
    return data


def shake(
    one: Handshake, other: Handshake, change: Callable[[bytes], bytes] = unchanged
) -> list[tuple[str, bytes]]:
    """Carry bytes between the ends until both are silent; gives what was said, by whom.

    `change` may alter what the dialling end (`>`) sends.
    """
    said: list[tuple[str, bytes]] = []
    while True:
        out = one.take_output()
        back = other.take_output()
        if not out and not back:
            return said
        if out:
            said.append((">", out))
            other.receive(change(out))
        if back:
            said.append(("<", back))
            one.receive(back)
