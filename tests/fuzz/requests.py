"""Requests of HTTP: operations of the API, pages and forms of the UI, scrapes; right and not.

What the probe and the well-behaved clients use is in the vhost `/`, and they are `guest`: no
request names these that changes anything. So whatever is asked, nobody else may notice.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from tests.fuzz.drawing import Draw
from tests.fuzz.frames import EXCHANGES, QUEUES
from tests.fuzz.scripts import Script
from tests.fuzz.texts import changed, damaged, written
from warren.admin.http.openapi import BODIES, PAGED, RANGED, document
from warren.admin.http.resources.catalogue import RESOURCES
from warren.admin.ui.pages.catalogue import PAGES

ADMINISTRATOR = "fuzz"
ROLES = {"f.management": "management", "f.monitoring": "monitoring", "f.none": ""}
"""Users beside the administrator, by their tags; their passwords are their names."""

API, METRICS = "api", "metrics"
COOKIE, TOKEN, HOST, NODE = b"__cookie__", b"__token__", b"__host__", b"__node__"
"""Stand for what is only known when a request is sent."""

OPERATIONS = [
    (method.upper(), path)
    for path, methods in document(RESOURCES)["paths"].items()
    for method in methods
]
SAFE = ("GET", "HEAD", "OPTIONS")
UNSPARING = {"/api/queues/quorum/replicas/on/{node}/shrink"}
"""What takes copies away from queues of all, which is no fault where others notice it."""

QUERY = (*PAGED, *RANGED, "disable_stats", "enable_queue_totals", "download", "vhost", "reason")
SORTS = ("name", "vhost", "messages", "message_stats.publish_details.rate", "x", "")
SPOILT = ("%00", "%ff", "%ud800", "%", "%2", "..", ".", "%2E%2E", "%F0%9F%90%87", "+", "~", "a%20b")
NODES = ("nowhere", NODE.decode())
EXPRESSIONS = ("f\\.", "(", "[", ".*", "(a+)+$", "(?i)F", "a{1,250}", "\\", "(a|aa)*y", "[[:foo:]]")
FURTHER = (
    (b"origin", b"http://" + HOST), (b"origin", b"http://["), (b"origin", b"null"),
    (b"origin", b"http://elsewhere"), (b"sec-fetch-site", b"cross-site"),
    (b"accept", b"text/html"), (b"accept", b"application/json"), (b"accept", b"image/x"),
    (b"accept-encoding", b"gzip, br;q=x"), (b"x-forwarded-proto", b"https"),
    (b"x-reason", b"\xff"), (b"if-none-match", b"*"), (b"range", b"bytes=0-0"),
    (b"connection", b"close"), (b"expect", b"100-continue"), (b"authorization", b"Basic eDp5"),
)  # fmt: skip
"""Headers that a few requests have, too."""

FIELDS = (
    *("vhost", "name", "type", "limit", "routing_key", "kind", "default_queue_type", "count"),
    *("auto_delete", "way", "text", "payload", "password", "other", "login", "durable", "value"),
    *("user", "node", "tag", "internal", "if_unused", "username", "target", "tags", "source"),
    *("reason", "persistent", "pattern", "password_again", "more_tags", "file", "fate", "edit"),
    *("encoding", "direction", "destination", "description", "confirm", "apply_to", "rate", "in"),
    *("priority", "key", "arg-key", "arg-type", "arg-value", "header-key", "header-type", "where"),
    *("header-value", "property-key", "property-value", "to", "queue", "exchange", "position"),
)  # fmt: skip
"""Fields of forms, and of the queries of pages."""

VHOSTS = ("f", "f", "f", "f.other", "f.none")
VARIABLES: dict[str, tuple[str, ...]] = {
    "vhost": VHOSTS,
    "queue": (*QUEUES, "f.made", "f.none"),
    "exchange": (*EXCHANGES, "amq.topic", "amq.default", "f.made"),
    "user": (*ROLES, "f.made"),
    "destination": (*QUEUES, *EXCHANGES),
    "kind": ("q", "e", "x"),
    "key": ("k", "~", "a.b~x", "props"),
    "name": ("f.made", "max-queues", "max-connections", "max-channels", "f.none"),
    "component": ("f.component", "operator_policy", "policy", "vhost-limits", "shovel"),
    "number": ("1", "0", "-1", "99999999999999999999", "x"),
    "port": ("1", "0", "65536", "-1", "x"),
    "protocol": ("amqp", "http", "amqp,http", "x"),
    "within": ("1", "0", "-1", "9" * 30, "x"),
    "unit": ("days", "weeks", "years", "x"),
    "pattern": tuple(quote(text, safe="") for text in EXPRESSIONS),
    "password": ("x", "%00", "y" * 300),
}
OTHERS = ("f.made", "1", "x")
POLICY_KEYS = (
    "max-length",
    "message-ttl",
    "dead-letter-exchange",
    "ha-mode",
    "expires",
    "overflow",
)


class Requests:
    """Draws requests of one client.

    Args:
        draw: Draws them.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def some(self) -> tuple[str, bytes]:
        """Draw one request: the port that it is for, and its bytes."""
        way = self.draw.count(0, 9)
        if way < 6:
            return API, self.operation()
        if way < 8:
            return API, self.page()
        return (API, self.login()) if way == 8 else (METRICS, self.scrape())

    # --- what is asked --------------------------------------------------------------------------

    def operation(self) -> bytes:
        """Ask for an operation of the API."""
        draw = self.draw
        method, path = draw.one(OPERATIONS)
        if path in UNSPARING:
            method = "GET"
        target = self.path(path, method) + self.query()
        content = b""
        schema = BODIES.get(f"{method} {path}")
        if schema is not None or draw.chance(0.1):
            content = self.json(self.definitions() if "definitions" in path else self.body(schema))
        if draw.chance(0.05):
            method = draw.one(("GET", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "x", "get"))
        headers = [*self.credentials(), (b"content-type", b"application/json")]
        return self.laid_out(method, target, headers, content)

    def page(self) -> bytes:
        """Ask for a page, or send one of its forms."""
        draw = self.draw
        page = draw.one(PAGES)
        headers = [(b"cookie", COOKIE)] if draw.chance(0.95) else []
        if not page.acts or draw.chance(0.5):
            target = self.path(page.path, "GET") + self.query(FIELDS)
            return self.laid_out("GET", target, headers, b"")
        fields = {name: self.text() for name in FIELDS if draw.chance(0.25)}
        fields |= {"vhost": draw.one(VHOSTS), "do": draw.one([*page.acts, "x"])}
        content = urlencode({**fields, "token": TOKEN.decode()}, errors="surrogatepass").encode()
        kind = b"application/x-www-form-urlencoded"
        if draw.chance(0.15):
            kind, content = self.multipart(fields)
        elif draw.chance(0.1):
            content = damaged(draw, content)
        headers.append((b"content-type", kind))
        return self.laid_out("POST", self.path(page.path, "POST"), headers, content)

    def login(self) -> bytes:
        """Log in to the UI, rightly or not, or fetch a file of its."""
        draw = self.draw
        if draw.chance(0.3):
            files = ("/static/", "/static/..%2f..%2fx", "/static/warren.css", "/static/%00")
            return self.laid_out("GET", draw.one(files), [], b"")
        user = draw.one((ADMINISTRATOR, "f.none", "", "\ud800", "x" * 5_000))
        fields = {"username": user, "password": draw.one((ADMINISTRATOR, "f.none", "", "\0"))}
        content = urlencode(fields, errors="surrogatepass").encode()
        target = "/login" + draw.one(("", "?to=%2Fqueues", "?to=//x", "?to=%5C%5Cx", "?to=%00%0a"))
        return self.laid_out(draw.one(("POST", "POST", "GET", "PUT")), target, [], content)

    def scrape(self) -> bytes:
        """Ask for metrics."""
        draw = self.draw
        target = "/metrics" + draw.one(("", "/per-object", "/detailed", "/x", "/memory-breakdown"))
        families = ("queue_coarse_metrics", "queue_metrics", "channel_metrics", "x", "")
        fields = [("family", draw.one(families)) for _ in range(draw.count(0, 3))]
        if draw.chance(0.4):
            fields.append(("vhost", draw.one(("f", "/", "\0"))))
        if draw.chance(0.4):
            fields.append(("queue", draw.one(EXPRESSIONS)))
        return self.laid_out("GET", f"{target}?{urlencode(fields)}", [], b"")

    # --- parts ----------------------------------------------------------------------------------

    def path(self, path: str, method: str) -> str:
        """Put names in the places of variables."""
        draw = self.draw

        def put_in(found: re.Match[str]) -> str:
            name = found[1]
            if draw.chance(0.08):
                return draw.one(SPOILT)
            if name == "vhost" and method in SAFE and draw.chance(0.2):
                return "%2F"
            if name == "node":
                return draw.one(NODES)
            if name in ("connection", "channel"):
                return draw.one(("x", "127.0.0.1%3A1%20-%3E%20127.0.0.1%3A2", "f%20(1)"))
            choices = VARIABLES.get(name, OTHERS)
            return draw.one(choices) if name == "pattern" else quote(draw.one(choices), safe="%")

        return re.sub(r"\{(\w+)\}", put_in, path)

    def query(self, fields: Sequence[str] = ()) -> str:
        """Draw a query, mostly none."""
        draw = self.draw
        if draw.chance(0.6):
            return ""
        found = []
        for _ in range(draw.one((1, 2, 4, 101))):
            name = draw.one((*QUERY, *fields))
            if name in ("name", "pattern", "text") and draw.chance(0.5):
                found += [(name, draw.one(EXPRESSIONS)), ("use_regex", "true")]
            elif name == "sort":
                found.append((name, draw.one(SORTS)))
            else:
                found.append((name, self.text()))
        return "?" + urlencode(found, errors="surrogatepass")

    def text(self) -> str:
        """Draw a value of a field."""
        draw = self.draw
        if draw.chance(0.3):
            return draw.one((*QUEUES, *EXCHANGES, *ROLES, "f", "topic", "quorum", "all", "true"))
        odd_ones = ("", "\0", "\ud800", "ü🐇", "1e400", "9" * 400, "-1", "4611686018427387904", "é")
        numbers = ("0", "1", "5", "100", "500", "501", "2147483648", "9223372036854775808", "NaN")
        return draw.one((*odd_ones, *numbers, "on", '{"a":1}', "x" * 3_000))

    def credentials(self) -> list[tuple[bytes, bytes]]:
        """Draw who asks."""
        draw = self.draw
        if draw.chance(0.75):
            said = f"{ADMINISTRATOR}:{ADMINISTRATOR}".encode()
        elif draw.chance(0.8):
            user = draw.one(list(ROLES))
            said = f"{user}:{user}".encode()
        else:
            strange = (
                *(b"", b"Basic", b"Basic !!!", b"Basic " + base64.b64encode(b"fuzz")),
                *(b"Basic " + base64.b64encode(b"\xff:\xff"), b"Basic " + b"A" * 9_000,),
                *(b"Bearer x.y.z", b"Basic " + base64.b64encode(b"fuzz:wrong")),
            )  # fmt: skip
            return [(b"authorization", draw.one(strange))]
        return [(b"authorization", b"Basic " + base64.b64encode(said))]

    def json(self, value: Any) -> bytes:
        """Write a body, perhaps changed in a place, perhaps damaged."""
        draw = self.draw
        if draw.chance(0.5):
            value = changed(draw, value)
        text = written(value).encode("utf-8", "surrogatepass")
        return damaged(draw, text) if draw.chance(0.1) else text

    def body(self, schema: dict[str, Any] | None) -> Any:
        """Draw a body that an operation describes."""
        draw = self.draw
        if schema is None:
            return {"a": 1}
        properties = schema.get("properties", {})
        wanted = [name for name in properties if name in schema["required"] or draw.chance(0.6)]
        return {name: self.value(name, properties[name]) for name in wanted}

    def value(self, name: str, schema: dict[str, Any]) -> Any:
        """Draw the value of one property of a body."""
        draw = self.draw
        if "enum" in schema:
            return draw.one(schema["enum"])
        if name == "definition":
            return {draw.one(POLICY_KEYS): draw.one((5, 5, "", "f.direct", "all", -1, 1 << 63))}
        if name in ("arguments", "properties", "definitions"):
            return self.table()
        if name == "value":
            return draw.one((5, -1, "x", {"a": [1]}, [], None, 1 << 62))
        if schema.get("type") == "integer":
            return draw.one((0, 1, 5, 100, -1, 1 << 31, 1 << 62, (1 << 63) - 1, 1 << 63))
        if schema.get("type") == "boolean":
            return draw.chance(0.5)
        if schema.get("type") == "array":
            return [draw.one(("f.made", "f.none")) for _ in range(draw.count(0, 2))]
        known: dict[str, tuple[str, ...]] = {
            "tags": ("", "management", "administrator,x"),
            "type": ("direct", "topic", "headers", "x-consistent-hash", "none"),
            "pattern": EXPRESSIONS,
            "vhost_pattern": ("^f$", "("),
            "queue_pattern": ("^f", "("),
            "node": NODES,
            "password_hash": ("", "x", base64.b64encode(b"x" * 36).decode()),
            "hashing_algorithm": ("rabbit_password_hashing_sha256", "x"),
            "payload": ("", "x", "eA==", "=", "é"),
            "apply-to": ("queues", "all", "exchanges", "quorum_queues", "x"),
            "action": ("sync", "cancel_sync", "x"),
            "default_queue_type": ("quorum", "classic", "x", "undefined"),
        }
        return draw.one((*known.get(name, ()), "f.made", "k", "f.topic"))

    def table(self) -> dict[str, Any]:
        """Draw a table in JSON: arguments, or a message's properties."""
        draw = self.draw
        keys = (
            *("x-queue-type", "x-max-length", "x-message-ttl", "x-match", "a", "headers"),
            *("delivery_mode", "timestamp", "expiration", "correlation_id", "priority"),
        )  # fmt: skip
        values = ("classic", "quorum", 5, -1, 1 << 62, 1 << 63, 1.5, None, True, [1, "x"], {"k": 1})
        return {draw.one(keys): draw.one(values) for _ in range(draw.one((0, 0, 1, 3)))}

    def definitions(self) -> Any:
        """Draw definitions to be imported."""
        draw = self.draw
        named = {"vhost": "f", "name": "f.made"}
        bound = {"source": "f.topic", "vhost": "f", "destination": "f.classic", "arguments": {}}
        rights = {"user": "f.made", "vhost": "f", "configure": ".*", "write": ".*", "read": ""}
        parts: dict[str, list[dict[str, Any]]] = {
            "users": [{"name": "f.made", "password_hash": "", "tags": "", "limits": {}}],
            "vhosts": [{"name": "f.other", "limits": []}],
            "permissions": [rights],
            "topic_permissions": [{**rights, "exchange": "f.topic"}],
            "parameters": [{**named, "component": "f.component", "value": {"a": 1}}],
            "global_parameters": [{"name": "f.made", "value": 5}],
            "policies": [{**named, "pattern": "f", "definition": {"max-length": 5}, "priority": 1}],
            "queues": [{**named, "durable": True, "auto_delete": False, "arguments": self.table()}],
            "exchanges": [{**named, "type": "topic", "durable": True, "arguments": {}}],
            "bindings": [{**bound, "destination_type": "queue", "routing_key": "k"}],
        }
        chosen: dict[str, Any] = {name: part for name, part in parts.items() if draw.chance(0.4)}
        return {"rabbit_version": "4.3.0", **chosen}

    def multipart(self, fields: dict[str, str]) -> tuple[bytes, bytes]:
        """Lay a form out as browsers do that send a file."""
        draw = self.draw
        boundary = draw.one((b"x", b"-" * 70, b"-" * 71, b'"x"', b""))
        parts = [
            b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
            % (name.encode(), text.encode("utf-8", "surrogatepass"))
            for name, text in {**fields, "token": TOKEN.decode()}.items()
        ]
        file = b'--x\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\n\r\n'
        whole = b"".join(parts) + file + self.json(self.definitions()) + b"\r\n--x--\r\n"
        if draw.chance(0.3):
            whole = damaged(draw, whole)
        return b"multipart/form-data; boundary=" + boundary, whole

    # --- bytes ----------------------------------------------------------------------------------

    def laid_out(
        self, method: str, target: str, headers: list[tuple[bytes, bytes]], content: bytes
    ) -> bytes:
        """Lay a request out; a few are wrong as requests of HTTP."""
        draw = self.draw
        headers = [(b"host", HOST), *headers]
        while draw.chance(0.15):
            headers.append(draw.one(FURTHER))
        line = f"{method} {target} HTTP/1.1".encode("latin-1", "replace")
        if draw.chance(0.1):
            return self.wrong(line, headers, content)
        if draw.chance(0.1):
            return laid_out(line, [*headers, (b"transfer-encoding", b"chunked")]) + chunked(
                content, draw.one((1, 7, 4_096))
            )
        if content or method not in SAFE:
            headers.append((b"content-length", b"%d" % len(content)))
        return laid_out(line, headers) + content

    def wrong(self, line: bytes, headers: list[tuple[bytes, bytes]], content: bytes) -> bytes:
        """Lay a request out that lies about its length, or is hardly one."""
        draw = self.draw
        way = draw.count(0, 9)
        size = len(content)
        if way < 3:
            lengths = (size + 1, max(0, size - 1), -1, 1 << 63, 0, 10**400)
            told = draw.one([b"%d" % each for each in lengths] + [b"x", b"", b"1, 2", b"\xb2"])
            headers.append((b"content-length", told))
        elif way == 3:
            headers += [(b"content-length", b"%d" % size), (b"content-length", b"0")]
        elif way == 4:
            headers += [(b"content-length", b"%d" % size), (b"transfer-encoding", b"chunked")]
        elif way == 5:
            sizes = (b"zz", b"-1", b"ffffffffffffffffff", b"5;" + b"x" * 5_000, b"")
            bad = draw.one(sizes) + b"\r\n" + content
            return laid_out(line, [*headers, (b"transfer-encoding", b"chunked")]) + bad
        elif way == 6:
            odd_ones = ((b"x", b"\0"), (b"x y", b"1"), (b"", b"1"), (b"x", b"y" * 70_000))
            headers += [draw.one(odd_ones), (b"expect", b"100-continue")]
        elif way == 7:
            headers = [(b"h%d" % at, b"x") for at in range(draw.one((100, 2_000)))]
        elif way == 8:
            line = draw.one(
                (
                    *(b"", b"\0", b"GET", b"GET /", line.replace(b"1.1", b"1.0"), line + b" x"),
                    *(line.replace(b"1.1", b"9.9"), b"PRI * HTTP/2.0"),
                    *(b"GET * HTTP/1.1", b"GET http://x/api HTTP/1.1"),
                    *(b"\x16\x03\x01", line.replace(b"/", b"\xff", 1)),
                )
            )  # fmt: skip
        else:
            headers += [(b"upgrade", b"h2c"), (b"connection", b"upgrade, close, x")]
        return laid_out(line, headers) + content


