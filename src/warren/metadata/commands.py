"""Commands of the metadata machine; their bytes in its log are in `encoding`.

What an older release does not know says from which cluster version on it may be logged
(`Command.cluster_version`).
"""

from __future__ import annotations

from typing import Any, Final, final

from mypy_extensions import i64

from warren.metadata.passwords import OLDEST_SCHEMES
from warren.metadata.tables import MemberRecord
from warren.queue_types import (
    DELAYED,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    X_CONSUMER_TIMEOUT,
    X_DEAD_LETTER_EXCHANGE,
    X_DEAD_LETTER_STRATEGY,
    X_DELAYED_RETRIES,
    X_DELIVERY_LIMIT,
    X_DISCONNECTED_TIMEOUT,
    X_EXPIRES,
    X_MAX_LENGTH,
    X_MAX_LENGTH_BYTES,
    X_MAX_PRIORITY,
    X_MESSAGE_TTL,
    X_OVERFLOW,
    X_SINGLE_ACTIVE_CONSUMER,
)
from warren.routing.exchange_types import OLDEST_TYPES, STORE_PREFIX
from warren.versions import (
    ACCESS,
    CONSUMER_TIMEOUTS,
    DEAD_LETTERS,
    DELAYED_MESSAGES,
    DELAYED_RETRIES,
    DELIVERY_LIMIT_ARGUMENT,
    DISCONNECTED_TIMEOUTS,
    EXPIRY,
    LENGTH_LIMITS,
    NODE_LABELS,
    OLDEST,
    PARAMETERS,
    PASSWORD_HASHES,
    POLICY_DELIVERY_LIMIT,
    POLICY_KEYS,
    PRIORITIES,
    SINGLE_ACTIVE,
    SPREADING_EXCHANGES,
)
from warren.wire.amqp091.table import Table

ARGUMENT_VERSIONS: Final = {
    X_EXPIRES: EXPIRY,
    X_MESSAGE_TTL: EXPIRY,
    X_MAX_LENGTH: LENGTH_LIMITS,
    X_MAX_LENGTH_BYTES: LENGTH_LIMITS,
    X_MAX_PRIORITY: PRIORITIES,
    X_DEAD_LETTER_EXCHANGE: DEAD_LETTERS,
    X_DEAD_LETTER_STRATEGY: DEAD_LETTERS,
    X_CONSUMER_TIMEOUT: CONSUMER_TIMEOUTS,
    X_DISCONNECTED_TIMEOUT: DISCONNECTED_TIMEOUTS,
    X_DELIVERY_LIMIT: DELIVERY_LIMIT_ARGUMENT,
    **dict.fromkeys(X_DELAYED_RETRIES, DELAYED_RETRIES),
}
"""From which cluster version on a queue may be declared with an argument, whatever its value."""

OLDEST_POLICY_KEYS: Final = ("target-group-size", "queue-leader-locator")
"""What policies may set in every cluster."""


class Command:
    """One change of the tables.

    Attributes:
        durable: Whether the change survives a restart, so that its reply has to wait for the disk.
            One that does not still takes its turn in the log's order.
    """

    def __init__(self, durable: bool) -> None:
        self.durable: bool = durable

    def cluster_version(self) -> int:
        """The cluster version (`warren.versions`) from which on such a command may be logged."""
        return OLDEST


@final
class DeclareVhost(Command):
    """Create a vhost with the predeclared exchanges."""

    def __init__(self, name: str) -> None:
        super().__init__(True)
        self.name: str = name


@final
class DeleteVhost(Command):
    """Delete a vhost and everything in it."""

    def __init__(self, name: str) -> None:
        super().__init__(True)
        self.name: str = name


