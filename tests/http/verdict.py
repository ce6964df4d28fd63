"""Whether Warren's answers are RabbitMQ's, but for what differs on purpose."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.http.deviations import ADDED, DEVIATIONS, LACKING
from tests.http.recorded import line

Answer = dict[str, Any]


def unlike(name: str, stored: list[Answer], said: list[Answer]) -> list[str]:
    """Where two brokers of one kind answered differently."""
    if len(stored) != len(said):
        return [f"{name}: {len(stored)} answers are recorded, {len(said)} were given"]
    return [text(name, was, now) for was, now in zip(stored, said, strict=True) if was != now]


def differences(name: str, stored: list[Answer], said: list[Answer]) -> list[str]:
    """Where Warren answered otherwise than it should."""
    if len(stored) != len(said):
        return [f"{name}: {len(stored)} answers are recorded, {len(said)} were given"]
    found = []
    times: Counter[str] = Counter()
    for was, now in zip(stored, said, strict=True):
        times[was["ask"]] += 1
        place = times[was["ask"]]
        title = was["ask"] if place == 1 else f"{was['ask']} ({place})"
        deviation = DEVIATIONS.get((name, title))
        wanted, given = without(was, LACKING), without(now, ADDED)
        if deviation is not None:
            if wanted == given:
                found.append(f"{name}: {was['ask']}: the deviation is out of date")
                continue
            wanted = {**wanted, **deviation.answer}
        if wanted != given:
            found.append(text(name, wanted, given))
    return found


def without(value: Any, keys: dict[str, str]) -> Any:
    """The same without some keys, wherever they stand."""
    if isinstance(value, dict):
        return {
            key: without(item, keys)
            for key, item in value.items()
            if key not in keys or (key == "memory" and isinstance(item, dict))
        }
    if isinstance(value, list):
        return [without(item, keys) for item in value]
    return value


def text(name: str, wanted: Answer, given: Answer) -> str:
    """What differs between two answers, for a human."""
    parts = [f"--- {name}: {wanted['ask']}"]
    for key in ("ask", "status", "headers", "body"):
        if wanted.get(key) != given.get(key):
            parts.append(f"  wanted {key}: {line(wanted.get(key))[:1500]}")
            parts.append(f"  given  {key}: {line(given.get(key))[:1500]}")
    return "\n".join(parts)
