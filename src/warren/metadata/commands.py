"""Commands of the metadata machine, and their bytes in its log.

Layout: one MessagePack array a command, `[version, tag, fields...]`, fields in the order of the
constructor's parameters; AMQP argument tables are the bytes of their entries. `docs/formats/
metadata.md` lists tags and fields. The version is the machine's: a command that an older machine
would apply differently raises it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Final, Literal, TypeAlias, final

import msgspec
from mypy_extensions import i64

from warren.errors import CorruptRecord, ProtocolError, StorageError
from warren.metadata.tables import MemberRecord
from warren.versions import NODE_LABELS, OLDEST, POLICY_DELIVERY_LIMIT
from warren.wire.amqp091.table import Table, decode_table, encode_table

VERSION: Final = 2

I64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Members: TypeAlias = list[tuple[str, I64, bool]]
Names: TypeAlias = tuple[int, int, str]
TwoNames: TypeAlias = tuple[int, int, str, str]
BindingFields: TypeAlias = tuple[int, int, str, str, str, bool, str, bytes, bool]


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

    @abstractmethod
    def fields(self) -> list[Any]:
        """Tag and fields, as `encode` writes them."""


@final
class DeclareVhost(Command):
    """Create a vhost with the predeclared exchanges."""

    def __init__(self, name: str) -> None:
        super().__init__(True)
        self.name: str = name

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [1, self.name]


@final
class DeleteVhost(Command):
    """Delete a vhost and everything in it."""

    def __init__(self, name: str) -> None:
        super().__init__(True)
        self.name: str = name

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [2, self.name]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [
            3,
            self.name,
            self.password_hash,
            self.hash_scheme,
            self.tags,
            self.loopback_only,
        ]


@final
class DeleteUser(Command):
    """Delete a user and its permissions."""

    def __init__(self, name: str) -> None:
        super().__init__(True)
        self.name: str = name

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [4, self.name]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [5, self.user, self.vhost, self.configure, self.write, self.read]


@final
class ClearPermissions(Command):
    """Take a user's access to a vhost away."""

    def __init__(self, user: str, vhost: str) -> None:
        super().__init__(True)
        self.user: str = user
        self.vhost: str = vhost

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [6, self.user, self.vhost]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [
            7,
            self.vhost,
            self.name,
            self.kind,
            self.durable,
            self.auto_delete,
            self.internal,
            encode_table(self.arguments),
        ]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [8, self.vhost, self.name, self.if_unused, self.durable]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [
            9,
            self.vhost,
            self.name,
            self.kind,
            self.durable,
            self.auto_delete,
            self.exclusive_owner,
            encode_table(self.arguments),
            self.group_id,
            self.node,
            member_rows(self.members),
        ]


@final
class DeleteQueue(Command):
    """Delete one incarnation of a queue and the bindings to it."""

    def __init__(self, vhost: str, name: str, group_id: i64, durable: bool) -> None:
        super().__init__(durable)
        self.vhost: str = vhost
        self.name: str = name
        self.group_id: i64 = group_id

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [10, self.vhost, self.name, self.group_id, self.durable]


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

    def tagged(self, tag: int) -> list[Any]:
        """What `fields` returns, with this tag."""
        return [
            tag,
            self.vhost,
            self.source,
            self.destination,
            self.to_exchange,
            self.routing_key,
            encode_table(self.arguments),
            self.durable,
        ]


@final
class Bind(BindingCommand):
    """Bind a queue or an exchange to a source exchange."""

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return self.tagged(11)


@final
class Unbind(BindingCommand):
    """Remove the binding that has exactly these properties."""

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return self.tagged(12)


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [14, self.cluster_id, self.version]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [15, self.name, self.uid, self.host, self.port, self.incarnation]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [16, self.name, self.force, self.uid]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [17, self.name, self.uid, self.nonce, self.boot, self.round, self.version]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [24, self.name, self.nonce, self.round]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [25, self.name, self.former_uid, self.uid, self.host, self.port, self.incarnation]


