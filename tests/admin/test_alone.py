"""`force_shrink_member_to_current_member`: a queue goes on with the copy on one node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from tests.node.test_leading_again import drained
from tests.node.test_stranded import QUEUE, leads, voters
from warren.admin.service.caller import LOCAL
from warren.admin.service.catalogue import OPERATIONS
from warren.errors import PRECONDITION_FAILED, Refusal

NAME = "force_shrink_member_to_current_member"
WORDS = {"vhost": "/", "queue": QUEUE}


def asked(pair: Pair, node: str, operation: str, arguments: dict[str, Any]) -> Any:
    async def ask() -> Any:
        return await OPERATIONS[operation].asked(service_of(pair, node), LOCAL, arguments)

    return answered(pair, ask)


def refused(pair: Pair, node: str) -> str:
    with pytest.raises(Refusal) as failure:
        asked(pair, node, NAME, WORDS)
    assert failure.value.kind == PRECONDITION_FAILED
    return failure.value.text


def five(size: int) -> tuple[Pair, list[str]]:
    """Five nodes, and a queue with five messages and so many voters; their nodes."""
    pair = Pair()
    pair.minds_seconds = True
    for name in "cde":
        pair.add(name)
    client = pair.a.client()
    client.declare(QUEUE, kind="quorum", size=size)
    names = sorted(row.node for row in pair.a.record(QUEUE).members)
    pair.until(lambda: all(voters(pair.stations[name]) == set(names) for name in names))
    client.publish_confirmed(QUEUE, 5)
    pair.settle(20)
    return pair, names


def lose(pair: Pair, names: list[str]) -> None:
    for name in names:
        pair.stations[name].kill()
    left = next(station for station in pair.stations.values() if station.alive)
    pair.until(lambda: not set(names) & set(service_of(pair, left.name).members.running()))


def forget(pair: Pair, node: str, names: list[str]) -> None:
    for name in names:
        asked(pair, node, "forget_node", {"node": name, "force": True})


def test_the_last_of_three_goes_on() -> None:
    pair, names = five(3)
    node, lost = names[0], names[1:]
    lose(pair, lost)
    pair.until(lambda: not pair.stations[node].queue(QUEUE).proposer().has_leader())
    assert "may come back" in (text := refused(pair, node)) and "forget" in text
    forget(pair, node, lost)
    pair.settle(800)
    assert not leads(pair, node), "what the others had is not known"
    said = [text for text in pair.stations[node].warnings if NAME in text]
    assert len(said) == 1
    assert asked(pair, node, NAME, WORDS).changed
    assert leads(pair, node)
    assert not asked(pair, node, NAME, WORDS).changed, "it is so already"
    client = pair.stations[node].client()
    client.publish_confirmed(QUEUE, 1)
    assert drained(client, QUEUE) == [b"1", b"2", b"3", b"4", b"5", b"1"]


def test_a_member_that_lives_begins_anew_with_what_the_chosen_one_has() -> None:
    pair, names = five(4)
    node, living, *lost = names
    before = pair.stations[node].record(QUEUE).member_on(living)
    lose(pair, lost)
    pair.until(lambda: not pair.stations[node].queue(QUEUE).proposer().has_leader())
    forget(pair, node, lost)
    assert asked(pair, node, NAME, WORDS).changed
    pair.until(lambda: voters(pair.stations[node]) == {node, living})
    after = pair.stations[node].record(QUEUE).member_on(living)
    assert before is not None and after is not None
    assert before.incarnation != after.incarnation
    assert drained(pair.stations[living].client(), QUEUE) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_queue_with_a_leader_or_a_majority_is_left_alone() -> None:
    pair, names = five(3)
    assert "is led by node" in refused(pair, names[0])
    (without,) = [name for name in "abcde" if name not in names][:1]
    assert "has no voting member on node" in refused(pair, without)
    assert asked(pair, names[0], "quorum_status", WORDS)


def test_force_says_which_queues_lose_their_majority(caplog: pytest.LogCaptureFixture) -> None:
    pair, names = five(3)
    node, lost = names[0], names[1:]
    lose(pair, lost)
    pair.until(lambda: not pair.stations[node].queue(QUEUE).proposer().has_leader())
    forget(pair, node, lost[:1])
    assert f"'{QUEUE}' in vhost '/'" in caplog.text
    assert NAME in caplog.text
