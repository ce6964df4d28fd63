"""The outermost part of what answers HTTP: an error that nothing else caught is in the log."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("warren")

FAILED: Final = b'{"error":"internal_server_error","reason":"the node failed; its log says how"}'


class Outermost:
    """Has an application answer, and says 500 and why in the log where that fails.

    Such as where an answer cannot be encoded, which is found out while it is sent. One that has
    begun is cut off.
    """

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        begun = False

        async def told(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._application(scope, receive, told)
        except TimeoutError:
            # A client that reads too slowly: no fault of the node's, and as often as it likes.
            log.warning("HTTP request %s %s took too long", scope.get("method"), scope.get("path"))
            raise
        except Exception:
            log.exception("HTTP request %s %s failed", scope.get("method"), scope.get("path"))
            if begun:
                raise
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(FAILED)).encode()),
            ]
            await send({"type": "http.response.start", "status": 500, "headers": headers})
            await send({"type": "http.response.body", "body": FAILED, "more_body": False})
