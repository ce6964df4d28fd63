"""The broker's settings: every key of the configuration file, its type, bounds and default.

The keys are RabbitMQ's, and of a key given twice the last one stands. A key that is not in
`SETTINGS` is an error, because a setting ignored silently is one that its owner relies on in vain.

Source: RabbitMQ 4.3, configuration guide and `rabbit.schema`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from warren.config.values import (
    BACKLOG_MAX,
    BUFFER_BYTES_MAX,
    BYTES_MAX,
    at_least,
    one_of,
    parse_count,
    parse_duration,
    parse_frame_max,
    parse_header,
    parse_label,
    parse_level,
    parse_limit,
    parse_locator,
    parse_metrics_path,
    parse_multiple,
    parse_queue_type,
    parse_secret,
    parse_share,
    parse_truth,
    parse_watermark,
    parse_word,
    size,
    whole,
)
from warren.config.values import (
    CLUSTER_PORT_DEFAULT as CLUSTER_PORT_DEFAULT,
)
from warren.config.values import (
    LOG_LEVELS as LOG_LEVELS,
)
from warren.config.values import (
    parse_contact as parse_contact,
)
from warren.config.values import (
    parse_host as parse_host,
)
from warren.config.values import (
    parse_management_port as parse_management_port,
)
from warren.config.values import (
    parse_node_name as parse_node_name,
)
from warren.config.values import (
    parse_port as parse_port,
)
from warren.config.values import (
    parse_size as parse_size,
)
from warren.limits import (
    CHANNELS_MAX,
    CONTENT_BYTES_MAX,
    FRAME_BYTES_MAX,
    MESSAGE_BYTES_MAX,
)
from warren.queue_types import DEFAULT
from warren.versions import NEWEST, OLDEST

Value = int | float | str | bool

INTERNAL: Final = "internal"
OAUTH2: Final = "oauth2"
BACKENDS: Final = {
    INTERNAL: INTERNAL,
    "rabbit_auth_backend_internal": INTERNAL,
    OAUTH2: OAUTH2,
    "rabbit_auth_backend_oauth2": OAUTH2,
}
MECHANISMS: Final = ("PLAIN", "AMQPLAIN", "EXTERNAL")
ANONYMOUS: Final = "ANONYMOUS"
PORT_DEFAULT: Final = 5672
MANAGEMENT_PORT_DEFAULT: Final = 15_672
PROMETHEUS_PORT_DEFAULT: Final = 15_692
SECRET_VARIABLE: Final = "WARREN_CLUSTER_SECRET"
"""Names the environment's variable that holds the cluster's secret."""
DISK_FREE_LIMIT_BYTES: Final = 50_000_000
ALL_INTERFACES: Final = ""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker is started with. Sizes are in bytes unless a comment says otherwise.

    Attributes:
        node_name: `name@host`, the node's identity in its cluster.
        data_dir: Absolute path of the directory that holds everything the node keeps.
        listeners: Pairs of address and port for AMQP 0-9-1; address "" is every interface.
        heartbeat: Seconds, proposed to clients; 0 proposes none.
        frame_max: Whole frame, proposed to clients.
        channel_max: Most channels of a connection, proposed to clients; 0 for no limit.
        metadata_max_bytes: What all definitions may take in memory; 0 for half of the memory limit.
        consumer_max_per_channel: Consumers of one channel; -1 for any number.
        channel_tx_message_max: Messages that may wait for a commit; -1 for any number.
        connection_max: Connections of clients at a time; -1 for any number.
        handshake_timeout: Milliseconds from the connect to `connection.open`.
        max_message_size: Body of one message.
        vm_memory_high_watermark_relative: Share of the machine's memory; used where no absolute
            limit is set.
        vm_memory_high_watermark_absolute: -1 where none is set.
        vm_memory_high_watermark_paging_ratio: Share of that limit above which bodies of queues in
            memory go to disk.
        disk_free_limit_absolute: Free space under which publishers are blocked; -1 where none is
            set.
        disk_free_limit_relative: The same as a share of the machine's memory; 0 where none is set.
        raft_wal_max_size_bytes: Bytes the log may grow by before old ones go, in eight files.
        raft_segment_max_entries: Taken because RabbitMQ has it; there are no segments.
        default_user, default_pass, default_vhost: Made in an empty data directory.
        loopback_users: Users that may connect from this machine only.
        busy_wait: Whether the node may look for events for a moment before it sleeps.
        log_level: The least important level that is logged.
        cluster_host: Where other nodes reach this one; empty for the address it listens on, or the
            host in its name.
        cluster_port: Its cluster listener's port; 0 if none was given.
        join: Addresses of nodes whose cluster an empty data directory joins.
        cluster_nodes: Name, host and port of the nodes that form a cluster of themselves.
        target_size: How many nodes there are to be before definitions are loaded; 0 for any number.
        cluster_secret: The same on all nodes of a cluster.
        cluster_begin: Whether the first node of a list begins a cluster without the others' word.
        secret_file: A file that holds it.
        salvage: Whether a start goes on with what is whole of a damaged log, where no other node
            has more.
        cluster_ssl_cacertfile, cluster_ssl_certfile, cluster_ssl_keyfile: In PEM format, for links
            between nodes; all three or none.
        cluster_ssl_verify_names: Whether a node's certificate has to hold its name.
        tls_listeners: Pairs of address and port for AMQP 0-9-1 over TLS.
        tcp_backlog, tcp_nodelay, tcp_keepalive, tcp_recbuf, tcp_sndbuf, tcp_send_timeout: Of all
            sockets of clients; see `server.socket_options`.
        ssl_cacertfile, ssl_certfile, ssl_keyfile, ssl_password: For those, in PEM format.
        ssl_verify: `verify_peer` where clients are asked for a certificate, else `verify_none`.
        ssl_fail_if_no_peer_cert: Whether clients without one are refused.
        ssl_versions: Versions of TLS that may be spoken.
        ssl_cert_login_from: Which part of a certificate is the name of a user.
        auth_mechanisms: How clients may log in.
        auth_backends: By what: `INTERNAL` for passwords, `OAUTH2` for tokens.
        oauth2_resource_server_id, oauth2_scope_prefix, oauth2_additional_scopes_key,
            oauth2_username_claims, oauth2_signing_keys, oauth2_default_key, oauth2_jwks_uri,
            oauth2_issuer, oauth2_verify_aud, oauth2_algorithms, oauth2_https_cacertfile: How tokens
            are looked at, see `server.tokens`.
        quorum_cluster_size: How many members of a new quorum queue vote.
        default_queue_type: The type of queues that are declared without one, if their vhost says
            nothing.
        quorum_relaxed_checks: Whether a quorum queue may be declared again like a classic one.
        quorum_commands_soft_limit: Messages under way from this node to a quorum queue before its
            publishers wait; 0 for no such limit.
        consumer_timeout: Milliseconds that consumers of quorum queues may hold a message.
        consumer_disconnected_timeout: Milliseconds that they keep what they hold when their node is
            not heard.
        dead_letter_prefetch: Dead letters of a quorum queue that are on their way at a time.
        queue_leader_locator: Where the leader of a new quorum queue begins.
        quorum_queue_compat: Like which RabbitMQ's new quorum queues treat priorities and returns.
        label_host, label_zone: Where this node is: a machine that it shares with nodes of the same
            label, and an availability zone; empty for nothing known.
        cluster_version_max: The newest cluster version to use, see `warren.versions`.
        metadata_store_default_timeout: Milliseconds that a client's method waits for a majority.
        reconciliation_enabled: Whether quorum queues with too few members get more by themselves.
        reconciliation_target_group_size: How many they are to have; 0 for what their arguments say.
        reconciliation_auto_remove: Whether members on nodes that left the cluster are removed. They
            are in any case, with the node.
        reconciliation_interval, reconciliation_trigger_interval: Milliseconds, from one look to the
            next and from a change of the cluster.
        management_port: The HTTP API's; 0 for none, -1 for the usual one if it is free.
        management_host: The address that it listens on; None for that of the other listeners.
        management_csp_policy, management_hsts_policy: Headers of its answers; empty for the usual
            ones.
        management_ssl_port: The same over TLS; 0 for none. With it alone, the other is not there.
        management_ssl_host: As `management_host`.
        management_ssl_backlog: Connections there that the kernel keeps until they are accepted.
        management_ssl_cacertfile, management_ssl_certfile, management_ssl_keyfile,
            management_ssl_password, management_ssl_verify, management_ssl_fail_if_no_peer_cert,
            management_ssl_versions: For that, as the same of listeners for clients.
        prometheus_port, prometheus_host: The same of scrapes of metrics.
        prometheus_ssl_port, prometheus_ssl_host, prometheus_ssl_backlog,
            prometheus_ssl_cacertfile, prometheus_ssl_certfile, prometheus_ssl_keyfile,
            prometheus_ssl_password, prometheus_ssl_verify, prometheus_ssl_fail_if_no_peer_cert,
            prometheus_ssl_versions: The same of these over TLS.
        prometheus_path: Under which metrics are.
        prometheus_per_object: Whether this path itself answers with each thing by itself.
        prometheus_authentication: Whether those who scrape have to say who they are.
        load_definitions: A file with definitions, or a folder; empty for none.
        definitions_skip: Whether they are left alone where they are those of the last start.
        warnings: What is to be said of keys that set nothing.
        ignored: These keys.
    """

    node_name: str
    data_dir: str
    listeners: tuple[tuple[str, int], ...]
    heartbeat: int = 60
    frame_max: int = FRAME_BYTES_MAX
    channel_max: int = CHANNELS_MAX
    consumer_max_per_channel: int = -1
    channel_tx_message_max: int = 10_000
    metadata_max_bytes: int = 0
    connection_max: int = -1
    handshake_timeout: int = 10_000
    max_message_size: int = MESSAGE_BYTES_MAX
    vm_memory_high_watermark_relative: float = 0.6
    vm_memory_high_watermark_absolute: int = -1
    vm_memory_high_watermark_paging_ratio: float = 0.5
    disk_free_limit_absolute: int = -1
    disk_free_limit_relative: float = 0.0
    raft_wal_max_size_bytes: int = 536_870_912
    raft_segment_max_entries: int = 4_096
    default_user: str = "guest"
    default_pass: str = "guest"
    default_vhost: str = "/"
    loopback_users: tuple[str, ...] = ("guest",)
    busy_wait: bool = True
    log_level: str = "info"
    cluster_host: str = ""
    cluster_port: int = 0
    join: tuple[tuple[str, int], ...] = ()
    cluster_nodes: tuple[tuple[str, str, int], ...] = ()
    target_size: int = 0
    cluster_secret: str = ""
    cluster_begin: bool = False
    secret_file: str = ""
    salvage: bool = False
    cluster_ssl_cacertfile: str = ""
    cluster_ssl_certfile: str = ""
    cluster_ssl_keyfile: str = ""
    cluster_ssl_verify_names: bool = False
    tls_listeners: tuple[tuple[str, int], ...] = ()
    tcp_backlog: int = 4_096
    tcp_nodelay: bool = True
    tcp_keepalive: bool = True
    tcp_recbuf: int = 0
    tcp_sndbuf: int = 0
    tcp_send_timeout: int = 0
    ssl_cacertfile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    ssl_password: str = ""
    ssl_verify: str = "verify_none"
    ssl_fail_if_no_peer_cert: bool = False
    ssl_versions: tuple[str, ...] = ("tlsv1.3", "tlsv1.2")
    ssl_cert_login_from: str = "distinguished_name"
    auth_mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN")
    auth_backends: tuple[str, ...] = (INTERNAL,)
    oauth2_resource_server_id: str = ""
    oauth2_scope_prefix: str | None = None
    oauth2_additional_scopes_key: str = ""
    oauth2_username_claims: tuple[str, ...] = ("sub", "client_id")
    oauth2_signing_keys: tuple[tuple[str, str], ...] = ()
    oauth2_default_key: str = ""
    oauth2_jwks_uri: str = ""
    oauth2_issuer: str = ""
    oauth2_verify_aud: bool = True
    oauth2_algorithms: tuple[str, ...] = ()
    oauth2_https_cacertfile: str = ""
    quorum_cluster_size: int = 3
    default_queue_type: str = DEFAULT.name
    quorum_relaxed_checks: bool = False
    quorum_commands_soft_limit: int = 0
    consumer_timeout: int = 1_800_000
    consumer_disconnected_timeout: int = 60_000
    dead_letter_prefetch: int = 32
    queue_leader_locator: str = "client-local"
    quorum_queue_compat: str = "4.0"
    label_host: str = ""
    label_zone: str = ""
    cluster_version_max: int = NEWEST
    metadata_store_default_timeout: int = 30_000
    reconciliation_enabled: bool = False
    reconciliation_target_group_size: int = 0
    reconciliation_auto_remove: bool = False
    reconciliation_interval: int = 3_600_000
    reconciliation_trigger_interval: int = 10_000
    management_port: int = -1
    management_host: str | None = None
    management_csp_policy: str = ""
    management_hsts_policy: str = ""
    management_ssl_port: int = 0
    management_ssl_host: str | None = None
    management_ssl_backlog: int = 256
    management_ssl_cacertfile: str = ""
    management_ssl_certfile: str = ""
    management_ssl_keyfile: str = ""
    management_ssl_password: str = ""
    management_ssl_verify: str = "verify_none"
    management_ssl_fail_if_no_peer_cert: bool = False
    management_ssl_versions: tuple[str, ...] = ("tlsv1.3", "tlsv1.2")
    prometheus_port: int = -1
    prometheus_host: str | None = None
    prometheus_ssl_port: int = 0
    prometheus_ssl_host: str | None = None
    prometheus_ssl_backlog: int = 256
    prometheus_ssl_cacertfile: str = ""
    prometheus_ssl_certfile: str = ""
    prometheus_ssl_keyfile: str = ""
    prometheus_ssl_password: str = ""
    prometheus_ssl_verify: str = "verify_none"
    prometheus_ssl_fail_if_no_peer_cert: bool = False
    prometheus_ssl_versions: tuple[str, ...] = ("tlsv1.3", "tlsv1.2")
    prometheus_path: str = "/metrics"
    prometheus_per_object: bool = False
    prometheus_authentication: bool = False
    load_definitions: str = ""
    definitions_skip: bool = False
    warnings: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def memory_limit_bytes(self, total_bytes: int) -> int:
        """Memory in use above which publishers are blocked, on a machine that has so much."""
        absolute = self.vm_memory_high_watermark_absolute
        if absolute < 0:
            absolute = int(total_bytes * self.vm_memory_high_watermark_relative)
        # A limit of 0 would be none: publishers are to wait then.
        return max(absolute, 1)

    def ignored_text(self) -> str:
        """What is said of all keys that set nothing, in one line; empty if there are none."""
        if len(self.warnings) < 2:
            return "".join(self.warnings)
        return (
            f"{len(self.warnings)} keys of the configuration set nothing: "
            f"{', '.join(dict.fromkeys(self.ignored))}; `warren server --check` with the same "
            "options says why"
        )

    def disk_limit_bytes(self, total_bytes: int) -> int:
        """Free space below which publishers are blocked, on a machine with so much memory."""
        if self.disk_free_limit_absolute >= 0:
            return self.disk_free_limit_absolute
        return int(total_bytes * self.disk_free_limit_relative) or DISK_FREE_LIMIT_BYTES


