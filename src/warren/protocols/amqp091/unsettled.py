"""Delivery tags of one channel that wait for an ack.

Tags are dense and so are a consumer's message ids, so what is unsettled is a short list of runs
however large the prefetch is.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.queues.queue import Queue


@final
class TagRun:
    """Tags `tag..tag+count-1` carry message ids `mid..` of one consumer of one queue."""

    def __init__(self, tag: i64, count: i64, queue: Queue, consumer_id: i64, mid: i64) -> None:
        self.tag: i64 = tag
        self.count: i64 = count
        self.queue: Queue = queue
        self.consumer_id: i64 = consumer_id
        self.mid: i64 = mid


@final
class Unsettled:
    """All unsettled deliveries of a channel, in tag order.

    Attributes:
        next_tag: The next delivery's tag, from 1.
        count: Deliveries unsettled now.
    """

    def __init__(self) -> None:
        self.next_tag: i64 = 1
        self.count: i64 = 0
        self._runs: list[TagRun] = []
        self._head: i64 = 0

    def add(self, count: i64, queue: Queue, consumer_id: i64, mid: i64) -> None:
        """The last `count` tags given out need an ack."""
        tag = self.next_tag - count
        self.count += count
        if self._head < len(self._runs):
            tail = self._runs[-1]
            if (
                tail.consumer_id == consumer_id
                and tail.queue is queue
                and tail.tag + tail.count == tag
                and tail.mid + tail.count == mid
            ):
                tail.count += count
                return
        self._runs.append(TagRun(tag, count, queue, consumer_id, mid))

    def first(self) -> i64:
        """The lowest unsettled tag, 0 if there is none."""
        return self._runs[self._head].tag if self._head < len(self._runs) else 0

    def runs(self) -> list[TagRun]:
        """All that is unsettled, in tag order."""
        return self._runs[self._head :]

    def holds(self, tag: i64) -> bool:
        """Whether a tag is unsettled."""
        at = self._find(tag)
        return at < len(self._runs) and self._runs[at].tag <= tag

    def take(self, first: i64, last: i64) -> list[TagRun]:
        """Take the unsettled tags of `first..last` out, in order."""
        taken: list[TagRun] = []
        runs = self._runs
        at = self._find(first)
        while at < len(runs):
            run = runs[at]
            if run.tag > last:
                break
            end = run.tag + run.count - 1
            low = max(run.tag, first)
            high = min(end, last)
            self.count -= high - low + 1
            if low == run.tag and high == end:
                taken.append(run)
                if at == self._head:
                    self._head += 1
                    at += 1
                else:
                    del runs[at]
                continue
            mid = run.mid + (low - run.tag)
            taken.append(TagRun(low, high - low + 1, run.queue, run.consumer_id, mid))
            if low == run.tag:
                run.mid += high - low + 1
                run.tag = high + 1
                run.count = end - high
            else:
                if high < end:
                    rest_mid = run.mid + (high + 1 - run.tag)
                    rest = TagRun(high + 1, end - high, run.queue, run.consumer_id, rest_mid)
                    runs.insert(at + 1, rest)
                run.count = low - run.tag
            at += 1
        if self._head == len(runs):
            runs.clear()
            self._head = 0
        elif self._head > 256 and self._head * 2 > len(runs):
            del runs[: self._head]
            self._head = 0
        return taken

    def put_back(self, runs: list[TagRun]) -> None:
        """Runs that `take` gave are unsettled after all (a transaction was rolled back)."""
        merged = sorted(self._runs[self._head :] + runs, key=_tag_of)
        self._runs = merged
        self._head = 0
        for run in runs:
            self.count += run.count

    def _find(self, tag: i64) -> i64:
        """Index of the first run that ends at or behind a tag."""
        low: i64 = self._head
        high: i64 = len(self._runs)
        while low < high:
            middle = (low + high) // 2
            run = self._runs[middle]
            if run.tag + run.count - 1 < tag:
                low = middle + 1
            else:
                high = middle
        return low


def _tag_of(run: TagRun) -> int:
    return run.tag
