"""Messages are looked at where they lie, page by page, and taken only where that is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.ui.rest import Rest


@pytest.fixture(params=["quorum", "classic"])
def queue(request: pytest.FixtureRequest, rest: Rest) -> Any:
    """A queue of 25 messages."""
    name = f"m.{request.param}"
    body = {"durable": True, "arguments": {"x-queue-type": request.param}}
    rest.ask("PUT", "queues", "/", name, body=body)
    rest.publish(name, 25, headers={"kind": "odd"})
    yield name
    rest.ask("DELETE", "queues", "/", name)


def test_messages_are_looked_at_page_by_page(visit: Any, rest: Rest, queue: str) -> None:
    visit.go(f"/queues/%2F/{queue}/messages")
    shown = visit.page.locator(".message pre")
    expect(shown).to_have_text([f"m{number}" for number in range(10)])
    visit.page.click("a[rel=next]")
    expect(shown).to_have_text([f"m{number}" for number in range(10, 20)])
    visit.page.click("a[rel=next]")
    expect(shown).to_have_text([f"m{number}" for number in range(20, 25)])
    assert visit.page.locator("a[rel=next]").count() == 0
    visit.page.fill("[name=position]", "7")
    visit.page.fill("form[method=get] [name=count]", "2")
    visit.page.check("form[method=get] [name=base64]")
    visit.page.click("button:text-is('Look')")
    expect(shown).to_have_text(["bTY=", "bTc="])
    visit.page.click("a[rel=prev]")
    expect(shown).to_have_text(["bTQ=", "bTU="])
    visit.go(f"/queues/%2F/{queue}/messages?position=26")
    assert "not so many" in visit.page.inner_text("main")
    asked = {"count": 25, "ackmode": "ack_requeue_true", "encoding": "auto"}
    found = rest.ask("POST", "queues", "/", queue, "get", body=asked)
    assert [each["redelivered"] for each in found] == [False] * 25
    assert all("x-acquired-count" not in each["properties"]["headers"] for each in found)


def test_messages_are_taken_where_that_is_asked_for(visit: Any, rest: Rest, queue: str) -> None:
    visit.go(f"/queues/%2F/{queue}/messages")
    card = visit.card("take")
    card.locator("[name=count]").fill("3")
    card.locator("button:text-is('Take')").click()
    visit.sure()
    expect(visit.page.locator("#found-title")).to_have_text("3 messages taken")
    expect(visit.page.locator(".message pre")).to_have_text(["m0", "m1", "m2"])
    assert rest.ready(queue) == 22


def test_long_texts_are_cut_between_characters(visit: Any, rest: Rest) -> None:
    rest.ask("PUT", "queues", "/", "m.long", body={"durable": True})
    document = {
        "routing_key": "m.long",
        "properties": {},
        "payload": "é" * 3_000,
        "payload_encoding": "string",
    }
    rest.ask("POST", "exchanges", "/", "amq.default", "publish", body=document)
    found = rest.ask("POST", "queues", "/", "m.long", "look", body={"truncate": 5})
    (message,) = found["messages"]
    assert (message["payload"], message["payload_encoding"]) == ("éé", "string")
    visit.go("/queues/%2F/m.long/messages")
    assert visit.page.inner_text(".message pre") == "é" * 2_048
    assert "6,000 bytes" in visit.page.inner_text(".message")
    rest.ask("DELETE", "queues", "/", "m.long")
