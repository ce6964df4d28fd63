"""Arguments of declarations: which RabbitMQ knows, which are honoured here, when two are equal.

Of the arguments a queue type knows, some are honoured and checked; the rest is refused, because an
argument that is silently ignored would promise what does not happen. Arguments that no type knows
are kept and ignored, as RabbitMQ does.

Source: `rabbit_amqqueue`, `rabbit_misc:assert_args_equivalence` and the capabilities of each queue
type in RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Final

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.queue_types import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    DEFAULT,
    DROP_HEAD,
    PRIORITY_MAX,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    TARGET_SIZE,
    TYPES,
    X_CONSUMER_TIMEOUT,
    X_DEAD_LETTER_EXCHANGE,
    X_DEAD_LETTER_KEY,
    X_DEAD_LETTER_STRATEGY,
    X_DELAYED_RETRIES,
    X_DELIVERY_LIMIT,
    X_DISCONNECTED_TIMEOUT,
    X_EXPIRES,
    X_MAX_LENGTH,
    X_MAX_LENGTH_BYTES,
    X_MAX_PRIORITY,
    X_MESSAGE_TTL,
    X_OVERFLOW,
    X_SINGLE_ACTIVE_CONSUMER,
    find,
)
from warren.routing.terms import atom_term, is_integer_type, quoted, term, text_term, type_name
from warren.wire.amqp091.table import Decimal, Table, Value

QUEUE_TYPE: Final = "x-queue-type"

HONOURED_ARGUMENTS: Final = (
    X_EXPIRES,
    X_MESSAGE_TTL,
    X_DEAD_LETTER_EXCHANGE,
    X_DEAD_LETTER_KEY,
    X_DEAD_LETTER_STRATEGY,
    X_MAX_LENGTH,
    X_MAX_LENGTH_BYTES,
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    X_MAX_PRIORITY,
    X_OVERFLOW,
    "x-queue-version",
    X_SINGLE_ACTIVE_CONSUMER,
    X_CONSUMER_TIMEOUT,
    X_DISCONNECTED_TIMEOUT,
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-queue-leader-locator",
    "x-queue-master-locator",
    X_DELIVERY_LIMIT,
    *X_DELAYED_RETRIES,
    "x-queue-mode",
)
"""In the order in which they are checked, which says what the error is where several are wrong."""
RELAXED_ARGUMENTS: Final = (
    X_DEAD_LETTER_EXCHANGE,
    X_DEAD_LETTER_KEY,
    X_EXPIRES,
    X_MAX_LENGTH,
    X_MAX_LENGTH_BYTES,
    X_SINGLE_ACTIVE_CONSUMER,
    X_MESSAGE_TTL,
)
"""What two declares of a queue may not differ in where else they may."""

DURATION_MS_MAX: Final = 10 * 365 * 86_400_000
"""Ten years: no time in an argument is longer."""
LEADER_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders", "min-masters")


def _is_known(name: str) -> bool:
    for each in TYPES.values():
        if name in each.arguments:
            return True
    return False


def stored_arguments(arguments: Table) -> Table:
    """A queue's arguments as its record keeps them: with its type."""
    return dict(arguments) if QUEUE_TYPE in arguments else with_type(arguments, DEFAULT.name)


def with_type(arguments: Table, kind: str) -> Table:
    """Arguments that name no type, with one, in the order of their names, as RabbitMQ has them."""
    given: Table = {**arguments, QUEUE_TYPE: kind}
    ordered: Table = {}
    for name in sorted(given):
        ordered[name] = given[name]
    return ordered


def queue_type(arguments: Table) -> str:
    """The queue type that arguments ask for, whether it exists or not."""
    value = arguments.get(QUEUE_TYPE)
    if isinstance(value, str) and value and value != "undefined":
        return value
    return DEFAULT.name


