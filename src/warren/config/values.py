"""Parsers for values of the configuration file; one that refuses says what is allowed."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Final

from warren.limits import FRAME_BYTES_MAX, FRAME_BYTES_MIN
from warren.queue_types import SUPPORTED

CLUSTER_PORT_DEFAULT: Final = 25_672
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")
BYTES_MAX: Final = 2**63 - 1
LONGEST_MS: Final = 2**43
"""Some 278 years; in nanoseconds it has 63 bits."""
SAME_LEVELS: Final = {"notice": "warning", "alert": "critical", "emergency": "critical"}
"""RabbitMQ's levels of logs that Warren logs nothing of, and the next one above."""


class NotAllowed(ValueError):
    """A value is not allowed; the text says what is."""


CONNECTIONS_MAX: Final = 2**31 - 1
BACKLOG_MAX: Final = 65_535
BUFFER_BYTES_MAX: Final = 2**30
UNITS: Final = {
    "": 1,
    "k": 10**3, "ki": 2**10, "kib": 2**10, "kb": 10**3,
    "m": 10**6, "mi": 2**20, "mib": 2**20, "mb": 10**6,
    "g": 10**9, "gi": 2**30, "gib": 2**30, "gb": 10**9,
    "t": 10**12, "ti": 2**40, "tib": 2**40, "tb": 10**12,
    "p": 10**15, "pi": 2**50, "pib": 2**50, "pb": 10**15,
}  # fmt: skip

HEADER_MAX: Final = 4_096


def whole(low: int, high: int, unit: str) -> Callable[[str], int]:
    """A parser of whole numbers from `low` to `high`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\+?[0-9]{1,40}", text) or not low <= int(text) <= high:
            raise NotAllowed(f"a whole number of {unit} from {low} to {high}")
        return int(text)

    return parse


def at_least(low: int, high: int, unit: str) -> Callable[[str], int]:
    """A parser of whole numbers from `low` on, of which those above `high` count as that."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\+?[0-9]{1,40}", text) or int(text) < low:
            raise NotAllowed(f"a whole number of {unit} from {low} on")
        return min(int(text), high)

    return parse


def parse_duration(text: str) -> int:
    """Milliseconds; without an end, too, which is the longest time there is."""
    if text in ("infinity", "undefined"):
        return LONGEST_MS
    return at_least(1, LONGEST_MS, "milliseconds")(text)


def size(low: int, high: int) -> Callable[[str], int]:
    """A parser of sizes in bytes, with or without a unit."""

    def parse(text: str) -> int:
        match = re.fullmatch(r"\+?([0-9]+)\s*([A-Za-z]*)", text)
        if match and match[2].lower() in UNITS:
            found = int(match[1]) * UNITS[match[2].lower()]
            if low <= found <= high:
                return found
        raise NotAllowed(f"a size from {low} to {high} bytes, such as 512MiB, 2GB or 1048576")

    return parse


def parse_multiple(text: str) -> float:
    """The machine's memory, so many times."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]+)?", text) or not float(text) > 0:
        raise NotAllowed("a number above 0, such as 1.0")
    return float(text)


def parse_share(text: str) -> float:
    """A share of the machine's memory."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]+)?", text) or not 0 < float(text) <= 1:
        raise NotAllowed("a share above 0, at most 1, such as 0.6")
    return float(text)


def parse_watermark(text: str) -> float:
    """The same, or 0.0, by which publishers always wait."""
    return 0.0 if text == "0.0" else parse_share(text)


def parse_frame_max(text: str) -> int:
    if text == "0":
        # No limit asked for; a bound there still is.
        return FRAME_BYTES_MAX
    return whole(FRAME_BYTES_MIN, 2_147_483_647, "bytes")(text)


def parse_limit(text: str) -> int:
    """A number of connections; -1 for no limit."""
    if text == "infinity":
        return -1
    if not re.fullmatch(r"\+?[0-9]{1,40}", text):
        raise NotAllowed("a whole number of connections, or infinity")
    return min(int(text), CONNECTIONS_MAX)


def parse_count(text: str) -> int:
    """How many there may be of something; -1 for no limit."""
    if text == "infinity":
        return -1
    if not re.fullmatch(r"\+?[0-9]{1,40}", text) or int(text) == 0:
        raise NotAllowed("a whole number from 1 on, or infinity")
    return min(int(text), CONNECTIONS_MAX)


