"""Users, their permissions and limits."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import Any

import msgspec

from warren.admin.http import fields
from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok, put
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import bad_request, erlang, not_there
from warren.admin.http.paging import listed, listing, narrowed_one
from warren.admin.service import details, limits, permissions, users, vhosts
from warren.admin.service.rows import (
    PermissionRow,
    TopicPermissionRow,
    UserPermissionRow,
    UserTopicPermissionRow,
)
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal

SHA256 = "rabbit_password_hashing_sha256"
"""How hashes were made of which nothing is said."""

# --- users --------------------------------------------------------------------------------------


async def all_users(asked: HttpRequest) -> HttpAnswer:
    """All users."""
    rows = await details.user_details(asked.service, asked.caller)
    return await listing(asked, rows, fields.user)


async def users_without_permissions(asked: HttpRequest) -> HttpAnswer:
    """Those that may enter no vhost."""
    rows = await details.user_details(asked.service, asked.caller)
    placed: set[str] = set()
    for vhost in await vhosts.list_vhosts(asked.service, asked.caller):
        those = await permissions.list_permissions(asked.service, asked.caller, vhost=vhost.name)
        placed.update(row.user for row in those)
    return await listing(asked, [row for row in rows if row.name not in placed], fields.user)


async def one_user(asked: HttpRequest) -> HttpAnswer:
    """One user."""
    rows = await details.user_details(asked.service, asked.caller, user=asked["user"])
    return ok(narrowed_one(asked, fields.user(rows[0])))


async def put_user(asked: HttpRequest) -> HttpAnswer:
    """Create a user, or give it another password and other tags."""
    document = asked.document()
    there = await _user_is_there(asked, asked["user"])
    await put_one_user(asked, asked["user"], document, there)
    return put(not there)


async def put_one_user(
    asked: HttpRequest, name: str, document: dict[str, Any], there: bool
) -> None:
    """Do it with what a document says, all of which is looked at before."""
    tags = tags_asked(document)
    given = password_asked(document)
    user_limits = document.get("limits")
    if user_limits is not None and not isinstance(user_limits, dict):
        raise bad_request("limits is no object")
    rights = rights_asked(document)
    service, caller = asked.service, asked.caller
    if user_limits:
        limits.check_limits_of_user(user_limits)
    if there and given:
        await users.change_password(service, caller, name=name, **given)
    elif there:
        await users.clear_password(service, caller, name=name)
    else:
        await users.add_user(service, caller, name=name, **given)
    if there or tags:
        await users.set_user_tags(service, caller, name=name, tags=tags)
    if user_limits:
        definition = msgspec.json.encode(user_limits).decode()
        await limits.set_user_limits(service, caller, user=name, definition=definition)
    # As with RabbitMQ, they are of users who are new.
    for vhost, patterns in {} if there else rights.items():
        await permissions.set_permissions(service, caller, vhost=vhost, user=name, **patterns)


def tags_asked(document: dict[str, Any]) -> list[str]:
    """The tags that a user is to have; `administrator` is what was said before there were tags."""
    if "tags" in document:
        return tags_of(document["tags"])
    administrator = document.get("administrator")
    if administrator not in (True, False, "true", "false"):
        raise bad_request("tags_not_present")
    return ["administrator"] if administrator in (True, "true") else []


def password_asked(document: dict[str, Any]) -> dict[str, str]:
    """The password that a user is to have, or its hash; nothing for none."""
    password = document.get("password")
    if password is not None and document.get("password_hash") is not None:
        raise bad_request("both_password_and_password_hash_are_provided")
    if isinstance(password, str):
        return {"password": password}
    if password is not None:
        raise bad_request("password_not_string")
    if document.get("password_hash"):
        return {
            "password_hash": hash_of(document["password_hash"]),
            "hashing_algorithm": str(document.get("hashing_algorithm") or SHA256),
        }
    return {}


def rights_asked(document: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Permissions by vhost, which RabbitMQ takes beside a name."""
    rights = document.get("permissions")
    if rights is None:
        return {}
    keys = ("configure", "write", "read")
    if not isinstance(rights, dict) or not all(isinstance(row, dict) for row in rights.values()):
        raise bad_request("permissions has an object for each vhost")
    return {vhost: dict(zip(keys, texts(row, *keys), strict=True)) for vhost, row in rights.items()}


