"""Users: `add_user` and what is beside it, with their limits."""

from __future__ import annotations

import base64
import getpass
import hashlib
import os
import sys
from typing import Any, Final

import msgspec

from warren.admin.cli.tools.command import (
    CTL,
    DATA,
    DIAGNOSTICS,
    NO_USER,
    OTHER,
    SOFTWARE,
    TEXT,
    TRUTH,
    USERS,
    Atoms,
    Failure,
    Output,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.reading import bad
from warren.admin.cli.tools.session import ToolSession
from warren.admin.service.rows import UserLimitsRow, UserRow
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED

LISTING: Final = (CTL, DIAGNOSTICS)
SALT_BYTES: Final = 4
ADDED: Final = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'rabbitmqctl help set_permissions' to learn more."
)
UNKNOWN_USER: Final = {NOT_FOUND: NO_USER, PRECONDITION_FAILED: SOFTWARE}


def _check_add(words: Words) -> None:
    if not words.arguments[0]:
        raise bad(": user cannot be an empty string", DATA)
    hashed = words.options.get("pre_hashed_password")
    if hashed and len(words.arguments) > 1:
        try:
            base64.b64decode(words.arguments[1], validate=True)
        except ValueError:
            raise bad(": Could not Base64 decode provided password hash value", DATA) from None


def _password(words: Words) -> str:
    """The password: the second argument, typed, or a line of the standard input.

    Raises:
        Failure: There is none.
    """
    if len(words.arguments) > 1:
        return words.arguments[1]
    if sys.stdin.isatty():
        return getpass.getpass("Password: ")
    print("Password: ")
    line = sys.stdin.readline()
    if not line:
        raise Failure(SOFTWARE, "Password is not provided via argument or stdin")
    return line.rstrip("\r\n")


def _add(session: ToolSession, words: Words) -> Output:
    asked: dict[str, Any] = {"name": words.arguments[0]}
    hashed = words.options.get("pre_hashed_password")
    asked["password_hash" if hashed else "password"] = _password(words)
    session.ask("add_user", asked, None, UNKNOWN_USER)
    return ToolAnswer(ADDED, {"result": "ok", "node": session.node})


def _change(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], "password": _password(words)}
    session.ask("change_password", asked, None, UNKNOWN_USER)
    return None


def _authenticate(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], "password": _password(words)}
    try:
        session.ask("authenticate_user", asked, None, {ACCESS_REFUSED: DATA})
    except Failure as failure:
        raise Failure(failure.code, f"Error: {failure.text}") from None
    return ToolAnswer("Success")


def _clear(session: ToolSession, words: Words) -> Output:
    session.ask("clear_password", {"name": words.arguments[0]}, None)
    return None


def _tags(session: ToolSession, words: Words) -> Output:
    asked = {"name": words.arguments[0], "tags": words.arguments[1:]}
    session.ask("set_user_tags", asked, None, UNKNOWN_USER)
    return None


def _delete(session: ToolSession, words: Words) -> Output:
    try:
        session.ask("delete_user", {"name": words.arguments[0]}, None, UNKNOWN_USER)
    except Failure as failure:
        # One that is not there is no error.
        if failure.code != NO_USER:
            raise
    return None


def _list(session: ToolSession, words: Words) -> Output:
    users = session.ask("list_users", {}, list[UserRow])
    return ToolRows(("user", "tags"), [(row.user, Atoms(row.tags)) for row in users])


def _set_limits(session: ToolSession, words: Words) -> Output:
    user, definition = words.arguments
    session.ask("set_user_limits", {"user": user, "definition": definition}, None)
    return None


def _clear_limits(session: ToolSession, words: Words) -> Output:
    user, limit = words.arguments
    session.ask("clear_user_limits", {"user": user, "limit": limit}, None)
    return None


def _limits(session: ToolSession, words: Words) -> Output:
    user = None if words.options.get("global") else str(words.options.get("user", "guest"))
    rows = session.ask("list_user_limits", {"user": user}, list[UserLimitsRow])
    if user is not None:
        text = as_text(rows[0].limits)
        return ToolAnswer(text, {"node": session.node, "result": "ok", "value": text})
    return ToolRows(("user", "limits"), [(row.user, as_text(row.limits)) for row in rows])


