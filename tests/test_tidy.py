"""What the code's form has to be, beyond what ruff and mypy see."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tools.rules import PROVEN, citations, cited_in, named_rules, read_rules

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "warren"
COLUMNS_MAX = 100
MODULE_LINES_MAX = 1_500

OUTSIDE = {"asyncio", "random", "selectors", "socket", "ssl", "threading", "time", "uvloop"}
"""Modules that touch the world: inside, a port of `warren.ports` takes their place."""

UNSAFE = {"dbm", "marshal", "pickle", "shelve"}
"""Formats without a checksum or a schema, some of which run code when they are read."""

MAY_TOUCH: dict[str, set[str]] = {
    "server": OUTSIDE,
    "admin": OUTSIDE,
    "config": {"socket", "ssl"},
    "pipeline": OUTSIDE,
    "probe.py": {"socket"},
    "spark": OUTSIDE,
    "client": {"selectors", "socket", "ssl", "threading", "time"},
}

CLEAR_ROOMS = {
    *("admin", "client", "log", "message", "metadata", "node", "raft", "replication"),
    *("pipeline", "routing", "spark", "vhost", "wire"),
}
"""Rooms whose docstrings all say who does what; others join when theirs do."""

UNCLEAR = re.compile(r"\b([Ww]hoever|[Ss]omebody|[Ss]omeone|[Nn]obody)\b|^See `")
"""What hides who acts, or says nothing by itself."""

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
MACHINE_PATH = re.compile(r"(?<![\w.}])/(work|home|root)/")
LOOSE_RULE = re.compile(r"\b(rules?|goals?) \d+\b|\bacceptance [\dA-Z]", re.IGNORECASE)

ENTRIES = {
    "warren",
    "warren.__main__",
    "warren.probe",
    "warren.server.main",
    "warren.admin.cli.tools.main",
    "warren.spark.archive",
    "warren.spark.feed",
}
"""Modules that nothing has to import: commands, what these import late, what queries import."""


def tracked(*patterns: str) -> list[Path]:
    """Files of this checkout that match, what was built or installed excepted."""
    found: set[Path] = set()
    for pattern in patterns:
        for folder in ("src", "sim", "bench", "tools", "tests", "demo"):
            found |= set((ROOT / folder).rglob(pattern))
        found |= set(ROOT.glob(pattern))
    built = {"node_modules", "__pycache__", "run", "out"}
    return sorted(
        path for path in found if path.is_file() and not built & set(path.relative_to(ROOT).parts)
    )


PYTHON = tracked("*.py")
TEXTS = PYTHON + tracked("*.sh", "Makefile", "ctl", "measure", "peer", "prepare", "*.js")
GUIDES = [
    ROOT / "docs" / f"{name}.md"
    for name in ("glossary", "adding-a-command", "adding-a-protocol", "adding-a-queue-type")
]
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def label(path: Path) -> str:
    """A test's name for a file."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", TEXTS, ids=label)
def test_lines(path: Path) -> None:
    """No line is too long, unfinished, or true of one machine only."""
    wrong = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if len(line) > COLUMNS_MAX and "noqa: E501" not in line:
            wrong.append(f"line {number}: {len(line)} columns")
        if UNFINISHED.search(line):
            wrong.append(f"line {number}: unfinished: {line.strip()}")
        if MACHINE_PATH.search(line) and path != Path(__file__):
            wrong.append(f"line {number}: a path of one machine: {line.strip()}")
        if line != line.rstrip():
            wrong.append(f"line {number}: blanks at its end")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", DOCS, ids=label)
def test_docs(path: Path) -> None:
    """Docs are finished, true of more than one machine, and link to files that exist."""
    text = path.read_text(encoding="utf-8")
    assert not UNFINISHED.search(text)
    assert not MACHINE_PATH.search(text)
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", text):
        assert (path.parent / target).exists(), f"broken link to {target}"


