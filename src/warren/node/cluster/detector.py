"""A failure detector for each pair of nodes: which other nodes this one believes to be alive.

Pure: time comes with each call, in monotonic milliseconds, and nothing is sent from here. A peer is

    NEW    not heard of yet; not suspected for one suspicion time
    UP     heard within the suspicion time
    DOWN   silent for longer, or its link broke and nothing was heard within a short grace; at once
           if no process listens any more where it should be, as when it was killed

Each change is reported once, and reports of a peer alternate: down, up, down. A new boot number, or
another identity under the same name, is a restart: down (if it was up), then up with `restarted`.

How long a silence is suspicious adapts: a peer that was late and turned out to be alive gets twice
its lateness as a margin, up to a bound, halved again as long as it keeps on time.

A stop of this node itself (SIGSTOP, a slow disk, a jump of the clock) says nothing of the others.
It shows in the time between two ticks; after it, every peer gets a fresh interval.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.ports import PeerHello

NEW: Final = 0
UP: Final = 1
DOWN: Final = 2

MARGIN_HALVED_MS: Final = 10_000
"""How long a peer has to be on time for its margin to be halved."""
NEVER: Final = -1


@final
class DetectorOptions:
    """Attributes, all in milliseconds:

    ping_ms: A peer that was sent nothing for so long is sent a ping.
    suspicion_ms: Silence after which a peer is suspected, without its margin.
    margin_ms_max: The most that a peer's margin can be.
    broken_grace_ms: Silence after a broken link, as of a process that was killed; 0 to 200.
    gap_ms_max: More between two ticks is a stop of this node. Well above the caller's interval of
        ticks, and below `suspicion_ms`.
    """

    def __init__(
        self,
        ping_ms: int = 100,
        suspicion_ms: int = 1_000,
        margin_ms_max: int = 1_000,
        broken_grace_ms: int = 100,
        gap_ms_max: int = 500,
    ) -> None:
        assert 0 < ping_ms < suspicion_ms and 0 <= margin_ms_max
        assert 0 <= broken_grace_ms <= 200 and ping_ms < gap_ms_max <= suspicion_ms
        self.ping_ms: i64 = ping_ms
        self.suspicion_ms: i64 = suspicion_ms
        self.margin_ms_max: i64 = margin_ms_max
        self.broken_grace_ms: i64 = broken_grace_ms
        self.gap_ms_max: i64 = gap_ms_max


@final
class PeerChange:
    """A report: `peer` went up or down; `restarted` if it came up with its memory gone."""

    def __init__(self, peer: str, up: bool, restarted: bool) -> None:
        self.peer: str = peer
        self.up: bool = up
        self.restarted: bool = restarted


@final
class _Peer:
    """What is known of one peer."""

    def __init__(self, name: str, now_ms: i64) -> None:
        self.name: str = name
        self.state: i64 = NEW
        self.heard_ms: i64 = now_ms
        self.sent_ms: i64 = NEVER
        self.broken_ms: i64 = NEVER
        self.margin_ms: i64 = 0
        self.margin_set_ms: i64 = now_ms
        self.node_uid: bytes = b""
        self.boot: int = 0
        self.pings: i64 = 0


@final
class Detector:
    """The failure detector of one node for all its peers."""

    def __init__(self, options: DetectorOptions, now_ms: int) -> None:
        self._options: DetectorOptions = options
        self._peers: dict[str, _Peer] = {}
        self._ticked_ms: i64 = now_ms
        self._changes: list[PeerChange] = []

    def add(self, peer: str, now_ms: int) -> None:
        """Watch this peer from now on."""
        if peer not in self._peers:
            self._peers[peer] = _Peer(peer, now_ms)

    def remove(self, peer: str) -> None:
        """Watch this peer no more; nothing further is reported of it."""
        self._peers.pop(peer, None)
        self._changes = [change for change in self._changes if change.peer != peer]

    def suspected(self, peer: str) -> bool:
        """Whether this peer is believed to be down; also true of one that is not watched."""
        watched = self._peers.get(peer)
        return watched is None or watched.state == DOWN

    def is_up(self, peer: str) -> bool:
        """Whether this peer was heard of, and is believed to be alive."""
        watched = self._peers.get(peer)
        return watched is not None and watched.state == UP

    def margin_ms(self, peer: str) -> int:
        """How much more silence than usual this peer is granted now."""
        watched = self._peers.get(peer)
        return 0 if watched is None else int(watched.margin_ms)

    def take_changes(self) -> list[PeerChange]:
        """Reports since the last call, oldest first."""
        changes = self._changes
        self._changes = []
        return changes

    # What happens.

    def greeted(self, peer: str, hello: PeerHello, now_ms: int) -> None:
        """A link to or from this peer came up, with this hello."""
        watched = self._peers.get(peer)
        if watched is None:
            return
        known = watched.node_uid == hello.node_uid
        if known and hello.boot < watched.boot:
            # A link of a process that is no more.
            return
        restarted = watched.node_uid != b"" and not (known and hello.boot == watched.boot)
        watched.node_uid = hello.node_uid
        watched.boot = hello.boot
        if restarted:
            if watched.state == UP:
                self._changes.append(PeerChange(peer, False, False))
            watched.state = UP
            watched.margin_ms = 0
            self._changes.append(PeerChange(peer, True, True))
        self._alive(watched, now_ms, False)

    def heard(self, peer: str, now_ms: int) -> None:
        """A message came from this peer."""
        watched = self._peers.get(peer)
        if watched is not None:
            self._alive(watched, now_ms, True)

    def sent(self, peer: str, now_ms: int) -> None:
        """Something was sent to this peer, so that it needs no ping for now."""
        watched = self._peers.get(peer)
        if watched is not None:
            watched.sent_ms = now_ms

    def broken(self, peer: str, now_ms: int) -> None:
        """The link to or from this peer broke."""
        watched = self._peers.get(peer)
        if watched is None or watched.state != UP:
            return
        grace = self._options.broken_grace_ms
        if grace == 0:
            self._suspect(watched)
        elif watched.broken_ms == NEVER:
            watched.broken_ms = now_ms + grace

    def gone(self, peer: str) -> None:
        """Take up that a peer's machine refuses connections: no process listens there.

        That alone says nothing, since a peer may be heard and have a wrong address. Behind a broken
        link it says that the process is no more.
        """
        watched = self._peers.get(peer)
        if watched is not None and watched.state == UP and watched.broken_ms != NEVER:
            self._suspect(watched)

    def tick(self, now_ms: int) -> list[tuple[str, bytes]]:
        """Mind the time; gives the pings to send: peer, and a number (u64, little-endian).

        To be called every `ping_ms` or more often; the caller puts its kind before each ping.
        """
        now: i64 = now_ms
        options = self._options
        gap = now - self._ticked_ms
        self._ticked_ms = now
        if gap > options.gap_ms_max or gap < 0:
            self._start_afresh(now)
        pings: list[tuple[str, bytes]] = []
        for watched in self._peers.values():
            if watched.state != DOWN:
                silence = now - watched.heard_ms
                if silence >= options.suspicion_ms + watched.margin_ms:
                    self._suspect(watched)
                elif watched.broken_ms != NEVER and now >= watched.broken_ms:
                    self._suspect(watched)
            if watched.margin_ms > 0 and now - watched.margin_set_ms >= MARGIN_HALVED_MS:
                watched.margin_ms //= 2
                watched.margin_set_ms = now
            if watched.sent_ms == NEVER or now - watched.sent_ms >= options.ping_ms:
                watched.sent_ms = now
                watched.pings += 1
                pings.append((watched.name, int(watched.pings).to_bytes(8, "little")))
        return pings

    # Judgement.

    def _alive(self, watched: _Peer, now: i64, learns: bool) -> None:
        options = self._options
        late = now - watched.heard_ms - 2 * options.ping_ms
        stopped = now - self._ticked_ms > options.gap_ms_max
        learns = learns and not stopped and watched.state != NEW and watched.broken_ms == NEVER
        if learns and late > 0:
            margin = min(2 * late, options.margin_ms_max)
            if margin >= watched.margin_ms:
                watched.margin_ms = margin
                watched.margin_set_ms = now
        watched.heard_ms = now
        watched.broken_ms = NEVER
        if watched.state != UP:
            watched.state = UP
            self._changes.append(PeerChange(watched.name, True, False))

    def _suspect(self, watched: _Peer) -> None:
        watched.broken_ms = NEVER
        if watched.state != DOWN:
            watched.state = DOWN
            self._changes.append(PeerChange(watched.name, False, False))

    def _start_afresh(self, now: i64) -> None:
        """This node itself was stopped, or its clock jumped."""
        for watched in self._peers.values():
            watched.heard_ms = now
            watched.margin_set_ms = now
            if watched.sent_ms > now:
                watched.sent_ms = NEVER
            if watched.broken_ms != NEVER:
                watched.broken_ms = now + self._options.broken_grace_ms
