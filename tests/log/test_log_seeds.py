"""Whole lives of a log from seeds, and proof that they notice planted bugs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import warren
from tests.log.driver import live
from warren.errors import StorageError
from warren.log import compact, copying, manifest, recovery, scan, wal
from warren.ports import Disk

SEEDS_PER_TEST = 25
SEEDS_PER_BUG = 800


@pytest.mark.parametrize("start", range(0, 200, SEEDS_PER_TEST))
def test_nothing_confirmed_is_lost(start: int) -> None:
    confirmed = restarts = 0
    for seed in range(start, start + SEEDS_PER_TEST):
        try:
            world = live(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        confirmed += world.confirmed
        restarts += world.restarts
    assert confirmed > 1_000 and restarts > SEEDS_PER_TEST, "the lives are eventful"


@pytest.mark.parametrize("seed", [49, 143, 385])
def test_seeds_that_failed_once(seed: int) -> None:
    live(seed)


def noticed(setup: dict[str, bool] | None = None) -> bool:
    """Whether some seed ends in an error."""
    for seed in range(SEEDS_PER_BUG):
        try:
            live(seed, setup=setup)
        except (AssertionError, StorageError, FileNotFoundError, KeyError):
            return True
    return False


def test_syncs_that_do_nothing_are_noticed() -> None:
    assert noticed({"sync_lies": True})


def no_directory_sync(self: manifest.Manifest, disk: Disk) -> None:
    disk.rename(manifest.MANIFEST_DRAFT_PATH, manifest.MANIFEST_PATH)


def confirm_despite_failure(
    real: Callable[..., None],
) -> Callable[[wal.Wal, wal.RoundJob, BaseException | None], None]:
    def round_done(self: wal.Wal, job: wal.RoundJob, error: BaseException | None) -> None:
        job.written = True
        real(self, job, None)

    return round_done


def forget_dropping(real: Callable[..., bool]) -> Callable[..., bool]:
    def pinned(self: compact.Compactor, file: object) -> bool:
        self.store.dropping.clear()
        return real(self, file)

    return pinned


def ignore_snapshots(self: compact.Compactor, file: object) -> bool:
    return False


def no_snapshot(group: object) -> None:
    return None


def same_for_all(salt: int, number: int) -> int:
    return salt


@pytest.mark.skipif(warren.COMPILED, reason="bugs are planted in uncompiled code only")
def test_reused_files_whose_old_rounds_still_count_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (scan, wal, copying):
        monkeypatch.setattr(module, "identity", same_for_all)
    assert noticed()


def no_repair(self: recovery.Recovery, newest: object) -> None:
    return None


@pytest.mark.skipif(warren.COMPILED, reason="bugs are planted in uncompiled code only")
@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (manifest.Manifest, "publish", no_directory_sync),
        (wal.Wal, "round_done", confirm_despite_failure(wal.Wal.round_done)),
        (compact.Compactor, "_ask_snapshots", ignore_snapshots),
        (compact.Compactor, "_pinned", forget_dropping(compact.Compactor._pinned)),
        (compact, "newest_snapshot", no_snapshot),
        (recovery.Recovery, "_repair", no_repair),
    ],
    ids=[
        "manifest without directory sync",
        "confirm after a failed write",
        "delete before the snapshot is durable",
        "delete before the drop is durable",
        "forget the snapshot in a rewrite",
        "no repair of the last round",
    ],
)
def test_planted_bug_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, bug: object
) -> None:
    monkeypatch.setattr(owner, name, bug)
    assert noticed()
