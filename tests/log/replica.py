"""A member of a replicated group in miniature: what its log may hold, and what is checked of it.

The log of a node is written in order, so a crash leaves each group as it was after some prefix of
what was done to it, at least as long as what was reported durable. A `View` is the group after one
more deed; the ones a crash may still lead back to are kept.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from warren.errors import Compacted
from warren.log.batch import (
    KIND_COMMAND,
    KIND_MESSAGES,
    KIND_SNAPSHOT,
    KIND_TRANSIENT,
    Batch,
)
from warren.log.group import GroupLog
from warren.log.listener import BatchReader, RawReader
from warren.log.runlist import KnownRuns, RunList, run_list

if TYPE_CHECKING:
    from tests.log.model import World


def pack_lengths(records: list[bytes]) -> bytes:
    """Record lengths as a batch holds them."""
    return b"".join(len(record).to_bytes(4, "little") for record in records)


def runs_of(numbers: set[int]) -> list[tuple[int, int]]:
    """Numbers as ascending pairs (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def known_runs(pairs: list[tuple[int, int]]) -> KnownRuns:
    """Ascending pairs (first, last) as an owner tells its log of them."""
    return KnownRuns(RunList(b"".join(struct.pack(">qq", *pair) for pair in pairs)))


class Item:
    """One entry: messages, or the numbers it settles. No two ever made are alike."""

    def __init__(
        self, index: int, term: int, first: int, stamp: int, records: list[bytes], settled: set[int]
    ) -> None:
        self.index = index
        self.term = term
        self.first = first
        self.stamp = stamp
        self.records = records
        self.settled = settled
        self.session = stamp * 7
        self.sequence = -stamp
        self.flavour = stamp * 11 % 256 if records else 0

    @property
    def kind(self) -> int:
        if not self.records:
            return KIND_COMMAND
        return KIND_TRANSIENT if self.stamp % 5 == 0 else KIND_MESSAGES

    @property
    def next_message(self) -> int:
        return self.first + len(self.records)

    @property
    def body(self) -> bytes:
        return b"".join(self.records) or " ".join(map(str, sorted(self.settled))).encode()

    def encoded(self, group_id: int, low: int = 0, behind: int | None = None) -> bytes:
        """The batch as it lies on disk, or one of some of its messages."""
        records = self.records[low:behind]
        body = b"".join(records) or self.body
        batch = Batch(
            None, self.kind, self.index, self.term, self.first + low, len(records), self.stamp,
            pack_lengths(records), 0, body, 0, len(body), None, self.session, self.sequence,
            self.flavour,
        )  # fmt: skip
        batch.group_id = group_id
        return batch.encode_head() + body

    def check(self, batch: Batch) -> None:
        """Whether a batch is this entry, unaltered; of messages it may be a part."""
        assert (batch.index, batch.term) == (self.index, self.term), "a void or an invented entry"
        assert (batch.kind, batch.stamp_ms) == (self.kind, self.stamp), "a void entry"
        assert (batch.session, batch.sequence) == (self.session, self.sequence)
        assert batch.flavour == self.flavour
        if not self.records:
            assert batch.first == self.first and batch.body() == self.body
        for at in range(batch.count):
            assert batch.record(at) == self.records[batch.first + at - self.first]


class Base:
    """A snapshot that a group began with: what lives in it, by message number."""

    def __init__(self, index: int = 0, term: int = 0, next_message: int = 0) -> None:
        self.index = index
        self.term = term
        self.next_message = next_message
        self.commit = index
        """Up to where the group is known to be committed, from here on."""
        self.items: list[Item] = []
        self.live: set[int] = set()


class View:
    """A group after some deed."""

    def __init__(self, base: Base, items: list[Item], state: bytes, incomplete: bool) -> None:
        self.base = base
        self.items = items
        self.state = state
        self.incomplete = incomplete
        self.cuts: set[int] = set()
        """Entries that were truncated before they were reported: any may be missing from on."""
        self.taken_back = False
        """Whether the snapshot it began with was made void before it was reported."""

    def without(self, index: int) -> View:
        """The same without the entries from an index on."""
        kept = [item for item in self.items if item.index < index]
        return View(self.base, kept, self.state, self.incomplete)

    def candidates(self) -> list[View]:
        """What a crash may leave of it."""
        found = [self, *(self.without(at) for at in sorted(self.cuts) if at <= self.last_index)]
        if self.taken_back:
            found.append(View(Base(), [], self.state, True))
        return found

    @property
    def last_index(self) -> int:
        return self.items[-1].index if self.items else self.base.index

    @property
    def next_message(self) -> int:
        return self.items[-1].next_message if self.items else self.base.next_message

    def item(self, index: int) -> Item | None:
        at = index - self.base.index - 1
        return self.items[at] if 0 <= at < len(self.items) else None

    def term_at(self, index: int) -> int:
        item = self.item(index)
        return item.term if item else self.base.term

    def live(self, index: int) -> set[int]:
        """Messages that live after an entry."""
        live = set(self.base.live)
        for item in self.items[: max(0, index - self.base.index)]:
            live.update(range(item.first, item.next_message))
            live -= item.settled
        return live

    def holder(self, index: int) -> Item:
        """The entry that an index names, in the snapshot or behind it."""
        item = self.item(index)
        if item is None:
            item = next((it for it in self.base.items if it.index == index), None)
        assert item is not None, f"entry {index} is not one of this log"
        return item


class Checked(BatchReader):
    """Looks at the answer to a read when it comes."""

    def __init__(self, replica: Replica, first: int, last: int, entries: bool) -> None:
        self.replica = replica
        self.first = first
        self.last = last
        self.entries = entries
        self.batches: list[Batch] = []
        self.error: BaseException | None = None
        self.answers = 0

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        self.answers += 1
        self.batches = batches
        self.error = error
        if error is None and not self.replica.gone:
            for place, batch in enumerate(batches):
                self.replica.view.holder(batch.index).check(batch)
                if self.entries:
                    assert batch.index == self.first + place, "entries come without a hole"
                else:
                    assert batch.count and batch.first <= self.last
                    assert batch.first + batch.count > self.first


class BytesReader(RawReader):
    """Keeps the answer to one raw read."""

    def __init__(self) -> None:
        self.data = b""
        self.next_message = -1
        self.error: BaseException | None = None

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        self.data = data
        self.next_message = next_message
        self.error = error


class Replica:
    """One group of the world that is a member of a replicated group."""

    def __init__(self, world: World, group_id: int) -> None:
        self.world = world
        self.group_id = group_id
        self.views = [View(Base(), [], b"", False)]
        self.first_view = 0
        """Number of the first view kept."""
        self.expected: list[tuple[int, int, int, int]] = []
        """(kind, index, term, view) of what is not reported yet, in order."""
        self.term = 0
        self.used: set[tuple[int, int]] = set()
        self.install: list[bytes] = []
        self.offer: Base | None = None
        self.waiting = False
        """Whether the snapshot installed is not durable yet."""
        self.gone = False
        self.dropping = False
        self.replayed: set[int] | None = None
        self.limit = -1
        self.seen_state = b""
        self.reads: list[Checked] = []
        self.open()

    @property
    def view(self) -> View:
        return self.views[-1]

    @property
    def commit(self) -> int:
        return self.view.base.commit

    @commit.setter
    def commit(self, index: int) -> None:
        self.view.base.commit = index

    @property
    def group(self) -> GroupLog:
        return self.world.log.group(self.group_id, create=False)

    @property
    def usable(self) -> bool:
        return not (self.view.incomplete or self.waiting or self.dropping)

    def open(self) -> None:
        """The group exists in the log's memory: say who it is."""
        self.world.log.group(self.group_id).keep_recent(self.world.random.choice([0, 2_000]))
        self.save_state()

    def _did(self, view: View) -> None:
        self.views.append(view)

    def _expect(self, batch: Batch) -> None:
        number = self.first_view + len(self.views) - 1
        self.expected.append((batch.kind, batch.index, batch.term, number))
        self.world.order.append((self.group_id, batch.kind, batch.index))

    def _void(self, newest_kind: int, index: int) -> None:
        """What was appended from an index on is not reported any more."""
        kept = [e for e in self.expected if e[0] > newest_kind or e[1] < index]
        lost = [e[1] for e in self.expected if e[0] <= KIND_COMMAND and e[1] >= index]
        self.expected = kept
        base = self.view.base
        if self.usable:
            for view in self.views:
                if view.base is base and not view.incomplete:
                    # Any of them may be in flight, with all before it.
                    view.cuts.update(lost)
        elif self.waiting:
            for view in self.views:
                view.taken_back = view.taken_back or view.base is base
        mine = self.group_id
        self.world.order = [
            o for o in self.world.order if o[0] != mine or o[1] > newest_kind or o[2] < index
        ]

    def persisted(self, batch: Batch) -> None:
        """The log says that a batch is durable."""
        kind, index, term, number = self.expected.pop(0)
        assert (batch.kind, batch.index, batch.term) == (kind, index, term)
        assert not batch.void
        if self.dropping:
            return
        if not self.waiting and batch.kind <= KIND_COMMAND and not self.view.incomplete:
            self.view.holder(batch.index).check(batch)
            self.world.confirmed += batch.count
        if kind == KIND_SNAPSHOT and self.waiting:
            self.waiting = False
            assert self.offer is not None
            group = self.group
            assert not group.incomplete
            assert group.last_index == group.persisted_index == self.offer.index
            assert group.next_message == self.offer.next_message
            assert group.term_at(group.last_index) == self.offer.term
        del self.views[: number - self.first_view]
        self.first_view = number

    # --- deeds ----------------------------------------------------------------------------------

    def save_state(self) -> None:
        self.world.stamp += 1
        payload = f"{self.world.stamp} {self.commit}".encode()
        view = self.view
        self._did(View(view.base, view.items, payload, view.incomplete))
        self._expect(self.group.save_state(payload, None))

    def _item(self, term: int, settle: bool, sizes: list[int]) -> Item:
        world = self.world
        world.stamp += 1
        view = self.view
        index = view.last_index + 1
        records: list[bytes] = []
        settled: set[int] = set()
        if settle:
            live = sorted(view.live(view.last_index))
            settled = {number for number in live if world.random.random() < 0.9}
        else:
            name = f"{self.group_id}/{world.stamp}/"
            records = [(name + f"{at}.") * (1 + size // 8) for at, size in enumerate(sizes)]
            records = [r[: size + 8].encode() for r, size in zip(records, sizes, strict=True)]
        self.used.add((index, term))
        return Item(index, term, view.next_message, world.stamp, records, settled)

    def _next_term(self) -> int:
        """A term for the next entry: the newest one's, a new one, or one that seemed over."""
        low = max(1, self.view.term_at(self.view.last_index))
        index = self.view.last_index + 1
        free = [t for t in range(low, self.term + 1) if (index, t) not in self.used]
        if free and self.world.random.random() < 0.7:
            return self.world.random.choice([free[0], *free])
        self.term = max(self.term, low) + self.world.random.choice([1, 2])
        return self.term

    def append(self, count: int, received: bool) -> None:
        """Add entries, as a leader or as a follower."""
        world = self.world
        items: list[Item] = []
        view = self.view
        term = self._next_term()
        for _ in range(count):
            settle = world.random.random() < 0.4
            sizes = [world.random.choice([0, 20, 300]) for _ in range(world.random.choice([1, 4]))]
            if (self.view.last_index + 1, term) in self.used:
                break
            item = self._item(term, settle, sizes)
            items.append(item)
            self._did(View(view.base, [*self.view.items, item], view.state, False))
            if not received:
                batch = self.group.append(
                    item.kind, term, item.stamp, len(item.records), pack_lengths(item.records),
                    item.body, None, item.session, item.sequence, item.flavour,
                )  # fmt: skip
                self._expect(batch)
        if received and items:
            del self.views[len(self.views) - len(items) :]
            data = b"".join(item.encoded(self.group_id) for item in items)
            at = 0
            for item in items:
                batch = self.group.append_replica(data, at, None)
                at += batch.size()
                self._did(View(view.base, [*self.view.items, item], view.state, False))
                self._expect(batch)
            assert at == len(data)
        assert self.group.last_index == self.view.last_index
        assert self.group.last_term == self.view.term_at(self.view.last_index)

    def truncate(self) -> None:
        """Make a part of what is not committed void; mostly something follows at once."""
        view = self.view
        index = self.world.random.randint(self.commit + 1, view.last_index + 1)
        self.group.truncate_from(index)
        self._void(KIND_COMMAND, index)
        kept = view.items[: index - view.base.index - 1]
        self._did(View(view.base, kept, view.state, False))
        self.check_edges()
        if self.world.random.random() < 0.8:
            self.append(self.world.random.choice([1, 3]), self.world.random.random() < 0.7)

    def advance(self) -> None:
        """Commit some of what is durable here."""
        persisted = self.group.persisted_index
        if persisted > self.commit:
            self.commit = self.world.random.choice(
                [persisted, self.world.random.randint(self.commit, persisted)]
            )

    def take_snapshot(self) -> None:
        view = self.view
        index = self.commit
        live = " ".join(map(str, [index, *sorted(view.live(index))])).encode()
        self._expect(self.group.snapshot(index, live, self.world.now_ms))

    def begin_install(self) -> None:
        """A leader that is ahead sends its snapshot."""
        random = self.world.random
        self.group.reset_for_install()
        self._void(KIND_SNAPSHOT, 0)
        self._did(View(Base(), [], self.view.state, True))
        self.term += 1
        offer = Base(0, self.term, 0)
        index = random.randint(1, 5)
        self.install = []
        for _ in range(random.randint(0, 6)):
            self.world.stamp += 1
            first = offer.next_message + random.choice([0, 0, 7])
            body = f"{self.group_id}/{self.world.stamp}/live"
            records = [(body + str(at)).encode() * random.choice([1, 9]) for at in range(6)]
            item = Item(index, self.term, first, self.world.stamp, records, set())
            cut = random.choice([6, 2])
            offer.items.append(item)
            self.install.append(item.encoded(self.group_id, 0, cut))
            offer.live.update(range(first, first + cut))
            if cut == 2 and random.random() < 0.5:
                self.install.append(item.encoded(self.group_id, 4))
                offer.live.update(range(first + 4, first + 6))
            offer.next_message = item.next_message
            offer.index = index
            index += random.choice([1, 3])
        offer.index += random.randint(1, 3)
        offer.next_message += random.choice([0, 3])
        offer.commit = offer.index
        self.offer = offer
        self.waiting = False

    def go_on_installing(self) -> None:
        """Store another part of it; at last the snapshot itself."""
        offer = self.offer
        if offer is None or not self.view.incomplete or self.waiting or self.dropping:
            return
        group = self.group
        if self.install:
            count = self.world.random.randint(1, 3)
            data = b"".join(self.install[:count])
            del self.install[:count]
            at = 0
            while at < len(data):
                batch = group.store_live(data, at)
                at += batch.size()
                self._expect(batch)
            return
        state = " ".join(map(str, [offer.index, *sorted(offer.live)])).encode()
        self._did(View(offer, [], self.view.state, False))
        self.waiting = True
        self._expect(
            group.snapshot(offer.index, state, self.world.now_ms, offer.term, offer.next_message)
        )

    def give_up(self) -> None:
        """Begin anew, without a snapshot."""
        self.group.begin_empty()
        self._void(KIND_SNAPSHOT, 0)
        self.waiting = False
        self.offer = None
        self._did(View(Base(), [], self.view.state, False))
        self.check_edges()

    def drop(self) -> None:
        self.dropping = True

    # --- recovery -------------------------------------------------------------------------------

    def forget(self) -> None:
        """The process stopped."""
        self.replayed = None
        self.limit = -1
        self.seen_state = b""
        self.reads = []

    def replay_state(self, payload: bytes) -> int:
        assert self.replayed is None and not self.seen_state, "the state comes first"
        self.seen_state = payload
        commit = int(payload.split()[1])
        self.limit = commit if self.world.random.random() < 0.7 else -1
        return self.limit

    def replay_snapshot(self, index: int, state: bytes) -> None:
        assert self.replayed is None, "the snapshot comes first"
        applied, *live = map(int, state.split())
        assert applied == index
        self.replayed = set(live)

    def replay_entry(self, batch: Batch) -> None:
        assert self.limit < 0 or batch.index <= self.limit, "more than asked for"
        if self.replayed is None:
            self.replayed = set()
        if batch.count:
            self.replayed.update(range(batch.first, batch.first + batch.count))
        else:
            self.replayed.difference_update(map(int, batch.body().split()))

    def recovered(self) -> None:
        """Find out what the crash left."""
        self.expected = []
        self.install = []
        self.waiting = False
        self.offer = None
        if self.group_id not in self.world.log.group_ids():
            assert self.dropping or not self.views[0].state, "a group is lost"
            if self.dropping:
                self.gone = True
                return
            self.views = [View(Base(), [], b"", False)]
            self.first_view = 0
            self.open()
            return
        self.dropping = False
        for view in self.views:
            for candidate in view.candidates():
                if self._matches(candidate):
                    self._adopt(candidate)
                    return
        raise AssertionError(f"group {self.group_id} is as it never was")

    def _adopt(self, view: View) -> None:
        self.views = [view]
        self.first_view = 0
        assert self.commit <= view.last_index, "committed and lost"
        self.commit = max(self.commit, int(self.group.snapshot_index))

    def _matches(self, view: View) -> bool:
        group = self.group
        if (group.incomplete, self.seen_state) != (view.incomplete, view.state):
            return False
        if (group.last_index, group.persisted_index) != (view.last_index, view.last_index):
            return False
        if group.next_message != view.next_message or group.snapshot_index > view.last_index:
            return False
        first = max(1, int(group.snapshot_index) + 1)
        entries = self.read_all(first, view.last_index) if first <= view.last_index else []
        for index, batch in enumerate(entries, first):
            item = view.item(index)
            if item is None or (item.stamp, item.term) != (batch.stamp_ms, batch.term):
                return False
        assert len(entries) == max(0, view.last_index + 1 - first), "entries are missing"
        for index in range(max(1, first - 1), view.last_index + 1):
            if index >= view.base.index:
                assert group.term_at(index) == view.term_at(index), f"the term of {index}"
        if not view.incomplete:
            end = view.last_index if self.limit < 0 else min(self.limit, view.last_index)
            end = max(end, int(group.snapshot_index))
            assert (self.replayed or set()) == view.live(end), "replayed to something else"
        group.keep_recent(self.world.random.choice([0, 2_000]))
        return True

    # --- checks ---------------------------------------------------------------------------------

    def check_edges(self) -> None:
        group = self.group
        assert (group.last_index, group.next_message) == (
            self.view.last_index,
            self.view.next_message,
        )
        assert group.persisted_index <= group.last_index
        assert group.written_messages <= group.next_message

    def begin_read(self) -> None:
        """Start a read that ends whenever it does."""
        random = self.world.random
        view = self.view
        if random.random() < 0.5 and view.next_message:
            first = random.randrange(view.next_message)
            last = random.randrange(first, view.next_message)
            reader = Checked(self, first, last, False)
            self.group.read(first, last, random.choice([1, 900, 9_000]), reader)
        else:
            first = max(self.commit, int(self.group.snapshot_index), 0) + 1
            reader = Checked(self, first, first + 30, True)
            self.group.read_entries(first, first + 30, random.choice([1, 900, 9_000]), reader)
        self.reads.append(reader)

    def read_all(self, first: int, last: int) -> list[Batch]:
        """All entries from one index to another."""
        found: list[Batch] = []
        while first <= last:
            reader = Checked(self, first, last, False)
            reader.replica = _Nobody
            self.group.read_entries(first, last, self.world.random.choice([1, 5_000]), reader)
            while not reader.answers:
                assert self.world.executor.step(), "a read is never answered"
            if reader.error is not None:
                raise reader.error
            if not reader.batches:
                break
            for batch in reader.batches:
                assert batch.index == first
                found.append(batch)
                first += 1
        return found

    def check(self) -> None:
        """Everything that should be there can be had, and is what it was."""
        if not self.usable:
            return
        self.check_edges()
        view = self.view
        group = self.group
        first = 0
        while first != max(1, int(group.snapshot_index) + 1):
            # A snapshot may become durable while the read is under way.
            first = max(1, int(group.snapshot_index) + 1)
            try:
                entries = self.read_all(first, view.last_index)
            except Compacted:
                continue
        assert len(entries) == max(0, view.last_index + 1 - first)
        for batch in entries:
            view.holder(batch.index).check(batch)
            assert group.term_at(batch.index) == batch.term
        for index in range(int(group.persisted_index) + 1, view.last_index + 1):
            recent = group.recent(index)
            assert recent is not None, "what is not durable yet is in memory"
            view.holder(index).check(recent)
        if first > 1:
            reader = Checked(self, first - 1, first, True)
            group.read_entries(first - 1, first, 1, reader)
            while not reader.answers:
                assert self.world.executor.step()
            assert isinstance(reader.error, Compacted)
        self._check_bodies(view.live(self.commit))
        self._check_live(view.live(self.commit))

    def _check_bodies(self, missing: set[int]) -> None:
        while missing:
            first = min(missing)
            batch = self.group.cached(first)
            batches = (
                [batch]
                if batch is not None
                else self.world.fetch(
                    self.group_id, first, max(missing), self.world.random.choice([1, 9_000])
                )
            )
            found: set[int] = set()
            for part in batches:
                self.view.holder(part.index).check(part)
                found.update(range(part.first, part.first + part.count))
            assert found & missing, f"messages {sorted(missing)[:3]} are gone"
            missing = missing - found

    def _check_live(self, live: set[int]) -> None:
        """What is sent along with a snapshot is what lives in it, and no more."""
        persisted = {n for n in live if n < self.group.written_messages}
        runs = run_list(runs_of(persisted))
        behind = 0
        found: list[int] = []
        while runs.reaches(behind):
            reader = BytesReader()
            self.group.read_live(runs, behind, self.world.random.choice([1, 2_000]), reader)
            while reader.next_message < 0:
                assert self.world.executor.step(), "a read is never answered"
            assert reader.error is None
            for batch in self.world.decoded(reader.data):
                self.view.holder(batch.index).check(batch)
                found.extend(range(batch.first, batch.first + batch.count))
            behind = reader.next_message
        assert found == sorted(persisted), "exactly what lives is sent"


class _Gone:
    gone = True


_Nobody: Replica = _Gone()  # type: ignore[assignment]
"""Whose reads are not looked at as they come."""