@final
class NodeMoved(Command):
    """A node's cluster listener has another address."""

    def __init__(self, name: str, host: str, port: int) -> None:
        super().__init__(True)
        self.name: str = name
        self.host: str = host
        self.port: int = port

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [18, self.name, self.host, self.port]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [27, self.name, self.host_label, self.zone]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [
            19,
            self.group_id,
            self.vhost,
            self.name,
            member_rows(self.members),
            self.revision,
        ]


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

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [20, self.name, self.nonce, self.newest]


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
        """Later ones may set `delivery-limit`."""
        return POLICY_DELIVERY_LIMIT if "delivery-limit" in self.definition else OLDEST

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [
            21,
            self.vhost,
            self.name,
            self.operator,
            self.pattern,
            self.apply_to,
            self.priority,
            self.definition,
        ]


@final
class ClearPolicy(Command):
    """Remove a policy. See `SetPolicy`."""

    def __init__(self, vhost: str, name: str, operator: bool) -> None:
        super().__init__(True)
        self.vhost: str = vhost
        self.name: str = name
        self.operator: bool = operator

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [22, self.vhost, self.name, self.operator]


@final
class RaiseVersion(Command):
    """The cluster moves up to a version that every node of it knows.

    Attributes:
        version: That cluster version; nothing changes if some node's newest is an older one.
    """

    def __init__(self, version: int) -> None:
        super().__init__(True)
        self.version: int = version

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [26, self.version]


@final
class Barrier(Command):
    """Change nothing: who has it applied knows all that was changed before it was submitted."""

    def __init__(self) -> None:
        super().__init__(True)

    def fields(self) -> list[Any]:
        """The command's tag and fields, as `encode` writes them."""
        return [23]


def member_rows(members: list[MemberRecord]) -> list[Any]:
    """Members as the log and snapshots hold them."""
    return [[member.node, member.incarnation, member.voter] for member in members]


def read_members(rows: list[Any]) -> list[MemberRecord]:
    """The members of a queue, from the rows that `member_rows` made."""
    return [MemberRecord(row[0], row[1], row[2]) for row in rows]


def encode(command: Command) -> bytes:
    """A command's bytes for the log."""
    return msgspec.msgpack.encode([VERSION, *command.fields()])


