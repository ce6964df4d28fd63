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

    durable: Annotated[bool, Meta(description="whether it survives a restart")] = True
    auto_delete: Annotated[bool, Meta(description="whether it goes with its last consumer")] = False
    exclusive: Annotated[bool, Meta(description="whether it is for one connection")] = False
    arguments: Annotated[dict[str, Any], Meta(description="as it was declared with")] = {}
    effective_policy_definition: Annotated[
        dict[str, Any], Meta(description="what its policies say together")
    ] = {}
    state: Annotated[
        str, Meta(description="running, minority (no leader that is heard), or down")
    ] = "running"
    message_bytes: Annotated[
        int | None, Meta(description="what its messages take, counted on this node")
    ] = None
    message_bytes_ready: Annotated[
        int | None, Meta(description="what those take that wait for a consumer")
    ] = None

    messages_persistent: Annotated[
        int | None,
        Meta(description="how many survive a restart; null where that would take long to find out"),
    ] = None
    message_bytes_persistent: Annotated[int | None, Meta(description="what those take")] = None
    messages_ram: Annotated[
        int | None, Meta(description="how many the queue has in memory itself; not the log's cache")
    ] = None
    message_bytes_ram: Annotated[int | None, Meta(description="what those take")] = None

    @property
    def messages(self) -> int | None:
        """All messages: ready, and held by consumers."""
        if self.messages_ready is None or self.messages_unacknowledged is None:
            return None
        return self.messages_ready + self.messages_unacknowledged


class ExchangeRow(Row):
    """One exchange, as `list_exchanges` lists it."""

    vhost: Vhost
    name: Annotated[str, Meta(description="the exchange's name; empty for the default one")]
    type: Annotated[str, Meta(description="the exchange's type")]
    durable: Annotated[bool, Meta(description="whether it survives a restart")]
    auto_delete: Annotated[bool, Meta(description="whether it goes with its last binding")]
    internal: Annotated[bool, Meta(description="whether clients may not publish to it")]
    arguments: Annotated[dict[str, Any], Meta(description="as it was declared with")]
    policy: Annotated[str, Meta(description="the policy in force for it; empty for none")]


class BindingRow(Row):
    """One binding, as `list_bindings` lists it."""

    vhost: Vhost
    source_name: Annotated[str, Meta(description="the exchange that it leads from")]
    source_kind: Annotated[str, Meta(description="`exchange`")]
    destination_name: Annotated[str, Meta(description="the queue or exchange that it leads to")]
    destination_kind: Annotated[str, Meta(description="`queue` or `exchange`")]
    routing_key: Annotated[str, Meta(description="the binding's key")]
    arguments: Annotated[dict[str, Any], Meta(description="as it was bound with")]


Pid = Annotated[str, Meta(description="what names it in the cluster while it is there")]
NodeName = Annotated[str, Meta(description="the node that it is on")]
ConnectionUser = Annotated[str, Meta(description="who logged in; empty before")]
ConnectionVhost = Annotated[str, Meta(description="the vhost that it was opened for")]


class ConnectionRow(Row):
    """One connection of a client, as `list_connections` lists it."""

    pid: Pid
    name: Annotated[str, Meta(description="both ends: `host:port -> host:port`")]
    node: NodeName
    user: ConnectionUser
    vhost: ConnectionVhost
    host: Annotated[str, Meta(description="where the client reached the node")]
    port: Annotated[int, Meta(description="the same")]
    peer_host: Annotated[str, Meta(description="where the client is")]
    peer_port: Annotated[int, Meta(description="the same")]
    ssl: Annotated[bool, Meta(description="whether it speaks TLS")]
    protocol: Annotated[str, Meta(description="the protocol, and its version")]
    auth_mechanism: Annotated[str, Meta(description="how the client logged in")]
    state: Annotated[str, Meta(description="running, blocked, flow, closing, or before that")]
    channels: Annotated[int, Meta(description="how many it has")]
    timeout: Annotated[int, Meta(description="its heartbeat time-out, in seconds")]
    frame_max: Annotated[int, Meta(description="the largest frame, in bytes")]
    channel_max: Annotated[int, Meta(description="most channels that it may have")]
    client_properties: Annotated[dict[str, Any], Meta(description="what the client says of itself")]
    recv_oct: Annotated[int, Meta(description="bytes that came")]
    recv_cnt: Annotated[int, Meta(description="reads that they came in")]
    send_oct: Annotated[int, Meta(description="bytes that were sent")]
    send_cnt: Annotated[int, Meta(description="writes that they went out in")]
    send_pend: Annotated[int, Meta(description="bytes that are to be sent")]
    connected_at: Annotated[int, Meta(description="milliseconds since the epoch")]


