"""What a node is told of its configuration."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from warren.config.client_tls import ClientTls
from warren.config.config import (
    CLUSTER_PORT_DEFAULT,
    INTERNAL,
    MANAGEMENT_PORT_DEFAULT,
    OAUTH2,
    PROMETHEUS_PORT_DEFAULT,
    ServerConfig,
)
from warren.config.peer_tls import PeerTls, peer_tls
from warren.log.config import LogConfig
from warren.protocols.broker import Settings
from warren.server.system import total_memory_bytes
from warren.server.tokens import ALGORITHMS, TokenSettings

LOG_FILES = 8
"""`raft.wal_max_size_bytes` is cut into this many files, to reclaim space in small steps."""
MEBIBYTE = 1_048_576
CACHE_SHARE = 256
CACHE_BYTES = (2 * MEBIBYTE, 8 * MEBIBYTE)
"""The newest bodies may take this part of the memory limit, within bounds."""
READ_CACHE_SHARE = 64
READ_CACHE_BYTES = (8 * MEBIBYTE, 128 * MEBIBYTE)
"""The same for bodies that were read back; more would mostly be one more copy of the page cache."""


STRICT_TRANSPORT: Final = "max-age=31536000"


def bind_host(config: ServerConfig) -> str:
    """The address that all listeners for clients have in common; empty for every interface."""
    hosts = {host for host, _ in (*config.listeners, *config.tls_listeners)}
    host = hosts.pop() if len(hosts) == 1 else ""
    return "" if host in ("0.0.0.0", "::") else host


def management_address(config: ServerConfig) -> tuple[str, int]:
    """Where the HTTP API listens; unless it is told otherwise, beside the listeners for clients."""
    host = bind_host(config) if config.management_host is None else config.management_host
    return host, config.management_port if config.management_port > 0 else MANAGEMENT_PORT_DEFAULT


def prometheus_address(config: ServerConfig) -> tuple[str, int]:
    """Where scrapes of metrics are answered; unless it is told otherwise, beside clients."""
    host = bind_host(config) if config.prometheus_host is None else config.prometheus_host
    return host, config.prometheus_port if config.prometheus_port > 0 else PROMETHEUS_PORT_DEFAULT


def management_plain(config: ServerConfig) -> bool:
    """Whether the HTTP API listens without TLS; by default it does where it does not with TLS."""
    return config.management_port > 0 or (
        config.management_port < 0 and not config.management_ssl_port
    )


def transport_policy(config: ServerConfig) -> str:
    """What answers of the HTTP API over TLS say of strict transport security.

    Browsers mind it for all ports of a host, so that it is said by itself only where the API has no
    port without TLS.
    """
    usual = "" if management_plain(config) else STRICT_TRANSPORT
    return config.management_hsts_policy or usual


def prometheus_plain(config: ServerConfig) -> bool:
    """Whether scrapes of metrics are answered without TLS, as `management_plain`."""
    return config.prometheus_port > 0 or (
        config.prometheus_port < 0 and not config.prometheus_ssl_port
    )


class WebTls(NamedTuple):
    """Where HTTP over TLS is listened for, and how it is encrypted."""

    host: str
    port: int
    tls: ClientTls


def management_tls(config: ServerConfig) -> WebTls | None:
    """Where the HTTP API listens over TLS, if it does."""
    return _web_tls(config, "management")


def prometheus_tls(config: ServerConfig) -> WebTls | None:
    """Where scrapes of metrics are answered over TLS, if they are."""
    return _web_tls(config, "prometheus")


def _web_tls(config: ServerConfig, name: str) -> WebTls | None:
    """By the settings whose fields begin with `name`."""

    def field(of: str) -> Any:
        return getattr(config, f"{name}_ssl_{of}")

    if not field("port"):
        return None
    tls = ClientTls(
        field("certfile"),
        field("keyfile"),
        field("password"),
        field("cacertfile"),
        field("verify") == "verify_peer",
        field("fail_if_no_peer_cert"),
        field("versions"),
    )
    host = field("host")
    return WebTls(bind_host(config) if host is None else host, field("port"), tls)


def tokens_from(config: ServerConfig) -> TokenSettings | None:
    """How tokens are looked at that clients log in by, if they do."""
    if OAUTH2 not in config.auth_backends:
        return None
    prefix = config.oauth2_scope_prefix
    return TokenSettings(
        alone=INTERNAL not in config.auth_backends,
        resource_server_id=config.oauth2_resource_server_id,
        scope_prefix=f"{config.oauth2_resource_server_id}." if prefix is None else prefix,
        extra_scopes_key=config.oauth2_additional_scopes_key,
        user_claims=config.oauth2_username_claims,
        key_files=config.oauth2_signing_keys,
        default_key=config.oauth2_default_key,
        jwks_uri=config.oauth2_jwks_uri,
        issuer=config.oauth2_issuer,
        verify_audience=config.oauth2_verify_aud,
        algorithms=config.oauth2_algorithms or ALGORITHMS,
        ca_file=config.oauth2_https_cacertfile,
    )


def tls_from(config: ServerConfig) -> PeerTls | None:
    """How links between nodes are encrypted, if they are.

    Raises:
        ConfigError: A file cannot be used.
    """
    if not config.cluster_ssl_cacertfile:
        return None
    return peer_tls(
        config.cluster_ssl_cacertfile,
        config.cluster_ssl_certfile,
        config.cluster_ssl_keyfile,
        verify_names=config.cluster_ssl_verify_names,
    )


def client_tls_from(config: ServerConfig) -> ClientTls | None:
    """How clients' connections are encrypted, where a listener is for that."""
    if not config.tls_listeners:
        return None
    return ClientTls(
        config.ssl_certfile,
        config.ssl_keyfile,
        config.ssl_password,
        config.ssl_cacertfile,
        config.ssl_verify == "verify_peer",
        config.ssl_fail_if_no_peer_cert,
        config.ssl_versions,
    )


