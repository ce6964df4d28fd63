"""What a machine is given: an entry's facts, and what the entry wants.

A machine reads no clock and opens no record. What it may know of an entry is here, written down by
whoever made the entry, and so the same for all that apply it.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.log.facts import (
    FAILURES,
    PRIORITIES,
    SIZES,
    facts_in,
    failures_at,
    priority_at,
    size_at,
)


@final
@mypyc_attr(free_list_len=1)
class Meta:
    """What is known of an entry beside what it wants.

    Attributes:
        stamp_ms: When it was made, in the log's time; it never goes back in a replicated log.
        session: Which life of which node submitted it; 0 if that counts for nothing.
    """

    def __init__(self, stamp_ms: i64, session: i64 = 0) -> None:
        self.stamp_ms: i64 = stamp_ms
        self.session: i64 = session


class LoggedCommand:
    """What an entry wants: `Enqueue` or `Encoded`."""


@final
@mypyc_attr(free_list_len=1)
class Enqueue(LoggedCommand):
    """Messages arrive that are alike, but for their bytes.

    All of it comes from the header of their record batch, or where they differ, in their sizes or
    their priorities, from its facts of each of them. What else a machine has to know of messages
    has its place there.

    Attributes:
        first: The number of the first; they ascend.
        count: How many, at least 1.
        bytes: What their records take together.
        life_ms: After what time they expire, from `Meta.stamp_ms` on; negative for never.
        facts: What is known of each of them (`warren.log.facts`); empty if nothing is.
    """

    def __init__(
        self, first: i64, count: i64, size_bytes: i64, life_ms: i64 = -1, facts: bytes = b""
    ) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.bytes: i64 = size_bytes
        self.life_ms: i64 = life_ms
        self.facts: bytes = facts
        self._which: i64 = facts_in(facts)

    def size(self, position: i64) -> i64:
        """What a message counts for: as the facts say, or its share of all."""
        if self._which & SIZES:
            return size_at(self.facts, position)
        share = self.bytes // self.count
        return share + 1 if position < self.bytes - share * self.count else share

    def priority(self, position: i64) -> i64:
        """The priority of a message; -1 if the facts do not say that."""
        if self._which & PRIORITIES:
            return priority_at(self.facts, self.count, position)
        return -1

    def failures(self, position: i64) -> i64:
        """How often deliveries of a message failed before it came here."""
        return failures_at(self.facts, position) if self._which & FAILURES else 0


@final
@mypyc_attr(free_list_len=1)
class Encoded(LoggedCommand):
    """Encoded commands (`commands`), one after the other.

    Attributes:
        payload: They lie in this, from `at` to `end`.
    """

    def __init__(self, payload: bytes, at: i64, end: i64) -> None:
        self.payload: bytes = payload
        self.at: i64 = at
        self.end: i64 = end


NO_META: Final = Meta(0)
"""For a queue of one node, which has no log's time and no sessions."""
