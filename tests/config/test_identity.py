"""The file `node` of a data directory, written twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.config.identity import begin_life, read_identity
from warren.errors import StorageError

OTHERS = [("b@h", "10.0.0.2", 25_672), ("c@h", "::1", 7)]


def saved(folder: Path) -> bytes:
    """A directory's file, of a node that knows others."""
    identity = begin_life(str(folder), "a@h")
    identity.is_with(OTHERS)
    identity.listens_at(("127.0.0.1", 25_672))
    return (folder / "node").read_bytes()


def test_one_of_two_texts_is_enough(tmp_path: Path) -> None:
    """Whatever bit is flipped, and wherever the file is cut off or a block is lost."""
    text = saved(tmp_path)
    whole = read_identity(str(tmp_path))
    assert whole is not None and whole.nodes == OTHERS
    damaged = [text[:at] + bytes([text[at] ^ 4]) + text[at + 1 :] for at in range(0, len(text), 13)]
    damaged += [bytes(4_096) + text[4_096:], text[:4_096] + bytes(len(text) - 4_096)]
    damaged += [text[:size] for size in range(len(text) // 2, len(text), 17)]
    for data in damaged:
        (tmp_path / "node").write_bytes(data)
        found = read_identity(str(tmp_path))
        assert found is not None and vars(found) == vars(whole)


def test_a_file_without_a_whole_text_is_refused(tmp_path: Path) -> None:
    text = saved(tmp_path)
    (tmp_path / "node").write_bytes(text[:100])
    with pytest.raises(StorageError, match="node is damaged: restore it from a copy"):
        read_identity(str(tmp_path))


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    lines = saved(tmp_path).decode().splitlines()
    before = [line for line in lines[: len(lines) // 2] if line and not line.startswith("crc32")]
    assert before[0].startswith("uid = ")
    (tmp_path / "node").write_text("".join(f"{line}\n" for line in before))
    found = read_identity(str(tmp_path))
    assert found is not None and found.boot == 1


@pytest.mark.parametrize("joins", [None, ("10.0.0.2", 25_672)])
def test_a_directory_that_is_reset_begins_with_nothing_but_its_secret(
    tmp_path: Path, joins: tuple[str, int] | None
) -> None:
    """Another node, of no cluster, that knows what it is to join until it knows who is there."""
    saved(tmp_path)
    before = read_identity(str(tmp_path))
    assert before is not None
    before.belongs_to(bytes(range(16)))
    before.to_reset(joins)
    for file in ("log/MANIFEST", "log/00000001.log", "secret"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("x")
    after = begin_life(str(tmp_path), "a@h")
    assert after.uid != before.uid and after.boot == 1 and after.nodes == []
    assert (after.cluster_id, after.reset) == (b"", False)
    assert (after.joins, after.alone) == (joins, joins is None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node", "secret"]
    after.belongs_to(bytes(range(1, 17)))
    again = read_identity(str(tmp_path))
    assert again is not None and (again.joins, again.alone) == (joins, False)
    again.is_with(OTHERS)
    again = read_identity(str(tmp_path))
    assert again is not None and again.joins is None


def test_an_end_while_a_directory_is_emptied_is_no_harm(tmp_path: Path) -> None:
    """The next start removes what is left, whatever the manifest was."""
    saved(tmp_path)
    before = read_identity(str(tmp_path))
    assert before is not None
    before.belongs_to(bytes(range(16)))
    before.to_reset(None)
    (tmp_path / "log").mkdir()
    (tmp_path / "log/00000007.log").write_text("x")
    after = begin_life(str(tmp_path), "a@h")
    assert after.uid != before.uid and not (tmp_path / "log").exists()
