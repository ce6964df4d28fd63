"""Bodies of requests: how large, how slow, and how many of them at once."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import msgspec
import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.http.asked import HttpRequest
from warren.admin.http.bodies import Bodies, Body, ClientGone
from warren.admin.http.errors import Problem
from warren.admin.http.resources import exchanges
from warren.admin.http.values import VALUES_MAX, check_table
from warren.admin.service.caller import LOCAL
from warren.admin.service.messages import GivenProperties, publish_message
from warren.errors import Refusal
from warren.limits import PROPERTIES_BYTES_MAX


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


# --- what is decoded of a body --------------------------------------------------------------------


def publishing(**parts: Any) -> HttpRequest:
    """A request that publishes, of parts that are JSON or are to become it."""
    document = {
        "routing_key": "q",
        "properties": {},
        "payload": "x",
        "payload_encoding": "string",
        **parts,
    }
    service: Any = None
    caller: Any = None
    names = {"vhost": "/", "exchange": "amq.default"}
    return HttpRequest(service, caller, names, {}, {}, msgspec.json.encode(document))


def refusal(asked: HttpRequest) -> str:
    with pytest.raises(Problem) as wrong:
        asyncio.run(exchanges.publish(asked))
    assert wrong.value.answer.status == 400
    return str(wrong.value.answer.body)


ZEROS = msgspec.Raw(b"[" + b"0," * 9_000_000 + b"0]")
"""Some 18 MB, of which each number would be an object."""


@pytest.mark.parametrize(
    "key", ["properties", "routing_key", "payload_encoding", "payload", "more"]
)
def test_large_values_of_a_publish_are_not_decoded(key: str) -> None:
    """Only the payload may be large, and it is a text."""
    asked = publishing(**{key: ZEROS})
    if key == "more":
        asked = publishing(**{key: ZEROS, "payload": 1})
    tracemalloc.start()
    text = refusal(asked)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(bytes(ZEROS)) + 1_000_000
    if key in ("payload", "more"):
        assert "payload_not_string" in text
    else:
        assert f"{key}: JSON of at most 524288 bytes, not 18000003" in text


def test_values_of_headers_are_bounded() -> None:
    most = {"a": [0] * (VALUES_MAX - 2)}
    check_table(most)
    most["a"].append(0)
    assert f"arguments have at most {VALUES_MAX} values" in refusal(
        publishing(properties={"headers": most})
    )


def test_properties_that_no_reader_takes_are_refused() -> None:
    """They have to come in one frame."""
    pair = Pair(alone=True)
    service = service_of(pair)

    def put(size: int) -> bool:
        return answered(
            pair,
            lambda: publish_message(
                service,
                LOCAL,
                vhost="/",
                exchange="",
                routing_key="q",
                body=b"",
                properties=GivenProperties(headers={"a": "x" * size}),
            ),
        )

    assert put(PROPERTIES_BYTES_MAX - 100) is False
    with pytest.raises(Refusal, match=f"at most {PROPERTIES_BYTES_MAX} bytes, these have"):
        put(PROPERTIES_BYTES_MAX)
