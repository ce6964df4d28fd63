"""What a page says when something cannot be done."""

from __future__ import annotations

import msgspec


class Wrong(Exception):
    """A request of a page cannot be carried out.

    Attributes:
        status: Of HTTP.
        text: Why, in a sentence.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


class Question(Exception):
    """Something is not done before the user has said that it is meant.

    Attributes:
        text: The question.
        button: What the button says that does it.
        name: What has to be typed first; empty where the button is enough.
        mistyped: Whether something else was typed.
    """

    def __init__(self, text: str, button: str, name: str, mistyped: bool) -> None:
        super().__init__(text)
        self.text = text
        self.button = button
        self.name = name
        self.mistyped = mistyped


class Again(Exception):
    """A form is to be shown again as it was filled in, with something added to it."""


def reason_of(status: int, body: object) -> str:
    """What the API says is wrong, as a sentence."""
    reason = body.get("reason") if isinstance(body, dict) else None
    if status == 404:
        return "There is no such thing (any more)."
    if reason is None:
        return f"The node answered with status {status}."
    if not isinstance(reason, str):
        reason = msgspec.json.encode(reason).decode()
    text = " ".join(reason.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
