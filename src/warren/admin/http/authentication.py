"""Who asks: the one place that looks at credentials, which are a password or a token."""

from __future__ import annotations

import base64
import binascii

from warren.admin.http.answers import HttpAnswer
from warren.admin.http.errors import LACKING, Problem, problem
from warren.admin.service.caller import ADMINISTRATOR, IMPLIED, MANAGEMENT, Caller
from warren.admin.service.logins import SHOWN_CHARACTERS_MAX, log_in, log_in_by_token
from warren.admin.service.service import AdminService

CHALLENGE = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
MAY_MANAGE = frozenset({*IMPLIED[MANAGEMENT], ADMINISTRATOR})


async def authenticate(service: AdminService, header: str | None, host: str) -> Caller:
    """The user whose name and password a request has, or whose token.

    Args:
        header: Its `Authorization`; None if it has none.
        host: The address that it comes from.

    Raises:
        Problem: It has none, or wrong ones; or the user has no tag that lets it manage anything.
    """
    scheme, _, rest = (header or "").partition(" ")
    who = "a token"
    if scheme.lower() == "bearer" and service.node.tokens is not None:
        caller = log_in_by_token(service, rest.strip())
    elif header is None or not header.lower().startswith("basic"):
        raise Problem(HttpAnswer(401, None, CHALLENGE))
    else:
        credentials = _credentials(header)
        if credentials is None:
            raise Problem(HttpAnswer(400))
        who = f"user '{credentials[0][:SHOWN_CHARACTERS_MAX]}'"
        caller = await log_in(service, *credentials, host)
    if caller is None:
        service.node.log_warning(f"{host}: HTTP access denied: {who} - invalid credentials")
        raise Problem(problem(401, "not_authorized", "Not_Authorized"))
    if not caller.tags & MAY_MANAGE:
        denied = f"user '{caller.name}' - {LACKING[MANAGEMENT]}"
        service.node.log_warning(f"{host}: HTTP access denied: {denied}")
        raise Problem(problem(401, "not_authorised", LACKING[MANAGEMENT]))
    return caller


def _credentials(header: str) -> tuple[str, str] | None:
    """Name and password that a header has; None if it is broken."""
    _, _, encoded = header.partition(" ")
    try:
        text = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.decode("utf-8", "surrogateescape").partition(":")
    return (name, password) if colon else None
