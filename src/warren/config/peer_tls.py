"""TLS between nodes: both ends show a certificate, and both ends check it."""

from __future__ import annotations

import os
import ssl
from typing import NamedTuple, cast

from warren.errors import ConfigError


class PeerTls(NamedTuple):
    """How links are encrypted.

    Attributes:
        dialling, accepting: Contexts for the two ends of a link; both have to ask for certificates.
        verify_names: Whether a node's certificate has to hold its name `name@host`, or its host, as
            a subject alternative name. Without it, whoever has any certificate of the authority
            and the cluster's secret is taken for the node that it says it is.
    """

    dialling: ssl.SSLContext
    accepting: ssl.SSLContext
    verify_names: bool = False


def peer_tls(
    ca_file: str,
    cert_file: str,
    key_file: str,
    key_password: str | None = None,
    verify_names: bool = False,
) -> PeerTls:
    """Contexts from files in PEM format: the authorities, and this node's certificate and key.

    Raises:
        ConfigError: A file cannot be read, or does not fit the others.
    """
    contexts = []
    for protocol in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER):
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Names of nodes are not names of hosts: they are checked after the handshake.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificates of authorities {ca_file}: {error}") from None
        try:
            context.load_cert_chain(cert_file, key_file, key_password or "")
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificate {cert_file} with key {key_file}: {error}") from None
        contexts.append(context)
    return PeerTls(contexts[0], contexts[1], verify_names)


def certified_names(certificate: object) -> list[str]:
    """The subject alternative names in what `getpeercert` gave."""
    if not isinstance(certificate, dict):
        return []
    pairs = cast("tuple[tuple[str, str], ...]", certificate.get("subjectAltName", ()))
    return [name for kind, name in pairs if kind in ("DNS", "IP Address", "email")]


def why(error: BaseException | None, encrypted: bool = False) -> str:
    """What an error of a connection means, in words for a log.

    Args:
        error: None, as asyncio says when the other end closed the connection.
        encrypted: Whether TLS is in use: its last step ends at the other end, without a word here.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate there is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}; do both nodes use it?"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    if error is not None and str(error):
        return str(error)
    hint = "; perhaps this node's certificate is not accepted there" if encrypted else ""
    return f"the connection was closed{hint}"
