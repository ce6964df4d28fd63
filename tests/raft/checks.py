"""What must hold in every run, looked at after every single effect."""

from __future__ import annotations

from typing import Any

from tests.raft.host import Host
from warren.raft import effects as fx
from warren.raft.messages import AppendReply, Vote, VoteReply


class Violation(AssertionError):
    """A promise of Raft was broken."""


def demand(condition: bool, text: str) -> None:
    """Complain unless the condition holds."""
    if not condition:
        raise Violation(text)


def _votes(members: list[Any], me: tuple[str, int]) -> bool:
    return any(member.voter and (member.node, member.incarnation) == me for member in members)


class Checks:
    """Watches one group in a world.

    Attributes:
        leaders: The one leader of each term.
        seen: (index, term) -> payload and the term before it: log matching, by induction.
        committed: What was committed at each index, as (term, payload).
        commit_terms: The term of whoever announced that first: at least that of the commit.
        top: The highest index that any member announced as committed.
    """

    def __init__(self, world: Any) -> None:
        self.world = world
        self.leaders: dict[int, tuple[str, int]] = {}
        self.seen: dict[tuple[int, int], tuple[int, int]] = {}
        self.committed: dict[int, tuple[int, int]] = {}
        self.commit_terms: dict[int, int] = {}
        self.alone: set[str] = set()
        """Nodes whose copies were told to go on alone."""
        self.digests: dict[int, int] = {}
        self.top = 0
        self.reads: dict[int, int] = {}

    def appended(self, host: Host, index: int, term: int, payload: int) -> None:
        """Log matching: same index and term, same entry, and the same one before it."""
        before = host.entry(index - 1).term if index - 1 > host.base else None
        if before is None:
            if (index, term) in self.seen:
                demand(self.seen[index, term][0] == payload, f"two entries at {index}, {term}")
            return
        known = self.seen.setdefault((index, term), (payload, before))
        demand(known == (payload, before), f"logs differ at or before {index}, term {term}")

    def applied(self, host: Host, index: int, term: int, payload: int) -> None:
        """State machine safety: one entry per index, everywhere and for ever; R-23."""
        known = self.committed.setdefault(index, (term, payload))
        self.commit_terms.setdefault(index, host.raft.term)
        demand(known == (term, payload), f"{host.node} applies another entry at {index}: lost")
        digest = self.digests.setdefault(index, host.digest)
        demand(digest == host.digest, f"{host.node}'s machine differs at {index}")
        self.top = max(self.top, index)
        # The other shells truncate at Truncate, so the durable log may be behind memory, not here.
        demand(host.disk.holds(index, term), f"{host.node} applies {index}, which is not durable")

    def effect(self, host: Host, effect: fx.Effect) -> None:
        """An effect is about to be carried out."""
        raft = host.raft
        if isinstance(effect, fx.Send):
            self._sent(host, effect.message)
        elif isinstance(effect, fx.Committed):
            demand(effect.index <= raft.commit_index, "announced more than is committed")
            demand(effect.index <= raft.last_index, "committed beyond the log")
        elif isinstance(effect, fx.BecameLeader):
            me = (host.node, host.incarnation)
            demand(host.disk.state == (effect.term, *me), "a leader's own vote is not durable")
            first = self.leaders.setdefault(effect.term, me)
            demand(first == me, f"two leaders in term {effect.term}: {first} and {me}")
            self._complete(host)
            configs = raft.state.configs._history[-2:]
            demand(
                any(_votes(config.members, me) for config in configs),
                f"{host.node} leads and is no voter",
            )
        elif isinstance(effect, fx.AppendConfig) and host.node in self.alone:
            voters = [member.node for member in effect.members if member.voter]
            demand(voters == [host.node], "others vote in what a copy goes on with alone")
        elif isinstance(effect, fx.AppendConfig):
            base = raft.state.log.term_at(raft.commit_index)
            demand(base == effect.term, "a change of members before an own entry is committed")
            latest = raft.state.config().index
            demand(latest <= raft.commit_index, "two changes of members at a time")
        elif isinstance(effect, fx.ReadReady):
            at_least = self.reads.pop(effect.context)
            demand(effect.index >= at_least, f"a stale read at {host.node}")
        elif isinstance(effect, fx.Truncate):
            demand(effect.from_index > host.applied, f"{host.node} truncates what it applied")

    def _sent(self, host: Host, message: Any) -> None:
        """R-01: what is said rests on what is durable."""
        disk = host.disk
        if isinstance(message, VoteReply) and message.granted:
            demand(
                disk.state == (message.term, message.target, message.target_incarnation),
                f"{host.node} votes before its vote is durable",
            )
        elif isinstance(message, Vote):
            demand(
                disk.state == (message.term, host.node, host.incarnation),
                f"{host.node} campaigns before its own vote is durable",
            )
        elif isinstance(message, AppendReply) and message.accepted:
            demand(disk.state[0] >= message.term, "an acknowledgement before its term is durable")
            index = message.match_index
            if index > host.base:
                term = host.entry(index).term
                demand(disk.term_at(index) == term, f"{host.node} acknowledges {index} too early")

    def _majority(self, host: Host, index: int) -> None:
        """R-02: what a leader commits is durable on a majority of its voters.

        The configuration may have changed in the turn that is looked at, after the commit.
        """
        if index <= host.base:
            return
        term = host.entry(index).term
        demand(term == host.raft.term, f"{host.node} commits an old entry by counting")
        configs = host.raft.state.configs
        for config in (configs.latest(), configs.before_latest()):
            safe = 0
            for member in config.members:
                copy = self.world.disks.get((member.node, member.incarnation))
                if member.voter and copy is not None and copy.holds(index, term):
                    safe += 1
            if safe > sum(member.voter for member in config.members) // 2:
                return
        raise Violation(f"{host.node} commits {index} without a durable majority")

    def _complete(self, host: Host) -> None:
        """Leader completeness: a leader has all that was committed in terms before its own."""
        for index, (term, payload) in self.committed.items():
            if index <= host.base or self.commit_terms[index] >= host.raft.term:
                continue
            demand(index <= host.last, f"leader {host.node} lacks committed {index}")
            entry = host.entry(index)
            demand(
                (entry.term, entry.payload) == (term, payload),
                f"leader {host.node} has another entry at {index}",
            )

    def around_step(self, host: Host) -> tuple[int, str, int, int]:
        """What asking before an election must leave alone."""
        state = host.raft.state
        return (state.term, state.voted_for, state.voted_incarnation, state.state_sequence)

    def invariants(self, host: Host) -> None:
        """What must hold between any two events at one member."""
        state = host.raft.state
        if state.commit_index > host.checked_commit:
            host.checked_commit = state.commit_index
            if host.raft.is_leader:
                self._majority(host, state.commit_index)
        demand(state.log.last_index == host.last, "core and shell disagree about the log")
        demand(state.persisted_index <= state.log.last_index, "more is durable than there is")
        demand(state.commit_index <= state.log.last_index, "more is committed than there is")
        if state.persisted_index > host.base:
            term = host.entry(state.persisted_index).term
            demand(
                host.disk.term_at(state.persisted_index) == term,
                f"{host.node} counts {state.persisted_index} as durable, which is not",
            )
        latest = state.configs.latest()
        newest = host.config_indexes[-1] if host.config_indexes else 0
        demand(
            latest.index == newest or newest == 0 and latest.index <= host.base,
            f"{host.node} goes by configuration {latest.index}, its log by {newest}",
        )
