"""A dict of very many entries, which never grows all at once.

A Python dict that is full moves to a larger table at the next insertion: 3 ms for 90,000 entries.
A node keeps its queues in several dicts, all of which are full at the same queue. What has many
entries is spread here over shards, each of which moves by itself; what has few is one dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, Generic, TypeVar, final

from mypy_extensions import i64

Key = TypeVar("Key")
Value = TypeVar("Value")

SPREAD_FROM: Final = 4_096
"""Entries that are spread over shards: that takes a fraction of a millisecond."""

SHARDS: Final = 64
SHARD_BITS: Final = 6


@final
class ShardedDict(Generic[Key, Value]):
    """Entries by keys that can be hashed; those of few are in the order in which they came."""

    def __init__(self) -> None:
        self._shards: list[dict[Key, Value]] = [{}]

    def _shard(self, key: Key) -> dict[Key, Value]:
        shards = self._shards
        if len(shards) == 1:
            return shards[0]
        digest: i64 = hash(key)
        # Identities, and what is hashed by its place in memory, may differ in higher bits only.
        digest ^= digest >> 40 ^ digest >> 20
        return shards[(digest ^ digest >> SHARD_BITS) & (SHARDS - 1)]

    def get(self, key: Key) -> Value | None:
        """What is there under a key, None if nothing is."""
        return self._shard(key).get(key)

    def pop(self, key: Key) -> Value | None:
        """Take out what is there under a key, None if nothing is."""
        return self._shard(key).pop(key, None)

    def values(self) -> list[Value]:
        """All that is there."""
        found: list[Value] = []
        for shard in self._shards:
            found.extend(shard.values())
        return found

    def lots(self) -> Iterator[list[Value]]:
        """All that is there, in lots: of much, each is a small part, and taken when it is due.

        What comes or goes between two of them may be among them or not.
        """
        for shard in self._shards:
            yield list(shard.values())

    def key_lots(self) -> Iterator[tuple[Key, ...]]:
        """All keys, in lots as those of `lots`; Python's collector lets go of one of numbers."""
        for shard in self._shards:
            yield tuple(shard)

    def keys(self) -> list[Key]:
        """All keys."""
        found: list[Key] = []
        for shard in self._shards:
            found.extend(shard)
        return found

    def items(self) -> list[tuple[Key, Value]]:
        """All keys, each with what is there under it."""
        found: list[tuple[Key, Value]] = []
        for shard in self._shards:
            found.extend(shard.items())
        return found

    def take_any(self) -> tuple[Key, Value] | None:
        """Take out any entry, None if there is none."""
        for shard in self._shards:
            if shard:
                return shard.popitem()
        return None

    def some(self, count: int) -> list[Key]:
        """As many keys as there are, at most so many."""
        found: list[Key] = []
        for shard in self._shards:
            found.extend(islice(shard, count - len(found)))
            if len(found) == count:
                break
        return found

    def move(self) -> ShardedDict[Key, Value]:
        """Give all entries away at once, to a new one: nothing is left here."""
        moved: ShardedDict[Key, Value] = ShardedDict()
        moved._shards = self._shards
        self._shards = [{}]
        return moved

    def __getitem__(self, key: Key) -> Value:
        return self._shard(key)[key]

    def __setitem__(self, key: Key, value: Value) -> None:
        shard = self._shard(key)
        shard[key] = value
        if len(self._shards) == 1 and len(shard) >= SPREAD_FROM:
            self._spread()

    def __delitem__(self, key: Key) -> None:
        del self._shard(key)[key]

    def __contains__(self, key: Key) -> bool:
        return key in self._shard(key)

    def __len__(self) -> int:
        count = 0
        for shard in self._shards:
            count += len(shard)
        return count

    def __iter__(self) -> Iterator[Key]:
        """All keys, as they are now."""
        return iter(self.keys())

    def _spread(self) -> None:
        entries = self._shards[0]
        self._shards = [{} for _ in range(SHARDS)]
        for key, value in entries.items():
            self._shard(key)[key] = value
