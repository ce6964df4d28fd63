"""The cursor over Warren's own formats reads what is there, and never past the end."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from warren.errors import CorruptRecord
from warren.wire.byte_reader import ByteReader

DATA = struct.pack("<Bhiq3q", 255, -2, -3, -4, 1, -5, 1 << 62) + "wärren".encode() + b"\x00\x01"


def test_all_that_there_is() -> None:
    reader = ByteReader("a test", b"before" + DATA, 6)
    assert (reader.octet(), reader.short(), reader.long(), reader.longlong()) == (255, -2, -3, -4)
    assert list(reader.longlongs(3)) == [1, -5, 1 << 62]
    assert reader.text(7) == "wärren"
    assert reader.left() == 2
    with pytest.raises(CorruptRecord, match="a test: damaged at byte 52: bytes behind its end"):
        reader.end()
    assert reader.octets(2) == b"\x00\x01"
    reader.end()


READS: dict[str, tuple[int, Callable[[ByteReader], object]]] = {
    "octet": (1, ByteReader.octet),
    "short": (2, ByteReader.short),
    "long": (4, ByteReader.long),
    "longlong": (8, ByteReader.longlong),
    "longlongs": (24, lambda reader: reader.longlongs(3)),
    "octets": (5, lambda reader: reader.octets(5)),
    "text": (5, lambda reader: reader.text(5)),
}


@pytest.mark.parametrize("what", READS)
def test_nothing_is_read_past_the_end(what: str) -> None:
    size, read = READS[what]
    whole = ByteReader("a test", bytes(size))
    read(whole)
    whole.end()
    short = ByteReader("a test", bytes(size - 1))
    with pytest.raises(CorruptRecord, match="a test: damaged at byte 0: it ends too early"):
        read(short)
    assert short.left() == size - 1


def test_a_text_has_to_be_utf_8() -> None:
    with pytest.raises(CorruptRecord, match="not UTF-8"):
        ByteReader("a test", b"\xff\xfe").text(2)
