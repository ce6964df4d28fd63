"""Users: tags, passwords, permissions and topic permissions."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources import access, exchanges
from warren.admin.ui import known
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listing, vhost_names
from warren.admin.ui.names import path
from warren.admin.ui.wrong import Wrong


async def index(asked: PageRequest) -> Shown:
    """All users."""
    rows = await listing(asked, access.all_users, sort="name")
    placed: dict[str, list[str]] = {}
    for row in await asked.api(access.all_permissions):
        placed.setdefault(row["user"], []).append(row["vhost"])
    columns = ShownColumns("users", asked.columns, True)
    return Shown("users.html", list=rows, columns=columns, placed=placed, tags=known.TAGS)


def tags_of(asked: PageRequest) -> list[str]:
    """The tags that a form says."""
    further = [tag.strip() for tag in asked.form.text("more_tags").split(",")]
    return [*asked.form.all("tag"), *(tag for tag in further if tag)]


def password_of(asked: PageRequest) -> dict[str, Any]:
    """What a form says of the password.

    Raises:
        Wrong: It says nothing that could be one.
    """
    form = asked.form
    if form.text("login") == "none":
        return {"password_hash": ""}
    password = form.text("password")
    if not password:
        raise Wrong(400, "The password is empty: type one, or choose that there is none.")
    if password != form.text("password_again"):
        raise Wrong(400, "The two passwords are not the same.")
    return {"password": password}


async def create(asked: PageRequest) -> WentOn:
    """Create a user."""
    name = asked.form.text("name")
    if not name:
        raise Wrong(400, "A user needs a name.")
    if any(row["name"] == name for row in await asked.api(access.all_users)):
        raise Wrong(400, f"There is a user “{name}” already.")
    document = {"tags": tags_of(asked), **password_of(asked)}
    await asked.api(access.put_user, {"user": name}, document=document)
    text = f"There is the user “{name}” now, who may enter no virtual host yet."
    return WentOn(path("users", name), text)


async def show(asked: PageRequest) -> Shown:
    """One user."""
    user = {"user": asked["name"]}
    vhosts = await vhost_names(asked)
    return Shown(
        "user.html",
        found=await asked.api(access.one_user, user),
        permissions=await asked.api(access.permissions_of_user, user),
        topics=await asked.api(access.topic_permissions_of_user, user),
        vhosts=vhosts,
        tags=known.TAGS,
        topic_exchanges=sorted(
            {
                row["name"]
                for row in await asked.api(exchanges.all_exchanges)
                if row["type"] == "topic"
            }
        ),
    )


async def change(asked: PageRequest) -> WentOn:
    """Give a user other tags, and another password if one is typed."""
    user = {"user": asked["name"]}
    found = await asked.api(access.one_user, user)
    if asked.form.text("login") == "keep":
        kept = {name: found[name] for name in ("password_hash", "hashing_algorithm")}
    else:
        kept = password_of(asked)
    await asked.api(access.put_user, user, document={"tags": tags_of(asked), **kept})
    return WentOn(asked.path, "The user is changed.")


async def delete(asked: PageRequest) -> WentOn:
    """Delete a user."""
    name = asked["name"]
    text = f"The user “{name}” would go, with all permissions, and their connections be closed."
    asked.make_sure(text, "Delete user")
    await asked.api(access.delete_user, {"user": asked["name"]})
    return WentOn("/users", f"The user “{asked['name']}” is gone, and so are their connections.")


async def permit(asked: PageRequest) -> WentOn:
    """Say what a user may do in a vhost."""
    form = asked.form
    vhost = form.name("vhost")
    document = {name: form.text(name) for name in ("configure", "write", "read")}
    await asked.api(
        access.put_permission, {"user": asked["name"], "vhost": vhost}, document=document
    )
    return WentOn(asked.path, f"The permissions in “{vhost}” are set.")


async def forbid(asked: PageRequest) -> WentOn:
    """Let a user into a vhost no more."""
    vhost = asked.form.name("vhost")
    asked.make_sure(f"“{asked['name']}” could not enter “{vhost}” any more.", "Clear permissions")
    await asked.api(access.delete_permission, {"user": asked["name"], "vhost": vhost})
    return WentOn(asked.path, f"The user may not enter “{vhost}” any more.")


async def permit_topic(asked: PageRequest) -> WentOn:
    """Bound the routing keys of a user and an exchange."""
    form = asked.form
    document = {name: form.text(name) for name in ("exchange", "write", "read")}
    await asked.api(
        access.put_topic_permission,
        {"user": asked["name"], "vhost": form.name("vhost")},
        document=document,
    )
    return WentOn(asked.path, f"The topic permissions for “{document['exchange']}” are set.")


async def free_topic(asked: PageRequest) -> WentOn:
    """Let a user use any routing key in a vhost."""
    vhost = asked.form.name("vhost")
    text = f"“{asked['name']}” could use any routing key in “{vhost}”."
    asked.make_sure(text, "Clear topic permissions")
    await asked.api(access.delete_topic_permissions, {"user": asked["name"], "vhost": vhost})
    return WentOn(asked.path, f"The topic permissions in “{vhost}” are gone.")


PAGES = [
    WebPage("/users", index, {"create": create, "columns": chooser("users")}),
    WebPage(
        "/users/{name}",
        show,
        {
            "change": change,
            "delete": delete,
            "permit": permit,
            "forbid": forbid,
            "permit-topic": permit_topic,
            "free-topic": free_topic,
        },
    ),
]
