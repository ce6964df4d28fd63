"""What would be lost is asked about first: with or without scripts nothing goes by one click."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.ui.rest import Rest, wait_for
from warren.admin.ui.asking import typeable

TITLE = "q.</title><script>alert(1)</script>"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_queue_with_messages_goes_only_when_its_name_is_typed(
    visits: Callable[..., Any], rest: Rest, scripts: bool
) -> None:
    rest.ask("PUT", "queues", "/", TITLE, body={"durable": True})
    rest.publish(TITLE, 2)
    with visits(java_script_enabled=scripts) as visit:
        visit.log_in()
        visit.go("/queues?name=q.")
        visit.page.click("text=q.</title>")
        for typed in ("q", TITLE.upper()):
            visit.card("delete").locator("button").click()
            assert "2 messages, 0 consumers" in visit.page.inner_text(".lead")
            visit.sure(typed)
            assert "another name" in visit.notice()
            assert rest.ready(TITLE) == 2
            visit.page.click("text=Cancel")
        # A form that says that it is meant does nothing without the name either.
        fields = {
            "do": "delete",
            "sure": "true",
            "token": visit.page.input_value("[name=token] >> nth=0"),
        }
        answer = visit.page.request.post(visit.page.url, form=fields)
        assert "To go on, type" in answer.text()
        assert rest.ready(TITLE) == 2
        visit.card("delete").locator("button").click()
        visit.sure(TITLE)
        assert "is gone" in visit.notice()
    assert rest.ask("GET", "queues", "/", TITLE) is None


def test_only_if_empty_and_only_if_unused_keep_a_queue(
    visit: Any, rest: Rest, ui_broker: Any
) -> None:
    rest.ask("PUT", "queues", "/", "q.kept", body={"durable": True})
    rest.publish("q.kept", 1)
    visit.go("/queues/%2F/q.kept")
    card = visit.card("delete")
    card.locator("[name=if-empty]").check()
    card.locator("button").click()
    visit.sure()
    assert "Not done." in visit.notice() and "not empty" in visit.notice()
    assert rest.ready("q.kept") == 1
    with pika.BlockingConnection(pika.URLParameters(ui_broker.url)) as connection:
        channel = connection.channel()
        channel.basic_consume("q.kept", lambda *_: None)
        visit.go("/queues/%2F/q.kept")
        card = visit.card("delete")
        card.locator("[name=if-unused]").check()
        card.locator("button").click()
        # It has a message, which goes with it.
        visit.sure("q.kept")
        assert "Not done." in visit.notice() and "in use" in visit.notice()
    rest.ask("DELETE", "queues", "/", "q.kept")


def test_exchanges_and_bindings_in_use_ask_for_a_name(visit: Any, rest: Rest) -> None:
    rest.ask("PUT", "queues", "/", "q.bound", body={"durable": True})
    rest.ask("PUT", "exchanges", "/", "q.x", body={"type": "fanout", "durable": True})
    rest.ask("POST", "bindings", "/", "e", "q.x", "q", "q.bound", body={})
    rest.publish("q.bound", 1)
    visit.go("/bindings?name=q.bound")
    visit.page.click("button:text-is('Unbind')")
    visit.page.click("text=Cancel")
    assert len(rest.ask("GET", "queues", "/", "q.bound", "bindings")) == 2
    visit.go("/exchanges/%2F/q.x")
    card = visit.card("delete")
    card.locator("[name=if_unused]").check()
    card.locator("button").click()
    visit.sure()
    assert "Not done." in visit.notice() and "in use" in visit.notice()
    visit.card("delete").locator("[name=if_unused]").uncheck()
    visit.card("delete").locator("button").click()
    assert "1 binding from it and 0 to it" in visit.page.inner_text(".lead")
    visit.page.click("text=Cancel")
    visit.page.click("button:text-is('Unbind')")
    visit.sure("q.bound")
    assert "is gone" in visit.notice()
    visit.card("delete").locator("button").click()
    visit.sure()
    assert rest.ask("GET", "exchanges", "/", "q.x") is None
    rest.ask("DELETE", "queues", "/", "q.bound")


def test_a_policy_says_what_it_would_do(visit: Any, rest: Rest) -> None:
    """Before it is saved: how many queues it is for, and what they would lose."""
    for name in ("q.policy.1", "q.policy.2", "q.other"):
        rest.ask("PUT", "queues", "/", name, body={"durable": True})
        rest.publish(name, 3)

    def fill(pattern: str, title: str, value: str) -> str:
        visit.go("/policies")
        card = visit.card("form")
        card.locator("[name=name]").fill("q.trim")
        card.locator("[name=pattern]").fill(pattern)
        card.locator("[name=apply_to]").select_option("queues")
        card.locator(f"button:text-is('{title}')").click()
        card.locator("[name=arg-value]").first.fill(value)
        card.locator("button.primary").click()
        return str(visit.page.inner_text(".lead"))

    text = fill("^q.policy", "Max length", "2")
    assert "would count for 2 queues" in text and "Up to 2 messages beyond its limit" in text
    visit.page.click("text=Cancel")
    assert rest.ask("GET", "policies", "/", "q.trim") is None
    assert [rest.ready(f"q.policy.{number}") for number in (1, 2)] == [3, 3]
    assert "6 messages that wait would have a time to live" in fill(
        "^q.policy", "Message TTL", "9000000"
    )
    assert "3 queues without consumers would expire" in fill("^q[.]", "Auto expire", "9000000")
    # One that counts for none, since another has a higher priority, loses nothing.
    policy = {"pattern": "^q.policy", "definition": {"expires": 9_000_000}, "priority": 5}
    rest.ask("PUT", "policies", "/", "q.first", body={**policy, "apply-to": "queues"})
    assert "would count for 0 queues" in fill("^q.policy", "Max length", "1")
    rest.ask("DELETE", "policies", "/", "q.first")
    fill("^q.policy", "Max length", "2")
    visit.sure("q.trim")
    assert "is in force" in visit.notice()
    wait_for(lambda: [rest.ready(f"q.policy.{number}") for number in (1, 2)] == [2, 2])
    rest.ask("DELETE", "policies", "/", "q.trim")
    for name in ("q.policy.1", "q.policy.2", "q.other"):
        rest.ask("DELETE", "queues", "/", name)


def test_messages_that_are_taken_for_good_are_asked_about(visit: Any, rest: Rest) -> None:
    rest.ask("PUT", "queues", "/", "q.taken", body={"durable": True})
    rest.publish("q.taken", 3)
    for fate, left in (("ack_requeue_true", 3), ("reject_requeue_false", 2)):
        visit.go("/queues/%2F/q.taken/messages")
        card = visit.card("take")
        card.locator("[name=count]").fill("1")
        card.locator("[name=fate]").select_option(fate)
        card.locator("button").click()
        if left < 3:
            assert rest.ready("q.taken") == 3
            visit.sure()
        assert "1 message taken" in visit.page.inner_text("#found-title")
        assert rest.ready("q.taken") == left
    rest.ask("DELETE", "queues", "/", "q.taken")


@pytest.mark.parametrize(
    ("name", "typed"),
    [("a b", "a b"), (" a\n", "a"), ("a\r\nb", "ab"), ("\udcff", "\ufffd"), ("", "")],
)
def test_any_name_can_be_typed(name: str, typed: str) -> None:
    assert typeable(name) == typed and typeable(typed) == typed