# --- keys ---------------------------------------------------------------------------------------


class Setting(NamedTuple):
    """One key of the configuration file that sets one field of `ServerConfig`."""

    key: str
    field: str
    parse: Callable[[str], Value]
    help: str


def _web_tls(prefix: str, what: str) -> tuple[Setting, ...]:
    """The keys of a listener for HTTP over TLS."""
    return (
        Setting(f"{prefix}.ssl.port", f"{prefix}_ssl_port", parse_port,
                f"port of {what} over TLS; with no {prefix}.tcp.port, only over TLS"),
        Setting(f"{prefix}.ssl.ip", f"{prefix}_ssl_host", parse_host, "its address"),
        Setting(f"{prefix}.ssl.backlog", f"{prefix}_ssl_backlog",
                at_least(1, BACKLOG_MAX, "connections"),
                "connections there that the system keeps until they are accepted"),
        Setting(f"{prefix}.ssl.cacertfile", f"{prefix}_ssl_cacertfile", parse_word,
                "authorities of clients' certificates there, PEM"),
        Setting(f"{prefix}.ssl.certfile", f"{prefix}_ssl_certfile", parse_word,
                "the certificate that clients see there, PEM"),
        Setting(f"{prefix}.ssl.keyfile", f"{prefix}_ssl_keyfile", parse_word, "its key, PEM"),
        Setting(f"{prefix}.ssl.password", f"{prefix}_ssl_password", parse_word,
                "the password of that file"),
        Setting(f"{prefix}.ssl.verify", f"{prefix}_ssl_verify",
                one_of("verify_peer", "verify_none"),
                "verify_peer: clients there are asked for a certificate"),
        Setting(f"{prefix}.ssl.fail_if_no_peer_cert", f"{prefix}_ssl_fail_if_no_peer_cert",
                parse_truth, "true: clients without one are refused there"),
    )  # fmt: skip


