"""The commands `warren declare`, `publish` and `get`: a broker at work, without a program.

They are AMQP clients as any other, with the broker and the user that `--uri` names.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from warren.admin.cli.words import Parser, checked, examples
from warren.queue_types import CLASSIC, QUORUM

if TYPE_CHECKING:
    from warren.client import AmqpError, Channel, Delivery

URI = "amqp://guest:guest@localhost:5672/%2F"
COUNT_MAX = 1_000_000
NAME = "warren command"
"""What the connection calls itself."""


def add_commands(commands: Any) -> None:
    """Define the words of the three commands."""
    declare = _command(
        commands,
        "declare",
        "create a queue, or see that it is there",
        examples("warren declare orders", "warren declare log --type classic"),
    )
    declare.add_argument("queue", metavar="QUEUE")
    declare.add_argument(
        "--type",
        choices=(QUORUM.name, CLASSIC.name),
        default=QUORUM.name,
        help="quorum: replicated in a cluster; classic: on one node (default: quorum)",
    )
    publish = _command(
        commands,
        "publish",
        "publish a message and wait until the broker has it safe",
        examples(
            "warren publish orders 'three carrots'",
            "warren publish --exchange amq.topic orders.new - < order.json",
            "warren publish orders carrot --count 1000",
        ),
    )
    publish.add_argument("key", metavar="KEY", help="routing key; without --exchange, the queue")
    publish.add_argument("body", metavar="BODY", help="the message; - takes the standard input")
    publish.add_argument("--exchange", default="", help="where to publish (default: to the queue)")
    _count(publish, "publish it so many times")
    get = _command(
        commands,
        "get",
        "take messages out of a queue and print them",
        examples("warren get orders", "warren get orders --count 10 --requeue --json"),
    )
    get.add_argument("queue", metavar="QUEUE")
    _count(get, "take so many, or as many as there are")
    get.add_argument(
        "--requeue",
        action="store_true",
        help="put them back; that counts as a delivery of each",
    )
    get.add_argument("--json", action="store_true", help="print them in JSON, one a line")


def _command(commands: Any, name: str, text: str, ending: str) -> Parser:
    command: Parser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=ending
    )
    shown = URI.replace("%", "%%")
    command.set_defaults(run=run)
    command.add_argument("--uri", default=URI, help=f"broker, user and vhost (default: {shown})")
    return command


def _count(command: Parser, text: str) -> None:
    command.add_argument(
        "--count", metavar="N", type=checked(parse_count), default=1, help=f"{text} (default: 1)"
    )


def parse_count(text: str) -> int:
    """How many messages.

    Raises:
        ValueError: It is no such number; says what is allowed.
    """
    if not text.isdecimal() or not 1 <= int(text) <= COUNT_MAX:
        raise ValueError(f"a whole number from 1 to {COUNT_MAX}")
    return int(text)


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    from warren.client import AmqpError, connect
    from warren.errors import ConfigError

    try:
        with connect(words.uri, NAME) as connection:
            return ACTIONS[words.command](connection.channel(), words)
    except ConfigError as error:
        # The URI itself may have a password in it.
        return complain(f"{error}; see --uri", 2)
    except AmqpError as refusal:
        return complain(why(refusal, words), 1)
    except TimeoutError as late:
        return complain(f"{where(words.uri)} does not answer: {late}", 1)
    except OSError as lost:
        return complain(
            f"no broker answers at {where(words.uri)} ({lost.strerror or lost}): start one with "
            "'warren server', or name another with --uri",
            1,
        )


def declare_queue(channel: Channel, words: argparse.Namespace) -> int:
    """Create a queue."""
    counts = channel.queue_declare(
        words.queue, durable=True, arguments={"x-queue-type": words.type}
    )
    print(
        f"{words.type} queue '{counts.name}': {counts.messages} ready, {counts.consumers} consumers"
    )
    return 0


def publish(channel: Channel, words: argparse.Namespace) -> int:
    """Publish a message, as often as is wanted, and wait for all confirms."""
    from warren.client import PERSISTENT

    body = sys.stdin.buffer.read() if words.body == "-" else words.body.encode()
    target = f"exchange '{words.exchange}' with key" if words.exchange else "queue"
    refused = channel.publish_many(
        words.exchange, words.key, [body] * words.count, PERSISTENT, mandatory=True
    )
    if channel.returned:
        if not words.exchange:
            return complain(
                f"there is no queue '{words.key}': 'warren declare {words.key}' creates it", 1
            )
        return complain(f"no queue takes messages from {target} '{words.key}'", 1)
    if refused:
        return complain(f"the broker refused {len(refused)} of {words.count} messages", 1)
    what = "1 message" if words.count == 1 else f"{words.count} messages"
    print(f"{what} to {target} '{words.key}', confirmed")
    return 0


def get(channel: Channel, words: argparse.Namespace) -> int:
    """Take messages, print each, and only then let go of it."""
    for number in range(words.count):
        delivery = channel.get(words.queue)
        if delivery is None:
            if number:
                break
            return complain(f"queue '{words.queue}' is empty", 1)
        print(as_json(delivery) if words.json else as_text(delivery), flush=True)
        if not words.requeue:
            channel.ack(delivery.delivery_tag)
    if words.requeue:
        # Together and at last: one that is put back at once would be the next to be taken.
        channel.nack(delivery_tag=0, multiple=True, requeue=True)
    channel.close()
    return 0


def as_text(delivery: Delivery) -> str:
    """A message under a line that says where it comes from."""
    again = ", delivered before" if delivery.redelivered else ""
    source = f"exchange '{delivery.exchange}', key" if delivery.exchange else "key"
    left = f"{delivery.remaining} left"
    head = f"--- {source} '{delivery.routing_key}', {len(delivery.body)} bytes{again}, {left}"
    return f"{head}\n{delivery.body.decode('utf-8', 'backslashreplace')}"


def as_json(delivery: Delivery) -> str:
    """A message as one line of JSON; a body that is no text stands there in hex."""
    row: dict[str, object] = {
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "redelivered": delivery.redelivered,
        "remaining": delivery.remaining,
    }
    try:
        row["body"] = delivery.body.decode()
    except UnicodeDecodeError:
        row["body_hex"] = delivery.body.hex()
    return json.dumps(row)


ACTIONS = {"declare": declare_queue, "publish": publish, "get": get}


def complain(text: str, status: int) -> int:
    """Say what went wrong; returns the exit status."""
    print(f"warren: {text}", file=sys.stderr)
    return status


def where(uri: str) -> str:
    """The broker that a URI names, without the password in it."""
    from warren.client.uri import parse_uri

    address = parse_uri(uri)
    return f"{address.host}:{address.port}"


def why(refusal: AmqpError, words: argparse.Namespace) -> str:
    """What a broker's refusal means, in plain words where they are known."""
    from warren.client import ConnectionException
    from warren.client.uri import parse_uri

    address = parse_uri(words.uri)
    if isinstance(refusal, ConnectionException):
        if refusal.code == 403:
            return (
                f"the broker at {where(words.uri)} refuses user '{address.user}' or the password; "
                "user guest may connect from the broker's own machine only"
            )
        if refusal.code == 530:
            return f"the broker at {where(words.uri)} refuses vhost '{address.vhost}': {refusal}"
    elif refusal.code == 404 and "no queue" in str(refusal):
        name = words.queue if "queue" in words else words.key
        return f"there is no queue '{name}': 'warren declare {name}' creates it"
    return f"the broker refuses: {refusal}"
