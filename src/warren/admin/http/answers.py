"""Answers as JSON, encoded in parts where they are long, so that no turn of the loop takes long."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import msgspec

from warren.admin.service.slices import Slices

PART_ITEMS = 64
"""Items of a list that are encoded at a time: some tenths of a millisecond."""
PART_BYTES = 65_536
"""Bytes that are gathered before they are sent."""

JSON = "application/json"
PLAIN = "text/plain"


class Text:
    """A body that is a text for humans, and no JSON.

    Attributes:
        text: It, of a few kilobytes.
    """

    def __init__(self, text: str) -> None:
        self.text = text


class HttpAnswer:
    """What a request is answered with.

    Attributes:
        status: Of HTTP.
        body: What is encoded as JSON, or a `Text`; None for no body at all.
        headers: Beside those that all answers have.
    """

    def __init__(
        self, status: int, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.body = body
        self.headers = dict(headers or {})


def ok(body: Any) -> HttpAnswer:
    """Answer with what was asked for."""
    return HttpAnswer(200, body)


def created(location: str | None = None) -> HttpAnswer:
    """Answer that something is there now that was not."""
    return HttpAnswer(201, None, {} if location is None else {"location": location})


NO_CONTENT = HttpAnswer(204)
"""It was done, and there is nothing to say of it."""


def put(is_new: bool) -> HttpAnswer:
    """Answer a PUT, of something that was not there before or was."""
    return created() if is_new else NO_CONTENT


def encoded(value: Any) -> bytes:
    """A value as JSON. Names that came as bytes outside UTF-8 are written with replacements."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_readable(value))


def _readable(value: Any) -> Any:
    """The same without lone surrogates, which no JSON can have."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(item) for item in value]
    return value


async def parts_of(body: Any) -> AsyncGenerator[bytes, None]:
    """A body as JSON, in parts; the loop has its turns in between.

    Long lists are found where they are the body, or a value of it.
    """
    if isinstance(body, Text):
        yield body.text.encode("utf-8", "replace")
    elif isinstance(body, AsyncIterator):
        async for part in _parts_of_stream(body):
            yield part
    elif isinstance(body, list) and len(body) > PART_ITEMS:
        async for part in _parts_of_list(body):
            yield part
    elif isinstance(body, dict) and any(
        isinstance(value, list) and len(value) > PART_ITEMS for value in body.values()
    ):
        first = True
        for key, value in body.items():
            yield (b"{" if first else b",") + encoded(str(key)) + b":"
            first = False
            async for part in parts_of(value):
                yield part
        yield b"}"
    else:
        yield encoded(body)


async def _parts_of_list(items: list[Any]) -> AsyncGenerator[bytes, None]:
    yield b"["
    async for part in _items(items):
        yield part
    yield b"]"


async def _parts_of_stream(parts: AsyncIterator[list[Any]]) -> AsyncGenerator[bytes, None]:
    """A list that comes in parts."""
    yield b"["
    first = True
    async for items in parts:
        if items and not first:
            yield b","
        async for part in _items(items):
            yield part
        first = first and not items
    yield b"]"


async def _items(items: list[Any]) -> AsyncGenerator[bytes, None]:
    """Items as they stand between brackets."""
    slices = Slices()
    for at in range(0, len(items), PART_ITEMS):
        yield (b"," if at else b"") + encoded(items[at : at + PART_ITEMS])[1:-1]
        await slices.breathe()


async def gathered(parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The same in fewer and larger parts, as they are worth a write each."""
    whole = bytearray()
    async for part in parts:
        whole += part
        if len(whole) >= PART_BYTES:
            yield bytes(whole)
            whole.clear()
    if whole:
        yield bytes(whole)
