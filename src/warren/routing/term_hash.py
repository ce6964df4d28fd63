"""Hashes of Erlang terms, by which RabbitMQ spreads messages: the same key comes to the same queue.

`phash2` gives what that function of Erlang gives for texts, lists of texts, and what a header can
hold; `jump` is jump consistent hashing as the plugin does it, whose draws come from Erlang's
generator `exs1024`. A change here sends keys to other queues, as a change of the bindings does.

Source: `erlang:phash2/1`, documented to be the same on every machine and release, which is Bob
Jenkins' hash over blocks of 12 bytes; `rand` of Erlang; "A Fast, Minimal Memory, Consistent Hash
Algorithm" by Lamping and Veach.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

RANGE: Final = 1 << 27
"""Hashes are below this."""

BLOCK_BYTES: Final = 12
_U32: Final = 0xFFFFFFFF
_U64: Final = 0xFFFFFFFFFFFFFFFF
_GOLDEN: Final = 0x9E3779B9
"""Each kind of term has a multiple of this mixed in."""

_NIL_CONSTANT: Final = (_GOLDEN * 2) & _U32
_FLOAT_CONSTANT: Final = (_GOLDEN * 12) & _U32
_BINARY_CONSTANT: Final = (_GOLDEN * 13) & _U32
_NIL: Final = 2

UNDEFINED: Final = 45_914_356
TRUE: Final = 506_293
FALSE: Final = 7_111_573
"""Hashes of the atoms that stand for a header that is missing or void, and for truth values."""


def _mix(a: i64, b: i64, c: i64) -> tuple[i64, i64, i64]:
    """Jenkins' mixing of three words of 32 bits."""
    a = (a - b - c) & _U32 ^ c >> 13
    b = (b - c - a) & _U32 ^ (a << 8 & _U32)
    c = (c - a - b) & _U32 ^ b >> 13
    a = (a - b - c) & _U32 ^ c >> 12
    b = (b - c - a) & _U32 ^ (a << 16 & _U32)
    c = (c - a - b) & _U32 ^ b >> 5
    a = (a - b - c) & _U32 ^ c >> 3
    b = (b - c - a) & _U32 ^ (a << 10 & _U32)
    c = (c - a - b) & _U32 ^ b >> 15
    return a, b, c


def _binary(data: bytes, before: i64) -> i64:
    """The hash of a binary, all 32 bits of it, after what has the hash `before`."""
    start = (_BINARY_CONSTANT + before) & _U32
    size: i64 = len(data)
    if size == 0:
        return start
    a: i64 = _GOLDEN
    b: i64 = _GOLDEN
    c: i64 = start
    at: i64 = 0
    while size - at >= BLOCK_BYTES:
        a = (a + i64(read_i32_le(data, at))) & _U32
        b = (b + i64(read_i32_le(data, at + 4))) & _U32
        c = (c + i64(read_i32_le(data, at + 8))) & _U32
        a, b, c = _mix(a, b, c)
        at += BLOCK_BYTES
    # The lowest byte of the last word is for the length.
    rest = data[at:] + bytes(int(BLOCK_BYTES - (size - at)))
    a = (a + i64(read_i32_le(rest, 0))) & _U32
    b = (b + i64(read_i32_le(rest, 4))) & _U32
    last: i64 = i64(rest[8]) << 8 | i64(rest[9]) << 16 | i64(rest[10]) << 24
    c = (c + size + last) & _U32
    a, b, c = _mix(a, b, c)
    return c


def hash_binary(data: bytes) -> i64:
    """Erlang's hash of a binary."""
    return _binary(data, 0) & (RANGE - 1)


def hash_binaries(parts: list[bytes]) -> i64:
    """Erlang's hash of a list of binaries, which is not empty."""
    assert parts, "a message has a routing key"
    found: i64 = 0
    for part in parts:
        found = _binary(part, found)
    constant: i64 = _NIL_CONSTANT
    _, _, found = _mix((constant + _NIL) & _U32, constant, found)
    return found & (RANGE - 1)


def hash_float(value: float) -> i64:
    """Erlang's hash of a float; zero has no sign."""
    low, high = struct.unpack("<II", struct.pack("<d", value or 0.0))
    constant: i64 = _FLOAT_CONSTANT
    a = (constant + i64(high)) & _U32
    b = (constant + i64(low)) & _U32
    _, _, found = _mix(a, b, 0)
    return found & (RANGE - 1)


def jump(key: int, buckets: i64) -> i64:
    """The bucket of a key: few keys change theirs when there is one bucket more.

    Args:
        key: Any integer.
        buckets: At least 1.
    """
    assert buckets >= 1
    if buckets == 1:
        return 0
    numbers = _seeded(key)
    place = 0
    bucket: i64 = 0
    following: i64 = 0
    while following < buckets:
        bucket = following
        # exs1024: sixteen words in a ring, of which two make the next.
        beyond = (place + 1) & 15
        one = numbers[beyond]
        one ^= one << 31 & _U64
        one ^= one >> 11
        other = numbers[place]
        one ^= other ^ other >> 30
        numbers[beyond] = one
        place = beyond
        drawn = ((one * 1_181_783_497_276_652_981 & _U64) >> 11) * 2.0**-53
        if drawn == 0.0:
            # Erlang divides by it all the same; once in 2**53 draws.
            break
        following = i64(int(float(int(bucket) + 1) / drawn))
    return bucket


def _seeded(key: int) -> list[int]:
    """The state of `exs1024` that the same key three times gives."""
    low = (1 << 21) - 1
    first = ((key & low) + 1) * 2_097_131 & low
    second = ((key & low) + 1) * 2_097_133 & low
    third = ((key & low) + 1) * 2_097_143 & low
    state = first << 43 | second << 22 | third << 1 | 1
    numbers: list[int] = []
    for _ in range(16):
        state ^= state >> 12
        state ^= state << 25 & _U64
        state ^= state >> 27
        numbers.append(state * 2_685_821_657_736_338_717 & _U64)
    numbers.reverse()
    return numbers
