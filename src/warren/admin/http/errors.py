"""What requests are told that are refused: the one place that maps refusals to HTTP.

Bodies are RabbitMQ's, `{"error": ..., "reason": ...}`; so are most of the words.
"""

from __future__ import annotations

from typing import Final

from warren.admin.http.answers import HttpAnswer
from warren.admin.service.caller import (
    ADMINISTRATOR,
    MANAGEMENT,
    MONITORING,
    NOT_SEEN,
    NotAuthorised,
)
from warren.errors import (
    ACCESS_REFUSED,
    EXHAUSTED,
    NO_MAJORITY,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    TIMED_OUT,
    Refusal,
)

STATUSES: Final = {
    ACCESS_REFUSED: (401, "not_authorised"),
    EXHAUSTED: (503, "service_unavailable"),
    NO_MAJORITY: (503, "service_unavailable"),
    NOT_ALLOWED: (400, "bad_request"),
    NOT_FOUND: (404, "not_found"),
    NOT_IMPLEMENTED: (400, "bad_request"),
    PRECONDITION_FAILED: (400, "bad_request"),
    RESOURCE_LOCKED: (400, "bad_request"),
    TIMED_OUT: (503, "service_unavailable"),
}
"""By the kind of a refusal: the status, and what the body calls the error."""

LACKING: Final = {
    ADMINISTRATOR: "Not administrator user",
    MONITORING: "Not monitor user",
    MANAGEMENT: "Not management user",
}
"""What callers without a tag are told; all others are told `NO_ACCESS`."""
NO_ACCESS: Final = "User not authorised to access object"


class Problem(Exception):
    """A request is wrong in a way that only HTTP knows.

    Attributes:
        answer: What it is told.
    """

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(answer.status, answer.body)
        self.answer = answer


def problem(status: int, error: str, reason: object) -> HttpAnswer:
    """Answer that something is wrong."""
    return HttpAnswer(status, {"error": error, "reason": reason})


def bad_request(reason: object) -> Problem:
    """Something of a request is wrong."""
    return Problem(problem(400, "bad_request", reason))


def erlang(value: object) -> str:
    """A value as RabbitMQ's texts show it."""
    if isinstance(value, str):
        return f'<<"{value}">>'
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return str(value)


def lacking(tag: str) -> Problem:
    """The user has no such tag."""
    return Problem(problem(401, "not_authorised", LACKING.get(tag, NO_ACCESS)))


def not_there() -> Problem:
    """What the path names does not exist."""
    return Problem(NOT_THERE)


NOT_THERE: Final = problem(404, "Object Not Found", "Not Found")


def refused_as(refusal: Refusal, kind: str, reason: str) -> Exception:
    """The same refusal, with another reason if it is of a kind."""
    if refusal.kind != kind or isinstance(refusal, NotAuthorised):
        return refusal
    status, error = STATUSES[kind]
    return Problem(problem(status, error, reason))


def of_refusal(refusal: Refusal, changes: bool) -> HttpAnswer:
    """Answer that the service refused.

    Args:
        changes: Whether something was to be made; else what is missing is what the path names.
    """
    if isinstance(refusal, NotAuthorised):
        if not refusal.tag:
            return problem(404, "not_found", NOT_SEEN)
        return problem(401, "not_authorised", LACKING.get(refusal.tag, NO_ACCESS))
    if refusal.kind == NOT_FOUND and refusal.text != NOT_SEEN and not changes:
        return NOT_THERE
    status, error = STATUSES[refusal.kind]
    text = "Access refused." if refusal.kind == ACCESS_REFUSED else refusal.text
    return problem(status, error, text)
