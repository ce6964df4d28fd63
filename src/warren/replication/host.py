"""What a group's member asks of the node around it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from warren.limits import FEED_READS_MAX
from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.replication.proposals import Load
from warren.replication.throttle import Throttle

if TYPE_CHECKING:
    from warren.replication.member import Member
    from warren.replication.observing import Feeds


@mypyc_attr(allow_interpreted_subclasses=True)
class MemberHost:
    """The node around its members.

    Attributes:
        name: The node's name.
        disk_behind: Whether nothing more is to be taken for this node's disk.
        recent_bytes: Entries that a group with several members keeps in memory, for those that are
            a little behind.
        feed_reads_max: So much is read from disk for an observer that is behind, in reads; then it
            gets the state.
    """

    name: str
    recent_bytes: int
    feed_reads_max: int = FEED_READS_MAX
    disk_behind: bool = False

    @abstractmethod
    def load(self) -> Load:
        """What all groups keep until it is applied."""
        # No attribute: the collector would count one that a compiled subclass fills twice, and
        # never find a circle that it is in.

    @abstractmethod
    def wall_ms(self) -> int:
        """Wall time for the log."""

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Monotonic time for Raft."""

    @abstractmethod
    def appended(self, urgent: bool) -> None:
        """Something was appended to the log."""

    @abstractmethod
    def send(self, node: str, message: list[bytes]) -> bool:
        """Send to another node; False if there is no link."""

    @abstractmethod
    def backlog_bytes(self, node: str) -> int:
        """What was sent to another node and has not left this one."""

    @abstractmethod
    def go_on_later(self, member: Member) -> None:
        """Call `go_on` in a moment: more is queued for a node than should be."""

    @abstractmethod
    def acquaint(self, member: Member) -> None:
        """Tell a Raft that is about to start which nodes are down, and whose disks are behind."""

    @abstractmethod
    def member_dirty(self, member: Member) -> None:
        """Call `work` before the turn ends."""

    @abstractmethod
    def apply_later(self, member: Member) -> None:
        """Call `apply_more` in the next turn: its machine was given enough for this one."""

    @abstractmethod
    def session_over(self, session: i64) -> bool:
        """Whether the node that a session belongs to is gone, or lives another life."""

    @abstractmethod
    def session_lost(self, session: i64) -> bool:
        """Whether a session that is over is so because its node is not heard any more, if all
        nodes of the cluster can be told so.
        """

    @abstractmethod
    def session_past(self, session: i64) -> bool:
        """Whether no node will ever use a session again: it is of a life that is known to be over.

        A node that is only not heard lives on.
        """

    @abstractmethod
    def session_of_another(self, session: i64, node: str) -> bool:
        """Whether a session is known to be one of some other node than this."""

    @abstractmethod
    def session_closed(self, member: Member) -> i64:
        """This node's session in a group was closed; what the tables gave it last, for another."""

    @abstractmethod
    def leadership(self, member: Member) -> None:
        """A member leads now, or does no more, or knows another leader."""

    @abstractmethod
    def members_changed(self, member: Member) -> None:
        """Another configuration of a group is in force."""

    @abstractmethod
    def send_snapshot(self, member: Member, effect: SendSnapshot) -> None:
        """A peer needs the newest snapshot."""

    @abstractmethod
    def accept_snapshot(self, member: Member, effect: AcceptSnapshot) -> None:
        """The leader offers one that is to be taken over."""

    @abstractmethod
    def sent_bytes(self, member: Member, peer: str) -> i64:
        """How much of the snapshot under way a peer was sent; 0 if none is."""

    @abstractmethod
    def snapshot_given_up(self, member: Member) -> None:
        """The rest of a snapshot that a member was to take over is of no use."""

    @abstractmethod
    def feeds(self, node: str) -> Feeds:
        """What members here feed a node as long as its links last."""

    @abstractmethod
    def throttle(self) -> Throttle:
        """Who lets reads for peers begin."""

    @abstractmethod
    def damaged(self, member: Member, error: BaseException) -> None:
        """What a peer needs cannot be read from the disk of this node."""

    @abstractmethod
    def short_of_disk(self) -> bool:
        """Whether space matters more than anything that could wait."""

    @abstractmethod
    def written_bytes(self) -> i64:
        """How much was written and synced in this life."""

    @abstractmethod
    def log_bytes(self) -> i64:
        """The size of the log of all groups."""

    @abstractmethod
    def pinned_bytes_max(self) -> i64:
        """How much may be written while a peer that does not get on keeps entries from going."""
