"""Keys of RabbitMQ's configuration that set nothing in Warren, each with why.

A file that was written for RabbitMQ is taken as it is: a key of this list is said to do nothing, in
the log, with the reason. What its owner would rely on for safety is refused instead. A prefix that
ends with a dot stands for all keys that begin so; of several that fit, the longest counts.

Source: the schema of RabbitMQ 4.3 and of its plugins.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Foreign(NamedTuple):
    """A key, or all keys with a prefix.

    Attributes:
        key: The key, or a prefix that ends with a dot.
        why: Why it sets nothing.
        refused: Whether a node does not start with it.
        alike: Values that ask for what is so in any case, of which nothing is said.
    """

    key: str
    why: str
    refused: bool = False
    alike: tuple[str, ...] = ()


_ERLANG: Final = "it tunes Erlang's runtime, and Warren runs on none"
_MNESIA: Final = "it tunes Mnesia, which Warren does not have"
_STORE: Final = "it tunes RabbitMQ's message store; Warren has one log for all queues"
_STANDARD_ERROR: Final = "a node logs to its standard error stream; log.level says what"
_FORMER_TLS_HTTP: Final = "RabbitMQ's older way to say it; management.ssl.port and its like count"
_OPENSSL: Final = "what TLS negotiates is OpenSSL's choice within the versions that are named"
_OTHER_LOGINS: Final = "users are those of the cluster itself; no other backend is asked"
_DISCOVERY: Final = (
    "nodes find each other by cluster_formation.classic_config.nodes or by --join; there is no "
    "other discovery"
)
_DISCOVERY_TUNING: Final = "it tunes discovery: a node here tries until it finds its cluster"
_PARTITIONS: Final = "a minority always stops to change anything, and goes on when it is back"
_LATER: Final = "this version of Warren does not have it"
_SOCKETS: Final = "sockets are set as Warren needs them"
_STATISTICS: Final = "statistics are counted as they come, and need no tuning"


def _all(keys: str, why: str, refused: bool = False) -> tuple[Foreign, ...]:
    return tuple(Foreign(key, why, refused) for key in keys.split())


FOREIGN: Final = (
    *_all("erlang. kernel. sasl. ssl. osiris. ra. sysmon_handler. distribution.", _ERLANG),
    *_all("net_ticktime hipe_compile", _ERLANG),
    *_all("background_gc_enabled background_gc_target_interval delegate_count", _ERLANG),
    *_all("default_worker_pool_size socket_writer. memory_monitor_interval", _ERLANG),
    *_all("vm_memory_calculation_strategy credentials_obfuscation.", _ERLANG),
    *_all("mnesia_table_loading_retry_timeout mnesia_table_loading_retry_limit", _MNESIA),
    *_all("mirroring_sync_batch_size mirroring_sync_max_throughput",
          "there are no mirrored queues; quorum queues are replicated"),
    *_all("cluster_partition_handling cluster_partition_handling.", _PARTITIONS),
    *_all("cluster_keepalive_interval", "nodes hear each other four times a second"),
    *_all("queue_index_embed_msgs_below message_store_shutdown_timeout classic_queue.", _STORE),
    *_all("raft.", "the log has limits of its own: raft.wal_max_size_bytes counts"),
    *_all("quorum_queue.", _LATER),
    *_all("metadata_store.", "the tables are in a Raft group of their own"),
    *_all("tcp_listen_options. tcp_listen_option. num_acceptors. ranch_connection_max", _SOCKETS),
    Foreign("tcp_listen_options", _SOCKETS, False, ("none",)),
    Foreign("tcp_listen_options.exit_on_close", "what a client sent that sends no more is taken in",
            False, ("false",)),
    Foreign("tcp_listen_options.send_timeout_close", "who takes nothing in time is cut off", False,
            ("true",)),
    *_all("tcp_listen_options.linger.",
          "a connection is closed in order, and reset where its client is given up"),
    *_all("tcp_listen_options.port tcp_listen_options.fd", "listeners.tcp says where it listens"),
    *_all("tcp_listen_options.buffer tcp_listen_options.delay_send "
          "tcp_listen_options.high_watermark tcp_listen_options.low_watermark "
          "tcp_listen_options.high_msgq_watermark tcp_listen_options.low_msgq_watermark", _ERLANG),
    *_all("tcp_listen_options.tos tcp_listen_options.priority tcp_listen_options.dontroute",
          "packets are not marked, and go where the system sends them"),
    *_all("ssl_handshake_timeout", "handshake_timeout counts for TLS, too"),
    *_all("reverse_dns_lookups", "clients are named by their addresses"),
    *_all("proxy_protocol", "clients are to connect without the PROXY protocol", True),
    *_all("ssl_options. management.ssl. prometheus.ssl.", _OPENSSL),
    *_all("ssl_allow_poodle_attack ssl_cert_login_san_type ssl_cert_login_san_index", _LATER),
    *_all("auth_ldap. auth_http. auth_cache. trust_store.", _OTHER_LOGINS),
    *_all("auth_backends. auth_oauth2.", _LATER, True),
    Foreign("anonymous_login_user", "nobody comes in without a name", False, ("none",)),
    *_all("anonymous_login_pass", "nobody comes in without a name"),
    Foreign("password_hashing_module", "passwords of new users are hashed with Argon2id or "
            "SHA-256 as docs/operating.md says", False,
            ("rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512")),
    *_all("credential_validator.", "passwords are not judged", True),
    Foreign("default_user_tags.", "the first user is an administrator", False, ("true",)),
    Foreign("default_permissions.", "the first user may do everything", False, (".*",)),
    *_all("default_users.", "users beside the first come with load_definitions"),
    *_all("default_policies. default_limits.", "new vhosts have none of their own: "
          "set them with rabbitmqctl set_operator_policy and set_vhost_limits"),
    *_all("distributed_cookie", "nodes know each other by cluster.secret"),
    *_all("nodename", "the node's name is --node-name, or RABBITMQ_NODENAME"),
    *_all("cluster_name", "set it once with rabbitmqctl set_cluster_name"),
    *_all("cluster_tags. node_tags. product. motd_file prevent_startup_if_node_was_reset", _LATER),
    *_all("cluster_queue_limit cluster_exchange_limit vhost_max channel_max_per_node", _LATER),
    *_all("runtime_parameters. queue_types. exchange_types. channel_interceptor.", _LATER),
    *_all("message_interceptors.", _LATER, True),
    *_all("session_max_per_connection link_max_per_session", "AMQP 1.0 is not spoken"),
    *_all("initial_frame_max channel_operation_timeout", _LATER),
    *_all("vhost_restart_strategy vhost_process_reconciliation_enabled "
          "vhost_process_reconciliation_run_interval",
          "vhosts have no processes that could end by themselves"),
    *_all("total_memory_available_override_value", "set vm_memory_high_watermark.absolute instead"),
    *_all("collect_statistics collect_statistics_interval", _STATISTICS),
    *_all("management_agent.", _STATISTICS),
    *_all("deprecated_features. deprecated_features.permit.",
          "what RabbitMQ deprecates is there as docs/commands.md says"),
    *_all("track_auth_attempt_source", _LATER),
    Foreign("log.console", _STANDARD_ERROR, False, ("true",)),
    Foreign("log.file", _STANDARD_ERROR, False, ("false",)),
    *_all("log.", _STANDARD_ERROR),
    *_all("management.", _LATER),
    Foreign("management.listener.ssl", _FORMER_TLS_HTTP, True, ("false",)),
    *_all("management.listener.ssl_opts.", _FORMER_TLS_HTTP, True),
    *_all("management.oauth_enabled management.oauth_disable_basic_auth", _OTHER_LOGINS, True),
    *_all("prometheus.", _LATER),
    *_all("definitions.tls. definitions.", "definitions are loaded from this machine's disk only",
          True),
    *_all("cluster_formation.", _DISCOVERY_TUNING),
    *_all("cluster_formation.aws. cluster_formation.consul. cluster_formation.etcd. "
          "cluster_formation.k8s. cluster_formation.dns. autocluster.", _DISCOVERY, True),
    *_all("mqtt. web_mqtt.", "MQTT is not spoken"),
    *_all("stomp. web_stomp.", "STOMP is not spoken"),
    *_all("stream.", "there are no streams yet"),
    *_all("mqtt.listeners. web_mqtt.tcp. web_mqtt.ssl.", "MQTT is not spoken: there is no listener "
          "to begin", True),
    *_all("stomp.listeners. web_stomp.tcp. web_stomp.ssl. web_stomp.listener", "STOMP is not "
          "spoken: there is no listener to begin", True),
    *_all("stream.listeners.", "there are no streams yet: there is no listener to begin", True),
    *_all("amqp1_0. amqp_client. amqp10_client. http_dispatch. aws.", _LATER),
    *_all("federation. shovel.", "there is no federation, and there are no shovels"),
    *_all("tracing.", "rabbitmqctl trace_on traces; nothing is written to files"),
    *_all("event_exchange.", _LATER),
)  # fmt: skip

_BY_KEY: Final = {foreign.key: foreign for foreign in FOREIGN}


def foreign_key(key: str) -> Foreign | None:
    """What is said of a key; None if RabbitMQ has no such key."""
    found = _BY_KEY.get(key)
    end = len(key)
    while found is None and end > 0:
        end = key.rfind(".", 0, end)
        found = _BY_KEY.get(key[: end + 1]) if end > 0 else None
    return found