@final
class SetUser(Command):
    """Create a user, or replace all its properties. See `UserRecord`."""

    def __init__(
        self,
        name: str,
        password_hash: bytes,
        hash_scheme: str,
        tags: list[str],
        loopback_only: bool,
    ) -> None:
        super().__init__(True)
        self.name: str = name
        self.password_hash: bytes = password_hash
        self.hash_scheme: str = hash_scheme
        self.tags: list[str] = tags
        self.loopback_only: bool = loopback_only

    def cluster_version(self) -> int:
        """The first one whose nodes let the user in by the hash."""
        return OLDEST if self.hash_scheme in OLDEST_SCHEMES else PASSWORD_HASHES


@final
class DeleteUser(Command):
    """Delete a user and its permissions."""

    def __init__(self, name: str) -> None:
        super().__init__(True)
        self.name: str = name


@final
class SetPermissions(Command):
    """Grant a user access to a vhost, or replace its patterns there."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        super().__init__(True)
        self.user: str = user
        self.vhost: str = vhost
        self.configure: str = configure
        self.write: str = write
        self.read: str = read


@final
class ClearPermissions(Command):
    """Take a user's access to a vhost away."""

    def __init__(self, user: str, vhost: str) -> None:
        super().__init__(True)
        self.user: str = user
        self.vhost: str = vhost


class AccessCommand(Command):
    """A change of who may do what, or how much, as later releases have it."""

    def __init__(self) -> None:
        super().__init__(True)

    def cluster_version(self) -> int:
        """All of these came at once."""
        return ACCESS


@final
class SetPassword(AccessCommand):
    """Give a user another password. See `UserRecord`."""

    def __init__(self, name: str, password_hash: bytes, hash_scheme: str) -> None:
        super().__init__()
        self.name: str = name
        self.password_hash: bytes = password_hash
        self.hash_scheme: str = hash_scheme


@final
class RenewHash(AccessCommand):
    """Hash a user's password anew, unless the user has another one by now. See `UserRecord`."""

    def __init__(
        self, name: str, former_hash: bytes, password_hash: bytes, hash_scheme: str
    ) -> None:
        super().__init__()
        self.name: str = name
        self.former_hash: bytes = former_hash
        self.password_hash: bytes = password_hash
        self.hash_scheme: str = hash_scheme


@final
class SetUserTags(AccessCommand):
    """Give a user other tags."""

    def __init__(self, name: str, tags: list[str]) -> None:
        super().__init__()
        self.name: str = name
        self.tags: list[str] = tags


@final
class SetUserLimits(AccessCommand):
    """Set limits of a user, and leave the others as they are.

    Attributes:
        cleared: Limits that there are to be no more.
    """

    def __init__(self, name: str, limits: dict[str, int], cleared: list[str]) -> None:
        super().__init__()
        self.name: str = name
        self.limits: dict[str, int] = limits
        self.cleared: list[str] = cleared


@final
class SetVhost(AccessCommand):
    """Create a vhost with properties, or change properties of one that there is.

    Attributes:
        create: Whether to create it; one that is there already stays as it is then.
        properties: By the names that `VhostRecord` has; others stay as they are.
    """

    def __init__(self, name: str, create: bool, properties: dict[str, Any]) -> None:
        super().__init__()
        self.name: str = name
        self.create: bool = create
        self.properties: dict[str, Any] = properties


@final
class SetVhostLimits(AccessCommand):
    """Replace all limits of a vhost."""

    def __init__(self, vhost: str, limits: dict[str, int]) -> None:
        super().__init__()
        self.vhost: str = vhost
        self.limits: dict[str, int] = limits


@final
class SetTopicPermissions(AccessCommand):
    """Bound the routing keys that a user may use with a topic exchange."""

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        super().__init__()
        self.user: str = user
        self.vhost: str = vhost
        self.exchange: str = exchange
        self.write: str = write
        self.read: str = read


@final
class ClearTopicPermissions(AccessCommand):
    """Let a user use any routing key again.

    Attributes:
        exchange: With this topic exchange; empty for all of them.
    """

    def __init__(self, user: str, vhost: str, exchange: str) -> None:
        super().__init__()
        self.user: str = user
        self.vhost: str = vhost
        self.exchange: str = exchange


