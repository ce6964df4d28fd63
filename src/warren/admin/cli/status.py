"""The command `warren status`: what one running node is doing, at a glance."""

from __future__ import annotations

import argparse

from warren.admin.cli.cluster import nodes
from warren.admin.cli.words import examples
from warren.admin.service.rows import Status

EXAMPLES = examples(
    "warren status --data-dir data",
    "warren status --contact host2:25672 --secret-file secret --json",
)


def run(words: argparse.Namespace) -> int:
    """Ask and show; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.admin.cli.asking import builtins, put, show

    state, status = put(words, "status", {}, Status)
    if state == 0:
        show(words, builtins(status), describe(status))
    return state


def describe(status: Status) -> str:
    """A status in words."""
    up = duration(status.uptime_seconds)
    memory = size(status.memory_bytes)
    limit = size(status.memory_limit_bytes)
    free = size(status.disk_free_bytes) if status.disk_free_bytes >= 0 else "unknown"
    floor = size(status.disk_free_limit_bytes)
    rows = [
        ("node", f"{status.node}, Warren {status.version}, up {up}"),
        ("process", f"{status.process}, data in {status.data_dir}"),
        ("clients", f"{status.connections} connected, on {', '.join(status.listeners)}"),
        ("queues", str(status.queues_count)),
        ("memory", f"{memory}; above {limit} publishers are blocked"),
        ("disk", f"{free} free; below {floor} publishers are blocked{_reserve(status)}"),
        ("alarms", ", ".join(status.alarms) or "none"),
    ]
    return "\n".join([*(f"{name:<8} {text}" for name, text in rows), *nodes(status)])


def _reserve(status: Status) -> str:
    """Why the disk is short although more than its limit is free."""
    if "disk" not in status.alarms or status.disk_free_bytes < status.disk_free_limit_bytes:
        return ""
    return ", as they are where the log's next file does not fit beside that"


def size(count: int) -> str:
    """Bytes in the unit in which they are read best."""
    number = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            break
        number /= 1000
    return f"{number:.0f} {unit}" if number >= 100 or unit == "bytes" else f"{number:.1f} {unit}"


def duration(seconds: int) -> str:
    """A time in its two largest units."""
    for name, unit, lower, part in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // part} {lower}"
    return f"{seconds} s"
