"""A group takes a checkout again that its lease ran out with, if nobody had any of it since.

When the lease ran out all messages of the checkout went back, and each counts one return more.
Those that are ready and count just that many were with nobody else meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.queues.fifo.effects import RETURNING, SCATTERED, GoneReply, LeaseReply, Reply
from warren.queues.fifo.groups import Checkout, Group
from warren.queues.fifo.pieces import count_of, opened
from warren.queues.fifo.runs import (
    Run,
    RunQueue,
    as_run,
    common_runs,
    first_of,
    merge_pairs,
    without,
)

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo

LOOKED_AT_MAX: Final = 1 << 14
"""Where more runs are ready, nothing is looked for among them: that would take a turn too long."""


def retake(fifo: Fifo, group: Group, number: i64) -> Reply:
    """Replies the open checkout of a number, or has it be open again.

    Otherwise nothing changes, and the reply says why; see `look`.
    """
    reply = look(fifo, group, number)
    if reply is not None:
        return reply
    lapsed = group.find_lapsed(number)
    assert lapsed is not None, "there is something to take again"
    messages = RunQueue()
    for run in lapsed.messages.runs():
        messages.push(run.first, run.first + run.count - 1, run.acquired + 1, run.failed + 1)
    fifo.ready.cut_out(merge_pairs(_pairs(lapsed)))
    fifo.held += messages.count
    checkout = group.retaken(lapsed, messages, fifo.now_ms)
    if fifo.feed is not None:
        fifo.feed.read(group.name, messages.freeze())
    return LeaseReply(number, messages.count, checkout)


def look(fifo: Fifo, group: Group, number: i64) -> Reply | None:
    """What a retake is answered that changes nothing; None if the checkout would be open again.

    It is open already, or the group knows of no such checkout (it has no messages then), some are
    still on their way back (`RETURNING`), too much is ready to look (`SCATTERED`), or some are gone
    (`GoneReply`).
    """
    found = group.first_open(number - 1)
    if found is not None and found.number == number:
        return LeaseReply(number, found.messages.count, found)
    lapsed = group.find_lapsed(number)
    if lapsed is None:
        return LeaseReply(number, 0, None)
    if fifo.coming.count > 0:
        return Reply(RETURNING)
    ready = fifo.ready.freeze()
    if count_of(ready) + count_of(lapsed.messages.freeze()) > LOOKED_AT_MAX:
        return Reply(SCATTERED)
    wanted = _pairs(lapsed)
    counters: dict[int, tuple[int, int]] = {}
    for run in lapsed.messages.runs():
        counters[int(run.first)] = (int(run.acquired) + 1, int(run.failed) + 1)
    there: list[tuple[int, int]] = []
    for pieces in ready:
        for piece in opened(pieces):
            run = as_run(piece)
            if run.acquired > 0:
                _untouched(run, wanted, counters, there)
    gone = without(wanted, merge_pairs(there))
    return GoneReply(gone) if gone else None


def counted_runs(fifo: Fifo) -> list[Run]:
    """The ready messages of all checkouts that may be taken again, with their counters.

    They ascend. Where there is too much to look at, some are left out.
    """
    lapsed: list[Run] = []
    for group in fifo.groups.values():
        for checkout in group.lapsed:
            if len(lapsed) + count_of(checkout.messages.freeze()) > LOOKED_AT_MAX:
                break
            lapsed.extend(checkout.messages.runs())
    found: list[Run] = []
    ready = fifo.ready.freeze() if lapsed else []
    if count_of(ready) > LOOKED_AT_MAX:
        return found
    returned = [as_run(piece) for pieces in ready for piece in opened(pieces)]
    returned = [run for run in returned if run.acquired > 0]
    returned.sort(key=first_of)
    for run in lapsed:
        for part in common_runs(returned, run):
            if part.acquired == run.acquired + 1 and part.failed == run.failed + 1:
                found.append(part)
    found.sort(key=first_of)
    return found


def _pairs(checkout: Checkout) -> list[tuple[int, int]]:
    """The runs of a checkout by their first and last numbers, sorted."""
    return sorted(
        [(int(run.first), int(run.first + run.count - 1)) for run in checkout.messages.runs()]
    )


def _untouched(
    run: Run,
    wanted: list[tuple[int, int]],
    counters: dict[int, tuple[int, int]],
    there: list[tuple[int, int]],
) -> None:
    """Note which messages of a run are wanted, and came back as often as they are to have."""
    first = int(run.first)
    last = int(run.first + run.count - 1)
    times = (int(run.acquired), int(run.failed))
    low = 0
    high = len(wanted)
    while low < high:
        middle = (low + high) // 2
        if wanted[middle][1] < first:
            low = middle + 1
        else:
            high = middle
    while low < len(wanted) and wanted[low][0] <= last:
        begin, end = wanted[low]
        if counters[begin] == times:
            there.append((max(first, begin), min(last, end)))
        low += 1
