"""What a token lets its bearer do, in the place of what the tables say of users.

A scope is `permission:vhost/name`, or `permission:vhost/name/routing_key`, where `*` stands for any
text. The parts are percent-encoded, so that `%2F` is the vhost `/`.

Source: RabbitMQ 4.3, `rabbitmq_auth_backend_oauth2`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.errors import ACCESS_REFUSED, NOT_ALLOWED, Refusal
from warren.metadata.permissions import CONFIGURE, DEFAULT_EXCHANGE_ALIAS, READ, WRITE

PERMISSIONS: Final = (CONFIGURE, WRITE, READ)
NEVER: Final = 0


def fits(pattern: str, text: str) -> bool:
    """Whether a text is what a pattern says, in which `*` stands for any text.

    Takes time that grows with both lengths and not with their power, whatever is in them.
    """
    parts = pattern.split("*")
    if len(parts) == 1:
        return pattern == text
    first, last = parts[0], parts[-1]
    if len(text) < len(first) + len(last):
        return False
    if not text.startswith(first) or not text.endswith(last):
        return False
    at = len(first)
    stop = len(text) - len(last)
    for part in parts[1:-1]:
        found = text.find(part, at, stop)
        if found < 0:
            return False
        at = found + len(part)
    return True


@final
class GrantedScope:
    """One of the scopes of a token."""

    def __init__(self, permission: str, vhost: str, name: str, routing_key: str) -> None:
        self.permission: str = permission
        self.vhost: str = vhost
        self.name: str = name
        self.routing_key: str = routing_key


@final
class Grants:
    """What one bearer may do, until the token expires or is replaced by another one.

    Attributes:
        user: The bearer's name.
        tags: What they may administer.
        scopes: What they may do in vhosts.
        expires_ms: When that ends, by the node's monotonic clock; `NEVER` if it does not.
        renewals: How often the token was replaced.
    """

    def __init__(
        self, user: str, tags: list[str], scopes: list[GrantedScope], expires_ms: i64
    ) -> None:
        self.user: str = user
        self.tags: list[str] = tags
        self.scopes: list[GrantedScope] = scopes
        self.expires_ms: i64 = expires_ms
        self.renewals: i64 = 0

    def renew(self, other: Grants) -> None:
        """Let the bearer do what another token of theirs says."""
        self.tags = other.tags
        self.scopes = other.scopes
        self.expires_ms = other.expires_ms
        self.renewals += 1

    def expired(self, now_ms: i64) -> bool:
        """Whether it is over."""
        return self.expires_ms != NEVER and now_ms >= self.expires_ms

    def enters(self, vhost: str) -> bool:
        """Whether any scope is about a vhost."""
        for scope in self.scopes:
            if fits(scope.vhost, vhost):
                return True
        return False

    def permits(self, vhost: str, permission: str, name: str) -> bool:
        """Whether a scope permits something with an exchange or a queue."""
        for scope in self.scopes:
            if (
                scope.permission == permission
                and fits(scope.vhost, vhost)
                and fits(scope.name, name)
            ):
                return True
        return False

    def check_vhost(self, vhost: str) -> None:
        """Refuse a connection to a vhost.

        Raises:
            Refusal: `NOT_ALLOWED`.
        """
        if not self.enters(vhost):
            raise Refusal(NOT_ALLOWED, f"access to vhost '{vhost}' refused for user '{self.user}'")

    def check_resource(self, vhost: str, permission: str, what: str, name: str) -> None:
        """Refuse access to an exchange or a queue; as `Authority.check_resource`.

        Raises:
            Refusal: `ACCESS_REFUSED`.
        """
        if what == "exchange" and not name:
            name = DEFAULT_EXCHANGE_ALIAS
        if not self.permits(vhost, permission, name):
            raise Refusal(
                ACCESS_REFUSED,
                f"{permission} access to {what} '{name}' in vhost '{vhost}' "
                f"refused for user '{self.user}'",
            )

    def check_seen(self, vhost: str, what: str, name: str) -> None:
        """Refuse to say whether an exchange or a queue is there: any permission for it will do.

        Raises:
            Refusal: `ACCESS_REFUSED`.
        """
        if not self.permits(vhost, READ, name) and not self.permits(vhost, WRITE, name):
            self.check_resource(vhost, CONFIGURE, what, name)

    def check_topic(self, vhost: str, permission: str, exchange: str, routing_key: str) -> None:
        """Refuse a routing key of a topic exchange.

        Raises:
            Refusal: `ACCESS_REFUSED`.
        """
        for scope in self.scopes:
            if (
                scope.permission == permission
                and fits(scope.vhost, vhost)
                and fits(scope.name, exchange)
                and fits(scope.routing_key, routing_key)
            ):
                return
        raise Refusal(
            ACCESS_REFUSED,
            f"{permission} access to topic '{routing_key}' in exchange '{exchange}' "
            f"in vhost '{vhost}' refused for user '{self.user}'",
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class TokenVerifier:
    """Sees what tokens say.

    Attributes:
        alone: Whether clients log in by tokens only.
    """

    def __init__(self, alone: bool) -> None:
        self.alone: bool = alone

    @abstractmethod
    def verify(self, token: str) -> Grants | None:
        """What the bearer of a token may do; None if the token is not good."""
        raise AssertionError("a verifier defines verify")


def like_token(password: str) -> bool:
    """Whether a password has the form of a signed JSON web token."""
    return password.startswith("eyJ") and password.count(".") == 2
