"""Whole lives of a log from seeds, and proof that they notice planted bugs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import warren
from tests.log.driver import live
from warren.errors import StorageError
from warren.log import (
    cache,
    compact,
    copying,
    entries,
    extents,
    group,
    manifest,
    reading,
    recovery,
    scan,
    sidecar,
    wal,
)
from warren.log.batch import KIND_RESET, Batch, Header
from warren.ports import Disk
from warren.term_runs import TermRuns

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
    def pinned(self: compact.Compactor, group_id: int, extents: object) -> bool:
        self.store.dropping.clear()
        return real(self, group_id, extents)

    return pinned


def ignore_snapshots(self: compact.Compactor, group_id: int, extents: object) -> bool:
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


def rounds_first(self: wal.RoundJob, manifest: manifest.Manifest) -> bool:
    """Say that the manifest is durable, and write it another time."""
    return True


def no_repair(self: recovery.Recovery, newest: object) -> None:
    return None


@pytest.mark.skipif(warren.COMPILED, reason="bugs are planted in uncompiled code only")
@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (manifest.Manifest, "publish", no_directory_sync),
        (wal.Wal, "round_done", confirm_despite_failure(wal.Wal.round_done)),
        (compact.Compactor, "_ask_snapshot", ignore_snapshots),
        (compact.Compactor, "_pinned", forget_dropping(compact.Compactor._pinned)),
        (compact, "newest_snapshot", no_snapshot),
        (recovery.Recovery, "_repair", no_repair),
        (wal.RoundJob, "_publish", rounds_first),
    ],
    ids=[
        "manifest without directory sync",
        "confirm after a failed write",
        "delete before the snapshot is durable",
        "delete before the drop is durable",
        "forget the snapshot in a rewrite",
        "no repair of the last round",
        "newer rounds than the manifest says",
    ],
)
def test_planted_bug_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, bug: object
) -> None:
    monkeypatch.setattr(owner, name, bug)
    assert noticed()


# --- replication --------------------------------------------------------------------------------


def nothing_is_void(tombstones: object, hidden_from: int, index: int, offset: int) -> bool:
    return False


def all_of_them(batches: list[Batch], index: int) -> list[Batch]:
    return batches


def own_file_only(self: group.GroupLog) -> None:
    """Marks in later files hide nothing."""
    for place in self.places:
        place.hide(extents.NOWHERE, extents.NOWHERE)


def without_terms(real: Callable[..., bool]) -> Callable[..., bool]:
    def decode(data: bytes, file: scan.LogFile, salt: int) -> bool:
        fits = real(data, file, salt)
        for place in file.groups.values():
            place.terms = TermRuns()
        return fits

    return decode


def no_reset(
    real: Callable[[scan.Indexer, Header, bytes, int, int], None],
) -> Callable[[scan.Indexer, Header, bytes, int, int], None]:
    def batch(self: scan.Indexer, header: Header, data: bytes, at: int, offset: int) -> None:
        if header.kind != KIND_RESET:
            real(self, header, data, at, offset)

    return batch


def none_needed(
    self: compact.Compactor, group: object, place: object, sources: object
) -> list[None]:
    return []


def void_counts(self: wal.Wal, group: object, index: int) -> None:
    return None


def complete_at_once(real: Callable[..., None]) -> Callable[..., None]:
    def recovered(self: group.GroupLog, place: extents.Extents) -> None:
        real(self, place)
        self.incomplete = False

    return recovered


def keep_the_cache(self: object, number: int) -> None:
    return None


@pytest.mark.skipif(warren.COMPILED, reason="bugs are planted in uncompiled code only")
@pytest.mark.parametrize(
    ("places", "bug"),
    [
        ([(reading, "is_void")], nothing_is_void),
        ([(reading, "below"), (entries, "below")], all_of_them),
        ([(group.GroupLog, "conceal")], own_file_only),
        ([(sidecar, "decode")], without_terms(sidecar.decode)),
        ([(compact, "newest_state")], no_snapshot),
        ([(scan.Indexer, "batch")], no_reset(scan.Indexer.batch)),
        ([(compact.Compactor, "_tombstones_needed")], none_needed),
        ([(wal.Wal, "make_void")], void_counts),
        ([(copying, "is_void")], nothing_is_void),
        ([(recovery, "is_void")], nothing_is_void),
        ([(group.GroupLog, "recovered")], complete_at_once(group.GroupLog.recovered)),
        ([(cache.Ring, "cut")], keep_the_cache),
    ],
    ids=[
        "a read hands out what is void",
        "a read hands out what became void on its way",
        "truncation forgotten across files",
        "sidecar without terms",
        "state deleted with its file",
        "reset forgotten at recovery",
        "mark deleted before what it makes void",
        "completion of a void batch counts",
        "a rewrite takes what is void",
        "a replay takes what is void",
        "an unfinished installation forgotten",
        "the cache keeps what is void",
    ],
)
def test_planted_bug_of_replication_is_noticed(
    monkeypatch: pytest.MonkeyPatch, places: list[tuple[object, str]], bug: object
) -> None:
    for owner, name in places:
        monkeypatch.setattr(owner, name, bug)
    assert noticed()
