"""Matching of message headers against a binding's arguments.

`x-match` says how: `all` (the default) and `any` leave out arguments whose name starts with `x-`;
`all-with-x` and `any-with-x` take them in, save `x-match` itself. An argument without a value
(void) asks only that the header is there. Values are compared without conversion: an integer never
equals a float, nor true 1, but the width of an integer does not matter. A timestamp is its seconds;
RabbitMQ 4.3 takes milliseconds on the message's side only, so that no timestamp matches another.

Source: `rabbit_exchange_type_headers` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import TypeAlias, final

from warren.wire.amqp091.table import Table, Value, encode_entry

#: What two values have in common exactly when they match: kind and value.
MatchValue: TypeAlias = tuple[str, object]


def match_value(value: Value) -> MatchValue:
    """The form of a value that matching compares."""
    if isinstance(value, str):
        return ("s", value)
    if isinstance(value, bool):
        return ("b", value)
    if isinstance(value, int):
        return ("i", value)
    if isinstance(value, float):
        return ("f", value)
    if isinstance(value, bytes):
        # Both string types are the same bytes to a matcher.
        return ("s", value.decode("utf-8", "surrogateescape"))
    if value is None:
        return ("v", None)
    return ("e", encode_entry("", value))


def match_values(headers: Table | None) -> dict[str, MatchValue]:
    """A message's headers in the form that `HeaderMatch.passes` takes."""
    if headers is None:
        return {}
    return {name: match_value(value) for name, value in headers.items()}


@final
class HeaderMatch:
    """What one binding's arguments demand of a message's headers.

    Attributes:
        any: Whether one header that is as demanded will do.
        present: Headers that are to be there, with any value.
        equal: Headers that are to have a value.
        chosen: One of `equal`, by which the binding is found; None as long as none was chosen.
    """

    def __init__(self, arguments: Table) -> None:
        mode = arguments.get("x-match")
        with_x = mode == "all-with-x" or mode == "any-with-x"
        self.any: bool = mode == "any" or mode == "any-with-x"
        self.present: list[str] = []
        self.equal: dict[str, MatchValue] = {}
        self.chosen: tuple[str, MatchValue] | None = None
        for name, value in arguments.items():
            if name == "x-match" or (name.startswith("x-") and not with_x):
                continue
            if value is None:
                self.present.append(name)
            else:
                self.equal[name] = match_value(value)

    def passes(self, headers: dict[str, MatchValue]) -> bool:
        """Whether a message with these headers passes."""
        if self.any:
            for name in self.present:
                if name in headers:
                    return True
            for name, value in self.equal.items():
                if headers.get(name) == value:
                    return True
            return False
        for name in self.present:
            if name not in headers:
                return False
        for name, value in self.equal.items():
            if headers.get(name) != value:
                return False
        return True
