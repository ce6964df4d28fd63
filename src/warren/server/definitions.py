"""A node has definitions be there before its clients come (`load_definitions`)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from warren.admin.service.caller import LOCAL
from warren.admin.service.definitions import import_definitions
from warren.admin.service.service import AdminService
from warren.admin.service.waiting import until
from warren.config.config import ServerConfig
from warren.errors import TIMED_OUT, ConfigError, Refusal

log = logging.getLogger("warren")

NOTE: Final = "definitions.sha256"
"""The file of the data directory that says which definitions were loaded last."""
WAITS: Final = 30
WAIT_SECONDS: Final = 10.0
"""For the nodes that there are to be; so often, and so long each time."""
TRIES: Final = 3
"""How often it is asked where no majority answers; each time takes as long as an operation may."""


async def load_definitions(
    config: ServerConfig, service: AdminService, stopping: asyncio.Future[int]
) -> None:
    """Have all be there that the configured files say.

    Args:
        stopping: Done once the node is to end: nothing is waited for then.

    Raises:
        ConfigError: A file cannot be read, or something of it cannot be; says which and what.
    """
    if not config.load_definitions:
        return
    note = Path(config.data_dir) / NOTE
    files = _files(Path(config.load_definitions))
    contents = [_read(file) for file in files]
    digest = hashlib.sha256(b"\0".join(contents)).hexdigest()
    if config.definitions_skip and note.exists() and note.read_text("utf-8").strip() == digest:
        log.info("definitions of %s are those of the last start", config.load_definitions)
        return
    if not note.exists():
        await await_nodes(config.target_size, service.members.running, stopping.done)
    if stopping.done():
        return
    for file, content in zip(files, contents, strict=True):
        await _load(service, file, content)
    note.write_text(digest + "\n", "utf-8")


async def await_nodes(
    count: int, running: Callable[[], list[str]], ended: Callable[[], bool]
) -> None:
    """Wait until so many nodes run, for a time; queues get members on those that there are.

    Only a directory's first start waits: a node that comes back while another one is down is to let
    its clients in.
    """
    for left in range(WAITS, 0, -1):
        if len(running()) >= count or ended():
            return
        log.warning(
            "%d of %d nodes (cluster_formation.target_cluster_size_hint) run; definitions are "
            "loaded once the others do, or in %.0f s",
            len(running()),
            count,
            left * WAIT_SECONDS,
        )
        await until(lambda: len(running()) >= count or ended(), WAIT_SECONDS)
    if not ended() and len(running()) < count:
        log.warning(
            "only %d of %d nodes run: definitions are loaded all the same, and new quorum queues "
            "have no members on the others (rabbitmq-queues grow adds them)",
            len(running()),
            count,
        )


def _files(path: Path) -> list[Path]:
    """The file, or those of the folder by their names."""
    if path.is_dir():
        return sorted(path.glob("*.json"))
    return [path]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"definitions {file}: {error.strerror}") from error


async def _load(service: AdminService, file: Path, content: bytes) -> None:
    try:
        definitions: Any = json.loads(content)
    except ValueError as error:
        raise ConfigError(f"definitions {file}: no JSON: {error}") from None
    if not isinstance(definitions, dict):
        raise ConfigError(f"definitions {file}: an object is expected")
    for left in range(TRIES - 1, -1, -1):
        try:
            done = await import_definitions(service, LOCAL, definitions=definitions)
        except (Refusal, ValueError) as error:
            if isinstance(error, Refusal) and error.kind == TIMED_OUT and left > 0:
                log.warning("definitions %s: %s", file, error)
                continue
            raise ConfigError(f"definitions {file}: {error}") from None
        for skipped in done.skipped:
            log.warning("definitions %s: left out: %s", file, skipped)
        log.info("definitions %s are loaded", file)
        return
