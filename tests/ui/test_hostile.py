"""Names that are meant to break pages: they are shown as they are, and nothing more."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.ui.rest import Rest

NAMES = [
    "<img src=x onerror=alert(1)><script>alert(2)</script>",
    "</title></bdi></svg></textarea><script>alert(3)</script>",
    "\"' onmouseover=alert(1) x='",
    "..",
    ".",
    "~tilde",
    "a/b%2Fc?d#e&f=g;h+i j",
    "{{ 7 * 7 }}{% raw %}",
    "é\u202eevil\u2066",
    "兎" * 85,
]


def segment(name: str) -> str:
    mark = "~" if name in ("", ".", "..") or name.startswith("~") else ""
    return mark + quote(name, safe="")


def title(visit: Any) -> str:
    """What the window is called: the page's own words, and no element that a name brought in."""
    assert visit.page.locator("head > title").count() == 1
    assert visit.page.locator("body script, body title").count() == 0
    return str(visit.page.title())


def titled(words: str) -> str:
    """A title as browsers give it back."""
    return " ".join(f"{words} – Warren".split())


def test_names_are_shown_as_they_are(visit: Any, rest: Rest) -> None:
    """Of queues and exchanges, made by forms, in lists, bindings and the map, and deleted again."""
    for name in NAMES:
        for kind, button in (("exchanges", "Declare exchange"), ("queues", "Declare queue")):
            visit.go(f"/{kind}")
            card = visit.card("declare")
            card.locator("[name=name]").fill(name)
            card.locator(f"button:text-is('{button}')").click()
            assert "Not done" not in visit.notice(), (name, visit.notice())
            assert visit.page.locator("h1 bdi").text_content() == name
            kind_words = "Queue" if kind == "queues" else "Exchange"
            assert title(visit) == titled(f"{kind_words} {name}")
        card = visit.card("bind")
        card.locator("[name=other]").fill(name)
        card.locator("[name=routing_key]").fill(name)
        card.locator("button:text-is('Bind')").click()
        assert visit.notice() == f"The queue is bound to “{name}” now."
    for path in ("/queues?page_size=200", "/exchanges?page_size=200", "/bindings?page_size=200"):
        visit.go(path)
        shown = visit.page.locator("tbody th bdi").evaluate_all(
            "all => all.map(e => e.textContent)"
        )
        assert set(NAMES) <= set(shown), path
    assert visit.go("/map") == 200
    for name in NAMES:
        for part, words in (
            ("/messages", "Messages of"),
            ("/dead-letters", "Dead letters in"),
            ("/move", "Move messages of"),
            ("/search", "Search"),
        ):
            assert visit.go(f"/queues/%2F/{segment(name)}{part}") == 200, (name, part)
            assert title(visit) == titled(f"{words} {name}")
        visit.go(f"/queues/%2F/{segment(name)}")
        visit.page.locator("button:text-is('Unbind')").click()
        visit.sure()
        assert visit.notice() == "The binding is gone."
        visit.card("delete").locator("button").click()
        visit.sure()
        assert "is gone" in visit.notice()
        visit.go(f"/exchanges/%2F/{segment(name)}")
        visit.card("delete").locator("button").click()
        visit.sure()
        assert "is gone" in visit.notice()
    assert not {row["name"] for row in rest.ask("GET", "queues")} & set(NAMES)


@pytest.mark.parametrize("name", [NAMES[0], NAMES[1], NAMES[3], NAMES[6]])
def test_users_vhosts_and_policies_of_such_names(visit: Any, rest: Rest, name: str) -> None:
    for area in ("vhosts", "users"):
        visit.go(f"/{area}")
        card = visit.card("create")
        card.locator("[name=name]").fill(name)
        if area == "users":
            card.locator("[name=password]").fill("a")
            card.locator("[name=password_again]").fill("a")
        card.locator("button").click()
        assert visit.page.locator("h1 bdi").text_content() == name
        words = "User" if area == "users" else "Virtual host"
        assert title(visit) == titled(f"{words} {name}")
    card = visit.card("permit")
    card.locator("[name=vhost]").select_option(segment(name))
    card.locator("button").click()
    assert visit.page.locator("tbody th bdi").text_content() == name
    visit.go("/policies")
    card = visit.card("form")
    card.locator("[name=vhost]").select_option(segment(name))
    card.locator("[name=name]").fill(name)
    card.locator("[name=pattern]").fill("a")
    card.locator("button:text-is('Max length')").click()
    card.locator("[name=arg-value]").fill("1")
    card.locator("button:text-is('Add policy')").click()
    visit.sure()
    visit.page.click("text=Edit")
    assert visit.page.locator("#form [name=name]").input_value() == name
    visit.page.click("button:text-is('Delete')")
    visit.sure()
    assert "is gone" in visit.notice()
    visit.go(f"/users/{segment(name)}")
    visit.card("delete").locator("button").click()
    visit.sure()
    visit.go(f"/vhosts/{segment(name)}")
    visit.card("delete").locator("button").click()
    visit.sure(name)
    assert name not in {row["name"] for row in rest.ask("GET", "vhosts")}


def test_messages_that_are_no_text(visit: Any, rest: Rest) -> None:
    rest.ask("PUT", "queues", "/", "h.bytes", body={"durable": True})
    document = {
        "routing_key": "h.bytes",
        "properties": {"headers": {NAMES[0]: NAMES[1]}, "type": NAMES[0]},
        "payload": "/wD+PHNjcmlwdD4=",
        "payload_encoding": "base64",
    }
    rest.ask("POST", "exchanges", "/", "amq.default", "publish", body=document)
    visit.go("/queues/%2F/h.bytes/messages")
    visit.page.click("button:text-is('Look')")
    assert visit.page.locator("pre").text_content() == document["payload"]
    assert NAMES[0] in visit.page.inner_text(".message")
    rest.ask("DELETE", "queues", "/", "h.bytes")
