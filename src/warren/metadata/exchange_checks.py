"""What each type of exchange asks of its arguments and of the bindings that lead from it.

Source: B-07; `validate` and `validate_binding` of the exchange types of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Final

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.metadata.recent import RECENT_LENGTH
from warren.queue_types import QueueType
from warren.routing.exchange_types import (
    DELAYED_MESSAGE,
    DELAYED_TYPE,
    EXCHANGE_TYPES,
    LOCAL_RANDOM,
    RECENT_HISTORY,
)
from warren.routing.spreading import (
    HASH_HEADER,
    HASH_PROPERTIES,
    HASH_PROPERTY,
    INTEGER,
    WEIGHT_MAX,
)
from warren.routing.terms import binary_term, quoted, term, type_name
from warren.routing.topic import split_words
from warren.wire.amqp091.table import Table, Value

LENGTH_TYPES: Final = ("byte", "short", "signedint", "long")
HEADER_MATCHES: Final = ("all", "any", "all-with-x", "any-with-x")

ANY_WORDS_MAX: Final = 2
"""`#` in one topic pattern, RabbitMQ's bound. Matching here does not need it; patterns that
RabbitMQ refuses are refused so that an application does not find out later."""


def check_exchange_type(kind: str) -> None:
    """Refuse a type of exchanges that there is not.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if kind not in EXCHANGE_TYPES:
        raise _refused(f"{'unknown' if kind else 'invalid'} exchange type '{kind}'")


def check_exchange_arguments(kind: str, arguments: Table, title: str) -> None:
    """Refuse arguments with which an exchange of a type cannot be.

    Args:
        title: How error texts call the exchange.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if kind == DELAYED_MESSAGE:
        named = arguments.get(DELAYED_TYPE)
        if not isinstance(named, str):
            raise _refused(f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
        if named == DELAYED_MESSAGE:
            raise _refused(
                f"Invalid argument, '{DELAYED_MESSAGE}' can't be used for '{DELAYED_TYPE}'"
            )
        check_exchange_type(named)
        if named == RECENT_HISTORY:
            raise _refused(
                f"'{RECENT_HISTORY}' for '{DELAYED_TYPE}' of {title} is not supported yet by this "
                "version of Warren"
            )
        check_exchange_arguments(named, arguments, title)
        return
    if kind == RECENT_HISTORY and RECENT_LENGTH in arguments:
        length = arguments[RECENT_LENGTH]
        if type_name(length) not in LENGTH_TYPES or not isinstance(length, int) or length < 1:
            raise _refused(
                f"Invalid argument {term(length)}, '{RECENT_LENGTH}' must be a positive integer"
            )
    if kind != "x-consistent-hash":
        return
    for name in (HASH_HEADER, HASH_PROPERTY):
        if name in arguments and not isinstance(arguments[name], str):
            # RabbitMQ fails at it and closes the connection.
            given = type_name(arguments[name])
            raise _refused(f"invalid type '{given}' for arg '{name}' in {title}")
    if HASH_PROPERTY in arguments:
        named = arguments[HASH_PROPERTY]
        if HASH_HEADER in arguments:
            raise _refused("hash-header and hash-property are mutually exclusive")
        if named not in HASH_PROPERTIES:
            raise _refused(f"Unsupported property: {quoted(named)}")


def check_binding(
    kind: str, routing_key: str, arguments: Table, queue_type: QueueType | None
) -> None:
    """Refuse a binding that its exchange's type cannot take.

    Args:
        queue_type: The type of the queue that it leads to; None if it leads to an exchange.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if kind == "headers" and "x-match" in arguments:
        _check_match(arguments["x-match"])
    elif kind == "topic":
        count = split_words(routing_key).count("#")
        if count > ANY_WORDS_MAX:
            raise _refused(
                f"Topic binding key '{routing_key}' uses {count} '#' wildcards, "
                f"at most {ANY_WORDS_MAX} are allowed"
            )
    elif kind == "x-consistent-hash":
        _check_weight(routing_key)
    elif kind == LOCAL_RANDOM:
        if routing_key:
            raise _refused(f"Non empty binding '{routing_key}' key not permitted")
        if queue_type is None:
            raise _refused("Destination not found")
        if queue_type.replicated:
            raise _refused(f"Queue type {queue_type.module} not valid for this exchange type")


def _check_match(match: Value) -> None:
    if not isinstance(match, str):
        raise _refused(
            f"Invalid x-match field type {type_name(match)} (value {term(match)}); expected longstr"
        )
    if match not in HEADER_MATCHES:
        raise _refused(
            f"Invalid x-match field value {binary_term(match)}; "
            "expected all, any, all-with-x, or any-with-x"
        )


def _check_weight(routing_key: str) -> None:
    """The key of a binding of a consistent-hash exchange says how many places it has."""
    if INTEGER.fullmatch(routing_key) is None:
        raise _refused(f"The binding key must be an integer: {binary_term(routing_key)}")
    weight = int(routing_key)
    if weight < 1:
        raise _refused("The binding key must be greater than 0")
    if weight > WEIGHT_MAX:
        raise _refused(f"The binding key must not exceed {WEIGHT_MAX}")


def _refused(text: str) -> Refusal:
    return Refusal(PRECONDITION_FAILED, text)
