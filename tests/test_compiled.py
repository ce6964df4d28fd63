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


OUTSIDE = {
    "checksum.py": "it picks a library's function, which is called without any code of its own",
    "config/client_tls.py": "once for a connection",
    "config/peer_tls.py": "once for a link",
    "server/client_log.py": "once for a connection",
}
"""What is interpreted although compiled modules use it, and why that costs nothing."""


def test_compiled_modules_use_compiled_ones() -> None:
    """One interpreted call for each read of a socket is a tenth of what a message costs."""
    used = {
        str(path.relative_to(SOURCE))
        for module in SOURCE.rglob("*.py")
        if is_compiled(module)
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("warren.")
        for path in [Path("src", *str(node.module).split(".")).with_suffix(".py")]
        if path.exists() and not is_compiled(path)
    }
    assert used == set(OUTSIDE), "compile it (`COMPILED` of setup.py), or say why not"


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


PLANTED = Path("tests/sim/planted_cluster.py")
"""Its faults take the places of functions, which only uncompiled code allows; so do its classes."""


def test_doubles_of_closed_classes_are_left_out_where_they_cannot_be() -> None:
    """Uncompiled any class has others below it; compiled, making one fails in the test alone."""
    found = [
        str(path)
        for room in ("tests", "sim", "bench")
        for path in sorted(Path(room).rglob("*.py"))
        if closed_bases(path.read_text()) and "COMPILED" not in path.read_text()
    ]
    assert found == [str(PLANTED)], "skip it by `warren.COMPILED`, or put the class beside it"


def test_closed_bases_are_found() -> None:
    text = "from warren.errors import Refusal, StorageError\n\n"
    assert closed_bases(f"{text}class Late(StorageError): pass\nclass Rude(Refusal): pass") == [
        "warren.errors.StorageError"
    ]


CONVERSIONS = {"bool", "bytes", "float", "int", "str"}
"""Types of Python that a call converts to."""


class Conversions(ast.NodeVisitor):
    """Finds conversions of what already has that type, by the words of the source.

    Attributes:
        found: Lines and expressions.
    """

    def __init__(self) -> None:
        self.found: list[tuple[int, str]] = []
        self._known: dict[str, str] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function, whose parameters have types."""
        outer = self._known
        given = node.args
        self._known = {
            each.arg: ast.unparse(each.annotation)
            for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)
            if each.annotation is not None
        }
        self.generic_visit(node)
        self._known = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """A variable that has a type."""
        self._known[ast.unparse(node.target)] = ast.unparse(node.annotation)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """What is true from here on."""
        self.visit(node.test)
        self._known.update(checked_types(node.test))

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> None:
        """What is true in one branch."""
        self.visit(node.test)
        outer = self._known
        self._known = {**outer, **checked_types(node.test)}
        for each in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(each)
        self._known = outer
        for each in node.orelse if isinstance(node.orelse, list) else [node.orelse]:
            self.visit(each)

    visit_IfExp = visit_If
    visit_While = visit_If

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """What is true behind an `and`."""
        outer = self._known
        for each in node.values:
            self.visit(each)
            if isinstance(node.op, ast.And):
                self._known = {**self._known, **checked_types(each)}
        self._known = outer

    def visit_Call(self, node: ast.Call) -> None:
        """Perhaps a conversion."""
        name = ast.unparse(node.func)
        if name in CONVERSIONS and len(node.args) == 1:
            if self._known.get(ast.unparse(node.args[0])) == name:
                self.found.append((node.lineno, ast.unparse(node)))
        self.generic_visit(node)


def checked_types(test: ast.expr) -> dict[str, str]:
    """The types that expressions have where a test is true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return {name: kind for each in test.values for name, kind in checked_types(each).items()}
    if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance":
        return {ast.unparse(test.args[0]): ast.unparse(test.args[1])}
    return {}


def conversions(text: str) -> list[tuple[int, str]]:
    """Conversions in a module that compiled code leaves out."""
    visitor = Conversions()
    visitor.visit(ast.parse(text))
    return visitor.found


def test_no_conversion_is_left_out_by_the_compiler() -> None:
    """It takes what has the type already for converted: a subclass stays one, from 2**62 on."""
    found = [
        f"{path}:{line}: {call}"
        for path in sorted(SOURCE.rglob("*.py"))
        if is_compiled(path)
        for line, call in conversions(path.read_text())
    ]
    assert found == [], "use `plain_int` or `plain_float`, or leave the call out"


def test_conversions_that_do_nothing_are_found() -> None:
    for wrong in (
        "def f(a: int): return int(a)",
        "def f(a: Value):\n if isinstance(a, int): return int(a)",
        "def f(a: Value): return str(a) if isinstance(a, str) else ''",
        "def f(a: Value):\n assert isinstance(a, float)\n return float(a)",
        "def f(a: Value): return isinstance(a, int) and int(a) > 1",
        "def f(b):\n a: bytes = b\n return bytes(a)",
    ):
        assert len(conversions(wrong)) == 1, wrong
    for right in (
        "def f(a: i64): return int(a)",
        "def f(a: Any): return int(a)",
        "def f(a: Value):\n if isinstance(a, int): return 0\n return int(a)",
    ):
        assert conversions(right) == [], right
