"""What is looked at of a node from outside: its process, its log, its memory and descriptors."""

from __future__ import annotations

import http.client
import json
import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.broker import Broker, BrokerDied
from tests.support.patience import patient

FAULTS = re.compile(rb"\[CRITICAL\]|^Traceback \(most recent call last\)", re.MULTILINE)
FAULT_LINES = 40
ASK_SECONDS = patient(10.0)
MEMORY_SHARE = 1.05
MEMORY_MORE_BYTES = 24 << 20
"""Caches and histories that are bounded."""
DESCRIPTORS_MORE = 8
STAYS = ("/", "guest")
"""The vhost and the user of those who are not the fuzzer's."""


class Found(AssertionError):
    """A fuzzer has found a fault of the node."""


@dataclass(frozen=True)
class Held:
    """What a node holds.

    Attributes:
        memory_bytes: Memory in use: in RAM, without what the C library keeps free for later.
        descriptors: Open files and sockets.
        objects: Connections, channels, queues and so on, counted by itself.
    """

    memory_bytes: int
    descriptors: int
    objects: dict[str, int]

    def __str__(self) -> str:
        return f"{self.memory_bytes >> 20} MiB and {self.descriptors} descriptors"

    def beyond(self, before: Held) -> str:
        """What of this is more than was held before and may be; empty for nothing."""
        most = int(before.memory_bytes * MEMORY_SHARE) + MEMORY_MORE_BYTES
        if self.objects != before.objects:
            return f"objects: {self.objects}, before: {before.objects}"
        if self.descriptors > before.descriptors + DESCRIPTORS_MORE:
            return f"{self.descriptors} descriptors, before: {before.descriptors}"
        if self.memory_bytes > most:
            had = f"before: {before.memory_bytes >> 10:,} KB"
            return f"{self.memory_bytes >> 10:,} KB of memory, {had}"
        return ""


class Watched:
    """One node that is fuzzed.

    Attributes:
        broker: Its process.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._read_to = 0
        self._connection: http.client.HTTPConnection | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        return self.broker.host, self.broker.port

    @property
    def api(self) -> tuple[str, int]:
        """Where its HTTP API is."""
        return self.broker.host, int(self.broker.management)

    def check(self) -> None:
        """See that it runs, and that its log has nothing that must not be there.

        Raises:
            Found: It has ended, or says that it failed.
        """
        try:
            self.broker.check_alive()
        except BrokerDied as died:
            raise Found(f"the node ended by itself: {died}") from None
        with self.broker.log_path.open("rb") as log:
            log.seek(self._read_to)
            text = log.read()
        # A line that is not whole yet is looked at the next time.
        whole = text[: text.rfind(b"\n") + 1]
        self._read_to += len(whole)
        fault = FAULTS.search(whole)
        if fault is not None:
            begin = whole.rfind(b"\n", 0, fault.start()) + 1
            lines = whole[max(0, begin - 300) :].decode("utf-8", "replace").splitlines()
            raise Found("the node's log says:\n" + "\n".join(lines[:FAULT_LINES]))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask its HTTP API as `guest`; what it answers, or None where there is no such thing.

        Raises:
            Found: It fails, or does not answer in time.
        """
        headers = {"authorization": f"Basic {b64encode(b'guest:guest').decode()}"}
        content = None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection(*self.api, timeout=ASK_SECONDS)
        try:
            connection.request(method, f"/api{path}", content, headers)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.check()
            raise Found(f"{method} {path} is not answered: {error!r}") from None
        finally:
            connection.close()
        if answer.status == 404:
            return None
        if answer.status >= 300:
            raise Found(f"{method} {path}: {answer.status} {said[:300]!r}")
        return json.loads(said) if said else None

    def clean(self) -> None:
        """Delete all that a fuzzer may have made."""
        for row in self.ask("GET", "/vhosts"):
            if row["name"] not in STAYS:
                name = quote(row["name"], safe="")
                self.ask("DELETE", f"/vhosts/{name}/deletion/protection")
                self.ask("DELETE", f"/vhosts/{name}")
        for row in self.ask("GET", "/users"):
            if row["name"] not in STAYS:
                self.ask("DELETE", f"/users/{quote(row['name'], safe='')}")
        for row in self.ask("GET", "/global-parameters"):
            if row["name"].startswith("f."):
                self.ask("DELETE", f"/global-parameters/{quote(row['name'], safe='')}")

    def held(self) -> Held:
        """What it holds now."""
        overview = self.ask("GET", "/overview")
        memory = self.ask("GET", f"/nodes/{quote(overview['node'])}/memory")["memory"]
        return Held(
            memory["total"]["rss"] - memory["allocated_unused"],
            len(list(Path(f"/proc/{self.broker.pid}/fd").iterdir())),
            overview["object_totals"],
        )
