"""How many connections and channels users and vhosts have, here and elsewhere; their limits.

Nodes tell each other the counts of users and vhosts that have limits, at the end of the turn in
which these change, and all of them over a new link. What a node said counts until its link is gone.
So clients that come at the same moment to several nodes may pass a limit by a few; clients of one
node never do.

    USED      MessagePack: an array of [whether it is a user, name, connections, channels]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import msgspec
from mypy_extensions import i64

from warren.errors import NOT_ALLOWED, CorruptRecord, Refusal
from warren.limits import USED_AT_ONCE_MAX, USED_NAMES_MAX
from warren.metadata.access import MAX_CHANNELS, MAX_CONNECTIONS, NO_LIMIT, limit_of
from warren.metadata.machine import MetadataMachine
from warren.replication.kinds import USED

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

NO_LIMITS: Final[dict[str, int]] = {}
ROWS: Final = msgspec.msgpack.Decoder(list[tuple[bool, str, int, int]])


@final
class Count:
    """What one user, or one vhost, has open on one node."""

    def __init__(self) -> None:
        self.connections: i64 = 0
        self.channels: i64 = 0


@final
class UsageCounts:
    """What users and vhosts have open on one node, by name."""

    def __init__(self) -> None:
        self.users: dict[str, Count] = {}
        self.vhosts: dict[str, Count] = {}

    def of(self, user: bool) -> dict[str, Count]:
        """The counts of users, or those of vhosts."""
        return self.users if user else self.vhosts


@final
class Usage:
    """What clients of the whole cluster have open, as one node knows it.

    Attributes:
        untold: Whether there is something that the other nodes have not been told.
    """

    def __init__(
        self, metadata: MetadataMachine, cluster: Cluster, names_max: i64 = USED_NAMES_MAX
    ) -> None:
        """Begin with no clients.

        Args:
            names_max: Users, and vhosts, that are kept of what one other node says.
        """
        self._names_max: i64 = names_max
        self.untold: bool = False
        self._metadata: MetadataMachine = metadata
        self._cluster: Cluster = cluster
        self._own: UsageCounts = UsageCounts()
        self._others: dict[str, UsageCounts] = {}
        self._changed: dict[tuple[bool, str], None] = {}
        """Users and vhosts with limits whose counts here are others than was told."""

    # --- clients of this node -------------------------------------------------------------------

    def check_connection(self, user: str, vhost: str) -> None:
        """Refuse one more connection where there are as many as there may be.

        Raises:
            Refusal: `NOT_ALLOWED`.
        """
        most = limit_of(self._limits(False, vhost), MAX_CONNECTIONS)
        if self._is_over(False, vhost, most, False):
            raise Refusal(
                NOT_ALLOWED,
                f"access to vhost '{vhost}' refused for user '{user}': "
                f"connection limit ({most}) is reached",
            )
        most = limit_of(self._limits(True, user), MAX_CONNECTIONS)
        if self._is_over(True, user, most, False):
            raise Refusal(
                NOT_ALLOWED,
                f"connection refused for user '{user}': user connection limit ({most}) is reached",
            )

    def check_channel(self, user: str) -> None:
        """Refuse one more channel where there are as many as there may be.

        Raises:
            Refusal: `NOT_ALLOWED`.
        """
        most = limit_of(self._limits(True, user), MAX_CHANNELS)
        if self._is_over(True, user, most, True):
            raise Refusal(
                NOT_ALLOWED,
                f"number of channels opened for user '{user}' has reached "
                f"the maximum allowed user limit of {most}",
            )

    def connected(self, user: str, vhost: str, by: i64) -> None:
        """A connection was opened, or with -1 is closed."""
        self._add(True, user, by, 0)
        self._add(False, vhost, by, 0)

    def channel(self, user: str, by: i64) -> None:
        """A channel was opened, or with -1 is closed."""
        self._add(True, user, 0, by)

    def _add(self, is_user: bool, name: str, connections: i64, channels: i64) -> None:
        counts = self._own.of(is_user)
        count = counts.get(name)
        if count is None:
            count = counts[name] = Count()
        count.connections += connections
        count.channels += channels
        assert count.connections >= 0 and count.channels >= 0, "what is closed was opened"
        if count.connections == 0 and count.channels == 0:
            del counts[name]
        if self._limits(is_user, name):
            self._changed[(is_user, name)] = None
            self.untold = True

    def _limits(self, is_user: bool, name: str) -> dict[str, int]:
        if is_user:
            user = self._metadata.users.get(name)
            return NO_LIMITS if user is None else user.limits
        tables = self._metadata.vhosts.get(name)
        return NO_LIMITS if tables is None else tables.limits

    def _is_over(self, is_user: bool, name: str, most: i64, of_channels: bool) -> bool:
        """Whether a limit leaves no room for one more."""
        if most == NO_LIMIT:
            return False
        found: i64 = 0
        for counts in [self._own, *self._others.values()]:
            count = counts.of(is_user).get(name)
            if count is not None:
                found += count.channels if of_channels else count.connections
        return found >= most

    # --- the other nodes ------------------------------------------------------------------------

    def limits_changed(self) -> None:
        """Some user or vhost has other limits: tell anew what all of those with limits have."""
        for is_user in (True, False):
            for name in self._own.of(is_user):
                if self._limits(is_user, name):
                    self._changed[(is_user, name)] = None
                    self.untold = True

    def tell(self) -> None:
        """Tell the other nodes what has changed."""
        self.untold = False
        changed = list(self._changed)
        self._changed = {}
        for peer in self._metadata.nodes:
            if peer != self._cluster.name:
                self._send(peer, changed)

    def linked(self, peer: str) -> None:
        """The link to a node is up, and what was said before may be lost: tell it everything."""
        everything = [
            (is_user, name)
            for is_user in (True, False)
            for name in self._own.of(is_user)
            if self._limits(is_user, name)
        ]
        self._send(peer, everything)

    def _send(self, peer: str, names: list[tuple[bool, str]]) -> None:
        for at in range(0, len(names), USED_AT_ONCE_MAX):
            rows: list[tuple[bool, str, int, int]] = []
            for is_user, name in names[at : at + USED_AT_ONCE_MAX]:
                count = self._own.of(is_user).get(name)
                if count is None:
                    rows.append((is_user, name, 0, 0))
                else:
                    rows.append((is_user, name, int(count.connections), int(count.channels)))
            self._cluster.send(peer, [bytes([USED]), msgspec.msgpack.encode(rows)])

    def heard(self, peer: str, message: bytes) -> None:
        """A node says what its clients have.

        Raises:
            CorruptRecord: It cannot have said that.
        """
        try:
            rows = ROWS.decode(message[1:])
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise CorruptRecord(f"a message of {peer}", 0, str(error)) from error
        known = self._others.get(peer)
        if known is None:
            known = self._others[peer] = UsageCounts()
        for is_user, name, connections, channels in rows:
            if not (0 <= connections < 1 << 32 and 0 <= channels < 1 << 32):
                raise CorruptRecord(f"a message of {peer}", 0, "counts that there cannot be")
            counts = known.of(is_user)
            if connections == 0 and channels == 0:
                counts.pop(name, None)
            elif name in counts or len(counts) < self._names_max:
                # It may be a name that this node's tables are yet to hear of.
                count = Count()
                count.connections = connections
                count.channels = channels
                counts[name] = count

    def cut_off(self, peer: str) -> None:
        """The link from a node is gone; it says everything again over the next one."""
        self._others.pop(peer, None)