def hash_of(value: object) -> str:
    """A hash of a password in Base64, as far as a request says."""
    if not isinstance(value, str):
        raise bad_request("password_hash_not_string")
    try:
        b64decode(value, validate=True)
    except (Base64Error, ValueError):
        raise bad_request(["not_base64", value]) from None
    return value


def tags_of(value: object) -> list[str]:
    """Tags as a list, or as texts between commas."""
    if isinstance(value, str):
        return [tag.strip() for tag in value.split(",") if tag.strip()]
    if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
        return value
    raise bad_request("tags are a list of texts, or a text with commas")


async def hash_password(asked: HttpRequest) -> HttpAnswer:
    """What a password comes to with a new salt, as `password_hash` of users has it."""
    return ok(
        {"ok": await users.salted_hash(asked.service, asked.caller, password=asked["password"])}
    )


async def delete_user(asked: HttpRequest) -> HttpAnswer:
    """Delete a user."""
    await users.delete_user(asked.service, asked.caller, name=asked["user"])
    return NO_CONTENT


async def delete_users(asked: HttpRequest) -> HttpAnswer:
    """Delete several users; those that there are not are passed over."""
    (names,) = needed(asked.document(), "users")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("users are a list of texts")
    for name in names:
        try:
            await users.delete_user(asked.service, asked.caller, name=name)
        except Refusal as refusal:
            if refusal.kind != NOT_FOUND:
                raise
    return NO_CONTENT


async def _user_is_there(asked: HttpRequest, name: str) -> bool:
    rows = await details.user_details(asked.service, asked.caller)
    return any(row.name == name for row in rows)


# --- permissions --------------------------------------------------------------------------------


def permission(vhost: str, row: PermissionRow) -> dict[str, Any]:
    """Permissions of a user in a vhost."""
    return {"vhost": vhost, **row.cells()}


def topic_permission(vhost: str, row: TopicPermissionRow) -> dict[str, Any]:
    """Topic permissions of a user in a vhost."""
    return {"vhost": vhost, **row.cells()}


def own_permission(user: str, row: UserPermissionRow | UserTopicPermissionRow) -> dict[str, Any]:
    """The same from the user's side."""
    return {"user": user, **row.cells()}


async def _permissions(asked: HttpRequest, vhost: str) -> list[dict[str, Any]]:
    rows = await permissions.list_permissions(asked.service, asked.caller, vhost=vhost)
    return [permission(vhost, row) for row in rows]


async def _topic_permissions(asked: HttpRequest, vhost: str) -> list[dict[str, Any]]:
    rows = await permissions.list_topic_permissions(asked.service, asked.caller, vhost=vhost)
    return [topic_permission(vhost, row) for row in rows]


async def all_permissions(asked: HttpRequest) -> HttpAnswer:
    """Permissions of all users in all vhosts."""
    rows: list[dict[str, Any]] = []
    for vhost in await vhosts.list_vhosts(asked.service, asked.caller):
        rows += await _permissions(asked, vhost.name)
    rows.sort(key=lambda row: (row["user"], row["vhost"]))
    return ok(listed(asked, rows))


async def permissions_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those in one vhost."""
    return ok(listed(asked, await _permissions(asked, asked["vhost"])))


async def permissions_of_user(asked: HttpRequest) -> HttpAnswer:
    """Those of one user."""
    rows = await permissions.list_user_permissions(asked.service, asked.caller, user=asked["user"])
    return ok(listed(asked, [own_permission(asked["user"], row) for row in rows]))


async def one_permission(asked: HttpRequest) -> HttpAnswer:
    """Those of one user in one vhost."""
    for row in await _permissions(asked, asked["vhost"]):
        if row["user"] == asked["user"]:
            return ok(narrowed_one(asked, row))
    raise not_there()


async def put_permission(asked: HttpRequest) -> HttpAnswer:
    """Let a user into a vhost, or change what it may do there."""
    configure, write, read = texts(asked.document(), "configure", "write", "read")
    before = await _before(asked, _permissions)
    try:
        await permissions.set_permissions(
            asked.service,
            asked.caller,
            vhost=asked["vhost"],
            user=asked["user"],
            configure=configure,
            write=write,
            read=read,
        )
    except Refusal as refusal:
        raise _wrong_names(refusal) from None
    return put(asked["user"] not in before)


async def delete_permission(asked: HttpRequest) -> HttpAnswer:
    """Let a user into a vhost no more."""
    if asked["user"] not in {row["user"] for row in await _permissions(asked, asked["vhost"])}:
        raise not_there()
    await permissions.clear_permissions(
        asked.service, asked.caller, vhost=asked["vhost"], user=asked["user"]
    )
    return NO_CONTENT


async def all_topic_permissions(asked: HttpRequest) -> HttpAnswer:
    """Topic permissions of all users in all vhosts."""
    rows: list[dict[str, Any]] = []
    for vhost in await vhosts.list_vhosts(asked.service, asked.caller):
        rows += await _topic_permissions(asked, vhost.name)
    return ok(listed(asked, rows))


async def topic_permissions_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those in one vhost."""
    return ok(listed(asked, await _topic_permissions(asked, asked["vhost"])))


