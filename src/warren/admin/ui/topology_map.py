"""Draws the exchanges, bindings and queues of a vhost: sources to the left, queues to the right."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from warren.admin.ui.names import path

BOX_WIDTH: Final = 240
BOX_HEIGHT: Final = 40
COLUMN: Final = 440
BEND: Final = 60
ROW: Final = 56
MARGIN: Final = 16
LABEL_CHARACTERS: Final = 26
"""Of a box; what stands at an arrow has fewer."""
ARROW_CHARACTERS: Final = 22
EDGES_MAX: Final = 1_000
DEPTH_MAX: Final = 8

Node = tuple[str, str]
"""Its kind, `exchange` or `queue`, and its name."""


class Box(NamedTuple):
    """An exchange or a queue as it is drawn."""

    kind: str
    name: str
    label: str
    detail: str
    link: str
    x: int
    y: int


class Arrow(NamedTuple):
    """One or more bindings between the same two, or the way of dead letters and alternates."""

    path: str
    label: str
    title: str
    kind: str
    x: int
    y: int


class Map(NamedTuple):
    """The drawing.

    Attributes:
        left_out: Queues and bindings that there was no room for.
        box_width: Of each box.
    """

    boxes: list[Box]
    arrows: list[Arrow]
    width: int
    height: int
    left_out: int
    box_width: int = BOX_WIDTH


def draw(
    vhost: str,
    exchanges: list[dict[str, Any]],
    bindings: list[dict[str, Any]],
    queues: list[dict[str, Any]],
    queues_total: int,
    defaults: bool,
    wanted: str,
) -> Map:
    """Draw a vhost.

    Args:
        defaults: Whether exchanges are shown that are always there, also with no bindings.
        wanted: Only what has this in its name, and what is tied to it.
    """
    rows = {("queue", row["name"]): row for row in queues}
    rows |= {("exchange", row["name"]): row for row in exchanges if row["name"]}
    edges = _edges(rows, bindings)
    tied = {node for edge in edges for node in edge[:2]}
    shown = [
        node
        for node, row in rows.items()
        if node in tied or node[0] == "queue" or defaults or not node[1].startswith("amq.")
    ]
    if wanted:
        near = {node for node in shown if wanted.lower() in node[1].lower()}
        near |= {node for edge in edges for node in edge[:2] if near & set(edge[:2])}
        shown = [node for node in shown if node in near]
    depths = _depths(shown, edges)
    places: dict[Node, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node in sorted(shown, key=lambda each: (depths[each], each[1])):
        column = depths[node]
        row = filled[column] = filled.get(column, -1) + 1
        places[node] = (MARGIN + column * COLUMN, MARGIN + row * ROW)
    boxes = [_box(vhost, node, rows[node], *places[node]) for node in shown]
    drawn = [edge for edge in edges if edge[0] in places and edge[1] in places]
    arrows = _labelled([_arrow(edge, places) for edge in drawn[:EDGES_MAX]])
    width = MARGIN * 2 + BOX_WIDTH + BEND + max(depths.values(), default=0) * COLUMN
    height = MARGIN * 2 + max(filled.values(), default=0) * ROW + BOX_HEIGHT
    left_out = max(queues_total - len(queues), 0) + max(len(drawn) - EDGES_MAX, 0)
    return Map(boxes, arrows, width, height, left_out)


def _labelled(arrows: list[Arrow]) -> list[Arrow]:
    """Arrows of which one alone has a label at each place: it counts those of all."""
    there = Counter((arrow.x, arrow.y) for arrow in arrows)
    told: set[tuple[int, int]] = set()
    shown: list[Arrow] = []
    for arrow in arrows:
        place = arrow.x, arrow.y
        label = arrow.label if there[place] == 1 else f"{there[place]} arrows"
        shown.append(arrow._replace(label="" if place in told else label))
        told.add(place)
    return shown


Edge = tuple[Node, Node, str, str, str]
"""From, to, what stands at it, what it says in full, and what kind of arrow it is."""


def _edges(rows: dict[Node, dict[str, Any]], bindings: list[dict[str, Any]]) -> list[Edge]:
    keys: dict[tuple[Node, Node], list[str]] = {}
    for row in bindings:
        pair = ("exchange", row["source"]), (row["destination_type"], row["destination"])
        if pair[0] in rows and pair[1] in rows:
            key = row["routing_key"] or ("arguments" if row["arguments"] else "(no key)")
            keys.setdefault(pair, []).append(key)
    edges: list[Edge] = []
    for (source, target), found in keys.items():
        label = short(found[0], ARROW_CHARACTERS) if len(found) == 1 else f"{len(found)} bindings"
        edges.append((source, target, label, ", ".join(found[:20]), "binding"))
    for node, row in rows.items():
        said = {**row.get("effective_policy_definition", {}), **row["arguments"]}
        for names, title, kind in (
            (("x-dead-letter-exchange", "dead-letter-exchange"), "dead letters", "dead"),
            (("alternate-exchange",), "unroutable", "dead"),
        ):
            target_name = next((said[name] for name in names if name in said), None)
            target = ("exchange", str(target_name))
            if target_name and target in rows and (node[0] == "queue") == (title[0] == "d"):
                edges.append((node, target, title, title, kind))
    return edges


def _depths(nodes: list[Node], edges: list[Edge]) -> dict[Node, int]:
    """The column of each: behind all that lead to it, and queues behind all exchanges."""
    depths = dict.fromkeys(nodes, 0)
    for _ in range(DEPTH_MAX):
        changed = False
        for source, target, _, _, kind in edges:
            if kind != "binding" or source not in depths or target not in depths:
                continue
            depth = min(depths[source] + 1, DEPTH_MAX)
            if target[0] == "exchange" and source != target and depths[target] < depth:
                depths[target] = depth
                changed = True
        if not changed:
            break
    last = max((depth for node, depth in depths.items() if node[0] == "exchange"), default=-1)
    return {node: depth if node[0] == "exchange" else last + 1 for node, depth in depths.items()}


def short(name: str, most: int = LABEL_CHARACTERS) -> str:
    """A name, cut in its middle where there is no room for all of it: names begin alike."""
    if len(name) <= most:
        return name
    end = most // 2 - 1
    return name[: most - 1 - end] + "…" + name[-end:]


def _box(vhost: str, node: Node, row: dict[str, Any], x: int, y: int) -> Box:
    kind, name = node
    first = "queues" if kind == "queue" else "exchanges"
    detail = str(row["type"])
    if kind == "queue" and row.get("messages") is not None:
        detail = f"{detail}, {row['messages']:,} messages"
    return Box(kind, name, short(name), detail, path(first, vhost, name), x, y)


def _arrow(edge: Edge, places: dict[Node, tuple[int, int]]) -> Arrow:
    source, target, label, title, kind = edge
    (x1, y1), (x2, y2) = places[source], places[target]
    y1 += BOX_HEIGHT // 2
    y2 += BOX_HEIGHT // 2
    if x2 > x1:
        x1 += BOX_WIDTH
        reach = (x2 - x1) // 2
        curve = f"M{x1},{y1} C{x1 + reach},{y1} {x2 - reach},{y2} {x2 - 4},{y2}"
        at = x2 - 90, y2
    elif x2 < x1:
        # Back to the left, a bit below the way to the right.
        x2 += BOX_WIDTH
        y1, y2 = y1 + 10, y2 + 10
        reach = (x1 - x2) // 2
        curve = f"M{x1},{y1} C{x1 - reach},{y1} {x2 + reach},{y2} {x2 + 4},{y2}"
        at = x1 - 50, y1 + 10
    else:
        # In the same column, or to itself: round the right side of both.
        x1 += BOX_WIDTH
        x2 += BOX_WIDTH
        bend = x1 + BEND
        curve = f"M{x1},{y1 + 8} C{bend},{y1 + 8} {bend},{y2 - 8} {x2 + 4},{y2 - 8}"
        at = bend - 20, (y1 + y2) // 2
    return Arrow(curve, label, title, kind, *at)
