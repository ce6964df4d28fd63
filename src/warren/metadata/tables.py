"""Rows of the cluster's tables: vhosts with exchanges, queues and bindings; users and permissions.

A row is changed by `MetadataMachine.apply` only; everybody else reads.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from mypy_extensions import i64

from warren.routing.bindings import Binding
from warren.routing.router import Router
from warren.wire.amqp091.table import Table

#: A binding as the tables know it; routing shares the object.
BindingRecord = Binding

#: What tells the bindings of one exchange apart: destination, whether that is an exchange, routing
#: key, encoded arguments in order of their names.
BindingKey: TypeAlias = tuple[str, bool, str, bytes]

#: `QueueRecord.exclusive_owner` of a queue that any connection may use.
NO_OWNER: Final = 0


@final
class ExchangeRecord:
    """One exchange.

    Attributes:
        kind: Its type, one of `EXCHANGE_TYPES`.
        internal: Whether clients may not publish to it.
        arguments: As declared.
        bound: The bindings that lead from it.
        incoming: The bindings that lead to it.
    """

    def __init__(
        self,
        vhost: str,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.kind: str = kind
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments
        self.bound: dict[BindingKey, Binding] = {}
        self.incoming: dict[Binding, None] = {}

    def alternate(self) -> str:
        """The exchange that takes what this one cannot route; empty for none."""
        name = self.arguments.get("alternate-exchange")
        return name if isinstance(name, str) else ""


@final
class QueueRecord:
    """One queue.

    Attributes:
        kind: Its type, `classic` or `quorum`.
        durable: Whether it survives a restart; an exclusive queue never does.
        exclusive_owner: The connection that declared it for itself, else `NO_OWNER`.
        arguments: As declared, with `x-queue-type` always there.
        group_id: Its incarnation: a queue deleted and declared again has another one.
        incoming: The bindings that lead to it.
    """

    def __init__(
        self,
        vhost: str,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        exclusive_owner: i64,
        arguments: Table,
        group_id: i64,
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.kind: str = kind
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.exclusive_owner: i64 = exclusive_owner
        self.arguments: Table = arguments
        self.group_id: i64 = group_id
        self.incoming: dict[Binding, None] = {}


@final
class UserRecord:
    """One user.

    Attributes:
        password_hash: As `hash_scheme` says; empty if no password is accepted.
        hash_scheme: RabbitMQ's name of the algorithm, see `passwords`.
        tags: What it may administer, such as `administrator`.
        loopback_only: Whether it may only log in from this machine.
    """

    def __init__(
        self,
        name: str,
        password_hash: bytes,
        hash_scheme: str,
        tags: list[str],
        loopback_only: bool,
    ) -> None:
        self.name: str = name
        self.password_hash: bytes = password_hash
        self.hash_scheme: str = hash_scheme
        self.tags: list[str] = tags
        self.loopback_only: bool = loopback_only


@final
class PermissionRecord:
    """What a user may do in one vhost: patterns for the names of exchanges and queues."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.configure: str = configure
        self.write: str = write
        self.read: str = read


@final
class VhostRecord:
    """One vhost and what is in it.

    Attributes:
        router: Its routes, kept up to date by the machine.
        owned: Exclusive queues by the connection they belong to.
        permissions: By user.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.exchanges: dict[str, ExchangeRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.owned: dict[int, dict[QueueRecord, None]] = {}
        self.permissions: dict[str, PermissionRecord] = {}
        self.router: Router = Router(name)
