"""What members of a group say to each other.

Every message names the copy (node and incarnation) that sent it and the copy it is meant for. A
receiver drops what is meant for another incarnation of itself (R-15). The group is named by the
frame a message travels in; `wire.py` has the bytes.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.raft.members import GroupConfig, Replica


class Message:
    """A message between two members; what all kinds of them have.

    Attributes:
        sender, sender_incarnation: The member that sends it.
        target, target_incarnation: The member that it is for.
        term: The sender's term.
    """

    def __init__(
        self,
        sender: str,
        sender_incarnation: i64,
        target: str,
        target_incarnation: i64,
        term: i64,
    ) -> None:
        self.sender = sender
        self.sender_incarnation: i64 = sender_incarnation
        self.target = target
        self.target_incarnation: i64 = target_incarnation
        self.term: i64 = term


@final
class PreVote(Message):
    """Would you vote for me in the term after `term`? Changes nothing at the receiver (R-08).

    Attributes:
        last_index, last_term: The end of the sender's log.
        config_index: Index of the configuration it goes by.
    """

    last_index: i64 = 0
    last_term: i64 = 0
    config_index: i64 = 0


@final
class PreVoteReply(Message):
    """The answer.

    Attributes:
        granted: Yes.
        leader, leader_incarnation: Of a refusal, the live leader the sender knows; "" for none.
        removed: Of a refusal, whether the asker is no voter by a committed configuration as new
            as its own: it cannot win, so it need not ask again.
    """

    granted: bool = False
    leader: str = ""
    leader_incarnation: i64 = 0
    removed: bool = False


@final
class Vote(Message):
    """Vote for me in `term`. Sent once the sender's own vote is durable (R-01).

    Attributes:
        last_index, last_term: The end of the sender's log.
    """

    last_index: i64 = 0
    last_term: i64 = 0


@final
class VoteReply(Message):
    """The answer, durable at the sender before it left (R-01).

    Attributes:
        granted: Yes.
    """

    granted: bool = False


@final
class Append(Message):
    """The leader's entries after `prev_index`, perhaps none.

    The raw batches `prev_index + 1` to `last_index` follow in the same frame.

    Attributes:
        prev_index, prev_term: The entry before the first; the receiver must have it.
        last_index: Index of the last entry; `prev_index` if there is none.
        commit_index: The leader's commit index.
        firsts, terms: The entries' terms as runs, `firsts[0]` being `prev_index + 1`.
        configs: Configurations among the entries, by index.
        quiet: It brings nothing but a commit index, and needs no answer if it is accepted.
    """

    def __init__(
        self,
        sender: str,
        sender_incarnation: i64,
        target: str,
        target_incarnation: i64,
        term: i64,
        prev_index: i64,
        prev_term: i64,
        last_index: i64,
        commit_index: i64,
    ) -> None:
        super().__init__(sender, sender_incarnation, target, target_incarnation, term)
        self.prev_index: i64 = prev_index
        self.prev_term: i64 = prev_term
        self.last_index: i64 = last_index
        self.commit_index: i64 = commit_index
        self.firsts: list[int] = []
        self.terms: list[int] = []
        self.configs: list[GroupConfig] = []
        self.quiet = False

    def term_of(self, index: i64) -> i64:
        """The term of one of the entries."""
        run = len(self.firsts) - 1
        while i64(self.firsts[run]) > index:
            run -= 1
        return self.terms[run]

    def cut(self, last_index: i64) -> None:
        """Leave out the entries after `last_index`. For `Raft.shorten`."""
        assert self.prev_index <= last_index <= self.last_index
        while len(self.firsts) > 0 and i64(self.firsts[-1]) > last_index:
            self.firsts.pop()
            self.terms.pop()
        while len(self.configs) > 0 and self.configs[-1].index > last_index:
            self.configs.pop()
        self.last_index = last_index


@final
class AppendReply(Message):
    """What the sender makes of the entries it was sent.

    Attributes:
        accepted: Whether it had the entry at `prev_index`.
        prev_index: That of the append answered; 0 when the answer comes from the disk.
        match_index: Its log is the leader's, and durable, up to here (R-01 and R-02).
        received_index: Its log is the leader's, durable or not, up to here.
        commit_index: Its own commit index.
        hint_index, hint_term: Of a rejection, the last entry that may be common, and its term.
    """

    accepted: bool = False
    prev_index: i64 = 0
    match_index: i64 = 0
    received_index: i64 = 0
    commit_index: i64 = 0
    hint_index: i64 = 0
    hint_term: i64 = 0


@final
class SnapshotOffer(Message):
    """The receiver needs entries that the leader has in its snapshot only, which follows.

    Attributes:
        index, snapshot_term: The last entry the snapshot covers.
        members: The configuration at that entry.
    """

    def __init__(
        self,
        sender: str,
        sender_incarnation: i64,
        target: str,
        target_incarnation: i64,
        term: i64,
        index: i64,
        snapshot_term: i64,
        members: list[Replica],
    ) -> None:
        super().__init__(sender, sender_incarnation, target, target_incarnation, term)
        self.index: i64 = index
        self.snapshot_term: i64 = snapshot_term
        self.members = members


@final
class TimeoutNow(Message):
    """Campaign at once and without asking first: the leader hands its office over."""


@final
class ReadProbe(Message):
    """Do you still take me for the leader of `term`?

    Attributes:
        round: Number of the leader's round of reads, fresh each time (R-10).
    """

    round: i64 = 0


@final
class ReadAck(Message):
    """Yes.

    Attributes:
        round: The round asked about.
    """

    round: i64 = 0
