"""What a router asks of the bindings of one exchange.

An index finds bindings, it does not follow them: exchanges bound to exchanges, alternate exchanges
and the removal of duplicate destinations are the router's part.
"""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64

from warren.limits import ROUTE_STEPS_MAX
from warren.message.properties import MessageProperties
from warren.routing.bindings import Binding
from warren.wire.amqp091.table import Table


class BindingIndex:
    """The bindings of one exchange, arranged for one type's way to match.

    Attributes:
        by_key: Whether the routing key matters.
        by_headers: Whether the message's headers matter.
        by_properties: Whether other properties of the message do.
        at_random: Whether two messages that are alike may pass different bindings.
        left: Steps that may still be taken for a message. Where there are none left it is given up,
            and what was found does not count.
    """

    def __init__(
        self,
        by_key: bool,
        by_headers: bool,
        by_properties: bool = False,
        at_random: bool = False,
    ) -> None:
        self.by_key: bool = by_key
        self.by_headers: bool = by_headers
        self.by_properties: bool = by_properties
        self.at_random: bool = at_random
        self.left: i64 = ROUTE_STEPS_MAX

    @abstractmethod
    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there yet."""

    @abstractmethod
    def remove(self, binding: Binding) -> None:
        """Drop a binding that was added: the same object."""

    def select(
        self,
        routing_keys: list[str],
        headers: Table | None,
        properties: MessageProperties | None,
        found: list[Binding],
    ) -> None:
        """Append the bindings that a message passes; an index may give one twice.

        Args:
            routing_keys: The message's own, then those of CC and BCC; at least one.
            headers: The message's headers, None where it has none.
            properties: Only looked at where `by_properties`.
        """
        if not self.by_key:
            self.match("", headers, found)
        elif len(routing_keys) == 1:
            self.match(routing_keys[0], headers, found)
        else:
            for routing_key in dict.fromkeys(routing_keys):
                before: i64 = len(found)
                self.match(routing_key, headers, found)
                if before > 0:
                    # A binding may be found for each of them.
                    self.left -= len(found) - before
                if self.left < 0:
                    return

    def pay(self, steps: i64) -> None:
        """Count steps for which no message is given up, as they prepare the index for all."""
        self.left = max(0, self.left - steps)

    @abstractmethod
    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the bindings that a message with one routing key passes."""
