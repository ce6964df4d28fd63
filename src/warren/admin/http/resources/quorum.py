"""Members of quorum queues, and where their leaders are."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import Problem, bad_request, not_there, problem
from warren.admin.service import details, leaders, members
from warren.admin.service.members import Strategy
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal

log = logging.getLogger("warren")

STRATEGIES: dict[object, Strategy] = {"all": "all", "even": "even"}
_under_way: set[asyncio.Task[None]] = set()
"""What goes on behind an answer that says so."""


async def status(asked: HttpRequest) -> HttpAnswer:
    """How far each copy of a queue is."""
    asked.permit(leaders.quorum_status)
    found = await details.queue_details(
        asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"]
    )
    if not found.replicated:
        return HttpAnswer(
            503, {"status": "failed", "reason": f"{found.row.type}_queue_not_supported"}
        )
    rows = await leaders.quorum_status(
        asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"]
    )
    return ok([row.cells() for row in rows])


def unavailable(reason: str) -> Problem:
    """It cannot be done with this queue."""
    return Problem(problem(503, "service_unavailable", reason))


async def _check(asked: HttpRequest) -> str:
    """The node that a request names, where it is about a quorum queue.

    Raises:
        Problem: It names none, or there is no such node or queue.
    """
    (node,) = needed(asked.document(), "node")
    if not isinstance(node, str) or node not in asked.service.machine.nodes:
        raise bad_request("Node is not a cluster member")
    try:
        found = await details.queue_details(
            asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"]
        )
    except Refusal as refusal:
        if refusal.kind != NOT_FOUND:
            raise
        raise unavailable("not_found") from None
    if not found.replicated:
        raise unavailable(f"{found.row.type}_queue_not_supported")
    return node


async def add(asked: HttpRequest) -> HttpAnswer:
    """Have a node hold a queue."""
    asked.permit(members.add_member)
    node = await _check(asked)
    try:
        await members.add_member(
            asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"], node=node
        )
    except Refusal as refusal:
        if refusal.kind != PRECONDITION_FAILED:
            raise
        raise unavailable(refusal.text) from None
    return NO_CONTENT


async def delete(asked: HttpRequest) -> HttpAnswer:
    """Have a node hold a queue no more."""
    asked.permit(members.delete_member)
    node = await _check(asked)
    found = await details.queue_details(
        asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"]
    )
    if found.row.members == [node]:
        raise unavailable("last_node")
    try:
        await members.delete_member(
            asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"], node=node
        )
    except Refusal as refusal:
        if refusal.kind != PRECONDITION_FAILED:
            raise
        raise unavailable(refusal.text) from None
    return NO_CONTENT


async def grow(asked: HttpRequest) -> HttpAnswer:
    """Add members on a node to many queues."""
    strategy, vhosts, queues = needed(
        asked.document(), "strategy", "vhost_pattern", "queue_pattern"
    )
    if not isinstance(vhosts, str) or not isinstance(queues, str):
        raise bad_request("vhost_pattern and queue_pattern are texts")
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise bad_request(f"strategy is one of {', '.join(map(str, STRATEGIES))}")
    await members.grow(
        asked.service,
        asked.caller,
        node=asked["node"],
        strategy=STRATEGIES[strategy],
        vhost_pattern=vhosts,
        queue_pattern=queues,
    )
    return NO_CONTENT


async def shrink(asked: HttpRequest) -> HttpAnswer:
    """Remove all members on a node, behind the answer: it takes as long as there are queues."""
    asked.permit(members.shrink)
    if asked["node"] not in asked.service.machine.nodes:
        raise not_there()
    done = members.shrink(asked.service, asked.caller, node=asked["node"])
    _go_on(done, "shrink")
    return HttpAnswer(202)


async def rebalance(asked: HttpRequest) -> HttpAnswer:
    """Spread leaders over the nodes, behind the answer."""
    done = leaders.rebalance(asked.service, asked.caller)
    _go_on(done, "rebalance")
    return NO_CONTENT


def _go_on(done: Any, what: str) -> None:
    """Go on with an operation that has been authorised; the log says what is wrong."""

    async def run() -> None:
        try:
            await done
        except Refusal as refusal:
            log.warning("%s, as asked over HTTP: %s", what, refusal.text)

    task = asyncio.get_running_loop().create_task(run())
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)


PATH = "/api/queues/quorum"
RESOURCES = [
    Resource("/api/rebalance/queues", post=rebalance),
    Resource(f"{PATH}/replicas/on/{{node}}/grow", post=grow),
    Resource(f"{PATH}/replicas/on/{{node}}/shrink", delete=shrink),
    Resource(f"{PATH}/{{vhost}}/{{queue}}/status", get=status),
    Resource(f"{PATH}/{{vhost}}/{{queue}}/replicas/add", post=add),
    Resource(f"{PATH}/{{vhost}}/{{queue}}/replicas/delete", delete=delete),
]
