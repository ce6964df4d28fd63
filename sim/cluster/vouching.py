"""What members vouch for: they keep it through every crash, and a majority has what is committed.

- Term, vote and entries that a member counts as durable are there when its node starts again,
  whatever the power did meanwhile.
- When an entry is seen to be committed, a majority of the voters has it on disk, by the
  configuration that was in force at its index, or by a later one: a leader goes by its newest.

Source: R-01, R-02, R-12 to R-14, R-20; G-09.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, final

from sim.model import Violation
from warren.raft.state import State

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from warren.raft.members import GroupConfig

Entry = tuple[int, int]
"""Index and term."""


@final
class Vouched:
    """What a member had on disk when its process ended."""

    def __init__(self, state: State, giving_up: bool) -> None:
        self.incarnation = int(state.incarnation)
        known = state.state_persisted >= state.state_sequence
        self.term = int(state.term) if known else 0
        self.vote = state.voted_for if known else ""
        index = int(state.persisted_index)
        self.last = (0, 0) if giving_up else (index, int(state.log.term_at(index)))


@final
class Vouching:
    """See the module's head."""

    def __init__(self) -> None:
        self._states: dict[int, dict[str, State]] = {}
        """The newest state of each copy, of those that are gone too, by group and node."""
        self._rotten: set[str] = set()
        self._replaced: dict[int, list[tuple[str, State]]] = {}
        """Copies on disks that were put back, and damaged ones that others took the place of."""
        self._vouched: dict[str, dict[int, Vouched]] = {}

    def ended(self, site: Site) -> None:
        """A process is about to be gone."""
        node = site.node
        assert node is not None
        if site.name not in self._vouched:
            # Otherwise it has not recovered yet since it vouched for something.
            self._vouched[site.name] = {
                int(group_id): Vouched(member.raft.state, bool(member.log.incomplete))
                for group_id, member in node.cluster.members.items()
            }

    def restored(self, site: Site) -> None:
        """What a disk had is gone with it, as if its machine were lost after it had vouched."""
        self._vouched.pop(site.name, None)
        for group_id, states in self._states.items():
            if site.name in states:
                known = self._replaced.setdefault(group_id, [])
                known.append((site.name, states.pop(site.name)))

    def begun_anew(self, site: Site, deleted: Collection[int] = ()) -> None:
        """A node whose disk was put back is up again; of some groups nobody is promised anything.

        Raises:
            Violation: It goes on with a copy that may lack what it had vouched for.
        """
        node = site.node
        assert node is not None
        for group_id, member in node.cluster.members.items():
            state = member.raft.state
            for name, before in (
                () if group_id in deleted else self._replaced.get(int(group_id), ())
            ):
                if name == site.name and before.incarnation == state.incarnation:
                    raise Violation(f"group {group_id}: {name} goes on with an older copy")

    def began(self, site: Site, deleted: set[int]) -> None:
        """A process has recovered; groups of deleted queues may be gone or begun anew.

        Raises:
            Violation: It lacks what its last life had vouched for.
        """
        node = site.node
        assert node is not None
        before = self._vouched.pop(site.name, {})
        for group_id, member in node.cluster.members.items():
            state = member.raft.state
            vouched = before.get(int(group_id))
            if vouched is None or group_id in deleted:
                continue
            if vouched.incarnation != state.incarnation or site.rotten:
                continue
            self._compare(f"group {group_id}: {site.name}", state, vouched)

    @staticmethod
    def _compare(who: str, state: State, vouched: Vouched) -> None:
        if state.term < vouched.term:
            raise Violation(f"{who} forgot term {vouched.term}, it is in {state.term} again")
        if state.term == vouched.term and vouched.vote not in ("", state.voted_for):
            raise Violation(f"{who} forgot its vote for {vouched.vote} in term {vouched.term}")
        index, term = vouched.last
        if not has(state, index, term):
            raise Violation(f"{who} lost entry {index} of term {term}, which it had on disk")

    def rots(self, site: Site) -> None:
        """The disk of a machine is damaged: a copy may go while its node lives."""
        self._rotten.add(site.name)

    def found(self, site: Site, group_id: int, state: State) -> None:
        """A node has a copy of a group, which it had not when it was looked at last."""
        states = self._states.setdefault(group_id, {})
        before = states.get(site.name)
        if site.rotten and before is not None and before.incarnation != state.incarnation:
            self._replaced.setdefault(group_id, []).append((site.name, before))
        states[site.name] = state

    def check_committed(self, group_id: int, index: int, term: int) -> None:
        """An entry is seen to be committed.

        Raises:
            Violation: No majority has it on disk.
        """
        states = self._states[group_id]
        having = {
            (name, int(state.incarnation))
            for name, state in [*states.items(), *self._replaced.get(group_id, ())]
            if name in self._rotten or (state.persisted_index >= index and has(state, index, term))
        }
        for state in states.values():
            if not has(state, index, term):
                # Its configurations may be those of another log, or too old.
                continue
            history = list(state.configs._history)
            while len(history) > 1 and history[1].index <= index:
                del history[0]
            if any(decides(config, having) for config in history):
                return
        names = ", ".join(sorted(name for name, _ in having)) or "nobody"
        raise Violation(
            f"group {group_id}: entry {index} of term {term} is applied while only {names} "
            "has it on disk"
        )


def has(state: State, index: int, term: int) -> bool:
    """Whether a log has an entry, or a snapshot that covers it."""
    return index <= state.log.snapshot_index or state.log.term_at(index) == term


def decides(config: GroupConfig, having: set[tuple[str, int]]) -> bool:
    """Whether those that have something are a majority of a configuration's voters."""
    voters = [(each.node, int(each.incarnation)) for each in config.members if each.voter]
    return len(having.intersection(voters)) > len(voters) // 2
