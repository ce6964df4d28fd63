"""What images are made of: versions with hashes, which fit what `pyproject.toml` asks for."""

from __future__ import annotations

import re
import tomllib

import pytest

from tools.lock import LOCKS, ROOT, wanted

PINNED = re.compile(r"^([a-z0-9._-]+)==([0-9][0-9a-z.]*)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def pins(name: str) -> dict[str, str]:
    """The version of each package that a file has."""
    lines = (ROOT / "packaging" / name).read_text("utf-8").split("\n")
    assert lines.pop() == ""
    found: dict[str, str] = {}
    for at, line in enumerate(lines):
        pinned = PINNED.match(line)
        if pinned is None:
            assert HASH.match(line), f"{name}:{at + 1} is no hash: {line}"
        else:
            assert HASH.match(lines[at + 1]), f"{name}:{at + 1} has no hash"
            found[pinned[1].replace("_", "-")] = pinned[2]
    return found


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


@pytest.mark.parametrize("name", LOCKS)
def test_versions_fit_what_is_asked_for(name: str) -> None:
    """Else `make lock` writes them anew."""
    found = pins(name)
    asked = wanted(*LOCKS[name])
    assert len(asked) >= 7 and len(found) >= len(asked)
    for line in asked:
        package = re.split(r"[\[<>=;]", line)[0].strip().lower().replace("_", "-")
        assert package in found, f"{line} is not in {name}: run `make lock`"
        version = numbers(found[package])
        for sign, bound in re.findall(r"(>=|==|<)([0-9.]+)", line.partition(";")[0]):
            fits = {
                ">=": version >= numbers(bound),
                "==": version == numbers(bound),
                "<": version < numbers(bound),
            }[sign]
            assert fits, f"{line} is {found[package]} in {name}: run `make lock`"


def test_both_files_have_one_version_of_what_they_share() -> None:
    """The compiler's run-time library has to fit what was compiled."""
    build, run = pins("requirements-build.txt"), pins("requirements.txt")
    shared = build.keys() & run.keys()
    assert "librt" in shared
    assert {name: build[name] for name in shared} == {name: run[name] for name in shared}


def test_images_take_nothing_without_a_hash() -> None:
    text = (ROOT / "packaging" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip install [^&\n]*", text)
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line or "--no-deps --no-index" in line, line
    assert "--no-build-isolation" in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["build-system"]["requires"], "what the build is made of is pinned, too"
