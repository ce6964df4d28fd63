"""Lists in pages: filtered, sorted and cut by the same rules as the API's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from warren.admin.http.asked import Handler
from warren.admin.http.paging import listed
from warren.admin.http.resources import vhosts
from warren.admin.ui.asking import PageRequest, told
from warren.admin.ui.wrong import Wrong

PAGE_SIZE: Final = 50
SIZES: Final = (25, 50, 100, 200)
NO_SAMPLES: Final[Mapping[str, str]] = {}


class ListPage:
    """One page of a list.

    Attributes:
        rows: What is on it.
        shown, total: How many fit the filter, and how many there are.
        page, pages: Its number, and how many there are.
        sort, reverse: What it is sorted by.
        name, use_regex, vhost: The filter.
    """

    def __init__(self, asked: PageRequest, found: dict[str, Any]) -> None:
        query = asked.query
        self.rows: list[dict[str, Any]] = found["items"]
        self.shown, self.total = found["filtered_count"], found["total_count"]
        self.page, self.pages = found["page"], max(found["page_count"], 1)
        self.size = found["page_size"]
        self.sort, self.reverse = query.get("sort", ""), query.get("sort_reverse") == "true"
        self.name, self.use_regex = query.get("name", ""), query.get("use_regex") == "true"
        self.vhost = query.get("vhost", "")
        self._asked = asked

    @property
    def filtered(self) -> bool:
        """Whether some things may be left out."""
        return bool(self.name or self.vhost)

    def link(self, **changed: object) -> str:
        """The same list, asked for in another way."""
        return link_of(self._asked, **changed)

    def sorted_by(self, key: str, highest: bool = False) -> str:
        """The same list by one column, the other way round if it is by that one already.

        Args:
            highest: Whether the highest come first.
        """
        if self.sort != key:
            return self.link(sort=key, sort_reverse="true" if highest else "", page="")
        return self.link(sort=key, sort_reverse="" if self.reverse else "true", page="")

    def direction(self, key: str) -> str:
        """How a column is sorted, as `aria-sort` has it; empty if it is not."""
        if self.sort != key:
            return ""
        return "descending" if self.reverse else "ascending"


def link_of(asked: PageRequest, **changed: object) -> str:
    """The page that is asked for, asked for in another way."""
    query = {**asked.query, **{name: str(value) for name, value in changed.items()}}
    kept = {name: value for name, value in query.items() if value not in ("", "False")}
    return f"{asked.path}?{urlencode(kept, errors='surrogateescape')}"


def list_query(asked: PageRequest, sort: str = "", reverse: bool = False) -> dict[str, str]:
    """What a request of a list says of filter, order and page."""
    names = ("sort", "sort_reverse", "name", "use_regex")
    query = {name: asked.query[name] for name in names if asked.query.get(name)}
    if sort and "sort" not in query:
        query["sort"] = asked.query["sort"] = sort
        if reverse:
            query["sort_reverse"] = asked.query["sort_reverse"] = "true"
    size = asked.query.get("page_size", "")
    query["page_size"] = size if size in map(str, SIZES) else str(PAGE_SIZE)
    page = asked.query.get("page", "1")
    query["page"] = page if page.isdecimal() and 0 < int(page[:9]) else "1"
    return query


async def listing(
    asked: PageRequest,
    all_of: Handler,
    of_vhost: Handler | None = None,
    sort: str = "",
    samples: Mapping[str, str] = NO_SAMPLES,
) -> ListPage:
    """A list that the API has, of all vhosts or of the one that is chosen.

    Args:
        samples: What the request says of samples that rows are to have.

    Raises:
        Wrong: The API refuses.
    """
    query = {**list_query(asked, sort), **samples}
    vhost = asked.query.get("vhost", "")
    handler = all_of if of_vhost is None or not vhost else of_vhost
    try:
        found = await asked.api(handler, {"vhost": vhost}, query)
    except Wrong as wrong:
        if wrong.status != 400 or query["page"] == "1":
            raise
        # The last rows of the last page are gone.
        found = await asked.api(handler, {"vhost": vhost}, {**query, "page": "1"})
    return ListPage(asked, found)


async def listed_rows(
    asked: PageRequest, rows: list[dict[str, Any]], sort: str = "", reverse: bool = False
) -> ListPage:
    """A list of rows that are here, which have a `name` to be filtered by."""
    query = list_query(asked, sort, reverse)
    # A page that is no more shows the first.
    if (int(query["page"][:9]) - 1) * int(query["page_size"]) >= len(rows):
        query["page"] = "1"

    async def found() -> Any:
        return listed(asked.request(query=query), rows)

    return ListPage(asked, await told(found()))


async def vhost_names(asked: PageRequest) -> list[str]:
    """The vhosts that the user sees."""
    return [row["name"] for row in await asked.api(vhosts.all_vhosts)]
