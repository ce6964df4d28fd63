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
