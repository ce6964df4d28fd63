"""Rows of the cluster's tables: nodes; vhosts with exchanges, queues, bindings, policies; users.

A row is changed by `MetadataMachine.apply` only; everybody else reads.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

from mypy_extensions import i64

from warren.metadata.arguments import QUEUE_TYPE
from warren.metadata.patterns import Pattern, PatternError
from warren.metadata.rows import EncodedRows, Lot
from warren.metadata.weights import weight_of_policy
from warren.queue_types import TYPES, QueueType, type_of
from warren.routing.alternates import ALTERNATE_EXCHANGE
from warren.routing.bindings import Binding
from warren.routing.router import Router
from warren.sharded_dict import ShardedDict
from warren.versions import OLDEST
from warren.wire.amqp091.table import Table

#: A binding as the tables know it; routing shares the object.
BindingRecord = Binding

#: What tells the bindings of one exchange apart: destination, whether that is an exchange, routing
#: key, encoded arguments in order of their names.
BindingKey: TypeAlias = tuple[str, bool, str, bytes]

#: `QueueRecord.exclusive_owner` of a queue that any connection may use.
NO_OWNER: Final = 0

PLAIN: Final[dict[str, Table]] = {each.name: {QUEUE_TYPE: each.name} for each in TYPES.values()}
"""The arguments of all queues of a type that have no others: rows are not changed in place."""


@final
class NodeRecord:
    """One node of the cluster.

    Attributes:
        uid: Drawn once, with its data directory: a node that lost its disk is another one.
        host, port: Where its cluster listener is reached.
        incarnation: Of its member of the tables' group.
        session: Log index of the `NodeUp` that began its present life, 0 before the first.
        newest: Log index of what gave it sessions last: that `NodeUp`, or a `MoreSessions`.
        nonce: What that life drew to know its own `NodeUp` by.
        boot: How often its data directory had been started by then.
        round: Number of the newest round of its log that it said is durable.
        version: The newest cluster version that it knew at its last start.
        host_label, zone: Its labels: the machine that it shares with others of one label, and the
            availability zone; empty if its configuration does not say.
    """

    def __init__(self, name: str, uid: bytes, host: str, port: int, incarnation: i64) -> None:
        self.name: str = name
        self.uid: bytes = uid
        self.host: str = host
        self.port: int = port
        self.incarnation: i64 = incarnation
        self.session: i64 = 0
        self.newest: i64 = 0
        self.nonce: bytes = b""
        self.boot: int = 0
        self.round: int = 0
        self.version: int = OLDEST
        self.host_label: str = ""
        self.zone: str = ""


@final
class MemberRecord:
    """One copy of a quorum queue.

    Attributes:
        node: The node that it is on.
        incarnation: Which copy on that node, never used twice there.
        voter: Whether it counts; else it is a learner.
    """

    def __init__(self, node: str, incarnation: i64, voter: bool) -> None:
        self.node: str = node
        self.incarnation: i64 = incarnation
        self.voter: bool = voter


@final
class ExchangeRecord:
    """One exchange.

    Attributes:
        kind: Its type, one of `EXCHANGE_TYPES`.
        internal: Whether clients may not publish to it.
        arguments: As declared.
        bound: The bindings that lead from it.
        binding_rows: The same as snapshots hold them.
        incoming: The bindings that lead to it.
        recent: The messages that it keeps, the oldest first: flavour and record.
        recent_bytes: Of their records together.
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
        self.binding_rows: EncodedRows = EncodedRows()
        self.incoming: dict[Binding, None] = {}
        self.recent: list[tuple[int, bytes]] = []
        self.recent_bytes: i64 = 0

    def alternate(self) -> str:
        """The exchange that takes what this one cannot route; empty for none."""
        name = self.arguments.get(ALTERNATE_EXCHANGE)
        return name if isinstance(name, str) else ""


@final
class QueueRecord:
    """One queue.

    Attributes:
        kind: The name of its type.
        type: What queues of that type can do.
        durable: Whether it survives a restart; an exclusive queue never does.
        exclusive_owner: The connection that declared it for itself, else `NO_OWNER`.
        arguments: As declared, with `x-queue-type` always there.
        group_id: Its incarnation: a queue deleted and declared again has another one.
        node: Where it lives; of a quorum queue, the node that leads first. Empty where a node
            knows no cluster.
        members: Where the copies of a quorum queue are. Replaced as a whole, never changed.
        revision: How often `members` was replaced.
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
        node: str,
        members: list[MemberRecord],
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.type: QueueType = type_of(kind)
        self.kind: str = self.type.name
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.exclusive_owner: i64 = exclusive_owner
        plain = PLAIN.get(self.kind, arguments)
        self.arguments: Table = plain if arguments == plain else arguments
        self.group_id: i64 = group_id
        self.node: str = node
        self.members: list[MemberRecord] = members
        self.revision: i64 = 0
        self.incoming: dict[Binding, None] = {}

    def member_on(self, node: str) -> MemberRecord | None:
        """Its copy on a node, None where there is none."""
        for member in self.members:
            if member.node == node:
                return member
        return None

    def in_memory(self) -> bool:
        """Whether it ends with the process of its node."""
        return not self.durable or self.exclusive_owner != NO_OWNER


@final
class UserRecord:
    """One user.

    Attributes:
        password_hash: As `hash_scheme` says; empty if no password is accepted.
        hash_scheme: RabbitMQ's name of the algorithm, see `passwords`.
        tags: What it may administer, such as `administrator`.
        loopback_only: Whether it may only log in from this machine.
        limits: By RabbitMQ's names, such as `max-connections`; a negative one is none.
        former_hash: What `RenewHash` replaced: the same password. Empty if it did not. It is not
            in snapshots, and is only good for sessions of browsers that began before.
        created: As of a vhost.
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
        self.limits: dict[str, int] = {}
        self.former_hash: bytes = b""
        self.created: i64 = 0


