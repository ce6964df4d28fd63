"""Which policies are taken: one function a command, as in `checks`.

RabbitMQ's words for what is wrong, as far as it has some. A setting that it knows and this version
does not honour is refused: to take it would promise what does not happen.

Source: `rabbit_policy`, `rabbit_policies` and `rabbit_parameter_validation` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from mypy_extensions import i64

from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.limits import PATTERN_BYTES_MAX, POLICY_STEPS_MAX
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.metadata.machine import MetadataMachine
from warren.metadata.names import check_length
from warren.metadata.parameters import VALUE_BYTES_MAX
from warren.metadata.patterns import PatternError, new_pattern
from warren.metadata.policies import APPLY_TO
from warren.metadata.policy_keys import BY_NAME, json_term
from warren.metadata.tables import VhostRecord
from warren.queue_types import DELAYED_RETRY_MAX, DELAYED_RETRY_MIN, DELAYED_RETRY_TYPE

PRIORITY_MAX: Final = 2**31 - 1
OLD_LOCATOR: Final = "queue-master-locator"
"""Unlike the argument of that name no older setting of policies is an alias: RabbitMQ refuses it
before it looks at any other."""
DISABLED: Final = "disabled"
"""That nothing waits which returns."""
NOT_YET: Final = (
    "initial-cluster-size",
    "max-age",
    "member-placement-tag",
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
    check_length("the name of a policy", name)
    if len(definition) > VALUE_BYTES_MAX:
        text = f"the definition of a policy has at most {VALUE_BYTES_MAX} bytes"
        raise Refusal(PRECONDITION_FAILED, text)
    if len(pattern.encode("utf-8", "surrogatepass")) > PATTERN_BYTES_MAX:
        raise Refusal(PRECONDITION_FAILED, f"pattern must not exceed {PATTERN_BYTES_MAX} bytes")
    try:
        cost = new_pattern(pattern).cost
    except PatternError as error:
        raise Refusal(
            PRECONDITION_FAILED,
            f"pattern should be regular expression but is invalid: '{pattern}': {error}",
        ) from None
    if apply_to not in APPLY_TO:
        raise Refusal(
            PRECONDITION_FAILED,
            f"apply-to '{apply_to}' unrecognised; should be one of: 'queues', 'classic_queues', "
            " 'quorum_queues', 'streams', 'exchanges', or 'all'",
        )
    if abs(priority) > PRIORITY_MAX:
        raise Refusal(PRECONDITION_FAILED, f"priority {priority} is beyond {PRIORITY_MAX}")
    settings = _parsed(definition)
    check_settings(operator, settings)
    _check_costs(machine.vhosts[vhost], operator, name, cost)
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


def _check_costs(tables: VhostRecord, operator: bool, name: str, cost: i64) -> None:
    """Refuse a pattern with which it takes too long to see which policies a queue has.

    Raises:
        Refusal: Those of the vhost and this one may take too many steps together.
    """
    for each in (False, True):
        for policy in tables.policies_of(each).values():
            if each != operator or policy.name != name:
                cost += policy.cost()
    if cost > POLICY_STEPS_MAX:
        raise Refusal(
            PRECONDITION_FAILED,
            f"the patterns of all policies of vhost '{tables.name}' may take {cost} steps for one "
            f"name, and {POLICY_STEPS_MAX} at most: use fewer policies, or patterns with fewer "
            "repetitions",
        )


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
        raise Refusal(PRECONDITION_FAILED, "no policy provided")
    return settings


def check_settings(operator: bool, settings: dict[str, Any]) -> None:
    """Refuse settings of a policy that are wrong, or that this version does not honour.

    Raises:
        Refusal: Some are.
    """
    if OLD_LOCATOR in settings:
        raise Refusal(
            PRECONDITION_FAILED, f"use of deprecated {OLD_LOCATOR} argument is not permitted"
        )
    unknown: list[str] = []
    for name in sorted(settings):
        key = BY_NAME.get(name)
        if key is None or (operator and not key.operator):
            unknown.append(name)
            continue
        problem = key.problem(settings[name])
        if problem:
            raise Refusal(PRECONDITION_FAILED, problem)
    _check_retries(settings)
    if unknown:
        shown = ",".join([f"{{{json_term(name)},{json_term(settings[name])}}}" for name in unknown])
        raise Refusal(PRECONDITION_FAILED, f"[{shown}] are not recognised policy settings")
    for name in settings:
        if name in NOT_YET:
            raise Refusal(
                PRECONDITION_FAILED,
                f"policy key '{name}' is not supported yet by this version of Warren",
            )


def _check_retries(settings: dict[str, Any]) -> None:
    """Refuse delays that say no time, or a longest one that is shorter than the shortest.

    Raises:
        Refusal: They do.
    """
    kind = settings.get(DELAYED_RETRY_TYPE, DISABLED)
    least = settings.get(DELAYED_RETRY_MIN)
    most = settings.get(DELAYED_RETRY_MAX)
    if kind != DISABLED and least is None:
        raise Refusal(
            PRECONDITION_FAILED,
            f"delayed-retry-min is required when delayed-retry-type is {kind}",
        )
    if least is not None and most is not None and most < least:
        raise Refusal(
            PRECONDITION_FAILED,
            f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})",
        )
