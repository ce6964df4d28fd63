"""Messages are searched for in parts, and the story of one is told, without taking any."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.ui.rest import Rest, wait_for

HOSTILE = "<script>alert('s')</script>\"&"


@pytest.fixture
def dead(rest: Rest) -> Any:
    """Three messages that were rejected in `s.q`, in `s.dead`; five more in `s.q`."""
    rest.ask("PUT", "queues", "/", "s.dead", body={"durable": True})
    arguments = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "s.dead",
    }
    rest.ask("PUT", "queues", "/", "s.q", body={"durable": True, "arguments": arguments})
    rest.publish("s.q", 8, message_id=HOSTILE, headers={HOSTILE: HOSTILE, "n": 7})
    asked = {"count": 3, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(rest.ask("POST", "queues", "/", "s.q", "get", body=asked)) == 3
    wait_for(lambda: rest.ready("s.dead") == 3)
    yield
    for queue in ("s.dead", "s.q"):
        rest.ask("DELETE", "queues", "/", queue)


@pytest.mark.parametrize(
    ("where", "name", "text", "found"),
    [
        ("body", "", "m4", ["m4"]),
        ("header", HOSTILE, HOSTILE, ["m3", "m4", "m5", "m6", "m7"]),
        ("header", "n", "7", ["m3", "m4", "m5", "m6", "m7"]),
        ("property", "message_id", "none", []),
    ],
)
def test_messages_are_searched_for(
    dead: None, visit: Any, rest: Rest, where: str, name: str, text: str, found: list[str]
) -> None:
    visit.go("/queues/%2F/s.q/search")
    visit.page.select_option("[name=where]", where)
    visit.page.fill("[name=name]", name)
    visit.page.fill("[name=text]", text)
    visit.page.click("button:text-is('Search')")
    expect(visit.page.locator("#found-title")).to_have_text(f"{len(found)} found, 5 looked at")
    assert visit.page.locator(".message pre").all_inner_texts() == found
    assert visit.page.input_value("[name=text]") == text
    looked = rest.ask("POST", "queues", "/", "s.q", "look", body={})["messages"]
    assert [each["redelivered"] for each in looked] == [False] * 5


def test_a_search_goes_on(visit: Any, rest: Rest) -> None:
    """Fifty are shown at a time; what was found and looked at adds up."""
    rest.ask("PUT", "queues", "/", "s.many", body={"durable": True})
    rest.publish("s.many", 60)
    visit.go("/queues/%2F/s.many/search?where=property&name=routing_key&text=s.many")
    expect(visit.page.locator("#found-title")).to_have_text("50 found, 50 looked at")
    visit.page.click("text=Go on from here")
    expect(visit.page.locator("#found-title")).to_have_text("60 found, 60 looked at")
    assert visit.page.locator(".message pre").all_inner_texts() == [f"m{n}" for n in range(50, 60)]
    assert visit.page.locator("text=Go on from here").count() == 0
    rest.ask("DELETE", "queues", "/", "s.many")


def test_a_search_that_makes_no_sense_is_refused(dead: None, visit: Any) -> None:
    for query in ("where=body", "where=header&text=x", "where=property&name=none", "where=none"):
        visit.go(f"/queues/%2F/s.q/search?{query}")
        assert visit.page.locator("[role=alert]").count() == 1, query


def test_the_story_of_a_message_is_told(dead: None, visit: Any, rest: Rest) -> None:
    visit.go("/queues/%2F/s.dead/messages")
    visit.page.click("text=Its story >> nth=1")
    expect(visit.page.locator(".lead")).to_have_text("Ready, 1 before it.")
    row = visit.page.locator("section[aria-labelledby=deaths] tbody tr")
    assert "UTC" in row.inner_text() and "s.q" in row.inner_text()
    assert "rejected" in row.inner_text() and row.locator("td").last.inner_text() == "1"
    assert "x-first-death-reason" in visit.page.inner_text("section[aria-labelledby=deaths]")
    route = visit.page.inner_text("section[aria-labelledby=route]")
    assert "would come to s.dead" in route
    visit.page.click("text=Search other queues")
    row = visit.page.locator("section[aria-labelledby=copies] tbody tr", has_text="s.q")
    expect(row.locator("a", has_text="at position")).to_have_count(5)
    visit.page.click("text=at position 1")
    expect(visit.page.locator("main")).to_contain_text("It has not died")
    assert visit.go("/queues/%2F/s.dead/messages/99999") == 404
    assert visit.go("/queues/%2F/s.dead/messages/x") == 404


def test_a_user_without_the_right_to_read_sees_none(dead: None, visits: Any, rest: Rest) -> None:
    rest.ask("PUT", "users", "s.user", body={"password": "s", "tags": "management"})
    few = {"configure": "", "write": ".*", "read": "^none$"}
    rest.ask("PUT", "permissions", "/", "s.user", body=few)
    with visits() as visit:
        visit.log_in("s.user", "s")
        visit.go("/queues/%2F/s.q/messages")
        assert visit.page.locator(".message").count() == 0
        assert visit.page.locator("[role=alert]").count() == 1
        visit.go("/queues/%2F/s.q/search?where=body&text=m")
        assert visit.page.locator(".message").count() == 0
        assert visit.page.locator("[role=alert]").count() == 1
        assert visit.go("/queues/%2F/s.q/messages/5") == 403
    rest.ask("DELETE", "users", "s.user")
