"""Prints which rules of the acceptance table a passing test proves, and which none does.

    python tools/rules.py [--missing]

A test names its rules with `@pytest.mark.rule("NAME-01", ...)`; each test run leaves its outcomes
in pytest's cache (`tests/conftest.py`). A rule is proven when tests that name it ran and all
passed, in every mode they ran in. A rule that tests name, but none ran, is not proven.

The table is section 1 of `acceptance.md`: `$WARREN_ACCEPTANCE`, or beside the checkout in
`../shared`. The exit status is 1 where a test names a rule that the table does not have, or where
a test that names a rule failed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
OUTCOMES = ROOT / ".pytest_cache" / "v" / "warren" / "rules"
RULE = re.compile(r"(?:- |\| )([A-Z]+-\d+)\b[ |]*(.*)")
TEXT_CHARS_MAX = 76


class Rule(NamedTuple):
    """One line of the acceptance table."""

    id: str
    section: str
    text: str


def read_rules(path: Path) -> list[Rule]:
    """The rules of section 1, in their order."""
    rules = []
    section, inside = "", False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            inside = line.startswith("## 1.")
        elif line.startswith("### "):
            section = line.removeprefix("### ")
        elif inside and (match := RULE.match(line)):
            text = match[2]
            if len(text) > TEXT_CHARS_MAX:
                text = text[: TEXT_CHARS_MAX - 1] + "…"
            rules.append(Rule(match[1], section, text))
    return rules


def named_rules(tests: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a rule and the file that names it, for each `mark.rule(...)` in the tests."""
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.rule"):
                for word in node.args:
                    if isinstance(word, ast.Constant):
                        yield str(word.value), str(path.relative_to(ROOT))


def read_outcomes() -> dict[str, set[str]]:
    """For each rule, how the tests that name it ended: passed, failed, skipped."""
    ended: dict[str, set[str]] = {}
    if OUTCOMES.exists():
        for outcome in json.loads(OUTCOMES.read_text()).values():
            for rule in outcome["rules"]:
                ended.setdefault(rule, set()).add(outcome["outcome"])
    return ended


def verdict(ended: set[str], named: bool) -> str:
    """One word for a rule."""
    if "failed" in ended:
        return "FAILED"
    if "passed" in ended:
        return "passed"
    return "not run" if named else "-"


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="only rules without a passing test")
    words = parser.parse_args()
    path = Path(os.environ.get("WARREN_ACCEPTANCE") or ROOT / ".." / "shared" / "acceptance.md")
    if not path.exists():
        print(f"rules: no table at {path}; WARREN_ACCEPTANCE names it", file=sys.stderr)
        return 1
    rules = read_rules(path)
    ended = read_outcomes()
    named: dict[str, list[str]] = {}
    for rule_id, test in named_rules(ROOT / "tests"):
        named.setdefault(rule_id, []).append(test)
    section, count = "", {"passed": 0, "FAILED": 0, "not run": 0, "-": 0}
    for rule in rules:
        word = verdict(ended.get(rule.id, set()), rule.id in named)
        count[word] += 1
        if words.missing and word == "passed":
            continue
        if rule.section != section:
            section = rule.section
            print(f"\n{section}")
        print(f"  {word:<8}{rule.id:<9}{rule.text}")
    unknown = sorted(set(named) - {rule.id for rule in rules})
    for rule_id in unknown:
        print(f"\nno such rule: {rule_id}, named in {', '.join(sorted(set(named[rule_id])))}")
    print(
        f"\n{len(rules)} rules: {count['passed']} with a passing test, {count['FAILED']} failed, "
        f"{count['not run']} named by tests that did not run, {count['-']} without a test"
    )
    return 1 if unknown or count["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
