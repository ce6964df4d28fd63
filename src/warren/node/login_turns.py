"""Whose password is looked at next: of each address so many a second, of its users in turn.

A password is looked at when it has a turn. An address has some turns at once and further ones at a
steady pace. A right password gives its turn back, so that only wrong ones use the pace up. Right
and wrong passwords wait alike for their turns: silence says nothing of a password.

Where passwords wait, users of an address have turns one after the other. Who guesses one user's
password hardly delays other users who share the address. Of IPv6 addresses the first 64 bits
count, which are one network: a stranger has all addresses of it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from ipaddress import IPv6Address
from typing import Final, final
from zlib import crc32

from mypy_extensions import i64, mypyc_attr

FREE: Final = 10
"""Wrong passwords that have a turn at once: a person's, or those of an application that starts."""
PACE_MS: Final = 200
"""Between two turns beyond that."""
WAIT_MS_MAX: Final = 5_000
"""Half of the time in which clients have to be let in. What waited longer has no turn any more."""
NETWORKS_MAX: Final = 10_000
"""So many are remembered; those with no wrong password for longest are forgotten."""
LINES_OF_NETWORK: Final = 16
"""Users of one network share so many lines, by a checksum: names may be made up without end."""
NETWORKS_AT_ONCE: Final = 1_000
"""So many are looked at for turns that are due; others come next."""
FORGET_LOOKS: Final = 8
"""Networks that are looked at for one that may be forgotten."""
NETWORK_BYTES: Final = 8


def network_of(host: str) -> str:
    """What addresses have in common that one stranger may have."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped
    return address.packed[:NETWORK_BYTES].hex() if mapped is None else str(mapped)


def line_of(user: str) -> int:
    """The line of a network in which passwords of a user wait."""
    return crc32(user.encode("utf-8", "surrogateescape")) % LINES_OF_NETWORK


@mypyc_attr(allow_interpreted_subclasses=True)
class Turn:
    """That of one password.

    Attributes:
        network, line: Where it waits, see `network_of` and `line_of`.
        asked_ms: Since when, in monotonic time.
    """

    def __init__(self, network: str, line: int, asked_ms: i64) -> None:
        self.network: str = network
        self.line: int = line
        self.asked_ms: i64 = asked_ms


@final
class Network:
    """Turns of one network.

    Attributes:
        paid_ms: Until when the pace allows for the wrong passwords that came from it.
        under_way: Turns that were given, and of which nothing has come yet.
        lines: Turns that wait, without empty lines; the line that is next comes first.
    """

    def __init__(self) -> None:
        self.paid_ms: i64 = 0
        self.under_way: i64 = 0
        self.lines: dict[int, deque[Turn]] = {}

    def has_turn(self, now_ms: i64) -> bool:
        """Whether one more password may be looked at."""
        paid_ms = max(self.paid_ms, now_ms - FREE * PACE_MS)
        return paid_ms + (self.under_way + 1) * PACE_MS <= now_ms

    def is_as_new(self, now_ms: i64) -> bool:
        """Whether there is nothing to remember of it."""
        return self.under_way == 0 and not self.lines and self.paid_ms <= now_ms - FREE * PACE_MS

    def spend(self, now_ms: i64) -> None:
        """Count a wrong password."""
        self.paid_ms = max(self.paid_ms, now_ms - FREE * PACE_MS) + PACE_MS

    def next_turn(self, now_ms: i64) -> Turn | None:
        """The next turn that is to be given, or that came too late; None if there is none yet."""
        for line in self.lines:
            if self.lines[line][0].asked_ms < now_ms - WAIT_MS_MAX:
                return self._take(line, True)
        if not self.lines or not self.has_turn(now_ms):
            return None
        self.under_way += 1
        return self._take(next(iter(self.lines)), False)

    def _take(self, line: int, keeps_place: bool) -> Turn:
        waiting = self.lines[line]
        turn = waiting.popleft()
        if not waiting:
            del self.lines[line]
        elif not keeps_place:
            # All others come before.
            del self.lines[line]
            self.lines[line] = waiting
        return turn


@final
class LoginTurns:
    """Turns of one node."""

    def __init__(self) -> None:
        self._networks: OrderedDict[str, Network] = OrderedDict()
        self._waiting: dict[str, None] = {}
        """Networks in which turns wait; the one that was looked at longest ago comes first."""

    def waits(self) -> bool:
        """Whether some password waits for its turn."""
        return len(self._waiting) > 0

    def ask(self, turn: Turn, now_ms: i64) -> bool:
        """Whether a password has its turn now; else it waits for it."""
        network = self._networks.get(turn.network)
        if network is None:
            network = self._networks[turn.network] = Network()
            self._forget()
        if not network.lines and network.has_turn(now_ms):
            network.under_way += 1
            return True
        network.lines.setdefault(turn.line, deque()).append(turn)
        self._waiting[turn.network] = None
        return False

    def over(self, turn: Turn, wrong: bool, now_ms: i64) -> None:
        """A turn that was given is over.

        Args:
            wrong: Whether the password was looked at and is wrong. Else the turn is another's.
        """
        network = self._networks[turn.network]
        assert network.under_way > 0, turn.network
        network.under_way -= 1
        if wrong:
            network.spend(now_ms)
            self._networks.move_to_end(turn.network)
        elif network.is_as_new(now_ms):
            del self._networks[turn.network]

    def due(self, now_ms: i64, most: i64) -> list[Turn]:
        """Turns that are given now, and turns that waited for too long (see `is_late`).

        Args:
            most: How many there are at most.
        """
        found: list[Turn] = []
        for _ in range(min(len(self._waiting), NETWORKS_AT_ONCE)):
            name = next(iter(self._waiting))
            del self._waiting[name]
            network = self._networks[name]
            turn = network.next_turn(now_ms)
            while turn is not None:
                found.append(turn)
                if i64(len(found)) >= most:
                    break
                turn = network.next_turn(now_ms)
            if network.lines:
                self._waiting[name] = None
            if i64(len(found)) >= most:
                break
        return found

    def _forget(self) -> None:
        """Forget a network if there are too many, but none of which anything is to come."""
        if len(self._networks) <= NETWORKS_MAX:
            return
        for _ in range(FORGET_LOOKS):
            name = next(iter(self._networks))
            network = self._networks[name]
            if network.under_way == 0 and not network.lines:
                del self._networks[name]
                return
            self._networks.move_to_end(name)


def is_late(turn: Turn, now_ms: i64) -> bool:
    """Whether the client of a password has waited for too long for it to be looked at."""
    return turn.asked_ms < now_ms - WAIT_MS_MAX
