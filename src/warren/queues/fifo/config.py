"""How a machine is set up, which an entry of the log may change at any time.

CONFIG has fields, each `key u8, size u16, value`, and sets those that it names; the others stay as
they are. It may come again, with the same fields or others, and counts from its place in the log
on: what returned before has the delivery limit of that time, what returns afterwards this one,
however often it was delivered before.

    KEEPS_PLACE     1  u8   1: returned messages go back to where they were (classic queues)
    DELIVERY_LIMIT  2  i64  returns that a message survives, or `FAILURES`; negative for no limit
    EXPIRES         3  i64  milliseconds that the queue may be unused; negative for ever
    MESSAGE_TTL     4  i64  milliseconds after which messages expire; negative for never
    MAX_LENGTH      5  i64  ready messages that there may be; negative for no limit
    SINGLE_ACTIVE   6  u8   1: one consumer at a time is served; what is so stays so
    MAX_BYTES       7  i64  bytes that they may take; negative for no limit
    REJECTS         8  u8   1: publishes are rejected where there is too much; else the first go
    MAX_PRIORITY    9  u8   the highest priority of a classic queue; 0 if it has none
    RANKING        10  u8   how messages of a quorum queue rank: `UNRANKED`, `FAIR` or `STRICT`;
                            once it is not the first, it stays so
    DEAD_LETTERS   11  u8   what becomes of messages that die, see `dead_letters`
    FAILURES       12  u8   1: failed deliveries count towards the limit, and no other returns;
                            what is so stays so
    RETRY          13  u8 i64 i64  what waits of what returns, see `delayed`, for how many
                            milliseconds at least, and at most; both above 0

A new setting is a key more. A node that does not know it would go on otherwise than those that do,
so an unknown key ends an entry as any other damage does, and a node sends a new one only where all
nodes know it.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i16_be, read_i64_be, write_i16_be, write_i64_be
from mypy_extensions import i16, i64

from warren.queues.fifo.dead_letters import AT_LEAST_ONCE, AT_THEIR_TIME, FORGOTTEN
from warren.queues.fifo.delayed import DISABLED, NO_RETRY, RETURNED, Retry
from warren.queues.fifo.ready import AT_BACK, AT_HEAD, BY_NUMBER

KEEPS_PLACE: Final = 1
DELIVERY_LIMIT: Final = 2
EXPIRES: Final = 3
MESSAGE_TTL: Final = 4
MAX_LENGTH: Final = 5
SINGLE_ACTIVE: Final = 6
MAX_BYTES: Final = 7
REJECTS: Final = 8
MAX_PRIORITY: Final = 9
RANKING: Final = 10
DEAD_LETTERS: Final = 11
FAILURES: Final = 12
RETRY: Final = 13

VALUE_BYTES: Final = bytes([0, 1, 8, 8, 8, 8, 1, 8, 1, 1, 1, 1, 1, 17])
"""The size of each key's value."""

FIELD_HEAD_BYTES: Final = 3

NOT_SET_UP: Final = -2
"""The delivery limit of a machine that nobody has set up yet: none, for as long as that lasts."""


UNRANKED: Final = 0
"""Messages go in their order, whatever priority they have."""
FAIR: Final = 1
"""There are two levels, and of each three messages two of the higher one (PRI-02 to PRI-04)."""
STRICT: Final = 2
"""The highest priority goes first; there are 32, and those without one are of the fifth."""
HIGH_FROM: Final = 5
"""The lowest priority of the higher one of two levels."""
STRICT_MAX: Final = 31
STRICT_DEFAULT: Final = 4
"""What messages without a priority have in a quorum queue, which is the lower one of two levels."""


@final
class Limits:
    """How much of a queue's messages may be ready, and what happens to more.

    Attributes:
        max_length: How many; negative for no limit.
        max_bytes: How many bytes they may take, as `warren.log.facts` counts them; likewise.
        rejects: Whether publishes are rejected where there is too much; else the first ready
            messages are dropped.
    """

    def __init__(self, max_length: i64 = -1, max_bytes: i64 = -1, rejects: bool = False) -> None:
        self.max_length: i64 = max_length
        self.max_bytes: i64 = max_bytes
        self.rejects: bool = rejects

    def same(self, other: Limits) -> bool:
        """Whether both say the same."""
        return (
            self.max_length == other.max_length
            and self.max_bytes == other.max_bytes
            and self.rejects == other.rejects
        )


