"""`warren migrate` moves queues between two brokers, and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.broker import Broker, free_port
from warren.__main__ import main
from warren.admin.cli import migrate
from warren.client import Channel, connect
from warren.wire.amqp091.properties import Properties

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("migrate")
    started = [Broker(free_port(), folder / name).start() for name in ("old", "new")]
    yield started[0].url, started[1].url
    for broker in started:
        broker.stop()


def fill(url: str, queue: str, count: int, properties: bytes = b"\x00\x00") -> None:
    with connect(url) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        bodies = [b"%d" % number for number in range(count)]
        assert channel.publish_many("", queue, bodies, properties) == []


def held(url: str, queue: str) -> list[tuple[bytes, Properties]]:
    with connect(url) as connection:
        channel = connection.channel()
        found = []
        while (got := channel.get(queue, no_ack=True)) is not None:
            found.append((got.body, got.decoded()))
        return found


def test_a_queue_is_moved_in_order_with_its_properties(
    brokers: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = brokers
    properties = Properties(
        headers={"n": 5, "CC": ["other"]}, delivery_mode=2, message_id="m", user_id="guest"
    )
    fill(old, "orders", 1_200, properties.encode())
    fill(new, "orders", 0)
    fill(new, "other", 0)
    words = ["migrate", "--from", old, "--to", new, "orders"]
    # The copies that `CC` made are in a queue that is not there.
    assert main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out == "orders: 1200 messages\n"
    assert main(words) == 0
    assert capsys.readouterr().out == "orders: moved 1200 messages\n"
    moved = held(new, "orders")
    assert [body for body, _ in moved] == [b"%d" % number for number in range(1_200)]
    assert (moved[0][1].headers, moved[0][1].message_id) == ({"n": 5}, "m")
    assert moved[0][1].user_id == "guest"
    assert held(old, "orders") == [] == held(new, "other")


@pytest.mark.rule("QQ-31")
def test_a_classic_queue_becomes_a_quorum_queue(
    brokers: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The way of those who had it mirrored: as they were, in order, and each once."""
    old, new = brokers
    fill(old, "mirrored", 500, Properties(delivery_mode=2).encode())
    with connect(new) as connection:
        quorum = {"x-queue-type": "quorum"}
        connection.channel().queue_declare("mirrored", durable=True, arguments=quorum)
    assert main(["migrate", "--from", old, "--to", new, "mirrored"]) == 0
    assert capsys.readouterr().out == "mirrored: moved 500 messages\n"
    assert [body for body, _ in held(new, "mirrored")] == [b"%d" % at for at in range(500)]
    assert held(old, "mirrored") == []


def test_what_the_target_refuses_stays_where_it_is(
    brokers: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = brokers
    fill(old, "full", 10)
    with connect(new) as connection:
        connection.channel().queue_declare(
            "full", durable=True, arguments={"x-max-length": 3, "x-overflow": "reject-publish"}
        )
    assert main(["migrate", "--from", old, "--to", new, "full"]) == 1
    assert "full: the target refused 7 messages; they stay" in capsys.readouterr().err
    assert len(held(old, "full")) == 10 and len(held(new, "full")) == 3


class Vanishing:
    """A target's channel, whose queue is deleted after so many messages of the first batch."""

    def __init__(self, channel: Channel, queue: str, after: int) -> None:
        self._channel = channel
        self._queue = queue
        self._left = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._channel, name)

    def publish(self, *message: Any, **options: Any) -> None:
        if self._left == 0:
            self._channel.queue_delete(self._queue)
        self._left -= 1
        self._channel.publish(*message, **options)


@pytest.mark.parametrize("after", [0, 6])
def test_what_the_target_returns_stays_where_it_is(brokers: tuple[str, str], after: int) -> None:
    """It is confirmed too, and in no queue."""
    old, new = brokers
    fill(old, "vanishing", 10)
    fill(new, "vanishing", 0)
    with connect(old) as giving, connect(new) as taking:
        target = cast(Channel, Vanishing(taking.channel(), "vanishing", after))
        move = migrate.Migration("vanishing", giving.channel(), target, "guest", 0)
        text = f"the target has no such queue any more for {10 - after} messages; they stay"
        with pytest.raises(migrate.NotMoved, match=text):
            move.all()
    assert move.moved == 0
    assert [body for body, _ in held(old, "vanishing")] == [b"%d" % at for at in range(10)]


def test_queues_have_to_be_at_both(
    brokers: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old, new = brokers
    fill(old, "lone", 2)
    definitions = tmp_path / "d.json"
    rows = [{"name": "lone", "vhost": "/"}, {"name": "x", "vhost": "v"}]
    definitions.write_text(json.dumps({"queues": rows}))
    assert main(["migrate", "--from", old, "--to", new, "--definitions", str(definitions)]) == 1
    assert "lone: " in capsys.readouterr().err
    assert len(held(old, "lone")) == 2
    assert main(["migrate", "--from", old, "--to", old, "lone"]) == 2
    assert main(["migrate", "--from", old, "--to", new]) == 2


def test_a_source_that_gives_nothing_is_given_up(
    brokers: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages are ready, but another consumer is the active one and takes no more."""
    monkeypatch.setattr(migrate, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(migrate, "QUIET_SECONDS", 0.2)
    old, new = brokers
    fill(new, "single", 0)
    with connect(old) as connection:
        channel = connection.channel()
        channel.queue_declare("single", durable=True, arguments={"x-single-active-consumer": True})
        channel.publish_many("", "single", [b"1", b"2"], b"\x00\x00")
        channel.qos(1)
        channel.consume("single")
        assert channel.receive(1, 10.0)
        assert main(["migrate", "--from", old, "--to", new, "single"]) == 1
    assert "says that 1 messages are ready and has given none" in capsys.readouterr().err


def test_passwords_of_uris_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "amqp://u:s3cret@host:port/v"
    for words in (
        ["get", "q", "--uri", wrong],
        ["publish", "q", "b", "--uri", "http://u:s3cret@host"],
        ["migrate", "--from", wrong, "--to", wrong, "q"],
        ["migrate", "--from", "amqp://u:s3cret@127.0.0.1:1", "--to", "amqp://u:s3cret@h", "q"],
    ):
        assert main(words) != 0
        shown = capsys.readouterr()
        assert shown.err and "s3cret" not in shown.out + shown.err
