"""The keys of policies: which values they take, and what counts where several say something.

A key's value may come from the user policy of a queue, from its operator policy, and from an
argument that the queue was declared with. Each key says what becomes of two policies, and of that
and the argument. All keys of RabbitMQ are here; `queue_types` says which of them a type of queue
honours.

Source: B-06, ARG-05 to ARG-07, D-20; `rabbit_policies`, `rabbit_quorum_queue` and
`rabbit_queue_type_util` of RabbitMQ 4.3.
"""

from __future__ import annotations

import re
from typing import Any, Final, final

from warren.queue_types import (
    DELIVERY_LIMIT,
    DROP_HEAD,
    LAZY,
    QUEUE_LEADER_LOCATOR,
    QUEUE_MODE,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    TARGET_GROUP_SIZE,
    TARGET_SIZE,
)
from warren.routing.alternates import ALTERNATE_EXCHANGE

MIN: Final = "the smaller one"
MAX: Final = "the larger one"
STRICTER: Final = "the smaller one; of a negative one, which is no limit, and another, the other"
FIRST: Final = "the operator's, or the policy's"
SECOND: Final = "the argument's"
"""What counts of two values, the second of which is the operator's or the argument's."""

NUMBER_MAX: Final = 1 << 62
"""No number of a policy is beyond this, so that sums of them stay in 64 bits."""

SEGMENT_BYTES_MAX: Final = 3_000_000_000

AGE: Final = re.compile(r"[0-9]+[YMDhms]")
LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")
"""Other than in arguments, `min-masters` is none of them."""


@final
class PolicyKey:
    """One key.

    Attributes:
        name: As in policies.
        argument: The argument of queues that sets the same; empty where there is none.
        operator: Whether operator policies may set it.
        of_policies: Which of two counts: the user policy's and the operator policy's.
        with_argument: Which of two counts: what the policies say, and the argument.
    """

    def __init__(
        self,
        name: str,
        what: str,
        *,
        least: int | None = None,
        most: int = NUMBER_MAX,
        words: tuple[str, ...] = (),
        form: re.Pattern[str] | None = None,
        operator: bool = False,
        of_policies: str = FIRST,
        with_argument: str = SECOND,
        argument: str = "",
    ) -> None:
        """
        Args:
            what: What a wrong value is not valid as.
            least: The smallest number, for keys of numbers.
            words: The values there are, for keys that have few.
            form: What a text has to be like, for keys of texts.
        """
        self.name: str = name
        self.argument: str = argument or f"x-{name}"
        self.operator: bool = operator
        self.of_policies: str = of_policies
        self.with_argument: str = with_argument
        self._what: str = what
        self._least: int | None = least
        self._most: int = most
        self._words: tuple[str, ...] = words
        self._form: re.Pattern[str] | None = form

    def problem(self, value: Any) -> str:
        """What is wrong with a value, in RabbitMQ's words; empty if nothing is."""
        if self._least is not None:
            whole = isinstance(value, int) and not isinstance(value, bool)
            fine = whole and self._least <= value <= self._most
        elif self._words:
            fine = isinstance(value, str) and value in self._words
        else:
            fine = isinstance(value, str)
            if fine and self._form is not None:
                fine = self._form.fullmatch(value) is not None
        return "" if fine else f"{json_term(value)} is not a valid {self._what}"

    def merged(self, user: Any, operator: Any) -> Any:
        """What the policies of a queue say together; None stands for nothing."""
        return _chosen(self.of_policies, operator, user)

    def with_own(self, policies: Any, argument: Any) -> Any:
        """What counts for a queue: what its policies say, or its argument; None for nothing."""
        return _chosen(self.with_argument, policies, argument)


