"""The oracle's scenarios by name, and how a module adds some.

A scenario is a function that drives a `Session`:

    @scenario
    def queue_declared_twice(s: Session) -> None:
        '''Declaring again changes nothing.'''
        s.open()
        s.call(1, "queue.declare", queue="o.q", durable=True)
        s.call(1, "queue.declare", queue="o.q", durable=True)

With `cases` it is a family: one scenario for each case, named `function[case]`, whose function is
given the case's value too. A new one is recorded by `make oracle RECORD=1 ONLY=its_name`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tests.oracle.session import Session

Play: TypeAlias = Callable[..., None]


class Scenario(NamedTuple):
    """One script, and what a run has to know of it.

    Attributes:
        name: Its key among the answers.
        area: The module it stands in, without `scenarios_`; its answers' file.
        play: Plays it on a session.
        lacking: The rule of docs/rules.md for which something is not there yet; empty where all is.
            Warren's part is then to refuse it by name. A mark that is out of date fails the test.
        waits: Whether it takes long doing nothing. Such ones are played all at once, and each has
            names of queues that no other uses.
    """

    name: str
    area: str
    play: Callable[[Session], None]
    lacking: str
    waits: bool


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    function: Play | None = None,
    *,
    cases: Mapping[str, Any] | Iterable[str] | None = None,
    lacking: str | Mapping[str, str] = "",
    waits: bool = False,
) -> Any:
    """Add a function to the scenarios under its own name, or one scenario for each case.

    Args:
        cases: Values by case; of strings alone, each is case and value.
        lacking: See `Scenario`; by case where it is not one for all of them.
        waits: See `Scenario`.
    """
    if function is None:
        return lambda each: scenario(each, cases=cases, lacking=lacking, waits=waits)
    area = function.__module__.rpartition(".")[2].removeprefix("scenarios_")
    name = function.__name__
    if cases is None:
        assert isinstance(lacking, str)
        _add(Scenario(name, area, function, lacking, waits))
        return function
    values = cases if isinstance(cases, Mapping) else {case: case for case in cases}
    for case, value in values.items():
        rule = lacking if isinstance(lacking, str) else lacking.get(case, "")
        _add(Scenario(f"{name}[{case}]", area, _played(function, value), rule, waits))
    return function


def _played(function: Play, value: Any) -> Callable[[Session], None]:
    return lambda s: function(s, value)


def _add(added: Scenario) -> None:
    assert added.name not in SCENARIOS, f"two scenarios are called {added.name}"
    SCENARIOS[added.name] = added


def load() -> dict[str, Scenario]:
    """Take in every module of scenarios; gives all of them by name."""
    for path in sorted(Path(__file__).parent.glob("scenarios*.py")):
        importlib.import_module(f"tests.oracle.{path.stem}")
    return SCENARIOS