@final
class Config:
    """The settings in force.

    Attributes:
        keeps_place: Whether a returned message goes back to exactly where it was.
        delivery_limit: Failed deliveries that a message survives, or returns; negative for no limit
            (POI-03, POI-04), and `NOT_SET_UP` until CONFIG has come.
        expires_ms: How long the queue may be unused before it goes; negative for ever (QQ-12).
        message_ttl_ms: After what time messages expire that come from now on; negative for never.
        max_length: Ready messages that there may be; negative for no limit.
        single_active: Whether one consumer at a time is served (QQ-18).
        max_bytes: Bytes that they may take; likewise.
        rejects: Whether publishes are rejected where there is too much; else the first are dropped.
        max_priority: The highest priority of a classic queue's messages; 0 if they have none.
        ranking: How a quorum queue's messages rank.
        dead_letters: `FORGOTTEN`, or how messages that die go on elsewhere.
        failures: Whether failed deliveries count alone, and no other returns (POI-01, POI-02).
        retry: What waits of what returns, and for how long.
    """

    def __init__(self, delivery_limit: i64, keeps_place: bool) -> None:
        self.delivery_limit: i64 = delivery_limit
        self.keeps_place: bool = keeps_place
        self.forget()

    def forget(self) -> None:
        """Have all settings be those of a queue without any, but for the first two."""
        self.expires_ms: i64 = -1
        self.message_ttl_ms: i64 = -1
        self.max_length: i64 = -1
        self.single_active: bool = False
        self.max_bytes: i64 = -1
        self.rejects: bool = False
        self.max_priority: i64 = 0
        self.ranking: i64 = UNRANKED
        self.dead_letters: i64 = FORGOTTEN
        self.failures: bool = False
        self.retry: Retry = NO_RETRY

    def keeps_dead(self) -> bool:
        """Whether messages that die stay until they are elsewhere."""
        return self.dead_letters >= AT_LEAST_ONCE

    def rank(self, priority: i64) -> i64:
        """How a message ranks; 0 where it has no priority, which is what is noted of most.

        Among themselves ranks go by `base`.
        """
        if priority < 0:
            return 0
        if self.keeps_place:
            return min(priority, self.max_priority)
        if self.ranking == STRICT:
            return min(priority, STRICT_MAX) ^ STRICT_DEFAULT
        return 1 if self.ranking == FAIR and priority >= HIGH_FROM else 0

    def base(self) -> i64:
        """What ranks are to be taken with, by exclusive or, so that the higher goes first."""
        return STRICT_DEFAULT if self.ranking == STRICT and not self.keeps_place else 0

    def is_limited(self) -> bool:
        """Whether there may only be so many messages, or bytes of them."""
        return self.max_length >= 0 or self.max_bytes >= 0

    def limits(self) -> Limits:
        """The limits in force."""
        return Limits(self.max_length, self.max_bytes, self.rejects)

    def set_limits(self, limits: Limits) -> None:
        """Have other limits."""
        self.max_length = limits.max_length
        self.max_bytes = limits.max_bytes
        self.rejects = limits.rejects

    def counted(self, acquired: i64, failed: i64) -> i64:
        """What counts towards the delivery limit of what came back, and failed, so often."""
        return failed if self.failures else acquired

    def place(self, given: bool) -> i64:
        """Where what returns now is put back (POI-11, POI-12).

        The guides have what clients give back go to the back where there is no limit, and RabbitMQ
        4.3 has nothing go there.

        Args:
            given: Whether a client gave it back, which could be for ever.
        """
        if self.keeps_place:
            return BY_NUMBER
        if self.delivery_limit >= 0:
            return AT_HEAD
        if not self.failures:
            # As in 0.1.0, whose members may be among those of the queue.
            return AT_BACK
        return AT_BACK if given and self.ranking != STRICT else AT_HEAD

    def encode(self, out: BytesWriter) -> None:
        """Append all settings as the fields of a CONFIG, but for those that earlier releases do
        not know and that are not made use of.
        """
        write_keeps_place(out, self.keeps_place)
        write_delivery_limit(out, self.delivery_limit)
        if self.expires_ms >= 0:
            write_expires(out, self.expires_ms)
        if self.message_ttl_ms >= 0:
            write_message_ttl(out, self.message_ttl_ms)
        if self.max_length >= 0:
            write_max_length(out, self.max_length)
        if self.single_active:
            write_single_active(out)
        if self.max_bytes >= 0:
            write_max_bytes(out, self.max_bytes)
        if self.rejects:
            write_rejects(out, True)
        if self.max_priority > 0:
            write_max_priority(out, self.max_priority)
        if self.ranking != UNRANKED:
            write_ranking(out, self.ranking)
        if self.dead_letters != FORGOTTEN:
            write_dead_letters(out, self.dead_letters)
        if self.failures:
            write_failures(out)
        if self.retry.kind != DISABLED:
            write_retry(out, self.retry)

    def lacks(self, wanted: Config, key: i64) -> bool:
        """Whether a setting is otherwise than in the one that is wanted, and can become so."""
        if key == KEEPS_PLACE:
            return self.keeps_place != wanted.keeps_place
        if key == DELIVERY_LIMIT:
            return self.delivery_limit != wanted.delivery_limit
        if key == EXPIRES:
            return self.expires_ms != wanted.expires_ms
        if key == MESSAGE_TTL:
            return self.message_ttl_ms != wanted.message_ttl_ms
        if key == MAX_LENGTH:
            return self.max_length != wanted.max_length
        if key == SINGLE_ACTIVE:
            return wanted.single_active and not self.single_active
        if key == MAX_BYTES:
            return self.max_bytes != wanted.max_bytes
        if key == REJECTS:
            return self.rejects != wanted.rejects
        if key == MAX_PRIORITY:
            return self.max_priority != wanted.max_priority
        if key == RANKING:
            return self.ranking == UNRANKED and wanted.ranking != UNRANKED
        if key == DEAD_LETTERS:
            return self.dead_letters != wanted.dead_letters
        if key == FAILURES:
            return wanted.failures and not self.failures
        assert key == RETRY, key
        return not self.retry.same(wanted.retry)

    def lacks_any(self, wanted: Config, fields: bytes) -> bool:
        """Whether that is so of any setting that is among the fields of a CONFIG."""
        at: i64 = 0
        while at < len(fields):
            key: i64 = fields[at]
            if self.lacks(wanted, key):
                return True
            at += FIELD_HEAD_BYTES + i64(VALUE_BYTES[key])
        return False

    def write(self, out: BytesWriter, key: i64) -> None:
        """Append one setting as a field of a CONFIG."""
        if key == KEEPS_PLACE:
            write_keeps_place(out, self.keeps_place)
        elif key == DELIVERY_LIMIT:
            write_delivery_limit(out, self.delivery_limit)
        elif key == EXPIRES:
            write_expires(out, self.expires_ms)
        elif key == MESSAGE_TTL:
            write_message_ttl(out, self.message_ttl_ms)
        elif key == MAX_LENGTH:
            write_max_length(out, self.max_length)
        elif key == SINGLE_ACTIVE:
            write_single_active(out)
        elif key == MAX_BYTES:
            write_max_bytes(out, self.max_bytes)
        elif key == REJECTS:
            write_rejects(out, self.rejects)
        elif key == MAX_PRIORITY:
            write_max_priority(out, self.max_priority)
        elif key == RANKING:
            write_ranking(out, self.ranking)
        elif key == DEAD_LETTERS:
            write_dead_letters(out, self.dead_letters)
        elif key == FAILURES:
            write_failures(out)
        else:
            assert key == RETRY, key
            write_retry(out, self.retry)

    def change(self, data: bytes, at: i64, end: i64, new: bool) -> None:
        """Apply the fields of a CONFIG, which are right (`fields_problem`).

        Args:
            new: Whether no message ever came. Later it is too late to begin to keep places, since
                messages may not lie in their order any more.
        """
        while at < end:
            key: i64 = data[at]
            value = at + FIELD_HEAD_BYTES
            if key == KEEPS_PLACE:
                self.keeps_place = data[value] == 1 and (new or self.keeps_place)
            elif key == DELIVERY_LIMIT:
                self.delivery_limit = read_i64_be(data, value)
            elif key == EXPIRES:
                self.expires_ms = read_i64_be(data, value)
            elif key == MESSAGE_TTL:
                self.message_ttl_ms = read_i64_be(data, value)
            elif key == MAX_LENGTH:
                self.max_length = read_i64_be(data, value)
            elif key == SINGLE_ACTIVE:
                self.single_active = data[value] == 1 or self.single_active
            elif key == MAX_BYTES:
                self.max_bytes = read_i64_be(data, value)
            elif key == REJECTS:
                self.rejects = data[value] == 1
            elif key == MAX_PRIORITY:
                if new:
                    self.max_priority = data[value]
            elif key == RANKING:
                if self.ranking == UNRANKED:
                    self.ranking = data[value]
            elif key == DEAD_LETTERS:
                self.dead_letters = data[value]
            elif key == FAILURES:
                self.failures = data[value] == 1 or self.failures
            else:
                assert key == RETRY, key
                min_ms, max_ms = read_i64_be(data, value + 1), read_i64_be(data, value + 9)
                retry = Retry(data[value], min_ms, max_ms)
                self.retry = NO_RETRY if retry.same(NO_RETRY) else retry
            at = value + i64(VALUE_BYTES[key])


