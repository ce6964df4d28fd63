"""Frames of the handshake between two nodes, as bytes.

All numbers are little-endian. Each end begins with a preamble of eight bytes; frames follow:

    preamble   "WARRENP", u8 version (3)
    frame      u32 size, u8 kind, body            size counts kind and body, at most 2048

    1 HELLO    nonce (32), dialled name, name, node uid (16), cluster id (16), u64 boot,
               software version, u32 cluster version, host, u16 port, life (16), u64 round,
               former uid (16, zeros for none), u8 count of earlier lives, each 16 bytes; what
               follows is for later versions
    2 PROOF    HMAC-SHA256 (32)
    3 ACCEPT   nothing
    4 REFUSE   u16 code

Names, versions and hosts are a length (u8) and as many bytes of UTF-8. The dialled name is empty in
the hello of the end that was dialled, and `*` where the dialling end does not know who is there.
`docs/formats/peer-link.md` has the sequence.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.ports import PeerHello
from warren.wire.byte_reader import ByteReader

MAGIC: Final = b"WARRENP"
VERSION_NUMBER: Final = 3
PREAMBLE: Final = MAGIC + b"\x03"
PREAMBLE_BYTES: Final = 8

KIND_HELLO: Final = 1
KIND_PROOF: Final = 2
KIND_ACCEPT: Final = 3
KIND_REFUSE: Final = 4

SIZE_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 2_048
"""A frame without its size. A handshake has three, one of them as large."""
LIVES_MAX: Final = 32
"""Earlier lives that a hello names."""
NONCE_BYTES: Final = 32
ID_BYTES: Final = 16
NAME_BYTES_MAX: Final = 255
VERSION_BYTES_MAX: Final = 64
NO_CLUSTER: Final = bytes(ID_BYTES)
NO_ID: Final = bytes(ID_BYTES)
ANYONE: Final = "*"
"""In place of the dialled name: whoever answers there. As a name: no node, but an operator."""


@final
class Introduction:
    """The content of a HELLO.

    Attributes:
        nonce: 32 bytes, never used before.
        dialled: The name that the dialling end expects to find, empty from the dialled end.
        hello: Who speaks.
    """

    def __init__(self, nonce: bytes, dialled: str, hello: PeerHello) -> None:
        self.nonce: bytes = nonce
        self.dialled: str = dialled
        self.hello: PeerHello = hello


def frame(kind: int, body: bytes) -> bytes:
    """A whole frame."""
    size = len(body) + 1
    assert size <= FRAME_BYTES_MAX
    return size.to_bytes(4, "little") + bytes([kind]) + body


def refuse_frame(code: int) -> bytes:
    """A whole REFUSE."""
    return frame(KIND_REFUSE, code.to_bytes(2, "little"))


def hello_frame(introduction: Introduction) -> bytes:
    """A whole HELLO."""
    hello = introduction.hello
    assert len(introduction.nonce) == NONCE_BYTES
    assert len(hello.node_uid) == ID_BYTES and len(hello.cluster_id) == ID_BYTES
    assert hello.name and len(hello.lives) <= LIVES_MAX
    body = b"".join(
        [
            introduction.nonce,
            _text(introduction.dialled, NAME_BYTES_MAX),
            _text(hello.name, NAME_BYTES_MAX),
            hello.node_uid,
            hello.cluster_id,
            hello.boot.to_bytes(8, "little"),
            _text(hello.software_version, VERSION_BYTES_MAX),
            hello.cluster_version.to_bytes(4, "little"),
            _text(hello.host, NAME_BYTES_MAX),
            hello.port.to_bytes(2, "little"),
            hello.life or NO_ID,
            hello.round.to_bytes(8, "little"),
            hello.former_uid or NO_ID,
            bytes([len(hello.lives)]),
            *hello.lives,
        ]
    )
    return frame(KIND_HELLO, body)


def _text(text: str, bytes_max: int) -> bytes:
    data = text.encode()
    assert len(data) <= bytes_max and (not text or text.isprintable())
    return bytes([len(data)]) + data


def decode_hello(body: bytes) -> Introduction | None:
    """The content of a HELLO's body; None if it is malformed."""
    try:
        return _read_hello(_HelloReader(body))
    except CorruptRecord:
        return None


def _read_hello(reader: _HelloReader) -> Introduction:
    nonce = reader.octets(NONCE_BYTES)
    dialled = reader.short_text(NAME_BYTES_MAX)
    name = reader.short_text(NAME_BYTES_MAX)
    if not name:
        reader.fail("a node without a name")
    node_uid = reader.octets(ID_BYTES)
    cluster_id = reader.octets(ID_BYTES)
    boot = reader.whole(8)
    software = reader.short_text(VERSION_BYTES_MAX)
    machine = reader.whole(4)
    host = reader.short_text(NAME_BYTES_MAX)
    port = reader.whole(2)
    hello = PeerHello(name, node_uid, cluster_id, boot, software, machine, host, port)
    hello.life = reader.identity()
    hello.round = reader.whole(8)
    hello.former_uid = reader.identity()
    hello.lives = [reader.octets(ID_BYTES) for _ in range(reader.octet())]
    return Introduction(nonce, dialled, hello)


@final
class _HelloReader(ByteReader):
    """Reads what a hello is made of."""

    def __init__(self, body: bytes) -> None:
        super().__init__("a hello", body)

    def whole(self, size: i64) -> int:
        """The next number, unsigned."""
        return int.from_bytes(self.octets(size), "little")

    def identity(self) -> bytes:
        """The next identity, empty where it is zeros."""
        taken = self.octets(ID_BYTES)
        return b"" if taken == NO_ID else taken

    def short_text(self, bytes_max: int) -> str:
        """The next text."""
        size = self.octet()
        if size > bytes_max:
            self.fail("a text that is too long")
        text = self.text(size)
        if text and not text.isprintable():
            self.fail("a text that cannot be printed")
        return text
