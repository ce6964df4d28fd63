"""The rows that operations answer with: each column stands here once, for all who show it.

A field is a column: its name (RabbitMQ's where it has one), its type, and where it comes from. What
shows rows takes the columns from here, whether that is a table, JSON or a page. None is what this
node cannot know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta


class Column(NamedTuple):
    """One column.

    Attributes:
        name: As answers have it.
        type: The type of its values.
        source: Where they come from, or what they mean.
    """

    name: str
    type: Any
    source: str


class Row(msgspec.Struct, kw_only=True):
    """One thing among others of its kind."""

    def cells(self) -> dict[str, Any]:
        """The values by the names of their columns, in order."""
        names = type(self).__struct_encode_fields__
        return dict(zip(names, msgspec.structs.astuple(self), strict=True))


def columns(row: type[Row]) -> Iterator[Column]:
    """The columns of a kind of row, in the order in which they are shown."""
    for field in msgspec.structs.fields(row):
        kind, meta = field.type.__origin__, field.type.__metadata__[0]
        yield Column(field.encode_name, kind, meta.description)


Membership = Literal["promotable", "voter", "non_voter"]
"""What a new member is to be: `promotable` may vote later, `voter` is waited for."""
ChangeResult = Literal["ok", "later", "unknown", "refused"]

Vhost = Annotated[str, Meta(description="the vhost that it is in")]
QueueName = Annotated[str, Meta(description="the queue's name")]


class QueueRow(Row):
    """One queue, as `list_queues` lists it."""

    vhost: Vhost
    name: QueueName
    type: Annotated[str, Meta(description="the queue's type, as declared")]
    messages_ready: Annotated[
        int | None, Meta(description="messages that wait for a consumer, counted on this node")
    ]
    messages_unacknowledged: Annotated[
        int | None, Meta(description="messages that consumers hold, counted on this node")
    ]
    consumers: Annotated[int | None, Meta(description="consumers, counted on this node")]
    leader: Annotated[
        str,
        Meta(description="the node that leads it, or that a classic queue is on; empty if down"),
    ]
    members: Annotated[list[str], Meta(description="nodes with a member, by the metadata")]
    online: Annotated[list[str], Meta(description="those of them that this node takes for running")]
    learners: Annotated[list[str], Meta(description="nodes with a member that does not vote")]
    policy: Annotated[str, Meta(description="the policy in force for it, by the metadata")]
    operator_policy: Annotated[str, Meta(description="the operator policy in force for it")]
    messages_dlx: Annotated[
        int | None,
        Meta(description="dead letters that stay until they are elsewhere, counted on this node"),
    ] = None
    messages_delayed: Annotated[
        int | None,
        Meta(description="messages that wait before they come or go on, counted on this node"),
    ] = None


class PolicyRow(Row, rename={"apply_to": "apply-to"}):
    """One policy, of users or of operators, as `list_policies` lists it."""

    vhost: Vhost
    name: Annotated[str, Meta(description="the policy's name")]
    pattern: Annotated[str, Meta(description="a regular expression that names match anywhere")]
    apply_to: Annotated[str, Meta(description="what it is for, such as `quorum_queues`")]
    definition: Annotated[dict[str, Any], Meta(description="settings by key")]
    priority: Annotated[int, Meta(description="the highest one that matches counts")]


class MemberStatus(
    Row,
    rename={
        "node_name": "Node Name",
        "raft_state": "Raft State",
        "membership": "Membership",
        "last_log_index": "Last Log Index",
        "last_written": "Last Written",
        "last_applied": "Last Applied",
        "commit_index": "Commit Index",
        "snapshot_index": "Snapshot Index",
        "term": "Term",
        "machine_version": "Machine Version",
    },
):
    """One copy of a quorum queue, as `quorum_status` lists it; numbers as its node says them."""

    node_name: Annotated[str, Meta(description="the node that has the copy, by the metadata")]
    raft_state: Annotated[
        str, Meta(description="its role; noproc, nodedown or timeout if its node did not say")
    ]
    membership: Annotated[
        Membership,
        Meta(description="whether it votes, by this node's copy, or is to, by the metadata"),
    ]
    last_log_index: Annotated[int | None, Meta(description="the last entry it has")]
    last_written: Annotated[int | None, Meta(description="the last entry that is durable there")]
    last_applied: Annotated[int | None, Meta(description="the last entry its machine applied")]
    commit_index: Annotated[int | None, Meta(description="the last entry it knows is committed")]
    snapshot_index: Annotated[int | None, Meta(description="the last entry in its snapshot")]
    term: Annotated[int | None, Meta(description="its Raft term")]
    machine_version: Annotated[int | None, Meta(description="the version of its machine")]


class MemberChange(Row):
    """What became of one queue of many whose members were to change, as `grow` lists it."""

    vhost: Vhost
    name: QueueName
    size: Annotated[
        int | None, Meta(description="members that vote then, by the metadata; None if not known")
    ]
    result: Annotated[
        ChangeResult,
        Meta(description="later: votes once caught up; unknown: was not seen within the time"),
    ]
    problem: Annotated[str, Meta(description="why it was refused, or is unknown; else empty")]

    @property
    def ok(self) -> bool:
        """Whether it has come about, or does so without further ado."""
        return self.result in ("ok", "later")


class LeaderCount(Row):
    """How many quorum queues a node leads, as `rebalance` lists it."""

    node: Annotated[str, Meta(description="the node's name")]
    queues: Annotated[int, Meta(description="those it leads, as far as this node knows")]


class NodeRow(Row):
    """One node of the cluster."""

    name: Annotated[str, Meta(description="the node's name, by the metadata")]
    address: Annotated[str, Meta(description="host:port of its cluster listener, by the metadata")]
    running: Annotated[bool, Meta(description="whether it is up, as far as this node knows")]
    cluster_version: Annotated[int, Meta(description="the newest that it knew at its last start")]
    host: Annotated[str, Meta(description="its label `host`, by the metadata; empty for none")]
    zone: Annotated[str, Meta(description="its label `zone`, by the metadata; empty for none")]


class ListenerRow(Row):
    """One address at which a node listens."""

    node: Annotated[str, Meta(description="the node's name")]
    protocol: Annotated[str, Meta(description="such as `amqp`, `amqp/ssl`, `clustering`, `http`")]
    ip_address: Annotated[str, Meta(description="the address; `::` for every interface")]
    port: Annotated[int, Meta(description="the port")]
    tls: Annotated[bool, Meta(description="whether it speaks TLS")]


class ExchangeTypeRow(Row):
    """One type that exchanges can be declared with."""

    name: Annotated[str, Meta(description="the type's name")]
    description: Annotated[str, Meta(description="what it is")]
    enabled: Annotated[bool, Meta(description="whether exchanges can be declared with it")]


UserName = Annotated[str, Meta(description="the user's name")]
Configure = Annotated[str, Meta(description="names that the user may declare and delete")]
Write = Annotated[str, Meta(description="names that the user may publish to, and bind")]
Read = Annotated[str, Meta(description="names that the user may consume from, and bind to")]
WriteTopic = Annotated[str, Meta(description="routing keys that the user may publish with")]
ReadTopic = Annotated[str, Meta(description="routing keys that the user may bind with")]
Limits = Annotated[dict[str, int], Meta(description="limits by name; a negative one is none")]


class UserRow(Row):
    """One user, as `list_users` lists it."""

    user: UserName
    tags: Annotated[list[str], Meta(description="what the user may administer")]


class VhostRow(Row):
    """One vhost, as `list_vhosts` lists it."""

    name: Annotated[str, Meta(description="the vhost's name")]
    description: Annotated[str, Meta(description="what operators say of it")]
    tags: Annotated[list[str], Meta(description="the same in single words")]
    default_queue_type: Annotated[
        str, Meta(description="the type of queues declared without one; empty for the node's")
    ]
    protected_from_deletion: Annotated[bool, Meta(description="whether it cannot be deleted")]


class PermissionRow(Row):
    """One user of a vhost, as `list_permissions` lists it."""

    user: UserName
    configure: Configure
    write: Write
    read: Read


class UserPermissionRow(Row):
    """One vhost of a user, as `list_user_permissions` lists it."""

    vhost: Annotated[str, Meta(description="the vhost")]
    configure: Configure
    write: Write
    read: Read


class TopicPermissionRow(Row):
    """Routing keys of one user and one topic exchange, as `list_topic_permissions` lists them."""

    user: UserName
    exchange: Annotated[str, Meta(description="the exchange's name")]
    write: WriteTopic
    read: ReadTopic


class UserTopicPermissionRow(Row):
    """The same of one user, as `list_user_topic_permissions` lists it."""

    vhost: Annotated[str, Meta(description="the vhost that the exchange is in")]
    exchange: Annotated[str, Meta(description="the exchange's name")]
    write: WriteTopic
    read: ReadTopic


class UserLimitsRow(Row):
    """What one user may have at most, as `list_user_limits` lists it."""

    user: UserName
    limits: Limits


class VhostLimitsRow(Row):
    """What one vhost may have at most, as `list_vhost_limits` lists it."""

    vhost: Annotated[str, Meta(description="the vhost's name")]
    limits: Limits


class MemberState(msgspec.Struct, kw_only=True):
    """What one queue has on one node after its member there was to change.

    Attributes:
        changed: Whether anything was; else it was so already.
        votes: Whether there is a voting member.
        later: Whether it votes only once it has caught up.
    """

    changed: bool
    votes: bool
    later: bool = False


class ProcessState(msgspec.Struct, kw_only=True):
    """What a node's process says of itself.

    Attributes:
        version: Of Warren.
        process: Its id.
        listeners: host:port of each listener for clients.
        data_dir: Where it keeps everything.
        memory_bytes: What it has in memory.
    """

    version: str
    process: int
    uptime_seconds: int
    listeners: list[str]
    data_dir: str
    memory_bytes: int


class Status(msgspec.Struct, kw_only=True):
    """The cluster as one node sees it, and what that node is doing.

    Attributes:
        cluster: The cluster's id, in hex.
        cluster_version: What all its nodes may use, see `warren.versions`.
        node: The node that answers.
        leader: The node that leads the tables; empty if none is known that runs.
        problem: Why there is none; else empty.
        connections: Of clients, on this node.
        queues_count: Those that clients declared, of all nodes.
        alarms: What the node is short of, `memory` or `disk`.
        memory_limit_bytes: Above it publishers are blocked.
        disk_free_limit_bytes: Below it publishers are blocked.
        disk_free_bytes: -1 if that cannot be told.
    """

    cluster: str
    cluster_version: int
    node: str
    leader: str
    problem: str
    nodes: list[NodeRow]
    connections: int
    queues_count: int
    alarms: list[str]
    memory_limit_bytes: int
    disk_free_limit_bytes: int
    version: str
    process: int
    uptime_seconds: int
    listeners: list[str]
    data_dir: str
    memory_bytes: int
    disk_free_bytes: int
