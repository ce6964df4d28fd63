"""Plays requests of users with few rights to a broker, and writes down what it says.

    python -m tests.admin.rights HOST:PORT     store what a RabbitMQ 4.3 says

The RabbitMQ has its management listener 10,000 ports above, and user guest. Operators change users,
permissions and limits in between: of a RabbitMQ over HTTP, of Warren by its own operations.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionClosedByBroker

from tests.support.patience import patient
from warren.admin.cli.asking import Contact, put_to

STORED = Path(__file__).with_name("rights-rabbitmq-4.3.json")
ALL = ".*"
NOTHING = "^nothing$"
PERMISSIONS = ("configure", "write", "read")

Channel = Any
Request = Callable[[Channel], object]


class Operator(ABC):
    """Changes who may do what; each user's name is its password."""

    @abstractmethod
    def user(self, name: str, tags: str = "") -> None:
        """Have a user with these tags."""

    @abstractmethod
    def delete_user(self, name: str) -> None:
        """Have no such user."""

    @abstractmethod
    def permit(self, vhost: str, configure: str, write: str, read: str, user: str = "u") -> None:
        """Let a user into a vhost."""

    @abstractmethod
    def topics(self, exchange: str, write: str, read: str, user: str = "u") -> None:
        """Bound the routing keys of a user in vhost /; for no exchange, bound none."""

    @abstractmethod
    def vhost(self, name: str, **properties: str) -> None:
        """Have a vhost."""

    @abstractmethod
    def delete_vhost(self, name: str) -> None:
        """Have no such vhost."""

    @abstractmethod
    def policy(self, pattern: str, **definition: str) -> None:
        """Have a policy of vhost /, named like its first key."""

    @abstractmethod
    def limit_vhost(self, name: str, limit: str, value: int) -> None:
        """Set a limit of a vhost."""

    @abstractmethod
    def limit_user(self, name: str, limit: str, value: int) -> None:
        """Set a limit of a user."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until the broker has counted who is there."""


class RabbitOperator(Operator):
    """Asks a RabbitMQ over HTTP."""

    def __init__(self, host: str, port: int) -> None:
        self._where = f"http://{host}:{port}/api"

    def _ask(self, method: str, *path: str, body: Any = None) -> None:
        where = "/".join([self._where, *(urllib.parse.quote(part, safe="") for part in path)])
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(where, data, method=method)
        known = base64.b64encode(b"guest:guest").decode()
        request.add_header("Authorization", f"Basic {known}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30):
                pass
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def user(self, name: str, tags: str = "") -> None:
        self._ask("PUT", "users", name, body={"password": name, "tags": tags})

    def delete_user(self, name: str) -> None:
        self._ask("DELETE", "users", name)

    def permit(self, vhost: str, configure: str, write: str, read: str, user: str = "u") -> None:
        body = {"configure": configure, "write": write, "read": read}
        self._ask("PUT", "permissions", vhost, user, body=body)

    def topics(self, exchange: str, write: str, read: str, user: str = "u") -> None:
        if not exchange:
            self._ask("DELETE", "topic-permissions", "/", user)
            return
        body = {"exchange": exchange, "write": write, "read": read}
        self._ask("PUT", "topic-permissions", "/", user, body=body)

    def vhost(self, name: str, **properties: str) -> None:
        self._ask("PUT", "vhosts", name, body=properties)

    def delete_vhost(self, name: str) -> None:
        self._ask("DELETE", "vhosts", name)

    def policy(self, pattern: str, **definition: str) -> None:
        settings = {key.replace("_", "-"): value for key, value in definition.items()}
        body = {"pattern": pattern, "definition": settings, "apply-to": "all"}
        self._ask("PUT", "policies", "/", next(iter(settings)), body=body)

    def limit_vhost(self, name: str, limit: str, value: int) -> None:
        self._ask("PUT", "vhost-limits", name, limit, body={"value": value})

    def limit_user(self, name: str, limit: str, value: int) -> None:
        self._ask("PUT", "user-limits", name, limit, body={"value": value})

    def settle(self) -> None:
        # It counts by events that it sends to itself.
        time.sleep(1)


class WarrenOperator(Operator):
    """Asks a Warren over its cluster listener."""

    def __init__(self, contact: Contact) -> None:
        self._contact = contact
        self._users: set[str] = set()

    def _ask(self, operation: str, **arguments: Any) -> None:
        status, _ = put_to(self._contact, operation, arguments, None, patient(30))
        assert status == 0, operation

    def user(self, name: str, tags: str = "") -> None:
        if name not in self._users:
            self._users.add(name)
            self._ask("add_user", name=name, password=name)
        self._ask("set_user_tags", name=name, tags=tags.split())

    def delete_user(self, name: str) -> None:
        self._ask("delete_user", name=name)

    def permit(self, vhost: str, configure: str, write: str, read: str, user: str = "u") -> None:
        patterns = {"configure": configure, "write": write, "read": read}
        self._ask("set_permissions", user=user, vhost=vhost, **patterns)

    def topics(self, exchange: str, write: str, read: str, user: str = "u") -> None:
        whose = {"user": user, "vhost": "/"}
        if exchange:
            patterns = {"exchange": exchange, "write": write, "read": read}
            self._ask("set_topic_permissions", **whose, **patterns)
        else:
            self._ask("clear_topic_permissions", **whose)

    def vhost(self, name: str, **properties: str) -> None:
        self._ask("add_vhost", name=name, **properties)

    def delete_vhost(self, name: str) -> None:
        self._ask("delete_vhost", name=name)

    def policy(self, pattern: str, **definition: str) -> None:
        settings = {key.replace("_", "-"): value for key, value in definition.items()}
        name = next(iter(settings))
        given = json.dumps(settings)
        self._ask("set_policy", vhost="/", name=name, pattern=pattern, definition=given)

    def limit_vhost(self, name: str, limit: str, value: int) -> None:
        self._ask("set_vhost_limits", vhost=name, definition=json.dumps({limit: value}))

    def limit_user(self, name: str, limit: str, value: int) -> None:
        self._ask("set_user_limits", user=name, definition=json.dumps({limit: value}))

    def settle(self) -> None:
        pass


def publish(exchange: str, key: str, **properties: Any) -> Request:
    """Publish one message, and see whether the channel is still there."""

    def request(channel: Channel) -> None:
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**properties))
        channel.basic_qos(0)

    return request


