"""What exchanges of type `x-recent-history` keep, in the cluster's tables.

The last messages of such an exchange are part of its row: every node has them, they survive what
the tables survive, and they go with the exchange. They are bounded in number, by the exchange's
argument, and in bytes (`limits`); what is too large, or too much for all exchanges together, is
not kept, by every node alike.

Source: `rabbit_exchange_type_recent_history` of RabbitMQ 4.3, which keeps them in its metadata
store, too, without a bound in bytes.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from warren.limits import (
    RECENT_BYTES_MAX,
    RECENT_COUNT,
    RECENT_COUNT_MAX,
    RECENT_MESSAGE_BYTES_MAX,
    RECENT_TOTAL_BYTES_MAX,
)
from warren.metadata.commands import KeepRecent
from warren.metadata.outcome import Outcome
from warren.metadata.rows import exchange_row
from warren.metadata.tables import ExchangeRecord, VhostRecord
from warren.routing.exchange_types import RECENT_HISTORY
from warren.wire.amqp091.table import Table

RECENT_LENGTH: Final = "x-recent-history-length"
NO_STORE: Final = "x-recent-history-no-store"
"""The header of messages that are not kept where it is true."""


def recent_count(arguments: Table) -> i64:
    """How many messages an exchange keeps, by what it was declared with."""
    asked = arguments.get(RECENT_LENGTH)
    if not isinstance(asked, int):
        return RECENT_COUNT
    return min(i64(max(0, asked)), RECENT_COUNT_MAX)


def keep_recent(vhosts: dict[str, VhostRecord], command: KeepRecent, outcome: Outcome) -> None:
    """Apply `KeepRecent`: an exchange that is there still keeps what is not too large."""
    tables = vhosts.get(command.vhost)
    exchange = None if tables is None else tables.exchanges.get(command.name)
    if tables is None or exchange is None or exchange.kind != RECENT_HISTORY:
        return
    most = recent_count(exchange.arguments)
    elsewhere = kept_bytes(vhosts) - exchange.recent_bytes
    recent = exchange.recent
    for record in command.records:
        size: i64 = len(record)
        if size <= RECENT_MESSAGE_BYTES_MAX:
            recent.append((command.flavour, record))
            exchange.recent_bytes += size
            outcome.changed = True
    bound = min(RECENT_BYTES_MAX, max(0, RECENT_TOTAL_BYTES_MAX - elsewhere))
    gone: i64 = 0
    while i64(len(recent)) - gone > most or exchange.recent_bytes > bound:
        exchange.recent_bytes -= i64(len(recent[gone][1]))
        gone += 1
    if gone > 0:
        exchange.recent = recent[gone:]
    if outcome.changed:
        tables.exchange_rows.put(exchange, exchange_row(exchange))


def kept_bytes(vhosts: dict[str, VhostRecord]) -> i64:
    """The bytes of all messages that exchanges keep."""
    total: i64 = 0
    for tables in vhosts.values():
        for exchange in tables.keepers.values():
            total += exchange.recent_bytes
    return total


def restore_recent(exchange: ExchangeRecord, rows: list[Any]) -> None:
    """Take over what an exchange kept from its row: a list of flavour and record for each."""
    for row in rows:
        flavour: int = row[0]
        record: bytes = row[1]
        exchange.recent.append((flavour, record))
        exchange.recent_bytes += i64(len(record))
