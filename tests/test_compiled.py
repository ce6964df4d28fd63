"""Interpreted classes derive only from compiled ones that are open to them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SOURCE = Path("src/warren")
OPEN = "mypyc_attr(allow_interpreted_subclasses=True)"


@cache
def compiled_parts() -> tuple[str, ...]:
    """`COMPILED` of setup.py: the rooms and modules that are compiled."""
    for node in ast.parse(Path("setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED":
            parts: tuple[str, ...] = ast.literal_eval(node.value)
            return parts
    raise AssertionError("setup.py names what is compiled")


@cache
def is_compiled(path: Path) -> bool:
    """Whether a module of the source is compiled."""
    return any(path == SOURCE / part or SOURCE / part in path.parents for part in compiled_parts())


def closed_bases(text: str) -> list[str]:
    """Compiled classes that an interpreted module derives from, and that are not open to it."""
    tree = ast.parse(text)
    homes = {
        name.asname or name.name: (node.module or "", name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    used = {
        homes[base.id]
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in homes
    }
    return [f"{module}.{name}" for module, name in sorted(used) if is_closed(module, name)]


@cache
def is_closed(module: str, name: str) -> bool:
    """Whether a class is compiled, and says nothing of interpreted subclasses."""
    path = Path("src", *module.split(".")).with_suffix(".py")
    if not path.exists() or not is_compiled(path):
        return False
    return any(
        isinstance(node, ast.ClassDef)
        and node.name == name
        and OPEN not in map(ast.unparse, node.decorator_list)
        for node in ast.parse(path.read_text()).body
    )


def test_interpreted_classes_derive_from_open_ones() -> None:
    """A closed exception is derived from without a word, and fails when it is raised."""
    modules = [path for path in SOURCE.rglob("*.py") if not is_compiled(path)]
    assert modules
    found = {str(path): bases for path in modules if (bases := closed_bases(path.read_text()))}
    assert found == {}


def test_closed_bases_are_found() -> None:
    text = "from warren.errors import Refusal, StorageError\n\n"
    assert closed_bases(f"{text}class Late(StorageError): pass\nclass Rude(Refusal): pass") == [
        "warren.errors.StorageError"
    ]