def write_keeps_place(out: BytesWriter, keeps_place: bool) -> None:
    """Append the field of this setting."""
    _write_head(out, KEEPS_PLACE)
    out.append(1 if keeps_place else 0)


def write_delivery_limit(out: BytesWriter, delivery_limit: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, DELIVERY_LIMIT)
    write_i64_be(out, delivery_limit)


def write_expires(out: BytesWriter, expires_ms: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, EXPIRES)
    write_i64_be(out, expires_ms)


def write_message_ttl(out: BytesWriter, message_ttl_ms: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, MESSAGE_TTL)
    write_i64_be(out, message_ttl_ms)


def write_max_length(out: BytesWriter, max_length: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, MAX_LENGTH)
    write_i64_be(out, max_length)


def write_single_active(out: BytesWriter) -> None:
    """Append the field of this setting."""
    _write_head(out, SINGLE_ACTIVE)
    out.append(1)


def write_max_bytes(out: BytesWriter, max_bytes: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, MAX_BYTES)
    write_i64_be(out, max_bytes)


def write_rejects(out: BytesWriter, rejects: bool) -> None:
    """Append the field of this setting."""
    _write_head(out, REJECTS)
    out.append(1 if rejects else 0)


def write_max_priority(out: BytesWriter, max_priority: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, MAX_PRIORITY)
    out.append(max_priority)


