"""Where a message of a quorum queue stands that came back."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NAME = "q"
GIVEN = ["reject", "nack", "recover"]


def with_messages(limit: int, strict: bool) -> tuple[Pair, Client]:
    """A queue with six messages, the first two of which a client holds."""

    def configure(settings: Settings) -> None:
        settings.strict_priorities = strict

    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    arguments: Table = {"x-queue-type": "quorum", "x-delivery-limit": limit}
    client.call(spec.QueueDeclare(0, NAME, False, True, False, False, False, arguments))
    pair.a.client().publish_confirmed(NAME, 6)
    assert client.get(NAME) is not None and client.get(NAME) is not None
    return pair, client


def give_back(client: Client, way: str) -> None:
    """What the client holds, by one of the ways there are."""
    if way == "reject":
        client.send(spec.BasicReject(1, True))
        client.send(spec.BasicReject(2, True))
    elif way == "nack":
        client.send(spec.BasicNack(2, True, True))
    elif way == "recover":
        client.send(spec.BasicRecover(True))
    elif way == "channel":
        client.call(spec.ChannelClose(200, "", 0, 0))
    else:
        client.vanish()


def order(pair: Pair) -> list[bytes]:
    """All messages, as they go."""
    pair.until(lambda: int(pair.a.queue(NAME).ready_count()) == 6)
    client = pair.a.client()
    found = [client.get(NAME) for _ in range(6)]
    return [got.body for got in found if got is not None]


@pytest.mark.rule("POI-12")
@pytest.mark.parametrize("way", [*GIVEN, "channel", "connection"])
def test_with_a_limit_it_stands_near_the_head(way: str) -> None:
    pair, client = with_messages(20, False)
    give_back(client, way)
    assert order(pair) == [b"1", b"2", b"3", b"4", b"5", b"6"]


@pytest.mark.rule("POI-11")
@pytest.mark.parametrize("way", GIVEN)
def test_without_a_limit_what_a_client_gives_back_stands_at_the_back(way: str) -> None:
    pair, client = with_messages(-1, False)
    give_back(client, way)
    assert order(pair) == [b"3", b"4", b"5", b"6", b"1", b"2"]


@pytest.mark.parametrize("way", ["channel", "connection"])
def test_without_a_limit_what_a_client_leaves_stands_near_the_head(way: str) -> None:
    """It gave nothing back, and does not get the same again and again."""
    pair, client = with_messages(-1, False)
    give_back(client, way)
    assert order(pair) == [b"1", b"2", b"3", b"4", b"5", b"6"]


@pytest.mark.parametrize("way", [*GIVEN, "channel", "connection"])
def test_a_queue_like_those_of_4_3_has_it_near_the_head_always(way: str) -> None:
    pair, client = with_messages(-1, True)
    give_back(client, way)
    assert order(pair) == [b"1", b"2", b"3", b"4", b"5", b"6"]
