"""Pages of a cluster: its nodes in order, their ports and alarms, and those that are gone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.cluster.nodes import Node
from tests.ui.conftest import WAIT_MS, Visit, opened

PHONE = {"width": 390, "height": 844}


def whole(visit: Visit, path: str) -> None:
    """A page is there, can be used by all, and is not wider than the window."""
    assert visit.go(path) == 200, path
    assert visit.faults() == [], path
    assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_ports_of_all_nodes_are_shown(pair: list[Node], chromium: Browser) -> None:
    """On the overview, and on the page of each, whichever node draws it."""
    visit = opened(chromium, pair[1])
    visit.go("/")
    names = visit.page.locator("#nodes tbody th").all_inner_texts()
    assert names == sorted(node.name for node in pair)
    ports = visit.page.locator("#ports ~ .table-wrap tbody tr")
    for node in pair:
        row = ports.filter(has_text=node.name).filter(has_text="amqp")
        assert str(node.broker.port) in row.inner_text()
        visit.go(f"/nodes/{node.name}")
        assert str(node.broker.port) in visit.page.inner_text("#ports ~ .table-wrap")
        visit.go("/")
    assert visit.wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_alarms_and_nodes_that_are_gone_are_seen(
    pair: list[Node], chromium: Browser, scheme: Any
) -> None:
    """On all pages of nodes, on a phone as well, and axe finds nothing meanwhile."""
    one, two = pair
    visit = opened(chromium, one, viewport=PHONE, color_scheme=scheme)
    two.broker.kill()
    two.broker.options += ["--set", "vm_memory_high_watermark.absolute=1MB"]
    two.broker.options += ["--set", "disk_free_limit.absolute=900TB"]
    two.broker.start()
    visit.go("/")
    expect(visit.page.locator("#alarms")).to_contain_text("short of memory", timeout=WAIT_MS)
    assert "disk space" in visit.page.inner_text("#alarms")
    for path in ("/", "/nodes"):
        whole(visit, path)
        row = visit.page.locator("tbody tr", has_text="memory alarm")
        assert two.name in row.inner_text() and "disk alarm" in row.inner_text(), path
    whole(visit, f"/nodes/{two.name}")
    assert "Publishers wait" in visit.page.inner_text("#alarms")
    whole(visit, "/slow")
    two.broker.kill()
    visit.go("/")
    expect(visit.page.locator("#alarms")).to_contain_text("does not run", timeout=WAIT_MS)
    whole(visit, "/")
    whole(visit, "/nodes")
    whole(visit, f"/nodes/{two.name}")
    assert "does not run" in visit.page.inner_text("main")
    assert visit.wrong == []
