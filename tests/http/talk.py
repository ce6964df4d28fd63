"""A talk with a broker over HTTP: requests in order, and what of each answer is compared.

    Talk("policies", [
        Ask("PUT", "/policies/h/p", {"pattern": "^a", "definition": {"max-length": 5}}),
        Ask("GET", "/policies/h/p"),
    ])

Paths stand below `/api`. Each talk has a fresh vhost `h`, and the users of `ROLES`, whose passwords
are their names; all of them but `h.out` have all permissions there. `{node}` and `{port}` in a path
stand for the node's name and its port for AMQP.

Of an answer the status, some headers and the body are compared; `allow` where it matters. Values of
a body are compared as they are, but for those of keys in `MEASURED`, of which only the type is:
they differ from run to run.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.support.patience import patient

ROLES = {
    "h.none": "",
    "h.management": "management",
    "h.policymaker": "policymaker",
    "h.monitoring": "monitoring",
    "h.administrator": "administrator",
    "h.out": "management",
}
VHOST = "h"
HEADERS = ("content-type", "content-disposition", "www-authenticate", "location")
HASH = re.compile(r"~[\w-]{6}$")
"""What a binding's arguments come to in its key."""
WAIT_SECONDS_MAX = patient(15.0)
POLL_SECONDS = 0.2

MEASURED: dict[str, str] = {
    name: reason
    for reason, names in {
        "another each time": ("password_hash", "ok", "connection", "cluster_name",
                              "original_cluster_name"),
        "of the broker, not of the API": ("hashing_algorithm", "product_version", "product_name",
                                          "Snapshot Index", "Machine Version", "consumer_capacity",
                                          "consumer_utilisation", "disk_reads", "disk_writes"),
        "where the broker was started, and how": ("port", "ports", "peer_port", "db_dir",
                                                  "log_files", "config_files", "fd_total",
                                                  "sockets_total", "proc_total"),
        "of the machine": ("mem_limit", "disk_free", "disk_free_limit", "processors"),
        "of a moment": ("timestamp", "uptime", "os_pid", "mem_used", "memory", "fd_used",
                        "sockets_used", "proc_used", "run_queue", "connected_at", "idle_since"),
        "as fast as it went": ("rate", "sample", "avg", "avg_rate", "messages_details"),
        "of all that was done before": ("connection_created", "connection_closed",
                                        "channel_created", "channel_closed", "queue_declared",
                                        "queue_created", "queue_deleted"),
        "how often clients were asked and answered": ("recv_oct", "send_oct", "recv_cnt",
                                                      "send_cnt"),
    }.items()
    for name in names
}  # fmt: skip
"""Keys whose values are told by their types, by why they differ: from run to run, from machine to
machine, or because two brokers are two."""


COUNTED = {"message_stats", "queue_totals", "memory"}
"""Keys of objects in which all numbers are: of all that was done before, or of a moment. Where an
answer is waited for and of one vhost, `message_stats` is compared (`Ask.counts`)."""


class Ask(NamedTuple):
    """One request.

    Attributes:
        method: Of HTTP.
        path: Below `/api`; what begins with `!` stands for itself.
        body: Sent as JSON; a text is sent as it is, None is no body.
        user: Who asks, whose password is the same; None sends no credentials.
        until: Ask again until the answer has this key everywhere, since figures come late; with a
            number behind `=`, until that is its value.
        counts: Whether what `message_stats` counts is compared.
        headers: Beside those that all requests have.
    """

    method: str
    path: str
    body: Any = None
    user: str | None = "guest"
    until: str = ""
    headers: dict[str, str] = {}
    counts: bool = False

    @property
    def title(self) -> str:
        """The request in few words."""
        return f"{self.method} {self.path} as {self.user}"


class Do(NamedTuple):
    """Something else that happens between two requests, given the broker's AMQP address."""

    done: Callable[[str, int], object]


class Talk(NamedTuple):
    """Requests in their order; `given` and `after` are not compared."""

    name: str
    asks: list[Ask | Do]
    given: tuple[Ask | Do, ...] = ()
    after: tuple[Ask, ...] = ()


