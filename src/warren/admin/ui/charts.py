"""Charts: samples of figures as lines, with axes that have round numbers and units."""

from __future__ import annotations

import json
import math
import time
from typing import Any, Final, NamedTuple

from warren.admin.http.ranges import SETTLED_SECONDS
from warren.admin.ui import figures

WIDTH: Final = 600
HEIGHT: Final = 160
"""Of the drawing in its own units; it is stretched to the room there is."""
RANGES: Final = {
    "1m": (60, 5, "1 minute"),
    "10m": (600, 5, "10 minutes"),
    "1h": (3_600, 30, "1 hour"),
    "8h": (28_800, 240, "8 hours"),
    "24h": (86_400, 720, "24 hours"),
}
"""How far back a chart goes, and how far apart its samples are, in seconds."""
DEFAULT_RANGE: Final = "10m"
UNITS: Final = {
    "messages": figures.count,
    "rate": figures.rate,
    "bytes": figures.size,
    "byte rate": figures.size_rate,
}
IN_BYTES: Final = ("bytes", "byte rate")
DAY_FROM_SECONDS: Final = 28_800
"""From this age on times have their day."""
SPARK_SECONDS, SPARK_STEP = 600, 30
SPARK_WIDTH, SPARK_HEIGHT = 80, 20


class ChartLine(NamedTuple):
    """One line of a chart.

    Attributes:
        name: What it shows.
        values: From the oldest on.
        colour: The number of its colour, which a figure has on all pages.
    """

    name: str
    values: list[float]
    colour: int = 1


class DrawnLine(NamedTuple):
    """A line as it is drawn, with its newest value in words."""

    name: str
    path: str
    now: str
    colour: int


class Asking(NamedTuple):
    """How far back samples are wanted.

    Attributes:
        name: As the path's query has it.
        age, step: In seconds.
        since: Of what time the oldest samples are that there can be, in seconds since 1970: those
            that the API has of times before say nothing.
    """

    name: str
    age: int
    step: int
    since: float

    @property
    def query(self) -> dict[str, str]:
        """What a request of the API says for it."""
        kinds = ("lengths", "msg_rates", "data_rates", "node_stats")
        return {f"{kind}_age": str(self.age) for kind in kinds} | {
            f"{kind}_incr": str(self.step) for kind in kinds
        }


class Chart:
    """A chart as templates draw it.

    Attributes:
        title: What it shows.
        lines: Its lines.
        levels: What stands at the vertical axis, from the top down.
        times: What stands at the horizontal axis.
        data: All of it as JSON, for who points at a moment.
    """

    def __init__(self, title: str, unit: str, wanted: Asking, lines: list[ChartLine]) -> None:
        seconds = wanted.age
        slots = wanted.age // wanted.step
        self.title = title
        self.has_samples = any(len(line.values) > 1 for line in lines)
        words = UNITS[unit]
        top = ceiling(max((max(line.values, default=0) for line in lines), default=0), unit)
        self.levels = [words(top), words(top / 2), words(0)]
        last = (time.time() - SETTLED_SECONDS) // wanted.step * wanted.step
        with_day = seconds >= DAY_FROM_SECONDS
        moments = (last - seconds, last - seconds / 2, last)
        self.times = [figures.clock(moment, with_day) for moment in moments]
        self.width, self.height = WIDTH, HEIGHT
        self.lines = [
            DrawnLine(
                line.name, _path(line.values, top, slots), words(line.values[-1]), line.colour
            )
            for line in lines
            if line.values
        ]
        self.unit = unit
        shown = {line.name: [round(value, 2) for value in line.values] for line in lines}
        self.data = json.dumps(
            {"seconds": seconds, "unit": unit, "slots": slots, "last": last, "lines": shown}
        )
        newest = ", ".join(f"{line.name} {line.now}" for line in self.lines)
        self.label = f"{title} of the last {figures.duration(seconds)}; now: {newest}"


def _path(
    values: list[float], top: float, slots: int, width: int = WIDTH, height: int = HEIGHT
) -> str:
    """A line that ends at the right; of fewer values than there are slots, it begins later."""
    if len(values) < 2:
        return ""
    step = width / slots
    last = len(values) - 1
    points = [
        f"{max(width - (last - place) * step, 0):.1f},"
        f"{height - min(max(value, 0) / top, 1) * height:.1f}"
        for place, value in enumerate(values)
    ]
    return "M" + " ".join(points)


def ceiling(value: float, unit: str) -> float:
    """The round number that an axis ends with."""
    if value <= 0:
        return 1_024.0 if unit in IN_BYTES else 10.0
    base = 1_024.0 if unit in IN_BYTES else 1.0
    while unit in IN_BYTES and value / base >= 1_024:
        base *= 1_024
    scaled = value / base
    power = 10 ** math.floor(math.log10(scaled))
    for factor in (1, 2, 3, 4, 5, 6, 8, 10):
        if scaled <= factor * power:
            least = 1.0 if unit == "rate" else 4.0
            return float(max(factor * power * base, least))
    raise AssertionError(value)


def asking(query: dict[str, str], since: float) -> Asking:
    """What range a page is asked for.

    Args:
        since: Of what time the oldest samples are, in seconds since 1970.
    """
    name = query.get("range", "")
    if name not in RANGES:
        name = DEFAULT_RANGE
    age, step, _ = RANGES[name]
    return Asking(name, age, step, since)


