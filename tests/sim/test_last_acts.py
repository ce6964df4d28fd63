"""Checkers of what a cluster's run ends with, each with a history that it has to complain of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sim.cluster.forced import Forcing
from sim.cluster.healing import check_load
from sim.cluster.vhosts import LOOKS_MAX, PLAIN, Realms
from sim.cluster.weak import WeakGroup
from sim.model import Violation


def weak(kept: set[int], got: list[int]) -> WeakGroup:
    """A queue of which some messages were confirmed, and some came out."""
    world: Any = SimpleNamespace(seed=1)
    group = WeakGroup(world)
    group.kept = set(kept)
    hand: Any = SimpleNamespace(got=got)
    group.check(hand)
    return group


def test_a_weak_queue_gives_out_what_it_has_once() -> None:
    group = weak({1, 2, 3}, [2, 1, 3])
    group.check_rest(0)
    with pytest.raises(Violation, match="message 2 of weak came out, which was gone"):
        weak({1, 2, 3}, [2, 2])
    with pytest.raises(Violation, match="message 4 of weak came out, which was gone or never was"):
        weak({1, 2, 3}, [4])


def test_a_weak_queue_loses_no_more_than_it_says() -> None:
    group = weak({1, 2, 3}, [1])
    group.check_rest(2)
    with pytest.raises(Violation, match="2 messages of weak are lost"):
        group.check_rest(1)


def realms() -> Realms:
    """Vhosts in a world in which nothing happens."""
    world: Any = SimpleNamespace(
        seed=1,
        incarnations=SimpleNamespace(overlook=lambda _: None),
        count=lambda *_: None,
        say=lambda *_: None,
        running=lambda: [SimpleNamespace()],
    )
    return Realms(world, True, True)


class Line:
    """A connection, as far as it is looked at."""

    name, site, vhost = "c", "n1", "renewed"


def connection() -> Any:
    return Line()


def test_a_message_stays_in_its_vhost() -> None:
    known, first, second = realms(), connection(), connection()
    known.look(first, "renewed 1", True)
    known.look(second, "renewed 2", True)
    assert known.next(first) == 1
    known.take(b"of vhost 1", first, "c")
    with pytest.raises(Violation, match="got message 1 of vhost .*1.* in vhost .*2"):
        known.take(b"of vhost 1", second, "c")
    with pytest.raises(Violation, match="got what nobody published"):
        known.take(b"of vhost 2", first, "c")


def test_a_connection_ends_soon_behind_its_vhost() -> None:
    known, each = realms(), connection()
    known.look(each, "renewed 1", True)
    for _ in range(LOOKS_MAX):
        known.look(each, "", False)
    with pytest.raises(Violation, match="opened to vhost renewed 1, and is open yet"):
        known.look(each, "renewed 2", False)


def test_what_is_confirmed_in_a_vhost_that_is_there_has_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, each = realms(), connection()
    known.look(each, "renewed 1", True)
    known.confirm(known.next(each), PLAIN)
    there = {"renewed": "renewed 1"}
    monkeypatch.setattr(Realms, "era_at", lambda _, __, name: there.get(name, ""))
    assert not known.came()
    there["renewed"] = "renewed 2"
    assert known.came()


def test_the_vhost_that_stays_is_there() -> None:
    known = realms()
    for era in ("", "lasting 1", "lasting 1"):
        known.look_at_lasting("n1", 1, era)
    known.look_at_lasting("n1", 2, "")
    with pytest.raises(Violation, match="n1 had vhost lasting 1, and has none of its name"):
        known.look_at_lasting("n1", 1, "")


def test_by_force_no_more_is_lost_than_may_be() -> None:
    world: Any = SimpleNamespace(seed=1)
    forcing = Forcing(world)
    forcing.kept, forcing.may_come = {1, 2}, {3}
    forcing.check([1, 2])
    forcing.check([2, 3, 1])
    with pytest.raises(Violation, match="messages .2. of forced are lost by force"):
        forcing.check([1, 3])
    for got in ([1, 2, 2], [1, 2, 4]):
        with pytest.raises(Violation, match="of forced came again, or never was"):
            forcing.check(got)


def test_an_idle_node_counts_nothing_as_waiting() -> None:
    def site(waits: int, unled: int) -> Any:
        load = SimpleNamespace(_bytes=waits, _unled=unled)
        return SimpleNamespace(name="n1", node=SimpleNamespace(cluster=SimpleNamespace(_load=load)))

    check_load([site(0, 0)])
    for waits, unled in ((1, 0), (0, 1)):
        with pytest.raises(Violation, match="n1 is idle, and counts"):
            check_load([site(0, 0), site(waits, unled)])