def max_priority(arguments: Table) -> int:
    """The highest priority of a queue's messages, 1 where 0 is asked for; 0 if they have none."""
    value = arguments.get(X_MAX_PRIORITY)
    return max(1, value) if isinstance(value, int) else 0


def delivery_limit(arguments: Table) -> Table:
    """The argument that says how many failures a message survives, if it is a number.

    As with RabbitMQ any other value says nothing, and is no fault.
    """
    value = arguments.get(X_DELIVERY_LIMIT)
    if isinstance(value, bool) or not isinstance(value, int):
        return {}
    return {X_DELIVERY_LIMIT: value}


def delayed_retries(arguments: Table) -> Table:
    """The arguments that say what waits of what returns, as far as they can be compared.

    That is numbers and texts: as with RabbitMQ any other value says nothing, and is no fault.
    """
    found: Table = {}
    for name in X_DELAYED_RETRIES:
        value = arguments.get(name)
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, bool) or isinstance(value, str) != (name == X_DELAYED_RETRIES[0]):
            continue
        if isinstance(value, (str, int, float)):
            found[name] = value
    return found


def check_queue_arguments(arguments: Table, queue: str) -> None:
    """Refuse arguments that are wrong, and ones that this version does not honour.

    Args:
        arguments: From `stored_arguments`.
        queue: How error texts call the queue: `queue 'q' in vhost '/'`.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if QUEUE_TYPE in arguments:
        value = arguments[QUEUE_TYPE]
        if not isinstance(value, str):
            raise _invalid(QUEUE_TYPE, queue, f"{{unacceptable_type,{type_name(value)}}}")
    kind = find(queue_type(arguments))
    if kind is None:
        reason = text_term(f"unsupported queue type '{queue_type(arguments)}'")
        raise _invalid(QUEUE_TYPE, queue, reason)
    known = kind.arguments
    for name in HONOURED_ARGUMENTS:
        if name in arguments and name in known:
            reason = _value_error(name, arguments[name])
            if not reason and name == X_DEAD_LETTER_KEY and X_DEAD_LETTER_EXCHANGE not in arguments:
                reason = "routing_key_but_no_dlx_defined"
            if reason:
                raise _invalid(name, queue, reason)
    for name in kind.further_arguments:
        if name in arguments:
            reason = _value_error(name, arguments[name])
            if reason:
                raise _invalid(name, queue, reason)
    for name in arguments:
        if _is_known(name) and name not in known:
            raise Refusal(
                PRECONDITION_FAILED,
                f"invalid arg '{name}' for {queue} of queue type {kind.module}",
            )
    if not kind.supported:
        _unsupported(QUEUE_TYPE, queue)
    for name in arguments:
        if name in known and name not in HONOURED_ARGUMENTS:
            _unsupported(name, queue)


def _invalid(name: str, queue: str, reason: str) -> Refusal:
    return Refusal(PRECONDITION_FAILED, f"invalid arg '{name}' for {queue}: {reason}")


def _unsupported(name: str, queue: str) -> None:
    raise Refusal(
        PRECONDITION_FAILED,
        f"argument '{name}' for {queue} is not supported yet by this version of Warren",
    )


def _value_error(name: str, value: Value) -> str:
    """What is wrong with the value of an honoured argument, as RabbitMQ says it; else empty."""
    if name in ("x-queue-leader-locator", X_DEAD_LETTER_EXCHANGE, X_DEAD_LETTER_KEY):
        if not isinstance(value, str):
            return f"{{unacceptable_type,{type_name(value)}}}"
        if name != "x-queue-leader-locator":
            return ""
        return "" if value in LEADER_LOCATORS else "invalid_queue_locator_arg"
    if name == X_OVERFLOW:
        if not isinstance(value, str):
            return f"{{unacceptable_type,{type_name(value)}}}"
        known = (DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX)
        return "" if value in known else "invalid_overflow"
    if name == X_DEAD_LETTER_STRATEGY:
        if not isinstance(value, str):
            return f"{{unacceptable_type,{type_name(value)}}}"
        return "" if value in (AT_MOST_ONCE, AT_LEAST_ONCE) else "invalid_dlx_strategy"
    if name in ("x-queue-type", "x-queue-mode", "x-queue-master-locator", X_DELIVERY_LIMIT):
        return ""
    if name in X_DELAYED_RETRIES:
        # As with RabbitMQ any other value says nothing, and is no fault.
        return ""
    if name == X_SINGLE_ACTIVE_CONSUMER:
        return "" if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"
    reason = count_error(value)
    if reason:
        return reason
    if name == "x-queue-version" and value != 2:
        return text_term(f"unsupported queue version '{term(value)}'")
    if name in ("x-quorum-initial-group-size", TARGET_SIZE, X_EXPIRES) and value == 0:
        return "{value_zero,0}"
    if name == X_MAX_PRIORITY and isinstance(value, int) and value > PRIORITY_MAX:
        return f"{{max_value_exceeded,{value}}}"
    lasts = name in (X_EXPIRES, X_MESSAGE_TTL)
    if lasts and isinstance(value, int) and value > DURATION_MS_MAX:
        return f"{{value_too_large,{value}}}"
    return ""


def count_error(value: Value) -> str:
    """Why a value is not an integer from 0, as RabbitMQ says it; else empty."""
    if not is_integer_type(value):
        return text_term(f"expected integer, got {type_name(value)}")
    assert isinstance(value, int)
    return f"{{value_negative,{value}}}" if value < 0 else ""


# --- equivalence --------------------------------------------------------------------------------


def check_equivalent(current: Table, given: Table, names: tuple[str, ...], entity: str) -> None:
    """Refuse a declaration whose arguments differ from those of what exists.

    The width of an integer does not matter, nor does the kind of string.

    Args:
        names: The arguments that count.
        entity: How error texts call it: `queue 'q' in vhost '/'`.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    for name in names:
        if name not in current:
            if name in given:
                _inequivalent(name, entity, _typed(given[name]), "none")
        elif name not in given:
            _inequivalent(name, entity, "none", _typed(current[name]))
        elif not same_value(current[name], given[name]):
            _inequivalent(name, entity, _untyped(given[name]), _untyped(current[name]))


