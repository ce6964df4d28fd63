"""Who asks, by name and password: what a way in makes its `Caller` of."""

from __future__ import annotations

import asyncio

from warren.admin.service.caller import Caller
from warren.admin.service.service import AdminService
from warren.node.logins import LoginCallback


async def log_in(service: AdminService, name: str, password: str, host: str) -> Caller | None:
    """See who somebody is by their password; None if the user is not let in.

    Args:
        host: The address that they come from.
    """
    node = service.node
    seconds = node.settings.handshake_timeout_ms / 1_000
    told = asyncio.Event()
    until = asyncio.get_running_loop().time() + seconds
    # It takes a while on another thread; one that came too late there is to be asked for anew.
    while node.login_waits(name, password, LoginCallback(told.set)):
        try:
            async with asyncio.timeout_at(until):
                await told.wait()
        except TimeoutError:
            return None
        told.clear()
    login = node.login(name, password, host)
    return None if login is None else caller_of(service, login.user)


def caller_of(service: AdminService, name: str) -> Caller | None:
    """A user as who asks; None if there is none."""
    user = service.machine.users.get(name)
    return None if user is None else Caller(name, frozenset(user.tags))
