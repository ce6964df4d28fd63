"""`advanced.config`: the Erlang terms by which RabbitMQ is told what its other format cannot say.

    [{rabbit, [{quorum_cluster_size, 5}, {tcp_listeners, [{"127.0.0.1", 5672}]}]},
     {ra, [{wal_max_size_bytes, 64000000}]}].

What Warren has of it becomes entries with the keys of `rabbitmq.conf`: numbers, words and truths as
they are, lists of some keys one by one, and of others name by name. What Warren does not have is an
entry, too, of which something is said. A comment begins with `%`.

Source: the guides; `rabbit.schema`, which says what becomes of each key; Erlang's reference of
terms, as far as a file may have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from warren.errors import ConfigError

ADVANCED_SUFFIX: Final = ".config"

KEYS: Final = {
    ("rabbit", "vm_memory_high_watermark"): "vm_memory_high_watermark.relative",
    ("rabbit", "disk_free_limit"): "disk_free_limit.absolute",
    ("ra", "wal_max_size_bytes"): "raft.wal_max_size_bytes",
    ("ra", "segment_max_entries"): "raft.segment_max_entries",
    ("rabbitmq_management", "load_definitions"): "load_definitions",
    ("rabbitmq_prometheus", "return_per_object_metrics"): "prometheus.return_per_object_metrics",
}
"""Keys that have another name there."""
APPLICATIONS: Final = {
    "rabbit": "",
    "rabbitmq_amqp1_0": "amqp1_0.",
    "rabbitmq_auth_backend_cache": "auth_cache.",
    "rabbitmq_auth_backend_http": "auth_http.",
    "rabbitmq_auth_backend_ldap": "auth_ldap.",
    "rabbitmq_auth_backend_oauth2": "auth_oauth2.",
    "rabbitmq_aws": "aws.",
    "rabbitmq_event_exchange": "event_exchange.",
    "rabbitmq_federation": "federation.",
    "rabbitmq_management": "management.",
    "rabbitmq_management_agent": "management_agent.",
    "rabbitmq_mqtt": "mqtt.",
    "rabbitmq_prometheus": "prometheus.",
    "rabbitmq_shovel": "shovel.",
    "rabbitmq_stomp": "stomp.",
    "rabbitmq_stream": "stream.",
    "rabbitmq_tracing": "tracing.",
    "rabbitmq_trust_store": "trust_store.",
    "rabbitmq_web_mqtt": "web_mqtt.",
    "rabbitmq_web_stomp": "web_stomp.",
}
"""What keys begin with that are an application's; of others with its name and a dot."""
PARTS: Final = {
    "log": "log",
    "ssl_options": "ssl_options",
    "tcp_listen_options": "tcp_listen_options",
    "management.listener": "management.listener",
    "management.ssl_config": "management.ssl",
    "management.tcp_config": "management.tcp",
    "prometheus.ssl_config": "prometheus.ssl",
    "prometheus.tcp_config": "prometheus.tcp",
}
"""Keys whose lists are further keys with values, and what these begin with."""
LISTENERS: Final = {"tcp_listeners": "listeners.tcp", "ssl_listeners": "listeners.ssl"}
LISTS: Final = {"auth_mechanisms", "auth_backends", "versions"}
"""Keys whose values have numbers in the other format."""
PERMISSIONS: Final = ("configure", "write", "read")
ENCRYPTED: Final = "encrypted"
NESTING_MAX: Final = 32
TOKEN: Final = re.compile(
    r"(?P<space>\s+|%[^\n]*)"
    r"|(?P<binary><<\s*\"(?:[^\"\\]|\\.)*\"\s*(?:/\s*utf8\s*)?>>|<<[0-9,\s]*>>)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"(?:\s*\"(?:[^\"\\]|\\.)*\")*)"
    r"|(?P<quoted>'(?:[^'\\]|\\.)*')"
    r"|(?P<number>[+-]?(?:[0-9]{1,2}#[0-9A-Za-z]+|[0-9][0-9_]*(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?))"
    r"|(?P<atom>[a-z][A-Za-z0-9_@]*)"
    r"|(?P<mark>#\{|=>|[\[\]{},.|])"
)
CLOSING: Final = {"[": "]", "{": "}", "#{": "}"}


class Term:
    """One term: a text for a plain one, or what a list, a tuple or a map holds.

    Attributes:
        line: Where it begins.
        opening: With what it does, if it holds something.
    """

    def __init__(self, line: int, text: str | None, parts: list[Term], opening: str = "") -> None:
        self.line = line
        self.text = text
        self.parts = parts
        self.opening = opening

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        inner = ", ".join(map(str, self.parts))
        return f"{self.opening}{inner}{CLOSING[self.opening]}"

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return self.opening == "["

    def pair(self) -> tuple[str, Term] | None:
        """The name and the term, for a tuple of these two."""
        if self.opening == "{" and len(self.parts) == 2 and self.parts[0].text is not None:
            return self.parts[0].text, self.parts[1]
        return None


class _Reader:
    """Reads the terms of one file."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens: list[tuple[str, str, int]] = []
        at, line = 0, 1
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None:
                raise ConfigError(f"{name}, line {line}: not an Erlang term: {text[at : at + 20]}")
            kind = match.lastgroup or ""
            if kind != "space":
                self._tokens.append((kind, match[0], line))
            line += match[0].count("\n")
            at = match.end()
        self._tokens.append(("end", "the end", line))
        self._at = 0

    def whole(self) -> Term:
        """The one term of the file, with the full stop behind it."""
        found = self._term(0)
        if self._peek()[1] == ".":
            self._at += 1
        if self._peek()[0] != "end":
            raise self._unexpected()
        return found

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._at]

    def _unexpected(self) -> ConfigError:
        _, text, line = self._peek()
        return ConfigError(f"{self._name}, line {line}: {text} is not expected there")

    def _term(self, depth: int) -> Term:
        kind, text, line = self._peek()
        if depth > NESTING_MAX or kind == "end" or (kind == "mark" and text not in CLOSING):
            raise self._unexpected()
        self._at += 1
        if kind == "mark":
            return Term(line, None, self._parts(text, depth), text)
        return Term(line, _plain(kind, text), [])

    def _parts(self, opening: str, depth: int) -> list[Term]:
        end = CLOSING[opening]
        parts: list[Term] = []
        while True:
            if self._peek()[1] == end and not parts:
                break
            parts.append(self._term(depth + 1))
            if opening == "#{":
                if self._peek()[1] != "=>":
                    raise self._unexpected()
                self._at += 1
                parts[-1] = Term(parts[-1].line, f"{parts[-1]} => {self._term(depth + 1)}", [])
            if self._peek()[1] == end:
                break
            if self._peek()[1] != ",":
                raise self._unexpected()
            self._at += 1
        self._at += 1
        return parts


def _plain(kind: str, text: str) -> str:
    """The text of a term that holds no other one."""
    if kind == "binary":
        text = re.sub(r"/\s*utf8\s*$", "", text[2:-2].strip()).strip()
        if not text.startswith('"'):
            octets = [int(each) % 256 for each in text.split(",") if each.strip()]
            return bytes(octets).decode("utf-8", "replace")
    if kind in ("binary", "string", "quoted"):
        quote = text[0]
        pieces = re.findall(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", text, re.DOTALL)
        return "".join(re.sub(r"\\(.)", r"\1", each, flags=re.DOTALL) for each in pieces)
    if kind == "number" and "#" in text:
        base, _, digits = text.lstrip("+-").partition("#")
        try:
            return ("-" if text.startswith("-") else "") + str(int(digits, int(base)))
        except ValueError:
            return text
    if kind == "number":
        text = text.replace("_", "")
        return str(float(text)) if "e" in text.lower() else text
    return text


def advanced_entries(text: str, name: str) -> list[tuple[str, str, int]]:
    """What such a file sets: keys of `rabbitmq.conf`, values, and lines.

    Raises:
        ConfigError: It is not understood; says where.
    """
    whole = _Reader(text, name).whole() if text.strip() else Term(1, None, [], "[")
    entries = []
    for application in whole.parts:
        pair = application.pair()
        if not whole.is_list or pair is None or not pair[1].is_list:
            raise ConfigError(
                f"{name}, line {application.line}: expected {{APPLICATION, [{{KEY, VALUE}}, ...]}}"
            )
        for setting in pair[1].parts:
            found = setting.pair()
            if found is None:
                raise ConfigError(f"{name}, line {setting.line}: expected {{KEY, VALUE}}")
            for key, value in _settings(pair[0], *found):
                entries.append((key, value, setting.line))
    return entries


def _settings(application: str, key: str, value: Term) -> Iterator[tuple[str, str]]:
    """What one key of an application sets."""
    known = KEYS.get((application, key))
    if known is None:
        known = APPLICATIONS.get(application, f"{application}.") + key
    inner = value.pair()
    if inner is not None and inner[0] in ("absolute", "relative", "mem_relative"):
        kind = "absolute" if inner[0] == "absolute" else "relative"
        yield f"{key}.{kind}", str(inner[1])
    elif known in LISTENERS and value.is_list:
        yield from _listeners(LISTENERS[known], value)
    elif known == "cluster_nodes" and value.parts and value.parts[0].is_list:
        for number, node in enumerate(value.parts[0].parts, 1):
            yield f"cluster_formation.classic_config.nodes.{number}", str(node)
    elif known == "loopback_users" and value.is_list:
        yield known, "none"
        yield from ((f"{known}.{user}", "true") for user in value.parts)
    elif known == "default_user_tags" and value.is_list:
        yield from ((f"{known}.{tag}", "true") for tag in value.parts)
    elif known == "default_permissions" and value.is_list:
        for kind, pattern in zip(PERMISSIONS, value.parts, strict=False):
            yield f"{known}.{kind}", str(pattern)
    else:
        yield from _parted(PARTS.get(known, known), value, known in PARTS)


def _parted(key: str, value: Term, in_parts: bool) -> Iterator[tuple[str, str]]:
    """A key with its value, or the keys that its value is of."""
    pairs = [part.pair() for part in value.parts]
    if in_parts and value.is_list and pairs and None not in pairs:
        for pair in pairs:
            assert pair is not None
            yield from _parted(f"{key}.{pair[0]}", pair[1], True)
    elif value.is_list and key.rpartition(".")[2] in LISTS:
        yield from ((f"{key}.{number}", str(each)) for number, each in enumerate(value.parts, 1))
    elif (inner := value.pair()) is not None and inner[0] == ENCRYPTED:
        yield key, f"{ENCRYPTED}:{inner[1]}"
    else:
        yield key, str(value)


def _listeners(key: str, value: Term) -> Iterator[tuple[str, str]]:
    if not value.parts:
        yield key, "none"
    for number, each in enumerate(value.parts, 1):
        pair = each.pair()
        where = str(each) if pair is None else f"[{pair[0]}]:{pair[1]}"
        yield f"{key}.{number}", where
