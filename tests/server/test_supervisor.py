"""What a node tells systemd, how much memory its control groups leave it, and what a probe sees."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import Broker, free_port
from tests.support.patience import patient
from warren import probe
from warren.server.supervisor import ALIVE, READY, STOPPING, Supervisor
from warren.server.system import group_limits, total_memory_bytes


@pytest.fixture
def systemd(tmp_path: Path) -> socket.socket:
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(str(tmp_path / "notify"))
    heard.settimeout(patient(30.0))
    return heard


@pytest.mark.process
def test_a_node_says_when_it_is_ready_that_it_lives_and_that_it_stops(
    tmp_path: Path, systemd: socket.socket
) -> None:
    where = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "120000000"}
    broker = Broker(free_port(), tmp_path / "b", environment=where)
    broker.launch()
    heard = [systemd.recv(99).decode()]
    while READY not in heard:
        heard.append(systemd.recv(99).decode())
    # Nobody is told before clients may come.
    socket.create_connection((broker.host, broker.port), patient(10.0)).close()
    while heard[-1] != ALIVE:
        heard.append(systemd.recv(99).decode())
    assert broker.stop() == 0
    while heard[-1] != STOPPING:
        heard.append(systemd.recv(99).decode())
    assert set(heard) == {READY, ALIVE, STOPPING} and heard.count(READY) == 1


def test_what_nobody_listens_to_is_no_error(tmp_path: Path) -> None:
    for where in ("", str(tmp_path / "nobody"), "@warren-nobody", "x" * 500):
        Supervisor({"NOTIFY_SOCKET": where}).tell(READY)


def test_an_abstract_socket_is_reached() -> None:
    name = f"warren-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(f"\0{name}")
        Supervisor({"NOTIFY_SOCKET": f"@{name}"}).tell(READY)
        assert heard.recv(99) == READY.encode()


def test_the_watchdog_of_another_process_is_not_fed() -> None:
    known = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1"}
    assert Supervisor(known).watches
    assert Supervisor({**known, "WATCHDOG_PID": str(os.getpid())}).watches
    assert not Supervisor({**known, "WATCHDOG_PID": "1"}).watches
    assert not Supervisor({"WATCHDOG_USEC": "1"}).watches


def group(mounted: Path, path: str, name: str, value: str) -> None:
    folder = mounted / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(value + "\n")


def test_limits_are_those_of_all_groups_that_a_process_is_in(tmp_path: Path) -> None:
    groups, mounted = tmp_path / "cgroup", tmp_path / "fs"
    assert list(group_limits(groups, mounted)) == []
    groups.write_text("0::/system.slice/warren.service\n")
    group(mounted, "system.slice/warren.service", "memory.max", "max")
    assert list(group_limits(groups, mounted)) == []
    group(mounted, "system.slice/warren.service", "memory.high", "700")
    group(mounted, "system.slice", "memory.max", "500")
    group(mounted, "", "memory.max", "900")
    group(mounted, "other.slice", "memory.max", "1")
    assert sorted(group_limits(groups, mounted)) == [500, 700, 900]
    # A container that sees a path of the machine outside has its limit at the top.
    groups.write_text("0::/../../pod/of/outside\n")
    assert list(group_limits(groups, mounted)) == [900]


def test_limits_of_the_older_kind(tmp_path: Path) -> None:
    groups, mounted = tmp_path / "cgroup", tmp_path / "fs"
    groups.write_text("5:cpu,cpuacct:/a\n4:memory:/docker/x\n1:name=systemd:/b\n0::/\n")
    group(mounted, "memory/docker/x", "memory.limit_in_bytes", "300")
    group(mounted, "memory", "memory.limit_in_bytes", str(2**63 - 4096))
    assert min(group_limits(groups, mounted)) == 300


def test_the_memory_that_counts_is_no_more_than_the_machine_has() -> None:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < total_memory_bytes() <= machine


@pytest.mark.process
def test_a_probe_sees_whether_a_node_answers(tmp_path: Path) -> None:
    broker = Broker(free_port(), tmp_path / "b")
    broker.metrics = str(free_port())
    assert not probe.answers(int(broker.metrics))
    broker.start()
    before = broker.log_text()
    try:
        command = [sys.executable, "-m", "warren.probe", broker.metrics]
        assert subprocess.run(command, timeout=patient(30.0)).returncode == 0
        assert before in broker.log_text()
        said = broker.log_text().replace(before, "")
        assert "connection from" not in said and "HTTP" not in said, said
    finally:
        broker.stop()
    assert probe.main([broker.metrics]) == 1


def test_a_probe_loads_next_to_nothing() -> None:
    code = "import sys; import warren.probe; print(len(sys.modules), 'asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")