def _decoder(fields: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(fields)


DECODERS: Final[dict[int, msgspec.msgpack.Decoder[Any]]] = {
    1: _decoder(Names),
    2: _decoder(Names),
    3: _decoder(tuple[int, int, str, bytes, str, list[str], bool]),
    4: _decoder(Names),
    5: _decoder(tuple[int, int, str, str, str, str, str]),
    6: _decoder(TwoNames),
    7: _decoder(
        tuple[
            int,
            int,
            str,
            str,
            Literal["direct", "fanout", "topic", "headers"],
            bool,
            bool,
            bool,
            bytes,
        ]
    ),
    8: _decoder(tuple[int, int, str, str, bool, bool]),
    9: _decoder(
        tuple[
            int,
            int,
            str,
            str,
            Literal["classic", "quorum"],
            bool,
            bool,
            I64,
            bytes,
            I64,
            str,
            Members,
        ]
    ),
    10: _decoder(tuple[int, int, str, str, I64, bool]),
    11: _decoder(BindingFields),
    12: _decoder(BindingFields),
    14: _decoder(tuple[int, int, bytes, I64]),
    15: _decoder(tuple[int, int, str, bytes, str, I64, I64]),
    16: _decoder(tuple[int, int, str, bool, bytes]),
    17: _decoder(tuple[int, int, str, bytes, bytes, I64, I64, I64]),
    18: _decoder(tuple[int, int, str, str, I64]),
    27: _decoder(tuple[int, int, str, str, str]),
    19: _decoder(tuple[int, int, I64, str, str, Members, I64]),
    20: _decoder(tuple[int, int, str, bytes, I64]),
    21: _decoder(tuple[int, int, str, str, bool, str, str, I64, dict[str, Any]]),
    22: _decoder(tuple[int, int, str, str, bool]),
    23: _decoder(tuple[int, int]),
    24: _decoder(tuple[int, int, str, bytes, I64]),
    25: _decoder(tuple[int, int, str, bytes, bytes, str, I64, I64]),
    26: _decoder(tuple[int, int, I64]),
}
"""What each command is made of, version and tag included, by tag."""

_SHORTER: Final[dict[tuple[int, int], msgspec.msgpack.Decoder[Any]]] = {
    (14, 3): _decoder(tuple[int, int, bytes]),
    (16, 4): _decoder(tuple[int, int, str, bool]),
    (17, 5): _decoder(tuple[int, int, str, bytes, bytes]),
    (17, 7): _decoder(tuple[int, int, str, bytes, bytes, I64, I64]),
}
"""The same of earlier releases, by tag and number of values: the first entry of a cluster, and a
node's start, without a cluster version; a removal without a uid; a start without boot and round."""


def decode(data: bytes) -> Command:
    """The command that `encode` wrote.

    Raises:
        CorruptRecord: It is nothing that `encode` writes.
        StorageError: A later version of Warren wrote it.
    """
    # An array of at most fifteen; its first two, like all numbers below 128, are octets.
    if len(data) < 3 or data[0] >> 4 != 9:
        raise _corrupt("no command of any version")
    if data[1] != VERSION:
        raise StorageError(
            f"metadata log: command of version {data[1]}, this node knows version {VERSION}"
        )
    tag = data[2]
    decoder = _SHORTER.get((tag, data[0] & 15), DECODERS.get(tag))
    if decoder is None:
        # A later release's would come after the entry that raised the cluster version.
        raise _corrupt(f"command {tag} is unknown")
    try:
        return _decode(tag, decoder.decode(data)[2:])
    except (msgspec.MsgspecError, ProtocolError, RecursionError, ValueError) as error:
        raise _corrupt(str(error)) from error


def _corrupt(reason: str) -> CorruptRecord:
    return CorruptRecord("a command of the tables", 0, reason)


def _decode(tag: int, f: Any) -> Command:
    if tag == 1:
        return DeclareVhost(f[0])
    if tag == 2:
        return DeleteVhost(f[0])
    if tag == 3:
        return SetUser(f[0], f[1], f[2], f[3], f[4])
    if tag == 4:
        return DeleteUser(f[0])
    if tag == 5:
        return SetPermissions(f[0], f[1], f[2], f[3], f[4])
    if tag == 6:
        return ClearPermissions(f[0], f[1])
    if tag == 7:
        return DeclareExchange(f[0], f[1], f[2], f[3], f[4], f[5], _table(f[6]))
    if tag == 8:
        return DeleteExchange(f[0], f[1], f[2], f[3])
    if tag == 9:
        return DeclareQueue(
            f[0], f[1], f[2], f[3], f[4], f[5], _table(f[6]), f[7], f[8], read_members(f[9])
        )
    if tag == 10:
        return DeleteQueue(f[0], f[1], f[2], f[3])
    if tag == 11:
        return Bind(f[0], f[1], f[2], f[3], f[4], _table(f[5]), f[6])
    if tag == 12:
        return Unbind(f[0], f[1], f[2], f[3], f[4], _table(f[5]), f[6])
    if tag == 21:
        return SetPolicy(f[0], f[1], f[2], f[3], f[4], f[5], f[6])
    if tag == 22:
        return ClearPolicy(f[0], f[1], f[2])
    return _decode_about_nodes(tag, f)


def _decode_about_nodes(tag: int, f: Any) -> Command:
    if tag == 14:
        return BeginCluster(f[0], f[1]) if len(f) > 1 else BeginCluster(f[0])
    if tag == 15:
        return AddNode(f[0], f[1], f[2], f[3], f[4])
    if tag == 16:
        return RemoveNode(f[0], f[1], f[2]) if len(f) > 2 else RemoveNode(f[0], f[1])
    if tag == 17:
        if len(f) == 3:
            return NodeUp(f[0], f[1], f[2])
        return NodeUp(f[0], f[1], f[2], f[3], f[4], f[5] if len(f) > 5 else OLDEST)
    if tag == 18:
        return NodeMoved(f[0], f[1], f[2])
    if tag == 27:
        return NodeLabelled(f[0], f[1], f[2])
    if tag == 20:
        return MoreSessions(f[0], f[1], f[2])
    if tag == 26:
        return RaiseVersion(f[0])
    if tag == 23:
        return Barrier()
    if tag == 24:
        return NodeSeen(f[0], f[1], f[2])
    if tag == 25:
        return ReplaceNode(f[0], f[1], f[2], f[3], f[4], f[5])
    assert tag == 19, tag
    return SetMembers(f[0], f[1], f[2], read_members(f[3]), f[4])


def _table(data: bytes) -> Table:
    return decode_table(data, 0, len(data))