def write_ranking(out: BytesWriter, ranking: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, RANKING)
    out.append(ranking)


def write_limits(out: BytesWriter, limits: Limits) -> None:
    """Append the fields of all limits."""
    write_max_length(out, limits.max_length)
    write_max_bytes(out, limits.max_bytes)
    write_rejects(out, limits.rejects)


def write_dead_letters(out: BytesWriter, dead_letters: i64) -> None:
    """Append the field of this setting."""
    _write_head(out, DEAD_LETTERS)
    out.append(dead_letters)


def write_failures(out: BytesWriter) -> None:
    """Append the field of this setting."""
    _write_head(out, FAILURES)
    out.append(1)


def write_retry(out: BytesWriter, retry: Retry) -> None:
    """Append the field of this setting."""
    _write_head(out, RETRY)
    out.append(retry.kind)
    write_i64_be(out, retry.min_ms)
    write_i64_be(out, retry.max_ms)


def _write_head(out: BytesWriter, key: i64) -> None:
    out.append(key)
    write_i16_be(out, i16(VALUE_BYTES[key]))


def fields_problem(data: bytes, at: i64, end: i64) -> str:
    """Why these are no fields of a CONFIG; empty if they are."""
    while at < end:
        key: i64 = data[at]
        if key == 0 or key >= len(VALUE_BYTES):
            return f"setting {key} is unknown to this release"
        size = i64(VALUE_BYTES[key])
        value = at + FIELD_HEAD_BYTES
        if value + size > end or i64(read_i16_be(data, at + 1)) != size:
            return f"setting {key} is not whole"
        if key in (KEEPS_PLACE, SINGLE_ACTIVE, REJECTS, FAILURES) and data[value] > 1:
            return f"setting {key} has a value that cannot be"
        if key == RANKING and data[value] > STRICT:
            return f"setting {key} has a value that cannot be"
        if key == DEAD_LETTERS and data[value] > AT_THEIR_TIME:
            return f"setting {key} has a value that is unknown to this release"
        if key == RETRY:
            if data[value] > RETURNED:
                return f"setting {key} has a value that is unknown to this release"
            if read_i64_be(data, value + 1) < 1 or read_i64_be(data, value + 9) < 1:
                return f"setting {key} has a value that cannot be"
        at = value + size
    return ""


def keeps_place_in(data: bytes, at: i64, end: i64) -> bool:
    """Whether the fields of a CONFIG have a queue's messages keep their places."""
    config = Config(NOT_SET_UP, False)
    config.change(data, at, end, True)
    return config.keeps_place
