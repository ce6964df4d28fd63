"""Compiles the inner packages with mypyc when the package is built.

All compiled modules form one group, so that calls between them are plain C calls. A module that
does not compile fails the build. `WARREN_PURE=1` in the environment builds without C.

Each module becomes a C file of its own: they compile on all cores, and one whose C text, headers,
flags and compiler are those of the last build is not compiled again, wherever the headers lie: pip
builds in a new place each time.

Lines that begin with `warren: ` say how far the build is; pip shows them when it is told `-v`, as
`tools/prepare` does. `WARREN_BUILD_TAG` in the environment becomes part of the wheel's name.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from setuptools import setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/warren")
GENERATED = Path("build/mypyc")
COMPILED = (
    "errors.py",
    "headed_list.py",
    "ids.py",
    "limits.py",
    "pending.py",
    "ports.py",
    "queue_types.py",
    "sharded_dict.py",
    "term_runs.py",
    "turn_budget.py",
    "versions.py",
    "message",
    "wire",
    "log",
    "raft",
    "replication",
    "routing",
    "metadata",
    "queues",
    "vhost",
    "protocols",
    "node",
    "client",
    "server/clients.py",
    "server/disk.py",
    "server/executor.py",
    "server/held_sockets.py",
    "server/lingering.py",
    "server/node_links.py",
    "server/peer_link.py",
    "server/peers.py",
    "server/turns.py",
)
"""The inner rooms, and of the shell what each message passes. The rest of the shell, configuration,
administration and Spark stay interpreted."""
COMPILE_FLAGS = ["-fvisibility=hidden", "-fno-semantic-interposition"]
LINK_FLAGS = ["-Wl,-Bsymbolic"]
"""Nobody else takes the place of our functions: calls between C files are calls, and what they
share is found without a table. For compilers that know the flags, on Linux."""


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

    began = time.monotonic()
    modules = compiled_modules()
    say(f"checking the types of {len(modules)} modules and translating them to C")
    made = mypycify(
        modules,
        opt_level="3",
        debug_level="0",
        multi_file=True,
        group_name="warren",
        target_dir=str(GENERATED),
    )
    if sys.platform == "linux":
        for extension in made:
            # mypyc gives all of them one list.
            extension.extra_compile_args = [*extension.extra_compile_args, *COMPILE_FLAGS]
            extension.extra_link_args = [*extension.extra_link_args, *LINK_FLAGS]
    say(f"translated {len(modules)} modules in {time.monotonic() - began:.0f} s")
    return made


def say(text: str) -> None:
    """Tell who watches the build how far it is, in one write: compilers are named meanwhile."""
    sys.stdout.write(f"warren: {text}\n")
    sys.stdout.flush()


class Progress:
    """Counts C files and says so, every few seconds at most."""

    PAUSE_SECONDS = 4.0

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._compiled = 0
        self._began = time.monotonic()
        self._said_at = self._began
        self._lock = threading.Lock()

    def step(self, compiled: bool) -> None:
        """Count one more file; it was compiled, or had not changed."""
        with self._lock:
            self._done += 1
            self._compiled += compiled
            if time.monotonic() - self._said_at >= self.PAUSE_SECONDS:
                self._said_at = time.monotonic()
                say(f"compiling {self._done} of {self._total} C files")

    def end(self) -> None:
        """Say what was done in all."""
        unchanged = self._total - self._compiled
        say(
            f"compiled {self._compiled} C files in {time.monotonic() - self._began:.0f} s"
            + (f", {unchanged} had not changed" if unchanged else "")
        )


def headers_of(folder: str) -> str:
    """What the headers below a folder amount to."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.h")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def read_headers(command: list[str], folders: set[str], options: list[str]) -> list[str]:
    """Has gcc read once what all translated modules include: a fifth of the time that they take.

    The objects are the same to the byte. What comes back tells gcc where that is; where it fails to
    read them, nothing, and it reads them for each.
    """
    # Not among the generated ones: by those it is told whether a C file has to be compiled anew.
    header = GENERATED.parent / "headers" / "shared.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text('#include "__native_warren.h"\n#include "__native_internal_warren.h"\n')
    places = [f"-I{folder}" for folder in sorted(folders)]
    output = ["-x", "c-header", str(header), "-o", f"{header}.gch"]
    read = subprocess.run([*command, *places, *output, *options], capture_output=True)
    return ["-include", str(header)] if read.returncode == 0 else []


class CachedBuild(build_ext):
    """Compiles C files side by side and keeps those that did not change."""

    def build_extensions(self) -> None:
        """Build all extensions."""
        if not self.extensions:
            return
        compile_some = self.compiler.compile
        headers = b"".join(path.read_bytes() for path in sorted(GENERATED.rglob("*.h")))
        version = subprocess.run(
            [self.compiler.compiler_so[0], "--version"], capture_output=True, check=True
        ).stdout
        progress = Progress(sum(len(extension.sources) for extension in self.extensions))
        named = {folder for extension in self.extensions for folder in extension.include_dirs}
        included = {folder: headers_of(folder) for folder in named}
        cores = os.cpu_count() or 1
        # Extensions are built side by side, and so are the files of one: no more compilers than
        # cores all the same.
        self.parallel = cores
        room = threading.Semaphore(cores)
        read_before: list[str] = []
        if b"Free Software Foundation" in version:
            read_before = read_headers(
                self.compiler.compiler_so,
                named.union(self.compiler.include_dirs),
                self.extensions[0].extra_compile_args,
            )

        def compile_one(source: str, arguments: dict[str, object]) -> str:
            target: str = self.compiler.object_filenames(
                [source], output_dir=str(arguments.get("output_dir") or "")
            )[0]
            stamp = Path(target + ".sha256")
            digest = hashlib.sha256(headers + version + Path(source).read_bytes())
            given = {name: value for name, value in arguments.items() if name != "include_dirs"}
            digest.update(repr((self.compiler.compiler_so, sorted(given.items()))).encode())
            # mypyc names its folders in any order.
            folders = cast("list[str]", arguments.get("include_dirs") or [])
            digest.update(repr(sorted(included.get(each, each) for each in folders)).encode())
            stale = (
                not os.path.exists(target)
                or not stamp.exists()
                or (stamp.read_text() != digest.hexdigest())
            )
            if stale:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                with room:
                    ours = GENERATED in Path(source).parents
                    compile_some([source], **arguments, extra_preargs=read_before if ours else [])
                stamp.write_text(digest.hexdigest())
            progress.step(stale)
            return target

        def compile_all(sources: list[str], **arguments: object) -> list[str]:
            # The longest first: else a core is left alone with one in the end.
            order = sorted(sources, key=os.path.getsize, reverse=True)
            with ThreadPoolExecutor(cores) as pool:
                made = pool.map(lambda source: compile_one(source, arguments), order)
                targets = dict(zip(order, made, strict=True))
            return [targets[source] for source in sources]

        self.compiler.compile = compile_all
        super().build_extensions()
        progress.end()


def wheel_options() -> dict[str, str]:
    """The build tag of the wheel, if one is wanted: a digit, and what the builder says."""
    tag = os.environ.get("WARREN_BUILD_TAG", "")
    return {"build_number": f"0_{tag}"} if tag else {}


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": CachedBuild},
    options={"bdist_wheel": wheel_options()},
)
