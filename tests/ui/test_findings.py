"""Who is slow and why: the sentences that rows of lists lead to, and the page that has them."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from playwright.sync_api import expect

from tests.ui.conftest import WAIT_MS
from tests.ui.rest import Rest
from warren.admin.ui import findings
from warren.admin.ui.findings import Finding


def only(found: list[Finding]) -> str:
    """The reason of the only finding; empty if there is none."""
    if not found:
        return ""
    (one,) = found
    assert one.advice and one.link.startswith("/")
    return one.reason


def stats(**rates: float) -> dict[str, Any]:
    return {f"{name}_details": {"rate": rate} for name, rate in rates.items()}


@pytest.mark.parametrize(
    ("held", "limits", "acks", "reason"),
    [
        (0, [1], 0.0, ""),
        (1, [1], None, "It holds 1 message, as many as its prefetch lets it"),
        (20, [10, 10], 0.0, "It holds 20 messages, as many"),
        (5, [10], 0.0, ""),
        (5, [], 0.0, "basic.get or of consumers that are gone"),
        (1, [1], 4.0, "Its prefetch is 1 and it takes 250 ms for each message, 4.0/s"),
        (2, [1, 1], 1.0, "takes 2.0 s for each message"),
        (1, [1], 1_000.0, ""),
        (100, [100], 1.0, "what it holds takes it 1 min 40 s"),
        (100, [100], 100.0, ""),
        (5_000, [0], 1_000.0, "It has no prefetch, and holds 5,000 messages"),
        (5_000, [0], None, "It has no prefetch, and holds 5,000 messages"),
        (50, [0], 0.0, ""),
    ],
)
def test_slow_consumers_are_told_by_what_their_channel_holds(
    held: int, limits: list[int], acks: float | None, reason: str
) -> None:
    row = {"name": "c (1)", "messages_unacknowledged": held}
    if acks is not None:
        row["message_stats"] = stats(ack=acks)
    consumers = [
        {"channel_details": {"name": "c (1)"}, "prefetch_count": limit, "ack_required": True}
        for limit in limits
    ]
    said = only(findings.of_channels([row], consumers))
    assert reason in said and bool(reason) == bool(said)


@pytest.mark.parametrize(
    ("ready", "held", "consumers", "came", "left", "reason"),
    [
        (0, 0, 0, 5.0, 0.0, ""),
        (1, 0, 0, 0.0, 0.0, "It has no consumer: 1 message waits."),
        (9, 0, 0, 5.0, 0.0, "It has no consumer: 9 messages wait, and 5.0/s come."),
        (9, 0, 0, 5.0, 2.0, "It grows: 5.0/s come and 2.0/s go, with 0 consumers"),
        (9, 3, 2, 5.0, 2.0, "It grows: 5.0/s come and 2.0/s go, with 2 consumers"),
        (9, 3, 1, 2.0, 2.0, ""),
        (9, 3, 1, 0.0, 0.0, ""),
    ],
)
def test_queues_that_grow_or_have_no_consumer_are_told(
    ready: int, held: int, consumers: int, came: float, left: float, reason: str
) -> None:
    row = {
        "vhost": "/",
        "name": "q",
        "messages_ready": ready,
        "messages_unacknowledged": held,
        "consumers": consumers,
        "message_stats": stats(publish=came, deliver_get=left),
    }
    said = only(findings.of_queues([row]))
    assert reason in said and bool(reason) == bool(said)


@pytest.mark.parametrize(
    ("state", "unsent", "reason"),
    [
        ("running", 0, ""),
        ("blocked", 0, "short of memory or disk"),
        ("flow", 0, "faster than its queues take"),
        ("running", 3 << 20, "does not read: 3.0 MiB wait"),
    ],
)
def test_connections_that_wait_are_told(state: str, unsent: int, reason: str) -> None:
    said = only(findings.of_connections([{"name": "c", "state": state, "send_pend": unsent}]))
    assert reason in said and bool(reason) == bool(said)


def test_alarms_of_nodes_are_told() -> None:
    node = {"name": "n", "mem_used": 3 << 30, "mem_limit": 2 << 30, "disk_free": 1 << 20}
    node["disk_free_limit"] = 50 << 20
    assert findings.of_nodes([node]) == []
    assert "3.0 GiB of 2.0 GiB" in only(findings.of_nodes([{**node, "mem_alarm": True}]))
    short = {**node, "disk_free_alarm": True}
    assert "(1.0 MiB free, 50.0 MiB needed)" in only(findings.of_nodes([short]))
    # The log reserves space ahead: an alarm is raised above the limit, too.
    text = only(findings.of_nodes([{**short, "disk_free": 70 << 20}]))
    assert "70.0 MiB free, 50.0 MiB needed beside what the log reserves" in text


def test_who_is_slow_has_a_name_and_a_queue() -> None:
    row = {"name": "1.2.3.4:5 -> 6 (1)", "messages_unacknowledged": 2, "user": "u"}
    row |= {"client": "worker <b>", "queues": ["a", "b", "c", "d"]}
    (found,) = findings.of_channels([row], [])
    assert (found.name, found.about) == (
        "worker <b>",
        "1.2.3.4:5 -> 6 (1), queues a, b, c and 1 more, user u",
    )
    (found,) = findings.of_channels([{**row, "client": "", "queues": ["a"]}], [])
    assert (found.name, found.about) == ("1.2.3.4:5 -> 6 (1)", "queue a, user u")
    blocked = {"name": "n", "state": "blocked", "user_provided_name": "app", "user": "u"}
    (found,) = findings.of_connections([blocked])
    assert (found.name, found.about) == ("app", "n, user u")


def test_rows_without_figures_say_nothing() -> None:
    """As of nodes that do not answer."""
    assert findings.of_queues([{"vhost": "/", "name": "q"}]) == []
    assert findings.of_channels([{"name": "c"}], []) == []
    assert findings.of_connections([{"name": "c"}]) == []
    assert findings.of_nodes([{"name": "n"}]) == []


HOSTILE = "f.<script>alert(1)</script>\"'&"


def test_a_consumer_that_settles_nothing_is_on_the_page(
    visit: Any, rest: Rest, ui_broker: Any
) -> None:
    rest.ask("PUT", "queues", "/", HOSTILE, body={"durable": True})
    rest.ask("PUT", "queues", "/", "f.alone", body={"durable": True})
    rest.publish(HOSTILE, 3)
    rest.publish("f.alone", 2, timestamp=1_700_000_000)
    properties = {"connection_name": "f.client"}
    parameters = pika.ConnectionParameters(
        ui_broker.host, ui_broker.port, client_properties=properties
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        got: list[bytes] = []
        channel.basic_consume(HOSTILE, lambda _, __, ___, body: got.append(body))
        while not got:
            connection.process_data_events(1)
        visit.go("/slow")
        row = visit.page.locator("#t-channels tbody tr")
        expect(row).to_contain_text("as many as its prefetch lets it", timeout=WAIT_MS)
        assert "f.client" in row.inner_text() and f"queue {HOSTILE}, user guest" in row.inner_text()
        visit.page.click("#t-channels tbody a")
        expect(visit.page.locator("main")).to_contain_text(HOSTILE, timeout=WAIT_MS)
        visit.go("/slow")
        row = visit.page.locator("#t-queues tbody tr", has_text="f.alone")
        expect(row).to_contain_text("It has no consumer: 2 messages wait", timeout=WAIT_MS)
        assert " d " in row.locator("td").last.inner_text()
    expect(visit.page.locator("#t-channels")).to_have_count(0, timeout=WAIT_MS)
    row = visit.page.locator("#t-queues tbody tr", has_text="f.<script>")
    expect(row).to_contain_text("3 messages wait", timeout=WAIT_MS)
    for queue in (HOSTILE, "f.alone"):
        rest.ask("DELETE", "queues", "/", queue)