_RECONCILIATION: Final = "quorum_queue.continuous_membership_reconciliation"

SETTINGS: Final = (
    Setting("heartbeat", "heartbeat", whole(0, 65_535, "seconds"),
            "heartbeat proposed to clients, seconds; 0 proposes none"),
    Setting("frame_max", "frame_max", parse_frame_max, "largest frame proposed to clients, bytes"),
    Setting("channel_max", "channel_max", whole(0, 65_535, "channels"),
            "most channels of a connection; 0 for no limit"),
    Setting("max_channels_per_connection", "channel_max", whole(0, 65_535, "channels"), "the same"),
    Setting("consumer_max_per_channel", "consumer_max_per_channel", parse_count,
            "consumers of one channel, or infinity; one more closes the connection with 530"),
    Setting("channel_tx_message_max", "channel_tx_message_max", parse_count,
            "publishes of one channel that may wait for tx.commit, or infinity; more are refused"),
    Setting("connection_max", "connection_max", parse_limit,
            "connections of clients at a time, or infinity"),
    Setting("max_connections", "connection_max", parse_limit, "the same"),
    Setting("tcp_listen_options.backlog", "tcp_backlog", at_least(1, BACKLOG_MAX, "connections"),
            "connections of clients that the system keeps until they are accepted"),
    Setting("tcp_listen_options.nodelay", "tcp_nodelay", parse_truth,
            "false: what clients are sent may wait to be more (Nagle)"),
    Setting("tcp_listen_options.keepalive", "tcp_keepalive", parse_truth,
            "false: a client's machine that is gone is missed by heartbeats only"),
    Setting("tcp_listen_options.recbuf", "tcp_recbuf", whole(0, BUFFER_BYTES_MAX, "bytes"),
            "the system's buffer for what a client sends; 0: the size is found by itself"),
    Setting("tcp_listen_options.sndbuf", "tcp_sndbuf", whole(0, BUFFER_BYTES_MAX, "bytes"),
            "the same for what a client is sent"),
    Setting("tcp_listen_options.send_timeout", "tcp_send_timeout",
            whole(0, BUFFER_BYTES_MAX, "milliseconds"),
            "a client that takes nothing for so many milliseconds is cut off; 0: it never is"),
    Setting("handshake_timeout", "handshake_timeout", parse_duration,
            "milliseconds a client has to open its connection"),
    Setting("max_message_size", "max_message_size", size(0, CONTENT_BYTES_MAX),
            "largest body of a message"),
    Setting("vm_memory_high_watermark.relative", "vm_memory_high_watermark_relative",
            parse_watermark,
            "share of the machine's memory above which publishers are blocked; 0.0: always"),
    Setting("vm_memory_high_watermark.absolute", "vm_memory_high_watermark_absolute",
            size(0, BYTES_MAX), "memory above which publishers are blocked"),
    Setting("vm_memory_high_watermark_paging_ratio", "vm_memory_high_watermark_paging_ratio",
            parse_share, "share of that limit above which bodies of transient queues go to disk"),
    Setting("disk_free_limit.absolute", "disk_free_limit_absolute", size(0, BYTES_MAX),
            "free disk space below which publishers are blocked (default: 50MB)"),
    Setting("disk_free_limit.relative", "disk_free_limit_relative", parse_multiple,
            "the same, so many times the machine's memory"),
    Setting("raft.wal_max_size_bytes", "raft_wal_max_size_bytes", size(1_048_576, 2**40),
            "bytes written until the log's oldest are reclaimed; an eighth is one file"),
    Setting("raft.segment_max_entries", "raft_segment_max_entries", whole(1, 65_535, "entries"),
            "nothing: taken because RabbitMQ takes it, the log has no segments"),
    Setting("default_user", "default_user", parse_word, "user made in an empty data directory"),
    Setting("default_pass", "default_pass", parse_word, "that user's password"),
    Setting("default_vhost", "default_vhost", parse_word, "vhost made in an empty data directory"),
    Setting("management.tcp.port", "management_port", parse_management_port,
            "port of the HTTP API, instead of 15672; none: no HTTP API"),
    Setting("management.listener.port", "management_port", parse_management_port, "the same"),
    Setting("management.tcp.ip", "management_host", parse_host,
            "address of the HTTP API (default: that of the listeners for clients)"),
    Setting("management.listener.ip", "management_host", parse_host, "the same"),
    Setting("management.csp.policy", "management_csp_policy", parse_header,
            "content security policy of all answers of the HTTP API, in the place of its own"),
    Setting("management.hsts.policy", "management_hsts_policy", parse_header,
            "strict transport security of its answers over TLS (default: max-age=31536000 where it "
            "is over TLS only; max-age=0 ends that in browsers)"),
    Setting("prometheus.tcp.port", "prometheus_port", parse_management_port,
            "port of metrics for Prometheus, instead of 15692; none: no metrics"),
    Setting("prometheus.tcp.ip", "prometheus_host", parse_host,
            "address of metrics (default: that of the listeners for clients)"),
    Setting("prometheus.path", "prometheus_path", parse_metrics_path,
            "path of metrics, instead of /metrics"),
    Setting("prometheus.return_per_object_metrics", "prometheus_per_object", parse_truth,
            "true: that path answers with each queue and client by itself, as per-object does"),
    Setting("prometheus.authentication.enabled", "prometheus_authentication", parse_truth,
            "true: scrapes need a user who may monitor"),
    *_web_tls("management", "the HTTP API"),
    *_web_tls("prometheus", "metrics"),
    Setting("log.level", "log_level", parse_level, "least important level that is logged"),
    Setting("log.console.level", "log_level", parse_level, "the same"),
    Setting("log.default.level", "log_level", parse_level, "the same"),
    Setting("busy_wait", "busy_wait", parse_truth,
            "false: the node sleeps at once when it has nothing to do, where processors are dear"),
    Setting("cluster.host", "cluster_host", parse_host, "where other nodes reach this one"),
    Setting("cluster.port", "cluster_port", parse_port, "port for other nodes, instead of 25672"),
    Setting("cluster_formation.begin", "cluster_begin", parse_truth,
            "true: the first node of a list begins a cluster and waits for no other"),
    Setting("cluster_formation.target_cluster_size_hint", "target_size",
            at_least(1, 255, "nodes"),
            "nodes that load_definitions waits for, so that quorum queues get members on them"),
    Setting("cluster.metadata_max_bytes", "metadata_max_bytes", size(0, BYTES_MAX),
            "memory that definitions of queues, bindings, policies and so on may take; more are "
            "refused; 0: half of the memory limit, at least 64MiB"),
    Setting("cluster.secret", "cluster_secret", parse_secret,
            "the same word on all nodes of a cluster"),
    Setting("cluster.ssl.cacertfile", "cluster_ssl_cacertfile", parse_word,
            "authorities for certificates of nodes, PEM"),
    Setting("cluster.ssl.certfile", "cluster_ssl_certfile", parse_word,
            "this node's certificate, PEM"),
    Setting("cluster.ssl.keyfile", "cluster_ssl_keyfile", parse_word, "this node's key, PEM"),
    Setting("cluster.ssl.verify_names", "cluster_ssl_verify_names", parse_truth,
            "true: a node's certificate has to hold its name"),
    Setting("ssl_options.cacertfile", "ssl_cacertfile", parse_word,
            "authorities of clients' certificates, PEM"),
    Setting("ssl_options.certfile", "ssl_certfile", parse_word, "the certificate clients see, PEM"),
    Setting("ssl_options.keyfile", "ssl_keyfile", parse_word, "its key, PEM"),
    Setting("ssl_options.password", "ssl_password", parse_word, "the password of that file"),
    Setting("ssl_options.verify", "ssl_verify", one_of("verify_peer", "verify_none"),
            "verify_peer: clients are asked for a certificate"),
    Setting("ssl_options.fail_if_no_peer_cert", "ssl_fail_if_no_peer_cert", parse_truth,
            "true: clients without one are refused"),
    Setting("ssl_cert_login_from", "ssl_cert_login_from",
            one_of("distinguished_name", "common_name"),
            "what of a certificate is the name of the user, for EXTERNAL"),
    Setting("auth_oauth2.resource_server_id", "oauth2_resource_server_id", parse_word,
            "the audience that tokens have to name, and what their scopes begin with"),
    Setting("auth_oauth2.scope_prefix", "oauth2_scope_prefix", str,
            "what scopes begin with, instead of the same with a dot"),
    Setting("auth_oauth2.additional_scopes_key", "oauth2_additional_scopes_key", parse_word,
            "a further claim of tokens that has scopes"),
    Setting("auth_oauth2.default_key", "oauth2_default_key", parse_word,
            "the id of the key of tokens that name none"),
    Setting("auth_oauth2.jwks_uri", "oauth2_jwks_uri", parse_word, "where the issuer's keys are"),
    Setting("auth_oauth2.jwks_url", "oauth2_jwks_uri", parse_word, "the same"),
    Setting("auth_oauth2.issuer", "oauth2_issuer", parse_word,
            "who issues tokens; where its keys are its discovery document says"),
    Setting("auth_oauth2.verify_aud", "oauth2_verify_aud", parse_truth,
            "false: tokens need not name the audience"),
    Setting("auth_oauth2.https.cacertfile", "oauth2_https_cacertfile", parse_word,
            "authorities of the issuer's certificate, PEM"),
    Setting("cluster.labels.host", "label_host", parse_label,
            "the machine this node is on, where several may share one"),
    Setting("cluster.labels.zone", "label_zone", parse_label,
            "the availability zone this node is in"),
    Setting("cluster.version_max", "cluster_version_max", whole(OLDEST, NEWEST, "as a version"),
            "newest cluster version to use: an older one keeps the way back to an older release"),
    Setting("quorum_queue.initial_cluster_size", "quorum_cluster_size", at_least(1, 255, "nodes"),
            "members of a new quorum queue that vote"),
    Setting("quorum_cluster_size", "quorum_cluster_size", at_least(1, 255, "nodes"), "the same"),
    Setting("default_queue_type", "default_queue_type", parse_queue_type,
            "type of queues declared without one, where their vhost says nothing"),
    Setting("quorum_queue.property_equivalence.relaxed_checks_on_redeclaration",
            "quorum_relaxed_checks", parse_truth,
            "true: a quorum queue may be declared again like a classic one"),
    Setting("quorum_queue.commands_soft_limit", "quorum_commands_soft_limit",
            at_least(1, 1_000_000, "messages"),
            "messages under way to a quorum queue before its publishers wait (default: no limit)"),
    Setting("quorum_commands_soft_limit", "quorum_commands_soft_limit",
            at_least(1, 1_000_000, "messages"), "the same"),
    Setting("consumer_timeout", "consumer_timeout", parse_duration,
            "milliseconds that a consumer of a quorum queue may hold a message unsettled"),
    Setting("consumer_disconnected_timeout", "consumer_disconnected_timeout",
            parse_duration,
            "milliseconds that it keeps what it holds while its node is not heard"),
    Setting("dead_letter_worker_consumer_prefetch", "dead_letter_prefetch",
            whole(1, 10_000, "messages"),
            "dead letters of a quorum queue on their way at a time, with at-least-once"),
    Setting("queue_leader_locator", "queue_leader_locator", parse_locator,
            "where the leader of a new quorum queue begins: client-local or balanced"),
    Setting("quorum_queue.compat", "quorum_queue_compat", one_of("4.0", "4.3"),
            "new quorum queues do as this RabbitMQ: 4.0, two priorities, 2:1; 4.3, 32 priorities"),
    Setting("queue_master_locator", "queue_leader_locator", parse_locator, "the same"),
    Setting("load_definitions", "load_definitions", parse_word,
            "a file with definitions, in JSON, or a folder of such: had be there at each start"),
    Setting("definitions.local.path", "load_definitions", parse_word, "the same"),
    Setting("management.load_definitions", "load_definitions", parse_word, "the same"),
    Setting("definitions.skip_if_unchanged", "definitions_skip", parse_truth,
            "true: not where they are the same as at the last start"),
    Setting("metadata_store.khepri.default_timeout", "metadata_store_default_timeout",
            parse_duration,
            "milliseconds that a client's method waits for a majority before it is refused"),
    Setting(f"{_RECONCILIATION}.enabled", "reconciliation_enabled", parse_truth,
            "true: quorum queues with too few members get more by themselves"),
    Setting(f"{_RECONCILIATION}.target_group_size", "reconciliation_target_group_size",
            at_least(0, 255, "members"), "how many members quorum queues are to have at least"),
    Setting(f"{_RECONCILIATION}.auto_remove", "reconciliation_auto_remove", parse_truth,
            "members on nodes that left the cluster are removed, whatever this says"),
    Setting(f"{_RECONCILIATION}.interval", "reconciliation_interval",
            parse_duration, "milliseconds from one look at them to the next"),
    Setting(f"{_RECONCILIATION}.trigger_interval", "reconciliation_trigger_interval",
            parse_duration,
            "milliseconds from a change of the cluster or its queues to a look at them"),
)  # fmt: skip