def transact(channel: Channel) -> None:
    """Publish one message in a transaction."""
    channel.tx_select()
    publish("e", "k")(channel)


def reject(queue: str) -> Request:
    """Get a message and reject it."""

    def request(channel: Channel) -> None:
        method, _, _ = channel.basic_get(queue)
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.basic_qos(0)

    return request


def topic_in_transaction(channel: Channel) -> None:
    """Publish with another's routing key in a transaction."""
    channel.tx_select()
    publish("e", "theirs")(channel)


def consume(queue: str) -> Request:
    """Begin to consume a queue."""
    return lambda channel: channel.basic_consume(queue, lambda *_: None, auto_ack=True)


AS_PATTERNS = {
    "a.c": ["abc"],
    ".*": ["k"],
    "a+": ["aa"],
    "(": ["k"],
    "x|y": ["x"],
    "{vhost}": ["/"],
    "a b-c&d~#": [],
}
"""Users whose names mean something in a pattern, and the keys that they would be found in."""
QUORUM = {"x-queue-type": "quorum"}
REPLIES = "amq.rabbitmq.reply-to"

REQUESTS: dict[str, Request] = {
    "queue.declare": lambda c: c.queue_declare("new", durable=True),
    "queue.declare of one that is there": lambda c: c.queue_declare(
        "q", durable=True, arguments=QUORUM
    ),
    "queue.declare, passive": lambda c: c.queue_declare("q", passive=True),
    "queue.declare, passive, missing": lambda c: c.queue_declare("none", passive=True),
    "queue.declare, reserved": lambda c: c.queue_declare("amq.new", durable=True),
    "queue.declare, replies": lambda c: c.queue_declare(REPLIES, passive=True),
    "queue.declare, dead letters": lambda c: c.queue_declare(
        "lettered", durable=True, arguments={"x-dead-letter-exchange": "ae"}
    ),
    "queue.declare, dead letters by default": lambda c: c.queue_declare(
        "other", durable=True, arguments={"x-dead-letter-exchange": ""}
    ),
    "queue.declare, dead letters to none": lambda c: c.queue_declare(
        "third", durable=True, arguments={"x-dead-letter-exchange": "none"}
    ),
    "queue.declare, dead letters of a wrong type": lambda c: c.queue_declare(
        "fourth", durable=True, arguments={"x-dead-letter-exchange": 5}
    ),
    "queue.declare of one that is there, dead letters": lambda c: c.queue_declare(
        "q", durable=True, arguments={**QUORUM, "x-dead-letter-exchange": "ae"}
    ),
    "queue.delete": lambda c: c.queue_delete("none"),
    "queue.purge": lambda c: c.queue_purge("q"),
    "queue.purge, missing": lambda c: c.queue_purge("none"),
    "queue.bind": lambda c: c.queue_bind("q", "e", "k"),
    "queue.bind, default": lambda c: c.queue_bind("q", "", "k"),
    "queue.bind, missing": lambda c: c.queue_bind("none", "none", "k"),
    "queue.unbind": lambda c: c.queue_unbind("q", "e", "k"),
    "exchange.declare": lambda c: c.exchange_declare("new", "topic", durable=True),
    "exchange.declare, no type": lambda c: c.exchange_declare("new", "x-nothing", durable=True),
    "exchange.declare, default": lambda c: c.exchange_declare("", "topic", durable=True),
    "exchange.declare, reserved": lambda c: c.exchange_declare("amq.new", "topic", durable=True),
    "exchange.declare, passive": lambda c: c.exchange_declare("e", passive=True),
    "exchange.declare, alternate": lambda c: c.exchange_declare(
        "alt", "topic", durable=True, arguments={"alternate-exchange": "ae"}
    ),
    "exchange.declare, alternate of a wrong type": lambda c: c.exchange_declare(
        "alt", "topic", durable=True, arguments={"alternate-exchange": 5}
    ),
    "exchange.declare, the default as alternate": lambda c: c.exchange_declare(
        "alt", "topic", durable=True, arguments={"alternate-exchange": ""}
    ),
    "exchange.delete": lambda c: c.exchange_delete("none"),
    "exchange.delete, reserved": lambda c: c.exchange_delete("amq.direct"),
    "exchange.delete, default": lambda c: c.exchange_delete(""),
    "exchange.bind": lambda c: c.exchange_bind("f", "e", "k"),
    "exchange.bind, default": lambda c: c.exchange_bind("", "e", "k"),
    "exchange.unbind": lambda c: c.exchange_unbind("f", "e", "k"),
    "basic.publish": publish("e", "k"),
    "basic.publish, default": publish("", "q"),
    "basic.publish, missing": publish("none", "k"),
    "basic.publish, internal": publish("amq.rabbitmq.trace", "k"),
    "basic.publish, CC": publish("", "x", headers={"CC": ["q"]}),
    "basic.publish, BCC": publish("e", "x", headers={"BCC": ["q"]}),
    "basic.publish, reply": publish("", f"{REPLIES}.x"),
    "basic.publish, wrong expiration": publish("e", "k", expiration="bad"),
    "basic.publish, transaction": transact,
    "basic.consume": consume("q"),
    "basic.consume, missing": consume("none"),
    "basic.consume, replies": consume(REPLIES),
    "basic.get": lambda c: c.basic_get("q", auto_ack=True),
}

