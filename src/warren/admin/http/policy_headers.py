"""Headers by which operators bound what browsers do with all answers of the HTTP API and its pages.

Source: `management.csp.policy` and `management.hsts.policy` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT: Final = b"content-security-policy"
TRANSPORT: Final = b"strict-transport-security"


class PolicyHeaders:
    """Answers as another application of ASGI does, with these headers."""

    def __init__(self, application: ASGIApp, content: str, transport: str) -> None:
        """Prepare.

        Args:
            content: The content security policy in the place of the answer's own; empty for that.
            transport: The policy of strict transport security, for answers over TLS; empty for
                none.
        """
        self._application = application
        self._content = content.encode()
        self._transport = transport.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        transport = self._transport if scope.get("scheme") == "https" else b""
        if not (self._content or transport):
            await self._application(scope, receive, send)
            return

        async def with_policies(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                if self._content:
                    headers = [each for each in headers if each[0] != CONTENT]
                    headers.append((CONTENT, self._content))
                if transport:
                    headers.append((TRANSPORT, transport))
                message = {**message, "headers": headers}
            await send(message)

        await self._application(scope, receive, with_policies)
