"""Definitions out and in."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import msgspec

from warren.admin.cli.tools.command import (
    CTL,
    DATA,
    DEFINITIONS,
    TEXT,
    TRUTH,
    UNAVAILABLE,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    add,
)
from warren.admin.cli.tools.reading import bad
from warren.admin.cli.tools.session import ToolSession
from warren.admin.service.rows import Imported
from warren.errors import NOT_FOUND, PRECONDITION_FAILED

SECONDS: Final = 300.0
STANDARD: Final = "-"
FORMATS: Final = ("json",)


def _check_format(words: Words) -> None:
    kind = words.options.get("format", "json")
    if str(kind).lower() not in FORMATS:
        raise bad(f": format {kind} is not supported; it is {', '.join(FORMATS)}", DATA)


def _check_file(words: Words) -> None:
    _check_format(words)
    if words.arguments and words.arguments[0] != STANDARD:
        path = words.arguments[0]
        if not os.path.exists(path):
            raise bad(f": File {path} does not exist", DATA)


def _private(path: str, flags: int) -> int:
    """Open a file that its owner alone may read."""
    return os.open(path, flags, 0o600)


def _export(session: ToolSession, words: Words) -> Output:
    found = session.ask("export_definitions", {}, dict[str, Any], seconds=SECONDS)
    path = words.arguments[0]
    if path == STANDARD:
        return ToolAnswer(msgspec.json.encode(found).decode(), found)
    text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    try:
        # It has the hashes of passwords.
        with open(path, "wb", opener=_private) as file:
            file.write(text + b"\n")
    except OSError as error:
        raise Failure(UNAVAILABLE, f"Failed to write {path}: {error.strerror}") from None
    return None


def _import(session: ToolSession, words: Words) -> Output:
    path = words.arguments[0] if words.arguments else STANDARD
    try:
        if path == STANDARD:
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
        definitions = msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        raise Failure(UNAVAILABLE, f"Failed to read {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        text = f"Failed to deserialise input (format: JSON) (error: {error})"
        raise Failure(DATA, text) from None
    codes = {NOT_FOUND: UNAVAILABLE, PRECONDITION_FAILED: UNAVAILABLE}
    asked = {"definitions": definitions}
    done = session.ask("import_definitions", asked, Imported, codes, SECONDS)
    for text in done.skipped:
        print(f"left out: {text}", file=sys.stderr)
    return ToolAnswer("Successfully imported the definitions.")


def _of_export(session: ToolSession, words: Words) -> str:
    path = words.arguments[0]
    return "" if path == STANDARD else f'Exporting definitions in JSON to a file at "{path}" ...'


def _of_import(session: ToolSession, words: Words) -> str:
    if not words.arguments or words.arguments[0] == STANDARD:
        return "Importing definitions in JSON from standard input ..."
    return f'Importing definitions in JSON from a file at "{words.arguments[0]}" ...'


add(
    ToolCommand(
        "export_definitions",
        (CTL,),
        '<file_path | "-"> [--format <json | erlang>]',
        DEFINITIONS,
        "Writes all definitions to a file, or to the standard output",
        _export,
        1,
        1,
        {"format": TEXT},
        _of_export,
        _check_format,
    ),
    ToolCommand(
        "import_definitions",
        (CTL,),
        "<file_path> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]",
        DEFINITIONS,
        "Has all that a file, or the standard input, says",
        _import,
        0,
        1,
        {"format": TEXT, "skip_if_unchanged": TRUTH},
        _of_import,
        _check_file,
    ),
)
