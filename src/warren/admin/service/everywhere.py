"""What each node of the cluster knows by itself: asked of all that run, and put together.

A node that does not answer in time is left out, and named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from types import GenericAlias
from typing import Any, NamedTuple, TypeVar

import msgspec

from warren.admin.service.service import AdminService
from warren.admin.service.slices import give_way
from warren.errors import Refusal

ASK_SECONDS = 5.0
"""For another node to answer."""
PART_ROWS = 250
"""So many rows of another node are read at a time, some milliseconds' worth."""

RowOf = TypeVar("RowOf")


class Answers(NamedTuple):
    """What nodes answered.

    Attributes:
        by_node: What each one said.
        silent: Why the others said nothing, by node.
    """

    by_node: dict[str, Any]
    silent: dict[str, str]


def others(service: AdminService) -> list[str]:
    """The other nodes that run, as far as this one knows."""
    return [name for name in service.members.running() if name != service.own_name]


async def ask_all(
    service: AdminService,
    nodes: Iterable[str],
    operation: str,
    arguments: dict[str, Any],
    shape: Any,
) -> Answers:
    """Ask some nodes the same, at once.

    Args:
        shape: The type of the answer.
    """

    async def one(node: str) -> tuple[str, Any, str]:
        try:
            answer = await service.host.ask(node, operation, arguments, ASK_SECONDS)
            return node, msgspec.convert(answer, shape), ""
        except Refusal as refusal:
            return node, None, refusal.text
        except msgspec.ValidationError as error:
            return node, None, f"this is the answer of another version: {error}"

    answers = Answers({}, {})
    for node, answer, problem in await asyncio.gather(*(one(node) for node in nodes)):
        if problem:
            answers.silent[node] = problem
        else:
            answers.by_node[node] = answer
    return answers


async def rows_everywhere(
    service: AdminService, operation: str, arguments: dict[str, Any], row: type[RowOf]
) -> AsyncGenerator[list[RowOf], None]:
    """The rows of all other nodes that run, in parts; a node that sends none is left out.

    Args:
        row: The type of the rows.
    """
    answers = await ask_all(service, others(service), operation, arguments, list[Any])
    shape: Any = GenericAlias(list, (row,))
    for plain_rows in answers.by_node.values():
        for at in range(0, len(plain_rows), PART_ROWS):
            try:
                yield msgspec.convert(plain_rows[at : at + PART_ROWS], shape)
            except msgspec.ValidationError:
                # It is of another version.
                break
            await give_way()
