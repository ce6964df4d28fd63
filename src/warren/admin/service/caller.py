"""Who asks for an operation, and whether they may: the one place where that is decided.

Tags are RabbitMQ's. An administrator may do everything. Some operations ask for less, and those of
one vhost then for permissions in it, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.errors import ACCESS_REFUSED, Refusal
from warren.metadata.machine import MetadataMachine

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"

IMPLIED: Final = {MANAGEMENT: frozenset({MANAGEMENT, MONITORING, POLICYMAKER})}
"""By a tag that an operation asks for: all that will do, beside that of administrators."""


class NotAuthorised(Refusal):
    """A caller lacks a tag, or permissions in a vhost.

    Attributes:
        tag: The tag that the operation asks for; empty if the permissions are what is missing.
    """

    def __init__(self, text: str, tag: str = "") -> None:
        super().__init__(ACCESS_REFUSED, text)
        self.tag = tag


class Caller(NamedTuple):
    """A user who asks; the way in has seen that it is they.

    Attributes:
        name: The user's, as refusals name it.
        tags: What the user may administer, as `UserRecord.tags` has it.
    """

    name: str
    tags: frozenset[str]


LOCAL: Final = Caller("operator", frozenset({ADMINISTRATOR}))
"""An operator who has the cluster's secret."""


def authorise(
    machine: MetadataMachine, caller: Caller, operation: str, tag: str, vhost: str | None
) -> None:
    """Let a caller go on with an operation, or refuse before anything is done.

    Args:
        operation: Its name, for the refusal.
        tag: The least tag that it takes.
        vhost: The vhost that the caller needs permissions in, unless they are an administrator;
            None where the operation is not about one.

    Raises:
        NotAuthorised: They may not.
    """
    if ADMINISTRATOR in caller.tags:
        return
    if not caller.tags & IMPLIED.get(tag, frozenset({tag})):
        raise NotAuthorised(
            f"operation '{operation}' refused for user '{caller.name}', who has no tag '{tag}'", tag
        )
    if vhost is None:
        return
    tables = machine.vhosts.get(vhost)
    if tables is None or caller.name not in tables.permissions:
        raise NotAuthorised(
            f"operation '{operation}' refused for user '{caller.name}' in vhost '{vhost}'"
        )
