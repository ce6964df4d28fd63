"""Prints which rules of docs/rules.md a passing test proves, and which none does.

    python tools/rules.py [--missing] [--write]

A test names its rules with `@pytest.mark.rule("NAME-01", ...)`; each test run leaves its outcomes
in pytest's cache (`tests/conftest.py`). A rule is proven when all tests that name it passed: each
in one mode at least, pure or compiled, and in none it failed. A skipped test proves nothing.
`cited` stands for a rule that no test is marked with, and that something else refers to; `later`
for one that waits for a feature which is not there yet.

`tests/proven_rules.txt` has the rules that are proven; `--write` makes it anew.

The exit status is 1 where a test names a rule that docs/rules.md does not have, where a test that
names a rule failed, and where the rules of that file are not those that are proven.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "rules.md"
PROVEN = ROOT / "tests" / "proven_rules.txt"
OUTCOMES = ROOT / ".pytest_cache" / "v" / "warren" / "rules"
TEXT_CHARS_MAX = 76

NOT_CITED = "*(not cited)* "
"""How docs/rules.md marks a rule that nothing refers to."""

LATER = re.compile(r"\*\(later: ([^)]+)\)\* ")
"""The same of a rule that waits for a feature, or for several."""

RULE = re.compile(r"- \*\*([A-Z]+-\d\d)\*\* (.*)")
ID = r"(?<![\w-])([A-Z]{1,4})-(\d\d)(?![\w-])"
CITED = re.compile(ID)
RANGE = re.compile(ID + r"\s+(?:#\s*)?to\s+(?:#\s*)?" + ID)
NO_PREFIXES = {"CRC", "UTF"}
"""Of names that look like ids: checksums and encodings."""


class Rule(NamedTuple):
    """One line of docs/rules.md."""

    id: str
    section: str
    text: str
    cited: bool
    later: str
    """The feature that it waits for, or several with `and` between them; else empty."""


def read_rules() -> list[Rule]:
    """All rules, in the order of docs/rules.md."""
    rules: list[Rule] = []
    section = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif match := RULE.match(line):
            text = match[2].removeprefix(NOT_CITED)
            waits = LATER.match(text)
            later = waits[1] if waits else ""
            rules.append(Rule(match[1], section, LATER.sub("", text), text == match[2], later))
        elif rules and line.startswith("  "):
            rules[-1] = rules[-1]._replace(text=f"{rules[-1].text} {line.strip()}")
    return rules


def cited_in(text: str) -> set[str]:
    """Ids of rules that a text refers to; `CMR-01 to CMR-03` are three."""
    ids = {f"{prefix}-{number}" for prefix, number in CITED.findall(text)}
    for prefix, first, last_prefix, last in RANGE.findall(text):
        if prefix == last_prefix:
            ids |= {f"{prefix}-{number:02d}" for number in range(int(first), int(last))}
    return {rule_id for rule_id in ids if rule_id.partition("-")[0] not in NO_PREFIXES}


def citations() -> dict[str, set[str]]:
    """For each id that is cited anywhere in the repository, the files that do."""
    files = {*ROOT.glob("*.md")} - {TABLE}
    for folder in ("src", "sim", "tests", "docs", "bench", "tools", "demo"):
        for pattern in ("*.py", "*.md", "*.txt"):
            files |= set((ROOT / folder).rglob(pattern))
    cited: dict[str, set[str]] = {}
    for path in sorted(files - {TABLE, PROVEN}):
        if "node_modules" not in path.parts:
            for rule_id in cited_in(path.read_text(encoding="utf-8")):
                cited.setdefault(rule_id, set()).add(str(path.relative_to(ROOT)))
    return cited


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


def verdict(ended: set[str], named: bool, rule: Rule) -> str:
    """One word for a rule."""
    if "failed" in ended:
        return "FAILED"
    if "skipped" in ended:
        return "skipped"
    if "passed" in ended:
        return "passed"
    if named:
        return "not run"
    if rule.later:
        return "later"
    return "cited" if rule.cited else "-"


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="only rules without a passing test")
    parser.add_argument("--write", action="store_true", help="note which rules are proven now")
    words = parser.parse_args()
    rules = read_rules()
    ended = read_outcomes()
    named: dict[str, list[str]] = {}
    for rule_id, test in named_rules(ROOT / "tests"):
        named.setdefault(rule_id, []).append(test)
    section = ""
    count = {"passed": 0, "FAILED": 0, "skipped": 0, "not run": 0, "later": 0, "cited": 0, "-": 0}
    proven = []
    for rule in rules:
        word = verdict(ended.get(rule.id, set()), rule.id in named, rule)
        count[word] += 1
        if word == "passed":
            proven.append(rule.id)
        if words.missing and word == "passed":
            continue
        if rule.section != section:
            section = rule.section
            print(f"\n{section}")
        text = rule.text
        if len(text) > TEXT_CHARS_MAX:
            text = text[: TEXT_CHARS_MAX - 1] + "…"
        print(f"  {word:<8}{rule.id:<9}{text}")
    unknown = sorted(set(named) - {rule.id for rule in rules})
    for rule_id in unknown:
        print(f"\nno such rule: {rule_id}, named in {', '.join(sorted(set(named[rule_id])))}")
    print(
        f"\n{len(rules)} rules: {count['passed']} with a passing test, {count['FAILED']} failed, "
        f"{count['skipped']} skipped, {count['not run']} named by tests that did not run, "
        f"{count['later']} of features to come, "
        f"{count['cited'] + count['-']} others that no test is marked with, "
        f"{count['-']} of them not cited either"
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
