"""What operators may change of users, vhosts, rights and limits: one function a command.

As in `checks`, each reads the tables, changes nothing, and gives the command to log. Words are
those of `rabbitmqctl` where it has some.

Source: `rabbit_auth_backend_internal`, `rabbit_vhost`, `rabbit_vhost_limit` and
`rabbit_parameter_validation` of RabbitMQ 4.3, and the commands of `rabbitmqctl`.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Any, Final

import msgspec

from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.limits import (
    DESCRIPTION_BYTES_MAX,
    PATTERN_BYTES_MAX,
    TAGS_MAX,
)
from warren.metadata.access import MAX_CHANNELS, MAX_CONNECTIONS, MAX_QUEUES
from warren.metadata.commands import (
    ClearPermissions,
    ClearTopicPermissions,
    Command,
    DeclareVhost,
    DeleteUser,
    DeleteVhost,
    SetPassword,
    SetPermissions,
    SetTopicPermissions,
    SetUser,
    SetUserLimits,
    SetUserTags,
    SetVhost,
    SetVhostLimits,
)
from warren.metadata.machine import MetadataMachine
from warren.metadata.names import check_length
from warren.metadata.passwords import (
    ARGON2,
    ARGON2_KIB_MAX,
    ARGON2_LANES_MAX,
    ARGON2_PASSES_MAX,
    ARGON2_TEXT_BYTES_MAX,
    SALT_BYTES,
    SCHEMES,
    is_argon2,
)
from warren.metadata.patterns import PatternError, new_pattern
from warren.metadata.policy_keys import json_term
from warren.metadata.tables import VhostRecord
from warren.metadata.vhosts import DEFAULT_QUEUE_TYPE, DESCRIPTION, PROTECTED, TAGS
from warren.queue_types import TYPES, find, find_by_any_name

ALL_LIMITS: Final = "all"
OF_USERS: Final = "user-limits"
OF_VHOSTS: Final = "limits"
"""What RabbitMQ calls the limits of users and of vhosts in its texts."""
USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)
VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)
LIMIT_MAX: Final = (1 << 63) - 1
HASH_BYTES_MAX: Final = ARGON2_TEXT_BYTES_MAX
"""The longest hash of a password: that of SHA-512."""


# --- users --------------------------------------------------------------------------------------


def check_user(machine: MetadataMachine, name: str) -> None:
    """Refuse what is about a user that there is not.

    Raises:
        Refusal: `NOT_FOUND`.
    """
    if name not in machine.users:
        raise Refusal(NOT_FOUND, f'User "{name}" does not exist')


def check_add_user(
    machine: MetadataMachine, name: str, password_hash: bytes, scheme: str
) -> SetUser:
    """A user to be created, without tags and permissions.

    Raises:
        Refusal: It cannot be called so, or there is one already.
    """
    check_new_user(name, password_hash, scheme)
    if name in machine.users:
        raise Refusal(PRECONDITION_FAILED, f'User "{name}" already exists')
    return SetUser(name, password_hash, scheme, [], False)


def check_new_user(name: str, password_hash: bytes, scheme: str) -> None:
    """Refuse a user that no cluster could have.

    Raises:
        Refusal: It cannot be called so, or the hash is none.
    """
    _check_name("user", name)
    check_hash(password_hash, scheme)


def check_delete_user(machine: MetadataMachine, name: str) -> DeleteUser:
    """A user to be deleted, with its permissions.

    Raises:
        Refusal: There is none of that name.
    """
    check_user(machine, name)
    return DeleteUser(name)


def check_password(
    machine: MetadataMachine, name: str, password_hash: bytes, scheme: str
) -> SetPassword:
    """Another password for a user; an empty hash for none at all.

    Raises:
        Refusal: There is no such user.
    """
    check_user(machine, name)
    check_hash(password_hash, scheme)
    return SetPassword(name, password_hash, scheme)


def check_user_tags(machine: MetadataMachine, name: str, tags: list[str]) -> SetUserTags:
    """Other tags for a user.

    Raises:
        Refusal: There is no such user, or these are no tags.
    """
    check_tags("user", tags)
    check_user(machine, name)
    return SetUserTags(name, list(dict.fromkeys(tags)))


def decoded_hash(password_hash: str) -> bytes:
    """A hash of a password as operators write it, in Base64.

    Raises:
        Refusal: `PRECONDITION_FAILED`, it is none.
    """
    try:
        decoded = b64decode(password_hash, validate=True)
    except (Base64Error, ValueError):
        decoded = b""
    if not SALT_BYTES < len(decoded) <= HASH_BYTES_MAX:
        raise Refusal(PRECONDITION_FAILED, "Could not Base64 decode provided password hash value")
    return decoded


def check_hash(password_hash: bytes, scheme: str) -> None:
    if scheme not in SCHEMES:
        raise Refusal(
            PRECONDITION_FAILED,
            f"hashing algorithm '{scheme}' is unknown; it is one of {', '.join(SCHEMES)}",
        )
    if scheme == ARGON2 and not is_argon2(password_hash):
        raise Refusal(
            PRECONDITION_FAILED,
            "the password hash is no Argon2id hash ($argon2id$v=19$...) with at most "
            f"{ARGON2_KIB_MAX} KiB, {ARGON2_PASSES_MAX} passes and {ARGON2_LANES_MAX} lanes",
        )


# --- vhosts -------------------------------------------------------------------------------------


def check_vhost(machine: MetadataMachine, name: str) -> VhostRecord:
    """Refuse what is about a vhost that there is not.

    Raises:
        Refusal: `NOT_FOUND`.
    """
    tables = machine.vhosts.get(name)
    if tables is None:
        raise Refusal(NOT_FOUND, f"Virtual host '{name}' does not exist")
    return tables


def check_add_vhost(
    machine: MetadataMachine, name: str, properties: dict[str, Any]
) -> Command | None:
    """A vhost to be created; None where there is one of that name, which is no error.

    Raises:
        Refusal: It cannot be called so, or a property is wrong.
    """
    _check_name("vhost", name)
    known = _by_names(properties)
    check_properties(known)
    if name in machine.vhosts:
        return None
    return SetVhost(name, True, known) if known else DeclareVhost(name)


def check_update_vhost(machine: MetadataMachine, name: str, properties: dict[str, Any]) -> SetVhost:
    """Other properties for a vhost; those that are not given stay.

    Raises:
        Refusal: There is no such vhost, or a property is wrong.
    """
    check_vhost(machine, name)
    known = _by_names(properties)
    check_properties(known)
    return SetVhost(name, False, known)


def check_delete_vhost(machine: MetadataMachine, name: str) -> DeleteVhost:
    """A vhost to be deleted, with all that is in it.

    Raises:
        Refusal: There is none of that name, or it is protected.
    """
    if check_vhost(machine, name).protected:
        raise Refusal(
            PRECONDITION_FAILED,
            "Cannot delete this virtual host: it is protected from deletion. To lift the "
            "protection, inspect and update its metadata",
        )
    return DeleteVhost(name)


def check_properties(properties: dict[str, Any]) -> None:
    """Refuse properties that no vhost has.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    for key, value in properties.items():
        if key == DESCRIPTION:
            fine = isinstance(value, str) and len(_bytes(value)) <= DESCRIPTION_BYTES_MAX
        elif key == TAGS:
            fine = isinstance(value, list) and all(isinstance(tag, str) for tag in value)
            if fine:
                check_tags("vhost", value)
        elif key == DEFAULT_QUEUE_TYPE:
            fine = isinstance(value, str)
            if fine:
                _check_default_type(value)
        else:
            fine = key == PROTECTED and isinstance(value, bool)
        if not fine:
            raise Refusal(PRECONDITION_FAILED, f"'{key}' of a vhost cannot be that")