class ChannelRow(Row):
    """One channel, as `list_channels` lists it."""

    pid: Pid
    connection: Annotated[str, Meta(description="its connection's pid")]
    name: Annotated[str, Meta(description="its connection's name, and its number")]
    node: NodeName
    number: Annotated[int, Meta(description="its number on the connection")]
    user: ConnectionUser
    vhost: ConnectionVhost
    transactional: Annotated[bool, Meta(description="whether publishes wait for a commit")]
    confirm: Annotated[bool, Meta(description="whether publishes are confirmed")]
    consumer_count: Annotated[int, Meta(description="consumers that it has")]
    messages_unacknowledged: Annotated[int, Meta(description="messages that it holds")]
    messages_uncommitted: Annotated[int, Meta(description="publishes that wait for a commit")]
    acks_uncommitted: Annotated[int, Meta(description="settles that wait for a commit")]
    messages_unconfirmed: Annotated[int, Meta(description="publishes that wait for a confirm")]
    prefetch_count: Annotated[int, Meta(description="what new consumers may hold; 0 for any")]
    global_prefetch_count: Annotated[int, Meta(description="the same of all its consumers")]


class ConsumerRow(Row):
    """One consumer, as `list_consumers` lists it."""

    vhost: Vhost
    queue_name: QueueName
    channel_pid: Annotated[str, Meta(description="its channel's pid")]
    channel_name: Annotated[str, Meta(description="its channel's name")]
    node: NodeName
    consumer_tag: Annotated[str, Meta(description="its tag")]
    ack_required: Annotated[bool, Meta(description="whether its messages have to be settled")]
    exclusive: Annotated[bool, Meta(description="whether it is the only one of its queue")]
    prefetch_count: Annotated[int, Meta(description="what it may hold; 0 for any number")]
    active: Annotated[bool, Meta(description="whether it is served")]
    activity_status: Annotated[
        str, Meta(description="up, single_active, waiting, suspected_down or timeout")
    ]
    arguments: Annotated[dict[str, Any], Meta(description="as it was begun with")]
    user: Annotated[str, Meta(description="whose connection it is on")] = ""


class PolicyRow(Row, rename={"apply_to": "apply-to"}):
    """One policy, of users or of operators, as `list_policies` lists it."""

    vhost: Vhost
    name: Annotated[str, Meta(description="the policy's name")]
    pattern: Annotated[str, Meta(description="a regular expression that names match anywhere")]
    apply_to: Annotated[str, Meta(description="what it is for, such as `quorum_queues`")]
    definition: Annotated[dict[str, Any], Meta(description="settings by key")]
    priority: Annotated[int, Meta(description="the highest one that matches counts")]


class FeedRow(Row):
    """The events feed of a vhost."""

    vhost: Vhost
    queue: Annotated[str, Meta(description="the queue that has what is told")]
    pattern: Annotated[
        str, Meta(description="of the names of queues that are told of; empty for all")
    ]


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


class Listener(msgspec.Struct, kw_only=True):
    """An address that a node listens on.

    Attributes:
        protocol: As RabbitMQ names it, such as `amqp`, `amqp/ssl` or `clustering`.
        interface: The address; `[::]` for every one.
        port: The port.
        purpose: What it is for, in words.
    """

    protocol: str
    interface: str
    port: int
    purpose: str

    @property
    def tls(self) -> bool:
        """Whether it speaks TLS."""
        return self.protocol.endswith("ssl") or self.protocol.startswith("https")


EXPIRY_UNITS = ("days", "weeks", "months", "years")
"""In which it is said how soon a certificate may expire."""


class TlsSupport(msgspec.Struct, kw_only=True):
    """What the TLS of a node can do.

    Attributes:
        versions: Those that may be spoken, the newest first.
        cipher_suites: Those that are used unless something else is said, by OpenSSL's names.
        all_cipher_suites: Those that the library has.
    """

    versions: list[str]
    cipher_suites: list[str]
    all_cipher_suites: list[str]


class Peeked(msgspec.Struct, kw_only=True):
    """A message that was looked at.

    Attributes:
        exchange, routing_key: As it was published.
        properties: Those that it has, by name.
        body: The first bytes of its body.
        delivery_count: How often deliveries of it failed.
    """

    exchange: str
    routing_key: str
    properties: dict[str, Any]
    body: bytes
    delivery_count: int


class CertificateFiles(msgspec.Struct, kw_only=True):
    """Where the certificates of a listener lie.

    Attributes:
        listener: It.
        cert_file: Its own one.
        ca_file: Authorities of clients' certificates; empty where there are none.
    """

    listener: Listener
    cert_file: str
    ca_file: str


class NodeRow(Row):
    """One node of the cluster."""

    name: Annotated[str, Meta(description="the node's name, by the metadata")]
    address: Annotated[str, Meta(description="host:port of its cluster listener, by the metadata")]
    running: Annotated[bool, Meta(description="whether it is up, as far as this node knows")]
    cluster_version: Annotated[int, Meta(description="the newest that it knew at its last start")]
    host: Annotated[str, Meta(description="its label `host`, by the metadata; empty for none")]
    zone: Annotated[str, Meta(description="its label `zone`, by the metadata; empty for none")]


class ExchangeTypeRow(Row):
    """One type that exchanges can be declared with."""

    name: Annotated[str, Meta(description="the type's name")]
    description: Annotated[str, Meta(description="what it is")]
    enabled: Annotated[bool, Meta(description="whether exchanges can be declared with it")]


