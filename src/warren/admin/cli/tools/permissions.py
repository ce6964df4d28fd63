"""Permissions and topic permissions of users in vhosts."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    ACCESS,
    CTL,
    NO_USER,
    Failure,
    Output,
    ToolCommand,
    ToolRows,
    Words,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.cli.tools.users import LISTING
from warren.admin.service.rows import (
    PermissionRow,
    TopicPermissionRow,
    UserPermissionRow,
    UserTopicPermissionRow,
    VhostRow,
)

PATTERNS: Final = ("configure", "write", "read")


def _ask(session: ToolSession, operation: str, asked: dict[str, Any]) -> None:
    """Ask for a change; a user that there is not has an exit code of its own."""
    try:
        session.ask(operation, asked, None)
    except Failure as failure:
        user = asked.get("user")
        if failure.text.startswith((f"User {user} does", f'User "{user}" does')):
            raise Failure(NO_USER, f"User {user} does not exist") from None
        raise


def _set(session: ToolSession, words: Words) -> Output:
    user, *patterns = words.arguments
    asked = {"vhost": words.vhost, "user": user, **dict(zip(PATTERNS, patterns, strict=True))}
    _ask(session, "set_permissions", asked)
    return None


def _set_globally(session: ToolSession, words: Words) -> Output:
    user, *patterns = words.arguments
    for vhost in session.ask("list_vhosts", {}, list[VhostRow]):
        asked = {"vhost": vhost.name, "user": user, **dict(zip(PATTERNS, patterns, strict=True))}
        _ask(session, "set_permissions", asked)
    return None


def _clear(session: ToolSession, words: Words) -> Output:
    asked = {"vhost": words.vhost, "user": words.arguments[0]}
    try:
        _ask(session, "clear_permissions", asked)
    except Failure as failure:
        # Who has none has none then, too.
        if failure.code != NO_USER:
            raise
    return None


def _list(session: ToolSession, words: Words) -> Output:
    rows = session.ask("list_permissions", {"vhost": words.vhost}, list[PermissionRow])
    return ToolRows(
        ("user", *PATTERNS), [(row.user, row.configure, row.write, row.read) for row in rows]
    )


def _list_of_user(session: ToolSession, words: Words) -> Output:
    asked = {"user": words.arguments[0]}
    rows = session.ask("list_user_permissions", asked, list[UserPermissionRow])
    return ToolRows(
        ("vhost", *PATTERNS), [(row.vhost, row.configure, row.write, row.read) for row in rows]
    )


def _set_topic(session: ToolSession, words: Words) -> Output:
    user, exchange, write, read = words.arguments
    asked = {"vhost": words.vhost, "user": user, "exchange": exchange, "write": write, "read": read}
    _ask(session, "set_topic_permissions", asked)
    return None


def _clear_topic(session: ToolSession, words: Words) -> Output:
    user, *exchange = words.arguments
    asked = {"vhost": words.vhost, "user": user, "exchange": "".join(exchange)}
    _ask(session, "clear_topic_permissions", asked)
    return None


def _list_topic(session: ToolSession, words: Words) -> Output:
    asked = {"vhost": words.vhost}
    rows = session.ask("list_topic_permissions", asked, list[TopicPermissionRow])
    return ToolRows(
        ("user", "exchange", "write", "read"),
        [(row.user, row.exchange, row.write, row.read) for row in rows],
    )


def _list_topic_of_user(session: ToolSession, words: Words) -> Output:
    asked = {"user": words.arguments[0]}
    rows = session.ask("list_user_topic_permissions", asked, list[UserTopicPermissionRow])
    return ToolRows(
        ("vhost", "exchange", "write", "read"),
        [(row.vhost, row.exchange, row.write, row.read) for row in rows],
        headed=False,
    )


def _of_clearing(session: ToolSession, words: Words) -> str:
    user, *exchange = words.arguments
    on = f' on "{exchange[0]}"' if exchange else ""
    return f'Clearing topic permissions{on} for user "{user}" in vhost "{words.vhost}" ...'


add(
    ToolCommand(
        "set_permissions",
        (CTL,),
        "[--vhost <vhost>] <username> <conf> <write> <read>",
        ACCESS,
        "Lets a user into a virtual host, by patterns",
        _set,
        4,
        4,
        banner=says('Setting permissions for user "{0}" in vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "set_permissions_globally",
        (CTL,),
        "<username> <conf> <write> <read>",
        ACCESS,
        "Lets a user into all virtual hosts, by patterns",
        _set_globally,
        4,
        4,
        banner=says('Setting permissions for user "{0}" in all virtual hosts ...'),
    ),
    ToolCommand(
        "clear_permissions",
        (CTL,),
        "[--vhost <vhost>] <username>",
        ACCESS,
        "Lets a user into a virtual host no more",
        _clear,
        1,
        1,
        banner=says('Clearing permissions for user "{0}" in vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "list_permissions",
        LISTING,
        "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]",
        ACCESS,
        "Lists the users of a virtual host",
        _list,
        banner=says('Listing permissions for vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "list_user_permissions",
        LISTING,
        "[--no-table-headers] <username>",
        ACCESS,
        "Lists the virtual hosts of a user",
        _list_of_user,
        1,
        1,
        banner=says('Listing permissions for user "{0}" ...'),
    ),
    ToolCommand(
        "set_topic_permissions",
        (CTL,),
        "[--vhost <vhost>] <username> <exchange> <write> <read>",
        ACCESS,
        "Bounds the routing keys that a user may use with a topic exchange",
        _set_topic,
        4,
        4,
        banner=says('Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "clear_topic_permissions",
        (CTL,),
        "[--vhost <vhost>] <username> [<exchange>]",
        ACCESS,
        "Lets a user use any routing key again",
        _clear_topic,
        1,
        2,
        banner=_of_clearing,
    ),
    ToolCommand(
        "list_topic_permissions",
        LISTING,
        "[--vhost <vhost>] [--no-table-headers]",
        ACCESS,
        "Lists the topic permissions of a virtual host",
        _list_topic,
        banner=says('Listing topic permissions for vhost "{vhost}" ...'),
    ),
    ToolCommand(
        "list_user_topic_permissions",
        LISTING,
        "[--no-table-headers] <username>",
        ACCESS,
        "Lists the topic permissions of a user",
        _list_topic_of_user,
        1,
        1,
        banner=says('Listing topic permissions for user "{0}" ...'),
    ),
)
