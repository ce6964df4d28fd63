"""A broker with its pages, and a browser that looks at them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cluster.nodes import Cluster, Node
from tests.support.broker import Broker, free_port
from tests.support.patience import patient
from tests.ui.rest import Rest

AXE = Path(__file__).resolve().parent.parent / "clients/js/node_modules/axe-core/axe.min.js"
WAIT_MS = patient(15.0) * 1_000
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="session")
def _ui_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(free_port(), tmp_path_factory.mktemp("ui") / "broker")
    broker.management = str(free_port())
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def ui_broker(_ui_broker: Broker) -> Iterator[Broker]:
    """The broker; it has to live through each test."""
    yield _ui_broker
    _ui_broker.check_alive()


@pytest.fixture
def rest(ui_broker: Broker) -> Rest:
    """Its HTTP API, by which tests lay things out and see what pages did."""
    return Rest(ui_broker.host, int(ui_broker.management))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser, in which each test opens windows without a past.

    It ends with its module's tests: while it runs, no other event loop can in this thread.
    """
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("there is no chromium on this machine: `tools/prepare process` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


class Visit:
    """A browser's window on the pages, in which nothing goes wrong unseen.

    Attributes:
        page: The window.
        base: Where the pages are.
    """

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base
        self.wrong: list[str] = []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        page.on("console", self._said)
        page.on("dialog", lambda dialog: dialog.accept())
        page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        # What is refused on purpose is no fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Any) -> None:
        if urlsplit(request.url).scheme != "data" and not request.url.startswith(self.base):
            self.wrong.append(f"another host: {request.url}")

    def go(self, path: str) -> int:
        """Open a page; its status."""
        answer = self.page.goto(self.base + path)
        assert answer is not None
        return answer.status

    def log_in(self, user: str = "guest", password: str = "guest") -> None:
        """Log in."""
        self.go("/login")
        self.page.fill("#username", user)
        self.page.fill("#password", password)
        self.page.click("button")
        self.page.wait_for_url(f"{self.base}/")

    def card(self, name: str) -> Any:
        """A form that unfolds, unfolded."""
        card = self.page.locator(f"details#{name}")
        if card.get_attribute("open") is None:
            card.locator("summary").first.click()
        return card

    def sure(self, name: str = "") -> None:
        """Answer the question whether something is meant, by typing a name where one is needed."""
        typed = self.page.locator("#f-typed")
        assert self.page.locator("[name=sure]").count() == 1, self.page.inner_text("main")
        assert typed.count() == (1 if name else 0), self.page.inner_text("main")
        if name:
            typed.fill(name)
        self.page.locator("main button.danger").click()

    def notice(self) -> str:
        """What the page says has been done, or not."""
        return self.page.locator("main > .notice").first.inner_text()

    def faults(self) -> list[str]:
        """What axe finds that keeps people from using the page."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['impact']} {each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in found["violations"]
        ]


@pytest.fixture
def visits(ui_broker: Broker, chromium: Browser) -> Iterator[Callable[..., Any]]:
    """Opens windows, which have to have been without faults in the end."""
    base = f"http://{ui_broker.host}:{ui_broker.management}"
    opened: list[Visit] = []

    @contextmanager
    def visit(**options: Any) -> Iterator[Visit]:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        opened.append(Visit(context.new_page(), base))
        yield opened[-1]
        context.close()

    yield visit
    assert [wrong for each in opened for wrong in each.wrong] == []


@pytest.fixture
def visit(visits: Callable[..., Any]) -> Iterator[Visit]:
    """A window in which an administrator is logged in."""
    with visits() as opened:
        opened.log_in()
        yield opened


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Node]]:
    """Two nodes with pages."""
    made: list[Broker] = []

    def make(*options: str) -> Broker:
        broker = Broker(free_port(), tmp_path / f"node{len(made)}", options=list(options))
        broker.management = str(free_port())
        made.append(broker)
        return broker

    yield Cluster(make, tmp_path).start(2)
    for broker in made:
        broker.kill()


def opened(chromium: Browser, node: Node, **options: Any) -> Visit:
    """A window on the pages of a node, in which an administrator is logged in."""
    base = f"http://{node.broker.host}:{node.broker.management}"
    context = chromium.new_context(
        **{"viewport": {"width": 1280, "height": 900}, "bypass_csp": True, **options}
    )
    visit = Visit(context.new_page(), base)
    visit.log_in()
    return visit