def sampled(found: dict[str, Any], key: str, since: float) -> list[float]:
    """The samples of one figure that an answer of the API has, oldest first.

    Args:
        since: Those of times before are left out.
    """
    samples = found.get(f"{key}_details", {}).get("samples", [])
    return [
        float(sample["sample"])
        for sample in reversed(samples)
        if sample["timestamp"] >= since * 1_000
    ]


def grown(found: dict[str, Any], keys: tuple[str, ...], wanted: Asking) -> list[float]:
    """How fast some counters grew together from sample to sample, a second."""
    columns = [column for key in keys if (column := sampled(found, key, wanted.since))]
    totals = [sum(row) for row in zip(*columns, strict=False)]
    return [max(new - old, 0) / wanted.step for old, new in zip(totals, totals[1:], strict=False)]


LENGTH_LINES: Final = (
    ("Ready", "messages_ready"),
    ("Unacked", "messages_unacknowledged"),
    ("Total", "messages"),
)
RATE_LINES: Final = (
    ("Publish", ("publish",)),
    ("Confirm", ("confirm",)),
    ("Deliver", ("deliver", "deliver_no_ack")),
    ("Acknowledge", ("ack",)),
    ("Get", ("get", "get_no_ack")),
    ("Redelivered", ("redeliver",)),
    ("Returned", ("return_unroutable",)),
    ("Dropped", ("drop_unroutable",)),
)
CHURN_LINES: Final = (
    ("Connections opened", "connection_created"),
    ("Connections closed", "connection_closed"),
    ("Channels opened", "channel_created"),
    ("Channels closed", "channel_closed"),
    ("Queues created", "queue_created"),
    ("Queues deleted", "queue_deleted"),
)


def lengths_chart(found: dict[str, Any], wanted: Asking) -> Chart:
    """How many messages there were."""
    lines = [
        ChartLine(name, sampled(found, key, wanted.since), place)
        for place, (name, key) in enumerate(LENGTH_LINES, 1)
    ]
    return Chart("Queued messages", "messages", wanted, lines)


def rates_chart(found: dict[str, Any], wanted: Asking) -> Chart:
    """How many messages went through."""
    lines = [
        ChartLine(name, grown(found, keys, wanted), place)
        for place, (name, keys) in enumerate(RATE_LINES, 1)
    ]
    return Chart("Message rates", "rate", wanted, [line for line in lines if line.values])


def churn_chart(found: dict[str, Any], wanted: Asking) -> Chart:
    """How many connections, channels and queues came and went."""
    lines = [
        ChartLine(name, grown(found, (key,), wanted), place)
        for place, (name, key) in enumerate(CHURN_LINES, 1)
    ]
    return Chart("Comings and goings", "rate", wanted, lines)


def exchange_chart(found: dict[str, Any], wanted: Asking) -> Chart:
    """How many messages went through an exchange."""
    lines = [
        ChartLine(name, grown(found, (key,), wanted), place)
        for place, name, key in (
            (1, "Published in", "publish_in"),
            (2, "Published out", "publish_out"),
        )
    ]
    return Chart("Message rates", "rate", wanted, lines)


def octets_chart(found: dict[str, Any], wanted: Asking) -> Chart:
    """How many bytes came of a client, and went to it."""
    lines = [
        ChartLine(name, grown(found, (key,), wanted), place)
        for place, name, key in ((1, "From client", "recv_oct"), (2, "To client", "send_oct"))
    ]
    return Chart("Data rates", "byte rate", wanted, lines)


def node_charts(found: dict[str, Any], wanted: Asking) -> list[Chart]:
    """How a node's process was doing."""
    return [
        Chart(title, unit, wanted, [ChartLine(line, sampled(found, key, wanted.since))])
        for title, unit, line, key in (
            ("Memory", "bytes", "In use", "mem_used"),
            ("Disk", "bytes", "Free", "disk_free"),
            ("File descriptors", "messages", "Open", "fd_used"),
            ("Sockets", "messages", "Open", "sockets_used"),
        )
    ]


class Spark(NamedTuple):
    """A small line in a row of a list.

    Attributes:
        path: It; empty while there are not two samples.
        label: What it shows, in words.
    """

    path: str
    label: str


def spark_query(kind: str) -> dict[str, str]:
    """What a request of the API says of the samples of small lines."""
    return {f"{kind}_age": str(SPARK_SECONDS), f"{kind}_incr": str(SPARK_STEP)}


def spark(values: list[float], unit: str, what: str) -> Spark:
    """The small line of some samples, as high as the highest of them."""
    words = UNITS[unit]
    if len(values) < 2:
        return Spark("", f"{what}: not known yet")
    top = max(*values, 1.0)
    slots = SPARK_SECONDS // SPARK_STEP
    label = f"{what} of the last 10 minutes: {words(min(values))} to {words(max(values))}"
    return Spark(_path(values, top, slots, SPARK_WIDTH, SPARK_HEIGHT), label)


def spark_of(row: dict[str, Any], key: str, since: float) -> Spark:
    """The small line of how many messages a queue had."""
    return spark(sampled(row, key, since), "messages", "Messages")


def rate_spark(found: dict[str, Any], keys: tuple[str, ...], unit: str, since: float) -> Spark:
    """The small line of how fast some counters grew together."""
    wanted = Asking("", SPARK_SECONDS, SPARK_STEP, since)
    what = "Bytes a second" if unit == "byte rate" else "Messages a second"
    return spark(grown(found, keys, wanted), unit, what)
