"""What an events feed tells was so, and what it leaves out it says.

- A block is one that the product's own reader takes, of a node and a life that there were, and a
  number of a life is one block for ever.
- Rows name queues by names that these had.
- No block between two others of a life is missing where the feed's queue keeps all of them, and
  nobody has emptied it.
- Of a queue, a life tells from where it says that it leads, and nothing before. From there on a
  message is published before anything else happens to it, confirmed once, handed out for the first
  time once, and is acked, returned or rejected by whoever has it; it ends once. This holds up to a
  block that is missing, or to rows that were left out.
- Of quorum queues in clusters nothing is told that the entries which are committed do not say
  (`sim.cluster.handed`), also over several leaders: what came, how large, and when; nor that
  somebody acked what no client settled.
- When nothing goes wrong no row is left out.

Source: docs/formats/feed.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, final

from sim.checkers import Checker
from sim.model import RETURNED, ROLLED_BACK, UNCOMMITTED, WAITING, Message, Violation
from warren.node.node import Node
from warren.spark.feed import FeedError, decode

if TYPE_CHECKING:
    from sim.cluster.handed import Handed
    from sim.stage import Stage

Row = dict[str, Any]

READERS: Final = 0
"""In the place of a consumer: a group of readers, which may take again what it was done with."""
SETTLING: Final = ("acked", "returned", "rejected")
ENDING: Final = ("acked", "dropped", "dead_lettered")
NEVER_CAME: Final = (RETURNED, ROLLED_BACK, UNCOMMITTED)


ORDER: Final = ("leading", "published", "confirmed", "delivered")
"""Of what happened in one block these come first, however its rows lie; a first delivery of a
message before another one."""


def _place(row: Row) -> tuple[int, bool]:
    """Where a row stands among those of its block."""
    event = row["event"]
    place = ORDER.index(event) if event in ORDER else len(ORDER)
    return place, row["reason"] == "redelivered"


def numbers_of(row: Row) -> range:
    """The numbers of the messages of a row."""
    first, step = int(row["first_offset"]), int(row["step"])
    return range(first, first + int(row["count"]) * step, step)


@final
class Life:
    """The blocks of one life of a node.

    Attributes:
        node: Its name.
        blocks: By number, their bytes and rows.
        calm: The first of them that was written when nothing went wrong any more; 0 for none.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.blocks: dict[int, tuple[bytes, list[Row]]] = {}
        self.calm = 0


@final
class Story:
    """What one life tells of one queue, row by row."""

    def __init__(self, who: str, whole: bool) -> None:
        self._begun = False
        self._whole = whole
        self._who = who
        self._from = 0
        """Of the messages from this one on everything was told."""
        self._published: set[int] = set()
        self._confirmed: set[int] = set()
        self._handed: Counter[tuple[int, int]] = Counter()
        self._seen: set[int] = set()
        self._done: Counter[tuple[int, int]] = Counter()
        self._ended: dict[int, str] = {}

    def cut(self) -> None:
        """Something is missing before what comes: the next leader's row begins anew."""
        self._begun = self._whole = False

    def take(self, row: Row) -> None:
        """The next row.

        Raises:
            Violation: It does not fit those before it.
        """
        event = row["event"]
        if event == "leading":
            self._lead(int(row["first_offset"]))
        elif self._begun:
            for number in numbers_of(row):
                self._happened(event, number, row)
        elif self._whole:
            self._complain(f"that messages are {event}, and not that it leads")

    def _lead(self, first: int) -> None:
        if any(number >= first for number in self._published):
            self._complain(f"to lead from message {first} on, and had told of later ones")
        self._begun = True
        self._from = first

    def _happened(self, event: str, number: int, row: Row) -> None:
        consumer = row["consumer"]
        if event == "published":
            if number in self._published:
                self._complain(f"that message {number} is published twice")
            self._published.add(number)
        elif event == "confirmed":
            if number in self._confirmed:
                self._complain(f"that message {number} is confirmed twice")
            self._confirmed.add(number)
        if number < self._from:
            return
        if number not in self._published:
            self._complain(f"that message {number} is {event}, and was never published")
        if event == "delivered":
            self._deliver(number, consumer, row["reason"])
        elif event in SETTLING:
            self._done[number, consumer] += 1
            if self._done[number, consumer] > self._handed[number, consumer]:
                self._complain(f"that consumer {consumer} has {event} message {number}, had not")
        if event in ENDING and consumer != READERS:
            before = self._ended.get(number)
            # What waits at its dead-letter exchange may go from there.
            if before is not None and (before, event) != ("dead_lettered", "dropped"):
                self._complain(f"that message {number} is {event}, and that it was {before}")
            self._ended[number] = event

    def _deliver(self, number: int, consumer: int, reason: str | None) -> None:
        if consumer != READERS and (number in self._seen) != (reason == "redelivered"):
            self._complain(f"that message {number} is handed to {consumer}, reason {reason}")
        self._seen.add(number)
        self._handed[number, consumer] += 1

    def _complain(self, what: str) -> None:
        raise Violation(f"{self._who} tells {what}")


