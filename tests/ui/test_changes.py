"""What forms of pages do: everything that is made, changed and deleted in everyday work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.ui.rest import Rest, wait_for


@pytest.mark.rule("PROP-10")
@pytest.mark.parametrize("scripts", [True, False])
def test_queues_are_declared_with_a_type_and_deleted(
    visits: Callable[..., Any], rest: Rest, scripts: bool
) -> None:
    """The type is chosen from a list; arguments have typed rows; with and without scripts."""
    with visits(java_script_enabled=scripts) as visit:
        visit.log_in()
        for kind in ("quorum", "classic"):
            visit.go("/queues")
            card = visit.card("declare")
            assert card.locator("#f-type option").all_inner_texts()[1:] == ["Classic", "Quorum"]
            card.locator("[name=name]").fill(f"c.{kind}")
            card.locator("#f-type").select_option(kind)
            card.locator("button:text-is('Max length')").click()
            row = (
                visit.page.locator("#declare .typed-row").filter(
                    has=visit.page.locator("[name=arg-key][value=x-max-length]")
                )
                if not scripts
                else card.locator(".typed-row").first
            )
            row.locator("[name=arg-value]").fill("7")
            visit.page.locator("#declare button:text-is('Declare queue')").click()
            assert f"There is the queue “c.{kind}” now." in visit.notice()
            found = rest.ask("GET", "queues", "/", f"c.{kind}")
            assert found["type"] == kind
            assert found["arguments"] == {"x-max-length": 7, "x-queue-type": kind}
            visit.card("publish").locator("[name=payload]").fill("line one\nline two")
            visit.page.click("button:text-is('Publish message')")
            assert "safe" in visit.notice()
            visit.page.click("nav >> text=Look at messages")
            visit.page.click("button:text-is('Look')")
            assert visit.page.locator(".message pre").inner_text() == "line one\nline two"
            assert rest.ready(f"c.{kind}") == 1
            visit.page.click(".tabs >> text=Overview")
            visit.card("purge").locator("button").click()
            visit.sure(f"c.{kind}")
            assert "are gone" in visit.notice()
            assert rest.ready(f"c.{kind}") == 0
            visit.card("delete").locator("button").click()
            visit.sure()
            assert "is gone" in visit.notice()
            assert rest.ask("GET", "queues", "/", f"c.{kind}") is None


@pytest.mark.rule("ARG-13")
@pytest.mark.parametrize("scripts", [True, False])
def test_policies_have_a_type_for_each_value(
    visits: Callable[..., Any], rest: Rest, scripts: bool
) -> None:
    with visits(java_script_enabled=scripts) as visit:
        visit.log_in()
        visit.go("/policies")
        card = visit.card("form")
        card.locator("[name=name]").fill("c.policy")
        card.locator("[name=pattern]").fill("^c\\.")
        card.locator("[name=apply_to]").select_option("queues")
        types = card.locator("[name=arg-type]").first.locator("option").all_inner_texts()
        assert types == ["String", "Number", "Boolean", "List"]
        for place, (title, key, kind, text) in enumerate(
            (
                ("Max length", "max-length", "number", "12"),
                ("Overflow", "overflow", "string", "drop-head"),
            )
        ):
            visit.page.click(f"#form button:text-is('{title}')")
            row = visit.page.locator("#form .typed-row").nth(place)
            assert row.locator("[name=arg-key]").input_value() == key
            assert row.locator("[name=arg-type]").input_value() == kind
            row.locator("[name=arg-value]").fill(text)
        visit.page.click("button:text-is('Add policy')")
        assert "would count for 0 queues" in visit.page.inner_text(".lead")
        visit.sure()
        assert "is in force" in visit.notice()
        found = rest.ask("GET", "policies", "/", "c.policy")
        assert found["definition"] == {"max-length": 12, "overflow": "drop-head"}
        # The type of a value is what is chosen: a text of digits is refused as a number.
        visit.page.click("text=Edit")
        row = visit.page.locator("#form .typed-row").first
        assert row.locator("[name=arg-type]").input_value() == "number"
        row.locator("[name=arg-type]").select_option("string")
        visit.page.click("button:text-is('Save policy')")
        assert "is not a valid maximum length" in visit.notice()
        assert visit.page.locator("#form [name=arg-key]").first.input_value() == "max-length"
        visit.page.locator("#form [name=arg-type]").first.select_option("number")
        visit.page.locator("#form [name=arg-value]").first.fill("13")
        visit.page.click("#form button.primary")
        visit.sure()
        assert rest.ask("GET", "policies", "/", "c.policy")["definition"]["max-length"] == 13
        visit.page.click("button:text-is('Delete')")
        visit.sure()
        assert "is gone" in visit.notice()
        assert rest.ask("GET", "policies", "/", "c.policy") is None


@pytest.mark.rule("ARG-13")
@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "1", "1"),
        ("number", "-5", -5),
        ("number", "1.5", 1.5),
        ("boolean", "true", True),
        ("list", "a, b", ["a", "b"]),
        ("list", '[1, "x", true]', [1, "x", True]),
    ],
)
def test_values_have_the_type_that_is_chosen(
    visit: Any, rest: Rest, kind: str, text: str, value: Any
) -> None:
    """Arguments that no broker knows are kept as they were given."""
    visit.go("/exchanges")
    card = visit.card("declare")
    card.locator("[name=name]").fill("c.typed")
    card.locator("[name=arg-key]").fill("some-key")
    card.locator("[name=arg-type]").select_option(kind)
    card.locator("[name=arg-value]").fill(text)
    card.locator("button:text-is('Declare exchange')").click()
    assert "There is the exchange" in visit.notice()
    found = rest.ask("GET", "exchanges", "/", "c.typed")["arguments"]["some-key"]
    assert found == value and type(found) is type(value)
    visit.card("delete").locator("button").click()
    visit.sure()
    assert rest.ask("GET", "exchanges", "/", "c.typed") is None


def test_operator_policies_are_set(visit: Any, rest: Rest) -> None:
    visit.go("/operator-policies")
    card = visit.card("form")
    card.locator("[name=name]").fill("c.cap")
    card.locator("[name=pattern]").fill("^c")
    card.locator("button:text-is('Message TTL')").click()
    card.locator("[name=arg-value]").fill("60000")
    card.locator("button:text-is('Add policy')").click()
    visit.sure()
    found = rest.ask("GET", "operator-policies", "/", "c.cap")
    assert found["definition"] == {"message-ttl": 60000}
    visit.page.click("button:text-is('Delete')")
    visit.sure()
    assert rest.ask("GET", "operator-policies", "/", "c.cap") is None


def test_bindings_come_and_go(visit: Any, rest: Rest) -> None:
    rest.ask("PUT", "queues", "/", "c.bound", body={"durable": True})
    visit.go("/queues/%2F/c.bound")
    card = visit.card("bind")
    card.locator("[name=other]").fill("amq.topic")
    card.locator("[name=routing_key]").fill("a.*")
    card.locator("button:text-is('Bind')").click()
    assert "bound to" in visit.notice()
    visit.go("/bindings?name=c.bound")
    assert visit.page.locator("tbody tr").count() == 1
    visit.page.click("button:text-is('Unbind')")
    visit.sure()
    assert len(rest.ask("GET", "queues", "/", "c.bound", "bindings")) == 1
    visit.go("/exchanges/%2F/amq.fanout")
    card = visit.card("bind")
    card.locator("[name=other]").fill("c.bound")
    card.locator("button:text-is('Bind')").click()
    assert visit.page.locator("tbody >> text=c.bound").count() == 1
    visit.go("/map?name=c.bound")
    assert visit.page.locator(".map .box").count() == 2
    visit.go("/exchanges/%2F/amq.fanout")
    visit.page.click("button:text-is('Unbind')")
    visit.sure()
    assert "is gone" in visit.notice()
    rest.ask("DELETE", "queues", "/", "c.bound")


def test_users_vhosts_and_limits(visit: Any, rest: Rest) -> None:
    visit.go("/vhosts")
    card = visit.card("create")
    card.locator("[name=name]").fill("c.vhost")
    card.locator("[name=description]").fill("a description")
    card.locator("[name=default_queue_type]").select_option("quorum")
    card.locator("button").click()
    assert rest.ask("GET", "vhosts", "c.vhost")["default_queue_type"] == "quorum"
    visit.card("protection").locator("button").click()
    visit.card("delete").locator("button").click()
    visit.sure("c.vhost")
    assert "protected" in visit.notice()
    visit.card("protection").locator("button").click()

    visit.go("/users")
    card = visit.card("create")
    card.locator("[name=name]").fill("c.user")
    card.locator("[name=password]").fill("one")
    card.locator("[name=password_again]").fill("two")
    card.locator("button").click()
    assert "not the same" in visit.notice()
    card = visit.card("create")
    card.locator("[name=password]").fill("one")
    card.locator("[name=password_again]").fill("one")
    card.locator("[name=tag][value=monitoring]").check()
    card.locator("button").click()
    assert rest.ask("GET", "users", "c.user")["tags"] == ["monitoring"]
    card = visit.card("permit")
    card.locator("[name=vhost]").select_option("c.vhost")
    card.locator("[name=write]").fill("^$")
    card.locator("button").click()
    (permission,) = rest.ask("GET", "users", "c.user", "permissions")
    assert (permission["vhost"], permission["write"]) == ("c.vhost", "^$")
    card = visit.card("permit-topic")
    card.locator("[name=vhost]").select_option("c.vhost")
    card.locator("[name=write]").fill("^a")
    card.locator("button").click()
    assert rest.ask("GET", "users", "c.user", "topic-permissions")[0]["write"] == "^a"
    visit.page.click("button:text-is('Clear all of the virtual host')")
    visit.sure()
    assert rest.ask("GET", "users", "c.user", "topic-permissions") == []
    before = rest.ask("GET", "users", "c.user")["password_hash"]
    card = visit.card("change")
    card.locator("[name=tag][value=monitoring]").uncheck()
    card.locator("[name=tag][value=policymaker]").check()
    card.locator("[name=more_tags]").fill("own")
    card.locator("button").click()
    found = rest.ask("GET", "users", "c.user")
    assert (sorted(found["tags"]), found["password_hash"]) == (["own", "policymaker"], before)
    visit.page.click("button:text-is('Clear')")
    visit.sure()
    assert rest.ask("GET", "users", "c.user", "permissions") == []

    visit.go("/limits")
    card = visit.card("limit-vhost")
    card.locator("[name=vhost]").select_option("c.vhost")
    card.locator("[name=value]").fill("5")
    card.locator("button").click()
    assert rest.ask("GET", "vhost-limits", "c.vhost")[0]["value"] == {"max-connections": 5}
    card = visit.card("limit-user")
    card.locator("[name=user]").select_option("c.user")
    card.locator("[name=value]").fill("6")
    card.locator("button").click()
    assert rest.ask("GET", "user-limits", "c.user")[0]["value"] == {"max-connections": 6}
    visit.page.click("[aria-label='Clear max-connections of c.user']")
    visit.sure()
    visit.page.click("[aria-label='Clear max-connections of c.vhost']")
    visit.sure()
    assert rest.ask("GET", "user-limits", "c.user") == []

    visit.go("/users/c.user")
    visit.card("delete").locator("button").click()
    visit.sure()
    assert rest.ask("GET", "users", "c.user") is None
    visit.go("/vhosts/c.vhost")
    visit.card("delete").locator("button").click()
    visit.sure("c.vhost")
    assert rest.ask("GET", "vhosts", "c.vhost") is None


def test_definitions_go_out_and_in(visit: Any, rest: Rest, tmp_path: Path) -> None:
    rest.ask("PUT", "queues", "/", "c.defined", body={"durable": True})
    visit.go("/definitions")
    with visit.page.expect_download() as download:
        visit.page.click("button:text-is('Download definitions')")
    file = tmp_path / "definitions.json"
    download.value.save_as(file)
    assert "c.defined" in {each["name"] for each in json.loads(file.read_text())["queues"]}
    rest.ask("DELETE", "queues", "/", "c.defined")
    visit.page.set_input_files("#import-file", file)
    visit.page.click("button:text-is('Import definitions')")
    assert "is there now" in visit.notice()
    assert rest.ask("GET", "queues", "/", "c.defined") is not None
    visit.page.fill("#import-text", "{broken")
    visit.page.click("button:text-is('Import definitions')")
    assert "Not done." in visit.notice()
    rest.ask("DELETE", "queues", "/", "c.defined")


def test_connections_are_shown_and_closed(visit: Any, rest: Rest, ui_broker: Any) -> None:
    import pika
    from pika.exceptions import AMQPError

    parameters = pika.URLParameters(ui_broker.url)
    parameters.client_properties = {"connection_name": "c.client"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("c.consumed", durable=True)
    channel.basic_consume("c.consumed", lambda *_: None, consumer_tag="c.tag")
    wait_for(lambda: len(rest.ask("GET", "channels")) > 0)
    visit.go("/connections")
    visit.page.click("text=c.client")
    assert "guest" in visit.page.inner_text(".facts")
    visit.page.click("#channels tbody a")
    assert "c.tag" in visit.page.inner_text("#consumers")
    visit.page.click("#consumers >> text=c.consumed")
    assert "c.tag" in visit.page.inner_text("#consumers")
    visit.go("/connections")
    visit.page.click("text=c.client")
    card = visit.card("close")
    card.locator("[name=reason]").fill("because")
    card.locator("button").click()
    visit.sure("c.client")
    assert "is closed" in visit.notice()
    with pytest.raises(AMQPError, match="because"):
        connection.process_data_events(5)
    rest.ask("DELETE", "queues", "/", "c.consumed")
