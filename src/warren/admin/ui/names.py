"""Names in paths and forms: any name that a queue or a user can have comes back as it was."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from markupsafe import Markup

MARK: Final = "~"
"""Stands before a name that a path would lose: browsers take `.` and `..` out, also encoded."""
LOST: Final = ("", ".", "..")
BREAKS: Final = re.compile(r"(?<=[-._/:@,=])(?=[^-._/:@,=])")
"""Where a name that is too long for its line goes on in the next one."""


def packed(name: str) -> str:
    """A name as one segment of a path, or as a value of a form: nothing in it is changed."""
    mark = MARK if name in LOST or name.startswith(MARK) else ""
    return mark + quote(name, safe="", errors="surrogateescape")


def in_query(name: str) -> str:
    """A name as a value of a query, to be unpacked when the query has been read."""
    return quote(packed(name), safe="")


def unpacked(segment: str) -> str:
    """The name that a segment stands for."""
    return unquote(segment, errors="surrogateescape").removeprefix(MARK)


def path(*segments: str) -> str:
    """A path of the UI, of a literal first segment and of names."""
    first, *names = segments
    return "/" + "/".join([first, *map(packed, names)])


def breakable(name: object) -> Markup:
    """A name for a page, which breaks between its words where it has to, and not within one."""
    return Markup("<wbr>").join(BREAKS.split(str(name)))
