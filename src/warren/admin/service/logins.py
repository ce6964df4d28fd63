"""Who asks, by name and password: what a way in makes its `Caller` of, and how often that fails."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta

from warren.admin.service.caller import MONITORING, Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import Row
from warren.admin.service.service import AdminService, LoginCounts
from warren.metadata.grants import Grants
from warren.node.login_turns import network_of as network_of
from warren.node.logins import LoginCallback

SHOWN_CHARACTERS_MAX = 255
"""Of a name that is no user's, so many are logged."""

WAITING_MAX = 100
"""Requests of one address that wait for what comes of a password. More would keep others out."""


class AttemptRow(Row):
    """How many said who they are in one protocol, as `auth/attempts` lists it."""

    protocol: Annotated[str, Meta(description="`http` or `amqp091`")]
    auth_attempts: Annotated[int, Meta(description="all of them")]
    auth_attempts_failed: Annotated[int, Meta(description="those that were not let in")]
    auth_attempts_succeeded: Annotated[int, Meta(description="the others")]


@operation(MONITORING)
async def auth_attempts(service: AdminService, caller: Caller) -> list[AttemptRow]:
    """List how many clients of this node said who they are, by protocol; without those of none."""
    traffic, before = service.node.traffic, service.logins_before
    clients = (int(traffic.logins) - before.tried, int(traffic.logins_failed) - before.failed)
    http = service.http_logins
    return [
        AttemptRow(
            protocol=protocol,
            auth_attempts=tried,
            auth_attempts_failed=failed,
            auth_attempts_succeeded=tried - failed,
        )
        for protocol, (tried, failed) in (("http", (http.tried, http.failed)), ("amqp091", clients))
        if tried
    ]


@operation()
async def reset_auth_attempts(service: AdminService, caller: Caller) -> None:
    """Count anew on this node who says who they are; what Prometheus scrapes goes on."""
    traffic = service.node.traffic
    service.logins_before = LoginCounts(int(traffic.logins), int(traffic.logins_failed))
    service.http_logins = LoginCounts()


async def log_in(service: AdminService, name: str, password: str, host: str) -> Caller | None:
    """See who somebody is by their password; None if the user is not let in.

    Args:
        host: The address that they come from.
    """
    counts = service.http_logins
    counts.tried += 1
    caller = await _log_in(service, name, password, host)
    counts.failed += caller is None
    return caller


async def _log_in(service: AdminService, name: str, password: str, host: str) -> Caller | None:
    node = service.node
    seconds = node.settings.handshake_timeout_ms / 1_000
    told = asyncio.Event()
    until = asyncio.get_running_loop().time() + seconds
    listener = LoginCallback(told.set)
    # It takes a while on another thread; one that came too late there is to be asked for anew. The
    # answer waits as well while wrong ones come from there.
    network = network_of(host)
    waiting = service.http_waiting
    while node.login_waits(name, password, host, listener):
        if waiting[network] >= WAITING_MAX:
            listener.turned_away = True
            break
        waiting[network] += 1
        try:
            async with asyncio.timeout_at(until):
                await told.wait()
        except TimeoutError:
            return None
        finally:
            waiting[network] -= 1
            if not waiting[network]:
                del waiting[network]
        told.clear()
    if listener.turned_away:
        node.log_warning(
            f"{host}: password of user '{name[:SHOWN_CHARACTERS_MAX]}' not looked at: "
            "too many wrong ones came from this address"
        )
        return None
    login = node.login(name, password, host)
    if login is None:
        return None
    return bearer_of(login.grants) if login.grants is not None else caller_of(service, login.user)


def log_in_by_token(service: AdminService, token: str) -> Caller | None:
    """The bearer of a token as who asks; None if it is not good, or none are taken here."""
    tokens = service.node.tokens
    grants = None if tokens is None else tokens.verify(token)
    counts = service.http_logins
    counts.tried += 1
    counts.failed += grants is None
    return None if grants is None else bearer_of(grants)


def bearer_of(grants: Grants) -> Caller:
    """The bearer of a token as who asks."""
    return Caller(grants.user, frozenset(grants.tags), grants)


def has_expired(service: AdminService, bearer: Caller) -> bool:
    """Whether the token of a user who asks has ended; there may be none."""
    grants = bearer.grants
    return grants is not None and grants.expired(service.node.monotonic_ms())


def caller_of(service: AdminService, name: str) -> Caller | None:
    """A user as who asks; None if there is none."""
    user = service.machine.users.get(name)
    return None if user is None else Caller(name, frozenset(user.tags))
