"""`warren server --check`: what is wrong with a configuration, and what of it is not honoured."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from warren.config.building import check_clients, check_cluster, check_web
from warren.config.client_tls import ClientTls
from warren.config.config import ServerConfig
from warren.config.identity import read_secret
from warren.config.peer_tls import peer_tls
from warren.errors import ConfigError

Check = Callable[[ServerConfig], None]
TOGETHER: tuple[Check, ...] = (check_cluster, check_clients, check_web)
"""What settings have to be together, whatever each of them is."""


def wrong_with(config: ServerConfig) -> Iterator[str]:
    """All that would keep a node with these settings from its start, as far as files tell.

    What is in the data directory, and whether ports are free, is not looked at.
    """
    for check in (*TOGETHER, _check_files):
        try:
            check(config)
        except ConfigError as error:
            yield str(error)


def _check_files(config: ServerConfig) -> None:
    """Refuse files that cannot be used.

    Raises:
        ConfigError: Says which, of each a line.
    """
    wrong: list[str] = []
    for prefix, wanted in (
        ("", bool(config.tls_listeners)),
        ("management_", config.management_ssl_port > 0),
        ("prometheus_", config.prometheus_ssl_port > 0),
    ):
        names = ("certfile", "keyfile", "password", "cacertfile")
        cert, key, password, authorities = (
            str(getattr(config, f"{prefix}ssl_{name}")) for name in names
        )
        verify = getattr(config, f"{prefix}ssl_verify") == "verify_peer"
        if wanted and cert and key:
            tls = ClientTls(cert, key, password, authorities, verify and bool(authorities))
            _note(wrong, tls.context)
    cluster = (
        config.cluster_ssl_cacertfile,
        config.cluster_ssl_certfile,
        config.cluster_ssl_keyfile,
    )
    if all(cluster):
        _note(wrong, lambda: peer_tls(*cluster))
    if config.secret_file:
        _note(wrong, lambda: read_secret(Path(config.secret_file)))
    for file in _definitions(config):
        _note(wrong, partial(_check_json, file))
    if wrong:
        raise ConfigError("\n".join(wrong))


def _note(wrong: list[str], step: Callable[[], object]) -> None:
    try:
        step()
    except (ConfigError, OSError, ssl.SSLError) as error:
        wrong.append(str(error))


def _definitions(config: ServerConfig) -> list[Path]:
    if not config.load_definitions:
        return []
    path = Path(config.load_definitions)
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


def _check_json(file: Path) -> None:
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"definitions {file}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"definitions {file}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"definitions {file}: an object is expected")
