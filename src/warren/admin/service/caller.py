"""Who asks for an operation, and whether they may: the one place where that is decided.

Tags are RabbitMQ's. An administrator may do everything. Some operations ask for less, and those of
one vhost then for permissions in it, too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.errors import ACCESS_REFUSED, Refusal
from warren.metadata.access_checks import check_vhost
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import VhostRecord

ADMINISTRATOR: Final = "administrator"
MANAGEMENT: Final = "management"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"


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


IMPLIED: Final = {
    MANAGEMENT: (MANAGEMENT, POLICYMAKER, MONITORING),
}
"""Tags that stand for another one, too, as RabbitMQ's do."""

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
    if caller.tags.isdisjoint(IMPLIED.get(tag, (tag,))):
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


def sees_all(caller: Caller) -> bool:
    """Whether a caller may see what is of any vhost and any user."""
    return not caller.tags.isdisjoint((ADMINISTRATOR, MONITORING))


def visible(machine: MetadataMachine, caller: Caller, vhost: str = "") -> list[VhostRecord]:
    """The vhosts that a caller may look into: the one that is named, or all.

    Raises:
        Refusal: There is no such vhost, or the caller may not see it.
    """
    everything = sees_all(caller)
    if vhost:
        tables = check_vhost(machine, vhost)
        if not everything and caller.name not in tables.permissions:
            raise Refusal(
                ACCESS_REFUSED, f"access to vhost '{vhost}' refused for user '{caller.name}'"
            )
        return [tables]
    found = list(machine.vhosts.values())
    return [tables for tables in found if everything or caller.name in tables.permissions]


def may_see(caller: Caller, user: str) -> bool:
    """Whether a caller may see what is of a user, such as a connection."""
    return caller.name == user or sees_all(caller)
