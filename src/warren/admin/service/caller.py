"""Who asks for an operation, and whether they may: the one place where that is decided.

Tags are RabbitMQ's. An administrator may do everything. Some operations ask for less, and those of
one vhost then for permissions in it, too.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple

from warren.errors import ACCESS_REFUSED, NOT_FOUND, Refusal
from warren.metadata.access import CLI_USER, INTERNAL_USER
from warren.metadata.access_checks import check_vhost
from warren.metadata.grants import Grants
from warren.metadata.machine import MetadataMachine
from warren.metadata.permissions import CONFIGURE, WRITE, Authority
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
        grants: What they may do in vhosts by a token; None for what the tables say.
    """

    name: str
    tags: frozenset[str]
    grants: Grants | None = None

    def has_permissions(self, tables: VhostRecord) -> bool:
        """Whether the user has permissions in a vhost."""
        if self.grants is not None:
            return self.grants.enters(tables.name)
        return self.name in tables.permissions


IMPLIED: Final = {
    MANAGEMENT: (MANAGEMENT, POLICYMAKER, MONITORING),
}
"""Tags that stand for another one, too, as RabbitMQ's do."""

LOCAL: Final = Caller("operator", frozenset({ADMINISTRATOR}))
"""An operator who has the cluster's secret."""


def who(caller: Caller) -> str:
    """A caller in the words of the log."""
    return "an operator with the cluster's secret" if caller is LOCAL else f"user '{caller.name}'"


acting_user: ContextVar[str] = ContextVar("acting_user", default=INTERNAL_USER)
"""Who asked for the operation under way, as events name them."""


def act_as(caller: Caller) -> None:
    """Have what is changed from here on, in this task, be told of as a caller's doing."""
    acting_user.set(CLI_USER if caller is LOCAL else caller.name)


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
    if tables is None or not caller.has_permissions(tables):
        raise NotAuthorised(
            f"operation '{operation}' refused for user '{caller.name}' in vhost '{vhost}'"
        )


def check_still(
    machine: MetadataMachine,
    caller: Caller,
    now_ms: int,
    operation: str,
    tag: str,
    vhost: str | None,
) -> None:
    """Refuse to go on with an operation of a caller who could not begin it any more.

    The arguments are those of `authorise`, and `now_ms` is monotonic.

    Raises:
        NotAuthorised: The user is gone or may not any more, or their token has ended.
    """
    if caller is LOCAL:
        return
    if caller.grants is not None:
        if caller.grants.expired(now_ms):
            raise NotAuthorised(f"the token of user '{caller.name}' has ended")
        authorise(machine, caller, operation, tag, vhost)
        return
    user = machine.users.get(caller.name)
    if user is None:
        raise NotAuthorised(f"user '{caller.name}' does not exist any more")
    authorise(machine, Caller(caller.name, frozenset(user.tags)), operation, tag, vhost)


def check_target(authority: Authority, caller: Caller, vhost: str, queue: str) -> None:
    """Refuse to have the broker write where who asks for it may not; administrators may everywhere.

    Args:
        authority: Knows what users may.

    Raises:
        Refusal: `ACCESS_REFUSED`.
    """
    if ADMINISTRATOR in caller.tags:
        return
    for permission in (CONFIGURE, WRITE):
        if caller.grants is not None:
            caller.grants.check_resource(vhost, permission, "queue", queue)
        else:
            authority.check_resource(caller.name, vhost, permission, "queue", queue)


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
        if not everything and not caller.has_permissions(tables):
            raise Refusal(
                ACCESS_REFUSED, f"access to vhost '{vhost}' refused for user '{caller.name}'"
            )
        return [tables]
    found = list(machine.vhosts.values())
    return [tables for tables in found if everything or caller.has_permissions(tables)]


def may_see(caller: Caller, user: str) -> bool:
    """Whether a caller may see what is of a user, such as a connection."""
    return caller.name == user or sees_all(caller)


# --- vhosts that users may enter ----------------------------------------------------------------
# RabbitMQ's lists over HTTP leave out what is in other vhosts, for administrators, too.

NO_VHOST: Final = "vhost_not_found"
NOT_SEEN: Final = "Not Found"
"""What is said of vhosts that there are not, and of those that are none of a user's business."""


def may_enter(tables: VhostRecord, caller: Caller) -> bool:
    """Whether a caller has permissions in a vhost; an operator needs none."""
    return caller is LOCAL or caller.has_permissions(tables)


def vhosts_of(
    machine: MetadataMachine, caller: Caller, vhost: str | None = None
) -> list[VhostRecord]:
    """The vhosts that a caller may enter, by name; or the one that is named.

    Raises:
        Refusal: `NOT_FOUND`, there is no such vhost, or none for them.
    """
    if vhost is not None:
        return [check_entrance(machine, caller, vhost)]
    vhosts = machine.vhosts
    return [vhosts[name] for name in sorted(vhosts) if may_enter(vhosts[name], caller)]


def vhosts_seen(machine: MetadataMachine, caller: Caller) -> list[VhostRecord]:
    """The vhosts that are shown to a caller: all to those who monitor."""
    vhosts, everything = machine.vhosts, sees_all(caller)
    return [
        vhosts[name] for name in sorted(vhosts) if everything or may_enter(vhosts[name], caller)
    ]


def check_entrance(machine: MetadataMachine, caller: Caller, vhost: str) -> VhostRecord:
    """A vhost that a caller may enter.

    Raises:
        Refusal: `NOT_FOUND`, there is none, or none for them.
    """
    tables = machine.vhosts.get(vhost)
    if tables is None:
        raise Refusal(NOT_FOUND, NO_VHOST)
    if not may_enter(tables, caller):
        raise Refusal(NOT_FOUND, NOT_SEEN)
    return tables
