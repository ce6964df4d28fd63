"""A group on a node that uses it without being a member: its machine, and nothing on disk.

A member that is up to date feeds the observer with what is committed, without the bodies of
messages. What is committed never changes, so the observer goes on with any other member from the
entry behind the last one that it applied. It proposes to the leader as members do, by numbers
within a session of its node, and fetches the messages that its machine hands to clients here.

`replication/observing.py` is the member's side; docs/clusters.md has the whole.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Final, final

from librt.strings import read_i64_le
from mypy_extensions import i64, mypyc_attr

from warren.errors import Compacted, CorruptRecord
from warren.log.batch import KIND_COMMAND, Batch
from warren.log.cache import Cache, Share
from warren.log.group import GroupLog
from warren.log.listener import BatchReader, RawReader
from warren.log.source import MessageSource
from warren.ports import Work
from warren.raft import wire
from warren.raft.members import Replica
from warren.replication import frames, kinds
from warren.replication import observing_frames as said
from warren.replication.feeding import BACKLOG_BYTES
from warren.replication.machine import NO_MACHINE, Machine, Proposer
from warren.replication.proposals import Proposal, Proposals
from warren.replication.raft_entries import (
    RAFT_SESSION,
    are_lost,
    closed_sessions,
    closes_badly,
    is_members,
)
from warren.replication.wrapping import Unwrapping, Wrapped

ANSWER_MS: Final = 500
"""A member that was asked and has not answered for so long is left for another one."""
PREPARES_MS: Final = 5_000
"""One that has said that it has more is left when it has not said so again for so long: a state of
64 MiB takes two seconds on its way."""
PREPARES_MS_MAX: Final = 60_000
"""One that says nothing else for so long is left."""
LEADERLESS_MS: Final = 300
"""A member that knows of no leader for so long is, too: it may be cut off from the others."""
STUCK_MS: Final = 1_000
STUCK_MS_MAX: Final = 16_000
"""So long nothing that was proposed is applied, before another member is asked; twice as long each
time. The one that feeds may be behind, or cut off with a leader that is none any more."""
QUIET_MS: Final = 60_000
"""A member that said nothing for so long is asked again, whether it still feeds this node."""
CATCH_UP_ENTRIES_MAX: Final = 256
"""Entries that an observer takes of its own node's copy at a time."""
FETCH_MS: Final = 1_000
"""Messages that did not come for so long are asked of another member."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ObserverHost:
    """The node around its observers."""

    @abstractmethod
    def monotonic_ms(self) -> int:
        """Give monotonic time in milliseconds."""

    @abstractmethod
    def send(self, node: str, message: list[bytes]) -> bool:
        """Send to another node; False if there is no link."""

    @abstractmethod
    def backlog_bytes(self, node: str) -> int:
        """What was sent to another node and has not left this one."""

    @abstractmethod
    def new_number(self) -> i64:
        """A number that no observer of this node had before, in this life or another one."""

    @abstractmethod
    def holders(self, group_id: i64) -> list[str]:
        """The nodes that hold a group and seem to run, in the order in which to ask them."""

    @abstractmethod
    def mind(self, observer: Observer) -> None:
        """Call `tick` from now on, until it says that there is nothing to mind."""

    @abstractmethod
    def session_closed(self, observer: Observer) -> i64:
        """This node's session in a group was closed; what the tables gave it last, for another."""

    @abstractmethod
    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on: of all that is long, one part a turn."""

    @abstractmethod
    def refuse(self, node: str, reason: str) -> None:
        """What another node said cannot be: a new link to it starts over."""


@final
class MessagesFetch:
    """Messages that a member is asked for.

    Attributes:
        node: The member's that was asked last; empty if one is to be.
        tried: How many were asked and could not help.
    """

    def __init__(
        self,
        number: i64,
        first: i64,
        last: i64,
        max_bytes: i64,
        reader: BatchReader | None,
        raw_reader: RawReader | None,
    ) -> None:
        self.number: i64 = number
        self.first: i64 = first
        self.last: i64 = last
        self.max_bytes: i64 = max_bytes
        self.reader = reader
        self.raw_reader = raw_reader
        self.node = ""
        self.tried: i64 = 0
        self.asked_ms: i64 = 0


@final
class StateArrival(Work):
    """A member's state that is here, and for which the machine is made ready.

    Attributes:
        parts: It taken apart, the state once that is copied.
        behind: What the member sent behind it.
        came: How much of that since the last part.
        restored: Whether the machine has gone on from it, and only what is behind is left.
    """

    def __init__(self, observer: Observer, index: i64, term: i64, unwrapping: Unwrapping) -> None:
        self.observer = observer
        self.index: i64 = index
        self.term: i64 = term
        self.parts: Wrapped = unwrapping.parts
        self._unwrapping: Unwrapping | None = unwrapping
        self._readying: Work | None = None
        self.behind: deque[bytes] = deque()
        self.came: i64 = 0
        self.restored = False

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        observer = self.observer
        try:
            return observer.take_more(self)
        except CorruptRecord as error:
            observer.host.refuse(observer.serving, str(error))
            return True

    def is_ready(self) -> bool:
        """Do the next part of what comes before the machine goes on; whether that was the last."""
        unwrapping = self._unwrapping
        if unwrapping is not None:
            if not unwrapping.go_on():
                return False
            self._unwrapping = None
            self._readying = self.observer.machine.ready(self.parts.state)
        readying = self._readying
        return readying is None or readying.go_on()


@final
class Observer(Proposer, MessageSource):
    """See the module's head.

    Attributes:
        group_id: The group's.
        machine: Its machine on this node.
        proposals: What this node submitted and has not applied.
        applied_index: The newest entry that the machine has; 0 if it has nothing.
        serving: The member that feeds this, or was asked to; empty if there is none.
        leader, term: Who leads, as the newest of those who fed this said; empty if not known.
        members: Those of the group as of the newest entry applied.
        following: Whether the machine has what was committed when this member began to feed it.
        stopped: The group is gone here, or the node became a member.
    """

    def __init__(
        self,
        host: ObserverHost,
        group_id: i64,
        machine: Machine,
        proposals: Proposals,
        cache: Cache,
    ) -> None:
        self.host = host
        self.group_id: i64 = group_id
        self.machine = machine
        self.proposals = proposals
        proposals.lead_known(False)
        self.applied_index: i64 = 0
        self.serving = ""
        self.leader = ""
        self.term: i64 = 0
        self.members: list[Replica] = []
        self.following = False
        self.stopped = False
        self._resting = True
        self._had_index: i64 = 0
        """The newest entry that it had before it forgot what it had."""
        self._applied_term: i64 = 0
        """The term of the newest entry applied, by which a member finds that it is its own, too."""
        self._next_message: i64 = 0
        self._own: i64 = 0
        """How far this node's session is in what the machine has."""
        self._furthest: i64 = 0
        """The newest entry that it had when it went on from an older state; 0 if it has not."""
        self._observation: i64 = 0
        self._heard = False
        """Whether the member that was asked has answered."""
        self._committed_index: i64 = 0
        """The newest entry that it said it has applied."""
        self._given: bool = False
        """Whether it has given more than that."""
        self._asked_ms: i64 = 0
        self._heard_ms: i64 = 0
        self._leaderless_ms: i64 = -1
        """When this member first said that nobody leads; -1 if one does."""
        self._stuck_at: i64 = 0
        """The oldest proposal when `tick` saw that another one was before."""
        self._stuck_since_ms: i64 = 0
        self._patience_ms: i64 = STUCK_MS
        self._arrival: StateArrival | None = None
        """A state that the machine does not have yet, or with what came behind it."""
        self._fetches: dict[int, MessagesFetch] = {}
        self._cache = cache
        self._share = Share()

    def take_place(self, index: i64, term: i64, next_message: i64, members: list[Replica]) -> None:
        """Go on where this node's member stood, which is no more; its machine has all up to there.

        Args:
            index, term: The newest entry applied.
            next_message: The number of the first message behind it.
            members: Those of the group.
        """
        self.applied_index = index
        self._applied_term = term
        self._next_message = next_message
        self._own = self.proposals.first() - 1
        self.members = members
        self._begin()

    # --- what the node submits ------------------------------------------------------------------

    def submit(
        self,
        kind: i64,
        count: i64,
        lengths: bytes,
        payload: bytes,
        origin: object | None,
        flavour: i64 = 0,
        life_ms: i64 = -1,
        facts: bytes = b"",
    ) -> None:
        """Have an entry appended by the leader of the group."""
        self.proposals.add(kind, count, lengths, payload, origin, flavour, life_ms, facts)
        if self._resting:
            self._begin()
        self._offer()

    def has_leader(self) -> bool:
        """Whether who feeds this said who leads."""
        return self.proposals.led

    def unoffered(self) -> list[Proposal]:
        """What this node submitted and no leader was offered."""
        return self.proposals.unoffered()

    def give_up(self, gone: dict[int, None]) -> None:
        """Forget some of that, by their numbers."""
        self.proposals.give_up(gone)

    def session(self) -> i64:
        """The session in force."""
        return self.proposals.session

    def fed(self) -> bool:
        """Whether a member feeds this, and has sent all that it had when it began."""
        return self.following

    def fetching(self) -> bool:
        """Whether messages are asked for."""
        return len(self._fetches) > 0

    def propose_plain(self, payload: bytes) -> bool:
        """Never: that is for leaders."""
        return False

    def leads(self) -> bool:
        """Say that this leads nothing: it is no member."""
        return False

    def leads_fully(self) -> bool:
        """Say the same: it is no member."""
        return False

    def stamp_ms(self) -> i64:
        """Only a leader knows the time."""
        return 0

    def is_complete(self) -> bool:
        """Members are asked, and one that is not whole says that it does not have a message."""
        return True

    def busy(self) -> bool:
        """Whether a proposal is under way."""
        return len(self.proposals) > 0

    def snapshot(self) -> i64:
        """There is no log to write it to."""
        return 0

    def snapshot_part(self) -> i64:
        """There is none."""
        return 0

    def _offer(self) -> None:
        """Send the leader what it was not offered yet."""
        proposals = self.proposals
        if proposals.session == 0 or self.stopped or not self.leader or not self.following:
            return
        offered = proposals.next_offer()
        while offered is not None:
            if self.host.backlog_bytes(self.leader) > BACKLOG_BYTES:
                proposals.offer_from(offered.sequence)
                return
            parts = frames.propose_frame(self.group_id, proposals.session, offered)
            if not self.host.send(self.leader, parts):
                proposals.offer_from(offered.sequence)
                return
            offered = proposals.next_offer()

    def _offer_all(self) -> None:
        """Offer again what may be lost: the leader is another one, or the way to it."""
        self.proposals.offer_from(1)
        self._offer()

    def _lead(self, leader: str) -> None:
        """Another node leads, or none that is known."""
        self.leader = leader
        self.proposals.lead_known(leader != "")

    # --- whom it hears --------------------------------------------------------------------------

    def resting(self) -> bool:
        """Whether no member feeds this, because no client uses it."""
        return self._resting

    def rest(self) -> None:
        """Need no more for now; the machine forgets what it has, and the next use begins anew."""
        assert not self.proposals, "what is submitted keeps the queue in use"
        if self.serving:
            self.host.send(self.serving, [said.unobserve_frame(self.group_id, self._observation)])
        self._resting = True
        self.serving = ""
        self._arrival = None
        self._lead("")
        self.following = False
        self._observation = 0
        self._forget()

    def _forget(self) -> None:
        """Have nothing any more, so that the next member sends its state."""
        self._had_index = max(self._had_index, self.applied_index)
        self._arrival = None
        self.applied_index = 0
        self._applied_term = 0
        self.following = False
        self._cache.forget(self._share.read_back)
        self.machine.forget()

    def wake(self) -> None:
        """Begin to be fed: a client is about to use the queue."""
        if self._resting and not self.stopped:
            self._begin()

    def _begin(self) -> None:
        self._resting = False
        self.host.mind(self)
        self._observe_another()

    def _observe_another(self) -> None:
        """Have another member feed this, or the same if it is the only one."""
        holders = self.host.holders(self.group_id)
        if self.serving in holders:
            at = holders.index(self.serving) + 1
            holders = holders[at:] + holders[:at]
        self.serving = ""
        self._arrival = None
        for node in holders:
            if self._observe(node):
                return

    def _observe(self, node: str) -> bool:
        """Ask a member for what is committed behind what the machine has; False without a link."""
        self._observation = self.host.new_number()
        self._arrival = None
        self._heard = False
        self._given = False
        self._asked_ms = self.host.monotonic_ms()
        self._heard_ms = self._asked_ms
        self._leaderless_ms = -1
        frame = said.observe_frame(
            self.group_id, self._observation, self.applied_index, self._applied_term
        )
        if not self.host.send(node, [frame]):
            return False
        self.serving = node
        return True

    def lost(self, node: str) -> None:
        """A link to or from a node is gone, and with it what was under way."""
        if self._resting:
            return
        for fetch in self._fetches.values():
            if fetch.node == node:
                fetch.node = ""
        if self.serving == node:
            self._observe_another()
        self._ask_again()

    def linked(self, node: str) -> None:
        """There is a new link to a node."""
        if self._resting:
            return
        if node == self.leader:
            self._offer_all()
        unheard = not self.serving or (node == self.serving and not self._heard)
        if unheard and node in self.host.holders(self.group_id):
            self._observe(node)
        self._ask_again()

    def tick(self, now_ms: i64) -> bool:
        """Time has passed; False if there is nothing to mind any more."""
        if self._resting or self.stopped:
            return False
        self._offer()
        if not self.serving:
            self._observe_another()
        elif self._arrival is not None:
            # Whoever sent this state goes on with what it sends behind.
            pass
        elif not self._heard:
            if now_ms - self._asked_ms >= ANSWER_MS:
                # Who led may be gone with who fed this, and what is kept counts as for nobody.
                self._lead("")
                self._observe_another()
        elif 0 <= self._leaderless_ms <= now_ms - LEADERLESS_MS:
            self._observe_another()
        elif not self._given and self.applied_index < self._committed_index:
            # It prepares what this misses; nothing that was proposed is applied before.
            silent = now_ms - self._heard_ms >= PREPARES_MS
            if silent or now_ms - self._asked_ms >= PREPARES_MS_MAX:
                self._observe_another()
        elif self._is_stuck(now_ms):
            self._lead("")
            self._observe_another()
        elif now_ms - self._heard_ms >= QUIET_MS:
            self._observe(self.serving)
        for fetch in self._fetches.values():
            if fetch.node and now_ms - fetch.asked_ms >= FETCH_MS:
                fetch.node = ""
                fetch.tried += 1
        self._ask_again()
        return True

    def _is_stuck(self, now_ms: i64) -> bool:
        """Whether what was proposed is not applied for too long."""
        oldest = self.proposals.first()
        if not self.proposals or oldest != self._stuck_at:
            self._stuck_at = oldest
            self._stuck_since_ms = now_ms
            self._patience_ms = STUCK_MS
            return False
        if now_ms - self._stuck_since_ms < self._patience_ms:
            return False
        self._stuck_since_ms = now_ms
        self._patience_ms = min(2 * self._patience_ms, STUCK_MS_MAX)
        return True

    # --- what others say ------------------------------------------------------------------------

    def received(self, node: str, frame: bytes) -> None:
        """A frame about this group came.

        Raises:
            CorruptRecord: It cannot be understood, or does not fit what came before.
        """
        kind: i64 = frame[0]
        frames.need(frame, said.AT + 8)
        number = read_i64_le(frame, said.AT)
        if kind == kinds.EXPECT:
            frames.need(frame, said.AT + 16)
            if number == self.proposals.session and node == self.leader:
                self.proposals.offer_from(read_i64_le(frame, said.AT + 8))
                self._offer()
        elif kind == kinds.BODIES:
            self._fetched(node, number, frame)
        elif number != self._observation or node != self.serving:
            if kind != kinds.UNOBSERVE:
                # It feeds somebody who went on with another member, or has begun anew.
                self.host.send(node, [said.unobserve_frame(self.group_id, number)])
        elif kind == kinds.FEED:
            if self._arrival is None:
                self._take(said.Feed(frame))
            else:
                self._arrival.behind.append(frame)
                self._arrival.came += 1
        elif kind == kinds.STATE:
            self._take_state(frame)
        elif kind == kinds.UNOBSERVE:
            # It lost its copy, or has only some of it.
            self._heard = False
            self.serving = node
            if len(self.host.holders(self.group_id)) > 1:
                self._observe_another()

    def _take(self, feed: said.Feed) -> None:
        """Apply what a member sent, and heed what it says of the leader."""
        now_ms = self.host.monotonic_ms()
        self._heard_ms = now_ms
        if feed.entries:
            self._given = True
        for batch in feed.entries:
            if batch.index <= self.applied_index:
                continue
            self._check(batch)
            self._apply(batch)
            if self.stopped:
                return
        if not self._heard:
            self._heard = True
            self.following = False
        self._committed_index = feed.applied
        begins = self._begins_to_follow()
        if feed.leader:
            self._leaderless_ms = -1
        elif self._leaderless_ms < 0:
            self._leaderless_ms = now_ms
        if feed.leader != self.leader or feed.term != self.term:
            # One that leads in another term has not what it was offered in the one before.
            self._lead(feed.leader)
            self.term = feed.term
            self.proposals.offer_from(1)
        if self._went_back(feed):
            self._furthest = 0
            self._renew_session()
        self._offer()
        if begins:
            self.machine.followed()

    def _went_back(self, feed: said.Feed) -> bool:
        """Whether the group has lost what was applied here: its only copy is an older one now.

        The leader has applied an entry of its term, so that all it has committed is here. It would
        wait for ever for proposals that were applied, and does not know what was handed out.
        """
        if self._furthest <= self.applied_index and self._own >= self.proposals.first() - 1:
            return False
        return (
            feed.leader == self.serving
            and self.applied_index == feed.applied
            and self._applied_term == feed.term
            and self._arrival is None
        )

    def _begins_to_follow(self) -> bool:
        """Whether this has all that it was told of, and had not until now."""
        if self.following or not self._heard or self.applied_index < self._committed_index:
            return False
        if self._arrival is not None and self._arrival.behind:
            return False
        self.following = True
        return True

    def catch_up(self, log: GroupLog, index: i64) -> bool:
        """Apply what this node's own copy has of the group behind what the machine has.

        Args:
            index: The last entry that the copy has applied.

        Returns:
            Whether the machine is as far now; else what it misses is to be had from others only, or
            there is more than one turn should do.
        """
        if self._arrival is not None:
            return False
        last = min(index, self.applied_index + CATCH_UP_ENTRIES_MAX)
        while self.applied_index < last:
            batch = log.recent(self.applied_index + 1)
            if batch is None:
                return False
            self._check(batch)
            self._apply(batch)
        return self.applied_index == index

    def _check(self, batch: Batch) -> None:
        """Check that an entry goes with those before it.

        Raises:
            CorruptRecord: It does not, or is none that a leader logs.
        """
        problem = ""
        if batch.index != self.applied_index + 1:
            problem = f"entry {batch.index} comes behind entry {self.applied_index}"
        elif batch.first != self._next_message:
            problem = f"message {batch.first} comes where {self._next_message} belongs"
        elif batch.term < self._applied_term:
            problem = f"term {batch.term} comes behind term {self._applied_term}"
        elif batch.session == self.proposals.session and batch.session > 0:
            first = self.proposals.first()
            if batch.sequence > first or (batch.sequence == first and not self.proposals):
                problem = f"proposal {batch.sequence} comes where {first} is the next"
        elif batch.session == RAFT_SESSION:
            problem = _problem_of_own(batch)
        if problem:
            # Whichever of both is wrong, this entry or what came before it.
            self._forget()
            raise CorruptRecord("a feed", 0, problem)

    def _apply(self, batch: Batch) -> None:
        self.applied_index = batch.index
        self._applied_term = batch.term
        self._next_message = batch.first + batch.count
        if batch.session == RAFT_SESSION:
            self._apply_own(batch)
            return
        origin: object | None = None
        if batch.session > 0 and batch.session == self.proposals.session:
            origin = self.proposals.applied(batch.sequence)
            self._own = batch.sequence
        self.machine.apply(batch, origin)

    def _apply_own(self, batch: Batch) -> None:
        if is_members(batch):
            self.members = wire.decode_members(batch.body()[1:])
            return
        closed = closed_sessions(batch)
        if closed:
            self.machine.sessions_closed(closed, batch.stamp_ms, are_lost(batch))
            if self.proposals.session in closed:
                self._renew_session()

    def _renew_session(self) -> None:
        self._own = 0
        self.proposals.next_epoch(self.host.session_closed(self))
        self.machine.session_renewed()
        self._offer()

    def _take_state(self, frame: bytes) -> None:
        """Go on from a member's state: what lies between is not to be had any more.

        The machine is made ready for it in parts, and has what it had until then. What the member
        sends behind the state waits, and has its turns, too.

        Raises:
            CorruptRecord: It is none.
        """
        frames.need(frame, said.STATE_BYTES)
        index = read_i64_le(frame, said.AT + 8)
        term = read_i64_le(frame, said.AT + 16)
        self._given = True
        try:
            unwrapping = Unwrapping(frame, said.STATE_BYTES, frames.end_of(frame), False)
        except (CorruptRecord, IndexError, ValueError) as error:
            self._forget()
            raise CorruptRecord("a state", 0, str(error)) from error
        arrival = StateArrival(self, index, term, unwrapping)
        self._arrival = arrival
        if not self.take_more(arrival):
            self.host.do_in_parts(arrival)

    def take_more(self, arrival: StateArrival) -> bool:
        """Take the next part of a state, or of what came behind it; whether that was the last.

        Raises:
            CorruptRecord: It cannot be understood, or does not fit what came before.
        """
        if self._arrival is not arrival:
            return True
        if not arrival.restored:
            if not arrival.is_ready():
                return False
            arrival.restored = True
            self._restore(arrival)
        else:
            # One more than what comes, so that it is all taken some time.
            room = arrival.came + 1
            while room > 0 and arrival.behind and self._arrival is arrival:
                room -= 1
                self._take(said.Feed(arrival.behind.popleft()))
        arrival.came = 0
        if self._arrival is not arrival:
            return True
        if arrival.behind:
            return False
        self._arrival = None
        return True

    def _restore(self, arrival: StateArrival) -> None:
        """The machine goes on from a state.

        Raises:
            CorruptRecord: It is none.
        """
        self._cache.forget(self._share.read_back)
        parts = arrival.parts
        try:
            # The machine hands messages out, and those are read up to here.
            self._next_message = parts.next_message
            had = max(self._had_index, self.applied_index)
            if arrival.index < had:
                self._furthest = max(self._furthest, had)
                self.machine.restore_older(parts.state)
            else:
                self.machine.restore(parts.state)
            if self.machine.next_message() > parts.next_message:
                raise CorruptRecord("a state", 0, "it has messages that the group has not")
        except (CorruptRecord, IndexError, ValueError) as error:
            # What the machine has read of it is void.
            self._forget()
            raise CorruptRecord("a state", 0, str(error)) from error
        self._heard_ms = self.host.monotonic_ms()
        self.applied_index = arrival.index
        self._had_index = 0
        self._applied_term = arrival.term
        self.members = parts.members
        self._skip_proposals(parts)
        if self._begins_to_follow():
            # There may be nothing behind a state, and so no feed that says that this was all.
            self._offer()
            self.machine.followed()

    def _skip_proposals(self, parts: Wrapped) -> None:
        """Tell those whose proposals are part of a state."""
        proposals = self.proposals
        known = parts.sessions.get(int(proposals.session), 0)
        self._own = max(known, 0)
        while known != 0:
            last = ~known if known < 0 else known
            while len(proposals) > 0 and proposals.first() <= last:
                self.machine.skipped(proposals.applied(proposals.first()))
            if known > 0:
                return
            # Closed meanwhile. What was not applied before that never was.
            self._renew_session()
            known = parts.sessions.get(int(proposals.session), 0)
            self._own = max(known, 0)

    # --- messages -------------------------------------------------------------------------------

    def cached(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory."""
        return self._share.find(number)

    def read_share_bytes(self) -> i64:
        """What one more reader may keep without taking it from the others."""
        return self._cache.read_share_bytes()

    def messages_end(self) -> i64:
        """The number of the first message that the machine does not have."""
        return self._next_message

    def given_up(self) -> bool:
        """Whether no member feeds this."""
        return self._resting

    def read(self, first: i64, last: i64, max_bytes: i64, reader: BatchReader) -> None:
        """Fetch messages from a member, into memory."""
        self._fetch(MessagesFetch(self.host.new_number(), first, last, max_bytes, reader, None))

    def read_raw(self, first: i64, last: i64, max_bytes: i64, reader: RawReader) -> None:
        """Fetch the bytes of messages from a member."""
        self._fetch(MessagesFetch(self.host.new_number(), first, last, max_bytes, None, reader))

    def _fetch(self, fetch: MessagesFetch) -> None:
        self._fetches[int(fetch.number)] = fetch
        self.wake()
        self._ask(fetch)

    def _ask_again(self) -> None:
        """Ask for the messages that no member is being asked for."""
        for fetch in list(self._fetches.values()):
            if not fetch.node:
                self._ask(fetch)

    def _ask(self, fetch: MessagesFetch) -> None:
        """Ask a member for messages: the one that feeds this, and others after it."""
        nodes = self.host.holders(self.group_id)
        if self.serving in nodes:
            at = nodes.index(self.serving)
            nodes = nodes[at:] + nodes[:at]
        frame = said.fetch_frame(
            self.group_id, fetch.number, fetch.first, fetch.last, fetch.max_bytes
        )
        fetch.asked_ms = self.host.monotonic_ms()
        for offset in range(len(nodes)):
            node = nodes[(int(fetch.tried) + offset) % len(nodes)]
            if self.host.send(node, [frame]):
                fetch.node = node
                return

    def _fetched(self, node: str, number: i64, frame: bytes) -> None:
        """A member answers."""
        fetch = self._fetches.get(int(number))
        if fetch is None or fetch.node != node:
            return
        frames.need(frame, said.BODIES_BYTES)
        answer: i64 = frame[said.AT + 8]
        next_message = read_i64_le(frame, said.AT + 9)
        if answer == said.NOT_HERE:
            # The next tick asks another one: this one may have them in a moment.
            fetch.node = ""
            fetch.tried += 1
            return
        if next_message <= fetch.first:
            raise CorruptRecord("messages of a member", 0, "they end before they begin")
        batches = said.batches_of(frame)
        error: CorruptRecord | None = None
        if answer == said.GONE:
            # What comes behind what the machine has is not given up: it may be something else.
            next_message = min(next_message, self._next_message)
            error = CorruptRecord(f"group {self.group_id}", 0, "no member has these messages")
            error.group_id = int(self.group_id)
            error.lost = [(int(fetch.first), int(next_message) - 1)]
        del self._fetches[int(number)]
        if fetch.reader is not None:
            self._cache.admit_read(batches, self._share)
            fetch.reader.batches_read(batches, error)
        elif fetch.raw_reader is not None:
            data = frame[said.BODIES_BYTES : frames.end_of(frame)]
            fetch.raw_reader.raw_read(data, int(next_message), error)

    # --- its end --------------------------------------------------------------------------------

    def stop(self) -> None:
        """The group is deleted: what was submitted will never be applied."""
        left = self.proposals.take_all()
        machine = self.machine
        self.leave()
        for proposal in left:
            machine.abandoned(proposal.origin)

    def leave(self) -> None:
        """End, and leave what was submitted to who takes this one's place."""
        if self.serving:
            self.host.send(self.serving, [said.unobserve_frame(self.group_id, self._observation)])
        self.stopped = True
        self.serving = ""
        self._arrival = None
        self._observation = 0
        self._cache.forget(self._share.read_back)
        self.machine = NO_MACHINE
        fetches = self._fetches
        self._fetches = {}
        for fetch in fetches.values():
            if fetch.reader is not None:
                fetch.reader.batches_read([], None)
            elif fetch.raw_reader is not None:
                gone = Compacted("the messages are read from elsewhere now: read again")
                fetch.raw_reader.raw_read(b"", int(fetch.first), gone)


def _problem_of_own(batch: Batch) -> str:
    """What is wrong with an entry that is to be Raft's own; empty if nothing is."""
    if batch.kind != KIND_COMMAND:
        return f"entry {batch.index} is none of Raft's own"
    body = batch.body()
    if is_members(batch):
        try:
            wire.decode_members(body[1:])
        except CorruptRecord as error:
            return error.reason
    elif closes_badly(body):
        return f"entry {batch.index} is none of Raft's own"
    return ""