@final
class TopicPermissionRecord:
    """Which routing keys a user may publish with to a topic exchange, and bind to it."""

    def __init__(self, user: str, exchange: str, write: str, read: str) -> None:
        self.user: str = user
        self.exchange: str = exchange
        self.write: str = write
        self.read: str = read


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
class PolicyRecord:
    """One policy, of users or of operators: settings for all whose names match (ARG-09).

    Attributes:
        pattern: A regular expression, which may match anywhere in a name.
        apply_to: What it is for, such as `quorum_queues`; see `policies.APPLY_TO`.
        priority: The highest one counts.
        definition: Settings by key, as in JSON.
        weight: What it takes in memory.
    """

    def __init__(
        self, name: str, pattern: str, apply_to: str, priority: i64, definition: dict[str, Any]
    ) -> None:
        self.name: str = name
        self.pattern: str = pattern
        self.apply_to: str = apply_to
        self.priority: i64 = priority
        self.definition: dict[str, Any] = definition
        self.weight: i64 = weight_of_policy(self)
        self._pattern: Pattern | None = None
        try:
            self._pattern = Pattern(pattern)
        except PatternError:
            # An older release let it in. It matches nothing, on every node.
            pass

    def cost(self) -> i64:
        """At most how many steps it takes to see whether it is for a name."""
        return 1 if self._pattern is None else self._pattern.cost

    def matches(self, name: str) -> bool:
        """Whether it is for a name."""
        return self._pattern is not None and self._pattern.found_in(name)


@final
class VhostRecord:
    """One vhost and what is in it.

    Attributes:
        stores: How many of the queues are what exchanges keep messages in that wait.
        weight: What its exchanges, queues and bindings take in memory; see `weights`.
        keepers: Exchanges that keep recent messages.
        exchange_rows, queue_rows: As snapshots hold them, in the order in which they came.
        queues: By name, in an order that differs by node.
        router: Its routes, kept up to date by the machine.
        owned: Exclusive queues by the connection they belong to.
        in_memory: Queues that end with the process of their node.
        permissions: By user.
        topic_permissions: By user and exchange; only of users that have some.
        policies, operator_policies: By name.
        description, tags: What operators say of it.
        default_queue_type: The type of queues that are declared without one; empty for the node's.
        protected: Whether it cannot be deleted.
        limits: By RabbitMQ's names, such as `max-queues`; a negative one is none.
        going: Whether it is being deleted: no client comes in any more.
        created: Log index of what created it, which tells it from former ones of its name; 0 if
            that was before cluster version `CREATION_INDEXES`.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.description: str = ""
        self.tags: list[str] = []
        self.default_queue_type: str = ""
        self.protected: bool = False
        self.limits: dict[str, int] = {}
        self.going: bool = False
        self.created: i64 = 0
        self.stores: i64 = 0
        self.weight: i64 = 0
        self.exchanges: dict[str, ExchangeRecord] = {}
        self.keepers: dict[str, ExchangeRecord] = {}
        self.exchange_rows: EncodedRows = EncodedRows()
        self.queue_rows: EncodedRows = EncodedRows()
        self.queues: ShardedDict[str, QueueRecord] = ShardedDict()
        self.owned: dict[int, ShardedDict[QueueRecord, None]] = {}
        self.in_memory: ShardedDict[QueueRecord, None] = ShardedDict()
        self.permissions: dict[str, PermissionRecord] = {}
        self.topic_permissions: dict[str, dict[str, TopicPermissionRecord]] = {}
        self.policies: dict[str, PolicyRecord] = {}
        self.operator_policies: dict[str, PolicyRecord] = {}
        self.router: Router = Router(name)

    def queues_of_clients(self) -> i64:
        """Give the number of queues that clients declared: exchanges have their own beside them."""
        return i64(len(self.queues)) - self.stores

    def queues_in_order(self) -> list[QueueRecord]:
        """All queues, in an order that is the same on all nodes."""
        found: list[QueueRecord] = []
        for lot in self.queue_rows.lots:
            found.extend(queues_of(lot))
        return found

    def policies_of(self, operator: bool) -> dict[str, PolicyRecord]:
        """The policies of a vhost by name: those of operators, or those of users."""
        return self.operator_policies if operator else self.policies


def queues_of(lot: Lot) -> list[QueueRecord]:
    """The queues whose rows a lot has."""
    found: list[QueueRecord] = []
    for row in lot.rows:
        assert isinstance(row, QueueRecord), "rows of queues"
        found.append(row)
    return found