async def topic_permissions_of_user(asked: HttpRequest) -> HttpAnswer:
    """Those of one user."""
    rows = await permissions.list_user_topic_permissions(
        asked.service, asked.caller, user=asked["user"]
    )
    return ok(listed(asked, [own_permission(asked["user"], row) for row in rows]))


async def some_topic_permissions(asked: HttpRequest) -> HttpAnswer:
    """Those of one user in one vhost."""
    rows = await _topic_permissions(asked, asked["vhost"])
    found = [row for row in rows if row["user"] == asked["user"]]
    if not found:
        raise not_there()
    return ok(listed(asked, found))


async def put_topic_permission(asked: HttpRequest) -> HttpAnswer:
    """Bound the routing keys of a user and an exchange."""
    exchange, write, read = texts(asked.document(), "exchange", "write", "read")
    before = await _before(asked, _topic_permissions)
    try:
        await permissions.set_topic_permissions(
            asked.service,
            asked.caller,
            vhost=asked["vhost"],
            user=asked["user"],
            exchange=exchange,
            write=write,
            read=read,
        )
    except Refusal as refusal:
        raise _wrong_names(refusal) from None
    return put(asked["user"] not in before)


async def delete_topic_permissions(asked: HttpRequest) -> HttpAnswer:
    """Let a user use any routing key again."""
    rows = await _topic_permissions(asked, asked["vhost"])
    if asked["user"] not in {row["user"] for row in rows}:
        raise not_there()
    await permissions.clear_topic_permissions(
        asked.service, asked.caller, vhost=asked["vhost"], user=asked["user"]
    )
    return NO_CONTENT


async def _before(asked: HttpRequest, rows: Any) -> set[str]:
    """The users that a vhost has such rows of; none if there is no such vhost."""
    try:
        return {row["user"] for row in await rows(asked, asked["vhost"])}
    except Refusal as refusal:
        if refusal.kind != NOT_FOUND:
            raise
        return set()


def _wrong_names(refusal: Refusal) -> Exception:
    """What is told where the user or the vhost does not exist."""
    if refusal.kind == NOT_FOUND and not refusal.text.startswith("Exchange"):
        return bad_request("vhost_or_user_not_found")
    if refusal.kind in (NOT_FOUND, PRECONDITION_FAILED):
        return bad_request(refusal.text)
    return refusal


def texts(document: dict[str, Any], *keys: str) -> list[str]:
    """Values of a body that have to be there, and texts.

    Raises:
        Problem: Some are not.
    """
    values = needed(document, *keys)
    for key, value in zip(keys, values, strict=True):
        if not isinstance(value, str):
            raise bad_request(f"{key} should be a text")
    return values


# --- limits -------------------------------------------------------------------------------------


async def all_vhost_limits(asked: HttpRequest) -> HttpAnswer:
    """Limits of all vhosts that have some."""
    rows = await details.visible_vhost_limits(asked.service, asked.caller)
    return ok([{"vhost": row.vhost, "value": row.limits} for row in rows])


