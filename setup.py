"""Compiles the inner packages with mypyc when the package is built.

All compiled modules form one group, so that calls between them are plain C calls. A module that
does not compile fails the build. `WARREN_PURE=1` in the environment builds without C.

Each module becomes a C file of its own: they compile on all cores, and one whose C text, headers,
flags and compiler are those of the last build is not compiled again.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/warren")
GENERATED = Path("build/mypyc")
COMPILED = (
    "errors.py",
    "limits.py",
    "ports.py",
    "message.py",
    "wire",
    "log",
    "raft",
    "routing",
    "metadata",
    "queues",
    "protocols",
    "node",
    "client",
)
"""The inner rooms. The server's shell, administration and Spark stay interpreted."""


def compiled_modules() -> list[str]:
    """The source files that are compiled; `__init__` modules hold a docstring only."""
    paths: list[Path] = []
    for room in COMPILED:
        path = PACKAGE / room
        paths += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [str(path) for path in paths if path.name != "__init__.py"]


def extensions() -> list[Any]:
    """The extension modules: one with all the code, and a small one for each module's name."""
    if os.environ.get("WARREN_PURE", "") not in ("", "0"):
        return []
    if {"dist_info", "egg_info", "sdist"}.intersection(sys.argv):
        # Asked for the package's description only.
        return []
    from mypyc.build import mypycify

    return mypycify(
        compiled_modules(),
        opt_level="3",
        debug_level="0",
        multi_file=True,
        group_name="warren",
        target_dir=str(GENERATED),
    )


class CachedBuild(build_ext):
    """Compiles C files side by side and keeps those that did not change."""

    def build_extensions(self) -> None:
        """Build all extensions."""
        compile_some = self.compiler.compile
        headers = b"".join(path.read_bytes() for path in sorted(GENERATED.rglob("*.h")))
        version = subprocess.run(
            [self.compiler.compiler_so[0], "--version"], capture_output=True, check=True
        ).stdout

        def compile_one(source: str, arguments: dict[str, object]) -> str:
            target: str = self.compiler.object_filenames(
                [source], output_dir=str(arguments.get("output_dir") or "")
            )[0]
            stamp = Path(target + ".sha256")
            digest = hashlib.sha256(headers + version + Path(source).read_bytes())
            digest.update(repr((self.compiler.compiler_so, sorted(arguments.items()))).encode())
            if (
                not os.path.exists(target)
                or not stamp.exists()
                or (stamp.read_text() != digest.hexdigest())
            ):
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                compile_some([source], **arguments)
                stamp.write_text(digest.hexdigest())
            return target

        def compile_all(sources: list[str], **arguments: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(lambda source: compile_one(source, arguments), sources))

        self.compiler.compile = compile_all
        super().build_extensions()


setup(ext_modules=extensions(), cmdclass={"build_ext": CachedBuild})
