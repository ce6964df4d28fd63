"""Bodies of requests: how large, how slow, and how many of them at once."""

from __future__ import annotations

import asyncio

from starlette.types import Receive

from warren.admin.http.answers import HttpAnswer
from warren.admin.http.errors import Problem, bad_request, problem

BODY_SECONDS = 30.0
"""For a body to come, whole."""
BODIES_BYTES_MAX = 67_108_864
"""Bodies that are here at once, of all requests."""


class ClientGone(Exception):
    """The client closed its connection before its request was whole."""


class Bodies:
    """How much there is room for."""

    def __init__(self, most: int = BODIES_BYTES_MAX) -> None:
        self._free = most

    def let_go(self, size: int) -> None:
        """Make room again, as a body is not needed any more."""
        self._free += size

    def take(self, size: int) -> None:
        """Have so much more.

        Raises:
            Problem: There is no room.
        """
        if size > self._free:
            raise Problem(problem(503, "service_unavailable", "too many large requests at once"))
        self._free -= size


class Body:
    """The body of one request.

    Attributes:
        size: How much of it was taken.
    """

    def __init__(self, bodies: Bodies, most: int) -> None:
        """Begin to wait.

        Args:
            most: Bytes that it may have.
        """
        self.size = 0
        self._bodies = bodies
        self._most = most

    async def read(self, receive: Receive, length: str, seconds: float = BODY_SECONDS) -> bytes:
        """All of it, once it is here.

        Args:
            length: What the head of the request says that it has.

        Raises:
            Problem: It is too large, too slow, or there is no room for it.
            ClientGone: There will be no more of it.
        """
        if length.isdecimal() and int(length) > self._most:
            raise too_large()
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    chunk = message.get("body", b"")
                    if self.size + len(chunk) > self._most:
                        raise too_large()
                    self._bodies.take(len(chunk))
                    self.size += len(chunk)
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise Problem(
                HttpAnswer(
                    408,
                    {"error": "request_timeout", "reason": "the body did not come in time"},
                    {"connection": "close"},
                )
            ) from None

    def let_go(self) -> None:
        """Make room for others."""
        self._bodies.let_go(self.size)
        self.size = 0


def too_large() -> Problem:
    """A body is larger than its resource takes; what is left of it is not waited for."""
    wrong = bad_request("Exceeded HTTP request body size limit")
    wrong.answer.headers["connection"] = "close"
    return wrong
