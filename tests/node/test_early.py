"""Frames for groups that are not here yet: in their order, within bounds, and not for ever."""

from __future__ import annotations

from warren.node.early import BYTES_MAX, FRAMES_MAX, EarlyFrame, EarlyFrames


def kept(*rows: tuple[int, str, bytes, int]) -> EarlyFrames:
    """Frames by group, sender, content and end."""
    early = EarlyFrames()
    for group_id, node, frame, until_ms in rows:
        early.keep(group_id, EarlyFrame(node, frame, until_ms))
    return early


def contents(entries: list[EarlyFrame]) -> list[bytes]:
    return [entry.frame for entry in entries]


def test_a_group_that_comes_gets_its_own_in_their_order_once() -> None:
    early = kept((7, "b", b"1", 9), (8, "b", b"22", 9), (7, "c", b"333", 9))
    assert (early.count, early.size_bytes) == (3, 6)
    assert contents(early.take(7)) == [b"1", b"333"]
    assert early.take(7) == []
    assert (early.count, early.size_bytes) == (1, 2)
    assert contents(early.take(8)) == [b"22"]
    assert (early.count, early.size_bytes) == (0, 0)


def test_what_a_node_sent_or_was_kept_long_enough_goes() -> None:
    early = kept((7, "b", b"1", 5), (7, "c", b"22", 9), (8, "b", b"333", 9))
    assert not early.drop("", 4)
    assert early.drop("", 5)
    assert (early.count, early.size_bytes) == (2, 5)
    assert early.drop("b", 0)
    assert not early.drop("b", 0)
    assert early.take(8) == []
    assert contents(early.take(7)) == [b"22"]
    early = kept((7, "b", b"1", 5))
    early.clear()
    assert (early.count, early.size_bytes, early.take(7)) == (0, 0, [])


def test_there_is_room_up_to_the_bounds() -> None:
    early = EarlyFrames()
    assert early.has_room_for(bytes(BYTES_MAX)) and not early.has_room_for(bytes(BYTES_MAX + 1))
    early.keep(7, EarlyFrame("b", b"x", 9))
    assert early.has_room_for(bytes(BYTES_MAX - 1)) and not early.has_room_for(bytes(BYTES_MAX))
    for _ in range(FRAMES_MAX - 2):
        early.keep(8, EarlyFrame("b", b"", 9))
    assert early.has_room_for(b"")
    early.keep(8, EarlyFrame("b", b"", 9))
    assert not early.has_room_for(b"")
    early.take(7)
    assert early.has_room_for(b"")
