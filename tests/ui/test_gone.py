"""A page whose node is gone says so, and where the cluster's other pages are."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.cluster.nodes import Node
from tests.ui.conftest import WAIT_MS, opened
from warren.admin.service.rows import Listener
from warren.admin.ui.other_nodes import base_of

GREY = "getComputedStyle(document.querySelector('#tiles dd')).color"
MUTED = "getComputedStyle(document.querySelector('.cluster')).color"


def test_a_page_says_that_its_node_is_gone(pair: list[Node], chromium: Browser) -> None:
    """Killed or frozen, seen on all pages; figures turn grey, links lead to the other node."""
    one, two = pair
    visit = opened(chromium, one)
    page = visit.page
    bar = page.locator("#gone")
    link = page.locator("#gone a")
    expect(link).to_have_count(1, timeout=WAIT_MS)
    expect(bar).to_be_hidden()
    assert page.evaluate(GREY) != page.evaluate(MUTED)
    one.broker.kill()
    expect(bar).to_contain_text(f"{one.name} does not answer", timeout=WAIT_MS)
    assert page.evaluate(GREY) == page.evaluate(MUTED)
    assert visit.faults() == []
    there = f"http://{two.broker.host}:{two.broker.management}/"
    assert link.inner_text() == f"Go on at {two.name}"
    assert link.get_attribute("href") == there
    one.broker.start()
    # It knows no session of before: who looks is asked to log in again.
    page.wait_for_url("**/login")
    visit.log_in()
    visit.go("/definitions")
    expect(link).to_have_attribute("href", f"{there}definitions")
    one.broker.kill()
    expect(bar).to_contain_text("does not answer", timeout=WAIT_MS)
    assert visit.wrong == []


def test_a_page_whose_node_hangs_is_old_until_it_goes_on(
    pair: list[Node], chromium: Browser
) -> None:
    one, _ = pair
    visit = opened(chromium, one)
    bar = visit.page.locator("#gone")
    one.broker.send(signal.SIGSTOP)
    try:
        expect(bar).to_be_visible(timeout=2 * WAIT_MS)
    finally:
        one.broker.send(signal.SIGCONT)
    expect(bar).to_be_hidden(timeout=WAIT_MS)
    assert visit.page.evaluate(GREY) != visit.page.evaluate(MUTED)
    assert visit.wrong == []


def test_a_page_of_what_was_deleted_says_so(visit: Any, rest: Any) -> None:
    rest.ask("PUT", "queues", "/", "g.deleted", body={"durable": True})
    visit.go("/queues/%2F/g.deleted")
    rest.ask("DELETE", "queues", "/", "g.deleted")
    expect(visit.page.locator("#gone")).to_contain_text("is gone", timeout=WAIT_MS)


def listener(protocol: str, interface: str, port: int) -> Listener:
    return Listener(protocol=protocol, interface=interface, port=port, purpose="")


@pytest.mark.parametrize(
    ("rows", "base"),
    [
        ([("amqp", "[::]", 5672)], ""),
        ([("http", "[::]", 15672)], "http://n2.example:15672"),
        ([("http", "0.0.0.0", 15672)], "http://n2.example:15672"),
        ([("http", "[::1]", 1)], "http://[::1]:1"),
        ([("http", "10.0.0.2", 1), ("https", "10.0.0.2", 2)], "https://10.0.0.2:2"),
    ],
)
def test_where_the_pages_of_a_node_are(rows: list[tuple[str, str, int]], base: str) -> None:
    assert base_of([listener(*row) for row in rows], "n2.example") == base
