"""Dead letters are grouped, and messages go on elsewhere: tried first, at a rate, none lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui.rest import Rest


@pytest.fixture
def dead(rest: Rest) -> None:
    """Seven messages that were rejected, of two queues, in `d.dead`."""
    rest.ask("PUT", "queues", "/", "d.dead", body={"durable": True})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d.dead"}
    for queue, count in (("d.one", 4), ("d.two", 3)):
        rest.ask("PUT", "queues", "/", queue, body={"durable": True, "arguments": arguments})
        rest.publish(queue, count, timestamp=1_700_000_000, headers={"kept": [1, "x"]})
        asked = {"count": 10, "ackmode": "reject_requeue_false", "encoding": "auto"}
        assert len(rest.ask("POST", "queues", "/", queue, "get", body=asked)) == count
    yield
    for queue in ("d.dead", "d.one", "d.two"):
        rest.ask("DELETE", "queues", "/", queue)


def wait_until_done(visit: Any) -> str:
    running = visit.page.locator("#progress dd", has_text="running")
    running.wait_for(state="detached")
    return str(visit.page.inner_text("#progress"))


def test_dead_letters_are_grouped_and_replayed(dead: None, visit: Any, rest: Rest) -> None:
    visit.go("/queues/%2F/d.dead/dead-letters")
    visit.page.click("button:text-is('Group')")
    rows = visit.page.locator("tbody tr").all_inner_texts()
    assert [row.split()[:4] for row in rows] == [
        ["rejected", "d.one", "(default", "exchange)"],
        ["rejected", "d.two", "(default", "exchange)"],
    ]
    assert "57 %" in rows[0] and " d" in rows[0]
    visit.page.click("text=Replay… >> nth=0")
    visit.page.click("button:text-is('Dry run')")
    text = wait_until_done(visit)
    assert "Would be moved\n4" in text and "d.one" in text
    assert (rest.ready("d.dead"), rest.ready("d.one")) == (7, 0)
    # Neither the groups nor the dry run have taken anything.
    looked = rest.ask("POST", "queues", "/", "d.dead", "look", body={})["messages"]
    assert [each["redelivered"] for each in looked] == [False] * 7
    visit.page.click("button:text-is('Move these messages')")
    text = wait_until_done(visit)
    assert "Moved\n4" in text
    assert (rest.ready("d.dead"), rest.ready("d.one"), rest.ready("d.two")) == (3, 4, 0)
    # Nor has the move taken what it did not move.
    looked = rest.ask("POST", "queues", "/", "d.dead", "look", body={})["messages"]
    assert [each["redelivered"] for each in looked] == [False] * 3
    asked = {"count": 9, "ackmode": "ack_requeue_true", "encoding": "auto"}
    found = rest.ask("POST", "queues", "/", "d.one", "get", body=asked)
    assert [each["payload"] for each in found] == ["m0", "m1", "m2", "m3"]
    assert found[0]["properties"]["headers"]["kept"] == [1, "x"]
    assert found[0]["properties"]["timestamp"] == 1_700_000_000


@pytest.mark.parametrize("way", ["died_in", "published_to"])
def test_where_dead_letters_go_is_shown_before_they_go(
    dead: None, visit: Any, rest: Rest, way: str
) -> None:
    """Letters that say themselves where they died stay."""
    forged = [{"queue": "d.two", "reason": "rejected", "exchange": "", "routing-keys": ["d.two"]}]
    rest.publish("d.dead", 2, headers={"x-death": forged})
    visit.go("/queues/%2F/d.dead/move")
    visit.page.check(f"[name=way][value={way}]")
    visit.page.click("button:text-is('Move messages')")
    text = wait_until_done(visit)
    assert "Would be moved\n7" in text and "Stay where they are\n2" in text
    assert (rest.ready("d.dead"), rest.ready("d.one")) == (9, 0)
    visit.page.click("button:text-is('Move these messages')")
    wait_until_done(visit)
    assert (rest.ready("d.dead"), rest.ready("d.one"), rest.ready("d.two")) == (2, 4, 3)


def test_messages_that_no_queue_takes_stay(dead: None, visit: Any, rest: Rest) -> None:
    visit.go("/queues/%2F/d.dead/move")
    visit.page.check("[name=way][value=exchange]")
    visit.page.fill("[name=target]", "amq.direct")
    visit.page.click("button:text-is('Move messages')")
    assert "no queue takes" in wait_until_done(visit)
    assert rest.ready("d.dead") == 7


def test_a_slow_move_is_stopped(dead: None, visit: Any, rest: Rest) -> None:
    visit.go("/queues/%2F/d.dead/move")
    visit.page.fill("[name=target]", "d.two")
    visit.page.fill("[name=rate]", "1")
    visit.page.click("button:text-is('Move messages')")
    visit.page.click("button:text-is('Stop')")
    assert "stopped" in wait_until_done(visit)
    left, moved = rest.ready("d.dead"), rest.ready("d.two")
    assert left + moved == 7 and 1 <= moved < 7
    visit.go("/moves")
    assert "d.dead" in visit.page.inner_text("tbody")


def test_wrong_wishes_are_told(dead: None, visit: Any) -> None:
    for field, text, words in (
        ("target", "none", "no such thing"),
        ("target", "d.dead", "in this queue already"),
        ("count", "x", "whole number"),
        ("rate", "-1", "a second"),
    ):
        visit.go("/queues/%2F/d.dead/move")
        visit.page.fill("[name=target]", "d.two")
        visit.page.fill(f"[name={field}]", text)
        visit.page.click("button:text-is('Move messages')")
        assert words in visit.notice(), field
