"""What operators change is in the log, with who did it, and without secrets."""

from __future__ import annotations

import inspect
import logging
import string
from pathlib import Path
from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.ctl.play import in_process
from tests.http.talk import Ask, Peer
from tests.node.pair import Pair
from tests.support.broker import Broker, free_port
from warren.admin.cli.asking import FOLDER_VARIABLE
from warren.admin.cli.tools.session import NODE_VARIABLE
from warren.admin.service.audit import CHANGES, DETAILS, TEXT_MAX, is_told
from warren.admin.service.caller import LOCAL, Caller
from warren.admin.service.catalogue import OPERATIONS
from warren.errors import Refusal

READS = (
    *("status", "quorum_status", "overview", "figures_of_vhosts", "node_figures", "event_exchange"),
    *("shared_figures", "memory_breakdown", "auth_attempts", "some_queues", "queue_details"),
    *("queue_page", "queue_lengths", "queues_in_use", "queues_seen", "led_queue", "peek", "look"),
    *("exchange_details", "binding_details", "binding_page", "vhost_details", "one_vhost"),
    *("user_details", "search_messages", "look_at", "route_now", "copies_of", "client_figures"),
    *("connection_page", "channel_page", "export_definitions", "certificates", "tls_support"),
    *("environment", "os_env", "count_queues", "salted_hash", "authenticate_user"),
    # What clients do, who are not told of either.
    *("get_messages", "publish_message"),
)
"""Those that change nothing of the broker, beside lists and checks."""


def test_each_operation_is_told_of_or_changes_nothing() -> None:
    for name in OPERATIONS:
        reads = name in READS or name.startswith(("list_", "check_", "visible_"))
        assert is_told(name) != reads, name
    assert set(CHANGES) | set(DETAILS) <= set(OPERATIONS)
    assert not set(CHANGES) & set(DETAILS)


SECRET = ("password", "hash", "value", "body")


@pytest.mark.parametrize("name", [*CHANGES, *DETAILS])
def test_lines_have_arguments_that_are_no_secrets(name: str) -> None:
    text = CHANGES.get(name) or DETAILS[name]
    known = inspect.signature(OPERATIONS[name]._function).parameters
    for _, field, _, _ in string.Formatter().parse(text):
        assert field is None or (field in known and not any(word in field for word in SECRET))


@pytest.fixture
def pair() -> Pair:
    return Pair(alone=True)


def done(pair: Pair, caller: Caller, operation: str, **arguments: Any) -> None:
    answered(pair, lambda: OPERATIONS[operation].asked(service_of(pair), caller, arguments))


def test_a_line_names_what_was_changed_and_who_did_it(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    admin = Caller("guest", frozenset({"administrator"}))
    with caplog.at_level(logging.INFO, "warren"):
        done(pair, admin, "add_user", name="app", password="hush")
        done(pair, LOCAL, "set_user_tags", name="app", tags=["monitoring"])
        done(
            pair, admin, "set_permissions", vhost="/", user="app", configure="", write="a", read=""
        )
        done(pair, admin, "change_password", name="app", password="hush")
        done(
            pair,
            admin,
            "set_policy",
            vhost="/",
            name="p",
            pattern="^a",
            definition='{"max-length":5}',
            priority=0,
            apply_to="queues",
        )
        done(pair, admin, "declare_queue", vhost="/", name="q", durable=True)
        done(pair, admin, "delete_queue", vhost="/", name="q")
        done(pair, admin, "list_users")
        done(pair, LOCAL, "add_vhost", name="v")
        done(pair, LOCAL, "set_global_parameter", name="g", value='"hush"')
        with pytest.raises(Refusal):
            done(pair, admin, "delete_user", name="nobody")
    said = caplog.messages
    assert said[:5] == [
        "user 'app' was created, by user 'guest'",
        "user 'app' has the tags ['monitoring'], by an operator with the cluster's secret",
        "user 'app' has permissions in vhost '/': '', 'a', '', by user 'guest'",
        "user 'app' got another password, by user 'guest'",
        "policy 'p' of vhost '/' was set: pattern '^a', {\"max-length\":5}, by user 'guest'",
    ]
    assert said[5] == "queue 'q' in vhost '/' was deleted, by user 'guest'"
    assert len(said) == 8 and "hush" not in caplog.text
    with caplog.at_level(logging.DEBUG, "warren"):
        done(pair, admin, "declare_queue", vhost="/", name="q", durable=True)
    assert caplog.messages[-1] == "queue 'q' in vhost '/' was declared, by user 'guest'"


def test_a_line_has_an_end(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    pattern = "(" + "a" * 2 * TEXT_MAX + ")"
    with caplog.at_level(logging.INFO, "warren"):
        done(
            pair,
            LOCAL,
            "set_permissions",
            vhost="/",
            user="guest",
            configure=pattern,
            write="",
            read="",
        )
    (line,) = caplog.messages
    assert len(line) < TEXT_MAX + 60 and line.endswith(
        "..., by an operator with the cluster's secret"
    )


@pytest.mark.process
def test_each_way_in_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(free_port(), tmp_path / "b")
    broker.management = str(free_port())
    broker.start()
    try:
        peer = Peer(broker.host, int(broker.management), broker.port)
        assert peer.raw(Ask("PUT", "/vhosts/of-http", {}))[0] == 201
        assert peer.raw(Ask("PUT", "/queues/of-http/q", {"durable": True}))[0] == 201
        assert peer.raw(Ask("DELETE", "/queues/of-http/q"))[0] == 204
        monkeypatch.setenv(FOLDER_VARIABLE, str(broker.data_dir))
        monkeypatch.delenv(NODE_VARIABLE, raising=False)
        code, _, err = in_process(["rabbitmqctl", "add_user", "of-ctl", "hush"], "")
        assert code == 0, err
        log = broker.log_text()
        for line in (
            "vhost 'of-http' was created, by user 'guest'",
            "queue 'q' in vhost 'of-http' was deleted, by user 'guest'",
            "user 'of-ctl' was created, by an operator with the cluster's secret",
        ):
            assert log.count(line) == 1, log
        assert "hush" not in log
    finally:
        broker.stop()
