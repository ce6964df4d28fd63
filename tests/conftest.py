"""Fixtures that every test may use, and the record of which rules a passing test proves."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import engine

import warren
from tests.support.broker import Broker, free_port
from tests.support.examples import UNCOMPILED, USUAL, is_long

ROOT = Path(__file__).resolve().parent.parent
RULES_KEY = "warren/rules"
RULES_PROPERTY = "rules"
BROKERS = ("broker", "private_broker")
PROCESS_FIXTURES = {
    *("_shared_broker", "_oracle_broker", "_http_broker", "_ui_broker", "make_broker", "chromium"),
}

# The same examples in every run: what a test finds must not depend on the day. `make long` draws
# others, from seeds that it prints.
settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    derandomize=True,
    database=None,
    max_examples=USUAL if warren.COMPILED else UNCOMPILED,
)
settings.register_profile(
    "long", deadline=None, print_blob=True, derandomize=False, database=None, max_examples=1_000
)
settings.load_profile(os.environ.get("WARREN_HYPOTHESIS", "default"))

SHRINK_SECONDS = 20
if not is_long():
    # What fails is made small for so long: of a state machine that is slow it is five minutes else,
    # in which nobody hears that anything is wrong.
    engine.MAX_SHRINKING_SECONDS = SHRINK_SECONDS


# --- brokers ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    outside = Broker.from_environment()
    if outside is not None:
        yield outside
        return
    broker = Broker(free_port(), tmp_path_factory.mktemp("shared") / "broker")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def broker(_shared_broker: Broker) -> Iterator[Broker]:
    """A running broker that tests share: leave nothing behind in it, and never end it."""
    if not _shared_broker.running:
        _shared_broker.start()
    yield _shared_broker
    _shared_broker.check_alive()


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Makes brokers, not yet started, each with a port and a data directory of its own."""
    if Broker.from_environment() is not None:
        pytest.skip("needs a process of its own; WARREN_TEST_BROKER names a foreign one")
    made: list[Broker] = []

    def make(*options: str, environment: dict[str, str] | None = None) -> Broker:
        data_dir = tmp_path / f"broker-{len(made)}"
        made.append(Broker(free_port(), data_dir, options=list(options), environment=environment))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture
def private_broker(make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    """A running broker for one test alone, to be killed, restarted and filled at will."""
    broker = make_broker()
    broker.start()
    yield broker
    broker.check_alive()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the thousands of collected tests out of all that Python's collector looks through.

    They stay for as long as the run does, and each full look at them takes half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs a broker as a process, so that it can be chosen or left out.

    What takes long begins first, so that no worker is at it alone in the end.
    """
    for item in items:
        if PROCESS_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("process")
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


# --- what runs ----------------------------------------------------------------------------------


def pytest_report_header() -> str:
    """Say whether the package under test is compiled, and where it lies."""
    return f"warren: {'compiled' if warren.COMPILED else 'pure'}, {Path(warren.__file__).parent}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test an installed package that is older than the source beside the tests."""
    installed = Path(warren.__file__).parent
    source = ROOT / "src" / "warren"
    if installed == source:
        return
    drawn = [path for path in (source / "admin" / "ui").rglob("*.*") if path.suffix != ".pyc"]
    drawn.append(source / "pipeline" / "report.html")
    for path in [*source.rglob("*.py"), *drawn]:
        copy = installed / path.relative_to(source)
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            pytest.exit(
                f"the installed {copy} is not the source's; run `make build`, "
                "or set PYTHONPATH=src to test the source uncompiled",
                returncode=4,
            )


# --- logs and rules -----------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a failed test the log of its broker, and note the outcome for its rules."""
    report = yield
    if report.failed:
        for name in BROKERS:
            used = getattr(item, "funcargs", {}).get(name)
            if isinstance(used, Broker) and used.ours:
                report.sections.append((f"log of {name}", used.log_text()))
    ids = [rule for mark in item.iter_markers("rule") for rule in mark.args]
    if ids and (report.when == "call" or report.outcome != "passed"):
        # Properties of a report are what a worker process can hand to the one that records.
        report.user_properties.append((RULES_PROPERTY, ids))
    return report


def pytest_configure(config: pytest.Config) -> None:
    """Keep the record of rules in the process that reports of all workers come to."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(RulesRecord(config))


class RulesRecord:
    """Merges a run's outcomes of tests that name rules into what `tools/rules.py` reads."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: dict[str, dict[str, object]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test; one that failed in any of its phases has failed."""
        for name, ids in report.user_properties:
            if name != RULES_PROPERTY:
                continue
            before = self._outcomes.get(report.nodeid)
            failed = before is not None and before["outcome"] == "failed"
            outcome = "failed" if failed else report.outcome
            self._outcomes[report.nodeid] = {"rules": ids, "outcome": outcome}

    def pytest_sessionfinish(self) -> None:
        """Write the record, where pytest's cache is in use."""
        cache = getattr(self._config, "cache", None)
        if not self._outcomes or cache is None:
            return
        mode = "compiled" if warren.COMPILED else "pure"
        record = cache.get(RULES_KEY, {})
        record.update({f"{mode} {name}": outcome for name, outcome in self._outcomes.items()})
        cache.set(RULES_KEY, record)
