"""TLS for clients: a listener's context, and the name of a user in a client's certificate."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from warren.errors import ConfigError

COMMON_NAME: Final = "common_name"
DISTINGUISHED_NAME: Final = "distinguished_name"

VERSIONS: Final = {
    "tlsv1.2": ssl.TLSVersion.TLSv1_2,
    "tlsv1.3": ssl.TLSVersion.TLSv1_3,
}
"""RabbitMQ's names of those that may be spoken."""

SHORT: Final = {
    "surname": "SN",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATIONQUALIFIER",
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "TITLE",
    "countryName": "C",
    "serialNumber": "SERIALNUMBER",
    "pseudonym": "PSEUDONYM",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "streetAddress": "STREET",
    "userId": "UID",
    "UID": "UID",
}
"""What parts of a distinguished name are called in one, by OpenSSL's names."""


class ClientTls(NamedTuple):
    """How clients' connections are encrypted.

    Attributes:
        ca_file: Authorities of clients' certificates; empty where none are asked for.
        verify: Whether clients are asked for a certificate, which has to be one of theirs.
        required: Whether clients without a certificate are refused.
        versions: Names of `VERSIONS` that may be spoken.
    """

    cert_file: str
    key_file: str
    key_password: str = ""
    ca_file: str = ""
    verify: bool = False
    required: bool = False
    versions: tuple[str, ...] = tuple(VERSIONS)

    def context(self) -> ssl.SSLContext:
        """The context of a listener.

        Raises:
            ConfigError: A file cannot be read, or does not fit the others.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        versions = sorted(VERSIONS[name] for name in self.versions)
        context.minimum_version = versions[0]
        context.maximum_version = versions[-1]
        try:
            # Never asks on a terminal for a password that is not given.
            context.load_cert_chain(self.cert_file, self.key_file, self.key_password or "")
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"certificate {self.cert_file} with key {self.key_file}: {error}"
            ) from None
        if self.verify:
            context.verify_mode = ssl.CERT_REQUIRED if self.required else ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(self.ca_file)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"certificates of authorities {self.ca_file}: {error}") from None
        return context


def login_name(certificate: object, source: str) -> str:
    """The user whom a client's certificate names, as RabbitMQ reads it; empty if none.

    Args:
        certificate: What `getpeercert` gave: of a certificate that was verified, or nothing.
        source: `COMMON_NAME` or `DISTINGUISHED_NAME`.
    """
    if not isinstance(certificate, dict):
        return ""
    subject: Any = certificate.get("subject", ())
    if source == COMMON_NAME:
        return ",".join(value for name, value in _attributes(subject) if name == "commonName")
    parts = ["+".join(f"{SHORT.get(name, name)}={_escaped(value)}" for name, value in part)
             for part in subject]  # fmt: skip
    return ",".join(reversed(parts))


def _attributes(subject: Any) -> Iterator[tuple[str, str]]:
    for part in subject:
        yield from part


def _escaped(value: str) -> str:
    """A value as it stands in a distinguished name (RFC 4514); beyond ASCII in octets."""
    said: list[str] = []
    octets = value.encode("utf-8", "surrogateescape")
    for at, octet in enumerate(octets):
        char = chr(octet)
        first, last = at == 0, at == len(octets) - 1
        if char in '"+,;<>\\' or (first and char in " #") or (last and char == " "):
            said.append(f"\\{char}")
        elif octet < 32 or octet >= 126:
            said.append(f"\\{octet:02X}")
        else:
            said.append(char)
    return "".join(said)