@final
class ToldChecker(Checker):
    """See the module's head.

    Attributes:
        calm: Whether nothing goes wrong any more.
        sure: Whether the feed's queue keeps all blocks.
        cleared: Whether somebody emptied or deleted that, or blocks may be lost on their way there.
        lives: By the number that blocks have of them.
    """

    def __init__(self, world: Stage, sure: bool, cleared: bool) -> None:
        super().__init__(world)
        self.calm = False
        self.sure = sure
        self.cleared = cleared
        self.lives: dict[int, Life] = {}
        self._nodes: dict[int, str] = {}
        """Lives of nodes, by their sessions."""
        self._names: dict[int, str] = {}
        """Queues that ever were, by group."""
        self._applied: dict[str, int] = {}

    def watch(self, node: Node) -> None:
        """Look at which life a node lives, and at which queues there are."""
        name, session = node.settings.node_name, int(node.cluster.session)
        if session:
            self._nodes[session] = name
        applied = int(node.metadata.applied_index)
        if self._applied.get(name) == applied:
            return
        self._applied[name] = applied
        for tables in node.metadata.vhosts.values():
            for record in tables.queues_in_order():
                self._names[int(record.group_id)] = record.name

    def read(self, value: bytes) -> None:
        """A message of the feed's queue came to a client; it may come again.

        Raises:
            Violation: It is no block, or says what cannot be.
        """
        try:
            rows: list[Row] = decode(value).to_pylist()
        except FeedError as error:
            raise Violation(f"the feed has what is no block: {error}") from error
        if not rows:
            raise Violation("the feed has a block without rows")
        life, number, node = rows[0]["life"], rows[0]["block"], rows[0]["node"]
        if self._nodes.get(life) != node or rows[0]["vhost"] != "/":
            raise Violation(f"a block is of life {life} of {node}, which there was not")
        known = self.lives.setdefault(life, Life(node))
        before = known.blocks.setdefault(number, (value, rows))
        if before[0] != value:
            raise Violation(f"{node} in life {life} has told two blocks of number {number}")
        if before[1] is not rows:
            return
        self.world.count("blocks of feeds")
        self.world.count("rows of feeds", len(rows))
        if self.calm and not known.calm:
            known.calm = number
        for row in rows:
            self._check_queue(node, row)

    def _check_queue(self, node: str, row: Row) -> None:
        name, incarnation = row["queue"], row["incarnation"]
        if name is not None and self._names.get(incarnation) != name:
            raise Violation(
                f"{node} tells of queue {name} of group {incarnation}, which is "
                f"{self._names.get(incarnation)}"
            )

    def of_queue(self, name: str) -> list[Row]:
        """What was told of a queue, in no order."""
        return [
            row
            for life in self.lives.values()
            for _, rows in life.blocks.values()
            for row in rows
            if row["queue"] == name
        ]

    def finished(self) -> None:
        """Go through all that was told, life by life and block by block."""
        for number, life in sorted(self.lives.items()):
            self._go_through(number, life)

    def _go_through(self, number: int, life: Life) -> None:
        stories: dict[int, Story] = {}
        last, left_out, whole = 0, 0, True
        for block, (_, rows) in sorted(life.blocks.items()):
            missing, lacking = block - last - 1, rows[0]["left_out"] - left_out
            if missing or lacking:
                self.world.count("gaps in feeds")
                whole = False
                calm = 0 < life.calm < block
                if self.sure and ((missing and not self.cleared) or calm):
                    raise Violation(
                        f"{missing} blocks of {life.node} before {block} in life {number} are "
                        f"missing, and {lacking} rows"
                    )
                for story in stories.values():
                    story.cut()
            if lacking < 0:
                raise Violation(f"{life.node} leaves out fewer rows in block {block} than before")
            last, left_out = block, rows[0]["left_out"]
            for row in sorted(rows, key=_place):
                incarnation = row["incarnation"]
                if incarnation is None:
                    continue
                if incarnation not in stories:
                    who = f"{life.node} in life {number} of queue {row['queue']}"
                    stories[incarnation] = Story(who, whole)
                stories[incarnation].take(row)

    def check_committed(self, groups: dict[int, Handed]) -> None:
        """Compare what was told with what is committed.

        Args:
            groups: By number, those of quorum queues all of whose entries are known.

        Raises:
            Violation: Something was told that is not, or oftener.
        """
        told: Counter[tuple[int, str, int, int]] = Counter()
        for life in self.lives.values():
            for _, rows in life.blocks.values():
                for row in rows:
                    if row["incarnation"] in groups and row["event"] == "published":
                        self._check_arrival(row, groups[row["incarnation"]])
                    if row["incarnation"] in groups and row["event"] != "leading":
                        consumer = -1 if row["consumer"] is None else row["consumer"]
                        for number in numbers_of(row):
                            told[row["incarnation"], row["event"], number, consumer] += 1
        for (group_id, event, number, consumer), times in sorted(told.items()):
            most = groups[group_id].most(event, number, consumer)
            if times > most:
                raise Violation(
                    f"message {number} of {self._names[group_id]} is {event} {times} times, by "
                    f"{consumer}, as is told, and {most} times in the log of the queue"
                )
            found = self.world.messages.get(groups[group_id].ids.get(number, 0))
            if found is not None:
                self._check_client(found, self._names[group_id], event)
        self.world.count("events of feeds compared", len(told))

    def _check_arrival(self, row: Row, handed: Handed) -> None:
        """What is told of messages' sizes, and of when they came, beside what is committed."""
        numbers = numbers_of(row)
        if any(number not in handed.sizes for number in numbers):
            return  # that they never came is told below
        size = sum(handed.sizes[number] for number in numbers)
        times = {handed.times[number] for number in numbers}
        told_ms = round(row["time"].timestamp() * 1_000)
        if row["bytes"] != size or times != {told_ms}:
            raise Violation(
                f"messages {numbers} of {row['queue']} have {row['bytes']} bytes and came at "
                f"{told_ms}, as is told, and {size} and {sorted(times)} in the log of the queue"
            )

    def _check_client(self, message: Message, queue: str, event: str) -> None:
        """What is told of a message, beside what clients know of it."""
        if message.status in NEVER_CAME or message.life < 0:
            raise Violation(f"{message} is {event} in queue {queue}, as is told")
        for copy in message.copies:
            if copy.queue.name == queue and event == "acked" and copy.settled == WAITING:
                raise Violation(f"{message} is acked in queue {queue}, as is told, and nobody did")