class Peer:
    """A broker that is talked to.

    Attributes:
        node: The name of its node.
    """

    def __init__(self, host: str, port: int, amqp_port: int) -> None:
        self.host = host
        self.port = port
        self.amqp_port = amqp_port
        self._connection = http.client.HTTPConnection(host, port, timeout=patient(30.0))
        overview = json.loads(self.raw(Ask("GET", "/overview"))[2])
        self.node = str(overview["node"])
        for user, tags in ROLES.items():
            self.raw(Ask("PUT", f"/users/{user}", {"password": user, "tags": tags}))

    def raw(self, ask: Ask) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to one request."""
        headers = {"content-type": "application/json", **ask.headers}
        if ask.user is not None:
            name, _, password = ask.user.partition(":")
            text = f"{name}:{password or name}".encode("utf-8", "surrogateescape")
            headers["authorization"] = f"Basic {base64.b64encode(text).decode()}"
        body = ask.body
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        path = ask.path[1:] if ask.path.startswith("!") else f"/api{ask.path}"
        if "{" in path:
            path = path.format(node=quote(self.node), port=self.amqp_port)
        if isinstance(body, str) and "{node}" in body:
            body = body.replace("{node}", self.node)
        try:
            self._connection.request(ask.method, path, body, headers)
            response = self._connection.getresponse()
        except (ConnectionError, http.client.RemoteDisconnected):
            # Brokers may close a connection whose last request they refused unread.
            self._connection.close()
            self._connection.request(ask.method, path, body, headers)
            response = self._connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return response.status, found, response.read()

    def asked(self, ask: Ask) -> dict[str, Any]:
        """What of the answer to a request is compared."""
        over = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            status, headers, content = self.raw(ask)
            try:
                body = json.loads(content) if content else None
            except ValueError:
                body = content.decode("utf-8", "replace")
            if not ask.until or has(body, ask.until) or time.monotonic() > over:
                break
            time.sleep(POLL_SECONDS)
        compared = {name: headers[name] for name in HEADERS if name in headers}
        if status == 405 or ask.method == "OPTIONS":
            compared["allow"] = ", ".join(sorted(headers["allow"].split(", ")))
        if "location" in compared:
            compared["location"] = HASH.sub("~<hash>", compared["location"])
        answer: dict[str, Any] = {"ask": ask.title, "status": status, "headers": compared}
        if body is not None:
            answer["body"] = self.normal(
                body, told=COUNTED - {"message_stats"} if ask.counts else COUNTED
            )
        return answer

    def normal(self, value: Any, key: str = "", told: Collection[str] = COUNTED) -> Any:
        """A body as it is compared.

        Args:
            told: Keys below which all numbers are told by their types.
        """
        if key in told:
            value = told_by_types(value)
        if isinstance(value, dict):
            return {
                str(self.normal(name)): self.normal(item, name, told)
                for name, item in value.items()
            }
        if isinstance(value, list):
            # How many samples there are depends on when the first one was taken.
            some = value[:1] if key == "samples" else value
            return [self.normal(item, key, told) for item in some]
        if value == "<number>":
            return value
        if key in MEASURED and not isinstance(value, bool) and value is not None:
            return "<number>" if isinstance(value, (int, float)) else "<text>"
        if key == "properties_key" and isinstance(value, str):
            value = HASH.sub("~<hash>", value)
        if isinstance(value, str):
            value = value.replace(self.node, "<node>").replace(str(self.amqp_port), "<port>")
        return value

    def talk(self, talk: Talk) -> list[dict[str, Any]]:
        """Have a talk; returns what of each answer is compared."""
        self._fresh_vhost()
        try:
            for given in talk.given:
                self._given(given)
            said = []
            for ask in talk.asks:
                if isinstance(ask, Do):
                    ask.done(self.host, self.amqp_port)
                else:
                    said.append(self.asked(ask))
            return said
        finally:
            for ask in talk.after:
                self.raw(ask)
            self.raw(Ask("DELETE", f"/vhosts/{VHOST}"))

    def _given(self, given: Ask | Do) -> None:
        if isinstance(given, Do):
            given.done(self.host, self.amqp_port)
            return
        status, _, content = self.raw(given)
        assert status < 300, f"{given.title}: {status} {content!r}"

    def _fresh_vhost(self) -> None:
        self.raw(Ask("DELETE", f"/vhosts/{VHOST}"))
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self._given(Ask("PUT", f"/vhosts/{VHOST}", {}))
        for user in ["guest", *ROLES]:
            if user != "h.out":
                self._given(Ask("PUT", f"/permissions/{VHOST}/{user}", everything))


def told_by_types(value: Any) -> Any:
    """A value with `<number>` in the place of all numbers."""
    if isinstance(value, dict):
        return {name: told_by_types(item) for name, item in value.items()}
    if isinstance(value, list):
        return [told_by_types(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "<number>"
    return value


def has(body: Any, key: str) -> bool:
    """Whether a body, or each item of a list of some, has a key; a path is cut by dots.

    With `=` and a number behind it, whether that is its value.
    """
    key, equals, number = key.partition("=")
    if equals:
        return value_at(body, key) == int(number)
    if isinstance(body, list):
        return bool(body) and all(has(item, key) for item in body)
    for name in key.split("."):
        if not isinstance(body, dict) or name not in body:
            return False
        body = body[name]
    return True


def value_at(body: Any, key: str) -> Any:
    """The value of a key, whose path is cut by dots."""
    for name in key.split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return body
