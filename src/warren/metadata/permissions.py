"""Who may log in, enter a vhost, and configure, write or read what is in it."""

from __future__ import annotations

import re
from typing import Final, final

from warren.errors import ACCESS_REFUSED, NOT_ALLOWED, Refusal
from warren.metadata.commands import Command, DeclareVhost, SetPermissions, SetUser
from warren.metadata.machine import MetadataMachine
from warren.metadata.passwords import ARGON2, NO_PASSWORD, SHA256, Outcomes, hash_password
from warren.metadata.patterns import Pattern, PatternError
from warren.metadata.tables import TopicPermissionRecord, UserRecord, VhostRecord

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"

#: The tag of users whose messages may say that they are another user's.
IMPERSONATOR: Final = "impersonator"

#: What the default exchange, which has no name, is called where patterns look at it.
DEFAULT_EXCHANGE_ALIAS: Final = "amq.default"

NO_TOPICS: Final[dict[str, TopicPermissionRecord]] = {}

COMPILED_PATTERNS_MAX: Final = 1_024
"""Patterns kept compiled; there are as many as administrators made."""


def first_commands(
    salt: bytes, vhost: str, user: str, password: str, loopback_only: bool
) -> list[Command]:
    """What a node without data begins with: one vhost and one user who may do everything there.

    Args:
        salt: `SALT_BYTES` random bytes.
        loopback_only: Whether the user may only log in from this machine.
    """
    secret = password.encode("utf-8", "surrogateescape")
    return [
        DeclareVhost(vhost),
        SetUser(user, hash_password(secret, salt), SHA256, ["administrator"], loopback_only),
        SetPermissions(user, vhost, ".*", ".*", ".*"),
    ]


@final
class Authority:
    """Answers for the tables' users and permissions.

    Attributes:
        outcomes: What is known of passwords.
    """

    def __init__(self, machine: MetadataMachine) -> None:
        self.outcomes: Outcomes = Outcomes()
        self._machine: MetadataMachine = machine
        self._patterns: dict[str, Pattern | None] = {}

    def authenticate(self, user: str, password: bytes, loopback: bool) -> UserRecord | None:
        """The user, if the password is right and it may come from there; else None.

        Takes long where the password's hash does, and what comes of it is not known yet.

        Args:
            loopback: Whether the connection comes from this machine.
        """
        if not password:
            return None
        password_hash, scheme = self.hash_of(user)
        matches = self.outcomes.matches(password, password_hash, scheme)
        record = self._machine.users.get(user)
        if record is None or (record.loopback_only and not loopback):
            return None
        return record if matches else None

    def hash_of(self, user: str) -> tuple[bytes, str]:
        """The hash that a password has to have, and how it was made.

        For a user that there is not it takes as long: who guesses names is not to know by that.
        """
        record = self._machine.users.get(user)
        if record is None:
            return NO_PASSWORD, ARGON2
        return record.password_hash, record.hash_scheme

    def vhost(self, name: str) -> VhostRecord:
        """A vhost that clients may enter, as far as it depends on the vhost.

        Raises:
            Refusal: `NOT_ALLOWED`.
        """
        tables = self._machine.vhosts.get(name)
        if tables is None or tables.going:
            raise Refusal(NOT_ALLOWED, f"vhost {name} not found")
        return tables

    def check_vhost(self, user: str, vhost: str) -> None:
        """Refuse a connection to a vhost.

        Raises:
            Refusal: `NOT_ALLOWED`.
        """
        if user not in self.vhost(vhost).permissions:
            raise Refusal(NOT_ALLOWED, f"access to vhost '{vhost}' refused for user '{user}'")

    def check_resource(self, user: str, vhost: str, permission: str, what: str, name: str) -> None:
        """Refuse access to an exchange or a queue.

        Args:
            permission: `configure`, `write` or `read`.
            what: `exchange` or `queue`.

        Raises:
            Refusal: `ACCESS_REFUSED`.
        """
        if what == "exchange" and not name:
            name = DEFAULT_EXCHANGE_ALIAS
        if not self._permits(user, vhost, permission, name):
            raise Refusal(
                ACCESS_REFUSED,
                f"{permission} access to {what} '{name}' in vhost '{vhost}' "
                f"refused for user '{user}'",
            )

    def check_seen(self, user: str, vhost: str, what: str, name: str) -> None:
        """Refuse to say whether an exchange or a queue is there: any permission for it will do.

        Raises:
            Refusal: `ACCESS_REFUSED`.
        """
        if not self._permits(user, vhost, READ, name) and not self._permits(
            user, vhost, WRITE, name
        ):
            self.check_resource(user, vhost, CONFIGURE, what, name)

    def check_topic(
        self, user: str, vhost: str, permission: str, exchange: str, routing_key: str
    ) -> None:
        """Refuse a routing key of a topic exchange; where no topic permission is set, any will do.

        Args:
            permission: `write` to publish with it, `read` to bind with it.

        Raises:
            Refusal: `ACCESS_REFUSED`.
        """
        if not self.bounds_topics(user, vhost, exchange):
            return
        bounds = self._machine.vhosts[vhost].topic_permissions[user][exchange]
        pattern = bounds.write if permission == WRITE else bounds.read
        for name, value in (("{username}", user), ("{vhost}", vhost)):
            if name in pattern:
                pattern = pattern.replace(name, re.escape(value))
        if not self._matches(pattern, routing_key):
            raise Refusal(
                ACCESS_REFUSED,
                f"{permission} access to topic '{routing_key}' in exchange '{exchange}' "
                f"in vhost '{vhost}' refused for user '{user}'",
            )

    def bounds_topics(self, user: str, vhost: str, exchange: str) -> bool:
        """Whether topic permissions are set for a user and a topic exchange."""
        tables = self._machine.vhosts.get(vhost)
        if tables is None or not tables.topic_permissions:
            return False
        if exchange not in tables.topic_permissions.get(user, NO_TOPICS):
            return False
        record = tables.exchanges.get(exchange)
        return record is not None and record.kind == "topic"

    def _permits(self, user: str, vhost: str, permission: str, name: str) -> bool:
        tables = self._machine.vhosts.get(vhost)
        if tables is None:
            return False
        record = tables.permissions.get(user)
        if record is None:
            return False
        if permission == CONFIGURE:
            pattern = record.configure
        elif permission == WRITE:
            pattern = record.write
        else:
            assert permission == READ, permission
            pattern = record.read
        return self._matches(pattern, name)

    def _matches(self, pattern: str, name: str) -> bool:
        """Whether a pattern is found in a name; one that is none matches nothing."""
        if pattern == ".*":
            return True
        compiled = self._compiled(pattern)
        return compiled is not None and compiled.found_in(name)

    def _compiled(self, pattern: str) -> Pattern | None:
        """A pattern, None where it is not one: that permits nothing. The empty one is `^$`."""
        if pattern not in self._patterns:
            if len(self._patterns) >= COMPILED_PATTERNS_MAX:
                self._patterns.clear()
            try:
                self._patterns[pattern] = Pattern(pattern or "^$")
            except PatternError:
                self._patterns[pattern] = None
        return self._patterns[pattern]
