"""Long lists of pieces, each of which stands for a stretch of numbers, kept in chunks.

What a queue has ready, what a consumer holds and what a channel has not settled may be a million
pieces, each with a gap behind it. They are found by halving, and taken out or put in for the cost
of a chunk: a range that is taken out goes as the lists that it was kept in.

All of them as they are now can be had for the cost of the chunks, too, to be looked at over several
turns: `freeze` gives the lists themselves. A list is copied when it is changed afterwards, and a
piece when it is.

A chunk of a long backlog that nobody works on may be packed: then there is one `Pack` in its place,
which takes a tenth of the memory, and makes the pieces again when one of them is asked for. Whoever
has lists of pieces asks `opened` for what a list stands for.

Where pieces of several owners lie mixed, a full chunk keeps count of what each of them has in it,
so that what all of them have is known for the cost of the chunks.
"""

from __future__ import annotations

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64, mypyc_attr

from warren.ports import Work

CHUNK_PIECES: Final = 256
"""Pieces of a chunk that is full: looking through one, or moving its half, takes microseconds."""

ALL: Final = 1 << 62
"""More than there are pieces in a chunk."""

SHARES_MAX: Final = 64
"""Owners of whom a chunk keeps count: with more of them that would not be much shorter."""

UNCOUNTED_CHUNKS: Final = 32
"""Chunks that are looked through instead: 8,192 pieces or more, in less than a millisecond."""

SPENT_LISTS: Final = 16
"""Lists of pieces that nobody needs any more, which are let go of at a time: half a millisecond."""


@mypyc_attr(acyclic=True)
class Piece:
    """Numbers `key` to `key + count - 1`, and what goes with them."""

    def __init__(self, key: i64, count: i64) -> None:
        self.key: i64 = key
        self.count: i64 = count

    def part(self, offset: i64, count: i64) -> Piece:
        """A piece of its own for some of these numbers."""
        raise AssertionError("a piece defines part")

    def shorten(self, count: i64) -> None:
        """Give up so many of the first numbers."""
        raise AssertionError("a piece defines shorten")

    def kin(self, other: Piece) -> bool:
        """Whether both belong to the same owner, where pieces have one."""
        return True

    def place(self) -> i64:
        """The first of these numbers in what counts its owner's alone, which ascends likewise."""
        return self.key

    def pack(self, pieces: list[Piece]) -> Pack | None:
        """What takes less memory than a list of pieces like this one; None if nothing can."""
        return None


@mypyc_attr(acyclic=True)
class Pack(Piece):
    """What a list of pieces is, in less memory; it does not change.

    As a piece it goes from the beginning of the first to the end of the last, with all that lies
    between them, and it is the only one of its list.

    Attributes:
        size: How many pieces there are.
    """

    def __init__(self, key: i64, count: i64, size: i64) -> None:
        super().__init__(key, count)
        self.size: i64 = size

    def open(self) -> list[Piece]:
        """Make the pieces anew, so that they are nobody else's."""
        raise AssertionError("a pack defines open")

    def meets(self, gone: Stretches) -> bool:
        """Whether there is a number of these stretches in any of the pieces."""
        raise AssertionError("a pack defines meets")


def pack_of(pieces: list[Piece]) -> Pack | None:
    """What stands for the pieces of a list; None if they are in it themselves."""
    if len(pieces) != 1:
        return None
    piece = pieces[0]
    return piece if isinstance(piece, Pack) else None


def opened(pieces: list[Piece]) -> list[Piece]:
    """The pieces that a list stands for."""
    pack = pack_of(pieces)
    return pieces if pack is None else pack.open()


def size_of(pieces: list[Piece]) -> i64:
    """How many pieces a list stands for."""
    pack = pack_of(pieces)
    return len(pieces) if pack is None else pack.size


