"""One request, as resources see it: who asks, what the path and the query say, and the body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from warren.admin.http.answers import JSON, HttpAnswer
from warren.admin.http.errors import bad_request
from warren.admin.service.caller import Caller, authorise
from warren.admin.service.operation import Operation
from warren.admin.service.service import AdminService

BODY_BYTES_MAX = 1_048_576
"""Of a body, where the resource does not say more: to decode it takes some milliseconds."""

Value = TypeVar("Value")


class HttpRequest:
    """One request.

    Attributes:
        service: The service of the node that was asked.
        caller: Who asks, by their password.
        variables: What stands in the place of the path's variables, decoded.
        query: What stands behind the question mark; of a name that is given twice, the last.
        headers: By names in small letters.
        body: The body, which was read before; empty if there is none.
    """

    def __init__(
        self,
        service: AdminService,
        caller: Caller,
        variables: dict[str, str],
        query: dict[str, str],
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        self.service = service
        self.caller = caller
        self.variables = variables
        self.query = query
        self.headers = headers
        self.body = body

    def __getitem__(self, variable: str) -> str:
        return self.variables[variable]

    def document(self) -> dict[str, Any]:
        """The body, a JSON object; one that is left out is an empty one.

        Raises:
            Problem: It is no JSON, or no object.
        """
        if not self.body:
            return {}
        try:
            value = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_request("not_json") from None
        if not isinstance(value, dict):
            raise bad_request("not_json")
        return value

    def texts_and(self, bytes_max: int, texts: tuple[str, ...], *others: str) -> dict[str, Any]:
        """What a large JSON object says of some keys; nothing else of it is decoded.

        Args:
            bytes_max: How long what the others say may be, as JSON.
            texts: Keys whose texts may be as long as the body. Of what is no text, None is said.

        Raises:
            Problem: It is no JSON, or no object, or one of the others is too long.
        """
        try:
            parts = msgspec.json.decode(self.body or b"{}", type=dict[str, msgspec.Raw])
            said: dict[str, Any] = {}
            for key in (*texts, *others):
                if key not in parts:
                    continue
                part = bytes(parts[key])
                if key in texts and not part.startswith(b'"'):
                    said[key] = None
                    continue
                if key in others and len(part) > bytes_max:
                    raise bad_request(f"{key}: JSON of at most {bytes_max} bytes, not {len(part)}")
                said[key] = msgspec.json.decode(part)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_request("not_json") from None
        return said

    def permit(self, operation: Operation[..., Any]) -> None:
        """Refuse a caller who may not have an operation, before anything is said of what it is on.

        Raises:
            NotAuthorised: They have no tag for it.
        """
        authorise(self.service.machine, self.caller, operation.name, operation.tag, None)

    def truth(self, name: str) -> bool:
        """Whether the query says `true` of something."""
        return self.query.get(name) == "true"


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class Resource:
    """What one path is, and what can be done with it.

    Attributes:
        path: With variables in braces.
        methods: What does it, by the method of HTTP.
        body_bytes_max: The largest body that it takes.
        accepted: What a request may ask for, of which its answers are.
    """

    def __init__(
        self,
        path: str,
        *,
        get: Handler | None = None,
        put: Handler | None = None,
        post: Handler | None = None,
        delete: Handler | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
        media: str = JSON,
    ) -> None:
        self.path = path
        self.body_bytes_max = body_bytes_max
        self.accepted = (b"*/*", media.partition("/")[0].encode() + b"/*", media.encode())
        handlers = {"HEAD": get, "GET": get, "PUT": put, "POST": post, "DELETE": delete}
        self.methods = {name: done for name, done in handlers.items() if done is not None}
        self.allow = ", ".join([*self.methods, "OPTIONS"])


def needed(document: dict[str, Any], *keys: str, between: str = ",") -> list[Any]:
    """Values of a body that have to be there.

    Args:
        between: What stands between the names of those that are missing.

    Raises:
        Problem: Some are not; RabbitMQ's words name all of them.
    """
    missing = [f"{{key_missing,{key}}}" for key in keys if key not in document]
    if missing:
        raise bad_request(f"[{between.join(missing)}]")
    return [document[key] for key in keys]


def decoded(segment: str) -> str:
    """A part of a path as the name that it means.

    Raises:
        Problem: It is no UTF-8, and nothing is called so.
    """
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise bad_request("names in paths are UTF-8") from None