def laid_out(line: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The head of a request."""
    return b"".join([line, b"\r\n", *(b"%s: %s\r\n" % each for each in headers), b"\r\n"])


def chunked(content: bytes, step: int) -> bytes:
    """A body in chunks, with the end."""
    parts = [content[at : at + step] for at in range(0, min(len(content), 2_000 * step), step)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def browser(draw: Draw) -> Script:
    """A client of HTTP: some requests on one connection, whole or half sent, and how it goes."""
    requests = Requests(draw)
    port, first = requests.some()
    script = Script(port, reads=not draw.chance(0.05))
    pieces = [first]
    for _ in range(draw.one((0, 0, 0, 1, 2, 12))):
        other, request = requests.some()
        if other == port:
            pieces.append(request)
    script.cases = len(pieces)
    if draw.chance(0.15):
        pieces[-1] = pieces[-1][: draw.count(0, len(pieces[-1]))]
    if draw.chance(0.5):
        for piece in pieces:
            script.write(piece)
            script.read()
    else:
        # Pipelined, or cut anywhere.
        script.in_pieces(draw, pieces)
    if draw.chance(0.1):
        script.cut_short(draw)
    for _ in range(draw.one((0, 1, 1, 2))):
        script.read()
    if draw.chance(0.1):
        script.shut()
        script.read()
    if draw.chance(0.2):
        script.reset()
    return script


def episode(draw: Draw) -> list[Script]:
    """The clients of one episode."""
    return [browser(draw) for _ in range(draw.one((1, 1, 2, 3, 8)))]