@final
class DeclareExchange(Command):
    """Create an exchange. See `ExchangeRecord`."""

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
        super().__init__(durable)
        self.vhost: str = vhost
        self.name: str = name
        self.kind: str = kind
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments

    def cluster_version(self) -> int:
        """The first one whose nodes know the type."""
        return OLDEST if self.kind in OLDEST_TYPES else SPREADING_EXCHANGES


@final
class DeclareDelayed(Command):
    """Create an exchange of type `x-delayed-message`, with what messages wait in.

    Attributes:
        group_id, node, members: Of that, as `DeclareQueue` has them of a quorum queue.
    """

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        group_id: i64 = 0,
        node: str = "",
        members: list[MemberRecord] | None = None,
    ) -> None:
        super().__init__(durable)
        self.vhost: str = vhost
        self.name: str = name
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments
        self.group_id: i64 = group_id
        self.node: str = node
        self.members: list[MemberRecord] = [] if members is None else members

    def cluster_version(self) -> int:
        """The first one whose nodes know the type."""
        return DELAYED_MESSAGES

    def store(self) -> DeclareQueue:
        """The queue that messages wait in."""
        return DeclareQueue(
            self.vhost,
            STORE_PREFIX + self.name,
            DELAYED.name,
            True,
            False,
            0,
            {},
            self.group_id,
            self.node,
            self.members,
        )


@final
class DeleteExchange(Command):
    """Delete an exchange and the bindings at either end of it.

    Attributes:
        if_unused: Leave it if bindings lead from it when the command is applied.
    """

    def __init__(self, vhost: str, name: str, if_unused: bool, durable: bool) -> None:
        super().__init__(durable)
        self.vhost: str = vhost
        self.name: str = name
        self.if_unused: bool = if_unused


@final
class KeepRecent(Command):
    """Have an exchange of type `x-recent-history` keep messages, for what is bound to it later.

    Attributes:
        records: Messages as they were published, the newest last; all of one flavour.
        flavour: As what they are stored; see `message.flavours`.
    """

    def __init__(self, vhost: str, name: str, records: list[bytes], flavour: int) -> None:
        super().__init__(False)
        self.vhost: str = vhost
        self.name: str = name
        self.records: list[bytes] = records
        self.flavour: int = flavour

    def cluster_version(self) -> int:
        """The first one whose nodes read it."""
        return SPREADING_EXCHANGES


