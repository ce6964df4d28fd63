"""Every page: it is drawn, people of all kinds can use it, and it shows the figures there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest
from playwright.sync_api import expect

from tests.ui.conftest import WAIT_MS
from tests.ui.rest import Rest, wait_for
from warren.admin.ui.pages.catalogue import PAGES

PUSHED = "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)"
"""Tables that have to be pushed sideways to be seen."""
NARROW, WIDE = 390, 1440
FIXED = (
    "/",
    "/slow",
    "/connections",
    "/channels",
    "/queues",
    "/exchanges",
    "/exchanges/%2F/amq.topic",
    "/exchanges/%2F/amq.default",
    "/bindings",
    "/map?defaults=true",
    "/moves",
    "/policies",
    "/operator-policies",
    "/limits",
    "/vhosts",
    "/vhosts/%2F",
    "/users",
    "/users/guest",
    "/nodes",
    "/feature-flags",
    "/definitions",
)
OF_QUEUE = (
    "",
    "/messages",
    "/messages/0",
    "/search",
    "/search?where=body&text=m",
    "/dead-letters",
    "/move",
)


FILE = "/definitions/file"
"""It is no page: browsers keep what comes from there."""


@pytest.fixture
def connected(filled: None, ui_broker: Any, rest: Rest) -> Iterator[list[str]]:
    """Paths of a client, of its channel, and of a move of messages."""
    parameters = pika.URLParameters(ui_broker.url)
    # Nobody looks after it while pages are read, which takes minutes on a busy machine.
    parameters.heartbeat = 0
    parameters.client_properties = {"connection_name": "p.client", "of": {"one": {"more": 1}}}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_consume("p.other", lambda *_: None, arguments={"x-priority": 3})

        def channels() -> list[str]:
            return [
                row["name"]
                for row in rest.ask("GET", "channels")
                if row["consumer_count"] and row["connection_details"]["peer_host"]
            ]

        wait_for(lambda: bool(channels()))
        name = channels()[0]
        client = name.rpartition(" ")[0]
        yield [f"/connections/{quote(client, safe='')}", f"/channels/{quote(name, safe='')}"]


@pytest.fixture
def filled(rest: Rest) -> None:
    """A broker that has something of everything."""
    rest.ask(
        "PUT", "queues", "/", "p.q", body={"durable": True, "arguments": {"x-queue-type": "quorum"}}
    )
    rest.ask("PUT", "queues", "/", "p.other", body={"durable": True})
    rest.ask("PUT", "exchanges", "/", "p.x", body={"type": "topic", "durable": True})
    rest.ask("POST", "bindings", "/", "e", "p.x", "q", "p.q", body={"routing_key": "a.#"})
    policy = {"pattern": "^p", "definition": {"max-length": 100}, "apply-to": "queues"}
    rest.ask("PUT", "policies", "/", "p.p", body=policy)
    rest.ask("PUT", "operator-policies", "/", "p.o", body=policy)
    rest.ask("PUT", "vhost-limits", "/", "max-queues", body={"value": 1000})
    rest.ask("PUT", "user-limits", "guest", "max-channels", body={"value": 1000})
    topics = {"exchange": "amq.topic", "write": ".*", "read": ".*"}
    rest.ask("PUT", "topic-permissions", "/", "guest", body=topics)
    rest.publish("p.q", 3)


@pytest.mark.early
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_all_pages_can_be_used_by_all(
    connected: list[str], rest: Rest, visits: Callable[..., Any], scheme: str, width: int
) -> None:
    """Axe finds nothing in light or dark, and nothing is wider than the window."""
    node = rest.ask("GET", "nodes")[0]["name"]
    paths = [*FIXED, *(f"/queues/%2F/p.q{part}" for part in OF_QUEUE), f"/nodes/{node}", *connected]
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 844}}
    with visits(bypass_csp=True, **options) as visit:
        visit.go("/login")
        assert visit.faults() == []
        visit.log_in()
        visit.go("/queues/%2F/p.q/move")
        visit.page.fill("[name=target]", "p.other")
        visit.page.click("button:text-is('Dry run')")
        visit.page.wait_for_url("**/moves/*")
        paths.append(visit.page.evaluate("location.pathname"))
        assert [
            page.path for page in PAGES if not any(fits(page.path, each) for each in paths)
        ] == [FILE]
        for path in [*paths, "/policies?edit=p.p&in=%2F", "/none"]:
            assert visit.go(path) == (404 if path == "/none" else 200), path
            assert visit.page.locator("h1").count() == 1, path
            # Forms that are folded are read as well.
            visit.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
            assert visit.faults() == [], path
            beyond = "document.documentElement.scrollWidth - innerWidth"
            assert visit.page.evaluate(beyond) <= 0, path
            pushed = visit.page.locator(".table-wrap").evaluate_all(PUSHED)
            assert pushed == [], path
        for part in ("messages", "dead-letters"):
            visit.go(f"/queues/%2F/p.q/{part}")
            visit.page.click(".panel button.primary")
            visit.page.wait_for_selector("#found-title, #groups-title")
            assert visit.faults() == [], part
        # What is asked before something goes for good.
        visit.go("/queues/%2F/p.q")
        visit.card("purge").locator("button.danger").click()
        visit.page.wait_for_selector("[name=sure]", state="attached")
        assert visit.faults() == [], "question"


def fits(pattern: str, path: str) -> bool:
    """Whether a path is one of those that a page has."""
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path.partition("?")[0]) is not None


def test_keys_alone_reach_the_content(visit: Any) -> None:
    visit.go("/")
    visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    visit.page.keyboard.press("Enter")
    assert visit.page.evaluate("document.activeElement.id") == "main"


@pytest.mark.rule("MET-03")
def test_figures_of_the_process_are_shown(visit: Any, rest: Rest, ui_broker: Any) -> None:
    """Memory, disk, descriptors, sockets and the process, of each node."""
    node = rest.ask("GET", "nodes")[0]
    for path in ("/", "/nodes"):
        visit.go(path)
        row = visit.page.locator("tr", has=visit.page.get_by_text(node["name"])).inner_text()
        assert str(ui_broker.pid) in row
        assert f"of {node['fd_total']:,}" in row
        assert "MiB of" in row and "at least" in row
    visit.go(f"/nodes/{node['name']}")
    text = visit.page.inner_text("main")
    for word in ("Memory", "Disk free", "File descriptors", "Sockets", "Uptime", "Process"):
        assert word in text
    assert str(ui_broker.pid) in text and str(ui_broker.data_dir) in text


def test_pages_follow_what_happens(visit: Any, rest: Rest) -> None:
    """Without being loaded anew; the focus stays where it is."""
    rest.ask("PUT", "queues", "/", "p.live", body={"durable": True})
    visit.go("/queues?name=p.live")
    ready = visit.page.locator("#rows tbody [data-title=Ready]")
    assert ready.inner_text() == "0"
    visit.page.locator("#rows tbody a").first.focus()
    rest.publish("p.live", 2)
    expect(ready).to_have_text("2", timeout=WAIT_MS)
    assert visit.page.evaluate("document.activeElement.innerText") == "p.live"
    visit.page.goto(f"{visit.base}/queues/%2F/p.live?range=1m")
    visit.page.wait_for_selector("#charts .plot path.line[d^='M']", state="attached")
    visit.page.hover("#charts .plot >> nth=0")
    assert visit.page.locator(".cursor").count() == 1
    rest.ask("DELETE", "queues", "/", "p.live")


def test_lists_are_sorted_filtered_and_cut(visit: Any, rest: Rest) -> None:
    for number in range(30):
        rest.ask("PUT", "queues", "/", f"p.list.{number:02}", body={"durable": False})
    rest.publish("p.list.07", 2)
    visit.go("/queues?name=p.list&page_size=25")
    rows = visit.page.locator("#rows tbody th")
    assert rows.count() == 25
    visit.page.click("text=Next")
    assert rows.all_inner_texts() == [f"p.list.{number}" for number in range(25, 30)]
    # The highest come first.
    visit.page.click("thead >> text=Ready")
    assert rows.first.inner_text() == "p.list.07"
    assert visit.page.get_attribute("thead th[aria-sort]", "aria-sort") == "descending"
    visit.page.fill("#filter-name", "list.1[0-3]$")
    visit.page.check("[name=use_regex]")
    visit.page.click("button:text('Filter')")
    expect(rows).to_have_count(4, timeout=WAIT_MS)
    for number in range(30):
        rest.ask("DELETE", "queues", "/", f"p.list.{number:02}")
