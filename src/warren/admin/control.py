"""What a node answers operators: the commands, over the cluster listener and with the secret.

A request is a MessagePack array, and so is its answer:

    [operation, {arguments}]     ["ok", result]    as the operation of this name answers
                                 ["more", rows] ... ["ok", rows]
                                                   where it answers in parts
                                 ["error", text, kind]
                                                   it was refused, or is not known; the kind is
                                                   that of the refusal, see `errors`

Rows are maps by the names of their columns (`service.rows`). The cluster listener answers no one
without the secret; who has it is an administrator. See docs/formats/peer-link.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from warren.admin.service.caller import LOCAL
from warren.admin.service.catalogue import OPERATIONS
from warren.admin.service.host import OperatorLink
from warren.admin.service.service import AdminService
from warren.errors import Refusal

log = logging.getLogger("warren")

UNREAD_BYTES_MAX = 1_048_576
"""What may wait for the operator to read it."""
POLL_SECONDS = 0.01

UNKNOWN_REQUEST = "this node does not know the request; use its version of the command"
FAILED = "the node failed to do it; its log says how"


class ControlSocket:
    """Answers for one node."""

    def __init__(self, service: AdminService) -> None:
        self._service = service
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether anything is not answered yet."""
        return len(self._tasks) > 0

    def asked(self, link: OperatorLink, request: bytes) -> None:
        """Begin what is asked for; the answer comes when it is done."""
        task = asyncio.get_running_loop().create_task(self._answer(link, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, link: OperatorLink, request: bytes) -> None:
        try:
            name, arguments = msgspec.msgpack.decode(request, type=tuple[str, dict[str, Any]])
            if name not in OPERATIONS:
                raise ValueError(f"there is no operation {name}")
            done = OPERATIONS[name].asked(self._service, LOCAL, arguments)
        except Refusal as refusal:
            say_refused(link, refusal)
            return
        except ValueError:
            say(link, "error", UNKNOWN_REQUEST)
            return
        try:
            if isinstance(done, AsyncGenerator):
                await in_parts(link, done)
            else:
                say(link, "ok", await done)
        except Refusal as refusal:
            say_refused(link, refusal)
        except Exception:
            log.exception("operation %s failed", name)
            say(link, "error", FAILED)


async def in_parts(link: OperatorLink, parts: AsyncGenerator[Any, None]) -> None:
    """Answer with one part after the other, no faster than they are read."""
    async with contextlib.aclosing(parts):
        async for rows in parts:
            say(link, "more", rows)
            while link.backlog_bytes > UNREAD_BYTES_MAX and not link.closed.done():
                await asyncio.sleep(POLL_SECONDS)
            if link.closed.done():
                return
    say(link, "ok", [])


def say(link: OperatorLink, kind: str, content: Any) -> None:
    """Send an operator an answer, or a part of one."""
    link.answer(msgspec.msgpack.encode([kind, content]))


def say_refused(link: OperatorLink, refusal: Refusal) -> None:
    """Tell an operator why it cannot be, and of which kind that is."""
    link.answer(msgspec.msgpack.encode(["error", refusal.text, refusal.kind]))
