"""Certificates of a node's listeners, and what its TLS can do."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    CONFIGURATION,
    DATA,
    DIAGNOSTICS,
    MONITORING,
    TEXT,
    TRUTH,
    UNAVAILABLE,
    USAGE,
    WHOLE,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    Words,
    WrongWords,
    add,
    says,
)
from warren.admin.cli.tools.reading import bad
from warren.admin.cli.tools.session import ToolSession
from warren.admin.service.rows import EXPIRY_UNITS, Health, TlsSupport

FORMATS: Final = ("openssl", "erlang", "map")
WITHIN: Final = 4
UNIT: Final = "weeks"


def _where(row: dict[str, Any]) -> str:
    """A listener in words."""
    return f"{row['protocol']} on {row['interface']}:{row['port']}"


def _certificates(session: ToolSession, words: Words) -> Output:
    rows: list[dict[str, Any]] = session.ask("certificates", {}, list[dict[str, Any]])
    parts = []
    for row in rows:
        parts.append(f"{_where(row)}, certificate:\n\n{row['certfile']}")
        if row["cacertfile"]:
            parts.append(f"{_where(row)}, authorities of clients:\n\n{row['cacertfile']}")
    return ToolAnswer("\n".join(parts) or "(none)", rows)


def _check_expiration(words: Words) -> None:
    unit = words.options.get("unit", UNIT)
    if unit not in EXPIRY_UNITS:
        text = f"\"unit '{unit}' is not supported. Please use one of: {', '.join(EXPIRY_UNITS)}\""
        raise WrongWords(f"Error (argument validation): {text}", USAGE)


def _expiration(session: ToolSession, words: Words) -> Output:
    within, unit = words.options.get("within", WITHIN), words.options.get("unit", UNIT)
    asked = {"within": within, "unit": unit}
    health: Health = session.ask("check_certificate_expiration", asked, Health)
    if health.ok:
        text = f"No certificates are expiring within {within} {unit}."
        return ToolAnswer(text, {"result": "ok"})
    lines = [f"Certificates expire within {within} {unit}:"]
    for row in health.details:
        for key in ("certfile", "cacertfile"):
            for end in row[f"{key}_expires_on"]:
                lines.append(f"{_where(row)}: {row[key]} expires on {end} (UTC)")
    value = {"result": "error", "expired": health.details}
    return ToolAnswer("\n".join(lines), value, UNAVAILABLE, wrong=True)


def _versions(session: ToolSession, words: Words) -> Output:
    versions = session.ask("tls_support", {}, TlsSupport).versions
    return ToolAnswer("\n".join(versions), {"versions": versions})


def _check_format(words: Words) -> None:
    if words.options.get("format", FORMATS[0]) not in FORMATS:
        raise bad(": Format should be either openssl, erlang or map", DATA)


def _suites(session: ToolSession, words: Words) -> Output:
    if words.options.get("format", FORMATS[0]) != FORMATS[0]:
        text = "suites have OpenSSL's names here: Warren runs on no Erlang"
        raise Failure(UNAVAILABLE, text)
    found: TlsSupport = session.ask("tls_support", {}, TlsSupport)
    names = found.all_cipher_suites if words.options.get("all") else found.cipher_suites
    return ToolAnswer("\n".join(names), names)


add(
    ToolCommand(
        "certificates",
        (DIAGNOSTICS,),
        "[--timeout <timeout>]",
        CONFIGURATION,
        "Shows the certificates of a node's listeners",
        _certificates,
        banner=says("Certificates of node {node} ..."),
    ),
    ToolCommand(
        "check_certificate_expiration",
        (DIAGNOSTICS,),
        "[--within <period>] [--unit <unit>]",
        MONITORING,
        "Sees whether no certificate of a node's listeners expires soon",
        _expiration,
        switches={"within": WHOLE, "unit": TEXT},
        banner=says("Checking certificate expiration for all certificates on node {node} ..."),
        check=_check_expiration,
    ),
    ToolCommand(
        "tls_versions",
        (DIAGNOSTICS,),
        "[--timeout <timeout>]",
        MONITORING,
        "Lists the versions of TLS that a node can speak",
        _versions,
        banner=says("Listing all TLS versions supported by the runtime..."),
    ),
    ToolCommand(
        "cipher_suites",
        (DIAGNOSTICS,),
        "[--format <openssl | erlang | map>] [--all] [--timeout <timeout>]",
        MONITORING,
        "Lists the cipher suites that a node uses by itself, or all that it has",
        _suites,
        switches={"format": TEXT, "all": TRUTH},
        banner=says("Listing available cipher suites in OpenSSL format"),
        check=_check_format,
    ),
)
