"""Queues, exchanges and bindings: lists with columns of choice, and what is done to one queue."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    CTL,
    DATA,
    MONITORING,
    OF_QUEUES,
    TRUTH,
    USAGE,
    AmqpTable,
    Atoms,
    Failure,
    Output,
    Terms,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.users import LISTING
from warren.admin.cli.tools.vhosts import check_columns, chosen
from warren.admin.service.rows import BindingRow, ExchangeRow, QueueRow
from warren.errors import NOT_FOUND, NOT_IMPLEMENTED

QUEUE_COLUMNS: Final = (
    *("name", "durable", "auto_delete", "arguments", "policy", "operator_policy"),
    *("effective_policy_definition", "pid", "owner_pid", "exclusive", "exclusive_consumer_pid"),
    *("exclusive_consumer_tag", "messages_ready", "messages_unacknowledged", "messages"),
    *("messages_ready_ram", "messages_unacknowledged_ram", "messages_ram", "messages_persistent"),
    *("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged"),
    *("message_bytes_ram", "message_bytes_persistent", "head_message_timestamp", "disk_reads"),
    *("disk_writes", "consumers", "consumer_utilisation", "consumer_capacity", "memory", "state"),
    *("type", "leader", "members", "online", "slave_pids", "synchronised_slave_pids"),
)
"""The last two are of mirrored queues, and empty."""
EXCHANGE_COLUMNS: Final = (
    *("name", "type", "durable", "auto_delete", "internal", "arguments", "policy"),
)
BINDING_COLUMNS: Final = (
    *("source_name", "source_kind", "destination_name", "destination_kind", "routing_key"),
    "arguments",
)
NO_OBJECT: Final = "Object (queue, stream, exchange, etc) was not found"


def _columns(known: tuple[str, ...]) -> Any:
    def check(words: Words) -> None:
        check_columns(known, chosen(words))

    return check


def _queues(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or ["name", "messages"]
    rows = queues_of(session, words.vhost)
    if words.options.get("online"):
        rows = [row for row in rows if row.leader]
    if words.options.get("offline"):
        rows = [row for row in rows if not row.leader]
    if words.options.get("local"):
        rows = [row for row in rows if row.leader == session.node]
    return ToolRows(
        columns, [[queue_cell(row, name) for name in columns] for row in rows], "", True
    )


def queues_of(session: ToolSession, vhost: str) -> list[QueueRow]:
    """The queues of a vhost, by name; none where there is no such vhost."""
    try:
        asked = {"vhost": vhost, "everywhere": True}
        rows: list[QueueRow] = session.ask("list_queues", asked, list[QueueRow])
    except Failure as failure:
        if failure.bare:
            return []
        raise
    return sorted(rows, key=lambda row: row.name)


def queue_cell(row: QueueRow, column: str) -> Any:
    """A column of a queue; None for what Warren does not know of it."""
    if column == "arguments":
        return AmqpTable(sorted(row.arguments.items()))
    if column == "effective_policy_definition":
        return Terms(row.effective_policy_definition)
    if column == "pid":
        return f"<{row.leader}>" if row.leader else ""
    if column == "members":
        return Atoms(row.members or [row.leader])
    if column == "online":
        return Atoms(row.online) if row.members else None
    if column == "exclusive" and row.members:
        # Replicated queues never are.
        return None
    if column == "message_bytes_unacknowledged":
        if row.message_bytes is None or row.message_bytes_ready is None:
            return None
        return row.message_bytes - row.message_bytes_ready
    if column in ("policy", "operator_policy"):
        return getattr(row, column) or None
    return getattr(row, column, None)


def _exchanges(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or ["name", "type"]
    rows = _of_vhost(session, "list_exchanges", words.vhost, list[ExchangeRow])
    rows.sort(key=lambda row: row.name)
    return ToolRows(columns, [[_cell(row, name) for name in columns] for row in rows], "", True)


def _bindings(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or list(BINDING_COLUMNS)
    rows = _of_vhost(session, "list_bindings", words.vhost, list[BindingRow])
    rows.sort(key=lambda row: (row.source_name, row.destination_name, row.routing_key))
    return ToolRows(columns, [[_cell(row, name) for name in columns] for row in rows], "", True)


def _of_vhost(session: ToolSession, operation: str, vhost: str, shape: Any) -> list[Any]:
    try:
        rows: list[Any] = session.ask(operation, {"vhost": vhost}, shape)
    except Failure as failure:
        if failure.bare:
            return []
        raise
    return rows


def _cell(row: Any, column: str) -> Any:
    value = getattr(row, column)
    return AmqpTable(sorted(value.items())) if column == "arguments" else value


def _unresponsive(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or ["name"]
    rows = [row for row in queues_of(session, words.vhost) if not row.leader]
    return ToolRows(
        columns, [[queue_cell(row, name) for name in columns] for row in rows], "", True
    )


def _purge(session: ToolSession, words: Words) -> Output:
    try:
        asked = {"vhost": words.vhost, "name": words.arguments[0]}
        session.ask("purge_queue", asked, int, {NOT_FOUND: DATA})
    except Failure as failure:
        if failure.code == DATA:
            raise Failure(DATA, NO_OBJECT, bare=True) from None
        raise
    return None


def _delete(session: ToolSession, words: Words) -> Output:
    asked = {
        "vhost": words.vhost,
        "name": words.arguments[0],
        "if_unused": bool(words.options.get("if_unused")),
        "if_empty": bool(words.options.get("if_empty")),
    }
    codes = {NOT_FOUND: USAGE, NOT_IMPLEMENTED: DATA}
    try:
        count = session.ask("delete_queue", asked, int, codes)
    except Failure as failure:
        if failure.code == USAGE or failure.bare:
            raise Failure(USAGE, "No such queue was found") from None
        raise
    return ToolAnswer(f"Queue was successfully deleted with {count} ready messages")


def _of_deleting(session: ToolSession, words: Words) -> str:
    conditions = []
    if words.options.get("if_empty"):
        conditions.append("if queue is empty")
    if words.options.get("if_unused"):
        conditions.append("if queue is unused")
    condition = " and ".join(conditions)
    where = f"'{words.arguments[0]}' on vhost '{words.vhost}'"
    return f"Deleting queue {where} {condition + ' ' if condition else ''}..."


def _of_queues(session: ToolSession, words: Words) -> str:
    seconds = words.timeout(60.0)
    limit = f"{float(seconds)} seconds" if seconds else "infinity"
    return f"Timeout: {limit} ...\nListing queues for vhost {words.vhost} ..."


add(
    ToolCommand(
        "list_queues",
        LISTING,
        "[--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...] "
        "[--timeout <timeout>]",
        MONITORING,
        "Lists queues and their properties",
        _queues,
        0,
        -1,
        {"online": TRUTH, "offline": TRUTH, "local": TRUTH},
        _of_queues,
        _columns(QUEUE_COLUMNS),
    ),
    ToolCommand(
        "list_exchanges",
        LISTING,
        "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
        MONITORING,
        "Lists exchanges",
        _exchanges,
        0,
        -1,
        banner=says("Listing exchanges for vhost {vhost} ..."),
        check=_columns(EXCHANGE_COLUMNS),
    ),
    ToolCommand(
        "list_bindings",
        LISTING,
        "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
        MONITORING,
        "Lists bindings",
        _bindings,
        0,
        -1,
        banner=says("Listing bindings for vhost {vhost}..."),
        check=_columns(BINDING_COLUMNS),
    ),
    ToolCommand(
        "list_unresponsive_queues",
        LISTING,
        "[--vhost <vhost>] [--local] [--queue-timeout <timeout>] [<column> ...]",
        MONITORING,
        "Lists queues that no node answers for",
        _unresponsive,
        0,
        -1,
        {"local": TRUTH, "queue_timeout": "number"},
        says("Listing unresponsive queues for vhost {vhost} ..."),
        _columns(QUEUE_COLUMNS),
    ),
    ToolCommand(
        "purge_queue",
        (CTL,),
        "<queue> [--timeout <timeout>]",
        OF_QUEUES,
        "Drops all ready messages of a queue",
        _purge,
        1,
        1,
        banner=says("Purging queue '{0}' in vhost '{vhost}' ..."),
    ),
    ToolCommand(
        "delete_queue",
        (CTL,),
        "[--vhost <vhost>] <queue_name> [--if-empty|-e] [--if-unused|-u] [--force|-f]",
        OF_QUEUES,
        "Deletes a queue",
        _delete,
        1,
        1,
        {"if_empty": TRUTH, "if_unused": TRUTH, "force": TRUTH},
        _of_deleting,
        aliases={"e": "if_empty", "u": "if_unused", "f": "force"},
    ),
)
