"""Lists: a line a row, columns to choose, small lines, and who a channel is of."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pika
import pytest
from playwright.sync_api import expect

from tests.ui.conftest import WAIT_MS
from tests.ui.rest import Rest
from warren.admin.ui.columns import ShownColumns, cookie_of, parsed
from warren.admin.ui.list_columns import LISTS

LONG = "l.notifications.email.transactional.high-priority.retry.eu-central-1.of-a-long-name"
NAMES = [LONG, *(f"l.{number}" for number in range(7))]


@pytest.fixture
def queues(rest: Rest) -> Any:
    """Queues of long and short names with many arguments, one of them with messages."""
    arguments = {
        "x-max-length": 9,
        "x-message-ttl": 600_000,
        "x-dead-letter-exchange": "amq.fanout",
    }
    arguments |= {"x-dead-letter-routing-key": "k", "x-expires": 600_000, "x-max-priority": 3}
    for name in NAMES:
        rest.ask("PUT", "queues", "/", name, body={"durable": True, "arguments": arguments})
    rest.publish(LONG, 4)
    yield
    for name in NAMES:
        rest.ask("DELETE", "queues", "/", name)


def test_a_row_is_short_whatever_its_name(queues: None, visit: Any) -> None:
    """A name takes three lines where it has to, and all else one."""
    visit.page.set_viewport_size({"width": 1440, "height": 900})
    visit.go("/queues?name=l.")
    rows = visit.page.locator("#rows tbody tr")
    heights = rows.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert len(heights) == len(NAMES)
    assert max(heights) < 67 and sorted(heights)[-2] < 32, heights
    # All columns are to be seen, and the cut name is there in full for who points at it.
    wrap = visit.page.locator(".table-wrap")
    assert wrap.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    assert visit.page.locator("tbody th", has_text=LONG).get_attribute("title") == LONG


@pytest.fixture
def long_names(rest: Rest) -> Any:
    """Something with a long name, a long pattern or many values in each list."""
    rest.ask("PUT", "vhosts", LONG, body={"description": LONG, "tags": "production,europe"})
    rest.ask("PUT", "users", LONG, body={"password": "p", "tags": "monitoring,policymaker"})
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    for vhost in ("/", LONG):
        rest.ask("PUT", "permissions", vhost, LONG, body=rights)
    arguments = {"alternate-exchange": "amq.fanout"}
    body = {"type": "topic", "durable": True, "auto_delete": True, "arguments": arguments}
    rest.ask("PUT", "exchanges", "/", LONG, body={**body, "internal": False})
    rest.ask("PUT", "queues", "/", LONG, body={"durable": True})
    binding = {"routing_key": f"{LONG}.#", "arguments": {"note": LONG, "priority": 9}}
    rest.ask("POST", "bindings", "/", "e", LONG, "q", LONG, body=binding)
    definition = {"max-length": 100_000, "message-ttl": 600_000, "dead-letter-exchange": LONG}
    policy = {"pattern": f"^none-{LONG}$", "definition": definition, "apply-to": "queues"}
    rest.ask("PUT", "policies", "/", LONG, body=policy)
    rest.ask(
        "PUT", "operator-policies", "/", "l.short", body={**policy, "definition": {"max-length": 9}}
    )
    rest.ask("PUT", "vhost-limits", LONG, "max-queues", body={"value": 1_000})
    yield
    for path in (("queues", "/", LONG), ("exchanges", "/", LONG), ("policies", "/", LONG)):
        rest.ask("DELETE", *path)
    for path in (("operator-policies", "/", "l.short"), ("vhosts", LONG), ("users", LONG)):
        rest.ask("DELETE", *path)


OTHERS = {
    "exchanges": ("Type", "Features", "In", "Out"),
    "bindings": ("Routing key", "To", "Kind", "Arguments"),
    "policies": ("Pattern", "Applies to", "Definition", "Priority"),
    "operator-policies": ("Pattern", "Applies to", "Definition", "Priority"),
    "limits": ("Limit", "Value"),
    "users": ("Tags", "May enter", "Password"),
    "vhosts": ("State", "Ready", "Unacked", "Total"),
    "nodes": ("State", "Memory", "Disk free", "File descriptors", "Sockets", "Uptime"),
    "feature-flags": ("State", "Since"),
}


def test_all_lists_have_short_rows(long_names: None, visit: Any) -> None:
    """What is cut is there in full for who points at it, and all columns are to be seen."""
    visit.page.set_viewport_size({"width": 1440, "height": 900})
    for name, titles in OTHERS.items():
        visit.go(f"/{name}")
        wrap = visit.page.locator(".table-wrap").first
        rows = wrap.locator("tbody tr")
        heights = rows.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
        assert heights and max(heights) <= 67, (name, heights)
        assert wrap.evaluate("e => e.scrollWidth - e.clientWidth") <= 0, name
        for title in titles:
            assert rows.first.locator(f"[data-title='{title}']").count() == 1, (name, title)
        if name not in ("nodes", "feature-flags", "operator-policies"):
            assert wrap.locator(f"tbody [title='{LONG}']").count() > 0, name
        if name != "limits":
            assert "Sorted by" in visit.page.inner_text(".pager"), name
            visit.page.click(".columns-choice summary")
            visit.page.click("text=Show these")
            assert visit.page.locator("h1").count() == 1, name


def test_nothing_is_cut_that_has_room(
    long_names: None, visit: Any, ui_broker: Any, rest: Rest
) -> None:
    """Of a client with a long name, in a vhost that has one: its address with the port is seen."""
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    rest.ask("PUT", "permissions", LONG, "guest", body=rights)
    parameters = pika.ConnectionParameters(
        ui_broker.host,
        ui_broker.port,
        LONG,
        pika.PlainCredentials("guest", "guest"),
        client_properties={"connection_name": LONG},
    )
    visit.page.set_viewport_size({"width": 1440, "height": 900})
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.innerText)"
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().basic_publish("amq.fanout", "", b"x")
        for path, shown in (
            ("/connections", "[data-title=Client]"),
            ("/channels", "tbody th"),
            ("/queues", ".num"),
            ("/limits", "[data-title=Limit]"),
            ("/feature-flags", "[data-title=Since]"),
        ):
            visit.go(path)
            expect(visit.page.locator(shown).first).to_be_visible()
            assert visit.page.locator(shown).evaluate_all(cut) == [], path
            assert visit.page.locator(".table-wrap").evaluate_all(cut) == [], path


def test_all_lists_show_their_figures_on_a_phone(
    long_names: None, visits: Callable[..., Any]
) -> None:
    """Nothing has to be pushed sideways to be seen."""
    with visits(viewport={"width": 390, "height": 844}) as visit:
        visit.log_in()
        for name, titles in OTHERS.items():
            visit.go(f"/{name}")
            wrap = visit.page.locator(".table-wrap").first
            assert wrap.evaluate("e => e.scrollWidth - e.clientWidth") <= 0, name
            for title in titles:
                for cell in wrap.locator(f"tbody [data-title='{title}']").all():
                    box = cell.bounding_box()
                    assert box is None or box["x"] + box["width"] <= 390, (name, title)


def test_who_is_slow_can_be_read_on_a_phone(rest: Rest, visits: Callable[..., Any]) -> None:
    rest.ask("PUT", "queues", "/", LONG, body={"durable": True})
    rest.publish(LONG, 3)
    with visits(viewport={"width": 390, "height": 844}) as visit:
        visit.log_in()
        visit.go("/slow")
        wrap = visit.page.locator("#queues-title ~ .table-wrap")
        expect(wrap.locator("tbody")).to_contain_text("It has no consumer: 3 messages wait")
        assert wrap.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
        for title in ("Why", "What helps", "Age of the next"):
            box = wrap.locator(f"tbody [data-title='{title}']").first.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, title
    rest.ask("DELETE", "queues", "/", LONG)


def test_columns_are_chosen_and_remembered(
    queues: None, visits: Callable[..., Any], rest: Rest
) -> None:
    with visits(java_script_enabled=False) as visit:
        visit.log_in()
        visit.go("/queues?name=l.&sort=messages_ready&sort_reverse=true")
        heads = visit.page.locator("#rows thead th")
        usual = [text.split("\n")[0].strip("▲▼") for text in heads.all_inner_texts()]
        assert "Bytes" not in usual and {"Ready", "Consumers", "10 minutes"} <= set(usual)
        visit.page.click(".columns-choice summary")
        visit.page.check("[name=column][value=bytes]")
        visit.page.uncheck("[name=column][value=spark]")
        visit.page.click("text=Show these")
        # The list is as it was otherwise.
        assert "name=l." in visit.page.url and "sort=messages_ready" in visit.page.url
        assert "Sorted by messages that are ready, highest first" in visit.page.inner_text(".pager")
        assert heads.locator("text=Bytes").count() == 1
        assert visit.page.locator(".spark").count() == 0
        visit.go("/queues?name=l.")
        assert heads.locator("text=Bytes").count() == 1
        row = visit.page.locator("tbody tr", has_text=LONG)
        assert row.locator("[data-title=Bytes]").inner_text().endswith(" B")
        visit.page.click(".columns-choice summary")
        visit.page.click("text=The usual ones")
        assert [text.strip("▲▼\n") for text in heads.all_inner_texts()] == usual


def test_rows_have_small_lines(queues: None, visit: Any) -> None:
    visit.go("/queues?name=l.")
    line = visit.page.locator("tbody tr", has_text=LONG).locator(".spark")
    expect(line).to_have_attribute(
        "aria-label", re.compile("Messages of the last 10 minutes: [04] to 4"), timeout=3 * WAIT_MS
    )
    assert line.locator("path.line").get_attribute("d").startswith("M")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_are_seen_on_a_phone(queues: None, visits: Callable[..., Any], scheme: str) -> None:
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with visits(bypass_csp=True, **options) as visit:
        visit.log_in()
        visit.go(f"/queues?name={LONG}")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        wrap = visit.page.locator(".table-wrap")
        assert wrap.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
        for title in ("Ready", "Unacked", "Total", "Consumers"):
            cell = visit.page.locator(f"tbody [data-title={title}]")
            box = cell.bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, title
        assert visit.faults() == []


def test_channels_say_whose_they_are_and_what_for(visit: Any, rest: Rest, ui_broker: Any) -> None:
    rest.ask("PUT", "queues", "/", "l.worked", body={"durable": True})
    parameters = pika.URLParameters(ui_broker.url)
    parameters.client_properties = {"connection_name": "l.worker <b>"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_consume("l.worked", lambda *_: None)
        channel.basic_publish("amq.fanout", "", b"x")
        for sort in ("", "?sort=prefetch_count&sort_reverse=true"):
            visit.go(f"/channels{sort}")
            row = visit.page.locator("tbody tr", has_text="l.worker <b>")
            expect(row).to_contain_text("l.worked, → amq.fanout", timeout=WAIT_MS)
            assert "guest" in row.inner_text()
            assert row.locator(".spark").count() == 1
        row.locator("[data-title=Client] a").click()
        assert visit.page.inner_text("h1") == "Connection l.worker <b>"
        assert visit.page.locator("#charts .chart").count() == 1
        visit.page.click("#channels tbody a")
        assert "l.worker <b>" in visit.page.inner_text(".facts")
        assert visit.page.locator("#charts .chart").count() == 1
    rest.ask("DELETE", "queues", "/", "l.worked")


def test_nodes_have_charts(visit: Any, rest: Rest) -> None:
    visit.go(f"/nodes/{rest.ask('GET', 'nodes')[0]['name']}?range=1m")
    titles = visit.page.locator("#charts figcaption").all_inner_texts()
    assert [title.strip() for title in titles] == ["Memory", "Disk", "File descriptors", "Sockets"]
    expect(visit.page.locator("#charts path.line.s1").first).to_have_attribute(
        "d", re.compile("^M"), timeout=3 * WAIT_MS
    )


def test_a_cookie_chooses_known_columns_alone() -> None:
    text = cookie_of("queues:ready.none.<b>|x:y|channels:user", "connections", ["user", "spark"])
    value = text.partition("=")[2].partition(";")[0]
    assert parsed(value) == {
        "queues": {"ready"},
        "channels": {"user"},
        "connections": {"user", "spark"},
    }
    assert value.isascii() and not set(value) & set('"\\,; ')
    shown = ShownColumns("queues", "queues:ready.vhost", False)
    assert [each.name for each in shown.shown] == ["ready"]
    shown = ShownColumns("queues", "queues:", True)
    assert shown.shown == []


@pytest.mark.parametrize("name", LISTS)
def test_each_list_says_by_what_it_is_sorted(name: str) -> None:
    columns = ShownColumns(name, "", True)
    for each in (columns.head, *columns.all):
        if each.sort:
            first, last = (columns.sorted_words(each.sort, reverse) for reverse in (False, True))
            assert each.words in first and first != last
    assert columns.sorted_words("nothing", False) == ""
    placed = any(each.name == "vhost" for each in LISTS[name])
    assert ("virtual host and name" in columns.sorted_words("", False)) == placed
