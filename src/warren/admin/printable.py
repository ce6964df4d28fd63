"""Texts from elsewhere, as lines of a terminal and of the log may show them."""

from __future__ import annotations


def escaped(text: str) -> str:
    """A text in which nothing moves the cursor or ends the line."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def harmless(text: str) -> str:
    """A text of several lines in which nothing else moves the cursor: names may be hostile."""
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.split("\n"))
