"""Lists as clients want them: filtered by name, sorted, cut into pages, with fewer columns.

Source: `rabbit_mgmt_util` of RabbitMQ 4.3; management API guide, pagination.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from warren.admin.http.answers import HttpAnswer
from warren.admin.http.asked import HttpRequest
from warren.admin.http.errors import Problem, bad_request, problem
from warren.admin.service.name_filters import name_filter
from warren.admin.service.slices import Slices

Row = TypeVar("Row")

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 500
LISTED_STEPS_MAX: Final = 262_144
"""Steps that matching names may take where a list is looked through in one go: some 30 ms."""
PART_ROWS: Final = 64
"""Rows of a long list that are shown at a time: some tenths of a millisecond."""


class Page:
    """Which part of a list is wanted.

    Attributes:
        number: The page's, from 1 on; 0 for all of the list.
        size: Rows of a page.
        name: What names have to have in them, as a text or as a regular expression.
    """

    def __init__(self, asked: HttpRequest, steps_max: int = 0) -> None:
        """Read what a query says.

        Args:
            steps_max: What matching names may take; 0 for as much as a request may.

        Raises:
            Problem: It cannot be.
        """
        query = asked.query
        self.number = _number(query, "page", 0)
        self.size = _number(query, "page_size", PAGE_SIZE)
        said = self.size if "page_size" in query else "undefined"
        if "page" not in query:
            self.number = 0
        elif not (self.number >= 1 and 1 <= self.size <= PAGE_SIZE_MAX):
            raise Problem(
                problem(
                    400,
                    "invalid_pagination_parameters",
                    f"Invalid pagination parameters: page number {self.number}, page size {said}",
                )
            )
        self.name = query.get("name", "") if self.number else ""
        self._filter = name_filter(self.name, asked.truth("use_regex"), steps_max)

    def wants(self, name: str) -> bool:
        """Whether a row of this name is to be in the list.

        Raises:
            Refusal: It takes too much to find out.
        """
        return self._filter is None or self._filter(name)

    def chosen(self, asked: HttpRequest) -> dict[str, Any]:
        """The page as operations take it that show a part of a list by name."""
        return {
            "name": self.name,
            "use_regex": asked.truth("use_regex"),
            "begin": self.begin,
            "count": self.size,
            "reverse": asked.truth("sort_reverse"),
        }

    @property
    def begin(self) -> int:
        """The first row on the page."""
        return (self.number - 1) * self.size if self.number else 0

    def cut(self, rows: list[Row]) -> list[Row]:
        """Those of all rows that are on the page.

        Raises:
            Problem: There is no such page.
        """
        self.check(len(rows))
        return rows[self.begin : self.begin + self.size] if self.number else rows

    def check(self, count: int) -> None:
        """Refuse a page that there is not; that right behind the last row is an empty one.

        Args:
            count: Rows that fit the name.

        Raises:
            Problem: There is no such page.
        """
        if self.begin > count:
            raise Problem(
                problem(
                    400,
                    "page_out_of_range",
                    f"Page out of range, page: {self.number} page size: {self.size}, len: {count}",
                )
            )

    def document(self, items: list[Any], filtered: int, total: int) -> Any:
        """The page with its numbers, or only the rows where no page was asked for."""
        if not self.number:
            return items
        return {
            "filtered_count": filtered,
            "item_count": len(items),
            "items": items,
            "page": self.number,
            "page_count": -(-filtered // self.size),
            "page_size": self.size,
            "total_count": total,
        }


def listed(asked: HttpRequest, rows: list[dict[str, Any]]) -> Any:
    """A list as a request wants it, where all rows are here.

    Raises:
        Problem: It wants what cannot be.
    """
    page = Page(asked, LISTED_STEPS_MAX)
    found = [row for row in rows if page.wants(str(row.get("name", "")))] if page.name else rows
    found = ordered(asked, found)
    shown = page.cut(found)
    return page.document(columns_of(asked, shown), len(found), len(rows))


async def listing(
    asked: HttpRequest,
    rows: list[Row],
    shape: Callable[[Row], dict[str, Any]],
    page_of: Callable[[list[Row]], Awaitable[list[dict[str, Any]]]] | None = None,
) -> HttpAnswer:
    """The same of rows that are still to be shown, of which there may be many: in slices, and
    those alone that are wanted where nothing but the page says which.

    Args:
        page_of: Shows the rows of one page, with what is not needed to find them; None where
            `shape` shows all.

    Raises:
        Problem: It wants what cannot be.
    """
    page = Page(asked)
    slices = Slices()
    found = rows
    if page.name:
        found = await slices.those(rows, lambda row: page.wants(str(shape(row).get("name", ""))))
    reverse = asked.truth("sort_reverse")
    if key := asked.query.get("sort", ""):
        path = key.split(".")
        ranked = []
        for row in found:
            ranked.append((rank(value_at(shape(row), path)), row))
            await slices.breathe()
        ends = slices.in_order(ranked, lambda each: each[0], reverse)
        found = [row async for _, row in ends]
    elif reverse:
        found = found[::-1]
    wanted = page.cut(found)
    if not page.number and len(wanted) > PAGE_SIZE_MAX:
        return HttpAnswer(200, _in_parts(asked, wanted, shape))
    items = await (page_of(wanted) if page_of and page.number else slices.each(wanted, shape))
    shown = columns_of(asked, items)
    return HttpAnswer(200, page.document(shown, len(found), len(rows)))


async def _in_parts(
    asked: HttpRequest, rows: list[Row], shape: Callable[[Row], dict[str, Any]]
) -> AsyncIterator[list[Any]]:
    """A long list as it is sent."""
    for at in range(0, len(rows), PART_ROWS):
        yield columns_of(asked, [shape(row) for row in rows[at : at + PART_ROWS]])


def ordered(asked: HttpRequest, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order that a request asks for; that in which they are if it asks for none."""
    key = asked.query.get("sort", "")
    if not key:
        return rows[::-1] if asked.truth("sort_reverse") else rows
    path = key.split(".")
    return sorted(
        rows, key=lambda row: rank(value_at(row, path)), reverse=asked.truth("sort_reverse")
    )


