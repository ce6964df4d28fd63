"""Bodies that lie on disk while memory is short, of queues that have no log (CQ-04).

Queues that do not outlive their node keep what they hold in memory. When the node's memory runs
short, what they deliver last is written into files, and comes back when it is its turn. Nobody
reads those files after the process: they are not synced, and the next start removes them. A file
goes when nothing in it is wanted any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.checksum import crc32
from warren.errors import CorruptRecord
from warren.log.batch import Batch
from warren.log.files import UNREADABLE, read_patiently
from warren.ports import Disk, Executor, File, Job

if TYPE_CHECKING:
    from warren.queues.transient import TransientQueue

DIRECTORY: Final = "paging"
LANE: Final = "paging"
FILE_BYTES: Final = 16_777_216
WRITE_BYTES: Final = 4_194_304
"""One write has about so much."""
READ_BYTES: Final = 1_048_576
"""One read brings back so much, or one batch that is larger."""
KEEP_BYTES: Final = 65_536
"""What a queue delivers next stays in memory, up to so much; less is not worth a look."""
QUEUES_AT_ONCE: Final = 64
BATCHES_AT_ONCE: Final = 4_096
"""So many of them one turn looks at."""


@final
class PageFile:
    """One file with bodies.

    Attributes:
        wanted: Batches in it that are still in their queues.
    """

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.handle: File | None = None
        self.size: i64 = 0
        self.wanted: i64 = 0


@final
class PagePlace:
    """Where a batch's body lies, or is about to.

    Attributes:
        written: Whether it does, so that memory need not have it.
    """

    def __init__(self, file: PageFile, offset: i64) -> None:
        self.file: PageFile = file
        self.offset: i64 = offset
        self.checksum: i64 = 0
        self.written: bool = False


@final
class ResidentBatch:
    """A batch, how many of its messages are still in the queue, and where its body is on disk."""

    def __init__(self, batch: Batch) -> None:
        self.batch: Batch = batch
        self.live: i64 = batch.count
        self.place: PagePlace | None = None

    def is_here(self) -> bool:
        """Whether its body is in memory."""
        return self.place is None or len(self.batch.payload) > 0


@final
class Pages:
    """The files of a node, and what goes there."""

    def __init__(self, disk: Disk, executor: Executor, warn: Callable[[str], None]) -> None:
        self.disk: Disk = disk
        self._executor: Executor = executor
        self._warn: Callable[[str], None] = warn
        self._large: dict[TransientQueue, None] = {}
        """Queues that have more in memory than they keep there, in the order of their turns,"""
        self._lazy: dict[TransientQueue, None] = {}
        """and those that are to have no more at any time."""
        self._excess: i64 = 0
        """How much more there is in memory than should be."""
        self._file: PageFile | None = None
        """The one that is written."""
        self._files: i64 = 0
        self._writing: bool = False

    def clear(self) -> None:
        """Remove what another life of the node left. Blocks."""
        for name in self.disk.list(DIRECTORY):
            self.disk.remove(f"{DIRECTORY}/{name}")

    def note(self, queue: TransientQueue) -> None:
        """A queue has something that may go to disk."""
        queue.noted = True
        if queue.lazy:
            self._lazy[queue] = None
        else:
            self._large[queue] = None

    def forget(self, queue: TransientQueue) -> None:
        """A queue has nothing that could go to disk."""
        if queue.noted:
            queue.noted = False
            self._large.pop(queue, None)
            self._lazy.pop(queue, None)

    def tick(self, excess_bytes: i64) -> None:
        """Begin to write; called about once a second, unless the disk is full.

        Args:
            excess_bytes: How much more there is in memory than should be; negative if none is.
        """
        self._excess = excess_bytes
        self._go_on()

    def _go_on(self) -> None:
        if self._writing:
            return
        writing = PageWrite(self)
        self._gather(self._lazy, writing, WRITE_BYTES)
        if self._excess > 0:
            room = min(WRITE_BYTES - writing.size, self._excess)
            self._excess -= self._gather(self._large, writing, room)
        if writing.residents:
            self._writing = True
            self._executor.submit(LANE, writing)

    def _gather(self, queues: dict[TransientQueue, None], writing: PageWrite, room: i64) -> i64:
        """Take bodies of queues in turns; gives how much leaves memory."""
        taken: i64 = 0
        for _ in range(min(len(queues), QUEUES_AT_ONCE)):
            if taken >= room or len(writing.residents) >= BATCHES_AT_ONCE:
                break
            queue = next(iter(queues))
            del queues[queue]
            queue.noted = False
            some = queue.page_out(writing, room - taken)
            if some > 0:
                self.note(queue)
            taken += some
        return taken

    def place(self, size: i64) -> PagePlace:
        """Where the next body of the write goes that is being gathered."""
        file = self._file
        if file is None:
            self._files += 1
            file = PageFile(f"{DIRECTORY}/{self._files:016x}")
            self._file = file
        place = PagePlace(file, file.size)
        file.size += size
        file.wanted += 1
        return place

    def is_full(self) -> bool:
        """Whether what follows goes to another file, in another write."""
        return self._file is not None and self._file.size >= FILE_BYTES

    def written(self, error: BaseException | None) -> None:
        """A write came back."""
        self._writing = False
        if error is not None:
            self._warn(f"messages stay in memory, since they cannot be written: {error}")
            self._excess = 0
            self._file = None
            return
        if self.is_full():
            self._file = None
        self._go_on()

    def read(self, reading: PageRead) -> None:
        """Have bodies come back."""
        self._executor.submit(LANE, reading)

    def let_go(self, place: PagePlace) -> None:
        """A body is not wanted any more."""
        file = place.file
        file.wanted -= 1
        if file.wanted == 0:
            if self._file is file:
                self._file = None
            self._executor.submit(LANE, Removing(self.disk, file))


@final
class PageWrite(Job):
    """A write of bodies of some queues, back to back."""

    def __init__(self, pages: Pages) -> None:
        self.size: i64 = 0
        self.residents: list[ResidentBatch] = []
        self._pages: Pages = pages
        self._queues: list[TransientQueue] = []
        self._places: list[PagePlace] = []
        self._bodies: list[bytes] = []
        self._checksums: list[int] = []

    def add(self, queue: TransientQueue, resident: ResidentBatch) -> None:
        """Have a body written that is in memory and has no place yet."""
        body = resident.batch.payload
        place = self._pages.place(len(body))
        resident.place = place
        self.size += len(body)
        self.residents.append(resident)
        self._queues.append(queue)
        self._places.append(place)
        self._bodies.append(body)

    def is_full(self) -> bool:
        """Whether the rest has to wait for another write."""
        return self._pages.is_full()

    def run(self) -> None:
        """Write. Blocks."""
        first = self._places[0]
        file = first.file
        handle = file.handle
        if handle is None:
            disk = self._pages.disk
            disk.make_directory(DIRECTORY)
            handle = disk.open(file.path, True)
            file.handle = handle
        self._checksums = [crc32(body) for body in self._bodies]
        handle.write(self._bodies, int(first.offset))

    def done(self, error: BaseException | None) -> None:
        """Let memory go, or keep it."""
        for at, resident in enumerate(self.residents):
            place = self._places[at]
            if resident.place is not place:
                # It has left its queue meanwhile.
                continue
            if error is None:
                place.checksum = self._checksums[at]
                place.written = True
                self._queues[at].let_go_of_body(resident)
            else:
                resident.place = None
                self._pages.let_go(place)
                self._queues[at].not_paged(resident)
        self._pages.written(error)


@final
class PageRead(Job):
    """A read of bodies that lie back to back in a file."""

    def __init__(self, queue: TransientQueue, file: PageFile, offset: i64) -> None:
        self.residents: list[ResidentBatch] = []
        self.bodies: list[bytes] = []
        """Theirs; empty for one that is damaged."""
        self.path: str = file.path
        self.offset: i64 = offset
        self.size: i64 = 0
        self._queue: TransientQueue = queue
        self._file: PageFile = file
        self._checksums: list[int] = []
        self._sizes: list[int] = []

    def add(self, resident: ResidentBatch, place: PagePlace) -> None:
        """Read this one, too, which follows."""
        self.residents.append(resident)
        self._checksums.append(int(place.checksum))
        self._sizes.append(int(resident.batch.payload_size))
        self.size += resident.batch.payload_size

    def run(self) -> None:
        """Read, and compare checksums. Blocks.

        Raises:
            OSError: The disk failed for now.
        """
        handle = self._file.handle
        assert handle is not None, "what is read was written"
        try:
            data = read_patiently(handle, self.offset, self.size)
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            data = b""
        at = 0
        for place, size in enumerate(self._sizes):
            body = data[at : at + size]
            at += size
            whole = len(body) == size and crc32(body) == self._checksums[place]
            self.bodies.append(body if whole else b"")

    def done(self, error: BaseException | None) -> None:
        """Hand them on."""
        self._queue.bodies_back(self, error)

    def damage(self, lost: list[tuple[int, int]]) -> CorruptRecord:
        """What to say of messages that are lost."""
        error = CorruptRecord(self.path, self.offset, "a body is not as it was written")
        error.lost = lost
        return error


@final
class Removing(Job):
    """The end of a file."""

    def __init__(self, disk: Disk, file: PageFile) -> None:
        self._disk: Disk = disk
        self._file: PageFile = file

    def run(self) -> None:
        """Remove it. Blocks."""
        handle = self._file.handle
        if handle is not None:
            handle.close()
            self._disk.remove(self._file.path)

    def done(self, error: BaseException | None) -> None:
        """What cannot be removed now is at the next start."""


@final
class PagedBodies:
    """What a queue knows of its bodies on disk.

    Attributes:
        to: Messages below are on disk, or were kept in memory to be delivered soon.
        back: Batches that came back, and are on disk all the same.
        reading: Whether a read is under way.
        stalled: Whether the disk failed, so that it is read again a while later only.
    """

    def __init__(self) -> None:
        self.to: i64 = 0
        self.back: list[ResidentBatch] = []
        self.reading: bool = False
        self.stalled: bool = False
