"""What a start leaves in memory of its libraries is given back, and is found when it runs again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pika
import pytest

from tests.clients.support import eventually
from tests.support.broker import HOST, Broker
from warren.server.start_code import StartCode, unchanged_code

LIBRARY = "/usr/lib/libx.so.1.2"


def mapping(place: str, rights: str, path: str, anonymous_kb: int) -> list[str]:
    """What the kernel tells of one."""
    return [
        f"{place} {rights} 00000000 08:01 77                      {path}\n",
        "Size:                 64 kB\n",
        f"Anonymous:            {anonymous_kb:5} kB\n",
        "VmFlags: rd ex mr mw me\n",
    ]


def test_only_what_nobody_can_have_changed_is_given_back() -> None:
    told = [
        *mapping("1000-2000", "r-xp", LIBRARY, 0),
        *mapping("2000-3000", "rw-p", LIBRARY, 0),
        *mapping("3000-4000", "r--p", LIBRARY, 4),
        *mapping("4000-6000", "r--p", "/opt/a b/y.cpython-311-x86_64-linux-gnu.so", 0),
        *mapping("6000-7000", "r--p", "/usr/lib/locale/locale-archive", 0),
        *mapping("7000-8000", "r--s", LIBRARY, 0),
        *mapping("8000-9000", "r-xp", f"{LIBRARY} (deleted)", 0),
        "9000-a000 rw-p 00000000 00:00 0 \n",
        "Anonymous:                0 kB\n",
    ]
    assert list(unchanged_code(told)) == [(0x1000, 0x1000), (0x4000, 0x2000)]


def test_what_was_given_back_runs_again() -> None:
    job = StartCode()
    for _ in range(3):
        job.run()
    job.done(None)
    assert sorted({"b": 1, "a": 2}) == ["a", "b"]


@pytest.mark.process
def test_a_node_at_rest_does_not_keep_what_its_start_took(private_broker: Broker) -> None:
    """The most that it ever had in memory is more than it has; clients are answered as ever."""
    broker = private_broker

    def given_back() -> bool:
        rows = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
        has = {name: value.split() for name, _, value in (row.partition(":") for row in rows)}
        return int(has["VmHWM"][0]) - int(has["VmRSS"][0]) > 2048

    eventually(given_back)
    with closing(pika.BlockingConnection(pika.ConnectionParameters(HOST, broker.port))) as client:
        assert client.channel().queue_declare("orders").method.message_count == 0
