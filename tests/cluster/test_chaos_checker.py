"""The checker of histories finds what it is there to find: each verdict from a forged history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sim.history import events
from sim.history.events import NOBODY, History, Log, body_of, read_body
from sim.history.serial import check
from sim.history.verdict import Verdict

QUEUE = "q"


class Forge:
    """Writes a history that is good by itself: five messages, one of them delivered twice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = History(folder)
        self.publisher = self.history.log("p.1")
        self.consumer = self.history.log("c.1")
        self.nemesis = self.history.log("nemesis")

    def good(
        self, leaders: tuple[str, ...] = ("n1", "n2"), faults: int = 1, again: int = 1
    ) -> Forge:
        """The usual events."""
        for node in leaders:
            self.nemesis.note("leader", "ok", QUEUE, node=node)
        for _ in range(faults):
            self.nemesis.note("fault", "invoke", what="kill n1")
            self.nemesis.note("fault", "ok", what="kill n1")
        for number in range(1, 6):
            self.publish(number, "ok")
            self.deliver(number)
        for _ in range(again):
            self.deliver(5, True)
        return self

    def publish(self, number: int, *kinds: str, queue: str = QUEUE) -> None:
        """A message, and what became of it."""
        for kind in ("invoke", *kinds):
            self.publisher.note("publish", kind, queue, "p.1", number)

    def deliver(
        self, number: int, redelivered: bool = False, to: Log | None = None, queue: str = QUEUE
    ) -> None:
        """It comes."""
        (to or self.consumer).note("deliver", "ok", queue, "p.1", number, redelivered)

    def verdict(self) -> Verdict:
        """What the checker reads from the disk."""
        self.history.close()
        return check(self.folder)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    """An empty history."""
    yield Forge(tmp_path / "history")


def test_a_good_history(forge: Forge) -> None:
    verdict = forge.good().verdict()
    assert verdict.good, verdict.text()
    assert (verdict.confirmed, verdict.published, verdict.delivered) == (5, 5, 6)
    assert (verdict.redelivered, verdict.faults, verdict.leader_changes) == (1, 1, 1)
    assert "0 lost" in verdict.text()


def test_lost(forge: Forge) -> None:
    forge.good().publish(6, "ok")
    verdict = forge.verdict()
    assert verdict.lost == ["p.1:6"] and not verdict.good and "lost: p.1:6" in verdict.text()


def test_lost_from_one_of_two_queues(forge: Forge) -> None:
    forge.good().publish(6, "ok", queue="other")
    forge.deliver(6)
    verdict = forge.verdict()
    assert verdict.lost == ["p.1:6"] and verdict.invented == ["p.1:6"]


@pytest.mark.parametrize("kind", ["info", "fail"])
@pytest.mark.parametrize("comes", [False, True])
def test_what_was_not_confirmed_may_come_or_not(forge: Forge, kind: str, comes: bool) -> None:
    forge.good().publish(6, kind)
    if comes:
        forge.deliver(6)
    assert forge.verdict().good


def test_invented(forge: Forge) -> None:
    forge.good().deliver(7)
    assert forge.verdict().invented == ["p.1:7"]


def test_altered(forge: Forge) -> None:
    body = body_of("p.1", 70)
    assert read_body(body) == ("p.1", 70)
    for wrong in (body[:-1], body + b"x", body.replace(b"70", b"71"), b"", b"p.1:1"):
        assert read_body(wrong) == (NOBODY, -1)
    forge.good().consumer.note("deliver", "ok", QUEUE, *read_body(body[:-1]), False)
    assert forge.verdict().invented == [f"{NOBODY}:-1"]


def test_doubled(forge: Forge) -> None:
    other = forge.history.log("c.2")
    forge.good().deliver(3, to=other)
    assert forge.verdict().doubled == ["p.1:3"]


def test_a_second_delivery_with_a_mark_is_none(forge: Forge) -> None:
    forge.good().deliver(2, True)
    assert forge.verdict().good


def test_what_was_published_twice_may_come_twice(forge: Forge) -> None:
    forge.good().publish(5, "ok")
    forge.deliver(5)
    assert not forge.verdict().doubled


def test_late(forge: Forge) -> None:
    forge.good()
    for number in (6, 7, 8):
        forge.publish(number, "ok")
    for number in (6, 8, 7):
        forge.deliver(number)
    verdict = forge.verdict()
    assert verdict.late == ["p.1:7 behind p.1:8"] and not verdict.good


@pytest.mark.parametrize("how", ["marked", "another consumer", "another queue"])
def test_not_late(forge: Forge, how: str) -> None:
    forge.good()
    queue = "other" if how == "another queue" else QUEUE
    forge.publish(6, "ok", queue=queue)
    forge.publish(7, "ok")
    forge.deliver(7)
    other = forge.history.log("c.2") if how == "another consumer" else None
    forge.deliver(6, how == "marked", to=other, queue=queue)
    assert forge.verdict().good


@pytest.mark.parametrize(
    ("forged", "what"),
    [
        (lambda forge: forge.good(leaders=("n1", "n1")), "the leader never changed"),
        (lambda forge: forge.good(faults=0), "there was no fault"),
        (lambda forge: forge.good(again=0), "nothing was redelivered"),
    ],
)
def test_vacuous(forge: Forge, forged: Callable[[Forge], Forge], what: str) -> None:
    verdict = forged(forge).verdict()
    assert verdict.vacuous == [what] and not verdict.good


def test_nothing_confirmed_is_vacuous(forge: Forge) -> None:
    forge.publish(1, "info")
    assert "nothing was confirmed" in forge.verdict().vacuous


def test_no_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check(tmp_path)


def test_many_files(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a process keep their order over files."""
    monkeypatch.setattr(events, "ROWS_PER_FILE", 2)
    forge.good()
    for number in range(6, 40):
        forge.publish(number, "ok")
        forge.deliver(number)
    verdict = forge.verdict()
    assert len(list(forge.folder.iterdir())) > 20
    assert verdict.good and verdict.confirmed == 39
