"""The broker's configuration put together: what entries say, and what is given by name.

All that is wrong is found before anything is refused.

Source: RabbitMQ 4.3, configuration guide and `rabbit.schema`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from warren.config.client_tls import VERSIONS
from warren.config.config import (
    ALL_INTERFACES,
    ANONYMOUS,
    BACKENDS,
    MECHANISMS,
    OAUTH2,
    PATTERNS,
    PORT_DEFAULT,
    SETTINGS,
    ServerConfig,
    Value,
    default_data_dir,
    default_node_name,
)
from warren.config.foreign import foreign_key
from warren.config.reading import Entry, substituted
from warren.config.values import (
    NotAllowed,
    one_of,
    parse_address,
    parse_cluster_node,
    parse_truth,
    parse_word,
)
from warren.errors import ConfigError

BY_KEY: Final = {setting.key: setting for setting in SETTINGS}

TLS_VERSIONS: Final = {
    "ssl_options.versions": "ssl_versions",
    "management.ssl.versions": "management_ssl_versions",
    "prometheus.ssl.versions": "prometheus_ssl_versions",
}
"""Fields by the beginnings of the keys that list their values."""

LISTS: Final = {
    "auth_backends": "auth_backends",
    "auth_oauth2.signing_keys": "oauth2_signing_keys",
    "auth_oauth2.algorithms": "oauth2_algorithms",
    "auth_oauth2.preferred_username_claims": "oauth2_username_claims",
}
"""Fields by the beginnings of the keys that list their values, of how clients log in."""


def _listed_word(head: str, name: str, text: str) -> object:
    """One value of a list; of a key, its id and its file."""
    if head == "auth_backends":
        return BACKENDS[one_of(*BACKENDS)(text)]
    return (name, parse_word(text)) if head.endswith("keys") else parse_word(text)


HEADS: Final = (
    *TLS_VERSIONS,
    *LISTS,
    *("listeners.tcp", "listeners.ssl", "auth_mechanisms", "loopback_users"),
    "cluster_formation.classic_config.nodes",
)
"""Beginnings of keys that end with a name, or with a number."""
NAMED: Final = ("loopback_users", "auth_oauth2.signing_keys")
"""Those that end with a name which may have dots."""
DISCOVERY: Final = ("classic_config", "rabbit_peer_discovery_classic_config")
IMPORTS: Final = (*("local_filesystem", "local", "rabbit_definitions_import_local_filesystem"),)


class GivenSettings:
    """What entries say, until all of them are read.

    Attributes:
        fields: Values by fields of `ServerConfig`.
        warnings: What is to be said of keys that set nothing.
        ignored: These keys.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Value] = {}
        self.warnings: list[str] = []
        self.ignored: list[str] = []
        self.listeners: dict[str, tuple[str, int]] = {}
        self.without_tls = True
        self._tls_listeners: dict[str, tuple[str, int]] = {}
        self._versions: dict[str, dict[str, str]] = {}
        self._mechanisms: dict[str, str] = {}
        self._lists: dict[str, dict[str, object]] = {}
        self._loopback = {"guest": True}
        self._nodes: dict[str, tuple[str, str, int]] = {}

    def take(self, entry: Entry) -> None:
        """Heed one entry.

        Raises:
            NotAllowed: Its value is not allowed.
            ConfigError: There is no such key, or it must not be ignored.
        """
        key, text = entry.key, entry.value
        head = next((each for each in HEADS if key.startswith(f"{each}.")), "")
        name = key[len(head) + 1 :]
        if "." in name and head not in NAMED:
            head = ""
        if key in BY_KEY:
            self.fields[BY_KEY[key].field] = BY_KEY[key].parse(text)
        elif key == "listeners.tcp":
            self.without_tls = one_of("none")(text) != "none"
        elif key == "listeners.ssl":
            one_of("none")(text)
            self._tls_listeners.clear()
        elif key == "cluster_formation.peer_discovery_backend":
            if text not in DISCOVERY:
                raise NotAllowed(DISCOVERY[0])
        elif key == "definitions.import_backend":
            if text not in IMPORTS:
                raise NotAllowed(IMPORTS[0])
        elif key == "loopback_users":
            one_of("none")(text)
            self._loopback.clear()
        elif head:
            self._take_named(head, name, entry)
        elif why := _said_of(entry):
            self._ignore(entry, why)

    def _take_named(self, head: str, name: str, entry: Entry) -> None:
        text = entry.value
        if head == "listeners.tcp":
            self.listeners[name] = parse_address(text)
        elif head == "listeners.ssl":
            self._tls_listeners[name] = parse_address(text)
        elif head in TLS_VERSIONS:
            self._versions.setdefault(head, {})[name] = one_of(*VERSIONS)(text)
        elif head in LISTS:
            self._lists.setdefault(LISTS[head], {})[name] = _listed_word(head, name, text)
        elif head == "auth_mechanisms":
            if text == ANONYMOUS:
                self._ignore(entry, "nobody comes in without a name")
            else:
                self._mechanisms[name] = one_of(*MECHANISMS)(text)
        elif head == "loopback_users":
            self._loopback[name] = parse_truth(text)
        else:
            self._nodes[name] = parse_cluster_node(text)

    def _ignore(self, entry: Entry, why: str) -> None:
        self.warnings.append(f"{entry.source}: {entry.key} does nothing: {why}")
        self.ignored.append(entry.key)

    def values(self, bind: str | None, port: int | None) -> dict[str, object]:
        """Values by fields of `ServerConfig`.

        Args:
            bind: The address of all listeners instead of their own.
            port: The port of those without TLS instead of their own.

        Raises:
            ConfigError: There is no listener that has this port.
        """
        listeners = list(self.listeners.values())
        if not listeners and self.without_tls:
            listeners = [(ALL_INTERFACES, PORT_DEFAULT)]
        if port is not None and not listeners:
            raise ConfigError("listeners.tcp = none leaves no listener that --port could be for")
        values: dict[str, object] = {
            **self.fields,
            "listeners": _moved(listeners, bind, port),
            "tls_listeners": _moved(list(self._tls_listeners.values()), bind, None),
            "cluster_nodes": _listed(self._nodes),
            "warnings": tuple(self.warnings),
            "ignored": tuple(self.ignored),
            "loopback_users": tuple(user for user, bound in self._loopback.items() if bound),
        }
        for head, named in self._versions.items():
            values[TLS_VERSIONS[head]] = tuple({named[key]: None for key in sorted(named)})
        for field, items in self._lists.items():
            values[field] = tuple(dict.fromkeys(items[key] for key in sorted(items)))
        if self._mechanisms:
            named = self._mechanisms
            values["auth_mechanisms"] = tuple({named[key]: None for key in sorted(named)})
        return values