@final
class DeclareQueue(Command):
    """Create a queue. See `QueueRecord`.

    A queue that ends with a process is not created for an earlier process of its node, nor any for
    a node that is no more; members on such nodes are left out.
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
        node: str = "",
        members: list[MemberRecord] | None = None,
    ) -> None:
        super().__init__(durable)
        self.vhost: str = vhost
        self.name: str = name
        self.kind: str = kind
        self.auto_delete: bool = auto_delete
        self.exclusive_owner: i64 = exclusive_owner
        self.arguments: Table = arguments
        self.group_id: i64 = group_id
        self.node: str = node
        self.members: list[MemberRecord] = [] if members is None else members

    def cluster_version(self) -> int:
        """The first one whose nodes know all of its arguments."""
        version = OLDEST
        for name, needed in ARGUMENT_VERSIONS.items():
            if name in self.arguments:
                version = max(version, needed)
        if self.arguments.get(X_OVERFLOW) in (REJECT_PUBLISH, REJECT_PUBLISH_DLX):
            version = max(version, LENGTH_LIMITS)
        if self.arguments.get(X_SINGLE_ACTIVE_CONSUMER) is True:
            version = max(version, SINGLE_ACTIVE)
        return version


@final
class DeleteQueue(Command):
    """Delete one incarnation of a queue and the bindings to it."""

    def __init__(self, vhost: str, name: str, group_id: i64, durable: bool) -> None:
        super().__init__(durable)
        self.vhost: str = vhost
        self.name: str = name
        self.group_id: i64 = group_id


class BindingCommand(Command):
    """A command about one binding. See `Binding`."""

    def __init__(
        self,
        vhost: str,
        source: str,
        destination: str,
        to_exchange: bool,
        routing_key: str,
        arguments: Table,
        durable: bool,
    ) -> None:
        super().__init__(durable)
        self.vhost: str = vhost
        self.source: str = source
        self.destination: str = destination
        self.to_exchange: bool = to_exchange
        self.routing_key: str = routing_key
        self.arguments: Table = arguments


@final
class Bind(BindingCommand):
    """Bind a queue or an exchange to a source exchange."""


@final
class Unbind(BindingCommand):
    """Remove the binding that has exactly these properties."""


@final
class BeginCluster(Command):
    """The first entry of a new cluster names it; nothing names it again.

    Attributes:
        cluster_id: 16 random bytes.
        version: The cluster version that it begins with: its first node's.
    """

    def __init__(self, cluster_id: bytes, version: int = OLDEST) -> None:
        super().__init__(True)
        self.cluster_id: bytes = cluster_id
        self.version: int = version


@final
class AddNode(Command):
    """Take a node into the cluster, or give one that is in it another address or incarnation.

    Nothing changes if the name or the uid is another node's. See `NodeRecord`.
    """

    def __init__(self, name: str, uid: bytes, host: str, port: int, incarnation: i64) -> None:
        super().__init__(True)
        self.name: str = name
        self.uid: bytes = uid
        self.host: str = host
        self.port: int = port
        self.incarnation: i64 = incarnation


@final
class RemoveNode(Command):
    """Take a node out of the cluster, with the queues that live there and nowhere else.

    The last node stays.

    Attributes:
        force: Even if it takes the last voter of a quorum queue away, which goes then; else nothing
            changes in that case.
        uid: The node's: one that came under the same name later stays. Empty for any.
    """

    def __init__(self, name: str, force: bool = False, uid: bytes = b"") -> None:
        super().__init__(True)
        self.name: str = name
        self.force: bool = force
        self.uid: bytes = uid


@final
class NodeUp(Command):
    """A node began a new life: what did not outlive its last process is deleted.

    Attributes:
        nonce: Random bytes of this life; the same again changes nothing.
        boot: How often the node's data directory was started.
        round: Number of the newest durable round of its log at this start.
        version: The newest cluster version that its release knows, or is to use.
    """

    def __init__(
        self,
        name: str,
        uid: bytes,
        nonce: bytes,
        boot: int = 0,
        round: int = 0,
        version: int = OLDEST,
    ) -> None:
        super().__init__(True)
        self.name: str = name
        self.uid: bytes = uid
        self.nonce: bytes = nonce
        self.boot: int = boot
        self.round: int = round
        self.version: int = version


@final
class NodeSeen(Command):
    """What others heard last of a node that is down: how much of its log was durable.

    Attributes:
        nonce: Of the life that said so; nothing changes if that is not the node's newest.
        round: Number of a durable round of its log.
    """

    def __init__(self, name: str, nonce: bytes, round: int) -> None:
        super().__init__(True)
        self.name: str = name
        self.nonce: bytes = nonce
        self.round: int = round


@final
class ReplaceNode(Command):
    """A node whose disk lacks what it acknowledged takes its own place with new copies.

    Nothing changes unless the node of this name has the uid that was given up.

    Attributes:
        former_uid: What it gave up.
        uid, host, port, incarnation: As for `AddNode`.
    """

    def __init__(
        self, name: str, former_uid: bytes, uid: bytes, host: str, port: int, incarnation: i64
    ) -> None:
        super().__init__(True)
        self.name: str = name
        self.former_uid: bytes = former_uid
        self.uid: bytes = uid
        self.host: str = host
        self.port: int = port
        self.incarnation: i64 = incarnation


@final
class NodeMoved(Command):
    """A node's cluster listener has another address."""

    def __init__(self, name: str, host: str, port: int) -> None:
        super().__init__(True)
        self.name: str = name
        self.host: str = host
        self.port: int = port


