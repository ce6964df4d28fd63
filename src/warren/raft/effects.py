"""What a Raft group asks of the node that hosts it.

Effects are plain data, in the order in which they have to be begun. Nothing here waits: what must
be durable before it is said is held back inside the group, and comes out as a `Send` later.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.raft.members import Replica
from warren.raft.messages import Append, Message, SnapshotOffer


class Effect:
    """Something that Raft has its node do; each kind is a class below."""


@final
class Send(Effect):
    """Send a message to `message.target`. It may get lost."""

    def __init__(self, message: Message) -> None:
        self.message = message


@final
class Replicate(Effect):
    """There is something for a peer: call `Raft.next_append` until it answers None."""

    def __init__(self, node: str) -> None:
        self.node = node


@final
class PersistState(Effect):
    """Make term and vote durable, then call `Raft.state_persisted(sequence)` (R-01).

    Attributes:
        term: The member's term.
        voted_for, voted_incarnation: The member that it voted for in that term; "" and 0 for none.
        sequence: Rises by one each time; the newest one stands for all before it.
    """

    def __init__(self, term: i64, voted_for: str, voted_incarnation: i64, sequence: i64) -> None:
        self.term: i64 = term
        self.voted_for = voted_for
        self.voted_incarnation: i64 = voted_incarnation
        self.sequence: i64 = sequence


@final
class StoreEntries(Effect):
    """Append to the log the entries `first_index` to `message.last_index` that came along.

    Report them with `Raft.persisted` once they are durable.
    """

    def __init__(self, message: Append, first_index: i64) -> None:
        self.message = message
        self.first_index: i64 = first_index


@final
class Truncate(Effect):
    """Drop the log's entries from `from_index` on, and never report them as persisted (R-05).

    Writes that come later must replace them on disk as well. A completion of the old entries must
    not be reported even if an entry with the same index and term is appended again.
    """

    def __init__(self, from_index: i64) -> None:
        self.from_index: i64 = from_index


@final
class Committed(Effect):
    """Apply entries up to `index`; all of them are durable here (R-23). Only ever rises."""

    def __init__(self, index: i64) -> None:
        self.index: i64 = index


@final
class AppendNoop(Effect):
    """Append an empty entry of `term` now, and call `Raft.appended` with its index (R-03)."""

    def __init__(self, term: i64) -> None:
        self.term: i64 = term


@final
class AppendConfig(Effect):
    """Append an entry of `term` with these members now, and call `Raft.config_appended`."""

    def __init__(self, term: i64, members: list[Replica]) -> None:
        self.term: i64 = term
        self.members = members


@final
class ConfigChanged(Effect):
    """Another configuration is in force, by an entry appended, truncated, or in a snapshot."""

    def __init__(self, index: i64, members: list[Replica]) -> None:
        self.index: i64 = index
        self.members = members


@final
class BecameLeader(Effect):
    """This member leads. Commands of its term follow its no-op."""

    def __init__(self, term: i64) -> None:
        self.term: i64 = term


@final
class BecameFollower(Effect):
    """This member does not lead; `leader` is "" while it knows none."""

    def __init__(self, term: i64, leader: str, leader_incarnation: i64) -> None:
        self.term: i64 = term
        self.leader = leader
        self.leader_incarnation: i64 = leader_incarnation


@final
class SendSnapshot(Effect):
    """Send the offer and the snapshot; then, or on failure, call `Raft.snapshot_sent`."""

    def __init__(self, offer: SnapshotOffer) -> None:
        self.offer = offer


@final
class AcceptSnapshot(Effect):
    """Take the snapshot that follows an offer; once durable, call `Raft.snapshot_installed`."""

    def __init__(self, offer: SnapshotOffer) -> None:
        self.offer = offer


@final
class ReadReady(Effect):
    """A read may be answered once `index` is applied: its answer will not be stale (R-10)."""

    def __init__(self, context: i64, index: i64) -> None:
        self.context: i64 = context
        self.index: i64 = index


@final
class ReadRefused(Effect):
    """A read cannot be answered here; ask the leader."""

    def __init__(self, context: i64) -> None:
        self.context: i64 = context


@final
class TransferDone(Effect):
    """The member that leadership was handed to leads."""

    def __init__(self, node: str) -> None:
        self.node = node


@final
class TransferFailed(Effect):
    """Leadership did not pass to this member in time; if still leader, proposals resume."""

    def __init__(self, node: str) -> None:
        self.node = node


@final
class Removed(Effect):
    """A peer says that this copy has no vote any more, so it is quiet until a leader calls.

    A hint that it may have been removed from the group: ask the cluster's tables.
    """
