"""Letters of a replay that the user who sends it may not send.

A letter may name the user who published it (`user_id`), and a broker takes it of no other one, but
for those who may speak for anybody. Which letters these are is written down before the first is
sent, and holds for the whole replay, by which user it may be gone on with::

    <folder>/replays/<id>/left_out.jsonl    first who sends; then a line for each that is left out

Those are in no replay: later ones may choose them.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from warren.pipeline.layout import VERSION, PipelineError, check_version
from warren.spark.archive import publish
from warren.spark.claims import REMEDY, Claims

LEFT_OUT: Final = "left_out.jsonl"

#: Users that a text names.
_NAMED_MAX: Final = 10

Claimed = Callable[[pa.RecordBatch], Iterator[str | None]]
"""The user whom each row of a batch names, or None."""


@dataclass
class LeftOut:
    """Which letters are not sent.

    Attributes:
        user: Who began to send, for whom that was found out.
        rows: By batch, the places in it of those that are left out.
        users: How many letters name which user.
    """

    user: str = ""
    rows: dict[int, list[int]] = field(default_factory=dict)
    users: Counter[str] = field(default_factory=Counter)

    @property
    def letters(self) -> int:
        """How many they are."""
        return sum(self.users.values())

    def within(self, batches: int) -> int:
        """How many they are in the first batches."""
        return sum(len(rows) for batch, rows in self.rows.items() if batch < batches)

    def kept(self, batch: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """What of a batch is sent."""
        left = self.rows.get(batch)
        if not left:
            return rows
        mask = [True] * rows.num_rows
        for row in left:
            mask[row] = False
        return rows.filter(pa.array(mask))

    def why(self) -> str:
        """What is not sent and what would help, as a sentence."""
        return (
            f"{self.letters:,} letters are left out: they name {named(self.users)} in 'user_id', "
            f"and user {self.user!r} may not; {REMEDY} (--set user_id=NULL)"
        )


def named(users: Counter[str]) -> str:
    """Users, and how many letters name each."""
    some = [f"{user!r} ({count:,})" for user, count in users.most_common(_NAMED_MAX)]
    more = f" and {len(users) - _NAMED_MAX} more" if len(users) > _NAMED_MAX else ""
    return f"{', '.join(some)}{more}"


def expectation(claims: Iterable[tuple[str, int]], user: str) -> str:
    """What a dry run says of letters that name other users; empty if none does.

    Args:
        claims: Users that letters name, and how many do.
        user: Who is going to send them.
    """
    others = Counter({claimed: count for claimed, count in claims if claimed != user})
    if not others:
        return ""
    return (
        f"{others.total():,} of them name {named(others)} in 'user_id': {REMEDY} "
        f"(--set user_id=NULL); user {user!r} leaves them out, unless it is such a one"
    )


def read_left_out(folder: Path) -> LeftOut | None:
    """What a replay leaves out; None while that is not known: nothing was sent.

    Raises:
        PipelineError: It is damaged, or of a later release.
    """
    file = folder / LEFT_OUT
    if not file.exists():
        return None
    found = LeftOut()
    try:
        with file.open(encoding="utf-8") as lines:
            head = json.loads(next(lines, "{}"))
            check_version(head, file)
            found.user = str(head["user"])
            for line in lines:
                said = json.loads(line)
                found.rows.setdefault(int(said["batch"]), []).append(int(said["row"]))
                found.users[str(said["user_id"])] += 1
    except (OSError, ValueError, LookupError) as error:
        raise PipelineError(f"{file} cannot be read: {error}") from None
    return found


def decide_left_out(
    folder: Path,
    batches: Iterator[tuple[int, pa.RecordBatch]],
    claimed: Claimed,
    claims: Claims,
    facts: dict[str, Any],
) -> LeftOut:
    """Find out what is left out, and write that down, before anything is sent.

    Args:
        batches: All of the replay, with their numbers.
        facts: Of who and when, for each line.
    """
    attempt = folder / f"_{uuid.uuid4().hex}.tmp"
    try:
        with attempt.open("w", encoding="utf-8") as out:
            print(json.dumps({"version": VERSION, **facts, "user": claims.user}), file=out)
            for number, rows in batches:
                for row, user in enumerate(claimed(rows)):
                    if user is None or claims.allows(user):
                        continue
                    which = rows.slice(row, 1).select(
                        ["letter_queue", "incarnation", "offset", "sent_id"]
                    )
                    told = which.to_pylist()[0]
                    told["message_id"] = told.pop("sent_id")
                    why = f"it names user {user!r}, and user {claims.user!r} may not"
                    line = {"batch": number, "row": row, **facts, **told, "user_id": user}
                    print(json.dumps({**line, "why": why}), file=out)
        publish(attempt, folder / LEFT_OUT)
    finally:
        attempt.unlink(missing_ok=True)
    found = read_left_out(folder)
    assert found is not None, "it was just written"
    return found


def check_sender(
    left: LeftOut, batches: Iterator[tuple[int, pa.RecordBatch]], claimed: Claimed, claims: Claims
) -> None:
    """See whether another user than the one who began may send what is to come.

    Args:
        batches: Those that are not sent.

    Raises:
        PipelineError: Some name a user whom only the one who began may name.
    """
    if left.user == claims.user:
        return
    users: Counter[str] = Counter()
    for number, rows in batches:
        for user in claimed(left.kept(number, rows)):
            if user is not None and not claims.allows(user):
                users[user] += 1
    if users:
        raise PipelineError(
            f"user {left.user!r} began to send this, with letters that name {named(users)} in "
            f"'user_id', which user {claims.user!r} may not: go on as that user"
        )