def as_text(value: Any) -> str:
    """JSON, as it is shown within other JSON."""
    return msgspec.json.encode(value, order="sorted").decode()


def _hash(session: ToolSession, words: Words) -> Output:
    secret = words.arguments[0].encode("utf-8", "surrogateescape")
    salt = os.urandom(SALT_BYTES)
    hashed = base64.b64encode(salt + hashlib.sha256(salt + secret).digest()).decode()
    return ToolAnswer(hashed, {"node": session.node, "result": "ok", "value": hashed})


def _of_limits(session: ToolSession, words: Words) -> str:
    if words.options.get("global"):
        return "Listing limits for all users ..."
    return f'Listing limits for user "{words.options.get("user", "guest")}" ...'


def _of_clearing(session: ToolSession, words: Words) -> str:
    user, limit = words.arguments
    what = "all limits" if limit == "all" else f'"{limit}" limit'
    return f'Clearing {what} for user "{user}" ...'


def _of_tags(session: ToolSession, words: Words) -> str:
    tags = ", ".join(words.arguments[1:])
    return f'Setting tags for user "{words.arguments[0]}" to [{tags}] ...'


PRE_HASHED: Final = {"pre_hashed_password": TRUTH}

add(
    ToolCommand(
        "add_user",
        (CTL,),
        "<username> [<password>] [<password_hash> --pre-hashed-password]",
        USERS,
        "Creates a user, who may not enter any virtual host yet",
        _add,
        1,
        2,
        PRE_HASHED,
        says('Adding user "{0}" ...'),
        _check_add,
        at_once=True,
    ),
    ToolCommand(
        "change_password",
        (CTL,),
        "<username> [<password>]",
        USERS,
        "Gives a user another password",
        _change,
        1,
        2,
        banner=says('Changing password for user "{0}" ...'),
        at_once=True,
    ),
    ToolCommand(
        "authenticate_user",
        (CTL,),
        "<username> [<password>]",
        USERS,
        "Sees whether a password is a user's",
        _authenticate,
        1,
        2,
        banner=says('Authenticating user "{0}" ...'),
        at_once=True,
    ),
    ToolCommand(
        "clear_password",
        (CTL,),
        "<username>",
        USERS,
        "Lets a user log in by no password any more",
        _clear,
        1,
        1,
        banner=says('Clearing password for user "{0}" ...'),
    ),
    ToolCommand(
        "set_user_tags",
        (CTL,),
        "<username> <tag> [...]",
        USERS,
        "Gives a user tags, in the place of those before",
        _tags,
        1,
        -1,
        banner=_of_tags,
    ),
    ToolCommand(
        "delete_user",
        (CTL,),
        "<username>",
        USERS,
        "Deletes a user, and closes its connections",
        _delete,
        1,
        1,
        banner=says('Deleting user "{0}" ...'),
    ),
    ToolCommand(
        "list_users",
        LISTING,
        "[--no-table-headers] [--timeout <timeout>]",
        USERS,
        "Lists users and their tags",
        _list,
        banner=says("Listing users ..."),
    ),
    ToolCommand(
        "set_user_limits",
        (CTL,),
        "<username> <definition>",
        USERS,
        "Sets limits of a user",
        _set_limits,
        2,
        2,
        banner=says('Setting user limits to "{1}" for user "{0}" ...'),
    ),
    ToolCommand(
        "clear_user_limits",
        (CTL,),
        "<username> <limit_type> | all",
        USERS,
        "Takes limits of a user away",
        _clear_limits,
        2,
        2,
        banner=_of_clearing,
    ),
    ToolCommand(
        "list_user_limits",
        LISTING,
        "[--user <username>] [--global]",
        USERS,
        "Lists limits of users",
        _limits,
        switches={"user": TEXT, "global": TRUTH},
        banner=_of_limits,
    ),
    ToolCommand(
        "hash_password",
        (CTL,),
        "<cleartext_password>",
        OTHER,
        "Makes a salted hash of a password",
        _hash,
        1,
        1,
        banner=says("Will hash password {0}"),
    ),
)
