"""What a history says of the broker.

lost       confirmed and never delivered, and not gone for a reason that is allowed
invented   delivered, and published by nobody
doubled    delivered twice to a queue's consumers without being marked as redelivered, although
           it was published once; or delivered after its acknowledgement was there for good
late       a message delivered to a consumer for the first time behind a later one of the same
           publisher and queue
vacuous    what is missing for the run to prove anything

Source: V-01 to V-04 and V-07.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

EXAMPLES = 5

Message = tuple[str, str, int]
"""A message: its queue, publisher and sequence."""


@dataclass
class Verdict:
    """What was found; the lists hold all of it, in words and in order."""

    confirmed: int = 0
    published: int = 0
    delivered: int = 0
    redelivered: int = 0
    unknown: int = 0
    refused: int = 0
    faults: int = 0
    leader_changes: int = 0
    gap_s: float = 0.0
    lost: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    vacuous: list[str] = field(default_factory=list)
    surprises: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.invented or self.doubled or self.late or self.vacuous)

    def find_vacuous(self) -> None:
        """Note what is missing, by the figures."""
        for count, what in (
            (self.confirmed, "nothing was confirmed"),
            (self.faults, "there was no fault"),
            (self.leader_changes, "the leader never changed"),
            (self.redelivered, "nothing was redelivered"),
        ):
            if not count:
                self.vacuous.append(what)

    def text(self) -> str:
        """The figures in a line, and what is wrong, with examples."""
        lines = [
            f"{self.faults} faults, {self.confirmed:,} confirmed of {self.published:,} published "
            f"({self.unknown:,} unknown, {self.refused:,} refused), {self.delivered:,} deliveries, "
            f"{self.redelivered:,} of them again; {len(self.lost)} lost, {len(self.invented)} "
            f"invented, {len(self.doubled)} doubled, {len(self.late)} late; "
            f"{self.leader_changes} changes of leader, longest time without a confirm "
            f"{self.gap_s:.1f} s"
        ]
        for name in ("lost", "invented", "doubled", "late", "vacuous"):
            found = getattr(self, name)
            if found:
                lines.append(f"{name}: {'; '.join(found[:EXAMPLES])}")
        for what, count in sorted(self.surprises.items()):
            lines.append(f"closed {count} times: {what}")
        return "\n".join(lines)


def names(messages: Iterable[Message]) -> list[str]:
    """Messages in words, in the order of their publishers, sequences and queues."""
    return [
        f"{publisher}:{sequence}"
        for publisher, sequence, _ in sorted((p, s, queue) for queue, p, s in messages)
    ]


def behind(pairs: Iterable[tuple[str, int, int]]) -> list[str]:
    """Late messages in words: of a publisher, which came behind which."""
    return [f"{who}:{late} behind {who}:{before}" for who, late, before in sorted(pairs)]


def leader_changes(leaders: Iterable[tuple[int, str, str]]) -> int:
    """How often a queue was seen with another leader than before.

    Args:
        leaders: When, in nanoseconds, which queue was led by which node.
    """
    led: dict[str, str] = {}
    changes = 0
    for _, queue, node in sorted(leaders):
        changes += led.get(queue, node) != node
        led[queue] = node
    return changes
