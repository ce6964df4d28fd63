"""Messages of a foreign broker in files: the log that such a broker does not give.

A staging directory belongs to one query of one queue. Message numbers count what was staged in it,
from 0 on::

    <first>-<last>.staged   record batches, as a queue of Warren stores them
                            (docs/formats/record-batch.md); never changed
    state.json              {"version": 1, "queue": "orders", "committed": 4000}: what Spark has
                            done with ends before this number
    lock                    held by the process that stages

A file gets its name when all of it is on the disk, and only then the broker is told that its
messages are done with. A process that dies in between gets them again: those with a `message_id`
are told by what the newest files have, and are not staged twice. So these stay for a while when
Spark has done with them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from warren.client.messages import Delivery
from warren.errors import BrokerError, ConfigError, CorruptRecord
from warren.limits import FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES
from warren.log.batch import KIND_MESSAGES, Batch
from warren.message.flavours import AMQP091
from warren.spark.archive import sync
from warren.spark.broker import RowsLost
from warren.spark.records import Block, Stored, parse
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import decode_properties

_VERSION: Final = 1
_STATE: Final = "state.json"
_LOCK: Final = "lock"
_SUFFIX: Final = ".staged"
_PARTIAL: Final = ".tmp"
_DIGITS: Final = 19

#: So many of the newest messages stay at least: the broker may not have heard yet, or may forget
#: when it is killed, that it is rid of them.
_KEPT_ROWS: Final = 10_000

#: How long another process may take to let go of a directory: a query that is started again.
_LOCK_SECONDS: Final = 10.0

#: Between two looks at that.
_LOCK_PAUSE: Final = 0.05


class DirectoryInUse(BrokerError):
    """Another process stages messages in this directory."""


class StagingFailed(BrokerError):
    """The disk does not take what is to be staged."""


class StagedFile(NamedTuple):
    """One file of messages.

    Attributes:
        first, last: Their numbers.
    """

    path: Path
    first: int
    last: int


class StagingDirectory:
    """The files of one query, for the one process that adds to them.

    Attributes:
        committed: What Spark has done with ends before this number.
    """

    def __init__(self, folder: Path, queue: str) -> None:
        """Take the directory, which is made if there is none.

        Raises:
            DirectoryInUse: Another process has it.
            ConfigError: It is of another queue, or of a later release.
            OSError: It cannot be used.
        """
        self._folder = folder
        self._queue = queue
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder)
        try:
            self.committed = self._read_state()
            for left in folder.glob(f"*{_SUFFIX}{_PARTIAL}"):
                left.unlink()
            self._files = deque(staged_files(folder))
        except BaseException:
            self.close()
            raise

    @property
    def next(self) -> int:
        """The number that the next message gets."""
        return max(self.committed, self._files[-1].last + 1 if self._files else 0)

    def add(self, deliveries: Sequence[Delivery]) -> None:
        """Put messages on the disk, but for those that came before.

        Raises:
            StagingFailed: They cannot be put there.
            CorruptRecord: Some were delivered before, and the file that may have them is damaged.
        """
        fresh = self._fresh(deliveries)
        if fresh:
            first, last = self.next, self.next + len(fresh) - 1
            path = self._folder / f"{first:0{_DIGITS}d}-{last:0{_DIGITS}d}{_SUFFIX}"
            _write(path, _encoded(fresh, first))
            self._files.append(StagedFile(path, first, last))

    def commit(self, number: int) -> None:
        """Remember that what comes before a number was done with, and let go of its files."""
        if number > self.committed:
            self._write_state(number)
            self.committed = number
        done = min(self.committed, self.next - _KEPT_ROWS)
        while self._files and self._files[0].last < done:
            self._files.popleft().path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the directory to others."""
        os.close(self._lock)

    def _fresh(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        """Those that are not among the newest messages.

        What was delivered before, and has the id, the route and the body of one of these, is it.
        """
        if not any(delivery.redelivered for delivery in deliveries):
            return deliveries
        known: set[bytes] = set()
        for file in self._files:
            if file.last >= self.next - _KEPT_ROWS:
                known |= _identities_in(file.path)
        return [each for each in deliveries if not each.redelivered or _identity(each) not in known]

    def _write_state(self, committed: int) -> None:
        state = {"version": _VERSION, "queue": self._queue, "committed": committed}
        _write(self._folder / _STATE, json.dumps(state).encode())

    def _read_state(self) -> int:
        try:
            state = json.loads((self._folder / _STATE).read_bytes())
            version, queue, committed = state["version"], state["queue"], int(state["committed"])
        except FileNotFoundError:
            self._write_state(0)
            return 0
        except (ValueError, TypeError, LookupError) as error:
            raise ConfigError(f"{self._folder / _STATE} is damaged: {error}") from error
        if version != _VERSION:
            raise ConfigError(f"{self._folder} was written by a later release of Warren")
        if queue != self._queue:
            raise ConfigError(
                f"{self._folder} has messages of queue {queue!r}, not of {self._queue!r}; give "
                "each query a stagingDirectory of its own"
            )
        return committed


def staged_files(folder: Path) -> list[StagedFile]:
    """The files of a staging directory, in the order of their messages."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        first, dash, last = path.name.removesuffix(_SUFFIX).partition("-")
        if dash and first.isdigit() and last.isdigit():
            found.append(StagedFile(path, int(first), int(last)))
    return sorted(found, key=lambda file: file.first)


def stored_in(path: Path) -> list[Stored]:
    """The messages of a file.

    Raises:
        RowsLost: It is not there.
        CorruptRecord: It is damaged.
    """
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        raise RowsLost(
            f"{path} is not there: each host that runs tasks needs the directory under this path"
        ) from None
    except CorruptRecord as error:
        raise CorruptRecord(str(path), error.offset_bytes, error.reason) from error


def _locked(folder: Path) -> int:
    """A descriptor that holds the directory's lock, which ends with the process."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except OSError:
            if time.monotonic() > end:
                os.close(descriptor)
                raise DirectoryInUse(
                    f"another process stages messages in {folder}; give each query a "
                    "stagingDirectory of its own"
                ) from None
        time.sleep(_LOCK_PAUSE)


def _write(path: Path, data: bytes) -> None:
    """Have a file with this content, whole or not at all, whatever ends the machine.

    Raises:
        StagingFailed: The disk is full, or the folder is gone.
    """
    partial = path.with_name(f"{path.name}{_PARTIAL}")
    try:
        partial.write_bytes(data)
        sync(partial)
        os.replace(partial, path)
        sync(path.parent)
    except OSError as error:
        raise StagingFailed(f"{path} cannot be written: {error.strerror}") from error


def _encoded(deliveries: Sequence[Delivery], first: int) -> bytes:
    """Messages as one record batch."""
    records = []
    for delivery in deliveries:
        method = spec.BasicPublish(exchange=delivery.exchange, routing_key=delivery.routing_key)
        room = max(FRAME_BYTES_MAX, len(delivery.body) + FRAME_OVERHEAD_BYTES)
        records.append(content_frames(0, method, delivery.properties, delivery.body, room))
    lengths = np.array([len(record) for record in records], "<u4").tobytes()
    payload = b"".join(records)
    stamp_ms = int(time.time() * 1000)
    batch = Batch(
        None, KIND_MESSAGES, 0, 0, first, len(records), stamp_ms, lengths, 0, payload, 0,
        len(payload), None, flavour=AMQP091,
    )  # fmt: skip
    return batch.encoded()


def _identity(delivery: Delivery) -> bytes:
    return _identity_of(
        delivery.properties,
        delivery.exchange.encode("utf-8", "surrogateescape"),
        delivery.routing_key.encode("utf-8", "surrogateescape"),
        delivery.body,
    )


def _identities_in(path: Path) -> set[bytes]:
    """What tells a file's messages from all others, of those that have an id."""
    found: set[bytes] = set()
    for stored in stored_in(path):
        block = Block(stored)
        exchanges, exchanges_end, keys, keys_end = block.routing()
        for row in range(len(block)):
            found.add(
                _identity_of(
                    # Properties lie behind their flags.
                    block.data[block.properties[row] - 2 : block.properties_end[row]],
                    block.data[exchanges[row] : exchanges_end[row]],
                    block.data[keys[row] : keys_end[row]],
                    block.body(row),
                )
            )
    return found - {b""}


def _identity_of(properties: bytes, *parts: bytes) -> bytes:
    """What tells a message from all others: its id, its route and its body; empty without an id.

    Other properties do not count: brokers write into the headers how often they delivered it.
    """
    try:
        name = decode_properties(properties, 0, len(properties)).message_id
    except BrokerError:
        return b""
    if not name:
        return b""
    digest = blake2b(digest_size=16)
    for part in (name.encode("utf-8", "surrogateescape"), *parts):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()
