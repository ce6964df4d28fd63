"""Certificates of this node's listeners, when they expire, and what its TLS can do.

Certificates are read from the files that the node was started with, where those that will be used
with the next start lie. Source: `rabbitmq-diagnostics certificates` and
`check_certificate_expiration` of RabbitMQ 4.3.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from warren.admin.service.caller import MANAGEMENT, MONITORING, Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import EXPIRY_UNITS, CertificateFiles, Health, TlsSupport
from warren.admin.service.service import AdminService
from warren.errors import PRECONDITION_FAILED, Refusal

FILE_BYTES_MAX: Final = 4_194_304
"""A bundle of certificates is not larger: those of all public authorities are 250 KB."""
BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"

TimeUnit = Literal["days", "weeks", "months", "years"]
DAYS: Final[dict[str, int]] = dict(zip(EXPIRY_UNITS, (1, 7, 30, 365), strict=True))
"""Days of each unit."""
WITHIN_MAX: Final = 1_000
VERSIONS: Final = {"tlsv1.3": ssl.HAS_TLSv1_3, "tlsv1.2": ssl.HAS_TLSv1_2}
"""RabbitMQ's names of versions that listeners may be set to, and whether the library has them."""


@operation(MONITORING)
async def certificates(service: AdminService, caller: Caller) -> list[dict[str, Any]]:
    """Show the certificates of all listeners that have some.

    Raises:
        Refusal: A file cannot be read.
    """
    rows = []
    for files in service.host.certificates():
        row = shown(service, files)
        for key, path in (("cacertfile", files.ca_file), ("certfile", files.cert_file)):
            row[key] = await asyncio.to_thread(text_of, path) if path else ""
        rows.append(row)
    return rows


@operation(MANAGEMENT)
async def check_certificate_expiration(
    service: AdminService, caller: Caller, *, within: int = 4, unit: TimeUnit = "weeks"
) -> Health:
    """See whether no certificate of this node's listeners expires soon, or has already.

    Raises:
        Refusal: A file cannot be read, or has no certificate.
    """
    days = max(-WITHIN_MAX, min(within, WITHIN_MAX)) * DAYS[unit]
    limit = datetime.now(UTC) + timedelta(days=days)
    details = []
    for files in service.host.certificates():
        row = shown(service, files)
        expired = False
        for key, path in (("cacertfile", files.ca_file), ("certfile", files.cert_file)):
            ends = await asyncio.to_thread(expiries, path) if path else []
            soon = [end for end in ends if end <= limit]
            row[key] = path
            row[f"{key}_expires_on"] = [end.strftime("%Y-%m-%d %H:%M:%S") for end in soon]
            expired = expired or len(soon) > 0
        if expired:
            details.append(row)
    if not details:
        return Health(ok=True)
    return Health(ok=False, reason="Certificates expiring", details=details)


@operation(MONITORING)
async def tls_support(service: AdminService, caller: Caller) -> TlsSupport:
    """Show what the TLS of this node can do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    usual = names_of(context)
    context.set_ciphers("ALL:@SECLEVEL=0")
    return TlsSupport(
        versions=[name for name, there in VERSIONS.items() if there],
        cipher_suites=usual,
        all_cipher_suites=names_of(context),
    )


def names_of(context: ssl.SSLContext) -> list[str]:
    """The cipher suites of a context."""
    return [str(cipher["name"]) for cipher in context.get_ciphers()]


def shown(service: AdminService, files: CertificateFiles) -> dict[str, Any]:
    """A listener as these operations name it."""
    listener = files.listener
    return {
        "node": service.own_name,
        "port": listener.port,
        "protocol": listener.protocol,
        "interface": listener.interface,
        "purpose": listener.purpose,
    }


def text_of(path: str) -> str:
    """A file with certificates.

    Raises:
        Refusal: It cannot be read.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise Refusal(
            PRECONDITION_FAILED, f"certificates of {path} cannot be read: {error.strerror}"
        ) from None
    # Beside the certificates there may be a key, which stays secret.
    parts = certificates_in(data.decode("ascii", "replace"))
    return "".join(f"{part}\n" for part in parts)


def certificates_in(text: str) -> Iterator[str]:
    """The certificates of a PEM file, one by one."""
    at = text.find(BEGIN)
    while at >= 0:
        end = text.find(END, at)
        if end < 0:
            return
        yield text[at : end + len(END)]
        at = text.find(BEGIN, end)


def expiries(path: str) -> list[datetime]:
    """When the certificates of a file expire, each of them.

    Raises:
        Refusal: It cannot be read, or has none.
    """
    # It takes some megabytes, which only those pay who ask.
    from cryptography.x509 import load_pem_x509_certificates

    text = text_of(path)
    if not text:
        raise Refusal(PRECONDITION_FAILED, f"{path} has no certificate")
    try:
        return [each.not_valid_after_utc for each in load_pem_x509_certificates(text.encode())]
    except ValueError:
        raise Refusal(PRECONDITION_FAILED, f"a certificate of {path} is damaged") from None
