"""RabbitMQ's Java client, as Debian has it, against the broker: dead letters, expiration, RPC."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.fixtures import Names
from tests.support.patience import patient

CHECK = Path(__file__).parent / "java" / "Check.java"
JARS = [Path("/usr/share/java") / name for name in ("amqp-client.jar", "slf4j-api.jar")]


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path with the compiled checks."""
    assert shutil.which("javac"), "needs a JDK; `make test` installs it"
    assert JARS[0].exists(), "needs librabbitmq-client-java; `make test` installs it"
    folder = tmp_path_factory.mktemp("java")
    path = ":".join(map(str, [folder, *JARS]))
    subprocess.run(
        ["javac", "-cp", path, "-d", str(folder), str(CHECK)], check=True, timeout=patient(120)
    )
    return path


@pytest.mark.parametrize("check", ["deadletters", "expiration", "priorities", "rpc"])
def test_java(
    check: str, kind: str, names: Names, amqp_address: tuple[str, int], classes: str
) -> None:
    name = names.queue()
    names.queue(f"{name}-dead")
    names.exchange(f"{name}-dlx")
    host, port = amqp_address
    done = subprocess.run(
        ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classes, "Check",
         host, str(port), check, name, kind],
        capture_output=True, text=True, timeout=patient(60), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
