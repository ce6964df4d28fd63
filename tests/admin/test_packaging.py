"""What `packaging/` names is there: commands, settings, units; and shells complete words."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from warren.__main__ import main
from warren.admin.cli.tools.main import of_tool
from warren.config.building import build
from warren.config.reading import parse_lines

FOLDER = Path(__file__).resolve().parents[2] / "packaging"
FILES = sorted(path.name for path in FOLDER.iterdir())
TOOL = re.compile(r"\b(rabbitmq(?:ctl|-queues|-diagnostics|-upgrade))\b[\", ]+(?:-q[\", ]+)?(\w+)")


@pytest.mark.parametrize("name", FILES)
def test_commands_are_there(name: str) -> None:
    for tool, command in TOOL.findall((FOLDER / name).read_text("utf-8")):
        assert command in of_tool(tool), (tool, command)


def test_the_commands_of_a_stop_and_of_readiness_are_seen() -> None:
    text = (FOLDER / "kubernetes.yaml").read_text("utf-8")
    assert set(TOOL.findall(text)) == {
        ("rabbitmq-queues", "check_if_node_is_quorum_critical"),
        ("rabbitmq-upgrade", "await_online_quorum_plus_one"),
        ("rabbitmq-upgrade", "drain"),
    }


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_settings_make_a_cluster_of_three(name: str) -> None:
    text = (FOLDER / name).read_text("utf-8")
    lines = re.findall(r"^ +(cluster_formation\S+ = \S+)$", text, re.MULTILINE)
    got = build(parse_lines("\n".join(lines), name))
    assert len(got.cluster_nodes) == 3 and got.warnings == ()
    for node, host, port in got.cluster_nodes:
        assert node == f"rabbit@{host}" and port == 25_672


def test_each_cluster_has_an_administrator_who_can_log_in_from_elsewhere() -> None:
    """Guest is bound to its own machine, which in a container is the container."""
    for name, password in (
        ("compose.yaml", r"RABBITMQ_DEFAULT_PASS: \"\$\{WARREN_PASSWORD:\?"),
        ("kubernetes.yaml", r"RABBITMQ_DEFAULT_PASS\n +valueFrom: \{secretKeyRef:"),
    ):
        text = (FOLDER / name).read_text("utf-8")
        assert re.search(password, text)
        (user,) = re.findall(r"RABBITMQ_DEFAULT_USER(?:, value)?: (\w+)", text)
        assert user != "guest"


def test_the_context_of_images_has_no_secrets_and_no_builds() -> None:
    ignored = (FOLDER.parent / ".dockerignore").read_text("utf-8").split("\n")
    assert {".git", "build", "**/*.so", "packaging/secret", "packaging/.env"} <= set(ignored)


def test_probes_are_cheap() -> None:
    for name in ("Dockerfile", "kubernetes.yaml"):
        text = (FOLDER / name).read_text("utf-8")
        assert "warren.probe" in text and "check_running" not in text


def test_the_unit_reads_the_configuration_and_waits_until_the_node_is_ready() -> None:
    text = (FOLDER / "warren.service").read_text("utf-8")
    for line in ("Type=notify", "WatchdogSec=120", "WARREN_CONFIG=/etc/warren/warren.conf"):
        assert line in text


def test_the_unit_is_understood() -> None:
    text = (FOLDER / "warren.service").read_text("utf-8")
    assert "User=warren" in text and "Restart=on-failure" in text
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", str(FOLDER / "warren.service")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        # Programs that are not installed here are no fault of the unit.
        faults = [
            line
            for line in done.stderr.splitlines()
            if "warren.service" in line and "is not executable" not in line
        ]
        assert faults == []


def completed(words: list[str]) -> list[str]:
    """What bash offers for the last word, of which a part may be there."""
    script = """
    source /dev/stdin
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _warren; printf '%s\\n' "${COMPREPLY[@]}"
    """
    shown = subprocess.run(
        ["bash", "-c", script, "bash", "warren", *words],
        input=_script("bash"), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return shown.stdout.split()


def _script(shell: str) -> str:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["completion", shell]) == 0
    return out.getvalue()


def test_bash_completes_commands_and_options() -> None:
    assert completed(["que"]) == ["queues"]
    assert completed(["completion", ""]) == ["bash", "zsh", "fish", "--help"]
    assert "--data-dir" in completed(["server", "--da"])
    assert "--rate" in completed(["migrate", "--from", "amqp://x", "--r"])


def test_other_shells_get_the_same_words() -> None:
    assert "complete -o default -F _warren warren" in _script("zsh")
    fish = _script("fish")
    assert "-f -a queues -d 'list queues, or move members" in fish
    assert "-l rate -d 'at most so many a second'" in fish