def _chosen(rule: str, first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if rule == FIRST:
        return first
    if rule == SECOND:
        return second
    if rule == MAX or (rule == STRICTER and min(first, second) < 0):
        return max(first, second)
    return min(first, second)


def json_term(value: Any) -> str:
    """A value of a JSON document as RabbitMQ's texts show it: as an Erlang term."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text_term(value)
    if isinstance(value, list):
        return "[" + ",".join([json_term(item) for item in value]) + "]"
    if isinstance(value, dict):
        entries = [f"{_text_term(name)} => {json_term(value[name])}" for name in sorted(value)]
        return "#{" + ",".join(entries) + "}"
    return repr(value)


def _text_term(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{escaped}"{"" if text.isascii() else "/utf8"}>>' if text else "<<>>"


KEYS: Final = (
    PolicyKey(ALTERNATE_EXCHANGE, "alternate exchange name", argument=ALTERNATE_EXCHANGE),
    PolicyKey(
        "consumer-disconnected-timeout",
        "consumer disconnected timeout",
        least=0,
        with_argument=MIN,
    ),
    PolicyKey("consumer-timeout", "consumer timeout", least=0, with_argument=MIN),
    PolicyKey("dead-letter-exchange", "dead letter exchange name"),
    PolicyKey("dead-letter-routing-key", "dead letter routing key"),
    PolicyKey(
        "dead-letter-strategy", "dead letter strategy", words=("at-most-once", "at-least-once")
    ),
    PolicyKey(
        "delayed-retry-max",
        "delayed retry maximum delay. Must be a positive integer",
        least=1,
        operator=True,
        of_policies=MIN,
        with_argument=MIN,
    ),
    PolicyKey(
        "delayed-retry-min",
        "delayed retry minimum delay. Must be a positive integer",
        least=1,
        operator=True,
        of_policies=MAX,
        with_argument=MIN,
    ),
    PolicyKey(
        "delayed-retry-type",
        "delayed retry type. Must be one of: all, failed, returned, disabled",
        words=("all", "failed", "returned", "disabled"),
        operator=True,
        with_argument=FIRST,
    ),
    PolicyKey(
        DELIVERY_LIMIT,
        "delivery limit",
        least=-NUMBER_MAX,
        operator=True,
        of_policies=STRICTER,
        with_argument=STRICTER,
    ),
    PolicyKey(
        "expires", "queue expiry", least=1, operator=True, of_policies=MIN, with_argument=MIN
    ),
    PolicyKey("initial-cluster-size", "cluster size", least=0),
    PolicyKey("max-age", "max age", form=AGE, with_argument=MIN),
    PolicyKey(
        "max-in-memory-bytes",
        "maximum memory in bytes",
        least=0,
        operator=True,
        of_policies=MIN,
        with_argument=MIN,
    ),
    PolicyKey(
        "max-in-memory-length",
        "maximum memory in bytes",
        least=0,
        operator=True,
        of_policies=MIN,
        with_argument=MIN,
    ),
    PolicyKey(
        "max-length", "maximum length", least=0, operator=True, of_policies=MIN, with_argument=MIN
    ),
    PolicyKey(
        "max-length-bytes",
        "maximum length in bytes",
        least=0,
        operator=True,
        of_policies=MIN,
        with_argument=MIN,
    ),
    PolicyKey(
        "member-placement-tag",
        "member-placement-tag value. Must be a non-empty string",
        form=re.compile(".+", re.DOTALL),
        operator=True,
    ),
    PolicyKey(
        "message-ttl", "message TTL", least=0, operator=True, of_policies=MIN, with_argument=MIN
    ),
    PolicyKey(
        "overflow",
        "overflow value",
        words=(DROP_HEAD, REJECT_PUBLISH, REJECT_PUBLISH_DLX),
        operator=True,
        with_argument=FIRST,
    ),
    PolicyKey(
        QUEUE_LEADER_LOCATOR, "queue leader locator value", words=LOCATORS, with_argument=FIRST
    ),
    PolicyKey(QUEUE_MODE, "queue-mode value", words=("default", LAZY)),
    PolicyKey("queue-version", "queue-version value", least=1, most=2, operator=True),
    PolicyKey("stream-filter-size-bytes", "filter size. Valid range is 16-255", least=16, most=255),
    PolicyKey("stream-max-segment-size-bytes", "segment size", least=0, most=SEGMENT_BYTES_MAX),
    PolicyKey(
        TARGET_GROUP_SIZE,
        "qq target count value",
        least=1,
        operator=True,
        of_policies=MAX,
        with_argument=MAX,
        argument=TARGET_SIZE,
    ),
)

BY_NAME: Final = {key.name: key for key in KEYS}
