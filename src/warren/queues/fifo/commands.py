"""Commands to a queue's machine, as they lie in the log.

A command batch's payload is a sequence of commands, each an opcode octet and its fields,
big-endian:

    ATTACH   1  consumer i64, credit i64, priority i64
    CANCEL   2  consumer i64
    DOWN     3  consumer i64
    SETTLE   4  consumer i64, first id i64, last id i64
    RETURN   5  consumer i64, first id i64, last id i64, failed u8
    DISCARD  6  consumer i64, first id i64, last id i64
    GET      7  consumer i64
    PURGE    8
    RESET    9
    ACQUIRE  10 lease_ms i64, size i32, group name
    CHECKOUT 11 epoch i64, after i64, rows_max i64, up_to i64, size i32, group name
    GSETTLE  12 epoch i64, up_to i64, size i32, group name
    GRELEASE 13 epoch i64, size i32, group name
    EXPIRE   14 seen_ms i64, size i32, group name
    CONFIG   15 size i32, fields (`config`)
    FREE     16 first message i64, last message i64
    GO_ON    17
    ATTACH_AUTO 18 like ATTACH
    DOUBT    19
    ATTACH_TIMED 20 like ATTACH, timeout_ms i64
    GET_TIMED 21 consumer i64, timeout_ms i64
    TIME_OUT 22
    REJECT   23 like DISCARD
    DELIVERED 24 first death i64, last death i64
    SUSPECT  25 session i64
    TRUST    26 session i64
    ACQUIRE_KEPT 27 like ACQUIRE
    RETAKE   28 epoch i64, number i64, size i32, group name
    GDELETE  29 size i32, group name
    TAKEN    30 number i64, opened_ms i64, size i32, group name, count i32, and so many runs:
                first i64, last i64, acquired i32, failed i32
    PICK     31 consumer i64, message i64, timeout_ms i64

CONFIG is the first command in a classic queue's log, and the first of a quorum queue's first
leader; later ones change settings. FREE is all that a classic queue logs of what its
consumers do with its messages: which numbers left, whoever had them. A quorum queue with a single
copy frees what the disk has lost of it.

ATTACH_AUTO is for a consumer with automatic acknowledgement: what it was handed is settled when it
goes, since it may have seen it. Until then it settles to get more, and may return what it did not
see.

REJECT is DISCARD where a delivery failed with it, which is told of messages that go on elsewhere:
it is for queues with a dead-letter exchange. DELIVERED says that dead letters which the queue kept
are where they belong (`discards`).

DOUBT is logged by a sole copy after a crash: what is ready may have been delivered before.

ATTACH_TIMED and GET_TIMED are for consumers that may hold a message for so long only, and TIME_OUT
has what was held longer return: from cluster version 4 on, so that all members know of all times.

SUSPECT says that nobody hears the node of a session: its consumers keep what they hold and get
nothing more, until TRUST says that it is heard again, or the session is closed.

ACQUIRE_KEPT is for a group that remembers what it had open when its lease ran out; RETAKE takes
such a checkout again, if nobody had any of it since, and GDELETE has a group be gone: from cluster
version 4 on.

TAKEN is what a classic queue logs of a CHECKOUT or RETAKE: a group has the checkout of this number
open, of these runs. Which these are was found out once, by what was ready then; a replay has other
messages ready, since it knows of no consumers. Without runs it says only that the group called.
From cluster version 4 on.

PICK is GET of the one message of a number, if it is ready; a negative timeout is none. From cluster
version 4 on.

GO_ON changes nothing: it is an entry, and each entry has the machine hand out some more, or make
more ready of what is on its way back.

The machine that applies them carries the format's version in its snapshots. What no node writes,
because it is cut off or unknown, ends a payload for every member alike: see `command_end`.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.queues.fifo.config import fields_problem, keeps_place_in
from warren.queues.fifo.pieces import Piece, count_of
from warren.queues.fifo.runs import RUN_BYTES, encode_runs

ATTACH: Final = 1
CANCEL: Final = 2
DOWN: Final = 3
SETTLE: Final = 4
RETURN: Final = 5
DISCARD: Final = 6
GET: Final = 7
PURGE: Final = 8
RESET: Final = 9
ACQUIRE: Final = 10
CHECKOUT: Final = 11
GROUP_SETTLE: Final = 12
GROUP_RELEASE: Final = 13
EXPIRE: Final = 14
CONFIG: Final = 15
FREE: Final = 16
GO_ON: Final = 17
ATTACH_AUTO: Final = 18
DOUBT: Final = 19
ATTACH_TIMED: Final = 20
GET_TIMED: Final = 21
TIME_OUT: Final = 22

REJECT: Final = 23
DELIVERED: Final = 24
SUSPECT: Final = 25
TRUST: Final = 26
ACQUIRE_KEPT: Final = 27
RETAKE: Final = 28
GROUP_DELETE: Final = 29
TAKEN: Final = 30
PICK: Final = 31

LAST: Final = PICK

SETTLE_BYTES: Final = 25

FIELD_BYTES: Final = bytes(
    [0, 24, 8, 8, 24, 25, 24, 8, 0, 0, 8, 32, 16, 8, 8, 0, 16, 0, 24, 0, 32, 16, 0, 24, 16, 8, 8]
    + [8, 16, 0, 16, 24]
)
"""What follows each opcode, but for a group's name, what is behind that, and a CONFIG's fields."""
CREDIT_MAX: Final = 1 << 60
"""Credit of a consumer without a prefetch limit."""


def attach(
    out: BytesWriter, consumer: i64, credit: i64, priority: i64, automatic: bool = False
) -> None:
    """A consumer arrives."""
    out.append(ATTACH_AUTO if automatic else ATTACH)
    write_i64_be(out, consumer)
    write_i64_be(out, credit)
    write_i64_be(out, priority)


def attach_timed(
    out: BytesWriter, consumer: i64, credit: i64, priority: i64, timeout_ms: i64
) -> None:
    """A consumer arrives that may hold each message for so long."""
    out.append(ATTACH_TIMED)
    write_i64_be(out, consumer)
    write_i64_be(out, credit)
    write_i64_be(out, priority)
    write_i64_be(out, timeout_ms)


def cancel(out: BytesWriter, consumer: i64) -> None:
    """A consumer wants no more; it keeps what it holds."""
    out.append(CANCEL)
    write_i64_be(out, consumer)


def down(out: BytesWriter, consumer: i64) -> None:
    """A consumer is gone; what it holds returns."""
    out.append(DOWN)
    write_i64_be(out, consumer)


def settle(out: BytesWriter, consumer: i64, first: i64, last: i64) -> None:
    """Messages are done with."""
    out.append(SETTLE)
    write_i64_be(out, consumer)
    write_i64_be(out, first)
    write_i64_be(out, last)


def return_(out: BytesWriter, consumer: i64, first: i64, last: i64, failed: bool) -> None:
    """Messages go back to the queue."""
    out.append(RETURN)
    write_i64_be(out, consumer)
    write_i64_be(out, first)
    write_i64_be(out, last)
    out.append(1 if failed else 0)


def discard(out: BytesWriter, consumer: i64, first: i64, last: i64, failed: bool = False) -> None:
    """Messages were rejected for good."""
    out.append(REJECT if failed else DISCARD)
    write_i64_be(out, consumer)
    write_i64_be(out, first)
    write_i64_be(out, last)


def delivered(out: BytesWriter, first: i64, last: i64) -> None:
    """Dead letters are where they belong."""
    out.append(DELIVERED)
    write_i64_be(out, first)
    write_i64_be(out, last)


def suspect(out: BytesWriter, session: i64) -> None:
    """Nobody hears the node of a session."""
    out.append(SUSPECT)
    write_i64_be(out, session)


def trust(out: BytesWriter, session: i64) -> None:
    """It is heard again."""
    out.append(TRUST)
    write_i64_be(out, session)


def get(out: BytesWriter, consumer: i64) -> None:
    """One message, if there is one."""
    out.append(GET)
    write_i64_be(out, consumer)


def get_timed(out: BytesWriter, consumer: i64, timeout_ms: i64) -> None:
    """One message, if there is one, to be held for so long."""
    out.append(GET_TIMED)
    write_i64_be(out, consumer)
    write_i64_be(out, timeout_ms)


def pick(out: BytesWriter, consumer: i64, number: i64, timeout_ms: i64) -> None:
    """One message by its number, if it is ready.

    Args:
        timeout_ms: How long it may be held; negative for any time.
    """
    out.append(PICK)
    write_i64_be(out, consumer)
    write_i64_be(out, number)
    write_i64_be(out, timeout_ms)


def time_out(out: BytesWriter) -> None:
    """What consumers have held for too long returns."""
    out.append(TIME_OUT)


def purge(out: BytesWriter) -> None:
    """All ready messages go."""
    out.append(PURGE)


def reset(out: BytesWriter) -> None:
    """The node of all consumers restarted: what they held returns, and they are gone."""
    out.append(RESET)


def acquire(out: BytesWriter, group: str, lease_ms: i64, kept: bool = False) -> None:
    """A reader takes a group over.

    Args:
        kept: The group is to remember what it has open when its lease runs out.
    """
    out.append(ACQUIRE_KEPT if kept else ACQUIRE)
    write_i64_be(out, lease_ms)
    _name(out, group)


def checkout(
    out: BytesWriter, group: str, epoch: i64, after: i64, rows_max: i64, up_to: i64
) -> None:
    """A reader takes the next messages, or what it took before and did not settle."""
    out.append(CHECKOUT)
    write_i64_be(out, epoch)
    write_i64_be(out, after)
    write_i64_be(out, rows_max)
    write_i64_be(out, up_to)
    _name(out, group)


def group_settle(out: BytesWriter, group: str, epoch: i64, up_to: i64) -> None:
    """A reader is done with all checkouts up to a number."""
    out.append(GROUP_SETTLE)
    write_i64_be(out, epoch)
    write_i64_be(out, up_to)
    _name(out, group)


def group_release(out: BytesWriter, group: str, epoch: i64) -> None:
    """A reader gives its open checkouts back."""
    out.append(GROUP_RELEASE)
    write_i64_be(out, epoch)
    _name(out, group)


def retake(out: BytesWriter, group: str, epoch: i64, number: i64) -> None:
    """A reader wants a checkout again that its group had open when its lease ran out."""
    out.append(RETAKE)
    write_i64_be(out, epoch)
    write_i64_be(out, number)
    _name(out, group)


def group_delete(out: BytesWriter, group: str) -> None:
    """A group is gone, and gives its open checkouts back."""
    out.append(GROUP_DELETE)
    _name(out, group)


def expire(out: BytesWriter, group: str, seen_ms: i64) -> None:
    """A group's lease ran out; like a release, and its epoch is fenced.

    Args:
        seen_ms: The call that the lease counts from, in the log's time; a later one renewed it.
    """
    out.append(EXPIRE)
    write_i64_be(out, seen_ms)
    _name(out, group)


def taken(
    out: BytesWriter, group: str, number: i64, opened_ms: i64, lists: list[list[Piece]]
) -> None:
    """A group has a checkout open from now on, or has called.

    Args:
        number: The checkout's; 0 where the group has only called.
        lists: Its runs; none where the group has only called.
    """
    out.append(TAKEN)
    write_i64_be(out, number)
    write_i64_be(out, opened_ms)
    _name(out, group)
    write_i32_be(out, i32(count_of(lists)))
    for pieces in lists:
        encode_runs(out, pieces)


def config(out: BytesWriter, fields: bytes) -> None:
    """Settings change, or are there for the first time.

    Args:
        fields: What `warren.queues.fifo.config` writes.
    """
    out.append(CONFIG)
    write_i32_be(out, i32(len(fields)))
    out.write(fields)


def free(out: BytesWriter, first: i64, last: i64) -> None:
    """Messages left the queue."""
    out.append(FREE)
    write_i64_be(out, first)
    write_i64_be(out, last)


def go_on(out: BytesWriter) -> None:
    """The machine is not through with handing out."""
    out.append(GO_ON)


def doubt(out: BytesWriter) -> None:
    """What is ready may have been delivered before."""
    out.append(DOUBT)


def _name(out: BytesWriter, name: str) -> None:
    data = name.encode()
    write_i32_be(out, i32(len(data)))
    out.write(data)


# --- what comes from elsewhere ------------------------------------------------------------------


def command_end(payload: bytes, at: i64, end: i64) -> i64:
    """The offset behind the command that begins at one; -1 if it is cut off, or none.

    Args:
        end: Behind the last command. It is beyond `at`, and within `payload`.
    """
    opcode: i64 = payload[at]
    if opcode == 0 or opcode > LAST:
        return -1
    at += 1 + i64(FIELD_BYTES[opcode])
    if ACQUIRE <= opcode <= CONFIG or ACQUIRE_KEPT <= opcode <= TAKEN:
        if at + 4 > end:
            return -1
        size = i64(read_i32_be(payload, at))
        at += 4
        if size < 0 or at + size > end:
            return -1
        if opcode == CONFIG:
            return -1 if fields_problem(payload, at, at + size) else at + size
        try:
            payload[at : at + size].decode()
        except UnicodeDecodeError:
            return -1
        at += size
        if opcode == TAKEN:
            if at + 4 > end:
                return -1
            count = i64(read_i32_be(payload, at))
            at += 4 + RUN_BYTES * count
            if count < 0:
                return -1
    return at if at <= end else -1


def problem(payload: bytes) -> str:
    """Why no node would submit this to a group; empty if one would, as none at all."""
    at: i64 = 0
    end: i64 = len(payload)
    while at < end:
        opcode: i64 = payload[at]
        behind = command_end(payload, at, end)
        if behind < 0:
            return f"command {opcode} is unknown, or not whole, or names an unknown setting"
        if opcode in (RESET, FREE, DOUBT, TAKEN):
            return f"command {opcode} is for a queue of one node"
        if opcode == ATTACH or opcode == ATTACH_AUTO or opcode == ATTACH_TIMED:
            if opcode == ATTACH_TIMED and read_i64_be(payload, at + 25) < 0:
                return "a consumer has a timeout that cannot be"
            if not 0 < read_i64_be(payload, at + 9) <= CREDIT_MAX:
                return "a consumer has credit that cannot be"
        elif opcode in (SETTLE, RETURN, DISCARD, REJECT):
            if read_i64_be(payload, at + 9) > read_i64_be(payload, at + 17):
                return "messages are named from the last to the first"
        elif opcode == DELIVERED:
            if not 0 <= read_i64_be(payload, at + 1) <= read_i64_be(payload, at + 9):
                return "dead letters are named from the last to the first"
        elif opcode == GET_TIMED and read_i64_be(payload, at + 9) < 0:
            return "a consumer has a timeout that cannot be"
        elif opcode == PICK and read_i64_be(payload, at + 9) < 0:
            return "a message has a number that cannot be"
        elif opcode == CONFIG and keeps_place_in(payload, at + 5, behind):
            return "messages keep their places in a queue of one node only"
        at = behind
    return ""