TOPICS: dict[str, Request] = {
    "mine": publish("e", "mine"),
    "theirs": publish("e", "theirs"),
    "CC": publish("e", "mine", headers={"CC": ["theirs"]}),
    "BCC": publish("e", "mine", headers={"BCC": ["theirs"]}),
    "CC of theirs": publish("e", "theirs", headers={"CC": ["mine"]}),
    "transaction": topic_in_transaction,
    "the exchange's name in CC": publish("f", "mine", headers={"CC": ["theirs"]}),
    "wrong expiration": publish("e", "theirs", expiration="bad"),
    "another's user_id": publish("e", "mine", user_id="guest"),
    "both": publish("e", "theirs", user_id="guest"),
    "own user_id": publish("e", "mine", user_id="u"),
    "another exchange": publish("f", "theirs"),
    "queue.bind": lambda c: c.queue_bind("q", "e", "theirs"),
    "queue.bind, missing": lambda c: c.queue_bind("none", "e", "theirs"),
    "queue.unbind": lambda c: c.queue_unbind("q", "e", "theirs"),
    "exchange.bind": lambda c: c.exchange_bind("f", "e", "theirs"),
}

TYPES: dict[str, dict[str, Any]] = {
    "plain": {"durable": True},
    "exclusive": {"exclusive": True},
    "auto-delete": {"durable": True, "auto_delete": True},
    "classic": {"durable": True, "arguments": {"x-queue-type": "classic"}},
}


