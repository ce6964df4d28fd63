"""Who may log in, enter a vhost, and configure, write or read what is in it."""

from __future__ import annotations

import re
from typing import Final, final

from warren.errors import ACCESS_REFUSED, NOT_ALLOWED, Refusal
from warren.metadata.commands import Command, DeclareVhost, SetPermissions, SetUser
from warren.metadata.machine import MetadataMachine
from warren.metadata.passwords import SHA256, hash_password, password_matches
from warren.metadata.tables import UserRecord

#: What the default exchange, which has no name, is called where patterns look at it.
DEFAULT_EXCHANGE_ALIAS: Final = "amq.default"

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
    """Answers for the tables' users and permissions."""

    def __init__(self, machine: MetadataMachine) -> None:
        self._machine: MetadataMachine = machine
        self._patterns: dict[str, re.Pattern[str] | None] = {}

    def authenticate(self, user: str, password: bytes, loopback: bool) -> UserRecord | None:
        """The user, if the password is right and it may come from there; else None.

        Args:
            loopback: Whether the connection comes from this machine.
        """
        record = self._machine.users.get(user)
        if record is None or (record.loopback_only and not loopback):
            return None
        if not password or not password_matches(password, record.password_hash, record.hash_scheme):
            return None
        return record

    def check_vhost(self, user: str, vhost: str) -> None:
        """Refuse a connection to a vhost.

        Raises:
            Refusal: `NOT_ALLOWED`.
        """
        tables = self._machine.vhosts.get(vhost)
        if tables is None:
            raise Refusal(NOT_ALLOWED, f"vhost {vhost} not found")
        if user not in tables.permissions:
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

    def _permits(self, user: str, vhost: str, permission: str, name: str) -> bool:
        tables = self._machine.vhosts.get(vhost)
        if tables is None:
            return False
        record = tables.permissions.get(user)
        if record is None:
            return False
        if permission == "configure":
            pattern = record.configure
        elif permission == "write":
            pattern = record.write
        else:
            assert permission == "read", permission
            pattern = record.read
        if pattern == ".*":
            return True
        compiled = self._compiled(pattern)
        return compiled is not None and compiled.search(name) is not None

    def _compiled(self, pattern: str) -> re.Pattern[str] | None:
        """A pattern, None where it is not one: that permits nothing. The empty one is `^$`."""
        if pattern not in self._patterns:
            if len(self._patterns) >= COMPILED_PATTERNS_MAX:
                self._patterns.clear()
            try:
                self._patterns[pattern] = re.compile(pattern or "^$")
            except re.error:
                self._patterns[pattern] = None
        return self._patterns[pattern]
