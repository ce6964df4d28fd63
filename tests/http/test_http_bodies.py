"""Bodies of requests: how large, how slow, and how many of them at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from warren.admin.http.bodies import Bodies, Body, ClientGone
from warren.admin.http.errors import Problem


def received(*parts: bytes, ends: bool = True) -> Any:
    """What a client sends, part by part; then it is silent, unless the last one is the end."""
    messages = [
        {"type": "http.request", "body": part, "more_body": not ends or at < len(parts)}
        for at, part in enumerate(parts, 1)
    ]

    async def receive() -> dict[str, Any]:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    return receive


def read(body: Body, receive: Any, length: str = "0") -> bytes:
    return asyncio.run(body.read(receive, length, 0.05))


def status_of(body: Body, receive: Any, length: str = "0") -> int:
    with pytest.raises(Problem) as wrong:
        read(body, receive, length)
    assert wrong.value.answer.headers.get("connection", "close") == "close"
    return wrong.value.answer.status


def test_a_body_is_what_came() -> None:
    assert read(Body(Bodies(), 10), received(b"abc", b"", b"def")) == b"abcdef"
    assert read(Body(Bodies(), 10), received(b"")) == b""


def test_a_body_has_to_come_in_time() -> None:
    assert status_of(Body(Bodies(), 10), received(b"a", ends=False)) == 408


def test_a_body_is_bounded_by_its_resource() -> None:
    assert status_of(Body(Bodies(), 10), received(b"a" * 6, b"b" * 5)) == 400
    assert status_of(Body(Bodies(), 10), received(ends=False), "11") == 400


def test_bodies_are_bounded_together() -> None:
    """One more that there is no room for is refused, until others are let go."""
    bodies = Bodies(10)
    first, second = Body(bodies, 8), Body(bodies, 8)
    assert read(first, received(b"a" * 8)) == b"a" * 8
    assert status_of(second, received(b"b", b"b" * 2)) == 503
    second.let_go()
    first.let_go()
    first.let_go()
    assert read(Body(bodies, 10), received(b"c" * 10)) == b"c" * 10


def test_a_client_that_goes_is_not_waited_for() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone):
        read(Body(Bodies(), 10), receive)