class Script:
    """Plays all of it to one broker.

    Attributes:
        said: What the broker said to each request, by name.
    """

    def __init__(self, host: str, port: int, operator: Operator) -> None:
        self.said: dict[str, str] = {}
        self._address = (host, port)
        self._operator = operator
        self._open: dict[tuple[str, str], Any] = {}

    def play(self) -> dict[str, str]:
        """Play it; gives what the broker said."""
        operator = self._operator
        operator.user("u")
        operator.permit("/", ALL, ALL, ALL)
        root = self._connect("guest").channel()
        root.queue_declare("q", durable=True, arguments=QUORUM)
        for name in ("e", "f", "ae"):
            root.exchange_declare(name, "topic", durable=True)
        for at, lacking in enumerate(PERMISSIONS):
            patterns = [ALL] * 3
            patterns[at] = NOTHING
            self._requests(f"without {lacking}", root, *patterns)
        self._requests("without any", root, *[NOTHING] * 3)
        for patterns in (
            ["^alt$", "^ae$", "^alt$"],
            ["^alt$", "", "^alt$"],
            ["^alt$", "^ae$", ""],
        ):
            operator.permit("/", *patterns)
            name = "exchange.declare, alternate"
            self._ask(f"{name} {patterns}", REQUESTS[name])
            root.exchange_delete("alt")
        operator.permit("/", ALL, ALL, ALL)
        self._detours(root)
        self._topics()
        self._tags()
        self._vhosts()
        self._types()
        connection = self._connect("u")
        operator.delete_user("u")
        self._note("user deleted", lambda: self._until_closed(connection))
        self._note("user gone", lambda: self._connect("u"))
        return self.said

    def _requests(self, situation: str, root: Channel, *patterns: str) -> None:
        self._operator.permit("/", *patterns)
        for name, request in REQUESTS.items():
            self._ask(f"{situation}: {name}", request)
        root.queue_delete("new")
        for name in ("lettered", "other", "third"):
            root.queue_delete(name)
        for name in ("new", "alt"):
            root.exchange_delete(name)

    def _detours(self, root: Channel) -> None:
        """What the user may not write to directly gets messages by ways that others made."""
        operator = self._operator
        root.queue_declare("kept", durable=True)
        root.queue_bind("kept", "ae", "#")
        operator.policy("^(dl|alternated)$", dead_letter_exchange="ae", alternate_exchange="ae")
        operator.settle()
        root.queue_declare("dl", durable=True)
        root.exchange_declare("alternated", "topic", durable=True)
        root.exchange_declare("bound", "topic", durable=True)
        root.exchange_bind("ae", "bound", "#")
        root.queue_declare("own", durable=True, arguments={"x-dead-letter-exchange": "ae"})
        operator.permit("/", "", "^(alternated|bound|amq.default)$", "^(dl|own)$")
        for exchange, key in (("alternated", "k"), ("bound", "k"), ("", "dl"), ("", "own")):
            self._ask(f"detours: publish to {exchange or key}", publish(exchange, key))
        for queue in ("dl", "own"):
            self._ask(f"detours: reject from {queue}", reject(queue))
        self._ask("detours: publish to the target", publish("ae", "k"))
        self._ask("detours: read from there", lambda c: c.basic_get("kept"))
        self._note_count("detours: arrived", root, "kept", 4)
        operator.permit("/", ALL, ALL, ALL)

    def _note_count(self, name: str, root: Channel, queue: str, wanted: int) -> None:
        """Note how many messages a queue gets to have, once it has so many or after a while."""
        end = time.monotonic() + patient(5)
        count = -1
        while count != wanted and time.monotonic() < end:
            count = root.queue_declare(queue, passive=True).method.message_count
            root.connection.sleep(0.02)
        self.said[name] = f"{count} messages"

    def _topics(self) -> None:
        operator = self._operator
        operator.topics("e", "^mine$", "^mine$")
        for name, request in TOPICS.items():
            self._ask(f"topics: {name}", request)
        operator.topics("e", "^{vhost}{username}$", "")
        self._ask("topics: variables", publish("e", "/u"))
        self._ask("topics: variables, another", publish("e", "u"))
        self._ask("topics: the empty pattern", REQUESTS["queue.bind"])
        operator.topics("", "", "")
        self._ask("topics: none any more", publish("e", "theirs"))
        for user, keys in AS_PATTERNS.items():
            operator.user(user)
            operator.permit("/", ALL, ALL, ALL, user)
            operator.topics("e", "^{username}$", "", user)
            for key in (user, *keys):
                self._ask(f"topics: user {user}, key {key}", publish("e", key), user=user)
            self._open.pop((user, "/")).close()
            operator.delete_user(user)

    def _tags(self) -> None:
        for tag in ("impersonator", "administrator", ""):
            self._operator.user("u", tag)
            self._drop()
            self._ask(f"tag {tag!r}: another's user_id", publish("e", "k", user_id="guest"))

    def _vhosts(self) -> None:
        operator = self._operator
        self._note("vhost missing", lambda: self._connect("u", "v"))
        operator.vhost("v")
        self._note("vhost without permissions", lambda: self._connect("u", "v"))
        operator.permit("v", ALL, ALL, ALL)
        for most in (1, 0):
            operator.limit_vhost("v", "max-queues", most)
            for name in ("a", "b"):
                self._declare(f"vhost of {most} queues: {name}", name, "v", durable=True)
        wrong = {"x-queue-type": "none"}
        self._declare("vhost full: wrong type", "c", "v", durable=True, arguments=wrong)
        operator.limit_vhost("v", "max-queues", -1)
        self._drop()
        operator.settle()
        first = self._connect("u", "v")
        operator.settle()
        for most in (1, 0):
            operator.limit_vhost("v", "max-connections", most)
            self._note(f"vhost of {most} connections", lambda: self._connect("u", "v"))
        operator.limit_user("u", "max-connections", 1)
        self._note("both limits", lambda: self._connect("u", "v"))
        self._note("limit of a user, no vhost", lambda: self._connect("u", "none"))
        operator.limit_vhost("v", "max-connections", -1)
        for most in (1, 0):
            operator.limit_user("u", "max-connections", most)
            self._note(f"user of {most} connections", lambda: self._connect("u", "v"))
        operator.limit_user("u", "max-connections", -1)
        operator.limit_user("u", "max-channels", 1)
        first.channel()
        operator.settle()
        self._note("user of 1 channel", first.channel)
        operator.limit_user("u", "max-channels", -1)
        operator.settle()
        last = self._connect("u", "v")
        last.channel().queue_declare("own", exclusive=True)
        operator.delete_vhost("v")
        self._note("vhost deleted", lambda: self._until_closed(last))
        self._note("vhost gone", lambda: self._connect("u", "v"))

    def _types(self) -> None:
        operator = self._operator
        operator.vhost("w", default_queue_type="quorum")
        operator.permit("w", ALL, ALL, ALL)
        for name, options in TYPES.items():
            self._declare(f"default quorum: {name}", name, "w", **options)
            again = {**options, "arguments": QUORUM}
            self._declare(f"default quorum: {name}, as quorum", name, "w", **again)
        self._declare("default quorum: unnamed", "", "w", durable=True)
        self._declare("default quorum: unnamed, exclusive", "", "w", exclusive=True)
        operator.delete_vhost("w")

    def _declare(self, name: str, queue: str, vhost: str, **options: Any) -> None:
        self._ask(name, lambda channel: channel.queue_declare(queue, **options), vhost)

    def _connect(self, user: str, vhost: str = "/") -> Any:
        credentials = pika.PlainCredentials(user, user)
        wait = patient(30)
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                *self._address,
                vhost,
                credentials,
                socket_timeout=wait,
                stack_timeout=wait,
                blocked_connection_timeout=wait,
            )
        )

    def _ask(self, name: str, request: Request, vhost: str = "/", user: str = "u") -> None:
        """Make a request on a channel of its own, and note what came of it."""
        connection = self._open.get((user, vhost))
        if connection is None or not connection.is_open:
            connection = self._open[(user, vhost)] = self._connect(user, vhost)

        def asked() -> None:
            channel = connection.channel()
            request(channel)
            channel.close()

        self._note(name, asked)

    def _drop(self) -> None:
        """Close the connections that requests are made on."""
        for connection in self._open.values():
            if connection.is_open:
                connection.close()
        self._open = {}

    def _note(self, name: str, done: Callable[[], object]) -> None:
        assert name not in self.said, name
        try:
            done()
            self.said[name] = "done"
        except ChannelClosedByBroker as error:
            self.said[name] = f"channel: {error.reply_code} {error.reply_text}"
        except ConnectionClosedByBroker as error:
            self.said[name] = f"connection: {error.reply_code} {error.reply_text}"
        except AMQPConnectionError as error:
            # Pika has what the broker said within its own words.
            found = re.fullmatch(r"ConnectionClosedByBroker: \((\d+)\) (.*)", str(error.args[0]))
            assert found is not None, error
            self.said[name] = f"connection: {found[1]} {ast.literal_eval(found[2])}"

    def _until_closed(self, connection: Any) -> None:
        end = time.monotonic() + patient(30)
        while time.monotonic() < end:
            connection.process_data_events(0.1)
        raise AssertionError("it is open yet")


def main() -> None:
    """Store what a RabbitMQ says."""
    host, _, port = sys.argv[1].rpartition(":")
    said = Script(host, int(port), RabbitOperator(host, int(port) + 10_000)).play()
    STORED.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(said)} answers")


if __name__ == "__main__":
    main()
