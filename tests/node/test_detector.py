"""The failure detector: what happens when, as tables, and what is reported of it."""

from __future__ import annotations

import pytest

from warren.node.cluster.detector import Detector, DetectorOptions
from warren.ports import PeerHello

OPTIONS = {
    "ping_ms": 100,
    "suspicion_ms": 1_000,
    "margin_ms_max": 600,
    "broken_grace_ms": 100,
    "gap_ms_max": 500,
}
TICK_MS = 50


def hello(boot: int, uid: bytes = b"u" * 16) -> PeerHello:
    return PeerHello("p", uid, bytes(16), boot, "1", 1)


def run(script: str, **changed: int) -> list[str]:
    """Play a script; gives its reports as `time event`.

    A line is a time in ms, an event and words for it; the node ticks every 50 ms between lines.
    At one time, p comes before q.

        heard p [every N until T]     a message came
        greeted p BOOT [UID]          a link came up
        broken p                      a link broke
        gone p                        its machine refuses connections
        stopped until T               this node did not run
        quiet                         nothing; ticks go on up to here
    """
    detector = Detector(DetectorOptions(**{**OPTIONS, **changed}), 0)
    for peer in ("p", "q"):
        detector.add(peer, 0)
    calls: dict[int, list[tuple[str, list[str]]]] = {}
    stops: list[tuple[int, int]] = []
    last = 0
    for line in script.strip().splitlines():
        at, event, *words = line.split()
        times = [int(at)]
        if event == "stopped":
            stops.append((int(at), int(words[1])))
            times = []
            last = max(last, int(words[1]))
        elif "every" in words:
            times = list(range(int(at), int(words[4]) + 1, int(words[2])))
        for time in times:
            calls.setdefault(time, []).append((event, words))
            last = max(last, time)
    reports = []
    for now in range(last + 1):
        if any(start < now < end for start, end in stops):
            continue
        for event, words in sorted(calls.get(now, ()), key=lambda call: call[1][:1]):
            if event == "heard":
                detector.heard(words[0], now)
            elif event == "greeted":
                uid = (words[2].encode() * 16)[:16] if len(words) > 2 else b"u" * 16
                detector.greeted(words[0], hello(int(words[1]), uid), now)
            elif event == "broken":
                detector.broken(words[0], now)
            elif event == "gone":
                detector.gone(words[0])
            else:
                assert event == "quiet", event
        if now % TICK_MS == 0:
            detector.tick(now)
        for change in detector.take_changes():
            what = "up" if change.up else "down"
            reports.append(f"{now} {change.peer} {what}{' restarted' if change.restarted else ''}")
    return reports


