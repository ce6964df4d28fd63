"""What users do in vhosts by an operator's way in: as they would as clients, with their rights.

A visit is a connection to the vhost without a socket. It counts as one where connections are
limited, and what is exclusive to it goes when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from warren.admin.service.caller import Caller
from warren.admin.service.service import AdminService
from warren.admin.service.visible import check_entrance
from warren.admin.service.waiting import Awaited
from warren.errors import TIMED_OUT, Refusal
from warren.pending import PendingRequest, Result
from warren.protocols.broker import Login
from warren.vhost.handle import VhostHandle
from warren.vhost.requests import VhostRequest

Done = TypeVar("Done")


class Visit:
    """One user in one vhost, for as long as an operation takes.

    Attributes:
        handle: What the user may do there.
    """

    def __init__(self, service: AdminService, handle: VhostHandle) -> None:
        self.handle = handle
        self._service = service

    async def change(self, request: VhostRequest, ask: Callable[[PendingRequest], None]) -> Result:
        """Ask the vhost for a change; what came of it, once it is in force.

        Args:
            ask: Hands the request over, together with who waits for it.

        Raises:
            Refusal: It cannot be; or `TIMED_OUT`.
        """
        service = self._service
        pending = Awaited()
        attempt(service, lambda: ask(pending))
        try:
            return await pending.wait(service.node.settings.majority_wait_ms / 1_000)
        except Refusal as refusal:
            if refusal.kind != TIMED_OUT:
                raise
        raise attempt(service, lambda: self.handle.timed_out(request, pending))


@contextmanager
def visit(service: AdminService, caller: Caller, vhost: str) -> Iterator[Visit]:
    """Let a user into a vhost, and out again.

    Raises:
        Refusal: There is no such vhost, or none for this user, or it has too many connections.
    """
    check_entrance(service, caller, vhost)
    handle = attempt(service, lambda: service.node.open_vhost(Login(caller.name, ""), vhost))
    try:
        yield Visit(service, handle)
    finally:
        attempt(service, handle.closed)


def attempt(service: AdminService, step: Callable[[], Done]) -> Done:
    """Run a step of the node that may be refused, and have its turn follow.

    Raises:
        Refusal: It was refused.
    """
    done: list[Done] = []
    refusals: list[Refusal] = []

    def run() -> None:
        try:
            done.append(step())
        except Refusal as refusal:
            refusals.append(refusal)

    service.host.guarded(run)
    service.host.after_event()
    if refusals:
        raise refusals[0]
    return done[0]
