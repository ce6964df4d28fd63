"""Connections, channels and consumers: lists, and an end to connections."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    CTL,
    MONITORING,
    OPERATIONS,
    TRUTH,
    WHOLE,
    AmqpTable,
    Failure,
    Output,
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
from warren.admin.service.rows import ChannelRow, ConnectionRow, ConsumerRow

CONNECTION_COLUMNS: Final = (
    *("pid", "name", "port", "host", "peer_port", "peer_host", "ssl", "ssl_protocol"),
    *("ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject", "peer_cert_issuer"),
    *("peer_cert_validity", "peer_cert_serial_number", "state", "channels", "protocol"),
    *("auth_mechanism", "user", "vhost", "container_id", "timeout", "frame_max", "channel_max"),
    *("client_properties", "recv_oct", "recv_cnt", "send_oct", "send_cnt", "send_pend"),
    "connected_at",
)
CHANNEL_COLUMNS: Final = (
    *("pid", "connection", "name", "number", "user", "vhost", "transactional", "confirm"),
    *("consumer_count", "messages_unacknowledged", "messages_uncommitted", "acks_uncommitted"),
    *("messages_unconfirmed", "prefetch_count", "global_prefetch_count"),
)
CONSUMER_COLUMNS: Final = (
    *("queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active"),
    *("activity_status", "arguments"),
)
PROTOCOLS: Final = {"AMQP 0-9-1": "{0,9,1}", "AMQP 1.0": "{1,0}"}
"""How RabbitMQ's tools write versions."""


def _connections(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or ["user", "peer_host", "peer_port", "state"]
    rows = session.ask("list_connections", {}, list[ConnectionRow])
    return ToolRows(columns, [[_cell(row, name) for name in columns] for row in rows], "", True)


def _channels(session: ToolSession, words: Words) -> Output:
    columns = chosen(words) or ["pid", "user", "consumer_count", "messages_unacknowledged"]
    rows = session.ask("list_channels", {}, list[ChannelRow])
    return ToolRows(columns, [[_cell(row, name) for name in columns] for row in rows], "", True)


def _consumers(session: ToolSession, words: Words) -> Output:
    known = [name for name in CONSUMER_COLUMNS if name != "activity_status"]
    columns = chosen(words) or known
    try:
        rows = session.ask("list_consumers", {"vhost": words.vhost}, list[ConsumerRow])
    except Failure as failure:
        if not failure.bare:
            raise
        rows = []
    rows.sort(key=lambda row: (row.queue_name, row.channel_pid, row.consumer_tag))
    return ToolRows(columns, [[_cell(row, name) for name in columns] for row in rows], "", True)


def _cell(row: Any, column: str) -> Any:
    value: Any = getattr(row, column, None)
    if column in ("client_properties", "arguments"):
        return AmqpTable(value)
    if column == "protocol":
        return PROTOCOLS.get(value, value)
    return value


def _check(known: tuple[str, ...]) -> Any:
    return lambda words: check_columns(known, chosen(words))


def _close(session: ToolSession, words: Words) -> Output:
    connection, reason = words.arguments
    session.ask("close_connection", {"connection": connection, "reason": reason}, None)
    return ToolAnswer("")


def _close_all(session: ToolSession, words: Words) -> Output:
    everywhere = bool(words.options.get("global"))
    asked = {
        "reason": words.arguments[0],
        "vhost": "" if everywhere else words.vhost,
        "limit": words.options.get("limit", 0),
        "per_connection_delay": words.options.get("per_connection_delay", 0),
    }
    return ToolAnswer(f"Closed {session.ask('close_all_connections', asked, int)} connections")


def _close_all_of_user(session: ToolSession, words: Words) -> Output:
    user, reason = words.arguments
    session.ask("close_all_connections", {"reason": reason, "user": user}, int)
    return None


def _of_closing(session: ToolSession, words: Words) -> str:
    reason = words.arguments[0]
    if words.options.get("global"):
        what = f"to node {session.node} (across all vhosts)"
        return f"Closing all connections {what}, reason: {reason}..."
    return f"Closing all connections in vhost {words.vhost}, reason: {reason}..."


add(
    ToolCommand(
        "list_connections",
        LISTING,
        "[--no-table-headers] [<column> ...] [--timeout <timeout>]",
        MONITORING,
        "Lists connections of clients",
        _connections,
        0,
        -1,
        banner=says("Listing connections ..."),
        check=_check(CONNECTION_COLUMNS),
    ),
    ToolCommand(
        "list_channels",
        LISTING,
        "[--no-table-headers] [<column> ...]",
        MONITORING,
        "Lists channels of clients",
        _channels,
        0,
        -1,
        banner=says("Listing channels ..."),
        check=_check(CHANNEL_COLUMNS),
    ),
    ToolCommand(
        "list_consumers",
        LISTING,
        "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
        MONITORING,
        "Lists the consumers of a virtual host",
        _consumers,
        0,
        -1,
        banner=says("Listing consumers in vhost {vhost} ..."),
        check=_check(CONSUMER_COLUMNS),
    ),
    ToolCommand(
        "close_connection",
        (CTL,),
        "<connection pid> <explanation>",
        OPERATIONS,
        "Closes a connection, and tells its client why",
        _close,
        2,
        2,
        banner=says("Closing connection {0}, reason: {1}..."),
    ),
    ToolCommand(
        "close_all_connections",
        (CTL,),
        "[--vhost <vhost> --limit <limit>] [-n <node> --global] "
        "[--per-connection-delay <delay>] <explanation>",
        OPERATIONS,
        "Closes the connections to a virtual host, or all",
        _close_all,
        1,
        1,
        {"global": TRUTH, "limit": WHOLE, "per_connection_delay": WHOLE},
        _of_closing,
    ),
    ToolCommand(
        "close_all_user_connections",
        (CTL,),
        "<username> <explanation>",
        OPERATIONS,
        "Closes the connections of a user",
        _close_all_of_user,
        2,
        2,
        banner=says("Closing connections of user {0}, reason: {1}..."),
    ),
)