def _moved(
    listeners: list[tuple[str, int]], bind: str | None, port: int | None
) -> tuple[tuple[str, int], ...]:
    """Listeners with another address or port; what is the same then is there once."""
    moved = dict.fromkeys(
        (host if bind is None else bind, known if port is None else port)
        for host, known in listeners
    )
    if port is not None and (ALL_INTERFACES, port) in moved:
        return ((ALL_INTERFACES, port),)
    return tuple(moved)


def build(
    entries: Iterable[Entry],
    *,
    node_name: str | None = None,
    data_dir: str | None = None,
    bind: str | None = None,
    port: int | None = None,
    cluster_host: str | None = None,
    cluster_port: int | None = None,
    management_port: int | None = None,
    join: Iterable[tuple[str, int]] = (),
    secret_file: str | None = None,
    salvage: bool = False,
    head: str = "",
    environment: Mapping[str, str] = os.environ,
    errors: list[str] | None = None,
) -> ServerConfig:
    """Put a configuration together; what is given by name wins over the entries.

    Args:
        entries: Of configuration files and of the command line, in this order.
        node_name: `name@host`; None is `rabbit@` and this machine's name.
        data_dir: None is `default_data_dir`.
        bind: Address to listen on instead of those the entries name.
        port: Port to listen on instead of those the entries name.
        cluster_host, cluster_port: Where other nodes reach this one.
        management_port: Port of the HTTP API; 0 for none.
        join: Addresses of nodes whose cluster is to be joined.
        secret_file: Path of a file with the cluster's secret.
        salvage: Whether to go on with what is whole of a damaged log.
        head: Only keys that begin so are heeded.
        environment: What `$(NAME)` may stand for.
        errors: Takes all that is wrong, which is left out then; None has it raised.

    Raises:
        ConfigError: An unknown key, or a value that is not allowed; says where and what is, of
            each a line.
    """
    wrong: list[str] = []
    gathered = GivenSettings()
    for entry in substituted(entries, environment, wrong, head):
        try:
            gathered.take(entry)
        except NotAllowed as error:
            wrong.append(f"{entry.source}: {entry.shown}: allowed is {error}")
        except ConfigError as error:
            wrong.append(str(error))
    fields = gathered.fields
    if cluster_host is not None:
        fields["cluster_host"] = cluster_host
    if cluster_port is not None:
        fields["cluster_port"] = cluster_port
    if management_port is not None:
        fields["management_port"] = management_port
    try:
        values = gathered.values(bind, port)
    except ConfigError as error:
        wrong.append(str(error))
        values = gathered.values(bind, None)
    name = node_name or default_node_name()
    values |= {
        "join": tuple(join),
        "secret_file": os.path.abspath(secret_file) if secret_file else "",
        "salvage": salvage,
        "node_name": name,
        "data_dir": os.path.abspath(data_dir or default_data_dir(name)),
    }
    if errors is not None:
        errors += wrong
    elif wrong:
        raise ConfigError("\n".join(wrong))
    return msgspec.convert(values, ServerConfig)


TYPED_WRONG: Final = 0.93
"""How like a key of Warren's another one is that was meant to be it."""


