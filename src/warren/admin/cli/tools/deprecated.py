"""What RabbitMQ 4.3 calls deprecated, and whether Warren has it."""

from __future__ import annotations

from typing import Final

from warren.admin.cli.tools.command import (
    CTL,
    DIAGNOSTICS,
    FLAGS,
    MONITORING,
    TRUTH,
    Output,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    add,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.vhosts import check_columns, chosen
from warren.admin.service.rows import DEPRECATED_FEATURES, Status

COLUMNS: Final = ("deprecation_phase", "desc", "doc_url", "name", "provided_by", "state")
SHOWN: Final = ["name", "deprecation_phase", "state"]


def _list(session: ToolSession, words: Words) -> Output:
    session.ask("status", {}, Status)
    columns = chosen(words) or SHOWN
    # None of them can be used.
    found = () if words.options.get("used") else DEPRECATED_FEATURES
    rows = [[getattr(row, name) for name in columns] for row in found]
    return ToolRows(columns, rows, "pretty_table")


def _of_listing(session: ToolSession, words: Words) -> str:
    used = " in use" if words.options.get("used") else ""
    return f"Listing deprecated features{used} ..."


def _check(session: ToolSession, words: Words) -> Output:
    session.ask("status", {}, Status)
    return ToolAnswer("Cluster reported no deprecated features in use", {"result": "ok"})


add(
    ToolCommand(
        "list_deprecated_features",
        (CTL, DIAGNOSTICS),
        "[--used] [<column> ...]",
        FLAGS,
        "Lists what RabbitMQ deprecates and Warren refuses",
        _list,
        0,
        -1,
        {"used": TRUTH},
        _of_listing,
        lambda words: check_columns(COLUMNS, chosen(words)),
    ),
    ToolCommand(
        "check_if_any_deprecated_features_are_used",
        (CTL, DIAGNOSTICS),
        "",
        MONITORING,
        "Sees whether anything is used that Warren is to have no more",
        _check,
        banner=lambda session, words: "Checking if any deprecated features are used ...",
    ),
)
