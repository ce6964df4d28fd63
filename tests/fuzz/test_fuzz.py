"""Both fuzzers on a real broker, shortly and with fixed seeds; faults that they have to find."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import warren
from tests.fuzz.answers import wrong_in_frames
from tests.fuzz.campaign import FRAMES, FUZZERS, HTTP, Campaign, Report
from tests.fuzz.clients import CLOSE, episode
from tests.fuzz.drawing import Draw
from tests.fuzz.frames import frame, method
from tests.fuzz.probe import Bounds
from tests.fuzz.requests import episode as http_episode
from tests.fuzz.watched import MEMORY_MORE_BYTES, Found, Held, Watched
from tests.support.broker import HOST, Broker, free_port
from tests.support.certificates import new_certificates
from tests.support.patience import patient

SEED = 20261128
EPISODES = 60
WARMING = 20
SOURCE = Path(__file__).resolve().parents[2] / "src" / "warren"
BOUNDS = Bounds(patient(10.0), 1.0 if warren.COMPILED else 5.0)
"""That nobody else waits is decided by what the node's loop works at a time; see `make long`."""


def reachable(broker: Broker) -> Broker:
    """The same with the HTTP API and metrics, whatever else its command line says."""
    broker.management, broker.metrics = str(free_port()), str(free_port())
    if "PYTHONPATH" in broker.environment:
        broker.options += ["--management-port", broker.management]
        broker.options += ["--set", f"prometheus.tcp.port={broker.metrics}"]
    return broker


def fuzzed(
    fuzzer: str,
    broker: Broker,
    folder: Path,
    encrypted: tuple[int, ...] = (),
    bounds: Bounds = BOUNDS,
) -> Report:
    """Play so many episodes on a broker."""
    campaign = Campaign(fuzzer, SEED, [Watched(broker)], bounds, folder, encrypted)
    return campaign.run(0, lambda played: played < EPISODES, WARMING)


@pytest.mark.early
@pytest.mark.parametrize("fuzzer", FUZZERS)
def test_a_fuzzer_disturbs_nobody(
    fuzzer: str, make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """No exit, no traceback, no failed answer, no other client that waits; all comes back."""
    broker = reachable(make_broker()).start()
    report = fuzzed(fuzzer, broker, tmp_path)
    assert report.episodes == EPISODES and report.cases > EPISODES
    assert report.asked and report.confirmed
    assert broker.stop() == 0
    Watched(broker).check()


@pytest.mark.early
@pytest.mark.parametrize("fuzzer", FUZZERS)
def test_a_fuzzer_over_tls_disturbs_nobody(
    fuzzer: str, make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """The same of clients of which half come encrypted, or break that."""
    folder, port = new_certificates(tmp_path, {"server": "/CN=server"}), free_port()
    settings = {
        FRAMES: {"listeners.ssl.1": f"{HOST}:{port}"},
        HTTP: {"management.ssl.ip": HOST, "management.ssl.port": port},
    }[fuzzer]
    prefix = {FRAMES: "ssl_options", HTTP: "management.ssl"}[fuzzer]
    settings[f"{prefix}.certfile"] = folder / "server.pem"
    settings[f"{prefix}.keyfile"] = folder / "server.key"
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    broker = reachable(make_broker(*words)).start()
    assert fuzzed(fuzzer, broker, tmp_path, (port,)).episodes == EPISODES
    assert broker.stop() == 0


PLANTED = {
    "an error while a frame is served": (
        FRAMES,
        "protocols/amqp091/methods.py",
        'raise ConnectionException(540, f"prefetch_size!=0',
        'raise RuntimeError(f"prefetch_size!=0',
        "Traceback",
    ),
    "a loop that stands still": (
        FRAMES,
        "protocols/amqp091/methods.py",
        "    channel.recover(method)\n",
        "    import time\n\n    time.sleep(600)\n",
        "another client waited",
    ),
    "an error while a request is served": (
        HTTP,
        # Most of what is asked, whichever operations there are, comes by here.
        "admin/http/same_site.py",
        "    try:\n        return dict(\n",
        "    if b'page' in query:\n        raise RuntimeError\n    try:\n        return dict(\n",
        "Traceback",
    ),
}
"""By what is wrong: the fuzzer, the file, its text, what stands there instead, what is said."""
PLANTED_BOUNDS = Bounds(5.0, 600.0)
"""Short enough for a run that has to fail."""


@pytest.mark.early
@pytest.mark.parametrize("fault", list(PLANTED))
def test_a_planted_fault_is_found(
    fault: str, make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """A source that is wrong in one place, uncompiled, does not get through."""
    fuzzer, file, text, planted, said = PLANTED[fault]
    folder = tmp_path / "src"
    shutil.copytree(SOURCE, folder / "warren", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    wrong = folder / "warren" / file
    source = wrong.read_text()
    assert source.count(text) == 1, f"{file} has not {text!r} any more: plant it anew"
    wrong.write_text(source.replace(text, planted))
    environment = {"PYTHONPATH": str(folder), "WARREN_PURE": "1"}
    broker = reachable(make_broker(environment=environment)).start()
    with pytest.raises(Found, match=said) as found:
        fuzzed(fuzzer, broker, tmp_path, bounds=PLANTED_BOUNDS)
    assert f"--seed {SEED}" in str(found.value)


def test_a_seed_draws_the_same_again() -> None:
    """An episode is its seed and its number, and nothing else."""
    for number in range(5):
        drawn = [episode(Draw(SEED, FRAMES, number), ["amqp"], []) for _ in range(2)]
        assert drawn[0] == drawn[1]
        drawn = [http_episode(Draw(SEED, HTTP, number)) for _ in range(2)]
        assert drawn[0] == drawn[1]
    assert episode(Draw(SEED, FRAMES, 0), ["amqp"], []) != episode(Draw(1, FRAMES, 0), ["amqp"], [])


def test_a_client_that_ends_before_its_first_byte_can_be_drawn() -> None:
    """Two episodes, each with a request of which nothing is sent, in a connection cut short."""
    for number in (633, 1650):
        assert http_episode(Draw(20261130, HTTP, number))


def test_answers_that_may_not_be_are_seen() -> None:
    assert wrong_in_frames(CLOSE + frame(1, 1, b"x" * 9)[:-1]) == ""
    assert "no frame" in wrong_in_frames(CLOSE + b"\x05\0\0\0\0\0\0")
    assert "does not end" in wrong_in_frames(CLOSE + frame(1, 1, b"x" * 9, 0))
    failed = method("channel.close", 1, reply_code=541, reply_text="INTERNAL_ERROR")
    assert "internal error" in wrong_in_frames(CLOSE + failed + CLOSE)


def test_what_does_not_come_back_is_seen() -> None:
    before = Held(100 << 20, 20, {"queues": 1})
    assert Held(104 << 20, 21, {"queues": 1}).beyond(before) == ""
    assert "memory" in Held((106 << 20) + MEMORY_MORE_BYTES, 20, {"queues": 1}).beyond(before)
    assert "descriptors" in Held(1, 29, {"queues": 1}).beyond(before)
    assert "objects" in Held(1, 1, {"queues": 2}).beyond(before)
