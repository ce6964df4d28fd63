"""Runtime parameters: values by name, of a component in a vhost, or of the whole cluster.

Source: `rabbit_runtime_parameters` of RabbitMQ 4.3, of which this version has no component that
could be set here but the limits of vhosts; what is stored is kept through snapshots all the same.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.limits import SHORTSTR_BYTES_MAX
from warren.metadata.commands import ClearParameter, SetParameter
from warren.metadata.outcome import Outcome

ParameterKey: TypeAlias = tuple[str, str, str]
"""Vhost, component and name; the first two are empty for a parameter of the whole cluster."""
Parameters: TypeAlias = dict[ParameterKey, bytes]
"""JSON texts by whose they are."""

CLUSTER_NAME: Final = "cluster_name"
"""The parameter of the whole cluster that names it."""
CLUSTER_ID: Final = "internal_cluster_id"
CLUSTER_TAGS: Final = "cluster_tags"
"""Such that each cluster of RabbitMQ has from its beginning."""
FEED: Final = "warren-feed"
"""The component of what says that a vhost has an events feed (`metadata.feeds`)."""
VALUE_BYTES_MAX: Final = 65_536
PARAMETERS_MAX: Final = 4_096


def apply_parameter(
    parameters: Parameters, command: SetParameter | ClearParameter, outcome: Outcome
) -> None:
    """Apply a command about a runtime parameter; the vhost is there."""
    key = (command.vhost, command.component, command.name)
    if isinstance(command, SetParameter):
        parameters[key] = command.value
        outcome.changed = True
    elif parameters.pop(key, None) is not None:
        outcome.changed = True
    # Queues hear of a feed with what policies say of them.
    outcome.policies_changed = outcome.changed and command.component == FEED


def drop_of_vhost(parameters: Parameters, vhost: str) -> None:
    """Forget the parameters of a vhost that goes."""
    for key in [key for key in parameters if key[0] == vhost and key[1]]:
        del parameters[key]


def parameter_rows(parameters: Parameters) -> list[Any]:
    """All parameters as a snapshot has them."""
    return [[*key, value] for key, value in parameters.items()]


def read_parameters(rows: list[Any]) -> Parameters:
    """The parameters of rows that `parameter_rows` made."""
    return {(row[0], row[1], row[2]): row[3] for row in rows}


def check_set_global(parameters: Parameters, name: str, value: str) -> SetParameter:
    """A parameter of the whole cluster to be set.

    Args:
        value: JSON of any kind.

    Raises:
        Refusal: It is no JSON, too long, or there are too many.
    """
    command = SetParameter("", "", name, encoded(value))
    check_parameter(command)
    if ("", "", name) not in parameters and len(parameters) >= PARAMETERS_MAX:
        raise Refusal(PRECONDITION_FAILED, f"there are {PARAMETERS_MAX} parameters at most")
    return command


def check_clear_global(parameters: Parameters, name: str) -> ClearParameter:
    """A parameter of the whole cluster to be removed.

    Raises:
        Refusal: `NOT_FOUND`, there is none of that name.
    """
    if ("", "", name) not in parameters:
        raise Refusal(NOT_FOUND, "Parameter does not exist")
    return ClearParameter("", "", name)


def check_parameter(command: SetParameter) -> None:
    """Refuse a parameter that no node would submit.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    for text in (command.vhost, command.component, command.name):
        if len(text.encode("utf-8", "surrogateescape")) > SHORTSTR_BYTES_MAX:
            raise Refusal(
                PRECONDITION_FAILED, f"a name of a parameter has at most {SHORTSTR_BYTES_MAX} bytes"
            )
    if not command.name:
        raise Refusal(PRECONDITION_FAILED, "a parameter has a name")
    if len(command.value) > VALUE_BYTES_MAX:
        raise Refusal(PRECONDITION_FAILED, f"a parameter has at most {VALUE_BYTES_MAX} bytes")
    try:
        msgspec.json.decode(command.value)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Refusal(PRECONDITION_FAILED, f"Could not parse JSON document: {error}") from None


def encoded(value: str) -> bytes:
    """A JSON text as it is stored, without blanks.

    Raises:
        Refusal: `PRECONDITION_FAILED`, it is none.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(value))
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Refusal(PRECONDITION_FAILED, f"Could not parse JSON document: {error}") from None
