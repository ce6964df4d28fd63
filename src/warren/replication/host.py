"""What a group's member asks of the node around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from warren.raft.effects import AcceptSnapshot, SendSnapshot
from warren.replication.proposals import Load
from warren.replication.throttle import Throttle

if TYPE_CHECKING:
    from warren.replication.member import Member


@mypyc_attr(allow_interpreted_subclasses=True)
class MemberHost:
    """The node around its members.

    Attributes:
        name: The node's name.
        disk_behind: Whether nothing more is to be taken for this node's disk.
        recent_bytes: Entries that a group with several members keeps in memory, for those that are
            a little behind.
    """

    name: str
    recent_bytes: int
    disk_behind: bool = False

    def load(self) -> Load:
        """What all groups keep until it is applied."""
        # No attribute: the collector would count one that a compiled subclass fills twice, and
        # never find a circle that it is in.
        raise AssertionError("a host defines load")

    def wall_ms(self) -> int:
        """Wall time for the log."""
        raise AssertionError("a host defines wall_ms")

    def monotonic_ms(self) -> int:
        """Monotonic time for Raft."""
        raise AssertionError("a host defines monotonic_ms")

    def appended(self, urgent: bool) -> None:
        """Something was appended to the log."""
        raise AssertionError("a host defines appended")

    def send(self, node: str, message: list[bytes]) -> bool:
        """Send to another node; False if there is no link."""
        raise AssertionError("a host defines send")

    def backlog_bytes(self, node: str) -> int:
        """What was sent to another node and has not left this one."""
        raise AssertionError("a host defines backlog_bytes")

    def go_on_later(self, member: Member) -> None:
        """Call `go_on` in a moment: more is queued for a node than should be."""
        raise AssertionError("a host defines go_on_later")

    def member_dirty(self, member: Member) -> None:
        """Call `work` before the turn ends."""
        raise AssertionError("a host defines member_dirty")

    def apply_later(self, member: Member) -> None:
        """Call `apply_more` in the next turn: its machine was given enough for this one."""
        raise AssertionError("a host defines apply_later")

    def session_over(self, session: i64) -> bool:
        """Whether the node that a session belongs to is gone, or lives another life."""
        raise AssertionError("a host defines session_over")

    def session_of_another(self, session: i64, node: str) -> bool:
        """Whether a session is known to be one of some other node than this."""
        raise AssertionError("a host defines session_of_another")

    def session_closed(self, member: Member) -> i64:
        """This node's session in a group was closed; what the tables gave it last, for another."""
        raise AssertionError("a host defines session_closed")

    def leadership(self, member: Member) -> None:
        """A member leads now, or does no more, or knows another leader."""
        raise AssertionError("a host defines leadership")

    def members_changed(self, member: Member) -> None:
        """Another configuration of a group is in force."""
        raise AssertionError("a host defines members_changed")

    def send_snapshot(self, member: Member, effect: SendSnapshot) -> None:
        """A peer needs the newest snapshot."""
        raise AssertionError("a host defines send_snapshot")

    def accept_snapshot(self, member: Member, effect: AcceptSnapshot) -> None:
        """The leader offers one that is to be taken over."""
        raise AssertionError("a host defines accept_snapshot")

    def sent_bytes(self, member: Member, peer: str) -> i64:
        """How much of the snapshot under way a peer was sent; 0 if none is."""
        raise AssertionError("a host defines sent_bytes")

    def snapshot_given_up(self, member: Member) -> None:
        """The rest of a snapshot that a member was to take over is of no use."""
        raise AssertionError("a host defines snapshot_given_up")

    def throttle(self) -> Throttle:
        """Who lets reads for peers begin."""
        raise AssertionError("a host defines throttle")

    def damaged(self, member: Member, error: BaseException) -> None:
        """What a peer needs cannot be read from the disk of this node."""
        raise AssertionError("a host defines damaged")

    def short_of_disk(self) -> bool:
        """Whether space matters more than anything that could wait."""
        raise AssertionError("a host defines short_of_disk")

    def written_bytes(self) -> i64:
        """How much was written and synced in this life."""
        raise AssertionError("a host defines written_bytes")

    def log_bytes(self) -> i64:
        """The size of the log of all groups."""
        raise AssertionError("a host defines log_bytes")

    def pinned_bytes_max(self) -> i64:
        """How much may be written while a peer that does not get on keeps entries from going."""
        raise AssertionError("a host defines pinned_bytes_max")