@pytest.mark.parametrize("path", GUIDES, ids=label)
def test_guides_name_what_there_is(path: Path) -> None:
    """Modules and names that a guide to the code gives are those of the code."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    missing = set()
    for span in re.findall(r"`([^`\n]+)`", text):
        for word in re.findall(r"[\w/]+\.py|[A-Za-z_]\w+", span):
            if word.endswith(".py"):
                there = (ROOT / word).exists() or (PACKAGE / word).exists() or "NAME" in word
            else:
                there = word in names_in_code()
            if not there:
                missing.add(word)
    assert not missing, f"nothing in the code is called {sorted(missing)}"


@cache
def names_in_code() -> set[str]:
    """Every word of the sources and their tests, this file excepted."""
    return {
        word
        for path in PYTHON
        if path != Path(__file__)
        for word in re.findall(r"[A-Za-z_]\w+", path.read_text(encoding="utf-8"))
    }


def test_cited_rules_are_in_docs_rules() -> None:
    """A reader who meets `DUR-02` in code, tests or docs finds there what it demands."""
    known = {rule.id for rule in read_rules()}
    cited = citations()
    assert len(known) > 300
    assert {rule_id: cited[rule_id] for rule_id in sorted(set(cited) - known)} == {}


def test_rules_that_tests_name_are_to_be_proven() -> None:
    """`make rules` compares that file with what all tests show, once all have run."""
    named = {rule_id for rule_id, _ in named_rules(ROOT / "tests")}
    assert named == set(PROVEN.read_text(encoding="utf-8").split()), "see tools/rules.py --write"


def test_rules_that_nothing_cites_are_marked() -> None:
    """Those of docs/rules.md that are cited by nothing say so, and no others do."""
    rules = read_rules()
    assert len({rule.id for rule in rules}) == len(rules), "an id stands there twice"
    cited = set(citations())
    assert [rule.id for rule in rules if not rule.cited and rule.id in cited] == [], "are cited"
    unmarked = [rule.id for rule in rules if rule.cited and not rule.later]
    assert [rule_id for rule_id in unmarked if rule_id not in cited] == [], "are not cited"


def test_rules_are_cited_by_id() -> None:
    """`R-15` leads to docs/rules.md; a number of a rule in another text leads nowhere."""
    loose = [
        f"{label(path)}:{number}: {line}"
        for path in [*TEXTS, *tracked("*.txt"), *DOCS]
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LOOSE_RULE.search(line)
    ]
    assert not loose, "\n".join(loose)


def test_citations_are_found() -> None:
    text = "Source: NAME-01, R-02 to\n# R-04 and DUR-02; CRC-32, UTF-16, AB-1, X-123, a-B-12"
    assert cited_in(text) == {"NAME-01", "R-02", "R-03", "R-04", "DUR-02"}
    assert LOOSE_RULE.search("(rule 15)") and LOOSE_RULE.search("Rules 5 and 6")
    assert not LOOSE_RULE.search("(R-15)")


@pytest.mark.parametrize("path", PYTHON, ids=label)
def test_module(path: Path) -> None:
    """A module says what it is, is of a size that can be read, and swallows no error."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    purpose = ast.get_docstring(tree) or ""
    assert purpose or not text, "no docstring"
    assert len(text.splitlines()) <= MODULE_LINES_MAX or "generated" in purpose.lower()
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"line {node.lineno}: a bare except"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=label)
def test_inner_rooms_do_not_touch_the_world(path: Path) -> None:
    """Clock, random numbers, sockets and threads come through ports, so that they can be faked."""
    room = path.relative_to(PACKAGE).parts[0]
    banned = (OUTSIDE - MAY_TOUCH.get(room, set())) | UNSAFE
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] not in banned, f"line {node.lineno}: imports {name}"


@pytest.mark.parametrize("room", sorted(CLEAR_ROOMS))
def test_docstrings_say_who_does_what(room: str) -> None:
    """A docstring is a sentence that can be read without the name above it."""
    unclear = []
    for path in sorted((PACKAGE / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if "generated" in (ast.get_docstring(tree) or "").lower():
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                if UNCLEAR.search(text) or len(text.split()) in (1, 2):
                    line = getattr(node, "lineno", 1)
                    unclear.append(f"{label(path)}:{line}: {text.splitlines()[0]}")
    assert not unclear, "\n".join(unclear)


def mixed_error_names(tree: ast.Module) -> list[str]:
    """Names that one function binds to errors of different types in its `except` clauses."""
    mixed = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            types: dict[str, set[str]] = {}
            for node in ast.walk(function):
                if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                    types.setdefault(node.name, set()).add(ast.unparse(node.type))
            mixed += [
                f"line {function.lineno}: {function.name}: {name} is one of {sorted(kinds)}"
                for name, kinds in types.items()
                if len(kinds) > 1
            ]
    return mixed


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in ("server", "admin", "config", "spark")
    ],
    ids=label,
)
def test_an_error_has_one_type_under_one_name(path: Path) -> None:
    """Compiled, the first `except` clause of a function fixes the type of its name.

    mypyc 2.4 turns an error of another type under the same name into a TypeError.
    """
    mixed = mixed_error_names(ast.parse(path.read_text(encoding="utf-8")))
    assert not mixed, "\n".join(mixed)