def _by_names(properties: dict[str, Any]) -> dict[str, Any]:
    """Properties with the name of a type of queues in the place of that of RabbitMQ's module."""
    named = properties.get(DEFAULT_QUEUE_TYPE)
    kind = find_by_any_name(named) if isinstance(named, str) else None
    return properties if kind is None else {**properties, DEFAULT_QUEUE_TYPE: kind.name}


def _check_default_type(name: str) -> None:
    kind = find(name)
    if kind is None:
        raise Refusal(
            PRECONDITION_FAILED,
            f"Default queue type must be one of: {', '.join(TYPES)}. Provided: {name}",
        )
    if not kind.supported:
        raise Refusal(
            PRECONDITION_FAILED,
            f"default queue type '{name}' is not supported yet by this version of Warren",
        )


# --- permissions --------------------------------------------------------------------------------


def check_set_permissions(
    machine: MetadataMachine, user: str, vhost: str, configure: str, write: str, read: str
) -> SetPermissions:
    """Patterns for the names that a user may configure, write and read in a vhost.

    Raises:
        Refusal: A pattern is none, or there is no such user or vhost.
    """
    for pattern in (configure, write, read):
        check_pattern(pattern)
    _check_both(machine, user, vhost)
    return SetPermissions(user, vhost, configure, write, read)


def check_clear_permissions(machine: MetadataMachine, user: str, vhost: str) -> ClearPermissions:
    """No access to a vhost any more.

    Raises:
        Refusal: There is no such user or vhost.
    """
    _check_both(machine, user, vhost)
    return ClearPermissions(user, vhost)


def check_set_topic_permissions(
    machine: MetadataMachine, user: str, vhost: str, exchange: str, write: str, read: str
) -> SetTopicPermissions:
    """Patterns for the routing keys that a user may publish with to an exchange, and bind to it.

    Raises:
        Refusal: A pattern is none, or there is no such user, vhost or exchange.
    """
    for pattern in (write, read):
        check_pattern(pattern)
    tables = _check_both(machine, user, vhost)
    if exchange not in tables.exchanges:
        raise Refusal(NOT_FOUND, f"Exchange {exchange} does not exist")
    return SetTopicPermissions(user, vhost, exchange, write, read)