def _said_of(entry: Entry) -> str:
    """Why a key of RabbitMQ's sets nothing; empty where it asks for what is so.

    Raises:
        ConfigError: There is no such key, or it must not be ignored.
    """
    known = [*BY_KEY, *(key for key, _ in PATTERNS)]
    foreign = foreign_key(entry.key)
    if foreign is None and entry.any_key:
        # A list there is what the other format has as several keys.
        foreign = foreign_key(f"{entry.key}.")
    near = difflib.get_close_matches(entry.key, known, 1, 0.6 if foreign is None else TYPED_WRONG)
    if foreign is None and entry.any_key:
        meant = f", did you mean {near[0]}?" if near else ""
        return f"Warren knows no such key{meant}"
    if foreign is None or near:
        raise ConfigError(
            f"{entry.source}: unknown key {entry.key}"
            f"{f', did you mean {near[0]}?' if near else ''}; "
            f"the keys are: {', '.join(known)}"
        )
    if entry.value in foreign.alike:
        return ""
    if foreign.refused:
        raise ConfigError(f"{entry.source}: {entry.shown} cannot be had: {foreign.why}")
    return foreign.why


def check_clients(built: ServerConfig) -> None:
    """Refuse settings of listeners for clients that do not fit together.

    Raises:
        ConfigError: Says which.
    """
    if not built.listeners and not built.tls_listeners:
        raise ConfigError("listeners.tcp = none leaves no listener: name one with listeners.ssl")
    if built.tls_listeners and not (built.ssl_certfile and built.ssl_keyfile):
        raise ConfigError(
            "listeners.ssl needs ssl_options.certfile and ssl_options.keyfile, the certificate "
            "that clients see"
        )
    if OAUTH2 in built.auth_backends and not built.oauth2_resource_server_id:
        raise ConfigError("auth_backends = oauth2 needs auth_oauth2.resource_server_id")
    keys = (built.oauth2_signing_keys, built.oauth2_jwks_uri, built.oauth2_issuer)
    if OAUTH2 in built.auth_backends and not any(keys):
        raise ConfigError(
            "auth_backends = oauth2 needs the keys of tokens: auth_oauth2.signing_keys, "
            "auth_oauth2.jwks_uri or auth_oauth2.issuer"
        )
    if built.ssl_verify == "verify_peer" and not built.ssl_cacertfile:
        raise ConfigError(
            "ssl_options.verify = verify_peer needs ssl_options.cacertfile, by which certificates "
            "are verified"
        )
    if built.ssl_fail_if_no_peer_cert and built.ssl_verify != "verify_peer":
        raise ConfigError(
            "ssl_options.fail_if_no_peer_cert = true needs ssl_options.verify = verify_peer"
        )


def check_web(built: ServerConfig) -> None:
    """Refuse settings of listeners for HTTP that do not fit together.

    Raises:
        ConfigError: Says which.
    """
    for name in ("management", "prometheus"):
        port, certificate, key, authorities, verify, required = (
            getattr(built, f"{name}_ssl_{field}")
            for field in (
                *("port", "certfile", "keyfile", "cacertfile"),
                *("verify", "fail_if_no_peer_cert"),
            )
        )
        if port and not (certificate and key):
            raise ConfigError(
                f"{name}.ssl.port needs {name}.ssl.certfile and {name}.ssl.keyfile, the "
                "certificate that clients see"
            )
        if verify == "verify_peer" and not authorities:
            raise ConfigError(
                f"{name}.ssl.verify = verify_peer needs {name}.ssl.cacertfile, by which "
                "certificates are verified"
            )
        if required and verify != "verify_peer":
            raise ConfigError(
                f"{name}.ssl.fail_if_no_peer_cert = true needs {name}.ssl.verify = verify_peer"
            )


def check_cluster(built: ServerConfig) -> None:
    """Refuse settings that do not fit together.

    Raises:
        ConfigError: Says which.
    """
    files = (built.cluster_ssl_cacertfile, built.cluster_ssl_certfile, built.cluster_ssl_keyfile)
    if any(files) and not all(files):
        raise ConfigError(
            "links between nodes are encrypted with all of cluster.ssl.cacertfile, "
            "cluster.ssl.certfile and cluster.ssl.keyfile, or not"
        )
    if built.join and built.cluster_nodes:
        raise ConfigError(
            "--join and cluster_formation.classic_config.nodes are two ways of saying where the "
            "cluster is: give one"
        )
    if built.cluster_nodes and built.node_name not in [node[0] for node in built.cluster_nodes]:
        raise ConfigError(
            f"cluster_formation.classic_config.nodes lacks this node, {built.node_name}: list all "
            "nodes, in the same order on each"
        )


def _listed(nodes: dict[str, tuple[str, str, int]]) -> tuple[tuple[str, str, int], ...]:
    """A list of nodes in the order of its keys: by number, then the others by name."""

    def place(key: str) -> tuple[bool, int, str]:
        return (False, int(key), "") if key.isdecimal() else (True, 0, key)

    return tuple(nodes[key] for key in sorted(nodes, key=place))
