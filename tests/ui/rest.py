"""A few requests of the HTTP API, for tests of pages."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.support.patience import patient

WAIT_SECONDS_MAX = patient(15.0)
POLL_SECONDS = 0.05


class Rest:
    """The API of one broker, and plain requests of pages without a browser."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def ask(self, method: str, *segments: str, body: Any = None) -> Any:
        """Ask for something; the answer, None if there is nothing there."""
        path = "/api/" + "/".join(quote(segment, safe="") for segment in segments)
        text = None if body is None else json.dumps(body)
        credentials = base64.b64encode(b"guest:guest").decode()
        status, _, answer = self.plain(
            method, path, text, {"authorization": f"Basic {credentials}"}
        )
        if status == 404:
            return None
        assert status < 400, (method, path, status, answer)
        return json.loads(answer) if answer else None

    def plain(
        self,
        method: str,
        path: str,
        body: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], str]:
        """One request: status, headers by small names, body."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=WAIT_SECONDS_MAX)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read().decode()
        finally:
            connection.close()

    def publish(self, queue: str, count: int, **properties: Any) -> None:
        """Put messages into a queue of the vhost `/`."""
        for number in range(count):
            document = {
                "routing_key": queue,
                "properties": {"delivery_mode": 2, **properties},
                "payload": f"m{number}",
                "payload_encoding": "string",
            }
            answer = self.ask("POST", "exchanges", "/", "amq.default", "publish", body=document)
            assert answer == {"routed": True}

    def ready(self, queue: str) -> int:
        """How many messages of a queue are ready."""
        return int(self.ask("GET", "queues", "/", queue)["messages_ready"])


def wait_for(found: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not found():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(POLL_SECONDS)