SCENARIOS = {
    "a peer comes and stays": (
        """
        10    greeted p 1
        10    heard p every 100 until 5010
        10    heard q every 100 until 5010
        """,
        ["10 p up", "10 q up"],
    ),
    "a peer that never comes": (
        """
        10    heard q every 100 until 3010
        """,
        ["10 q up", "1000 p down"],
    ),
    "silence": (
        """
        10    heard q every 100 until 3010
        10    heard p every 100 until 810
        """,
        ["10 p up", "10 q up", "1850 p down"],
    ),
    "silence, then a sign of life": (
        """
        10    heard q every 100 until 3010
        10    heard p every 100 until 810
        2500  heard p every 100 until 3010
        """,
        ["10 p up", "10 q up", "1850 p down", "2500 p up"],
    ),
    "killed: the link breaks at once": (
        """
        10    heard q every 100 until 3010
        10    greeted p 1
        10    heard p every 100 until 810
        820   broken p
        """,
        ["10 p up", "10 q up", "950 p down"],
    ),
    "killed, and its machine says so": (
        """
        10    heard q every 100 until 3010
        10    greeted p 1
        10    heard p every 100 until 810
        820   broken p
        821   gone p
        """,
        ["10 p up", "10 q up", "821 p down"],
    ),
    "a peer that is heard and cannot be dialled": (
        """
        10    heard q every 100 until 1510
        10    heard p every 100 until 1510
        15    gone p
        820   broken p
        910   gone p
        """,
        ["10 p up", "10 q up"],
    ),
    "nobody listens where a peer was never heard of": (
        """
        10    heard q every 100 until 1510
        10    gone p
        """,
        ["10 q up", "1000 p down"],
    ),
    "both links break: the first one counts": (
        """
        10    heard q every 100 until 1510
        10    heard p every 100 until 810
        820   broken p
        890   broken p
        """,
        ["10 p up", "10 q up", "950 p down"],
    ),
    "a link breaks, the peer is alive": (
        """
        10    heard q every 100 until 1510
        10    heard p every 100 until 1510
        820   broken p
        """,
        ["10 p up", "10 q up"],
    ),
    "killed and back": (
        """
        10    heard q every 100 until 3010
        10    greeted p 1
        10    heard p every 100 until 810
        820   broken p
        1500  greeted p 2
        1510  heard p every 100 until 3010
        """,
        ["10 p up", "10 q up", "950 p down", "1500 p up restarted"],
    ),
    "back before anybody noticed": (
        """
        10    heard q every 100 until 3010
        10    greeted p 1
        10    heard p every 100 until 810
        840   greeted p 2
        841   greeted p 2
        850   heard p every 100 until 3010
        """,
        ["10 p up", "10 q up", "840 p down", "840 p up restarted"],
    ),
    "back with an empty data directory": (
        """
        10    heard q every 100 until 1510
        10    greeted p 5
        500   greeted p 1 other
        500   heard p every 100 until 1510
        """,
        ["10 p up", "10 q up", "500 p down", "500 p up restarted"],
    ),
    "a late link of the process before": (
        """
        10    heard q every 100 until 1510
        10    greeted p 5
        20    greeted p 4
        100   heard p every 100 until 1500
        """,
        ["10 p up", "10 q up"],
    ),
    "the network was cut, not the peer": (
        """
        10    heard q every 100 until 3010
        10    greeted p 5
        10    heard p every 100 until 510
        600   broken p
        2000  greeted p 5
        2000  heard p every 100 until 3010
        """,
        ["10 p up", "10 q up", "700 p down", "2000 p up"],
    ),
    "this node was stopped: nobody is suspected": (
        """
        10    heard p every 100 until 900
        10    heard q every 100 until 900
        910   stopped until 9001
        9100  heard p every 100 until 9900
        9100  heard q every 100 until 9900
        """,
        ["10 p up", "10 q up"],
    ),
    "stopped for a little less than the suspicion time": (
        """
        10    heard p every 100 until 900
        10    heard q every 100 until 900
        910   stopped until 1851
        1910  heard p every 100 until 2500
        1910  heard q every 100 until 2500
        """,
        ["10 p up", "10 q up"],
    ),
    "one of them died while this node was stopped": (
        """
        10    heard p every 100 until 900
        10    heard q every 100 until 900
        910   stopped until 9001
        9060  broken p
        9010  heard q every 100 until 11000
        """,
        ["10 p up", "10 q up", "9200 p down"],
    ),
    "one of them fell silent while this node was stopped": (
        """
        10    heard p every 100 until 900
        10    heard q every 100 until 900
        910   stopped until 9001
        9060  heard q every 100 until 11000
        """,
        ["10 p up", "10 q up", "10050 p down"],
    ),
    "a suspected peer stays so over a stop": (
        """
        10    heard q every 100 until 1910
        10    heard p every 100 until 110
        1910  stopped until 5001
        5010  heard q every 100 until 7000
        """,
        ["10 p up", "10 q up", "1150 p down"],
    ),
    "a peer that is late now and then is granted more": (
        """
        10    heard q every 100 until 9000
        10    heard p
        900   heard p
        1800  heard p
        2700  heard p
        4150  heard p
        5650  heard p
        9000  quiet
        """,
        ["10 p up", "10 q up", "7250 p down"],
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    script, expected = SCENARIOS[name]
    assert run(script) == expected


def test_without_grace_a_broken_link_is_enough() -> None:
    script = """
        10    heard p every 100 until 810
        815   broken p
        """
    assert run(script, broken_grace_ms=0) == ["10 p up", "815 p down"]


def test_the_margin_fades() -> None:
    detector = Detector(DetectorOptions(**OPTIONS), 0)
    detector.add("p", 0)
    for now in range(0, 60_001, 50):
        if now % 100 == 0 and not 1_000 < now < 1_400:
            detector.heard("p", now)
        detector.tick(now)
        if now == 1_500:
            assert detector.margin_ms("p") == 400
    assert [change.up for change in detector.take_changes()] == [True]
    assert detector.margin_ms("p") == 400 >> 5


def test_what_comes_in_after_our_own_stop_teaches_nothing() -> None:
    """Sockets may be read before the clock ticks."""
    detector = Detector(DetectorOptions(**OPTIONS), 0)
    detector.add("p", 0)
    detector.heard("p", 10)
    detector.tick(50)
    detector.heard("p", 8_000)
    detector.tick(8_001)
    assert detector.margin_ms("p") == 0 and not detector.suspected("p")


@pytest.mark.parametrize("jump_ms", [-5_000, 5_000])
def test_a_jump_of_the_clock(jump_ms: int) -> None:
    detector = Detector(DetectorOptions(**OPTIONS), 10_000)
    for peer in ("p", "q"):
        detector.add(peer, 10_000)
        detector.heard(peer, 10_010)
    detector.tick(10_050)
    detector.take_changes()
    now = 10_050 + jump_ms
    for _ in range(18):
        now += TICK_MS
        detector.tick(now)
    assert detector.take_changes() == [] and not detector.suspected("p")
    for _ in range(6):
        now += TICK_MS
        detector.tick(now)
    assert detector.suspected("p") and detector.suspected("q"), "they are silent indeed"


def test_pings_go_to_those_that_get_nothing_else() -> None:
    detector = Detector(DetectorOptions(**OPTIONS), 0)
    detector.add("busy", 0)
    detector.add("idle", 0)
    pings: list[tuple[int, str, int]] = []
    for now in range(0, 500, TICK_MS):
        detector.sent("busy", now)
        pings += [(now, p, int.from_bytes(n, "little")) for p, n in detector.tick(now)]
    assert pings == [(now, "idle", now // 100 + 1) for now in range(0, 500, 100)]


def test_a_suspected_peer_is_still_pinged() -> None:
    """Both sides may have suspected each other: somebody has to speak first."""
    detector = Detector(DetectorOptions(**OPTIONS), 0)
    detector.add("p", 0)
    for now in range(0, 2_000, TICK_MS):
        pings = detector.tick(now)
    assert detector.suspected("p")
    assert pings == [] and detector.tick(2_000)[0][0] == "p"


def test_peers_that_are_not_watched() -> None:
    detector = Detector(DetectorOptions(), 0)
    detector.heard("stranger", 1)
    detector.greeted("stranger", hello(1), 1)
    detector.broken("stranger", 1)
    detector.sent("stranger", 1)
    assert detector.suspected("stranger") and detector.tick(10) == []
    detector.add("p", 10)
    detector.heard("p", 11)
    detector.remove("p")
    assert detector.take_changes() == [] and detector.tick(200) == []


def test_every_change_is_an_edge() -> None:
    """Whatever happens, reports of a peer alternate."""
    import random

    source = random.Random(3)
    detector = Detector(DetectorOptions(**OPTIONS), 0)
    detector.add("p", 0)
    now, boot, up, changes = 0, 1, None, 0
    for _ in range(20_000):
        now += source.choice((1, 20, 50, 50, 50, 400, 3_000, -200))
        action = source.randrange(12)
        if action == 0:
            boot += source.randrange(3) == 0
            detector.greeted("p", hello(boot), now)
        elif action == 1:
            detector.broken("p", now)
        elif action < 4:
            detector.heard("p", now)
        else:
            detector.tick(now)
        for change in detector.take_changes():
            assert change.up is not up
            assert change.up or not change.restarted
            up = change.up
            changes += 1
        assert detector.suspected("p") is (up is False)
    assert changes > 200
