"""The answers that were recorded: of each talk, one answer a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.http import talks_access, talks_figures, talks_operating, talks_topology
from tests.http.talk import Talk

FOLDER = Path(__file__).parent / "answers" / "rabbitmq-4.3"
AREAS = {
    "access": talks_access.TALKS,
    "figures": talks_figures.TALKS,
    "operating": talks_operating.TALKS,
    "topology": talks_topology.TALKS,
}
TALKS: dict[str, Talk] = {talk.name: talk for talks in AREAS.values() for talk in talks}


def read() -> dict[str, list[dict[str, Any]]]:
    """All recorded answers, by talk."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(FOLDER.glob("*.json")):
        found.update(json.loads(path.read_text("utf-8")))
    return found


def write(answers: Mapping[str, list[dict[str, Any]]]) -> None:
    """Replace the files by what is given, but for what is of no talk."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for area, talks in AREAS.items():
        parts = []
        for talk in talks:
            if talk.name in answers:
                lines = ",\n".join(f"  {line(answer)}" for answer in answers[talk.name])
                parts.append(f" {json.dumps(talk.name)}: [\n{lines}]")
        text = "{\n" + ",\n".join(parts) + "\n}\n"
        (FOLDER / f"{area}.json").write_text(text, "utf-8")


def line(answer: Any) -> str:
    """An answer on one line; keys are sorted, for they have no order."""
    return json.dumps(answer, ensure_ascii=False, sort_keys=True)
