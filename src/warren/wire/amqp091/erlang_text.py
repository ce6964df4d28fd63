"""Error texts of RabbitMQ that quote bytes: its printing of a binary and of a small tuple.

RabbitMQ answers a broken frame with a text such as
`type 3, all octets = <<"hello">>: {invalid_frame_end_marker,65}`. People search logs for these, so
they are reproduced to the character, line breaks included: a line holds at most 79 characters and
what continues is indented to where its bracket opened.

Source: compared with RabbitMQ 4.3's answers on the wire.
"""

from __future__ import annotations

from typing import Final

from warren.limits import REPLY_TEXT_CHARS_MAX

_SNIPPET_BYTES_MAX: Final = 16
_LINE_CHARS_MAX: Final = 79
_ESCAPES: Final[dict[int, str]] = {
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0B: "\\v",
    0x0C: "\\f",
    0x0D: "\\r",
    0x1B: "\\e",
    0x22: '\\"',
    0x5C: "\\\\",
}


def decode_failure(arguments: bytes) -> str:
    """The text for method arguments that do not decode: `cannot decode <<0,5,97>>`."""
    # The text is cut to a short string anyway; do not spell out a whole frame first.
    numbers = ",".join([str(octet) for octet in arguments[:REPLY_TEXT_CHARS_MAX]])
    return f"cannot decode <<{numbers}>>"


def frame_failure(kind: int, payload: bytes, reason: str, number: int = -1) -> str:
    """The text for a frame that cannot be taken.

    Args:
        kind: The frame's type octet.
        payload: Its payload, of which up to 16 bytes are quoted.
        reason: What is wrong, in RabbitMQ's word; empty for a frame that is only out of place.
        number: The value that comes last with the reason, or -1 if none does.
    """
    if len(payload) <= _SNIPPET_BYTES_MAX:
        text = f"type {kind}, all octets = "
    else:
        text = f"type {kind}, first {_SNIPPET_BYTES_MAX} octets = "
    text += _binary(payload[:_SNIPPET_BYTES_MAX], len(text))
    if not reason:
        return text
    text += ": "
    if number < 0:
        return text + reason
    column = len(text) - 1 - text.rfind("\n")
    line = f"{{{reason},{number}}}"
    if column + len(line) < _LINE_CHARS_MAX:
        return text + line
    return f"{text}{{{reason},\n{' ' * (column + 1)}{number}}}"


def close_text(name: str, text: str) -> str:
    """The whole reply text of a close method, cut to what RabbitMQ lets through."""
    whole = f"{name} - {text}"
    if len(whole) > REPLY_TEXT_CHARS_MAX:
        whole = whole[: REPLY_TEXT_CHARS_MAX - 3] + "..."
    # The bound counts characters; a short string counts bytes.
    data = whole.encode("utf-8", "replace")
    if len(data) > REPLY_TEXT_CHARS_MAX:
        whole = data[:REPLY_TEXT_CHARS_MAX].decode("utf-8", "ignore")
    return whole


def _binary(data: bytes, column: int) -> str:
    """One binary, the way a shell prints it: quoted if it reads as text, else as numbers."""
    if not data:
        return "<<>>"
    try:
        text = data.decode("utf-8")
        suffix = "" if len(text) == len(data) else "/utf8"
    except UnicodeDecodeError:
        text = data.decode("latin-1")
        suffix = ""
    if _is_printable(text):
        return f'<<"{_escaped(text)}"{suffix}>>'
    indent = " " * (column + 2)
    line = "<<"
    used = column + 2
    last = len(data) - 1
    for at, octet in enumerate(data):
        # The bracket that closes is not counted: a full line may stick out by it.
        width = len(str(octet)) + 1
        if used + width > _LINE_CHARS_MAX:
            line += "\n" + indent
            used = len(indent)
        line += f"{octet}>>" if at == last else f"{octet},"
        used += width
    return line


def _is_printable(text: str) -> bool:
    for letter in text:
        code = ord(letter)
        if code in _ESCAPES or 0x20 <= code <= 0x7E:
            continue
        if code < 0xA0 or 0xD800 <= code <= 0xDFFF or code == 0xFFFE or code == 0xFFFF:
            return False
    return True


def _escaped(text: str) -> str:
    return "".join([_ESCAPES.get(ord(letter), letter) for letter in text])
