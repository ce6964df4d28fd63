"""Pieces of the pages without a broker: sessions, names, typed values, figures, charts, a map."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.patience import patient
from warren.admin.service.caller import Caller
from warren.admin.service.moving import Choice, Destination
from warren.admin.ui import figures, known, sessions
from warren.admin.ui.charts import (
    RATE_LINES,
    Asking,
    Chart,
    ChartLine,
    ceiling,
    grown,
    rates_chart,
    sampled,
)
from warren.admin.ui.collected import CHARTS_MAX, Collected
from warren.admin.ui.drawing import Drawing
from warren.admin.ui.forms import FIELDS_MAX, SentForm, TypedRow, read_form, typed_row, typed_value
from warren.admin.ui.moves import Move, Moves
from warren.admin.ui.names import breakable, packed, unpacked
from warren.admin.ui.pages.messages import one_move, stop_move
from warren.admin.ui.topology_map import draw
from warren.admin.ui.wrong import Wrong
from warren.metadata.grants import NEVER, Grants
from warren.metadata.policy_keys import KEYS

ODD = ("", ".", "..", "~", "~~a", "a/b", "\udcff", "é\n\x00", "%2F")


def service(*users: str) -> Any:
    records = {
        name: SimpleNamespace(name=name, password_hash=b"1", former_hash=b"", tags=["management"])
        for name in users
    }
    node = SimpleNamespace(monotonic_ms=lambda: 1_000)
    return SimpleNamespace(machine=SimpleNamespace(users=records), node=node)


def user(name: str) -> Caller:
    return Caller(name, frozenset({"management"}))


def test_templates_are_read_once_and_not_on_the_event_loop() -> None:
    drawing = Drawing()
    threads: list[int] = []
    read = drawing._environment.loader.get_source

    def noted(environment: Any, name: str) -> Any:
        threads.append(threading.get_ident())
        return read(environment, name)

    drawing._environment.loader.get_source = noted
    values = {"error": "", "user": "", "to": "/", "cluster": "c", "static_version": "1"}

    async def both() -> list[bytes]:
        return await asyncio.gather(*(drawing.draw("login.html", values) for _ in range(2)))

    pages = asyncio.run(both())
    assert pages[0] == pages[1] and b"<form" in pages[0]
    assert len(threads) == len(drawing._environment.list_templates())
    assert threading.get_ident() not in threads


class NotedMove(Move):
    """A move that is under way, and says whether it was stopped."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    ("name", "tag", "seen", "stops"),
    [
        ("owner", "management", True, True),
        ("other", "administrator", True, True),
        ("other", "monitoring", True, False),
        ("other", "management", False, False),
    ],
)
def test_a_move_is_stopped_by_its_user_or_an_administrator(
    name: str, tag: str, seen: bool, stops: bool
) -> None:
    """Those who monitor see it, without a button to stop it."""
    to = Destination(way="queue", name="d")
    move = NotedMove(1, "owner", "/", "q", to, Choice(), 1, 0.0, False)
    moves = Moves()
    moves._moves[1] = move
    asked: Any = Asked(Caller(name, frozenset({tag})), moves)
    if seen:
        assert asyncio.run(one_move(asked)).values["may_stop"] is stops
    if stops:
        asyncio.run(stop_move(asked))
    else:
        with pytest.raises(Wrong) as wrong:
            asyncio.run(stop_move(asked))
        assert wrong.value.status == (403 if seen else 404)
    assert move.stopped is stops


class Asked(dict[str, str]):
    """A request of the page of the first move."""

    def __init__(self, caller: Caller, moves: Moves) -> None:
        super().__init__(number="1")
        self.caller, self.moves, self.path = caller, moves, "/moves/1"


def sent(body: bytes, boundary: str = "x") -> list[tuple[str, str]]:
    kind = f"multipart/form-data; boundary={boundary}"
    return asyncio.run(read_form(body, kind)).fields


def part(name: str, content: bytes, further: str = "") -> bytes:
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"{further}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def test_a_form_with_a_file_is_what_a_browser_sent() -> None:
    file = '; filename="a; name=b"\r\nContent-Type: application/json'
    text = "\r\n{}\n--x é\r\n".encode()
    body = part("do", b"import") + part("file", text, file) + part("text", b"") + b"--x--\r\n"
    fields = [("do", "import"), ("file", text.decode()), ("text", "")]
    assert sent(body) == sent(body, '"x"') == fields
    with pytest.raises(Wrong, match="broken"):
        sent(body, "")
    with pytest.raises(Wrong, match="too many"):
        sent(part("a", b"") * (FIELDS_MAX + 1))
    assert len(sent(part("a", b"") * FIELDS_MAX)) == FIELDS_MAX


def test_parts_of_parts_and_newlines_cost_no_time() -> None:
    """A form of 20 MB once took 13 s, and one of 1 MB behind 200 nested parts 33 s."""
    nested = "".join(
        f"--{at or 'x'}\r\nContent-Type: multipart/mixed; boundary={at + 1}\r\n\r\n"
        for at in range(200)
    )
    bodies = [b"\n" * 20_000_000, b"\r\n" * 10_000_000, b"\r\n-" * 5_000_000]
    bodies += [nested.encode() + b"\n" * 1_000_000, part("a", b"\r\n--" * 1_000_000)]
    began = time.process_time()
    for body in bodies:
        sent(body)
    assert time.process_time() - began < patient(2.0)