@final
class NodeLabelled(Command):
    """A node says where it is: its labels are these from now on. See `NodeRecord`."""

    def __init__(self, name: str, host_label: str, zone: str) -> None:
        super().__init__(True)
        self.name: str = name
        self.host_label: str = host_label
        self.zone: str = zone

    def cluster_version(self) -> int:
        """The first one whose nodes read it."""
        return NODE_LABELS


@final
class SetMembers(Command):
    """Replace the members of a quorum queue.

    Attributes:
        members: All of them, with at least one voter; those on nodes that are no more are left out.
        revision: The queue's when `members` was made. If it is another one by now, nothing changes.
    """

    def __init__(
        self, group_id: i64, vhost: str, name: str, members: list[MemberRecord], revision: i64
    ) -> None:
        super().__init__(True)
        self.group_id: i64 = group_id
        self.vhost: str = vhost
        self.name: str = name
        self.members: list[MemberRecord] = members
        self.revision: i64 = revision


@final
class MoreSessions(Command):
    """Give a node further sessions in its present life.

    Attributes:
        nonce: That of its life.
        newest: What gave it sessions last. If it is something else by now, nothing changes.
    """

    def __init__(self, name: str, nonce: bytes, newest: i64) -> None:
        super().__init__(True)
        self.name: str = name
        self.nonce: bytes = nonce
        self.newest: i64 = newest


@final
class SetPolicy(Command):
    """Create a policy, or replace it. See `PolicyRecord`.

    Attributes:
        operator: Whether it is one of operators.
    """

    def __init__(
        self,
        vhost: str,
        name: str,
        operator: bool,
        pattern: str,
        apply_to: str,
        priority: i64,
        definition: dict[str, Any],
    ) -> None:
        super().__init__(True)
        self.vhost: str = vhost
        self.name: str = name
        self.operator: bool = operator
        self.pattern: str = pattern
        self.apply_to: str = apply_to
        self.priority: i64 = priority
        self.definition: dict[str, Any] = definition

    def cluster_version(self) -> int:
        """Later ones may set more."""
        for key in self.definition:
            if key not in OLDEST_POLICY_KEYS and key != "delivery-limit":
                return POLICY_KEYS
        return POLICY_DELIVERY_LIMIT if "delivery-limit" in self.definition else OLDEST


@final
class ClearPolicy(Command):
    """Remove a policy. See `SetPolicy`."""

    def __init__(self, vhost: str, name: str, operator: bool) -> None:
        super().__init__(True)
        self.vhost: str = vhost
        self.name: str = name
        self.operator: bool = operator


@final
class SetParameter(Command):
    """Create a runtime parameter, or replace it.

    Attributes:
        vhost, component: Whose it is and of what; both empty for one of the whole cluster.
        value: JSON.
    """

    def __init__(self, vhost: str, component: str, name: str, value: bytes) -> None:
        super().__init__(True)
        self.vhost: str = vhost
        self.component: str = component
        self.name: str = name
        self.value: bytes = value

    def cluster_version(self) -> int:
        """The first one whose nodes read it."""
        return PARAMETERS


@final
class ClearParameter(Command):
    """Remove a runtime parameter. See `SetParameter`."""

    def __init__(self, vhost: str, component: str, name: str) -> None:
        super().__init__(True)
        self.vhost: str = vhost
        self.component: str = component
        self.name: str = name

    def cluster_version(self) -> int:
        """The first one whose nodes read it."""
        return PARAMETERS


@final
class RaiseVersion(Command):
    """The cluster moves up to a version that every node of it knows.

    Attributes:
        version: That cluster version; nothing changes if some node's newest is an older one.
    """

    def __init__(self, version: int) -> None:
        super().__init__(True)
        self.version: int = version


@final
class Barrier(Command):
    """Change nothing: who has it applied knows all that was changed before it was submitted."""

    def __init__(self) -> None:
        super().__init__(True)