def test_mixed_error_names_are_found() -> None:
    text = (
        "def f():\n"
        "    try:\n        pass\n"
        "    except OSError as error:\n        pass\n"
        "    except ValueError as {}:\n        pass\n"
    )
    assert mixed_error_names(ast.parse(text.format("error")))
    assert not mixed_error_names(ast.parse(text.format("other")))


def test_no_dead_modules() -> None:
    """Every module of the package is used by something that is not a test."""
    used: set[str] = set(ENTRIES)
    for path in PYTHON:
        if "tests" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                used.add(node.module)
                used |= {f"{node.module}.{alias.name}" for alias in node.names}
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    }
    dead = sorted(modules - used)
    assert not dead


AMQP_ROOMS = ("wire/", "message/amqp091/", "client/", "protocols/amqp091/")
"""Where AMQP 0-9-1 is spoken: only here are its methods, codes and frames known."""

AMQP_WORDS = re.compile(
    r"\bspec\.[A-Z]|\b(class|method)_id\b|\b(CLASS|METHOD)_ID\b|\bREPLY_NAMES\b"
    r"|\b(Amqp|Protocol)Error\b|\b(Channel|Connection)Exception\b"
)

TABLES = "warren.wire.amqp091.table"
"""Field tables, as which arguments and headers are kept, whatever protocol they came by."""

AMQP_KNOWN: dict[str, set[str]] = {
    # The listener for AMQP 0-9-1: it makes its connections and knows their heartbeats.
    "server/clients.py": {
        "warren.protocols.amqp091.connection",
        "warren.wire.amqp091.frame",
    },
    "server/client_log.py": {"warren.protocols.amqp091.connection"},
    # Clients of a broker; the errors are those of `warren.client`.
    "admin/cli/client.py": {"AmqpError", "ConnectionException"},
    "admin/cli/migrate.py": {"AmqpError"},
    "spark/broker.py": {"ChannelException"},
    "spark/claims.py": {"warren.wire.amqp091.properties"},
    "spark/columns.py": {"ConnectionException"},
    "spark/outgoing.py": {
        "ConnectionException",
        "warren.message.amqp091.scan",
        "warren.wire.amqp091.properties",
    },
    # What brokers of AMQP 0-9-1 deliver is put down as the publish that it was.
    "spark/staged_files.py": {
        "spec.B",
        "warren.wire.amqp091.frame",
        "warren.wire.amqp091.properties",
        "warren.wire.amqp091.spec",
    },
    # The errors' neutral base.
    "errors.py": {"ProtocolError"},
    "metadata/encoding.py": {"ProtocolError"},
    # One of the flavours of records is AMQP 0-9-1's.
    "message/flavours.py": {
        "warren.message.amqp091.converted",
        "warren.message.amqp091.dead_letters",
        "warren.message.amqp091.delayed",
        "warren.message.amqp091.envelope",
        "warren.message.amqp091.record",
    },
    "spark/records.py": {"warren.message.amqp091.record"},
}
"""What modules elsewhere may know of it, each for its reason; nothing is to be added."""


def amqp_in(text: str) -> set[str]:
    """Words and modules of AMQP 0-9-1 that a source file uses."""
    found = {match.group(0) for match in AMQP_WORDS.finditer(text)}
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module
            names = [f"{module}.{alias.name}" for alias in node.names]
            if module.count(".") > 2 or "amqp091" not in module:
                names = [module]
        found |= {name for name in names if ".amqp091" in name and name != TABLES}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=label)
