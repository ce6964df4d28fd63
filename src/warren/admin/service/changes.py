"""Changes of the members of many quorum queues at once, in slices and with a bound under way.

What became of a queue is known when it has come about, or when `WAIT_SECONDS` are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warren.admin.service.rows import ChangeResult, MemberChange
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.waiting import Awaited, until, until_all
from warren.errors import PRECONDITION_FAILED, Refusal
from warren.limits import CHANGES_AT_ONCE_MAX
from warren.metadata.commands import SetMembers
from warren.metadata.member_checks import delete_member, voters
from warren.metadata.outcome import Outcome
from warren.metadata.tables import QueueRecord

SETTLE_SECONDS = 5.0
"""For queues to have a leader, and for changes that are under way to end."""
WAIT_SECONDS = 20.0
"""For the members of queues to be as asked."""
ASK_AGAIN_SECONDS = 0.5
"""For the copies of a queue to say how far they are, before they are asked once more."""

CROWDED = "the changes of other queues before it have not come into force; ask once more"
CHANGED = "its members were changed meanwhile; ask once more"
DELETED = "it was deleted"
UNKNOWN = "the operation timed out and may not have been completed"

Wanted = Callable[[QueueRecord], SetMembers | None]
"""What to change of a queue; None if nothing."""


class Attempt:
    """A change of one queue's members.

    Attributes:
        problem: Why it cannot be; empty if it can.
        pending: Waits for the change of the tables.
        done: Whether the group is as the tables say, by the word of its leader.
        tables_index: An entry of the tables by which they have the change; 0 before.
        asked: Numbers under which the group's nodes say how far they are, and when that was.
    """

    def __init__(self, queue: QueueRecord) -> None:
        self.queue = queue
        self.problem = ""
        self.pending = Awaited()
        self.done = False
        self.tables_index = 0
        self.asked: tuple[int, int, float] | None = None


async def change_members(
    service: AdminService, queues: list[QueueRecord], wanted: Wanted, later: bool = False
) -> list[MemberChange]:
    """Change the members of queues, many at once; what became of each.

    Args:
        later: Whether it will do that a new member votes once it has caught up.

    Raises:
        Refusal: There is no majority that could change anything.
    """
    service.check_majority()
    why_not = service.members.why_not
    await until_all(queues, lambda queue: not why_not(queue), SETTLE_SECONDS)
    attempts: list[Attempt] = []
    slices = Slices()
    crowded = False
    for queue in queues:
        if not crowded and not has_room(service):
            crowded = not await until(lambda: has_room(service), WAIT_SECONDS)
        attempts.append(_begin(service, queue, wanted))
        await slices.breathe()
    try:
        await until_all(attempts, lambda attempt: _came_about(service, attempt), WAIT_SECONDS)
    finally:
        for attempt in attempts:
            _ask_no_more(service, attempt)
    rows: list[MemberChange] = []
    for attempt in attempts:
        rows.append(_row(service, attempt, later))
        await slices.breathe()
    return rows


async def give_up_votes(service: AdminService, node: str, force: bool) -> None:
    """Leave no queue a vote on a node, except where it is the only one.

    Args:
        force: Go on where that does not come about.

    Raises:
        Refusal: A queue still counts the node.
    """
    found = await Slices().those(
        service.members.queues(),
        lambda queue: len(voters(queue)) > 1 and node in voters(queue),
    )
    running = service.members.running()
    rows = await change_members(
        service, found, lambda queue: delete_member(queue, node, running, force)
    )
    wrong = [row for row in rows if not row.ok]
    if wrong and not force:
        first = wrong[0]
        raise Refusal(
            PRECONDITION_FAILED,
            f"{len(wrong)} quorum queue(s) still count node '{node}', among them "
            f"'{first.name}' in vhost '{first.vhost}': {first.problem}",
        )


def is_gone(service: AdminService, queue: QueueRecord) -> bool:
    """Whether a queue was deleted, or declared anew, since it was looked up."""
    return service.machine.queue(queue.vhost, queue.name) is not queue


def has_room(service: AdminService) -> bool:
    """Whether there are not too many changes under way."""
    return len(service.node.store.member().proposals) < CHANGES_AT_ONCE_MAX


def _begin(service: AdminService, queue: QueueRecord, wanted: Wanted) -> Attempt:
    attempt = Attempt(queue)
    if not has_room(service):
        attempt.problem = CROWDED
        return attempt
    attempt.problem = service.members.why_not(queue)
    if not attempt.problem:
        try:
            command = wanted(queue)
        except Refusal as refusal:
            attempt.problem = refusal.text
        else:
            if command is None:
                attempt.problem = CHANGED
            else:
                service.submit(command, attempt.pending)
    return attempt


def _came_about(service: AdminService, attempt: Attempt) -> bool:
    """Whether there is nothing to wait for any more.

    What this node has of a queue may lag: once it looks as asked here, the group's nodes are asked.
    """
    if attempt.done or attempt.problem or is_gone(service, attempt.queue):
        return True
    members, queue = service.members, attempt.queue
    result = attempt.pending.result
    if result is None:
        return False
    if attempt.tables_index == 0:
        attempt.tables_index = service.machine.applied_index
    if isinstance(result, Outcome) and not result.changed:
        return True
    if not members.in_force(queue):
        return False
    now = asyncio.get_running_loop().time()
    if attempt.asked is not None:
        copies, tables, asked_at = attempt.asked
        attempt.done = members.stays_in_force(queue, copies, tables, attempt.tables_index)
        if attempt.done or now < asked_at + ASK_AGAIN_SECONDS:
            return attempt.done
        _ask_no_more(service, attempt)
    attempt.asked = (members.ask(queue), members.ask_tables(queue), now)
    service.host.after_event()
    # Where no other node has a copy, that was all.
    attempt.done = members.stays_in_force(queue, *attempt.asked[:2], attempt.tables_index)
    return attempt.done


def _ask_no_more(service: AdminService, attempt: Attempt) -> None:
    """What the group's nodes say from now on is not wanted any more."""
    if attempt.asked is not None:
        for number in attempt.asked[:2]:
            service.members.forget(number)
        attempt.asked = None


def _row(service: AdminService, attempt: Attempt, later: bool) -> MemberChange:
    queue, result = attempt.queue, attempt.pending.result
    if attempt.problem:
        return member_change(queue, "refused", attempt.problem)
    if is_gone(service, queue):
        return member_change(queue, "refused", DELETED)
    if isinstance(result, Outcome) and not result.changed:
        return member_change(queue, "refused", CHANGED)
    if attempt.done:
        return member_change(queue, "ok")
    if later and result is not None:
        return member_change(queue, "later")
    return member_change(queue, "unknown", UNKNOWN)


def member_change(queue: QueueRecord, result: ChangeResult, problem: str = "") -> MemberChange:
    """The row of one queue."""
    return MemberChange(
        vhost=queue.vhost,
        name=queue.name,
        size=None if result == "unknown" else len(voters(queue)),
        result=result,
        problem=problem,
    )
