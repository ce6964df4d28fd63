"""Limits of vhosts and users."""

from __future__ import annotations

from warren.admin.http.resources import access
from warren.admin.ui import known
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.lists import vhost_names
from warren.admin.ui.wrong import Wrong


async def show(asked: PageRequest) -> Shown:
    """All limits."""
    users = [row["name"] for row in await asked.api(access.all_users)]
    return Shown(
        "limits.html",
        of_vhosts=await asked.api(access.all_vhost_limits),
        of_users=await asked.api(access.all_user_limits),
        vhosts=await vhost_names(asked),
        users=users,
        vhost_limits=known.VHOST_LIMITS,
        user_limits=known.USER_LIMITS,
    )


async def limit_vhost(asked: PageRequest) -> WentOn:
    """Set a limit of a vhost."""
    form = asked.form
    names = {"vhost": form.name("vhost"), "name": form.text("limit")}
    value = form.number("value", "Value")
    await asked.api(access.put_vhost_limit, names, document={"value": value})
    return WentOn("/limits", f"The limit {names['name']} of “{names['vhost']}” is set.")


async def free_vhost(asked: PageRequest) -> WentOn:
    """Take a limit of a vhost away."""
    names = {"vhost": asked.form.name("vhost"), "name": asked.form.text("limit")}
    asked.make_sure(f"“{names['vhost']}” would have no {names['name']} any more.", "Clear limit")
    await asked.api(access.delete_vhost_limit, names)
    return WentOn("/limits", f"The limit {names['name']} of “{names['vhost']}” is gone.")


async def limit_user(asked: PageRequest) -> WentOn:
    """Set a limit of a user."""
    form = asked.form
    names = {"user": form.name("user"), "name": form.text("limit")}
    if not names["user"]:
        raise Wrong(400, "Choose a user.")
    value = form.number("value", "Value")
    await asked.api(access.put_user_limit, names, document={"value": value})
    return WentOn("/limits", f"The limit {names['name']} of the user “{names['user']}” is set.")


async def free_user(asked: PageRequest) -> WentOn:
    """Take a limit of a user away."""
    names = {"user": asked.form.name("user"), "name": asked.form.text("limit")}
    asked.make_sure(f"“{names['user']}” would have no {names['name']} any more.", "Clear limit")
    await asked.api(access.delete_user_limit, names)
    return WentOn("/limits", f"The limit {names['name']} of the user “{names['user']}” is gone.")


PAGES = [
    WebPage(
        "/limits",
        show,
        {
            "limit-vhost": limit_vhost,
            "free-vhost": free_vhost,
            "limit-user": limit_user,
            "free-user": free_user,
        },
    )
]
