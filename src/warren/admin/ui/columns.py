"""Columns of lists that are shown: the usual ones, or those that a browser has chosen."""

from __future__ import annotations

from typing import Final

from warren.admin.ui.asking import Act, PageRequest, WentOn
from warren.admin.ui.list_columns import HEADS, LISTS
from warren.admin.ui.lists import link_of

COOKIE: Final = "warren-columns"
COOKIE_SECONDS: Final = 365 * 86_400
LISTS_END, NAME_END, BETWEEN = "|", ":", "."
"""What stands between lists, behind a list's name, and between its columns."""
NUMBER_ORDERS: Final = ("lowest first", "highest first")
TEXT_ORDERS: Final = ("a to z", "z to a")
"""Words for the order of a column, and for its reverse."""


class ShownColumns:
    """The columns of one list as a browser is shown them.

    Attributes:
        head: The one that is always there.
        all: Those that can be chosen.
        shown: Those that are, in order.
    """

    def __init__(self, name: str, chosen: str, several_vhosts: bool) -> None:
        """Decide what is shown.

        Args:
            chosen: The browser's cookie.
            several_vhosts: Whether there is more than one vhost to be told apart.
        """
        self.head = HEADS[name]
        self.all = [each for each in LISTS[name] if each.name != "vhost" or several_vhosts]
        names = parsed(chosen).get(name)
        self.shown = [
            each for each in self.all if (each.usual if names is None else each.name in names)
        ]

    def has(self, name: str) -> bool:
        """Whether a column is shown."""
        return any(each.name == name for each in self.shown)

    def sorted_words(self, sort: str, reverse: bool) -> str:
        """By what rows are sorted, in words; empty if by nothing that has any."""
        if not sort:
            several = any(each.name == "vhost" for each in self.all)
            return f"Sorted by {'virtual host and ' if several else ''}name, a to z."
        for each in (self.head, *self.all):
            if each.sort == sort:
                order = NUMBER_ORDERS if each.number else TEXT_ORDERS
                return f"Sorted by {each.words}, {order[reverse]}."
        return ""


def parsed(cookie: str) -> dict[str, frozenset[str]]:
    """The columns that a cookie chooses, by list; what it says of other lists says nothing."""
    chosen: dict[str, frozenset[str]] = {}
    for part in cookie.split(LISTS_END):
        name, _, columns = part.partition(NAME_END)
        if name in LISTS:
            known = {each.name for each in LISTS[name]}
            chosen[name] = frozenset(columns.split(BETWEEN)) & known
    return chosen


def cookie_of(before: str, name: str, columns: list[str]) -> str:
    """The cookie that chooses columns of a list, and of other lists what was chosen before."""
    chosen = {**parsed(before), name: frozenset(columns)}
    text = LISTS_END.join(
        name + NAME_END + BETWEEN.join(each.name for each in LISTS[name] if each.name in kept)
        for name, kept in chosen.items()
    )
    return f"{COOKIE}={text}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}"


def chooser(name: str) -> Act:
    """What the form does that chooses the columns of a list."""

    async def choose(asked: PageRequest) -> WentOn:
        columns = [] if asked.form.truth("usual") else asked.form.all("column")
        if asked.form.truth("usual"):
            columns = [each.name for each in LISTS[name] if each.usual]
        return WentOn(link_of(asked), cookie=cookie_of(asked.columns, name, columns))

    return choose
