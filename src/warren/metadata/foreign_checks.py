"""What other nodes want logged, looked at before it is: in the log, every node would apply it.

A node checks what its own clients want by the tables (`checks`) before it submits a command. Who
takes commands from elsewhere looks only for what no node would submit, whatever its tables say.
"""

from __future__ import annotations

from typing import Final

from warren.errors import CorruptRecord, Refusal, StorageError
from warren.ids import life_of
from warren.limits import RECENT_COUNT_MAX, SHORTSTR_BYTES_MAX
from warren.message.flavours import check_of
from warren.metadata.access_checks import (
    OF_USERS,
    OF_VHOSTS,
    USER_LIMITS,
    VHOST_LIMITS,
    check_hash,
    check_limits,
    check_pattern,
    check_properties,
)
from warren.metadata.arguments import check_queue_arguments
from warren.metadata.commands import (
    AddNode,
    BindingCommand,
    Command,
    DeclareDelayed,
    DeclareExchange,
    DeclareQueue,
    DeclareVhost,
    DeleteExchange,
    KeepRecent,
    NodeLabelled,
    NodeMoved,
    RenewHash,
    ReplaceNode,
    SetMembers,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetUser,
    SetUserLimits,
    SetVhost,
    SetVhostLimits,
)
from warren.metadata.encoding import decode
from warren.metadata.exchange_checks import check_exchange_arguments
from warren.metadata.parameters import check_parameter
from warren.metadata.patterns import Pattern, PatternError
from warren.metadata.policies import APPLY_TO
from warren.metadata.policy_checks import check_settings
from warren.metadata.tables import MemberRecord
from warren.routing.exchange_types import DELAYED_MESSAGE

PORT_MAX: Final = 65_535


def foreign_command(payload: bytes) -> Command:
    """The command that another node wants logged.

    Raises:
        CorruptRecord: No node would want this.
    """
    command = _decoded(payload)
    problem = _problem(command)
    if problem:
        raise CorruptRecord("a command of a node", 0, problem)
    return command


def _decoded(payload: bytes) -> Command:
    try:
        return decode(payload)
    except CorruptRecord:
        raise
    except StorageError as error:
        # What another version would log, this one could not apply.
        raise CorruptRecord("a command of a node", 0, str(error)) from error


def _problem(command: Command) -> str:
    """Why no node would submit it; empty if one would."""
    try:
        return _problem_of(command)
    except (Refusal, PatternError) as error:
        return str(error)


def _problem_of(command: Command) -> str:
    if isinstance(command, DeclareQueue):
        check_queue_arguments(command.arguments, "a queue")
        if life_of(command.group_id) < 1:
            return f"group {command.group_id} is of no node's life"
        return _problem_of_name(command.name) or _problem_of_members(command.members)
    if isinstance(command, SetMembers):
        return _problem_of_members(command.members)
    if isinstance(command, BindingCommand):
        if not command.source or (command.to_exchange and not command.destination):
            return "a binding of the default exchange"
        return (
            _problem_of_name(command.source)
            or _problem_of_name(command.destination)
            or _problem_of_name(command.routing_key)
        )
    if isinstance(command, DeclareDelayed):
        check_exchange_arguments(DELAYED_MESSAGE, command.arguments, "an exchange")
        if life_of(command.group_id) < 1:
            return f"group {command.group_id} is of no node's life"
        if not command.name:
            return "a change of the default exchange"
        return _problem_of_name(command.name) or _problem_of_members(command.members)
    if isinstance(command, (DeclareExchange, DeleteExchange)):
        if not command.name:
            return "a change of the default exchange"
        return _problem_of_name(command.name)
    if isinstance(command, KeepRecent):
        return _problem_of_name(command.name) or _problem_of_records(command)
    if isinstance(command, (AddNode, ReplaceNode, NodeMoved)):
        return _problem_of_address(command.name, command.host, command.port)
    if isinstance(command, NodeLabelled):
        return (
            _problem_of_name(command.name)
            or _problem_of_name(command.host_label)
            or _problem_of_name(command.zone)
        )
    if isinstance(command, SetPolicy):
        Pattern(command.pattern)
        check_settings(command.operator, command.definition)
        return "" if command.apply_to in APPLY_TO else "a policy for what there is not"
    return _problem_of_access(command)


def _problem_of_access(command: Command) -> str:
    if isinstance(command, (SetPermissions, SetTopicPermissions)):
        patterns = [command.write, command.read]
        if isinstance(command, SetPermissions):
            patterns.append(command.configure)
        for pattern in patterns:
            check_pattern(pattern)
        return _problem_of_name(command.user) or _problem_of_name(command.vhost)
    if isinstance(command, SetUserLimits):
        check_limits(OF_USERS, USER_LIMITS, command.limits)
    elif isinstance(command, SetVhostLimits):
        check_limits(OF_VHOSTS, VHOST_LIMITS, command.limits)
    elif isinstance(command, SetVhost):
        check_properties(command.properties)
        return _problem_of_name(command.name)
    elif isinstance(command, SetParameter):
        check_parameter(command)
    elif isinstance(command, RenewHash):
        check_hash(command.password_hash, command.hash_scheme)
    elif isinstance(command, (SetUser, DeclareVhost)):
        return _problem_of_name(command.name)
    return ""


def _problem_of_name(name: str) -> str:
    return "a name is too long" if len(name.encode()) > SHORTSTR_BYTES_MAX else ""


def _problem_of_records(command: KeepRecent) -> str:
    if len(command.records) > RECENT_COUNT_MAX:
        return "more messages than an exchange keeps"
    check = check_of(command.flavour)
    if check is None:
        return f"messages of flavour {command.flavour}"
    for record in command.records:
        if not check.passes(record, 0, len(record)):
            return "a message that is none"
    return ""


def _problem_of_members(members: list[MemberRecord]) -> str:
    seen: set[str] = set()
    for member in members:
        if member.node in seen:
            return f"two copies on node {member.node!r}"
        seen.add(member.node)
    return ""


def _problem_of_address(name: str, host: str, port: int) -> str:
    for text in (name, host):
        if len(text.encode()) > SHORTSTR_BYTES_MAX or (text and not text.isprintable()):
            return "a name that no node has"
    return "" if name and 0 <= port <= PORT_MAX else "an address that no node has"