class NodeStatusRow(Row):
    """What one node of the cluster is doing, as `list_nodes` lists it; None where it is silent."""

    name: Annotated[str, Meta(description="the node's name, by the metadata")]
    running: Annotated[bool, Meta(description="whether it is up, and answers")]
    being_drained: Annotated[bool, Meta(description="whether it is in maintenance")]
    version: Annotated[str | None, Meta(description="of Warren")]
    os_pid: Annotated[int | None, Meta(description="its process")]
    uptime: Annotated[int | None, Meta(description="seconds")]
    mem_used: Annotated[int | None, Meta(description="bytes")]
    mem_limit: Annotated[int | None, Meta(description="bytes above which publishers wait")]
    mem_total: Annotated[int | None, Meta(description="bytes that the machine has")]
    disk_free: Annotated[int | None, Meta(description="bytes")]
    disk_free_limit: Annotated[int | None, Meta(description="bytes below which publishers wait")]
    fd_used: Annotated[int | None, Meta(description="descriptors that are open")]
    fd_total: Annotated[int | None, Meta(description="descriptors that there may be")]
    connections: Annotated[int | None, Meta(description="of clients")]
    alarms: Annotated[list[str], Meta(description="what it is short of, `memory` or `disk`")]
    listeners: Annotated[list[Listener], Meta(description="where it listens")]
    data_dir: Annotated[str | None, Meta(description="where it keeps everything")]


class FeatureRow(Row):
    """Something that not every release knows, as `list_feature_flags` lists it."""

    name: Annotated[str, Meta(description="the name")]
    state: Annotated[str, Meta(description="enabled or disabled, for the whole cluster")]
    stability: Annotated[str, Meta(description="`stable`; `required` of RabbitMQ's flags")]
    provided_by: Annotated[str, Meta(description="`warren`")]
    desc: Annotated[str, Meta(description="from which cluster version on")]
    doc_url: Annotated[str, Meta(description="empty")]


class ParameterRow(Row):
    """A runtime parameter of a vhost, as `list_parameters` lists it."""

    vhost: Vhost
    component: Annotated[str, Meta(description="what it is of")]
    name: Annotated[str, Meta(description="its name")]
    value: Annotated[Any, Meta(description="as in JSON")]


class GlobalParameterRow(Row):
    """A runtime parameter of the whole cluster, as `list_global_parameters` lists it."""

    name: Annotated[str, Meta(description="its name")]
    value: Annotated[Any, Meta(description="as in JSON")]


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
    default_queue_type: Annotated[str, Meta(description="the type of queues declared without one")]
    protected_from_deletion: Annotated[bool, Meta(description="whether it cannot be deleted")]
    tracing: Annotated[
        bool, Meta(description="whether messages are traced on the node that is asked")
    ] = False


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


class Health(msgspec.Struct, kw_only=True):
    """What a check found.

    Attributes:
        ok: Whether all is well.
        reason: Why not, in a sentence; empty if it is.
        details: Rows that say more, by column.
    """

    ok: bool
    reason: str = ""
    details: list[dict[str, Any]] = []


class Imported(msgspec.Struct, kw_only=True):
    """How much definitions had.

    Attributes:
        counts: By their kinds, such as `queues`.
        skipped: What was left out, and why, in sentences.
    """

    counts: dict[str, int]
    skipped: list[str]


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
        memory_total_bytes: What the machine has.
        descriptors, descriptors_max: Those that are open, and that there may be.
        addresses: All that it listens on, other nodes included.
        drained: Whether it is in maintenance, and takes no clients.
    """

    version: str
    process: int
    uptime_seconds: int
    listeners: list[str]
    data_dir: str
    memory_bytes: int
    memory_total_bytes: int = 0
    descriptors: int = 0
    descriptors_max: int = 0
    addresses: list[Listener] = []
    drained: bool = False


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
        cluster_name: What operators call the cluster.
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
    memory_total_bytes: int = 0
    descriptors: int = 0
    descriptors_max: int = 0
    addresses: list[Listener] = []
    drained: bool = False
    cluster_name: str = ""


class DeprecatedRow(Row, kw_only=True):
    """A feature that RabbitMQ deprecates, as `list_deprecated_features` lists it."""

    name: Annotated[str, Meta(description="RabbitMQ's")]
    deprecation_phase: Annotated[str, Meta(description="how far it is on its way out of RabbitMQ")]
    state: Annotated[str, Meta(description="denied: Warren refuses it")]
    provided_by: Annotated[str, Meta(description="warren")] = "warren"
    desc: Annotated[str, Meta(description="empty")] = ""
    doc_url: Annotated[str, Meta(description="empty")] = ""


DEPRECATED_FEATURES = (
    DeprecatedRow(name="classic_queue_mirroring", deprecation_phase="removed", state="denied"),
    DeprecatedRow(
        name="queue_master_locator", deprecation_phase="denied_by_default", state="denied"
    ),
    DeprecatedRow(name="ram_node_type", deprecation_phase="removed", state="denied"),
)
"""Those that Warren refuses, so that none is in use. What else RabbitMQ deprecates is here to stay:
it is in none."""