@final
class Shares:
    """What each owner has in a chunk: from where to where by its own count, and how much of that.

    Attributes:
        kin: Of each owner a piece, which need not be in the chunk any more.
        firsts, behinds: No less than from its first to behind its last; what lies between and is
            not there any more was taken out.
        counts: Its numbers that are there; 0 if there are none any more.
    """

    def __init__(self) -> None:
        self.kin: list[Piece] = []
        self.firsts: vec[i64] = vec[i64]()
        self.behinds: vec[i64] = vec[i64]()
        self.counts: vec[i64] = vec[i64]()
        self._next: i64 = 0
        """Whose turn it is if they take turns."""

    def add(self, piece: Piece) -> bool:
        """Count a piece; False if there are too many owners."""
        at = self._find(piece)
        first = piece.place()
        behind = first + piece.count
        if at < 0:
            if len(self.kin) >= SHARES_MAX:
                return False
            self.kin.append(piece)
            self.firsts = append(self.firsts, first)
            self.behinds = append(self.behinds, behind)
            self.counts = append(self.counts, piece.count)
        else:
            self.firsts[at] = min(self.firsts[at], first)
            self.behinds[at] = max(self.behinds[at], behind)
            self.counts[at] += piece.count
        return True

    def remove(self, pieces: list[Piece]) -> None:
        """These were taken out."""
        for piece in pieces:
            self.counts[self._find(piece)] -= piece.count

    def end_before(self, piece: Piece) -> None:
        """What was the end here came back as the beginning of the next chunk."""
        at = self._find(piece)
        if at >= 0:
            self.behinds[at] = min(self.behinds[at], piece.place())

    def _find(self, piece: Piece) -> i64:
        """Where in the lists the owner of a piece is, or -1."""
        kin = self.kin
        at = self._next
        for _ in range(len(kin)):
            if at >= len(kin):
                at = 0
            if piece.kin(kin[at]):
                self._next = at + 1
                return at
            at += 1
        return -1


@final
class Stretches:
    """Ascending stretches of numbers that are looked for in many pieces.

    Attributes:
        size: How many there are.
        firsts, lasts: Where each begins and ends, both included.
    """

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.size: i64 = len(pairs)
        firsts = vec[i64](capacity=self.size)
        lasts = vec[i64](capacity=self.size)
        for first, last in pairs:
            firsts = append(firsts, i64(first))
            lasts = append(lasts, i64(last))
        self.firsts: vec[i64] = firsts
        self.lasts: vec[i64] = lasts

    def find(self, number: i64) -> i64:
        """Which is the first that ends at or behind a number; there may be none."""
        return self._between(0, self.size, number)

    def find_near(self, number: i64, known: i64) -> i64:
        """The same, for less the nearer it is behind one that is known, as of ascending numbers."""
        if known > 0 and self.lasts[known - 1] >= number:
            return self._between(0, known - 1, number)
        if known < self.size and self.lasts[known] >= number:
            return known
        low = known
        step: i64 = 1
        while low < self.size and self.lasts[low] < number:
            known = low + 1
            low += step
            step *= 2
        return self._between(known, min(low, self.size), number)

    def _between(self, low: i64, high: i64, number: i64) -> i64:
        while low < high:
            middle = (low + high) // 2
            if self.lasts[middle] < number:
                low = middle + 1
            else:
                high = middle
        return low


