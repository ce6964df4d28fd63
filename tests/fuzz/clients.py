"""Scripts of AMQP 0-9-1 clients: how they come, log in, work, err and go."""

from __future__ import annotations

from collections.abc import Sequence

from tests.clients.raw import CAPABILITIES, HEARTBEAT, PROTOCOL_HEADER, encode_table
from tests.fuzz.drawing import Draw
from tests.fuzz.frames import CHANNELS, Frames, frame, method
from tests.fuzz.scripts import PLAIN, Script, Step

USER, PASSWORD, VHOST = "fuzz", "fuzz", "f"
STRANGERS = (
    b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x00\x08\x00", b"AMQP\x03\x01\x00\x00", b"AMQP", b"A",
    b"AMQP\x01\x01\x00\x09", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"\0" * 8, b"\xff" * 200, PROTOCOL_HEADER * 2, PROTOCOL_HEADER[:7],
)  # fmt: skip
CLOSE = method("connection.close", reply_code=200, reply_text="bye")
CLOSE_OK = method("connection.close-ok")
FRAMES_MAX = 40
"""Things that one client does at most."""


def logged_in(draw: Draw) -> list[bytes]:
    """What a client sends to log in rightly, without a wait for answers."""
    capabilities = {} if draw.chance(0.2) else {"capabilities": CAPABILITIES}
    mechanism, response = "PLAIN", f"\0{USER}\0{PASSWORD}".encode()
    if draw.chance(0.2):
        mechanism = "AMQPLAIN"
        response = encode_table({"LOGIN": USER, "PASSWORD": PASSWORD})[4:]
    return [
        PROTOCOL_HEADER,
        method(
            "connection.start-ok",
            client_properties=capabilities,
            mechanism=mechanism,
            response=response,
            locale="en_US",
        ),
        method(
            "connection.tune-ok",
            channel_max=2047,
            frame_max=draw.one((131_072, 131_072, 4_096)),
            heartbeat=draw.one((0, 0, 60, 1)),
        ),
        method("connection.open", virtual_host=VHOST),
    ]


def logged_in_wrongly(draw: Draw, frames: Frames) -> list[bytes]:
    """What a client sends to log in, of which one step is wrong, missing, doubled or too early."""
    steps = logged_in(draw)
    at = draw.count(0, len(steps) - 1)
    way = draw.count(0, 6)
    if way == 0:
        return steps[:at]
    if way == 1:
        return steps[:at] + frames.damaged([steps[at]]) + steps[at + 1 :] if at else [b"AMQP"]
    if way == 2:
        return steps[: at + 1] + [steps[at]] + steps[at + 1 :]
    if way == 3:
        return steps[:at] + frames.some() + steps[at:] if at else frames.some()
    if way == 4:
        steps[2] = method(
            "connection.tune-ok",
            channel_max=draw.unsigned(16),
            frame_max=draw.one((0, 1, 4_095, 131_073, (1 << 32) - 1)),
            heartbeat=draw.unsigned(16),
        )
        return steps
    if way == 5:
        steps[3] = method("connection.open", virtual_host=draw.short_text())
        return steps
    given = {"client_properties": draw.table(), "mechanism": draw.one(("PLAIN", "", "EXTERNAL"))}
    response = draw.one((b"", b"\0fuzz", b"\0fuzz\0wrong", b"\0\0", b"\xff\0\xff\0\xff"))
    capabilities = {"capabilities": CAPABILITIES} if draw.chance(0.5) else {}
    given["client_properties"] |= capabilities
    steps[1] = method("connection.start-ok", **given, response=response, locale="en_US")
    return steps


def ends(draw: Draw, frames: Frames) -> list[bytes]:
    """How a client closes, and answers a close that it was or was not told: in every order."""
    choices = (CLOSE, CLOSE_OK, CLOSE, CLOSE_OK, frame(HEARTBEAT, 0, b""))
    pieces = [draw.one(choices) for _ in range(draw.count(1, 4))]
    if draw.chance(0.2):
        pieces.insert(draw.count(0, len(pieces)), b"".join(frames.some()))
    if draw.chance(0.1):
        pieces.append(method("connection.close", reply_code=draw.unsigned(16)))
    return pieces


def stranger(draw: Draw, port: str) -> Script:
    """A client that does not speak as it has to, and perhaps closes all the same."""
    script = Script(port)
    frames = Frames(draw)
    opening = [draw.one(STRANGERS)] if draw.chance(0.5) else [PROTOCOL_HEADER]
    if draw.chance(0.5):
        opening += ends(draw, frames)
    script.in_pieces(draw, opening)
    script.cases = len(opening)
    _go(draw, script)
    return script


def visitor(draw: Draw, port: str) -> Script:
    """A client that fails to log in, and goes."""
    script = Script(port)
    frames = Frames(draw)
    pieces = logged_in_wrongly(draw, frames)
    if draw.chance(0.6):
        pieces += ends(draw, frames)
    script.in_pieces(draw, [piece for piece in pieces if piece])
    script.cases = len(pieces)
    _go(draw, script)
    return script


def worker(draw: Draw, port: str) -> Script:
    """A client that logs in, works, may do something wrong, and goes in one way or another."""
    script = Script(port, reads=not draw.chance(0.05))
    frames = Frames(draw, draw.one((0, 0, 0.03, 0.2)))
    pieces = logged_in(draw)
    pieces += [method("channel.open", number) for number in range(1, CHANNELS + 1)]
    if draw.chance(0.3):
        script.in_pieces(draw, pieces)
        script.read()
        pieces = []
    for _ in range(draw.count(1, FRAMES_MAX)):
        pieces += frames.some()
        script.cases += 1
        if draw.chance(0.3):
            script.in_pieces(draw, pieces)
            pieces = []
            if draw.chance(0.15):
                script.read()
    if draw.chance(0.5):
        pieces += ends(draw, frames)
    script.in_pieces(draw, pieces)
    if draw.chance(0.3):
        script.read()
        script.in_pieces(draw, ends(draw, frames))
    _go(draw, script)
    return script


def _go(draw: Draw, script: Script) -> None:
    """End a script: wait or not, with an end, half of one, or a reset, after any of its steps."""
    if script.steps and draw.chance(0.15):
        script.cut_short(draw)
    if draw.chance(0.5):
        script.read()
    if draw.chance(0.1):
        script.shut()
        script.read()
    if draw.chance(0.3):
        script.reset()


def unencrypted(draw: Draw, port: str) -> Script:
    """A client that comes to a port of TLS and breaks the handshake."""
    script = Script(port)
    script.steps.append(Step(PLAIN, draw.one((b"\x16\x03\x01\x02\x00\x01", *STRANGERS))))
    script.cases = 1
    _go(draw, script)
    return script


def episode(draw: Draw, ports: Sequence[str], encrypted: Sequence[str]) -> list[Script]:
    """The clients of one episode.

    Args:
        ports: Where they may go.
        encrypted: Those of them that speak TLS.
    """
    if draw.chance(0.02):
        # Many at once that do next to nothing.
        return [stranger(draw, draw.one(ports)) for _ in range(draw.count(10, 40))]
    scripts = []
    for _ in range(draw.count(1, 4)):
        port = draw.one(ports)
        if port in encrypted and draw.chance(0.1):
            scripts.append(unencrypted(draw, port))
        else:
            kind = draw.weighted(((2, stranger), (3, visitor), (8, worker)))
            scripts.append(kind(draw, port))
    return scripts
