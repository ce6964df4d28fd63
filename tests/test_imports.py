"""Imports go downwards only, as `docs/architecture.md` has it; tests import what they may."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

BASE = {
    "turn_budget",
    "checksum",
    "errors",
    "headed_list",
    "ids",
    "limits",
    "pending",
    "ports",
    "sharded_dict",
    "term_runs",
    "versions",
}
WIRE = BASE | {"wire"}
LOGS = WIRE | {"raft", "log", "message"}
REPLICATION = LOGS | {"replication"}
QUEUES = REPLICATION | {"queue_types", "queues", "metadata", "routing"}
VHOST = QUEUES | {"vhost"}
NODE = VHOST | {"protocols", "node"}

MAY_IMPORT: dict[str, set[str]] = {
    "turn_budget": {"limits"},
    "checksum": set(),
    "errors": set(),
    "headed_list": set(),
    "ids": set(),
    "limits": set(),
    "pending": {"errors"},
    "probe": set(),
    "sharded_dict": set(),
    "term_runs": set(),
    "versions": set(),
    "ports": BASE - {"ports"},
    "queue_types": BASE,
    "wire": BASE,
    "message": WIRE,
    "raft": WIRE,
    "log": WIRE,
    "replication": LOGS,
    "routing": LOGS,
    "metadata": LOGS | {"queue_types", "routing"},
    "queues": REPLICATION | {"queue_types"},
    "vhost": QUEUES,
    "protocols": VHOST,
    "node": NODE - {"node"},
    "config": BASE | {"log", "protocols", "queue_types"},
    "admin": BASE
    | {"client", "config", "message", "metadata", "node", "offline", "protocols", "queue_types"}
    | {"pipeline", "queues"}
    | {"routing", "spark", "vhost"},
    "server": NODE | {"admin", "config"},
    "client": WIRE,
    "offline": NODE | {"config"},
    "spark": WIRE | {"client", "log", "message", "offline", "queue_types"},
    "pipeline": BASE | {"client", "spark"},
    # It reads what a feed tells as users do.
    "sim": NODE | {"spark"},
    "pyspark_warren": {"spark"},
    "__main__": {"admin", "config", "server"},
}
"""For each room, the other rooms of `warren` that its modules may import."""


def room_of(path: Path) -> str:
    """The room a source file belongs to: the first name below the package."""
    parts = path.relative_to(SOURCE).with_suffix("").parts if SOURCE in path.parents else ("sim",)
    return parts[1] if parts[0] == "warren" else parts[0]


def imported_rooms(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and room of each import from `warren`, those for type checking only included."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            names = [node.module or ""]
            if node.module == "warren":
                names = [f"warren.{alias.name}" for alias in node.names]
        for name in names:
            top, _, rest = name.partition(".")
            if top == "warren" and rest and not rest.startswith("__"):
                yield node.lineno, rest.split(".")[0]


FILES = [
    path
    for path in sorted([*SOURCE.rglob("*.py"), *(ROOT / "sim").rglob("*.py")])
    if path != SOURCE / "warren" / "__init__.py"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} has no place among the rooms"
    wrong = [
        f"line {line}: {room} imports {other}"
        for line, other in imported_rooms(ast.parse(path.read_text(encoding="utf-8")))
        if other != room and other not in MAY_IMPORT[room]
    ]
    assert not wrong, "\n".join(wrong)


SERVICE = BASE | {
    "message",
    "metadata",
    "node",
    "protocols",
    "queue_types",
    "queues",
    "routing",
    "vhost",
    "admin.compatible",
    "admin.service",
}

ADMIN_MAY_IMPORT: dict[str, set[str]] = {
    "service": SERVICE,
    "control": SERVICE,
    "printable": set(),
    "compatible": set(),
    "http": BASE
    | {
        "metadata.arguments",
        "metadata.json_scan",
        "metadata.patterns",
        "queue_types",
        "admin.compatible",
        "admin.http",
        "admin.service",
        "admin.ui.application",
    },
    "ui": BASE | {"queue_types", "admin.http", "admin.service", "admin.ui"},
    "metrics": BASE
    | {
        "metadata.patterns",
        "admin.compatible",
        "admin.http.answers",
        "admin.http.authentication",
        "admin.http.errors",
        "admin.metrics",
        "admin.service",
    },
    "dialling": BASE | {"config", "protocols"},
    "cli": BASE
    | {
        "client",
        "config",
        "protocols",
        "pipeline",
        "queue_types",
        "offline.directory",
        "spark.archiving",
        "spark.rescue",
        "spark.settling",
        "admin.cli",
        "admin.compatible",
        "admin.dialling",
        "admin.printable",
        "admin.service.rows",
    },
}
"""For each part of `admin`, what its modules may import: the command knows rows, and no node."""


def outside_of(part: str, tree: ast.Module) -> list[str]:
    """What a module of a part of `admin` imports and may not."""
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("warren."):
            module = str(node.module).removeprefix("warren.")
            names = [f"{module}.{alias.name}" for alias in node.names]
            allowed = tuple(f"{name}." for name in ADMIN_MAY_IMPORT[part])
            wrong += [name for name in names if not f"{name}.".startswith(allowed)]
    return wrong


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if room_of(path) == "admin" and path.name != "__init__.py"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_ways_in_go_through_the_service(path: Path) -> None:
    part = path.relative_to(SOURCE / "warren" / "admin").with_suffix("").parts[0]
    assert not outside_of(part, ast.parse(path.read_text(encoding="utf-8")))


def test_a_way_around_the_service_is_found() -> None:
    text = (
        "from warren.admin.service import cluster, rows\n"
        "from warren.admin.service.rows import Row\n"
        "def f() -> None:\n    from warren.node.node import Node\n"
    )
    found = outside_of("cli", ast.parse(text))
    assert found == ["admin.service.cluster", "node.node.Node"]
    assert outside_of("service", ast.parse("from warren.config import config\n"))


def test_directions_have_no_cycle() -> None:
    """The table itself allows no two rooms to import each other, over however many others."""
    above: set[str] = set()

    def visit(room: str) -> None:
        assert room not in above, f"{room} may reach itself"
        above.add(room)
        for other in MAY_IMPORT.get(room, set()):
            visit(other)
        above.remove(room)

    for room in MAY_IMPORT:
        visit(room)


def test_a_wrong_import_is_found() -> None:
    """The reader of imports sees every form of them."""
    text = (
        "import warren.node.node\n"
        "from warren.server import main\n"
        "from warren import protocols\n"
        "from warren import __version__\n"
        "def f() -> None:\n    from warren.log.wal import Wal\n"
    )
    rooms = [room for _, room in imported_rooms(ast.parse(text))]
    assert sorted(rooms) == ["log", "node", "protocols", "server"]


# --- what the tests themselves import -----------------------------------------------------------

OWN = {"warren", "tests", "sim", "tools", "bench", "demo"}
FURTHER = {
    *("msgspec", "uvloop", "mypy_extensions", "librt", "starlette", "uvicorn", "jinja2"),
    "cryptography",
}
"""What the package itself depends on."""
IMPORTED_AS = {"PyJWT": "jwt"}
"""Packages whose modules have other names."""


def imported_names(path: Path) -> Iterator[str]:
    """The outermost name of each module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_tests_import_what_their_stage_installs() -> None:
    """A machine that has run other stages has more packages than one that begins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["optional-dependencies"]["test"]
    installed = {re.split(r"[<>=\[]", line)[0].replace("-", "_") for line in asked}
    installed |= {IMPORTED_AS[name] for name in installed & set(IMPORTED_AS)}
    known = set(sys.stdlib_module_names) | OWN | FURTHER | installed
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.relative_to(ROOT).parts[1] != "spark"
        for name in sorted(set(imported_names(path)) - known)
    ]
    assert not wrong, "\n".join(wrong)
