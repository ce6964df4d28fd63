"""Policies of users and of operators (ARG-12)."""

from __future__ import annotations

from typing import Any

import msgspec

from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok, put
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import Problem, bad_request, erlang, not_there
from warren.admin.http.paging import columns_of, narrowed_one
from warren.admin.service import policies, visible
from warren.admin.service.rows import PolicyRow
from warren.errors import PRECONDITION_FAILED, Refusal


def fields(row: PolicyRow) -> dict[str, Any]:
    """A policy as the API shows it."""
    return row.cells()


class Policies:
    """The resources of one kind of policies."""

    def __init__(self, operator: bool) -> None:
        self._list = policies.list_operator_policies if operator else policies.list_policies
        self._set = policies.set_operator_policy if operator else policies.set_policy
        self._clear = policies.clear_operator_policy if operator else policies.clear_policy
        self._visible = visible.visible_operator_policies if operator else visible.visible_policies

    async def all(self, asked: HttpRequest) -> HttpAnswer:
        """Those of all vhosts that the user may enter."""
        rows = await self._visible(asked.service, asked.caller)
        return ok(columns_of(asked, [fields(row) for row in rows]))

    async def of_vhost(self, asked: HttpRequest) -> HttpAnswer:
        """Those of one vhost."""
        rows = await self._visible(asked.service, asked.caller, vhost=asked["vhost"])
        return ok(columns_of(asked, [fields(row) for row in rows]))

    async def one(self, asked: HttpRequest) -> HttpAnswer:
        """One of them."""
        for row in await self._visible(asked.service, asked.caller, vhost=asked["vhost"]):
            if row.name == asked["name"]:
                return ok(narrowed_one(asked, fields(row)))
        raise not_there()

    async def put(self, asked: HttpRequest) -> HttpAnswer:
        """Create or replace one."""
        document = asked.document()
        pattern, definition = needed(document, "pattern", "definition")
        priority, apply_to = document.get("priority", 0), document.get("apply-to", "all")
        if not isinstance(pattern, str):
            raise invalid(f"pattern should be a binary but was {erlang(pattern)}")
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise invalid(f"priority should be a number, actually was {erlang(priority)}")
        if not isinstance(apply_to, str):
            raise invalid(f"apply-to should be a text, actually was {erlang(apply_to)}")
        before = await self._names(asked)
        try:
            await self._set(
                asked.service,
                asked.caller,
                vhost=asked["vhost"],
                name=asked["name"],
                pattern=pattern,
                definition=msgspec.json.encode(definition).decode(),
                priority=priority,
                apply_to=apply_to,
            )
        except Refusal as refusal:
            if refusal.kind != PRECONDITION_FAILED:
                raise
            raise invalid(refusal.text) from None
        return put(asked["name"] not in before)

    async def delete(self, asked: HttpRequest) -> HttpAnswer:
        """Remove one."""
        await self._clear(asked.service, asked.caller, vhost=asked["vhost"], name=asked["name"])
        return NO_CONTENT

    async def _names(self, asked: HttpRequest) -> set[str]:
        """Names of those that there are."""
        rows = await self._list(asked.service, asked.caller, vhost=asked["vhost"])
        return {row.name for row in rows}


def invalid(reason: str) -> Problem:
    """A policy is not valid, in RabbitMQ's words."""
    return bad_request(f"Validation failed\n\n{reason}\n")


USERS, OPERATORS = Policies(operator=False), Policies(operator=True)
RESOURCES = [
    resource
    for path, kind in (("/api/policies", USERS), ("/api/operator-policies", OPERATORS))
    for resource in (
        Resource(path, get=kind.all),
        Resource(f"{path}/{{vhost}}", get=kind.of_vhost),
        Resource(f"{path}/{{vhost}}/{{name}}", get=kind.one, put=kind.put, delete=kind.delete),
    )
]
