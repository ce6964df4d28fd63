"""A script is what one client does to its socket, drawn beforehand, without a look at answers.

So a seed is always the same bytes in the same order, whatever the node says to them and when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.fuzz.drawing import Draw

WRITE, READ, SHUT, RESET, PLAIN = "write", "read", "shut", "reset", "plain"


class Step(NamedTuple):
    """One thing that a client does.

    Attributes:
        what: WRITE bytes; READ until something comes, or for a short while; SHUT its sending side;
            RESET the connection, after which nothing follows; PLAIN writes past the encryption.
        data: What is written.
    """

    what: str
    data: bytes = b""


@dataclass
class Script:
    """All that one client does.

    Attributes:
        port: The name of the port that it goes to, in the campaign's `ports`.
        steps: In order. Where the last is no RESET, the socket is closed.
        reads: Whether it takes what it is sent.
        cases: How many frames or requests it sends.
    """

    port: str
    steps: list[Step] = field(default_factory=list)
    reads: bool = True
    cases: int = 0

    def write(self, data: bytes) -> None:
        """Write bytes."""
        if data:
            self.steps.append(Step(WRITE, data))

    def read(self) -> None:
        """Wait for a moment for an answer."""
        self.steps.append(Step(READ))

    def reset(self) -> None:
        """Reset the connection."""
        self.steps.append(Step(RESET))

    def shut(self) -> None:
        """Send no more, and go on to read."""
        self.steps.append(Step(SHUT))

    def in_pieces(self, draw: Draw, pieces: list[bytes]) -> None:
        """Write pieces: joined, one by one, or cut where none of them ends."""
        way = draw.count(0, 3)
        if way == 0:
            self.write(b"".join(pieces))
        elif way == 1:
            for piece in pieces:
                self.write(piece)
                if draw.chance(0.1):
                    self.read()
        else:
            data = b"".join(pieces)
            cuts = sorted({draw.count(0, len(data)) for _ in range(draw.count(1, 6))} | {0})
            for at, stop in zip(cuts, [*cuts[1:], len(data)], strict=True):
                self.write(data[at:stop])

    def cut_short(self, draw: Draw) -> None:
        """End it after any of its steps, whatever it was about to do."""
        if self.steps:
            del self.steps[draw.count(1, len(self.steps)) :]

    def told(self) -> str:
        """The script in lines, to be read or played again by hand."""
        lines = [f"to {self.port}{'' if self.reads else ', never reading'}"]
        return "\n    ".join(lines + [f"{each.what} {each.data.hex()}" for each in self.steps])
