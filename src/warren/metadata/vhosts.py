"""Vhosts that come, change and go: what commands about them do to the tables."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, final

from mypy_extensions import i64

from warren.limits import BINDINGS_AT_ONCE_MAX
from warren.metadata.changes import add_exchange, take_exchange, take_queue
from warren.metadata.commands import SetVhost
from warren.metadata.departed import Departed
from warren.metadata.outcome import Outcome
from warren.metadata.parts import CommandParts
from warren.metadata.places import TablePlaces
from warren.metadata.policies import PolicyAlternates
from warren.metadata.rows import Lot
from warren.metadata.tables import ExchangeRecord, QueueRecord, VhostRecord, queues_of
from warren.ports import Work

#: Exchanges of every vhost: name, type, whether internal. The default one has no name.
PREDECLARED_EXCHANGES: Final = (
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
    ("amq.topic", "topic", False),
)

DESCRIPTION: Final = "description"
TAGS: Final = "tags"
DEFAULT_QUEUE_TYPE: Final = "default_queue_type"
PROTECTED: Final = "protected_from_deletion"


def declare_vhost(
    vhosts: dict[str, VhostRecord], name: str, created: i64, node: str, outcome: Outcome
) -> None:
    """Apply `DeclareVhost`: a vhost with the predeclared exchanges, if there is none yet.

    Args:
        created: What tells it from former ones of its name.
        node: On which node the tables are.
    """
    if name in vhosts:
        return
    tables = VhostRecord(name)
    tables.created = created
    for exchange, kind, internal in PREDECLARED_EXCHANGES:
        add_exchange(tables, ExchangeRecord(name, exchange, kind, True, False, internal, {}))
    tables.router.alternates = PolicyAlternates(tables)
    tables.router.places = TablePlaces(tables, node)
    vhosts[name] = tables
    outcome.changed = True
    outcome.vhosts_changed = True


def set_vhost(
    vhosts: dict[str, VhostRecord], command: SetVhost, created: i64, node: str, outcome: Outcome
) -> None:
    """Apply `SetVhost`: create a vhost with properties, or change some of them.

    Args:
        created: What tells it from former ones of its name, if it is created.
        node: On which node the tables are.
    """
    if command.create == (command.name in vhosts):
        return
    if command.create:
        declare_vhost(vhosts, command.name, created, node, outcome)
    set_properties(vhosts[command.name], command.properties)
    outcome.changed = True


def set_properties(tables: VhostRecord, properties: dict[str, Any]) -> None:
    """Change those properties of a vhost that are given."""
    if DESCRIPTION in properties:
        tables.description = properties[DESCRIPTION]
    if TAGS in properties:
        tables.tags = properties[TAGS]
    if DEFAULT_QUEUE_TYPE in properties:
        tables.default_queue_type = properties[DEFAULT_QUEUE_TYPE]
    if PROTECTED in properties:
        tables.protected = properties[PROTECTED]


def properties_of(tables: VhostRecord) -> dict[str, Any]:
    """Those properties of a vhost that are not what each begins with."""
    properties: dict[str, Any] = {}
    if tables.description:
        properties[DESCRIPTION] = tables.description
    if tables.tags:
        properties[TAGS] = tables.tags
    if tables.default_queue_type:
        properties[DEFAULT_QUEUE_TYPE] = tables.default_queue_type
    if tables.protected:
        properties[PROTECTED] = True
    return properties


@final
class VhostRemoval(CommandParts):
    """Takes queues and exchanges out of a vhost, then the vhost out of the tables."""

    def __init__(
        self, vhosts: dict[str, VhostRecord], tables: VhostRecord, outcome: Outcome
    ) -> None:
        """Begin: from here on no client comes in."""
        super().__init__()
        self._vhosts: dict[str, VhostRecord] = vhosts
        self._tables: VhostRecord = tables
        self._lots: deque[Lot] = deque(tables.queue_rows.lots)
        self._queues: list[QueueRecord] = []
        """Those of the lot under way, in reverse order."""
        self._exchanges: list[ExchangeRecord] = list(tables.exchanges.values())
        tables.going = True
        outcome.changed = True
        outcome.deleted_vhost = tables

    def go_on(self, outcome: Outcome, room: i64) -> None:
        """Delete some, and with the last one everything else."""
        tables = self._tables
        queues = self._queues
        while room > 0:
            if not queues:
                if not self._lots:
                    break
                queues.extend(queues_of(self._lots.popleft()))
                queues.reverse()
                continue
            room = take_queue(tables, queues[-1], outcome, room)
            if room >= 0:
                queues.pop()
        exchanges = self._exchanges
        while not queues and not self._lots and exchanges and room > 0:
            exchange = exchanges[-1]
            if exchange.name and exchange.name in tables.exchanges:
                room = take_exchange(tables, exchange, outcome, room)
            if room >= 0:
                exchanges.pop()
        if not queues and not self._lots and not exchanges:
            del self._vhosts[tables.name]
            # Clients that are on their way out may ask for routes yet.
            tables.router.retire()
            outcome.vhosts_changed = True
            outcome.gone_vhost = tables
            self.over = True


@final
class VhostRelease(Work):
    """Lets go of vhosts in whose place there are others: to free 100,000 queues takes a while.

    Attributes:
        departed: Which vhosts and users are gone.
    """

    def __init__(self, vhosts: dict[str, VhostRecord], departed: Departed) -> None:
        self.departed: Departed = departed
        self._vhosts: dict[str, VhostRecord] = vhosts
        self._going: list[VhostRemoval] = []
        """The vhost under way, if one is."""

    def size(self) -> i64:
        """How many rows there are."""
        count: i64 = 0
        for tables in self._vhosts.values():
            count += len(tables.queue_rows) + len(tables.exchange_rows)
            for exchange in tables.exchanges.values():
                count += len(exchange.bound)
        return count

    def go_on(self) -> bool:
        """Take some rows out; whether these were the last."""
        if not self._going:
            for tables in self._vhosts.values():
                self._going.append(VhostRemoval(self._vhosts, tables, Outcome()))
                break
        for going in self._going:
            going.go_on(Outcome(), BINDINGS_AT_ONCE_MAX)
            if going.over:
                self._going = []
        return not self._vhosts
