"""Prints which rules of the acceptance table a passing test proves, and which none does.

    python tools/rules.py [--missing] [--write]

A test names its rules with `@pytest.mark.rule("NAME-01", ...)`; each test run leaves its outcomes
in pytest's cache (`tests/conftest.py`). A rule is proven when all tests that name it passed: each
in one mode at least, pure or compiled, and in none it failed. A skipped test proves nothing.

The table is section 1 of `acceptance.md`: `$WARREN_ACCEPTANCE`, or beside the checkout in
`../shared`. `tests/proven_rules.txt` has the rules that are proven; `--write` makes it anew.

The exit status is 1 where a test names a rule that the table does not have, where a test that
names a rule failed, and where the rules of that file are not those that are proven.
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
PROVEN = ROOT / "tests" / "proven_rules.txt"
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
    tests: dict[str, tuple[list[str], set[str]]] = {}
    if OUTCOMES.exists():
        for key, outcome in json.loads(OUTCOMES.read_text()).items():
            # The key is the mode and the test's name.
            _, _, name = key.partition(" ")
            tests.setdefault(name, (outcome["rules"], set()))[1].add(outcome["outcome"])
    ended: dict[str, set[str]] = {}
    for rules, outcomes in tests.values():
        if "failed" not in outcomes and "passed" in outcomes:
            outcomes = {"passed"}
        for rule in rules:
            ended.setdefault(rule, set()).update(outcomes)
    return ended


def verdict(ended: set[str], named: bool) -> str:
    """One word for a rule."""
    if "failed" in ended:
        return "FAILED"
    if "skipped" in ended:
        return "skipped"
    if "passed" in ended:
        return "passed"
    return "not run" if named else "-"


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="only rules without a passing test")
    parser.add_argument("--write", action="store_true", help="note which rules are proven now")
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
    section, count = "", {"passed": 0, "FAILED": 0, "skipped": 0, "not run": 0, "-": 0}
    proven = []
    for rule in rules:
        word = verdict(ended.get(rule.id, set()), rule.id in named)
        count[word] += 1
        if word == "passed":
            proven.append(rule.id)
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
        f"{count['skipped']} skipped, {count['not run']} named by tests that did not run, "
        f"{count['-']} without a test"
    )
    if words.write:
        PROVEN.write_text("".join(f"{rule_id}\n" for rule_id in proven), encoding="utf-8")
    noted = PROVEN.read_text(encoding="utf-8").split()
    lost = [rule_id for rule_id in noted if rule_id not in proven]
    new = [rule_id for rule_id in proven if rule_id not in noted]
    if lost:
        print(f"no longer proven (has all of `make test` run?): {', '.join(lost)}")
    if new:
        print(f"proven now, and not in {PROVEN.relative_to(ROOT)} (--write): {', '.join(new)}")
    return 1 if unknown or count["FAILED"] or lost or new else 0


if __name__ == "__main__":
    sys.exit(main())