@final
class Chunk:
    """Some pieces; those before `head` are gone.

    What finds, takes or changes pieces wants them to be themselves, and not packed.

    It is no `HeadedList`, since its list goes as it is to those who look at it or take it out, and
    it is short, so that the gap in front is never closed.

    Attributes:
        count: Numbers in all of its pieces.
        packed: Whether a pack stands for its pieces, all of which are there; see `open`.
        mixed: Whether there may be pieces of several owners in it.
        shares: What each of them has in it, if that was counted.
        frozen: Whether somebody looks at its list, so that it must stay as it is.
        shared_from, shared_behind: Where in it there may be pieces that somebody looks at.
        bounded: Whether `low` and `behind` are known.
        low, behind: No number here is below, or at or above.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.head: i64 = 0
        self.count: i64 = 0
        self.packed: bool = False
        self.mixed: bool = False
        self.shares: Shares | None = None
        self.frozen: bool = False
        self.shared_from: i64 = 0
        self.shared_behind: i64 = 0
        self.bounded: bool = False
        self.low: i64 = 0
        self.behind: i64 = 0

    def live(self) -> list[Piece]:
        """Its pieces, in a list that may be kept if the chunk is not used any more."""
        return self.pieces[self.head :] if self.head > 0 else self.pieces

    def size(self) -> i64:
        """How many pieces it has."""
        return size_of(self.pieces) if self.packed else len(self.pieces) - self.head

    def pack(self) -> None:
        """Take less memory, if its pieces can; it is full, unless somebody takes from it."""
        if self.packed or self.head > 0:
            return
        pack = self.pieces[0].pack(self.pieces)
        if pack is not None:
            if not self.bounded:
                self._bound()
            self.pieces = [pack]
            self.packed = True
            self.frozen = False
            self.shared_behind = 0

    def open(self) -> None:
        """Have its pieces themselves: it is packed."""
        self.pieces = opened(self.pieces)
        self.packed = False
        self.frozen = False
        self.shared_from = 0
        self.shared_behind = 0

    def freeze(self) -> list[Piece]:
        """Its pieces as they are now, whatever becomes of it."""
        if self.head == 0:
            self.frozen = True
        self.shared_from = 0
        self.shared_behind = len(self.pieces)
        return self.live()

    def thaw(self) -> None:
        """Have a list that may be changed."""
        if self.frozen:
            self.pieces = list(self.pieces)
            self.frozen = False

    def moved(self) -> None:
        """Pieces have other places than before."""
        if self.shared_behind > 0:
            self.shared_from = 0
            self.shared_behind = ALL

    def own(self, at: i64) -> Piece:
        """A piece that may be changed."""
        if at < self.shared_from or at >= self.shared_behind:
            return self.pieces[at]
        self.thaw()
        pieces = self.pieces
        piece = pieces[at].part(0, pieces[at].count)
        pieces[at] = piece
        # That of the ends, which are changed again and again, is not copied twice.
        if at <= max(self.shared_from, self.head):
            self.shared_from = at + 1
        elif at == len(pieces) - 1:
            self.shared_behind = at
        return piece

    def share(self) -> bool:
        """Count what each owner has in it; False if these are too many."""
        self.shares = None
        if not self.mixed:
            return True
        shares = Shares()
        pieces = self.pieces
        for at in range(self.head, len(pieces)):
            if not shares.add(pieces[at]):
                return False
        self.shares = shares
        return True

    def find(self, key: i64) -> i64:
        """Index of the first piece that ends at or behind a number."""
        pieces = self.pieces
        low: i64 = self.head
        high: i64 = len(pieces)
        while low < high:
            middle = (low + high) // 2
            piece = pieces[middle]
            if piece.key + piece.count <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def take(self, first: i64, last: i64) -> list[Piece]:
        """Take the numbers `first..last` out."""
        taken: list[Piece] = []
        self.thaw()
        pieces = self.pieces
        at = self.find(first)
        whole = at
        """From here to `at` are the pieces that go as they are."""
        while at < len(pieces):
            piece = pieces[at]
            if piece.key > last:
                break
            end = piece.key + piece.count - 1
            low = max(piece.key, first)
            high = min(end, last)
            size = high - low + 1
            self.count -= size
            if size == piece.count:
                taken.append(piece)
                at += 1
                continue
            taken.append(piece.part(low - piece.key, size))
            piece = self.own(at)
            if low == piece.key:
                piece.shorten(size)
                break
            if high < end:
                pieces.insert(at + 1, piece.part(high + 1 - piece.key, end - high))
                piece.count = low - piece.key
                self.moved()
                break
            piece.count = low - piece.key
            at += 1
            whole = at
        if whole < at:
            if whole == self.head:
                self.head = at
            else:
                del pieces[whole:at]
                self.moved()
        shares = self.shares
        if shares is not None:
            shares.remove(taken)
        return taken

    def strike(self, gone: Stretches) -> list[Piece]:
        """Take numbers out, whatever order the pieces are in; see `Pieces.strike`."""
        if not self.bounded:
            self._bound()
        nearest = gone.find(self.low)
        if nearest == gone.size or gone.firsts[nearest] >= self.behind:
            return []
        if self.packed:
            pack = pack_of(self.pieces)
            if pack is not None and not pack.meets(gone):
                return []
            self.open()
        pieces = self.pieces
        first = gone.firsts[0]
        last = gone.lasts[gone.size - 1]
        size: i64 = len(pieces)
        start = self.head
        near = nearest
        while start < size:
            piece = pieces[start]
            if piece.key <= last and piece.key + piece.count > first:
                near = gone.find_near(piece.key, near)
                if gone.firsts[near] < piece.key + piece.count:
                    break
            start += 1
        taken: list[Piece] = []
        if start == size:
            return taken
        left = pieces[self.head : start]
        for at in range(start, size):
            piece = pieces[at]
            key = piece.key
            behind = key + piece.count
            # From here on nothing of it was looked at.
            rest = key
            turn = gone.size
            if key <= last and behind > first:
                turn = near = gone.find_near(key, near)
            while turn < gone.size and gone.firsts[turn] < behind:
                low = max(key, gone.firsts[turn])
                high = min(behind, gone.lasts[turn] + 1)
                if rest < low:
                    left.append(piece.part(rest - key, low - rest))
                taken.append(piece.part(low - key, high - low))
                self.count -= high - low
                rest = high
                turn += 1
            if rest == key:
                left.append(piece)
            elif rest < behind:
                left.append(piece.part(rest - key, behind - rest))
        if taken:
            self.pieces = left
            self.head = 0
            self.frozen = False
            self.moved()
        return taken

    def _bound(self) -> None:
        """Find out between which numbers all of its own are; there is a piece."""
        pieces = self.pieces
        low = pieces[self.head].key
        behind = low
        for at in range(self.head, len(pieces)):
            piece = pieces[at]
            low = min(low, piece.key)
            behind = max(behind, piece.key + piece.count)
        self.low = low
        self.behind = behind
        self.bounded = True


@final
class Pieces:
    """Pieces in a row; all but the ends, `head` and `push`, want them ascending by their keys.

    Attributes:
        count: Numbers in all of them.
        crowded: Whether there was a chunk with too many owners to keep count of them.
    """

    def __init__(self, owned: bool = False, packs: bool = False) -> None:
        """
        Args:
            owned: Whether pieces have owners, what each has in a chunk is to be counted, and they
                are changed by `push`, `grow_tail`, `take` and `insert` alone.
            packs: Whether chunks may be packed; not those of owners. Then a list that is had from
                here may have a pack in it.
        """
        self.count: i64 = 0
        self.crowded: bool = False
        self._owned: bool = owned
        self._packs: bool = packs
        self._chunks: list[Chunk] = []
        """None is empty, but for the only one."""

    def push(self, piece: Piece) -> None:
        """Append a piece."""
        chunks = self._chunks
        if chunks:
            chunk = chunks[-1]
            if chunk.packed:
                chunk.open()
            if len(chunk.pieces) >= CHUNK_PIECES:
                if self._packs:
                    chunk.pack()
                if self._owned and chunk.shares is None and len(chunks) >= UNCOUNTED_CHUNKS:
                    self._share(chunk)
                chunk = Chunk()
                chunks.append(chunk)
            elif self._owned:
                if self.count == 0:
                    chunk.mixed = False
                elif not chunk.mixed and not piece.kin(chunk.pieces[-1]):
                    chunk.mixed = True
                chunk.shares = None
            if chunk.frozen:
                chunk.thaw()
        else:
            chunk = Chunk()
            chunks.append(chunk)
        chunk.bounded = False
        chunk.pieces.append(piece)
        chunk.count += piece.count
        self.count += piece.count

    def adopt(self, lists: list[list[Piece]]) -> None:
        """Append pieces in lists, which are others' as well and stay as they are."""
        if self.count == 0:
            # Of what was there before, an empty chunk may be left.
            self._chunks.clear()
        for each in lists:
            if not each:
                continue
            pieces = opened(each)
            chunk = Chunk()
            chunk.pieces = pieces
            chunk.frozen = True
            chunk.shared_behind = len(pieces)
            for piece in pieces:
                chunk.count += piece.count
            self._chunks.append(chunk)
            self.count += chunk.count

    def tail(self) -> Piece | None:
        """The last piece."""
        if self.count == 0:
            return None
        return self._last(len(self._chunks) - 1)

    def _last(self, at: i64) -> Piece:
        """The last piece of a chunk."""
        chunk = self._chunks[at]
        if chunk.packed:
            chunk.open()
        return chunk.pieces[-1]

    def grow_tail(self, count: i64) -> None:
        """The last piece goes on for so many more numbers."""
        chunk = self._chunks[-1]
        if chunk.packed:
            chunk.open()
        chunk.shares = None
        chunk.bounded = False
        chunk.own(len(chunk.pieces) - 1).count += count
        chunk.count += count
        self.count += count

    def extend_tail(self, count: i64) -> None:
        """The same, for all who look at the last piece: it is changed as it is."""
        chunk = self._chunks[-1]
        chunk.bounded = False
        chunk.pieces[-1].count += count
        chunk.count += count
        self.count += count

    def replace_tail(self, piece: Piece) -> None:
        """Another piece for the same numbers stands for the last one from now on."""
        chunk = self._chunks[-1]
        chunk.thaw()
        chunk.pieces[-1] = piece

    def head(self) -> Piece:
        """The first piece; there must be one."""
        chunk = self._chunks[0]
        if chunk.packed:
            chunk.open()
        return chunk.pieces[chunk.head]

    def drop(self, count: i64) -> None:
        """Give up so many numbers, at most all, of the first piece."""
        chunk = self._chunks[0]
        if chunk.packed:
            chunk.open()
        piece = chunk.pieces[chunk.head]
        self.count -= count
        chunk.count -= count
        if count < piece.count:
            chunk.own(chunk.head).shorten(count)
            return
        chunk.head += 1
        if chunk.head == len(chunk.pieces):
            self._emptied(0)

    def take(self, first: i64, last: i64) -> list[list[Piece]]:
        """Take the numbers `first..last` out, as far as they are here; they come in order."""
        taken: list[list[Piece]] = []
        if self.count == 0 or first > last:
            return taken
        chunks = self._chunks
        chunk = chunks[0]
        if len(chunks) == 1 and chunk.head == len(chunk.pieces) - 1:
            piece = chunk.pieces[chunk.head]
            if first <= piece.key and piece.key + piece.count - 1 <= last:
                # Who works on a message at a time has nothing else.
                taken.append([piece])
                self.count = 0
                chunk.count = 0
                self._emptied(0)
                return taken
        at = self._find(first)
        start = at
        """From here to `at` are the chunks that go as they are."""
        while at < len(chunks):
            chunk = chunks[at]
            pieces = chunk.pieces
            if pieces[chunk.head].key > last:
                break
            tail = pieces[-1]
            if pieces[chunk.head].key >= first and tail.key + tail.count - 1 <= last:
                taken.append(chunk.live())
                self.count -= chunk.count
                at += 1
                continue
            if chunk.packed:
                chunk.open()
            before = chunk.count
            some = chunk.take(first, last)
            self.count -= before - chunk.count
            if some:
                taken.append(some)
            if start < at:
                # It was the last one that any of them were in.
                break
            at += 1
            start = at
        if start < at:
            del chunks[start:at]
        # Of the first and of the last one a part may be left.
        for cut in range(start, max(start - 3, -1), -1):
            if cut < len(chunks):
                self._tidy(cut)
        return taken

    def strike(self, gone: list[tuple[int, int]]) -> list[list[Piece]]:
        """Take numbers out, whatever order the pieces are in.

        Looks at the pieces of chunks that have numbers near enough, and once at those of chunks
        that have got others since they were looked at last: some nanoseconds a piece. Only chunks
        that have some of the numbers are changed.

        Args:
            gone: Ascending pairs of first and last numbers.
        """
        taken: list[list[Piece]] = []
        if self.count == 0 or not gone:
            return taken
        chunks: list[Chunk] = []
        stretches = Stretches(gone)
        for chunk in self._chunks:
            some = chunk.strike(stretches)
            if some:
                taken.append(some)
            if chunk.head < len(chunk.pieces):
                chunks.append(chunk)
        self._chunks = chunks
        self.count = 0
        at: i64 = 0
        while at < len(chunks):
            # One piece may have become many.
            self._halve(at)
            self.count += chunks[at].count
            at += 1
        return taken

    def take_all(self) -> list[list[Piece]]:
        """Take everything out, in order."""
        taken: list[list[Piece]] = []
        if self.count > 0:
            for chunk in self._chunks:
                taken.append(chunk.live())
        self._chunks = []
        self.count = 0
        return taken

    def holds(self, key: i64) -> bool:
        """Whether a number is in one of the pieces."""
        if self.count == 0:
            return False
        at = self._find(key)
        if at == len(self._chunks):
            return False
        return self._found(at, key).key <= key

    def at(self, key: i64) -> Piece:
        """The piece that has a number, which must be here."""
        piece = self._found(self._find(key), key)
        assert piece.key <= key, f"nothing is known of {key}"
        return piece

    def _found(self, at: i64, key: i64) -> Piece:
        """The first piece that ends at or behind a number, in the first chunk that does."""
        chunk = self._chunks[at]
        if chunk.packed:
            chunk.open()
        return chunk.pieces[chunk.find(key)]

    def insert(self, piece: Piece) -> None:
        """Put a piece where its key belongs; none of its numbers may be here."""
        chunks = self._chunks
        if self.count == 0:
            self.push(piece)
            return
        at = self._find(piece.key)
        shares = chunks[at - 1].shares if at > 0 else None
        if shares is not None:
            shares.end_before(piece)
        if at == len(chunks):
            self.push(piece)
            return
        chunk = chunks[at]
        if chunk.packed:
            chunk.open()
        where = chunk.find(piece.key)
        mixes = not chunk.mixed and not piece.kin(chunk.pieces[where])
        chunk.bounded = False
        chunk.thaw()
        if where > 0 and where == chunk.head:
            chunk.head -= 1
            chunk.pieces[chunk.head] = piece
        else:
            chunk.pieces.insert(where, piece)
            chunk.moved()
        shares = chunk.shares
        if mixes:
            chunk.mixed = True
            self._share(chunk)
        elif shares is not None and not shares.add(piece):
            chunk.shares = None
            self.crowded = True
        chunk.count += piece.count
        self.count += piece.count
        self._halve(at)

    def neighbours(self, key: i64) -> tuple[Piece | None, Piece | None]:
        """The last piece before a number that is not here, and the first behind it."""
        if self.count == 0:
            return None, None
        chunks = self._chunks
        at = self._find(key)
        if at == len(chunks):
            return self._last(at - 1), None
        chunk = chunks[at]
        if chunk.packed:
            chunk.open()
        where = chunk.find(key)
        behind = chunk.pieces[where]
        if where > chunk.head:
            return chunk.pieces[where - 1], behind
        return self._last(at - 1) if at > 0 else None, behind

    def grow(self, piece: Piece, count: i64) -> Piece:
        """A piece that is here goes on for so many more numbers; gives the one to change."""
        chunk = self._chunks[self._find(piece.key)]
        if chunk.packed:
            chunk.open()
        chunk.bounded = False
        grown = chunk.own(chunk.find(piece.key))
        grown.count += count
        chunk.count += count
        self.count += count
        return grown

    def freeze(self) -> list[list[Piece]]:
        """All pieces as they are now, in order, whatever becomes of them here.

        Neither the lists nor the pieces may be changed by whoever takes pieces out, either.
        """
        lists: list[list[Piece]] = []
        if self.count > 0:
            for chunk in self._chunks:
                lists.append(chunk.freeze())
        return lists

    def all(self) -> list[Piece]:
        """All pieces, in order."""
        found: list[Piece] = []
        if self.count > 0:
            for chunk in self._chunks:
                found.extend(opened(chunk.live()))
        return found

    def count_of_first(self, pieces: i64) -> i64:
        """Numbers in about so many of the first pieces: in all of the chunk that the last is in."""
        count: i64 = 0
        if self.count > 0:
            for chunk in self._chunks:
                if pieces <= 0:
                    break
                count += chunk.count
                pieces -= chunk.size()
        return count

    def chunks(self) -> list[Chunk]:
        """All chunks, in order; they are not to be changed."""
        return self._chunks if self.count > 0 else []

    def chunks_from(self, key: i64) -> i64:
        """Index in `chunks` of the first that ends at or behind a number."""
        return self._find(key) if self.count > 0 else 0

    def _find(self, key: i64) -> i64:
        """Index of the first chunk that ends at or behind a number; there must be a piece."""
        chunks = self._chunks
        low: i64 = 0
        high: i64 = len(chunks)
        while low < high:
            middle = (low + high) // 2
            piece = chunks[middle].pieces[-1]
            if piece.key + piece.count <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def _emptied(self, at: i64) -> None:
        """A chunk has no pieces any more; the only one is kept for what comes next."""
        chunks = self._chunks
        if len(chunks) > 1:
            del chunks[at]
        else:
            chunk = chunks[0]
            if chunk.frozen:
                chunk.pieces = []
                chunk.frozen = False
            else:
                chunk.pieces.clear()
            chunk.head = 0
            chunk.packed = False
            chunk.shares = None
            chunk.shared_behind = 0

    def _tidy(self, at: i64) -> None:
        """A chunk lost some pieces, or was cut: chunks are neither long nor sparse for ever."""
        chunks = self._chunks
        chunk = chunks[at]
        left = chunk.size()
        if left == 0:
            self._emptied(at)
            return
        self._halve(at)
        if left < CHUNK_PIECES // 4:
            if not self._join(at):
                self._join(at - 1)

    def _join(self, at: i64) -> bool:
        """Make one of a chunk and the next, if both have few pieces."""
        chunks = self._chunks
        if at < 0 or at + 1 >= len(chunks):
            return False
        chunk = chunks[at]
        other = chunks[at + 1]
        if chunk.size() + other.size() > CHUNK_PIECES // 2:
            return False
        other.thaw()
        other.pieces[: other.head] = chunk.live()
        other.head = 0
        other.count += chunk.count
        other.bounded = False
        other.mixed = True
        if self._owned:
            self._share(other)
        if chunk.shared_behind > 0:
            other.shared_behind = ALL
        other.moved()
        del chunks[at]
        return True

    def _halve(self, at: i64) -> None:
        """Cut a chunk that has become too long in two."""
        chunk = self._chunks[at]
        if chunk.packed or len(chunk.pieces) - chunk.head < 2 * CHUNK_PIECES:
            return
        chunk.thaw()
        middle = chunk.head + CHUNK_PIECES
        other = Chunk()
        other.pieces = chunk.pieces[middle:]
        other.mixed = chunk.mixed
        other.shared_behind = chunk.shared_behind
        other.moved()
        for piece in other.pieces:
            other.count += piece.count
        del chunk.pieces[middle:]
        chunk.count -= other.count
        self._chunks.insert(at + 1, other)
        if self._owned:
            self._share(chunk)
            self._share(other)

    def _share(self, chunk: Chunk) -> None:
        if not chunk.share():
            self.crowded = True


def count_of(lists: list[list[Piece]]) -> i64:
    """How many pieces there are in some lists."""
    count: i64 = 0
    for pieces in lists:
        count += size_of(pieces)
    return count


@final
class LettingGo(Work):
    """Lets go of lists of pieces that nobody needs any more."""

    def __init__(self, lists: list[list[Piece]]) -> None:
        self._lists: list[list[Piece]] = lists

    def go_on(self) -> bool:
        """Let go of some; whether these were the last."""
        del self._lists[-SPENT_LISTS:]
        return not self._lists