def check_same_flag(current: bool, given: bool, name: str, entity: str) -> None:
    """Refuse a declaration that differs in a flag. Errors as for `check_equivalent`."""
    if current != given:
        _inequivalent(name, entity, f"'{term(given)}'", f"'{term(current)}'")


def check_same_type(current: str, given: str, entity: str) -> None:
    """Refuse a declaration of another exchange type. Errors as for `check_equivalent`."""
    if current != given:
        _inequivalent("type", entity, f"'{atom_term(given)}'", f"'{atom_term(current)}'")


def same_value(first: Value, second: Value) -> bool:
    """Whether two values are one to RabbitMQ: numbers by value, but 1, 1.0 and true differ."""
    if isinstance(first, (str, bytes)) and isinstance(second, (str, bytes)):
        return quoted(first) == quoted(second)
    if isinstance(first, bool) or isinstance(second, bool):
        return isinstance(first, bool) and isinstance(second, bool) and first == second
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    if isinstance(first, float) and isinstance(second, float):
        return first == second
    if isinstance(first, (list, dict, Decimal)) and isinstance(second, (list, dict, Decimal)):
        return term(first) == term(second)
    return first is None and second is None


def _typed(value: Value) -> str:
    return f"the value '{quoted(value)}' of type '{type_name(value)}'"


def _untyped(value: Value) -> str:
    return "none" if value is None else f"'{quoted(value)}'"


def _inequivalent(name: str, entity: str, given: str, current: str) -> None:
    raise Refusal(
        PRECONDITION_FAILED,
        f"inequivalent arg '{name}' for {entity}: received {given} but current is {current}",
    )
