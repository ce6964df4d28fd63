"""Definitions: all that was declared, as a file, and such a file read in again."""

from __future__ import annotations

from urllib.parse import unquote

from warren.admin.http.answers import parts_of
from warren.admin.http.asked import HttpRequest
from warren.admin.http.resources import definitions
from warren.admin.service.definitions import import_definitions
from warren.admin.ui.asking import Download, PageRequest, Shown, WebPage, WentOn, told
from warren.admin.ui.lists import vhost_names
from warren.admin.ui.wrong import Wrong


async def show(asked: PageRequest) -> Shown:
    """The forms."""
    return Shown("definitions.html", vhosts=await vhost_names(asked))


async def export(asked: PageRequest) -> Download:
    """All definitions, or those of a vhost, as a file."""
    vhost = unquote(asked.query.get("vhost", ""))
    if vhost:
        found = await asked.api(definitions.export_vhost, {"vhost": vhost})
    else:
        found = await asked.api(definitions.export)
    content = b"".join([part async for part in parts_of(found)])
    return Download("definitions.json", content)


async def load(asked: PageRequest) -> WentOn:
    """Have all that a file says."""
    form = asked.form
    text = form.text("file") or form.text("text")
    if not text.strip():
        raise Wrong(400, "Choose a file, or paste its text.")
    vhost = form.name("vhost")
    request = HttpRequest(
        asked.service, asked.caller, {"vhost": vhost}, {}, {}, text.encode("utf-8", "replace")
    )
    await told((definitions.load_vhost if vhost else definitions.load)(request))
    return WentOn("/definitions", "All that the definitions have is there now.")


PAGES = [
    WebPage(
        "/definitions",
        show,
        {"import": load},
        uploads=import_definitions,
        body_bytes_max=definitions.DEFINITIONS_BYTES_MAX,
    ),
    WebPage("/definitions/file", export),
]
