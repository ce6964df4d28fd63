"""Which policies are taken: one function a command, as in `checks`.

RabbitMQ's words for what is wrong, as far as it has some. A setting that it knows and this version
does not honour is refused: to take it would promise what does not happen.

Source: `rabbit_policy`, `rabbit_policies` and `rabbit_parameter_validation` of RabbitMQ 4.3.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from mypy_extensions import i64

from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.metadata.machine import MetadataMachine
from warren.metadata.policies import APPLY_TO, OPERATOR_KEYS
from warren.queue_types import DELIVERY_LIMIT, QUEUE_LEADER_LOCATOR, TARGET_GROUP_SIZE

PRIORITY_MAX: Final = 2**31 - 1
DELIVERY_LIMIT_MAX: Final = 1 << 62
LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")
"""Other than in arguments, `min-masters` is none of them."""
NOT_YET: Final = (
    "alternate-exchange",
    "consumer-disconnected-timeout",
    "consumer-timeout",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-type",
    "expires",
    "initial-cluster-size",
    "max-age",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "member-placement-tag",
    "message-ttl",
    "overflow",
    "queue-mode",
    "queue-version",
    "stream-filter-size-bytes",
    "stream-max-segment-size-bytes",
)
"""Settings of RabbitMQ that this version does not honour."""


def check_set_policy(
    machine: MetadataMachine,
    operator: bool,
    vhost: str,
    name: str,
    pattern: str,
    definition: str,
    priority: int,
    apply_to: str,
) -> SetPolicy:
    """A policy to be created or replaced.

    Args:
        operator: Whether it is an operator policy.
        definition: A JSON object.

    Raises:
        Refusal: Something of it is wrong.
    """
    _check_vhost(machine, vhost)
    if not name:
        raise Refusal(PRECONDITION_FAILED, "a policy has a name")
    try:
        re.compile(pattern)
    except re.error as error:
        raise Refusal(
            PRECONDITION_FAILED,
            f"pattern should be regular expression but is invalid: '{pattern}': {error}",
        ) from None
    if apply_to not in APPLY_TO:
        allowed = ", ".join(f"'{word}'" for word in APPLY_TO[:-1])
        raise Refusal(
            PRECONDITION_FAILED,
            f"apply-to '{apply_to}' unrecognised; should be one of: {allowed}, or '{APPLY_TO[-1]}'",
        )
    if abs(priority) > PRIORITY_MAX:
        raise Refusal(PRECONDITION_FAILED, f"priority {priority} is beyond {PRIORITY_MAX}")
    settings = _parsed(definition)
    for key, value in settings.items():
        check_setting(operator, key, value)
    return SetPolicy(vhost, name, operator, pattern, apply_to, i64(priority), settings)


def check_clear_policy(
    machine: MetadataMachine, operator: bool, vhost: str, name: str
) -> ClearPolicy:
    """A policy to be removed.

    Raises:
        Refusal: There is none of that name.
    """
    _check_vhost(machine, vhost)
    if name not in machine.vhosts[vhost].policies_of(operator):
        what = "operator policy" if operator else "policy"
        raise Refusal(NOT_FOUND, f"there is no {what} '{name}' in vhost '{vhost}'")
    return ClearPolicy(vhost, name, operator)


def _check_vhost(machine: MetadataMachine, vhost: str) -> None:
    if vhost not in machine.vhosts:
        raise Refusal(NOT_FOUND, f"vhost '{vhost}' does not exist")


def _parsed(definition: str) -> dict[str, Any]:
    try:
        settings = msgspec.json.decode(definition)
    except msgspec.DecodeError as error:
        raise Refusal(
            PRECONDITION_FAILED, f"could not parse JSON document: {error}: {definition}"
        ) from None
    if not isinstance(settings, dict):
        raise Refusal(PRECONDITION_FAILED, f"definition must be a JSON object: {definition}")
    if not settings:
        raise Refusal(PRECONDITION_FAILED, "no policy provided: the definition is empty")
    return settings


def check_setting(operator: bool, key: str, value: Any) -> None:
    """Refuse a setting of a policy that this version does not honour as it stands.

    Raises:
        Refusal: It does not.
    """
    if key in NOT_YET:
        raise Refusal(
            PRECONDITION_FAILED,
            f"policy key '{key}' is not supported yet by this version of Warren",
        )
    if key not in (DELIVERY_LIMIT, TARGET_GROUP_SIZE, QUEUE_LEADER_LOCATOR):
        raise Refusal(PRECONDITION_FAILED, f"'{key}' is not a recognised policy setting")
    if operator and key not in OPERATOR_KEYS:
        raise Refusal(
            PRECONDITION_FAILED, f"'{key}' is not a recognised setting of operator policies"
        )
    shown = msgspec.json.encode(value).decode()
    if key == DELIVERY_LIMIT:
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > DELIVERY_LIMIT_MAX:
            raise Refusal(PRECONDITION_FAILED, f"{shown} is not a valid delivery limit")
    elif key == TARGET_GROUP_SIZE:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Refusal(
                PRECONDITION_FAILED,
                f"{shown} is not a valid qq target count value: {key} is a number above zero",
            )
    elif value not in LOCATORS:
        raise Refusal(
            PRECONDITION_FAILED,
            f"{shown} is not a valid queue leader locator value: it is one of "
            f"{', '.join(LOCATORS)}",
        )
