"""What all members of a node are to hear of nodes and their links: some members a turn.

Each of them hears it in the order in which it happened. What happens between two turns shares how
many members may be told before the next.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.limits import TURN_MEMBERS_MAX
from warren.node.cluster.detector import PeerChange
from warren.node.loop import Loop
from warren.node.sweep import Sweep
from warren.replication.member import Member
from warren.replication.observing import Feeds

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster


@final
class News:
    """Something that all members are to hear of.

    Attributes:
        groups: Of the members that there were when it happened; one that is newer knows. No list,
            which Python's collector would look through.
        told: How many of them have heard of it.
        peer: The node that it is about; empty if sessions of any node may be over.
        change: Whether it came or went; None if only the link to it is new.
        disk: Whether its disk is behind now or keeps up again, as `BEHIND` or 0; else -1.
    """

    def __init__(self, groups: array[int], peer: str, change: PeerChange | None, disk: i64) -> None:
        self.groups = groups
        self.told: i64 = 0
        self.peer = peer
        self.change = change
        self.disk: i64 = disk


@final
class MemberNews:
    """Tells all members of a node.

    Attributes:
        room: How many more are told before the next turn.
    """

    def __init__(self, loop: Loop, cluster: Cluster) -> None:
        self._loop: Loop = loop
        self._cluster: Cluster = cluster
        self._news: deque[News] = deque()
        self.room: i64 = TURN_MEMBERS_MAX

    def has_any(self) -> bool:
        """Whether a member has something to hear yet."""
        return len(self._news) > 0

    def turn_begun(self) -> None:
        """Have as many members told as one turn may tell."""
        self.room = TURN_MEMBERS_MAX

    def add(self, peer: str, change: PeerChange | None, disk: i64 = -1) -> None:
        """Have all members hear of something; see `News`. With many, further turns go on."""
        if len(self._cluster.members) > 0:
            self._news.append(News(array("q", self._cluster.members), peer, change, disk))
            self.tell()

    def tell(self) -> None:
        """Tell some members what they have not heard yet, each of them in the order of the news."""
        while self._news and self.room > 0:
            self.room -= 1
            news = self._news[0]
            member = self._cluster.members.get(news.groups[news.told])
            news.told += 1
            if news.told == len(news.groups):
                self._news.popleft()
            if member is not None:
                self._tell_one(member, news)
        if self._news:
            self._loop.needs_turn = True

    def _tell_one(self, member: Member, news: News) -> None:
        change = news.change
        if news.disk >= 0:
            if member.raft.peer_behind(news.peer, news.disk > 0, self._cluster.monotonic_ms()):
                self._cluster.stirred(member)
            return
        if change is None:
            if not news.peer:
                member.client_sessions.close_sessions(member)
            elif member.raft.leader == news.peer:
                member.offer_again()
            return
        now = self._cluster.monotonic_ms()
        if change.up:
            member.raft.peer_up(change.peer, change.restarted, now)
            member.client_sessions.close_sessions(member)
        else:
            member.raft.peer_down(change.peer, now)
            member.client_sessions.close_sessions(member)
        self._cluster.stirred(member)


@final
class BrokenFeeds(Sweep[int]):
    """Has members feed a node no more, in parts, after a link to or from it broke."""

    def __init__(self, loop: Loop, cluster: Cluster, peer: str, feeds: Feeds) -> None:
        super().__init__(loop, TURN_MEMBERS_MAX)
        self._cluster = cluster
        self._peer = peer
        self._feeds = feeds

    def see_to(self, thing: int) -> None:
        """Have the member of a group, if it is here still, feed the node no more."""
        member = self._cluster.members.get(thing)
        if member is not None:
            member.observing.broken(member, self._peer, self._feeds)
