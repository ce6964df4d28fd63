"""Vhosts: names of queues and exchanges that others do not see."""

from __future__ import annotations

from functools import partial

from warren.admin.http import fields
from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok, put
from warren.admin.http.asked import HttpRequest, Resource
from warren.admin.http.errors import Problem, bad_request, problem
from warren.admin.http.paging import listing, narrowed_one
from warren.admin.http.ranges import Ranges
from warren.admin.http.resources.access import tags_of
from warren.admin.service import details, permissions, status, vhosts
from warren.admin.service.importing import EVERYTHING
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal


async def all_vhosts(asked: HttpRequest) -> HttpAnswer:
    """The vhosts that are shown to the user."""
    ranges = Ranges(asked.query)
    rows = await details.vhost_details(asked.service, asked.caller, spans=ranges.spans)
    return await listing(asked, rows, partial(fields.vhost, ranges=ranges))


async def one_vhost(asked: HttpRequest) -> HttpAnswer:
    """One vhost."""
    ranges = Ranges(asked.query)
    row = await details.one_vhost(
        asked.service, asked.caller, vhost=asked["vhost"], spans=ranges.spans
    )
    return ok(narrowed_one(asked, fields.vhost(row, ranges)))


async def put_vhost(asked: HttpRequest) -> HttpAnswer:
    """Create a vhost, in which the user may do everything then, or change its properties."""
    document = asked.document()
    name = asked["vhost"]
    description = document.get("description", "")
    kind = document.get("default_queue_type")
    tags = tags_of(document.get("tags", []))
    if not isinstance(description, str) or not (kind is None or isinstance(kind, str)):
        raise bad_request("description and default_queue_type are texts")
    tracing = document.get("tracing")
    if not (tracing is None or isinstance(tracing, bool) or tracing in ("true", "false")):
        raise bad_request("tracing is true or false")
    service, caller = asked.service, asked.caller
    there = await _is_there(asked, name)
    kind = None if kind in (None, "undefined", "") else kind
    try:
        if there:
            await vhosts.update_vhost_metadata(
                service,
                caller,
                name=name,
                description=description,
                tags=tags,
                default_queue_type=kind,
            )
        else:
            await vhosts.add_vhost(
                service,
                caller,
                name=name,
                description=description,
                tags=tags,
                default_queue_type=kind,
            )
    except Refusal as refusal:
        if refusal.kind == PRECONDITION_FAILED and refusal.text.startswith("Default queue type"):
            raise bad_request(f"{kind} is not a valid queue type") from None
        raise
    if not there:
        await permissions.set_permissions(
            service,
            caller,
            vhost=name,
            user=caller.name,
            configure=EVERYTHING,
            write=EVERYTHING,
            read=EVERYTHING,
        )
    if tracing is not None:
        await vhosts.set_tracing(service, caller, vhost=name, on=tracing in (True, "true"))
    return put(not there)


async def delete_vhost(asked: HttpRequest) -> HttpAnswer:
    """Delete a vhost with all that is in it."""
    name = asked["vhost"]
    try:
        await vhosts.delete_vhost(asked.service, asked.caller, name=name)
    except Refusal as refusal:
        if refusal.kind != PRECONDITION_FAILED:
            raise
        raise Problem(
            problem(
                412,
                "precondition_failed",
                f"Refusing to delete virtual host '{name}' because it is protected from deletion",
            )
        ) from None
    return NO_CONTENT


async def protect(asked: HttpRequest) -> HttpAnswer:
    """Have a vhost that cannot be deleted."""
    await vhosts.update_vhost_metadata(
        asked.service, asked.caller, name=asked["vhost"], protected_from_deletion=True
    )
    return NO_CONTENT


async def unprotect(asked: HttpRequest) -> HttpAnswer:
    """Have a vhost that can be deleted again."""
    await vhosts.update_vhost_metadata(
        asked.service, asked.caller, name=asked["vhost"], protected_from_deletion=False
    )
    return NO_CONTENT


async def start(asked: HttpRequest) -> HttpAnswer:
    """See that a vhost runs on a node, as it does there wherever the node runs."""
    await details.one_vhost(asked.service, asked.caller, vhost=asked["vhost"])
    found = await status.status(asked.service, asked.caller)
    if asked["node"] not in {node.name for node in found.nodes}:
        raise bad_request(f"Unknown node: {asked['node']}")
    return NO_CONTENT


async def _is_there(asked: HttpRequest, name: str) -> bool:
    try:
        await details.one_vhost(asked.service, asked.caller, vhost=name)
    except Refusal as refusal:
        if refusal.kind != NOT_FOUND:
            raise
        return False
    return True


RESOURCES = [
    Resource("/api/vhosts", get=all_vhosts),
    Resource("/api/vhosts/{vhost}", get=one_vhost, put=put_vhost, delete=delete_vhost),
    Resource("/api/vhosts/{vhost}/deletion/protection", post=protect, delete=unprotect),
    Resource("/api/vhosts/{vhost}/start/{node}", post=start),
]