def parse_word(text: str) -> str:
    try:
        octets = len(text.encode())
    except UnicodeEncodeError:
        # Octets of the command line or of the environment that are no UTF-8.
        raise NotAllowed("UTF-8") from None
    if not 0 < octets <= 255:
        raise NotAllowed("a text of 1 to 255 bytes")
    return text


def parse_header(text: str) -> str:
    if not (0 < len(text) <= HEADER_MAX and text.isascii() and text.isprintable()):
        raise NotAllowed(f"the value of a header of HTTP: 1 to {HEADER_MAX} characters of ASCII")
    return text


def parse_label(text: str) -> str:
    if not text.isprintable() or " " in text:
        raise NotAllowed("a word")
    return parse_word(text)


def parse_level(text: str) -> str:
    level = SAME_LEVELS.get(text.lower(), text.lower())
    if level not in LOG_LEVELS:
        raise NotAllowed("one of " + ", ".join(LOG_LEVELS))
    return level


def parse_truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise NotAllowed("true or false")
    return text == "true"


def one_of(*allowed: str) -> Callable[[str], str]:
    """A parser of words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise NotAllowed(" or ".join(allowed))
        return text

    return parse


def parse_secret(text: str) -> str:
    if not re.fullmatch(r"\S{1,1024}", text):
        raise NotAllowed("one word, such as 64 hex digits")
    return text


def parse_locator(text: str) -> str:
    # The older names say what `balanced` does.
    if text not in ("client-local", "balanced", "least-leaders", "random", "min-masters"):
        raise NotAllowed("client-local or balanced")
    return "client-local" if text == "client-local" else "balanced"


def parse_queue_type(text: str) -> str:
    """A queue's type, by its name or by that of RabbitMQ's module."""
    name = text.removeprefix("rabbit_").removesuffix("_queue") if "_queue" in text else text
    return one_of(*SUPPORTED)(name)


def parse_size(text: str) -> int:
    """Bytes, with a unit or without."""
    return size(0, BYTES_MAX)(text)


def parse_host(text: str) -> str:
    """A host's name or address."""
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", text):
        raise NotAllowed("a host's name or address")
    return text


def parse_contact(text: str) -> tuple[str, int]:
    """A cluster listener: `host`, `host:port` or `[v6 address]:port`."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]+))?", text)
    if match is None:
        raise NotAllowed("host:port or [IPv6 address]:port")
    port = parse_port(match[3]) if match[3] else CLUSTER_PORT_DEFAULT
    return (match[1] or match[2], port)


def parse_cluster_node(text: str) -> tuple[str, str, int]:
    """A node of a list: `name@host` or `name@host:port`."""
    name, at, where = text.partition("@")
    try:
        if not at:
            raise NotAllowed("")
        host, port = parse_contact(where)
        return (parse_node_name(f"{name}@{host}"), host, port)
    except NotAllowed:
        raise NotAllowed("name@host or name@host:port") from None


def parse_port(text: str) -> int:
    """A TCP port."""
    return whole(1, 65_535, "port")(text)


def parse_management_port(text: str) -> int:
    """A TCP port for the HTTP API, or for metrics, or `none`."""
    if text == "none":
        return 0
    try:
        return parse_port(text)
    except NotAllowed as error:
        raise NotAllowed(f"{error}, or none") from None


def parse_metrics_path(text: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9._-]*", text):
        raise NotAllowed("a slash and one word behind it, such as /metrics")
    return text


def parse_node_name(text: str) -> str:
    """A node's name, `name@host` or a name alone, which this machine's name is added to."""
    name, at, host = text.partition("@")
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or (at and not re.fullmatch(r"[\w.-]+", host)):
        raise NotAllowed("name@host of letters, digits, '.', '_' and '-'")
    return text if at else f"{text}@{socket.gethostname().split('.')[0]}"


def parse_address(text: str) -> tuple[str, int]:
    """A listener: a port, `host:port` or `[v6 address]:port`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        if colon and not host:
            raise NotAllowed("")
        return (host, parse_port(port))
    except NotAllowed:
        raise NotAllowed("a port, address:port or [IPv6 address]:port") from None