def test_amqp_is_known_where_it_is_spoken(path: Path) -> None:
    """What lies below and beside the protocols serves all of them."""
    name = path.relative_to(PACKAGE).as_posix()
    if not name.startswith(AMQP_ROOMS):
        assert amqp_in(path.read_text(encoding="utf-8")) == AMQP_KNOWN.get(name, set())


def test_exceptions_are_of_modules_that_exist() -> None:
    assert all((PACKAGE / name).exists() for name in AMQP_KNOWN)


def test_words_of_amqp_are_found() -> None:
    text = (
        "from warren.wire.amqp091 import spec\n"
        "from warren.wire.amqp091.table import Table\n"
        "import warren.protocols.amqp091.channel\n"
        "error.class_id = spec.QueueDeclare.CLASS_ID\n"
        "raise ChannelException(404)\n"
    )
    assert amqp_in(text) == {
        "warren.wire.amqp091.spec",
        "warren.protocols.amqp091.channel",
        "class_id",
        "spec.Q",
        "CLASS_ID",
        "ChannelException",
    }
    assert not amqp_in("import warren\nfrom warren.vhost.handle import VhostHandle\n")


TYPE_NAMES = {"classic", "quorum", "stream"}
"""Names of queue types, which `warren/queue_types.py` alone knows."""

TYPES_KNOWN: dict[str, set[str]] = {
    # The wire format of a declare, whose decoder wants its values literally.
    "metadata/encoding.py": {"classic", "quorum"},
}
"""What modules elsewhere may know of them, each for its reason; nothing is to be added."""


@cache
def queue_classes() -> set[str]:
    """The classes of queues: `Queue` and all that derive from it."""
    found = {"Queue"}
    heads = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for path in sorted((PACKAGE / "queues").glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    while more := {name for name, bases in heads.items() if bases & found} - found:
        found |= more
    return found


def types_in(text: str) -> set[str]:
    """Queue types that a source file knows by name, and classes of queues that it asks for."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} & TYPE_NAMES
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "isinstance":
                asked = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
                found |= asked & queue_classes()
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=label)
def test_queue_types_are_told_apart_in_one_place(path: Path) -> None:
    """A further type is a row of that table and a class, wherever queues are spoken of."""
    name = path.relative_to(PACKAGE).as_posix()
    if name != "queue_types.py":
        text = path.read_text(encoding="utf-8")
        assert types_in(text) == TYPES_KNOWN.get(name, set())
        reach = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
        inside = name.startswith("queues/")
        assert inside or not [node.lineno for node in reach if node.attr == "fifo"], "asks no queue"


def test_queue_types_are_found() -> None:
    text = (
        "from warren.queues.fifo import commands\n"
        "if record.kind == 'quorum' or record.kind in ('classic', 'a stream'):\n"
        "    isinstance(queue, (ProxyQueue, int))\n"
        "isinstance(command, DeclareQueue)\n"
    )
    assert types_in(text) == {"quorum", "classic", "ProxyQueue"}
    assert queue_classes() > {"Queue", "FifoQueue", "LoggedQueue", "QuorumQueue", "TransientQueue"}


LIBRARY = "client"
"""A library by itself, whose users know nothing of the broker's classes: what it names as clients
do (`Channel`, `Connection`, `Delivery`) may stand once in the broker too."""


def twice_named(texts: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The class names that stand more than once, and the modules where they stand."""
    found: dict[str, list[str]] = {}
    for module, text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_a_class_name_stands_once() -> None:
    """A name says what it is wherever it is met: nobody has to look which of two it is."""
    here: list[tuple[str, str]] = []
    library: list[tuple[str, str]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        texts = library if module.startswith(f"{LIBRARY}/") else here
        texts.append((module, path.read_text(encoding="utf-8")))
    assert library, "the library is where it was"
    assert twice_named(here) == {}
    assert twice_named(library) == {}


def test_a_class_name_that_stands_twice_is_found() -> None:
    texts = [
        ("a.py", "class Reader: ..."),
        ("b.py", "if 1:\n    class Reader: ...\nclass Read: ..."),
    ]
    assert twice_named(texts) == {"Reader": ["a.py", "b.py"]}