def test_names_come_back_as_they_were() -> None:
    for name in ODD:
        assert unpacked(packed(name)) == name
        assert packed(name) not in ("", ".", "..") and "/" not in packed(name)


def test_names_break_between_their_words() -> None:
    """What is marked up in a name stays text."""
    assert breakable("a.long_name-of/x") == "a.<wbr>long_<wbr>name-<wbr>of/<wbr>x"
    assert breakable("a..<b>") == "a..<wbr>&lt;b&gt;"
    assert breakable("") == "" and breakable("aaa") == "aaa"


def test_a_figure_has_one_colour_on_all_charts() -> None:
    wanted = Asking("10m", 600, 5, 0.0)
    samples = {"samples": [{"sample": 9, "timestamp": 2}, {"sample": 4, "timestamp": 1}]}
    every = {f"{key}_details": samples for _, keys in RATE_LINES for key in keys}
    colours = {line.name: line.colour for line in rates_chart(every, wanted).lines}
    assert len(set(colours.values())) == len(RATE_LINES) and "Dropped" in colours
    few = rates_chart({"ack_details": samples, "redeliver_details": samples}, wanted)
    assert {line.name: line.colour for line in few.lines} == {
        name: colours[name] for name in ("Acknowledge", "Redelivered")
    }


def test_sessions_are_bounded_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 4)
    monkeypatch.setattr(sessions, "SESSIONS_OF_USER_MAX", 2)
    now = [0.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now[0])
    here, all_of = service("a", "b", "c", "d"), sessions.Sessions()
    first, second = all_of.begin(here, user("a")), all_of.begin(here, user("a"))
    assert all_of.find(first.token) is first
    # One of the user's own goes, the one that was used longest ago.
    third = all_of.begin(here, user("a"))
    assert all_of.find(second.token) is None
    others = [all_of.begin(here, user(name)) for name in "bcd"]
    assert len(all_of) == 4 and all_of.find(first.token) is None
    now[0] = sessions.IDLE_SECONDS
    assert all_of.find(third.token) is third
    now[0] += 1
    assert all_of.find(others[0].token) is None
    while now[0] < sessions.LIFE_SECONDS:
        assert all_of.find(third.token) is third
        now[0] += 60
    now[0] = sessions.LIFE_SECONDS + 1
    assert all_of.find(third.token) is None
    assert all_of.find("") is None


def test_a_session_is_of_a_user_as_they_were() -> None:
    here, all_of = service("a"), sessions.Sessions()
    session = all_of.begin(here, user("a"))
    assert session.caller(here) == user("a")
    here.machine.users["a"].password_hash = b"2"
    assert session.caller(here) is None
    assert session.caller(service()) is None
    assert session.made_form(session.form_token) and not session.made_form("é")


def test_a_session_by_token_is_of_its_bearer_and_not_of_a_user_of_that_name() -> None:
    """The tables have an administrator of the name that the token has, too."""
    here, all_of = service("a"), sessions.Sessions()
    here.machine.users["a"].tags = ["administrator"]
    grants = Grants("a", ["management"], [], 1_001)
    session = all_of.begin(here, Caller("a", frozenset(grants.tags), grants))
    found = session.caller(here)
    assert found is not None and found.tags == {"management"} and found.grants is grants
    here.node.monotonic_ms = lambda: 1_001
    assert session.caller(here) is None
    lasting = Grants("nobody", ["management"], [], NEVER)
    session = all_of.begin(here, Caller("nobody", frozenset(lasting.tags), lasting))
    assert session.caller(here) is not None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("number", "x"),
        ("number", "inf"),
        ("number", "9" * 30),
        ("boolean", "yes"),
        ("list", "[1"),
        ("list", "[" * 5_000),
    ],
)
def test_values_that_are_not_of_their_type_are_told(kind: str, text: str) -> None:
    with pytest.raises(Wrong, match="key"):
        typed_value(TypedRow("key", kind, text))


def test_typed_rows_say_what_they_were_made_of() -> None:
    for value in ("a", 5, 1.5, True, ["a", 1]):
        assert typed_value(typed_row("key", value)) == value


def test_rows_without_key_or_twice_are_told() -> None:
    fields = [("arg-key", ""), ("arg-type", "string"), ("arg-value", "v")]
    with pytest.raises(Wrong, match="no key"):
        SentForm(fields).table()
    fields = [("arg-key", "k"), ("arg-type", "string"), ("arg-value", "v")]
    assert SentForm(fields).table() == {"k": "v"}
    with pytest.raises(Wrong, match="twice"):
        SentForm(fields * 2).table()