def rank(value: Any) -> tuple[int, Any]:
    """What rows are sorted by: numbers before truths before texts, as Erlang's terms are."""
    if isinstance(value, bool):
        return (1, str(value))
    if isinstance(value, (int, float)):
        return (0, value)
    if value is None:
        return (2, "")
    return (3, value if isinstance(value, str) else str(value))


def value_at(row: Any, path: list[str]) -> Any:
    """The value that a path of keys leads to; None if there is none."""
    for key in path:
        if not isinstance(row, dict) or key not in row:
            return None
        row = row[key]
    return row


def columns_of(asked: HttpRequest, rows: list[dict[str, Any]]) -> list[Any]:
    """Rows with those columns only that a request names; all if it names none."""
    names = asked.query.get("columns")
    if names is None:
        return list(rows)
    paths = [name.split(".") for name in names.split(",")]
    return [narrowed(row, paths) for row in rows]


def narrowed_one(asked: HttpRequest, row: dict[str, Any]) -> Any:
    """One object with those fields only that a request names; all if it names none."""
    return columns_of(asked, [row])[0]


def narrowed(row: dict[str, Any], paths: list[list[str]]) -> Any:
    """A row with those values only that paths lead to; RabbitMQ's empty object is a list."""
    result: dict[str, Any] = {}
    for path in paths:
        head, rest = path[0], path[1:]
        if head not in row:
            continue
        value = row[head]
        if rest and isinstance(value, dict):
            inner = narrowed(value, [rest])
            before = result.get(head)
            if isinstance(before, dict) and isinstance(inner, dict):
                before.update(inner)
            elif not isinstance(before, dict):
                result[head] = inner
        elif not rest:
            result[head] = value
    return result or []


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 9:
        raise bad_request("Pagination parameters are invalid")
    return int(text)