def settings_from(config: ServerConfig) -> Settings:
    """What a node needs to know of its configuration."""
    settings = Settings(config.node_name)
    settings.frame_max = config.frame_max
    settings.channel_max = config.channel_max
    settings.metadata_bytes_max = config.metadata_max_bytes
    settings.consumers_max = config.consumer_max_per_channel
    settings.tx_messages_max = config.channel_tx_message_max
    settings.heartbeat_s = config.heartbeat
    settings.connections_max = config.connection_max
    settings.handshake_timeout_ms = config.handshake_timeout
    settings.max_message_bytes = config.max_message_size
    total = total_memory_bytes()
    memory = config.memory_limit_bytes(total)
    settings.log = LogConfig(
        wal_max_size_bytes=config.raft_wal_max_size_bytes // LOG_FILES,
        cache_bytes=within(memory // CACHE_SHARE, CACHE_BYTES),
        read_cache_bytes=within(memory // READ_CACHE_SHARE, READ_CACHE_BYTES),
        disk_free_limit_bytes=config.disk_limit_bytes(total),
        pinned_bytes_max=config.raft_wal_max_size_bytes,
    )
    settings.memory_limit_bytes = memory
    settings.paging_share = config.vm_memory_high_watermark_paging_ratio
    settings.default_vhost = config.default_vhost
    settings.default_user = config.default_user
    settings.default_password = config.default_pass
    settings.loopback_users = list(config.loopback_users)
    settings.mechanisms = list(config.auth_mechanisms)
    name_host = config.node_name.partition("@")[2]
    settings.cluster_host = config.cluster_host or bind_host(config) or name_host
    settings.cluster_port = config.cluster_port or CLUSTER_PORT_DEFAULT
    settings.host_label = config.label_host
    settings.zone = config.label_zone
    settings.cluster_version_max = config.cluster_version_max
    settings.quorum_size = config.quorum_cluster_size
    settings.default_queue_type = config.default_queue_type
    settings.relaxed_declares = config.quorum_relaxed_checks
    settings.commands_soft_limit = config.quorum_commands_soft_limit
    settings.consumer_timeout_ms = config.consumer_timeout
    settings.consumer_disconnected_timeout_ms = config.consumer_disconnected_timeout
    settings.dead_letter_prefetch = config.dead_letter_prefetch
    settings.leader_locator = config.queue_leader_locator
    settings.strict_priorities = config.quorum_queue_compat == "4.3"
    settings.majority_wait_ms = config.metadata_store_default_timeout
    settings.reconciles = config.reconciliation_enabled
    settings.reconcile_target = config.reconciliation_target_group_size
    settings.reconcile_interval_ms = config.reconciliation_interval
    settings.reconcile_trigger_ms = config.reconciliation_trigger_interval
    return settings


def within(value: int, bounds: tuple[int, int]) -> int:
    """The nearest number that is not below or above some bounds."""
    return min(max(value, bounds[0]), bounds[1])