def test_keys_that_policies_offer_are_those_that_there_are() -> None:
    keys = {key.name: key for key in KEYS}
    offered = known.by_name(known.POLICY_GROUPS)
    assert offered.keys() <= keys.keys()
    assert set(known.OPERATOR_KEYS) == {name for name in offered if keys[name].operator}


def test_figures_have_units() -> None:
    assert figures.count(1234567) == "1,234,567"
    assert (figures.rate(0), figures.rate(0.25), figures.rate(1234.5)) == (
        "0/s",
        "0.2/s",
        "1,234/s",
    )
    assert (figures.size(10), figures.size(1536), figures.size(3 << 30)) == (
        "10 B",
        "1.5 KiB",
        "3.0 GiB",
    )
    assert (figures.duration(0), figures.duration(3_700), figures.duration(90_000)) == (
        "0 s",
        "1 h 1 min",
        "1 d 1 h",
    )
    assert figures.moment(0) == "1970-01-01 00:00:00 UTC"
    assert figures.moment(1 << 70) == figures.count(None) == figures.NOT_KNOWN


def test_charts_have_round_axes_and_end_now() -> None:
    assert (ceiling(0, "messages"), ceiling(205_000, "messages")) == (10, 300_000)
    assert ceiling(3 << 20, "bytes") == 3 << 20
    wanted = Asking("1m", 60, 5, 0.0)
    chart = Chart("T", "messages", wanted, [ChartLine("A", [0, 5, 10]), ChartLine("B", [])])
    assert chart.levels == ["10", "5", "0"]
    assert chart.lines[0].path == "M500.0,160.0 550.0,80.0 600.0,0.0"
    samples = [
        {"sample": sample, "timestamp": moment * 1_000}
        for sample, moment in ((25, 1_010), (15, 1_005), (20, 1_000))
    ]
    found = {"publish_details": {"samples": samples}}
    assert grown(found, ("publish", "none"), wanted) == [0, 2]
    # What is told of the time before a node there was is left out.
    assert sampled(found, "publish", 1_004.9) == [15, 25]
    assert grown(found, ("publish",), wanted._replace(since=1_001.0)) == [2]
    assert grown(found, ("publish",), wanted._replace(since=1_006.0)) == []


def test_charts_have_times_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 86_400.0 * 365 + 3 * 3_600 + 62)
    line = [ChartLine("A", [1, 2])]
    chart = Chart("T", "byte rate", Asking("10m", 600, 5, 0.0), line)
    assert chart.times == ["02:51 UTC", "02:56 UTC", "03:01 UTC"]
    assert chart.lines[0].now == "2 B/s"
    chart = Chart("T", "messages", Asking("24h", 86_400, 720, 0.0), line)
    assert chart.times == ["31 Dec 03:00 UTC", "31 Dec 15:00 UTC", "01 Jan 03:00 UTC"]


def test_samples_of_a_session_are_bounded() -> None:
    collected = Collected()
    for chart in range(3 * CHARTS_MAX):
        collected.add(str(chart), {"a": 1})
    assert len(collected) == CHARTS_MAX


def test_names_on_the_map_keep_their_ends_and_labels_do_not_lie_on_each_other() -> None:
    exchanges = [{"name": name, "type": "topic", "arguments": {}} for name in ("one", "two")]
    name = "a-name-that-is-much-too-long-for-a-box.dead"
    queues = [{"name": name, "type": "classic", "arguments": {}}]
    bindings = [
        {
            "source": each,
            "destination": name,
            "destination_type": "queue",
            "routing_key": "k",
            "arguments": {},
        }
        for each in ("one", "two")
    ]
    drawn = draw("/", exchanges, bindings, queues, 1, False, "")
    label = next(box.label for box in drawn.boxes if box.kind == "queue")
    assert label.startswith("a-name") and label.endswith(".dead") and len(label) <= 26
    labels = [arrow.label for arrow in drawn.arrows if arrow.label]
    assert labels == ["2 arrows"]


def test_the_map_leads_from_left_to_right() -> None:
    exchange = {"type": "topic", "arguments": {}}
    exchanges = [{"name": name, **exchange} for name in ("", "one", "two", "amq.topic")]
    queues = [
        {
            "name": "q",
            "type": "quorum",
            "messages": 1,
            "arguments": {"x-dead-letter-exchange": "one"},
        }
    ]
    bound = {"routing_key": "k", "arguments": {}}
    bindings = [
        {"source": "one", "destination": "two", "destination_type": "exchange", **bound},
        {"source": "two", "destination": "one", "destination_type": "exchange", **bound},
        {"source": "two", "destination": "q", "destination_type": "queue", **bound},
    ]
    drawn = draw("/", exchanges, bindings, queues, 3, False, "")
    assert {box.name for box in drawn.boxes} == {"one", "two", "q"}
    places = {box.name: box.x for box in drawn.boxes}
    assert places["q"] > max(places["one"], places["two"])
    assert [arrow.kind for arrow in drawn.arrows] == ["binding"] * 3 + ["dead"]
    assert drawn.left_out == 2
    assert {box.name for box in draw("/", exchanges, bindings, queues, 1, False, "q").boxes} == {
        "q",
        "two",
        "one",
    }
