"""A dict of very many entries behaves as a dict, and none of its tables is long."""

from __future__ import annotations

from random import Random

import pytest

from warren.sharded_dict import SHARDS, SPREAD_FROM, ShardedDict


class Thing:
    """Hashed by its place in memory, as records of the tables are."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.more = [number]


KEYS = {
    "numbers": lambda n: n,
    "identities": lambda n: n << 20 | 7,
    "names": lambda n: f"queue-{n}",
    "objects": Thing,
}


@pytest.mark.parametrize("kind", KEYS)
def test_it_is_a_dict(kind: str) -> None:
    """Whatever is done to it, before, while and after it is spread."""
    dice = Random(5)
    keys = [KEYS[kind](n) for n in range(3 * SPREAD_FROM)]
    sharded: ShardedDict[object, int] = ShardedDict()
    plain: dict[object, int] = {}
    for turn in range(8 * SPREAD_FROM):
        key = dice.choice(keys[: 10 + turn])
        what = dice.randrange(8)
        if what < 5:
            sharded[key] = turn
            plain[key] = turn
        elif what == 5:
            assert sharded.pop(key) == plain.pop(key, None)
        elif what == 6:
            assert sharded.get(key) == plain.get(key) and (key in sharded) == (key in plain)
        elif key in plain:
            assert sharded[key] == plain[key]
            del sharded[key]
            del plain[key]
        else:
            with pytest.raises(KeyError):
                del sharded[key]
        assert len(sharded) == len(plain) and bool(sharded) == bool(plain)
        if turn in (50, SPREAD_FROM, 8 * SPREAD_FROM - 1):
            assert dict(sharded.items()) == plain
            assert set(sharded) == set(sharded.keys()) == set(plain)
            assert [key for lot in sharded.key_lots() for key in lot] == sharded.keys()
            assert sorted(sharded.values()) == sorted(plain.values())
            if len(plain) < SPREAD_FROM:
                assert list(sharded.items()) == list(plain.items())
    assert len(plain) > SPREAD_FROM


@pytest.mark.parametrize("kind", KEYS)
def test_no_table_has_more_than_a_small_part(kind: str) -> None:
    """So that a step which moves one of them costs as much with few as with many."""
    count = 20 * SPREAD_FROM
    sharded: ShardedDict[object, int] = ShardedDict()
    for number in range(count):
        sharded[KEYS[kind](number)] = number
    assert len(sharded) == count
    longest = max(len(shard) for shard in sharded._shards)
    assert longest <= 4 * count // SHARDS
