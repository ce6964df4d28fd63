"""Messages that go on elsewhere: where deaths say, if the broker says so, and no further than the
rights of who asked for it reach, however long it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Client, Pair
from warren.admin.service.caller import LOCAL, Caller
from warren.admin.service.looking import look
from warren.admin.service.moving import Choice, Destination, MoveProgress, move_messages
from warren.admin.service.service import AdminService
from warren.admin.ui.pages.messages import with_deaths
from warren.errors import ACCESS_REFUSED, Refusal
from warren.metadata import commands
from warren.metadata.grants import GrantedScope, Grants
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

MANAGER = Caller("m", frozenset({"management"}))
FORGED: Table = {
    "x-death": [
        {
            "count": 1,
            "reason": "rejected",
            "queue": "payments",
            "exchange": "amq.fanout",
            "routing-keys": ["k"],
        }
    ]
}


def publish(client: Client, queue: str, headers: Table, body: bytes) -> None:
    encoded = Properties(headers=headers).encode()
    method = spec.BasicPublish(0, "", queue, False, False)
    client.outbox += content_frames(1, method, encoded, body, 131_072)


@pytest.fixture
def pair() -> Pair:
    """`dead` takes what is rejected in `work`; and `payments`, which gives nothing to any queue."""
    pair = Pair(1, alone=True)
    client = pair.a.client()
    for name in ("dead", "payments"):
        client.declare(name)
    arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.call(spec.QueueDeclare(0, "work", False, True, False, False, False, arguments))
    for command in (
        commands.SetUser("m", b"", "rabbit_password_hashing_sha256", ["management"], False),
        commands.SetPermissions("m", "/", "", ".*", ".*"),
    ):
        pair.a.node.store.submit(command, None)
    pair.until(lambda: "m" in pair.a.node.metadata.vhosts["/"].permissions)
    return pair


def ready(pair: Pair, name: str) -> int:
    return int(pair.a.queue(name).ready_count())


def reject(pair: Pair, count: int, headers: Table | None = None) -> None:
    """Have so many messages die in `work`."""
    client = pair.a.client()
    before = ready(pair, "dead")
    for number in range(count):
        publish(client, "work", headers or {}, b"%d" % number)
    pair.until(lambda: ready(pair, "work") == count)
    for _ in range(count):
        got = client.get("work")
        assert got is not None
        client.send(spec.BasicReject(got.method.delivery_tag, False))  # type: ignore[union-attr]
    pair.until(lambda: ready(pair, "dead") == before + count)


def moved(
    service: AdminService,
    pair: Pair,
    way: Any,
    caller: Caller = MANAGER,
    dry_run: bool = False,
    after: Callable[[int], None] = lambda moved: None,
) -> MoveProgress:
    """How far a move of all messages of `dead` came."""
    seen = MoveProgress(targets={})

    async def run() -> None:
        nonlocal seen
        parts = move_messages(
            service,
            caller,
            vhost="/",
            queue="dead",
            destination=Destination(way=way, name="payments" if way == "queue" else ""),
            choice=Choice(),
            count=100,
            dry_run=dry_run,
        )
        try:
            async for (progress,) in parts:
                seen = progress
                after(progress.moved)
        finally:
            await parts.aclose()

    answered(pair, run)
    return seen


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("way", ["died_in", "published_to"])
def test_deaths_that_a_client_made_up_lead_nowhere(pair: Pair, way: str, dry_run: bool) -> None:
    """They name a queue and an exchange where their publisher may not write."""
    client = pair.a.client()
    for number in range(3):
        publish(client, "dead", FORGED, b"%d" % number)
    pair.until(lambda: ready(pair, "dead") == 3)
    reject(pair, 2, FORGED)
    service = service_of(pair)
    done = moved(service, pair, way, dry_run=dry_run)
    assert (done.moved, done.passed_over) == (2, 3)
    assert done.targets == {"": {"work": 2}}, "they died there, whatever they said before"
    pair.settle()
    assert ready(pair, "payments") == 0
    assert (ready(pair, "dead"), ready(pair, "work")) == ((5, 0) if dry_run else (3, 2))


def test_pages_tell_of_no_death_that_a_client_made_up(pair: Pair) -> None:
    publish(pair.a.client(), "dead", FORGED, b"forged")
    pair.until(lambda: ready(pair, "dead") == 1)
    reject(pair, 1)
    service = service_of(pair)
    found = answered(pair, lambda: look(service, LOCAL, vhost="/", queue="dead"))
    assert [each.dead_letter for each in found.messages] == [False, True]
    rows = [
        {"dead_letter": each.dead_letter, "properties": {"headers": each.properties.headers}}
        for each in found.messages
    ]
    assert [row["death"].queue for row in with_deaths(rows)] == ["", "work"]


def test_a_message_that_was_moved_is_no_dead_letter_any_more(pair: Pair) -> None:
    reject(pair, 1)
    service = service_of(pair)
    assert moved(service, pair, "queue").moved == 1
    pair.until(lambda: ready(pair, "payments") == 1)
    found = answered(pair, lambda: look(service, LOCAL, vhost="/", queue="payments"))
    assert [each.dead_letter for each in found.messages] == [False]


def test_a_move_goes_where_its_user_may_write(pair: Pair) -> None:
    reject(pair, 2)
    service = service_of(pair)
    pair.a.node.store.submit(commands.SetPermissions("m", "/", "", "^amq[.]topic$", ".*"), None)
    pair.settle()
    with pytest.raises(Refusal, match="write access to exchange 'amq.default'"):
        moved(service, pair, "died_in")
    pair.settle()
    assert (ready(pair, "dead"), ready(pair, "work")) == (2, 0)


LOST = [
    (commands.DeleteUser("m"), "user 'm' does not exist any more"),
    (commands.SetUserTags("m", []), "has no tag 'management'"),
    (commands.ClearPermissions("m", "/"), "read access to queue 'dead'"),
    (commands.SetPermissions("m", "/", "", ".*", ""), "read access to queue 'dead'"),
    (commands.SetPermissions("m", "/", "", "", ".*"), "write access to exchange 'amq.default'"),
]


@pytest.mark.parametrize(("command", "words"), LOST)
def test_a_move_stops_when_its_user_may_not_go_on(
    pair: Pair, command: commands.Command, words: str
) -> None:
    reject(pair, 5)
    service = service_of(pair)

    def lose(count: int) -> None:
        if count == 2:
            pair.a.node.store.submit(command, None)
            pair.settle()

    with pytest.raises(Refusal) as raised:
        moved(service, pair, "died_in", after=lose)
    assert raised.value.kind == ACCESS_REFUSED and words in raised.value.text
    pair.settle()
    # What it held goes back.
    assert (ready(pair, "work"), ready(pair, "dead")) == (2, 3)


def test_a_move_stops_when_the_token_of_its_user_ends(pair: Pair) -> None:
    reject(pair, 5)
    service = service_of(pair)
    ends_ms = pair.clock.monotonic_ms() + 10_000
    scopes = [GrantedScope(permission, "*", "*", "*") for permission in ("read", "write")]
    bearer = Caller(
        "app", frozenset({"management"}), Grants("app", ["management"], scopes, ends_ms)
    )

    def pass_time(count: int) -> None:
        if count == 2:
            pair.settle(11_000)

    with pytest.raises(Refusal, match="the token of user 'app' has ended"):
        moved(service, pair, "died_in", bearer, after=pass_time)
    pair.settle()
    assert (ready(pair, "work"), ready(pair, "dead")) == (2, 3)