PATTERNS: Final = (
    ("listeners.tcp.default", "port for AMQP 0-9-1 on every interface"),
    ("listeners.tcp.NAME", "a port, address:port or [IPv6 address]:port; as many as you like"),
    ("listeners.tcp", "none: only those that speak TLS"),
    ("listeners.ssl.default", "port for AMQP 0-9-1 over TLS on every interface"),
    ("listeners.ssl.NAME", "a port, address:port or [IPv6 address]:port; as many as you like"),
    ("ssl_options.versions.N", "tlsv1.2 or tlsv1.3; all that may be spoken (default: both)"),
    ("management.ssl.versions.N", "the same of the HTTP API"),
    ("prometheus.ssl.versions.N", "the same of metrics"),
    ("auth_mechanisms.N", "PLAIN, AMQPLAIN or EXTERNAL; all there are (default: the first two)"),
    ("auth_backends.N", "internal (passwords) or oauth2 (tokens); all there are"),
    ("auth_oauth2.signing_keys.ID", "a file with the public key of that id, PEM"),
    ("auth_oauth2.algorithms.N", "how tokens may be signed, such as RS256 (default: with keys)"),
    ("auth_oauth2.preferred_username_claims.N", "claims that name the user, the first there is"),
    ("loopback_users.NAME", "true: this user may connect from this machine only"),
    ("loopback_users", "none: no user is bound to this machine"),
    ("cluster_formation.classic_config.nodes.N", "name@host:port, the same list on all nodes"),
    ("cluster_formation.peer_discovery_backend", "classic_config"),
    ("definitions.import_backend", "local_filesystem: definitions come from this machine's disk"),
)
"""Keys that are more than one field's value, with what they do."""


def default_node_name() -> str:
    """The node's name where none is given, in RabbitMQ's form."""
    return parse_node_name("rabbit")


def default_data_dir(node_name: str) -> str:
    """Where a node keeps its data unless told otherwise."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(base, "warren", node_name)