async def limits_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one vhost."""
    rows = await details.visible_vhost_limits(asked.service, asked.caller, vhost=asked["vhost"])
    return ok([{"vhost": row.vhost, "value": row.limits} for row in rows])


async def put_vhost_limit(asked: HttpRequest) -> HttpAnswer:
    """Set one limit of a vhost."""
    value = limit_of(asked)
    found = await limits.list_vhost_limits(asked.service, asked.caller, vhost=asked["vhost"])
    await _set_vhost_limits(asked, {**found[0].limits, asked["name"]: value})
    return NO_CONTENT


async def delete_vhost_limit(asked: HttpRequest) -> HttpAnswer:
    """Take one limit of a vhost away."""
    (row,) = await limits.list_vhost_limits(asked.service, asked.caller, vhost=asked["vhost"])
    if asked["name"] in row.limits:
        left = {name: value for name, value in row.limits.items() if name != asked["name"]}
        await _set_vhost_limits(asked, left)
    return NO_CONTENT


async def _set_vhost_limits(asked: HttpRequest, wanted: dict[str, Any]) -> None:
    try:
        await limits.set_vhost_limits(
            asked.service,
            asked.caller,
            vhost=asked["vhost"],
            definition=msgspec.json.encode(wanted).decode(),
        )
    except Refusal as refusal:
        if refusal.kind != PRECONDITION_FAILED:
            raise
        text = words(refusal.text, asked["name"], wanted.get(asked["name"]))
        raise bad_request(text.replace("vhost-limits", "limits") + "\n") from None


def limit_of(asked: HttpRequest) -> object:
    """The value that a request gives a limit.

    Raises:
        Problem: It gives none, or no number.
    """
    (value,) = needed(asked.document(), "value")
    return value


async def all_user_limits(asked: HttpRequest) -> HttpAnswer:
    """Limits of all users that have some."""
    rows = await limits.list_user_limits(asked.service, asked.caller)
    return ok([{"user": row.user, "value": row.limits} for row in rows])


async def limits_of_user(asked: HttpRequest) -> HttpAnswer:
    """Those of one user."""
    rows = await limits.list_user_limits(asked.service, asked.caller, user=asked["user"])
    return ok([{"user": row.user, "value": row.limits} for row in rows if row.limits])


async def put_user_limit(asked: HttpRequest) -> HttpAnswer:
    """Set one limit of a user."""
    value = limit_of(asked)
    try:
        await limits.set_user_limits(
            asked.service,
            asked.caller,
            user=asked["user"],
            definition=msgspec.json.encode({asked["name"]: value}).decode(),
        )
    except Refusal as refusal:
        if refusal.kind == NOT_FOUND:
            raise bad_request(["no_such_user", asked["user"]]) from None
        if refusal.kind != PRECONDITION_FAILED:
            raise
        text = words(refusal.text, asked["name"], value)
        raise bad_request(text.removeprefix("Validation failed\n\n")) from None
    return NO_CONTENT


async def delete_user_limit(asked: HttpRequest) -> HttpAnswer:
    """Take one limit of a user away."""
    await limits.clear_user_limits(
        asked.service, asked.caller, user=asked["user"], limit=asked["name"]
    )
    return NO_CONTENT


def words(text: str, name: str, value: object) -> str:
    """A refusal of a limit, with names and values as RabbitMQ's API shows them."""
    shown = msgspec.json.encode(value).decode()
    text = text.replace(f'{{"{name}",{shown}}}', f"{{{erlang(name)},{erlang(value)}}}")
    return text.replace(f"actually was {shown}", f"actually was {erlang(value)}")


RESOURCES = [
    Resource("/api/auth/hash_password/{password}", get=hash_password),
    Resource("/api/users", get=all_users),
    Resource("/api/users/without-permissions", get=users_without_permissions),
    Resource("/api/users/bulk-delete", post=delete_users),
    Resource("/api/users/{user}", get=one_user, put=put_user, delete=delete_user),
    Resource("/api/users/{user}/permissions", get=permissions_of_user),
    Resource("/api/users/{user}/topic-permissions", get=topic_permissions_of_user),
    Resource("/api/permissions", get=all_permissions),
    Resource(
        "/api/permissions/{vhost}/{user}",
        get=one_permission,
        put=put_permission,
        delete=delete_permission,
    ),
    Resource("/api/vhosts/{vhost}/permissions", get=permissions_of_vhost),
    Resource("/api/topic-permissions", get=all_topic_permissions),
    Resource(
        "/api/topic-permissions/{vhost}/{user}",
        get=some_topic_permissions,
        put=put_topic_permission,
        delete=delete_topic_permissions,
    ),
    Resource("/api/vhosts/{vhost}/topic-permissions", get=topic_permissions_of_vhost),
    Resource("/api/vhost-limits", get=all_vhost_limits),
    Resource("/api/vhost-limits/{vhost}", get=limits_of_vhost),
    Resource("/api/vhost-limits/{vhost}/{name}", put=put_vhost_limit, delete=delete_vhost_limit),
    Resource("/api/user-limits", get=all_user_limits),
    Resource("/api/user-limits/{user}", get=limits_of_user),
    Resource("/api/user-limits/{user}/{name}", put=put_user_limit, delete=delete_user_limit),
]
