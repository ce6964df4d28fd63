"""The command `warren migrate`: moves messages from one broker to another, queue by queue.

A message is acknowledged where it was only when the other broker has confirmed it, so that none is
lost whatever ends the command; what was moved and not acknowledged yet is there twice then (at
least once). Queues have to be there: import the definitions first.

Messages come to their queue by the default exchange: what they were published to and with is not
kept. Headers `CC` are left out, which would bring them to other queues again, and so is `user_id`
where it is not the user's who moves them. An expiration begins anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from warren.admin.cli.words import INTERRUPTED, Parser, checked, examples
from warren.admin.printable import escaped
from warren.limits import SHORTSTR_BYTES_MAX

if TYPE_CHECKING:
    from warren.client import Channel, Delivery

NAME: Final = "warren migrate"
BATCH: Final = 500
"""Messages that are on their way at a time."""
QUIET_SECONDS: Final = 1.0
"""A queue that gives nothing for so long is looked at whether it is empty."""
TELL_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 30.0
"""A source that says that messages are ready, and gives none for so long, is given up."""


class NotMoved(Exception):
    """A queue cannot be moved, or not all of it."""


def add_command(commands: Any) -> None:
    """Define its words."""
    command: Parser = commands.add_parser(
        "migrate",
        help="move messages of queues from another broker to this one, or between any two",
        description="Move the messages of queues, each once the other broker has it safe.",
        epilog=examples(
            "warren migrate --from amqp://u:p@old/v --to amqp://u:p@new/v orders",
            "warren migrate --from amqp://old --to amqp://new --definitions d.json",
        ),
    )
    command.set_defaults(run=run)
    command.add_argument(
        "--from", dest="source", metavar="URI", required=True, help="broker, user and vhost"
    )
    command.add_argument("--to", dest="target", metavar="URI", required=True, help="the same")
    command.add_argument("queues", metavar="QUEUE", nargs="*")
    command.add_argument(
        "--definitions",
        metavar="FILE",
        help="exported definitions of the source: all queues of its vhost",
    )
    command.add_argument("--dry-run", action="store_true", help="say what there is, move nothing")
    command.add_argument(
        "--rate", metavar="N", type=checked(_rate), default=0, help="at most so many a second"
    )


def _rate(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise ValueError("a whole number from 1 to 1000000")
    return int(text)


def run(words: argparse.Namespace) -> int:
    """Move queues; returns the exit status: 0 done, 1 not all, 2 wrong words, 130 Ctrl-C."""
    from warren.client import AmqpError, connect
    from warren.client.uri import parse_uri
    from warren.errors import ConfigError

    try:
        source, target = parse_uri(words.source), parse_uri(words.target)
        if (source.host, source.port, source.vhost) == (target.host, target.port, target.vhost):
            return _complain("source and target are the same", 2)
        queues = _named(words, source.vhost)
    except (ConfigError, NotMoved) as error:
        return _complain(str(error), 2)
    status = 0
    for queue in queues:
        try:
            with (
                connect(words.source, NAME) as giving,
                connect(words.target, NAME) as taking,
            ):
                move = Migration(queue, giving.channel(), taking.channel(), target.user, words.rate)
                if words.dry_run:
                    print(f"{escaped(queue)}: {move.count()} messages")
                    continue
                try:
                    print(f"{escaped(queue)}: moved {move.all()} messages")
                except KeyboardInterrupt:
                    return _complain(
                        f"{queue}: ended with {move.moved} messages moved; the same command moves "
                        "the others, and what was under way may come twice",
                        INTERRUPTED,
                    )
        except (AmqpError, NotMoved, OSError) as error:
            status = _complain(f"{queue}: {error}", 1)
    return status


def _complain(text: str, status: int) -> int:
    # It may quote what a broker says, or a name.
    print(f"warren: {escaped(text)}", file=sys.stderr)
    return status


def _named(words: argparse.Namespace, vhost: str) -> list[str]:
    """The queues that are to be moved.

    Raises:
        NotMoved: None are named, or the file cannot be read.
    """
    names = list(words.queues)
    if words.definitions:
        try:
            with open(words.definitions, encoding="utf-8") as file:
                rows = json.load(file)["queues"]
            names += [row["name"] for row in rows if row.get("vhost", vhost) == vhost]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NotMoved(f"{words.definitions}: no definitions: {error}") from None
    if not names:
        raise NotMoved("name queues, or --definitions")
    for name in names:
        if not isinstance(name, str) or not is_name(name):
            raise NotMoved(f"{str(name)[:80]!r} is no name of a queue: a text of 1 to 255 bytes")
    return list(dict.fromkeys(names))


def is_name(text: str) -> bool:
    """Whether a queue can have this name."""
    try:
        return 0 < len(text.encode("utf-8", "surrogateescape")) <= SHORTSTR_BYTES_MAX
    except UnicodeEncodeError:
        return False


class Migration:
    """Moves one queue.

    Attributes:
        moved: Messages that the target has confirmed.
    """

    def __init__(self, queue: str, source: Channel, target: Channel, user: str, rate: int) -> None:
        self.moved = 0
        self._queue = queue
        self._source = source
        self._target = target
        self._user = user
        self._rate = rate
        self._tag = 0
        """That of the last message that came."""
        source.unread_max = BATCH

    def count(self) -> int:
        """How many messages are ready at the source; the queue has to be at both."""
        self._target.queue_declare(self._queue, passive=True)
        return self._source.queue_declare(self._queue, passive=True).messages

    def all(self) -> int:
        """Move until the source has none left; how many were moved.

        Raises:
            NotMoved: The target refused or returned some, or the source does not give what it says
                it has; they are still there.
        """
        self.count()
        self._target.confirm_select()
        self._source.qos(BATCH)
        tag = self._source.consume(self._queue)
        began = told = given = monotonic()
        while True:
            batch = self._source.receive(BATCH, QUIET_SECONDS)
            if not batch:
                left = self.count()
                if left == 0:
                    break
                if monotonic() - given > SILENT_SECONDS:
                    raise NotMoved(
                        f"the source says that {left} messages are ready and has given none for "
                        f"{SILENT_SECONDS:.0f} s; {self.moved} were moved. Stop its other "
                        "consumers: one of them may be the active one, or go first"
                    )
                continue
            self._move(batch)
            now = given = monotonic()
            if now - told >= TELL_SECONDS:
                told = now
                name, left = escaped(self._queue), self.count()
                print(f"{name}: {self.moved} moved, {left} wait", file=sys.stderr)
            ahead = began + self.moved / self._rate - now if self._rate else 0.0
            if ahead > 0:
                sleep(ahead)
        self._source.cancel(tag)
        return self.moved

    def _move(self, batch: list[Delivery]) -> None:
        """Have the target confirm messages, then acknowledge them."""
        target = self._target
        for message in batch:
            if message.delivery_tag <= self._tag:
                raise NotMoved(
                    f"the source gives delivery tag {message.delivery_tag} after {self._tag}; "
                    f"{self.moved} messages were moved"
                )
            self._tag = message.delivery_tag
        for message in batch:
            properties = clean(message, self._user)
            target.publish("", self._queue, message.body, properties, mandatory=True)
        refused = target.wait_for_confirms()
        last = batch[-1].delivery_tag
        if refused or target.returned:
            self._source.nack(last, multiple=True, requeue=True)
            self._source.flush()
            why = "refused" if refused else "has no such queue any more for"
            count = len(refused) or len(target.returned)
            raise NotMoved(f"the target {why} {count} messages; they stay where they are")
        self._source.ack(last, multiple=True)
        self._source.flush()
        self.moved += len(batch)


def clean(message: Delivery, user: str) -> bytes:
    """The properties that a message is moved with."""
    found = message.decoded()
    headers = found.headers
    if (headers is None or "CC" not in headers) and found.user_id in (None, user):
        return message.properties
    if headers is not None:
        found.headers = {name: value for name, value in headers.items() if name != "CC"}
    if found.user_id != user:
        found.user_id = None
    return found.encode()
