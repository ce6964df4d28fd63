"""What the log tells, and asks of, the node that owns it.

All calls come on the node's thread. None may raise.
"""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import mypyc_attr, trait

from warren.errors import CorruptRecord
from warren.log.batch import Batch
from warren.log.runlist import LiveRuns


@mypyc_attr(allow_interpreted_subclasses=True)
class LogListener:
    """The owner of a log: one per node."""

    @abstractmethod
    def persisted(self, batches: list[Batch]) -> None:
        """These batches, in the order of `append`, survive a crash of the machine from now on.

        What was truncated before it was durable is not among them.
        """

    @abstractmethod
    def snapshot_wanted(self, group_id: int) -> None:
        """Please call this group's `snapshot` soon, so that old files can go.

        May be called again for a group that has not answered yet.
        """

    @abstractmethod
    def live_runs(self, group_id: int) -> LiveRuns:
        """Messages still needed as of now, which is found out in parts.

        A message may be left out once the entry that settled it is persisted, and committed where
        a group has several members. What entries after
        the newest durable snapshot brought is kept in any case.
        """

    @abstractmethod
    def disk_full(self, full: bool) -> None:
        """Space has run out, or is there again; called at each change only."""

    @abstractmethod
    def damaged(self, error: CorruptRecord) -> None:
        """A closed file has a damaged batch. It is kept as it is; the log goes on.

        `error.group_id` is the group for which something could not be copied. `error.lost` is
        where its messages were looked for; if that is empty, its snapshot or state is damaged.
        """

    @abstractmethod
    def failed(self, error: BaseException) -> None:
        """Fatal: nothing appended and not yet persisted will ever be. Stop the node."""


@trait
class GroupOwner:
    """The node's own object for a group, which appends to it."""

    @abstractmethod
    def persisted(self, batch: Batch) -> None:
        """A batch of the group survives a crash of the machine from now on."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BatchReader:
    """Who waits for batches read from disk."""

    @abstractmethod
    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """What `GroupLog.read` found, in order; empty if nothing of the range is left.

        Args:
            batches: Whole batches; the first and the last may hold messages outside the range.
            error: Why there are none, or not all of them: an `OSError`, or `CorruptRecord`, whose
                `lost` says which messages cannot be had up to where was looked.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class RawReader:
    """Who waits for the bytes of batches."""

    @abstractmethod
    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        """What `GroupLog.read_raw` found.

        Args:
            data: Whole message batches back to back, as `batch.py` draws them.
            next_message: The number to ask for next; past the range's end when all is read.
            error: Why there is nothing, or a hole in it, as for `batches_read`.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class Replayer:
    """Who rebuilds the machines at start-up.

    Groups come interleaved. For each, `state` (if it has one) comes first, then `snapshot` (if it
    has one), then `entry` in the order of their index, without a hole unless `lost` says so. Groups
    that were dropped do not come at all; of one that is incomplete only the state does.
    """

    def state(self, group_id: int, payload: bytes) -> int:
        """The group's newest durable state, as `GroupLog.save_state` was given it.

        Returns:
            The index up to which entries are to be replayed; -1 for all. Those above stay in the
            log, for `GroupLog.read_entries`. Messages that some of them settle may be gone.
        """
        return -1

    @abstractmethod
    def snapshot(self, group_id: int, index: int, state: bytes) -> None:
        """Take over the state of a group's newest durable snapshot, before its entries."""

    def doubtful(self, error: CorruptRecord) -> None:
        """Damage was found, and nothing on disk says what was there; what is whole follows.

        Any group may lack entries, and what made earlier ones void. It comes before all else.

        Raises:
            CorruptRecord: The start is given up, and nothing on disk is changed.
        """
        raise error

    def unfit(self, group_id: int, error: CorruptRecord) -> None:
        """The group cannot be replayed, because of damage; nothing more of it comes.

        Its log is kept as it is: it takes `GroupLog.reset_for_install`, or `Log.drop`, to go on.

        Raises:
            CorruptRecord: The start is given up, and nothing on disk is changed.
        """
        raise error

    def alone(self, group_id: int) -> bool:
        """Whether a group with a state is its own majority: then it may lack entries, too."""
        return False

    def lost(self, group_id: int, first: int, last: int, error: CorruptRecord) -> None:
        """Entries of a group without a state, or one that is alone, are lost; later ones follow.

        The messages `first` to `last`, both included, came with them; none did if `last` is lower.

        Raises:
            CorruptRecord: The start is given up, and nothing on disk is changed.
        """
        raise error

    def complete(self) -> None:
        """Take note that nothing more is replayed.

        Raises:
            StorageError: The start is given up, and nothing on disk is changed.
        """

    @abstractmethod
    def entry(self, batch: Batch) -> None:
        """Apply an entry after the snapshot; `batch.group` says of which group.

        Message batches come with `first`, `count`, lengths and `payload_size`, without payload.
        Batches of kind TRANSIENT come too, so that numbers have no hole; their messages are the
        ones that do not survive a restart.
        """
