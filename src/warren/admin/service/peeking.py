"""A look at one message of a quorum queue, which stays as it is.

Source: `rabbitmq-queues peek` of RabbitMQ 4.3.
"""

from __future__ import annotations

import msgspec

from warren.admin.service.caller import Caller
from warren.admin.service.inquiries import leaders_of
from warren.admin.service.looking import read_message
from warren.admin.service.messages import properties_of
from warren.admin.service.operation import operation
from warren.admin.service.rows import Peeked
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.queues.fifo.pieces import opened
from warren.queues.fifo.runs import Run, as_run
from warren.queues.table_queue import TableQueue

ASK_SECONDS = 15.0
BODY_BYTES_MAX = 64
"""What is shown of a body."""
NONE_THERE = "Target queue does not have a message at that position"


@operation()
async def peek(
    service: AdminService, caller: Caller, *, vhost: str, queue: str, position: int
) -> Peeked:
    """Show the message that is so many places from the head of what is ready; 1 is the next one.

    It is neither taken nor counted as handed out. Of queues with two levels of priority the higher
    one is counted first, although the lower one has its share when messages go out.

    Raises:
        Refusal: There is no such queue or message, or the queue is no quorum queue.
    """
    if position < 1:
        raise Refusal(PRECONDITION_FAILED, "position value must be a positive integer")
    record = service.machine.queue(vhost, queue)
    if record is None:
        raise Refusal(NOT_FOUND, f"Target queue was not found in virtual host '{vhost}'")
    if not record.type.replicated:
        raise Refusal(PRECONDITION_FAILED, f"Cannot peek into a {record.kind} queue")
    leader = (await leaders_of(service, [record])).get(int(record.group_id), "")
    if leader != service.own_name:
        if not leader:
            raise Refusal(PRECONDITION_FAILED, f"queue '{queue}' has no leader now: ask again")
        asked = {"vhost": vhost, "queue": queue, "position": position}
        answer = await service.host.ask(leader, "peek", asked, ASK_SECONDS)
        return msgspec.convert(answer, Peeked)
    here = service.node.queues.vhosts.get(vhost)
    found = None if here is None else here.queues.get(queue)
    table = None if found is None else found.as_table()
    if table is None:
        raise Refusal(PRECONDITION_FAILED, f"queue '{queue}' is not led here now: ask again")
    run = await at_position(table, position)
    return await looked_at(service, table, run)


async def at_position(table: TableQueue, position: int) -> Run:
    """The message that is so many places from the head, as a run of one.

    Raises:
        Refusal: There are not so many.
    """
    left = position
    slices = Slices()
    for pieces in table.ready_in_order():
        for piece in opened(pieces):
            run = as_run(piece)
            if left <= run.count:
                return as_run(run.part(left - 1, 1))
            left -= int(run.count)
            await slices.breathe()
    raise Refusal(NOT_FOUND, NONE_THERE)


async def looked_at(service: AdminService, table: TableQueue, run: Run) -> Peeked:
    """A message with its properties and the first bytes of its body.

    Raises:
        Refusal: It has left meanwhile, or cannot be read now.
    """
    lying = await read_message(service, table, int(run.first))
    if lying is None:
        raise Refusal(NOT_FOUND, NONE_THERE)
    message = lying.message
    failed = int(run.failed + lying.failures)
    properties = msgspec.structs.asdict(properties_of(message))
    given = {name: value for name, value in properties.items() if value is not None}
    return Peeked(
        exchange=message.exchange(),
        routing_key=message.routing_key(),
        properties=given,
        body=b"".join(message.body())[:BODY_BYTES_MAX],
        delivery_count=failed,
    )
