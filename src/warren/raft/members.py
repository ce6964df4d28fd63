"""Who belongs to a group: members, configurations, and the history a truncation goes back in.

A member is a node together with its *incarnation*, a number drawn when the node's copy of the
group was created. A node that lost its disk comes back as another incarnation and has to be added
anew: it must not speak for what its predecessor acknowledged (R-15).
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Replica:
    """One copy of the group.

    Attributes:
        node: Name of the node that holds it; a group has at most one member on a node.
        incarnation: Which copy on that node, a positive number that is never used twice there.
        voter: Whether it counts. A member that does not is a learner: it is sent everything, and
            never campaigns nor counts (R-14).
    """

    def __init__(self, node: str, incarnation: i64, voter: bool) -> None:
        self.node = node
        self.incarnation: i64 = incarnation
        self.voter = voter

    def is_copy(self, node: str, incarnation: i64) -> bool:
        """Whether this is that incarnation on that node, voter or not."""
        return self.incarnation == incarnation and self.node == node


@final
class GroupConfig:
    """A configuration and the index of the entry that brought it.

    Attributes:
        index: Log index of the entry; for the oldest one known, that of the snapshot or 0.
        members: In the order in which the proposer listed them, which every member shares.
    """

    def __init__(self, index: i64, members: list[Replica]) -> None:
        self.index: i64 = index
        self.members = members

    def find(self, node: str) -> Replica | None:
        """The member on a node, of whatever incarnation."""
        for member in self.members:
            if member.node == node:
                return member
        return None

    def has(self, node: str, incarnation: i64) -> bool:
        """Whether this very copy is a member."""
        member = self.find(node)
        return member is not None and member.incarnation == incarnation

    def has_voter(self, node: str, incarnation: i64) -> bool:
        """Whether this very copy is a voter."""
        member = self.find(node)
        return member is not None and member.voter and member.incarnation == incarnation

    def voters(self) -> i64:
        """How many members vote."""
        count: i64 = 0
        for member in self.members:
            if member.voter:
                count += 1
        return count

    def majority(self) -> i64:
        """How many voters are a majority."""
        return self.voters() // 2 + 1


@final
class Configs:
    """Every configuration from the snapshot to the end of the log; the newest one is in force.

    A configuration takes effect when its entry is appended, not when it is committed, and goes out
    of effect when that entry is truncated (R-13).
    """

    def __init__(self, base: GroupConfig) -> None:
        self._history: list[GroupConfig] = [base]

    def latest(self) -> GroupConfig:
        """The configuration in force: the newest that was appended."""
        return self._history[-1]

    def before_latest(self) -> GroupConfig:
        """The one before that; the same if it is the only one known."""
        return self._history[-1] if len(self._history) < 2 else self._history[-2]

    def at(self, index: i64) -> GroupConfig:
        """The one that was in force once the entry at `index` was appended.

        Raises:
            AssertionError: `index` is below the snapshot.
        """
        position = len(self._history) - 1
        while position > 0 and self._history[position].index > index:
            position -= 1
        found = self._history[position]
        assert found.index <= index, "the configuration of that time is forgotten"
        return found

    def append(self, index: i64, members: list[Replica]) -> None:
        """An entry with a configuration was appended."""
        assert index > self.latest().index, "configurations come in log order"
        self._history.append(GroupConfig(index, members))

    def truncate(self, from_index: i64) -> bool:
        """The log lost its entries from `from_index` on; whether another one is in force now."""
        changed = False
        while len(self._history) > 1 and self._history[-1].index >= from_index:
            self._history.pop()
            changed = True
        return changed

    def compact(self, index: i64) -> None:
        """Forget what was in force before the entry at `index`."""
        while len(self._history) > 1 and self._history[1].index <= index:
            self._history.pop(0)

    def reset(self, index: i64, members: list[Replica]) -> None:
        """Forget all configurations but that of a snapshot which replaced the log."""
        self._history = [GroupConfig(index, members)]

    def between(self, first_index: i64, last_index: i64) -> list[GroupConfig]:
        """Those brought by the entries `first_index` to `last_index`, both included."""
        if self._history[-1].index < first_index:
            return []
        return [config for config in self._history if first_index <= config.index <= last_index]


def refuse_change(old: list[Replica], new: list[Replica]) -> str:
    """Why `new` may not follow `old`; empty if it may.

    One member may be added, removed, promoted or demoted at a time: only then do any majority of
    the old and any majority of the new configuration share a voter (R-12).
    """
    voters = 0
    for position, member in enumerate(new):
        if member.node == "" or member.incarnation <= 0:
            return "a member needs a node and an incarnation"
        for other in new[:position]:
            if other.node == member.node:
                return "a node may hold one member only"
        if member.voter:
            voters += 1
    if voters == 0:
        return "no voter would remain"
    changes = 0
    for member in new:
        before = _copy_of(old, member)
        if before is None or before.voter != member.voter:
            changes += 1
    for member in old:
        if _copy_of(new, member) is None:
            changes += 1
    if changes == 0:
        return "nothing changes"
    return "" if changes == 1 else "more than one member changes"


def _copy_of(members: list[Replica], wanted: Replica) -> Replica | None:
    for member in members:
        if member.is_copy(wanted.node, wanted.incarnation):
            return member
    return None
