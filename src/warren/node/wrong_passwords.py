"""How long answers to passwords wait: the longer, the more wrong ones came from there.

Some wrong passwords are answered at once. Beyond that, answers go out at a steady pace for each
address and user, however many connections ask at a time. A right password waits as long as a wrong
one would, or silence would say that it is wrong. A password for which there is no place left is not
looked at, and its answer says nothing of it. Of IPv6 addresses the first 64 bits count, which are
one network: a stranger has all addresses of it.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address
from typing import Final, final
from zlib import crc32

from mypy_extensions import i64

FREE: Final = 10
"""Wrong passwords that are answered at once: a person's, or those of an application that starts."""
PACE_MS: Final = 200
"""Between two answers beyond that."""
DELAY_MS_MAX: Final = 5_000
"""Half of the time in which clients have to be let in."""
LINES_MAX: Final = 10_000
"""So many are remembered; those with no wrong password for longest are forgotten."""
LINES_OF_NETWORK: Final = 16
"""Users of one network share so many lines. A guesser of one user's password hardly delays others,
and who makes up names of users does not have the lines of other networks forgotten."""
FULL: Final = -1
"""In the place of a delay: the password is not to be looked at."""
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


def line_of(network: str, user: str) -> str:
    """The line in which answers to passwords of a user wait, of those who ask from a network."""
    return f"{network} {crc32(user.encode('utf-8', 'surrogateescape')) % LINES_OF_NETWORK}"


@final
class WrongPasswords:
    """Those that came to one node."""

    def __init__(self) -> None:
        self._paid_ms: OrderedDict[str, int] = OrderedDict()
        """Of each line, until when the pace allows for what came in it."""

    def is_full(self, line: str, now_ms: i64) -> bool:
        """Whether an answer would be later than a client waits for it.

        Args:
            line: Where it would wait, see `line_of`.
            now_ms: Monotonic time.
        """
        paid_ms: i64 = self._paid_ms.get(line, 0)
        return paid_ms + PACE_MS > now_ms + DELAY_MS_MAX

    def delay_ms(self, line: str, matches: bool, now_ms: i64) -> i64:
        """For how long the answer to a password has to wait; a wrong one is counted.

        Args:
            line: Where it waits, see `line_of`.
            matches: Whether the password is right.
            now_ms: Monotonic time.

        Returns:
            The time, the same for a right and a wrong password; `FULL` if there is no place.
        """
        if self.is_full(line, now_ms):
            return FULL
        before: i64 = self._paid_ms.get(line, 0)
        paid_ms = max(before, now_ms - FREE * PACE_MS) + PACE_MS
        delay_ms: i64 = max(paid_ms - now_ms, 0)
        if matches:
            return delay_ms
        self._paid_ms[line] = int(paid_ms)
        self._paid_ms.move_to_end(line)
        if len(self._paid_ms) > LINES_MAX:
            self._paid_ms.popitem(last=False)
        return delay_ms
