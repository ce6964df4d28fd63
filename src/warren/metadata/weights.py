"""What rows of the tables take in memory, in bytes, by rules of thumb.

A row is kept as objects, encoded for snapshots, in indexes and in routes. What is on the wire says
little of that: a table of numbers that takes two bytes each there takes fifty times as much here.
The weight of a row is a function of the row alone, so that what was added is what is taken off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from warren.metadata.tables import ExchangeRecord, PolicyRecord, QueueRecord
    from warren.routing.bindings import Binding

TABLE_BYTES: Final = 256
ARRAY_BYTES: Final = 96
VALUE_BYTES: Final = 96
"""A number or a truth with its place in a table, and encoded."""
TEXT_BYTES: Final = 80
ASCII_BYTES: Final = 3
LETTER_BYTES: Final = 12
"""Each letter of a text: it is kept as itself and, twice, encoded. All letters of a text take as
much as the one that takes most."""
QUEUE_BYTES: Final = 1_024
EXCHANGE_BYTES: Final = 1_792
BINDING_BYTES: Final = 1_280
POLICY_BYTES: Final = 2_048
"""With what its pattern is compiled to."""
VHOST_BYTES: Final = 14_336
"""With the exchanges that each has."""
ACCESS_BYTES: Final = 512
"""A user, its permissions in a vhost, a limit, a parameter."""


def weight_of(value: object) -> i64:
    """What a value of arguments or of a definition takes, with all that is in it."""
    if isinstance(value, str):
        return TEXT_BYTES + weight_of_text(value)
    if isinstance(value, (bytes, bytearray)):
        return TEXT_BYTES + ASCII_BYTES * i64(len(value))
    if isinstance(value, dict):
        weight: i64 = TABLE_BYTES
        for name, inner in value.items():
            weight += TEXT_BYTES + weight_of(inner)
            if isinstance(name, str):
                weight += weight_of_text(name)
        return weight
    if isinstance(value, list):
        weight = ARRAY_BYTES
        for inner in value:
            weight += weight_of(inner)
        return weight
    return VALUE_BYTES


def weight_of_text(text: str) -> i64:
    """What the letters of a text take."""
    return (ASCII_BYTES if text.isascii() else LETTER_BYTES) * i64(len(text))


def weight_of_table(arguments: Table) -> i64:
    """What arguments take; those of most rows are none."""
    return weight_of(arguments) if arguments else 0


def weight_of_texts(texts: list[str]) -> i64:
    """What some texts take."""
    weight: i64 = 0
    for text in texts:
        weight += TEXT_BYTES + weight_of_text(text)
    return weight


def weight_of_queue(queue: QueueRecord) -> i64:
    """What a queue's row takes."""
    weight: i64 = QUEUE_BYTES + weight_of_text(queue.name)
    # All have their type among their arguments, and those that have nothing else share them.
    return weight if len(queue.arguments) < 2 else weight + weight_of_table(queue.arguments)


def weight_of_exchange(exchange: ExchangeRecord) -> i64:
    """What an exchange's row takes, without the bindings."""
    weight: i64 = EXCHANGE_BYTES + weight_of_text(exchange.name)
    return weight + weight_of_table(exchange.arguments)


def weight_of_binding(binding: Binding) -> i64:
    """What a binding's row takes, with its routes."""
    weight: i64 = BINDING_BYTES + weight_of_text(binding.routing_key)
    return weight + weight_of_table(binding.arguments)


def weight_of_policy(policy: PolicyRecord) -> i64:
    """What a policy's row takes."""
    weight: i64 = POLICY_BYTES + weight_of_texts([policy.name, policy.pattern])
    definition: Any = policy.definition
    return weight + weight_of(definition)