def check_clear_topic_permissions(
    machine: MetadataMachine, user: str, vhost: str, exchange: str
) -> ClearTopicPermissions:
    """Any routing key for an exchange again; for all of the vhost if it is empty.

    Raises:
        Refusal: There is no such user or vhost.
    """
    _check_both(machine, user, vhost)
    return ClearTopicPermissions(user, vhost, exchange)


def check_pattern(pattern: str) -> None:
    """Refuse what is no regular expression.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if len(_bytes(pattern)) > PATTERN_BYTES_MAX:
        raise Refusal(PRECONDITION_FAILED, f"a pattern must not exceed {PATTERN_BYTES_MAX} bytes")
    try:
        new_pattern(pattern)
    except PatternError as error:
        raise Refusal(
            PRECONDITION_FAILED, f"regular expression '{pattern}' is invalid: {error}"
        ) from None


def _check_both(machine: MetadataMachine, user: str, vhost: str) -> VhostRecord:
    if user not in machine.users:
        raise Refusal(NOT_FOUND, f"User {user} does not exist")
    tables = machine.vhosts.get(vhost)
    if tables is None:
        raise Refusal(NOT_FOUND, f"Virtual host {vhost} does not exist")
    return tables


# --- limits -------------------------------------------------------------------------------------


def check_user_limits(machine: MetadataMachine, user: str, definition: str) -> SetUserLimits:
    """Limits of a user; those that are not given stay.

    Args:
        definition: A JSON object.

    Raises:
        Refusal: There is no such user, or these are no limits.
    """
    check_user(machine, user)
    return SetUserLimits(user, parsed_limits(OF_USERS, USER_LIMITS, definition), [])


def check_clear_user_limits(machine: MetadataMachine, user: str, limit: str) -> SetUserLimits:
    """One limit of a user less, or none at all any more.

    Raises:
        Refusal: There is no such user, or no such limit.
    """
    check_user(machine, user)
    if limit == ALL_LIMITS:
        return SetUserLimits(user, {}, list(USER_LIMITS))
    if limit not in USER_LIMITS:
        raise Refusal(
            PRECONDITION_FAILED,
            f"limit '{limit}' is unknown; it is one of {', '.join(USER_LIMITS)}, or {ALL_LIMITS}",
        )
    return SetUserLimits(user, {}, [limit])


def check_vhost_limits(machine: MetadataMachine, vhost: str, definition: str) -> SetVhostLimits:
    """All limits of a vhost.

    Args:
        definition: A JSON object.

    Raises:
        Refusal: There is no such vhost, or these are no limits.
    """
    check_vhost(machine, vhost)
    return SetVhostLimits(vhost, parsed_limits(OF_VHOSTS, VHOST_LIMITS, definition))


def parsed_limits(what: str, known: tuple[str, ...], definition: str) -> dict[str, int]:
    """Limits that are written as a JSON object.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    try:
        limits = msgspec.json.decode(definition)
    except msgspec.DecodeError as error:
        raise Refusal(PRECONDITION_FAILED, f"Could not parse JSON document: {error}") from None
    if not isinstance(limits, dict):
        raise Refusal(PRECONDITION_FAILED, f"{what} not a list {definition}")
    check_limits(what, known, limits)
    return limits


def check_limits(what: str, known: tuple[str, ...], limits: dict[str, Any]) -> None:
    """Refuse limits that there are not.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    for name, value in limits.items():
        shown = msgspec.json.encode(value).decode()
        if name not in known:
            raise Refusal(
                PRECONDITION_FAILED,
                f"{_failed(what)}Unrecognised terms [{{{json_term(name)},{shown}}}] in {what}",
            )
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LIMIT_MAX:
            raise Refusal(
                PRECONDITION_FAILED,
                f"{_failed(what)}{name} should be a number, actually was {shown}",
            )


def _failed(what: str) -> str:
    """What comes before the reason, which RabbitMQ leaves out for users."""
    return "" if what == OF_USERS else "Validation failed\n\n"


# --- words --------------------------------------------------------------------------------------


def _check_name(what: str, name: str) -> None:
    if not name:
        raise Refusal(PRECONDITION_FAILED, f"{what} cannot be an empty string")
    check_length(f"the name of a {what}", name)


def check_tags(what: str, tags: list[str]) -> None:
    """Refuse what are no tags.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if len(tags) > TAGS_MAX:
        raise Refusal(
            PRECONDITION_FAILED,
            f"A {what} can have at most {TAGS_MAX} tags (received {len(tags)})",
        )
    for tag in tags:
        _check_name("tag", tag)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
