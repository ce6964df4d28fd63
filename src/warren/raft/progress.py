"""What the leader knows of one peer's log, and what it may send there next.

A peer is *probed* until it is known where its log agrees: one append at a time. Then it is
*replicated to*: appends follow each other without waiting, up to a bound. While it takes a
*snapshot*, nothing is sent.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.raft.members import Replica

PROBE: Final = 0
REPLICATE: Final = 1
SNAPSHOT: Final = 2


@final
class Progress:
    """One peer, as the leader sees it.

    Attributes:
        member: The peer.
        up: Whether its node is thought to be there; nothing is sent otherwise.
        behind: Whether its node's disk is behind: no entries are sent, nor a snapshot.
        mode: PROBE, REPLICATE or SNAPSHOT.
        match_index: Its log is ours, and durable, up to here. The only figure that counts.
        next_index: The next entry to send.
        asked: PROBE: an append is out, and the next one waits for its answer.
        bare: PROBE: an append was rejected, so the next ones carry no entries.
        ping: Send an append even if there is nothing new: an answer is wanted.
        offered: A Replicate effect is out that was not pulled dry yet.
        inflight: Last indexes of the appends that are out, ascending.
        snapshot_index: SNAPSHOT: the one that was offered.
        sent_commit, acked_commit: The commit index it was told, and that it said it knows.
        sent_round, acked_round: The same for rounds of reads.
        resend_ms: When to ask again; -1 while nothing is outstanding.
        silent_ms: Since when it owes an answer; -1 while it owes none.
        arrives_ms: When the large messages that it was sent last are likely to have arrived.
    """

    def __init__(self, member: Replica, next_index: i64, up: bool) -> None:
        self.member = member
        self.up = up
        self.behind = False
        self.mode: i64 = PROBE
        self.match_index: i64 = 0
        self.next_index: i64 = next_index
        self.asked = False
        self.bare = False
        self.ping = False
        self.offered = False
        self.inflight: list[int] = []
        self.snapshot_index: i64 = 0
        self.sent_commit: i64 = -1
        self.acked_commit: i64 = -1
        self.sent_round: i64 = 0
        self.acked_round: i64 = 0
        self.resend_ms: i64 = -1
        self.silent_ms: i64 = -1
        self.arrives_ms: i64 = 0

    def probe(self, next_index: i64) -> None:
        """Find out anew where the logs agree, beginning before `next_index`."""
        self.mode = PROBE
        self.next_index = next_index
        self.asked = False
        self.bare = False
        self.inflight.clear()

    def replicate(self, received_index: i64) -> None:
        """The logs agree up to `received_index`: send what follows without waiting."""
        self.mode = REPLICATE
        self.next_index = received_index + 1
        self.asked = False
        self.bare = False
        self.inflight.clear()

    def settle(self) -> None:
        """Forget appends that the peer has answered for."""
        count = 0
        for last in self.inflight:
            if i64(last) > self.match_index:
                break
            count += 1
        if count > 0:
            del self.inflight[:count]

    def owes(self) -> bool:
        """Whether the peer owes an answer."""
        return self.asked or len(self.inflight) > 0 or self.sent_round > self.acked_round

    def forget(self) -> None:
        """The peer's node is gone: it owes nothing now."""
        self.up = False
        self.resend_ms = -1
        self.silent_ms = -1
        self.arrives_ms = 0
        self.offered = False
        self.ping = False
        self.sent_commit = -1
        self.acked_commit = -1
        self.sent_round = self.acked_round
        # Where nothing is known of its log yet, the end of ours remains the first guess.
        self.probe(self.match_index + 1 if self.match_index > 0 else self.next_index)
