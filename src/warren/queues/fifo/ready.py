"""What of a queue waits for a consumer, and which message is next.

Nobody else knows that what returned goes before what was never handed out, or where in a queue a
returned message has its place. The machine asks what is first, takes from it, and puts back.

Where messages go by their priorities there is a class for each. In a classic queue it has two
queues of its own, and the highest one that has any comes first, with all that returned before what
was never handed out. In a quorum queue what returned goes before all classes; the others go by them
alone, or fairly: where two levels have any, two messages of the higher one come before one of the
lower, which waits for all of the higher that came before it (PRI-02 to PRI-04).

After a crash any message may have been handed out before. That is noted as a bound on their numbers
and found out again of each run that is next, so that it costs nothing how many runs there are: what
returned later was handed out in any case.

What else has a say in what is next leaves that as it is:

    expiry             the machine, which knows what time it is, takes what has expired at the head
                       (`take_expired`) before it asks for what a consumer may have
    delayed returns    they wait in `delayed`, neither counted here nor at the head, and are put
                       back when their time has come
    limits, drop-head  `count` and `bytes`, with those of `delayed`, are what a limit is compared
                       with; the machine takes from the head for as long as they are too large
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from mypy_extensions import i64

from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.pieces import Piece, opened
from warren.queues.fifo.runs import Run, RunQueue, as_run, first_of
from warren.queues.fifo.sizes import NEVER, Sizes

FOUND_MAX: Final = 16
"""Stretches that are looked for one by one in each class; for more, a class is gone through."""

FAIR_SHARE: Final = 2
"""Messages of the higher level that go before one of the lower."""

BY_NUMBER: Final = 0
"""A returned message goes to exactly where it was, as in a classic queue."""
AT_HEAD: Final = 1
"""It goes before all that was never handed out, and behind earlier returns (POI-12)."""
AT_BACK: Final = 2
"""It goes behind everything (POI-11)."""
AMONG_DEAD: Final = 3
"""It does not come here: it died, and is kept until it is elsewhere."""
NO_PLACE: Final = -1
"""The settings say where it goes."""


@final
class Class:
    """The ready messages of one rank.

    Attributes:
        rank: The higher, the sooner they go.
        returned: Those that were handed out before, by their numbers.
        fresh: Those that never were.
    """

    def __init__(self, rank: i64) -> None:
        self.rank: i64 = rank
        self.returned: RunQueue = RunQueue()
        self.fresh: RunQueue = RunQueue()


@final
class Ready:
    """The messages of a queue that wait for a consumer, in the order in which they go.

    Attributes:
        keeps_place: Whether what returns goes to where it was.
        count: How many there are.
        bytes: What they take.
        doubted: Ready messages with a lower number may have been handed out before; 0 if none is.
        turn: Messages of the higher one of two levels that went since one of the lower did, while
            there were both.
    """

    def __init__(self, sizes: Sizes, keeps_place: bool = False) -> None:
        """
        Args:
            sizes: Knows all messages that come here.
            keeps_place: See above.
        """
        self.keeps_place: bool = keeps_place
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.doubted: i64 = 0
        self.turn: i64 = 0
        self._sizes: Sizes = sizes
        self._returned: RunQueue = RunQueue()
        self._fresh: RunQueue = RunQueue()
        """What was never handed out, and behind it what returned to the back."""
        self._ranked: bool = False
        """Whether messages go by their ranks: then they are in classes, the highest one first."""
        self._fair: bool = False
        self._classic: bool = False
        """Whether what returned is in classes, too."""
        self._base: i64 = 0
        self._classes: list[Class] = []

    def rank(self, classic: bool, fair: bool, base: i64) -> None:
        """Have messages go by their ranks; those that are here have none.

        Args:
            classic: Whether what returns goes by them, too.
            fair: Whether there are two levels that go fairly.
            base: What ranks are taken with to be compared (`Config.base`).
        """
        if self._ranked:
            return
        self._ranked = True
        self._classic = classic
        self._fair = fair
        self._base = base
        if self._fresh.count > 0:
            self._class(0).fresh = self._fresh
            self._fresh = RunQueue()

    def push(self, first: i64, count: i64, size_bytes: i64, rank: i64 = 0, failed: i64 = 0) -> None:
        """New messages of a rank arrive behind everything.

        Args:
            failed: How often deliveries of each failed before it came here.
        """
        fresh = self._class(rank).fresh if self._ranked else self._fresh
        fresh.push(first, first + count - 1, 0, failed)
        self.count += count
        self.bytes += size_bytes

    def _class(self, rank: i64) -> Class:
        """The class of a rank, which is there from now on."""
        rank ^= self._base
        at: i64 = 0
        classes = self._classes
        while at < len(classes) and classes[at].rank > rank:
            at += 1
        if at < len(classes) and classes[at].rank == rank:
            return classes[at]
        made = Class(rank)
        classes.insert(at, made)
        return made

    def _next(self) -> RunQueue:
        """Where the messages are that are next; if there are none, an empty one."""
        if self._returned.count > 0:
            return self._returned
        if self._fair:
            return self._next_fair()
        if self._ranked:
            for each in self._classes:
                if each.returned.count > 0:
                    return each.returned
                if each.fresh.count > 0:
                    return each.fresh
        return self._fresh

    def _next_fair(self) -> RunQueue:
        """The same of two levels."""
        classes = self._classes
        if len(classes) < 2 or classes[0].fresh.count == 0:
            return self._fresh if not classes else classes[len(classes) - 1].fresh
        high = classes[0].fresh
        normal = classes[1].fresh
        if normal.count == 0 or self.turn < FAIR_SHARE or high.head().first < normal.head().first:
            return high
        return normal

    def _both(self) -> bool:
        """Whether two levels wait for each other."""
        classes = self._classes
        return len(classes) == 2 and classes[0].fresh.count > 0 and classes[1].fresh.count > 0

    def _heads(self) -> list[RunQueue]:
        """The queues of whose heads messages expire.

        A classic queue has one head: as in RabbitMQ, all others wait behind it.
        """
        if self._ranked and not self._classic:
            return self._all()
        if self._ranked or self.keeps_place:
            return [self._next()]
        return [self._returned, self._fresh]

    def _all(self) -> list[RunQueue]:
        """All queues, in the order in which messages go."""
        queues: list[RunQueue] = [self._returned, self._fresh]
        for each in self._classes:
            queues.append(each.returned)
            queues.append(each.fresh)
        return queues

    def levels(self) -> i64:
        """In how many lists messages lie: one of each priority, and one of those that returned."""
        found: i64 = 0
        for queue in self._all():
            if queue.count > 0:
                found += 1
        return found

    def head(self) -> Run:
        """The messages that are next; there must be some. What `take` took is not among them."""
        source = self._next()
        run = source.head()
        if self._fair and source is not self._returned and self._both():
            room = max(1, FAIR_SHARE - self.turn)
            if run.count > room:
                run = Run(run.key, run.first, room, run.acquired, run.failed)
        if run.first < self.doubted and run.acquired == 0:
            return Run(run.key, run.first, min(run.count, self.doubted - run.first), 1, run.failed)
        return run

    def take(self, first: i64, count: i64) -> None:
        """Take so many messages, at most all, from `head`, which begins with the first."""
        source = self._next()
        if self._fair and source is not self._returned:
            if not self._both() or self.turn >= FAIR_SHARE:
                self.turn = 0
            else:
                self.turn += count
        self.bytes -= self._sizes.of(first, count)
        self.count -= count
        source.take(count)
        if self.count == 0:
            assert self.bytes == 0, "where nothing is ready that takes no bytes"
            self.doubted = 0

    def take_expired(self, now_ms: i64) -> Run | None:
        """Take some of the messages that have expired and that nothing stands before.

        They stand at the head of what returned, or of what was never handed out; None if neither
        has any.
        """
        for queue in self._heads():
            if queue.count > 0:
                run = queue.head()
                count = self._sizes.expired(run.first, run.count, now_ms)
                if count > 0:
                    expired = Run(run.first, run.first, count, run.acquired, run.failed)
                    self.bytes -= self._sizes.of(run.first, count)
                    self.count -= count
                    queue.take(count)
                    if self.count == 0:
                        self.doubted = 0
                    return expired
        return None

    def living(self, first: i64, count: i64, now_ms: i64) -> i64:
        """How many of the first of some messages of `head` have not expired, or more."""
        return self._sizes.living(first, count, now_ms)

    def next_expiry(self) -> i64:
        """When the next of those will have expired; `NEVER` if none does before it is a head."""
        found: i64 = NEVER
        for queue in self._heads():
            if queue.count > 0:
                expires_ms = self._sizes.expiry(queue.head().first)
                if found == NEVER or NEVER < expires_ms < found:
                    found = expires_ms
        return found

    def put_back(self, run: Run, place: i64) -> None:
        """Messages that are nobody else's any more are ready again.

        Args:
            place: `BY_NUMBER`, `AT_HEAD` or `AT_BACK`.
        """
        self.count += run.count
        self.bytes += self._sizes.of(run.first, run.count)
        if self._ranked and place != AT_HEAD:
            for part in self._parted(run):
                ranked = self._class(self._sizes.rank(part.first))
                if place == BY_NUMBER:
                    _insert(ranked.returned, ranked.fresh, part)
                else:
                    ranked.fresh.add(part)
        elif place == BY_NUMBER:
            _insert(self._returned, self._fresh, run)
        elif place == AT_BACK:
            self._fresh.add(run)
        else:
            self._returned.add(run)

    def take_all(self) -> list[list[Piece]]:
        """Take everything out, in order, in lists."""
        self.count = 0
        self.bytes = 0
        self.doubted = 0
        taken: list[list[Piece]] = []
        for queue in self._all():
            taken.extend(queue.take_all())
        return taken

    def _parted(self, run: Run) -> list[Run]:
        """A run, cut where its messages rank otherwise."""
        parts: list[Run] = []
        first = run.first
        behind = run.first + run.count
        while first < behind:
            count = self._sizes.alike(first, behind - first)
            parts.append(Run(first, first, count, run.acquired, run.failed))
            first += count
        return parts

    def remove(self, gone: list[tuple[int, int]], ascending: bool) -> list[list[Piece]]:
        """Take messages out, as far as they are here, in lists.

        Args:
            gone: Ascending pairs of first and last numbers.
            ascending: Whether all that returned went back by number; else they are in any order.
        """
        taken: list[list[Piece]] = []
        for queue in self._all():
            if ascending and len(gone) <= FOUND_MAX:
                for first, last in gone:
                    taken.extend(queue.remove(first, last))
            else:
                taken.extend(queue.strike(gone))
        for pieces in taken:
            for piece in opened(pieces):
                run = as_run(piece)
                self.count -= run.count
                self.bytes -= self._sizes.of(run.first, run.count)
        if self.count == 0:
            self.doubted = 0
        return taken

    def take_one(self, number: i64, ascending: bool) -> Run | None:
        """Take one message out, wherever it is; None if it is not here.

        Args:
            ascending: As for `remove`.
        """
        doubted = number < self.doubted
        for pieces in self.remove([(int(number), int(number))], ascending):
            for piece in opened(pieces):
                run = as_run(piece)
                if doubted and run.acquired == 0:
                    return Run(run.key, run.first, 1, 1, run.failed)
                return run
        return None

    def cut_out(self, gone: list[tuple[int, int]]) -> None:
        """Take messages out that are all here; looks at everything.

        Args:
            gone: Ascending pairs of first and last numbers.
        """
        for first, last in gone:
            self.count -= last - first + 1
            self.bytes -= self._sizes.of(first, last - first + 1)
        for queue in self._all():
            if queue.count > 0:
                queue.cut_out(gone)
        if self.count == 0:
            self.doubted = 0

    def count_as_delivered(self, behind: i64) -> None:
        """Nobody knows which messages before a number were handed out before: all may have been."""
        assert behind >= self.doubted, "message numbers ascend"
        if self.count > 0:
            self.doubted = behind

    def return_first(self, behind: i64) -> None:
        """In a classic queue, have all messages before a number count as returned.

        So do those that are before the last one that has returned. Each class is ascending behind
        this, with all that returned before what was never handed out.
        """
        if self._ranked:
            for each in self._classes:
                each.returned, each.fresh = _parted_at(each.returned, each.fresh, behind)
        else:
            self._returned, self._fresh = _parted_at(self._returned, self._fresh, behind)

    def count_of_first(self, runs: i64) -> i64:
        """Messages in about so many of the first runs; twice as many runs, at most."""
        count: i64 = 0
        for queue in self._all():
            count += queue.count_of_first(runs)
        return count

    def freeze(self) -> list[list[Piece]]:
        """Everything as it is now, in lists that do not change."""
        frozen: list[list[Piece]] = []
        for queue in self._all():
            frozen.extend(queue.freeze())
        return frozen

    def parts(self) -> list[list[list[Piece]]]:
        """The same for a snapshot, which has the returned ones first: two lists of lists."""
        returned = self._returned.freeze()
        fresh = self._fresh.freeze()
        for each in self._classes:
            returned.extend(each.returned.freeze())
            fresh.extend(each.fresh.freeze())
        return [returned, fresh]

    def read(self, cursor: Cursor) -> Iterator[None]:
        """Read what a snapshot has of them, in parts; what they take is for `counted`."""
        yield from self._returned.read(cursor)
        yield from self._fresh.read(cursor)
        if self._ranked:
            # What is ready to a restart does not lie there by ranks.
            if self._classic:
                yield from self._enter(self._returned.take_all(), True, cursor)
            yield from self._enter(self._fresh.take_all(), False, cursor)

    def _enter(self, lists: list[list[Piece]], returned: bool, cursor: Cursor) -> Iterator[None]:
        """Put what was read into the classes of its ranks."""
        for pieces in lists:
            for piece in opened(pieces):
                if cursor.room <= 0:
                    yield
                parts = self._parted(as_run(piece))
                cursor.room -= len(parts)
                for part in parts:
                    ranked = self._class(self._sizes.rank(part.first))
                    if returned:
                        ranked.returned.insert(part)
                    else:
                        ranked.fresh.add(part)

    def counted(self, size_bytes: i64) -> None:
        """What was read takes so many bytes."""
        self.count = 0
        for queue in self._all():
            self.count += queue.count
        self.bytes = size_bytes

    def quadruples(self) -> list[tuple[int, int, int, int]]:
        """All as (first, last, acquired, failed), in the order in which they go."""
        found: list[tuple[int, int, int, int]] = []
        quadruples: list[tuple[int, int, int, int]] = []
        for queue in self._all():
            quadruples.extend(queue.quadruples())
        for first, last, acquired, failed in quadruples:
            doubted = min(int(self.doubted), last + 1)
            if acquired > 0 or first >= doubted:
                found.append((first, last, acquired, failed))
                continue
            found.append((first, doubted - 1, 1, failed))
            if doubted <= last:
                found.append((doubted, last, 0, failed))
        return found


def _insert(returned: RunQueue, fresh: RunQueue, run: Run) -> None:
    """Put messages back by their numbers: before what was never handed out, or in its midst.

    They are from its midst if they were picked by their numbers.
    """
    if fresh.count > 0 and fresh.head().first < run.first:
        fresh.insert(run)
    else:
        returned.insert(run)


def _parted_at(returned: RunQueue, fresh: RunQueue, behind: i64) -> tuple[RunQueue, RunQueue]:
    """The messages of two ascending queues: those before a number or a returned one, and others."""
    behind = max(behind, returned.end())
    if fresh.count == 0 or fresh.head().first >= behind:
        return returned, fresh
    before = returned.runs()
    others = RunQueue()
    for run in fresh.runs():
        count = min(max(behind - run.first, 0), run.count)
        if count > 0:
            before.append(as_run(run.part(0, count)))
        if count < run.count:
            others.add(as_run(run.part(count, run.count - count)))
    before.sort(key=first_of)
    merged = RunQueue()
    for run in before:
        merged.add(as_run(run.part(0, run.count)))
    return merged, others
