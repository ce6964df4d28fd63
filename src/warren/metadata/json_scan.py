"""Where a value of a JSON text ends, looked for a part at a time.

A decoder keeps the interpreter until it is through, and makes an object of each value, so that a
large text is not decoded in one go. Whether a text is JSON at all is for the decoder to say, which
gets the values that are found here one by one.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C
OPENING: Final = (0x5B, 0x7B)
CLOSING: Final = (0x5D, 0x7D)
BETWEEN: Final = (0x20, 0x09, 0x0A, 0x0D, 0x2C)
"""What may stand behind a number or a word: blanks and a comma."""


@final
class JsonScan:
    """Looks for the end of one value.

    Attributes:
        at: How far it has looked; the offset behind the value once that is found.
    """

    def __init__(self, data: bytes, at: i64) -> None:
        """Begin with the value at an offset, before which there are no blanks."""
        self.at: i64 = at
        self._data: bytes = data
        self._depth: i64 = 0
        self._quoted: bool = False

    def go_on(self, most: i64) -> bool:
        """Look at so many bytes more at most; whether the end is found."""
        data = self._data
        at = self.at
        end: i64 = min(at + most, i64(len(data)))
        depth = self._depth
        quoted = self._quoted
        found = False
        while at < end and not found:
            sign: i64 = data[at]
            at += 1
            if quoted:
                if sign == BACKSLASH:
                    at += 1
                elif sign == QUOTE:
                    quoted = False
                    found = depth == 0
            elif sign == QUOTE:
                quoted = True
            elif sign == OPENING[0] or sign == OPENING[1]:
                depth += 1
            elif sign == CLOSING[0] or sign == CLOSING[1]:
                depth -= 1
                found = depth <= 0
                if depth < 0:
                    at -= 1
            elif depth == 0 and sign in BETWEEN:
                found = True
                at -= 1
        self.at = at
        self._depth = depth
        self._quoted = quoted
        return found

    def ended(self) -> bool:
        """Whether the text has ended."""
        return self.at >= i64(len(self._data))
