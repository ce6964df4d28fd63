"""The list of the log's files, replaced as a whole whenever it changes.

`log/MANIFEST` is text, one fact a line, closed by a checksum over all lines before it:

    warren-log 4                  format and version
    cluster 4                     the cluster version of what the log may hold; not before version 4
    salt 5f0c...                  16 hexadecimal digits, see `batch.py`
    next 9                        no file has had this number or a higher one
    round 5120                    the last round before the file being written; not in version 2
    file 3 536870912              a closed file and its size, in the order of the log
    file 8 open                   the file being written, always the last
    crc32 0a1b2c3d

The whole text stands there twice, each time with its checksum: one of the two is enough, so that a
sector that is damaged, or cannot be read, does not cost the log. A single one, as older versions
wrote it, is read as well.

Version 3 is written for as long as all that the log holds can be read by nodes of 0.1.0, which
refuse a later one by its name; see `warren.versions`.

A file is part of the log from the moment a manifest names it until one does not, so roll-over and
compaction take effect at one atomic rename whatever the moment of a crash.
"""

from __future__ import annotations

from typing import Final, final

from warren.checksum import crc32
from warren.errors import CorruptRecord, StorageError
from warren.log.files import UNREADABLE
from warren.ports import Disk, File
from warren.versions import NEWEST, too_new

DIRECTORY: Final = "log"
MANIFEST_PATH: Final = "log/MANIFEST"
MANIFEST_DRAFT_PATH: Final = "log/MANIFEST.tmp"
SALVAGE_PATH: Final = "log/SALVAGE"
"""There while the owner of a damaged log that is taken for whole looks for what is gone."""
VERSION_LINE: Final = "warren-log 4"
FORMER_VERSION_LINE: Final = "warren-log 3"
"""Of a log that says no cluster version."""
VERSION_LINES: Final = (b"warren-log 2", b"warren-log 3", b"warren-log 4")
"""Versions that are read."""
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024
BLOCK_BYTES: Final = 4096
COPY_GAP: Final = b"\n" * BLOCK_BYTES
"""Between the two texts of a manifest: disks lose blocks, not bytes."""


def log_path(number: int) -> str:
    """The path of a log file."""
    return f"{DIRECTORY}/{number:08d}.log"


def sidecar_path(number: int) -> str:
    """The path of a log file's index."""
    return f"{DIRECTORY}/{number:08d}.idx"


@final
class Manifest:
    """What one version of `log/MANIFEST` says.

    Attributes:
        salt: The directory's random number.
        next_number: The number for the next file.
        last_round: Number of the last round before the file being written.
        files: (number, size in bytes), in log order; the last one's size is 0, it is open.
        version: The cluster version of what the log may hold; 0 where every release reads it.
    """

    def __init__(
        self,
        salt: int,
        next_number: int,
        last_round: int,
        files: list[tuple[int, int]],
        version: int = 0,
    ) -> None:
        self.salt = salt
        self.next_number = next_number
        self.last_round = last_round
        self.files = files
        self.version = version

    def encode(self) -> bytes:
        """The manifest as the text of its file, checksum included."""
        lines = [VERSION_LINE, f"cluster {self.version}"] if self.version else [FORMER_VERSION_LINE]
        lines += [f"salt {self.salt:016x}", f"next {self.next_number}"]
        lines.append(f"round {self.last_round}")
        for number, size in self.files[:-1]:
            lines.append(f"file {number} {size}")
        lines.append(f"file {self.files[-1][0]} open")
        text = ("\n".join(lines) + "\n").encode()
        text += f"crc32 {crc32(text):08x}\n".encode()
        return text + COPY_GAP + text

    def draft(self, disk: Disk) -> None:
        """Write the new manifest beside the old one. Blocks; raises `OSError`."""
        draft = disk.open(MANIFEST_DRAFT_PATH, create=True)
        try:
            draft.truncate(0)
            draft.write([self.encode()], 0)
            draft.sync()
        finally:
            draft.close()

    def publish(self, disk: Disk) -> None:
        """Let the draft take the old one's place, durably. Blocks; raises `OSError`."""
        disk.rename(MANIFEST_DRAFT_PATH, MANIFEST_PATH)
        disk.sync_directory(DIRECTORY)


def load(disk: Disk) -> Manifest:
    """Read the manifest.

    Raises:
        CorruptRecord: It is damaged.
        OSError: The disk failed, and of neither text gives back all; it may do so later.
        StorageError: It is of another version.
    """
    handle = disk.open(MANIFEST_PATH)
    try:
        try:
            data = handle.read(0, MANIFEST_BYTES_MAX)
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            try:
                return decode(_readable(handle))
            except CorruptRecord:
                raise error from None
    finally:
        handle.close()
    return decode(data)


def _readable(handle: File) -> bytes:
    """What of a file a disk gives back, with zeros in the place of other blocks."""
    size = min(handle.size_bytes(), MANIFEST_BYTES_MAX)
    blocks: list[bytes] = []
    for at in range(0, size, BLOCK_BYTES):
        wanted = min(BLOCK_BYTES, size - at)
        try:
            block = handle.read(at, wanted)
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            block = b""
        blocks.append(block + bytes(wanted - len(block)))
    return b"".join(blocks)


def copies_of(data: bytes) -> list[bytes]:
    """What may be a whole text in a file that holds one twice, with `COPY_GAP` between."""
    texts = [data]
    size = (len(data) - len(COPY_GAP)) // 2
    if size > 0:
        texts += [data[:size], data[-size:]]
    # Where a part is cut off, neither is half of the file.
    texts += [data.partition(b"\n\n")[0] + b"\n", data.rpartition(b"\n\n")[2]]
    return texts


def decode(data: bytes) -> Manifest:
    """Take a manifest's text apart.

    Raises:
        CorruptRecord: It is damaged.
        StorageError: It is of another version.
    """
    for text in copies_of(data):
        body, mark, checksum = text.rpartition(b"crc32 ")
        if mark and checksum == f"{crc32(body):08x}\n".encode():
            break
    else:
        body = b""
    first, _, _ = (body or data).partition(b"\n")
    name, _, version = first.partition(b" ")
    # Another version may have another checksum; but damage makes no two texts begin alike.
    said = bool(body) or data.rpartition(b"\n\n")[2].startswith(first + b"\n")
    if said and name == b"warren-log" and version.isdigit() and first not in VERSION_LINES:
        raise StorageError(
            f"{MANIFEST_PATH}: format {first.decode(errors='replace')!r} is not one this version "
            f"reads ({VERSION_LINE!r}); start the version that wrote it"
        )
    if not body:
        raise CorruptRecord(MANIFEST_PATH, 0, "the checksum does not match")
    salt = 0
    next_number = 0
    last_round = 0
    cluster_version = 0
    files: list[tuple[int, int]] = []
    for line in body.decode().splitlines()[1:]:
        words = line.split(" ")
        if words[0] == "salt":
            salt = int(words[1], 16)
        elif words[0] == "next":
            next_number = int(words[1])
        elif words[0] == "round":
            last_round = int(words[1])
        elif words[0] == "cluster":
            cluster_version = int(words[1])
        elif words[2] == "open":
            files.append((int(words[1]), 0))
        else:
            files.append((int(words[1]), int(words[2])))
    if not files or files[-1][1] != 0:
        raise CorruptRecord(MANIFEST_PATH, 0, "it names no file to write to")
    if cluster_version > NEWEST:
        raise StorageError(too_new("what the log holds", cluster_version, NEWEST))
    return Manifest(salt, next_number, last_round, files, cluster_version)
