"""A machine as its queue drives it, with what comes of its entries told message by message."""

from __future__ import annotations

import struct
from typing import Any

from librt.strings import BytesWriter

from warren.log.facts import PRIORITIES, SIZES
from warren.message.dead_letters import REASONS
from warren.queues.fifo import commands, config
from warren.queues.fifo.delayed import ALL, DISABLED, FAILED, RETURNED, Retry
from warren.queues.fifo.effects import Effects, Reply
from warren.queues.fifo.entry import Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.sessions import close_sessions

RETRIES = {"disabled": DISABLED, "all": ALL, "failed": FAILED, "returned": RETURNED}
STRATEGIES = {"forgotten": 0, "at-most-once": 1, "at-least-once": 2}
RANKINGS = {"fair": config.FAIR, "strict": config.STRICT}

Entry = tuple[int, Enqueue | bytes]


def fields_of(**values: Any) -> bytes:
    """The fields of a CONFIG with these settings."""
    out = BytesWriter()
    for name, value in values.items():
        if name in ("single_active", "failures"):
            getattr(config, f"write_{name}")(out)
        elif name == "ranking":
            config.write_ranking(out, RANKINGS[value])
        elif name == "dead_letters":
            config.write_dead_letters(out, STRATEGIES[value])
        elif name == "retry":
            kind, least, most = value
            config.write_retry(out, Retry(RETRIES[kind], least, most))
        else:
            getattr(config, f"write_{name}")(out, value)
    return out.getvalue()


def column_of(each: list[tuple[int, int | None]]) -> bytes:
    """What a batch says of its messages' sizes, and of priorities where they have any."""
    priorities = [priority for _, priority in each if priority is not None]
    assert len(priorities) in (0, len(each)), "a batch says it of all or of none"
    which = SIZES | (PRIORITIES if priorities else 0)
    sizes = [size for size, _ in each]
    return struct.pack(f"<I{len(sizes)}I", which, *sizes) + bytes(priorities)


class Machine:
    """A machine, and what came of its entries since it was asked last.

    Attributes:
        deliveries: What was handed out: consumer, id, number, times it came back, times that count.
        died: What went elsewhere: why, number, failures.
        told: Consumers that held something for too long.
    """

    def __init__(self, classic: bool) -> None:
        self.classic = classic
        self.fifo = Fifo(-1, classic, classic)
        self.deliveries: list[tuple[int, ...]] = []
        self.died: list[tuple[str, int, int]] = []
        self.told: list[int] = []
        self._left: list[int] = []
        self._state = b""
        self._log: list[Entry] = []
        """What a classic queue's log has behind its snapshot."""
        self._transient: set[int] = set()

    def bound(self, hand_out_max: int, return_max: int, part_runs: int) -> None:
        """It does so much in one go."""
        self.fifo.hand_out_max = hand_out_max
        self.fifo.return_max = return_max
        self.fifo.part_runs = part_runs

    def _note(self, effects: Effects) -> bool:
        """Note effects; whether there are any."""
        for each in effects.deliveries:
            who, mid, number = int(each.consumer.id), int(each.mid), int(each.first)
            counts = (int(each.acquired), int(each.failed))
            for at in range(int(each.count)):
                self.deliveries.append((who, mid + at, number + at, *counts))
        left: list[int] = []
        for pieces in effects.freed:
            for piece in pieces:
                freed: Any = piece
                left += range(int(freed.first), int(freed.first + freed.count))
        for dead in effects.dead or []:
            for pieces in dead.lists:
                for piece in pieces:
                    run: Any = piece
                    for number in range(int(run.first), int(run.first + run.count)):
                        failed = int(run.failed + dead.failed)
                        self.died.append((REASONS[int(dead.reason)], number, failed))
                        if self.classic:
                            # It has gone elsewhere at once.
                            left.append(number)
        self.told += [int(each.consumer_id) for each in effects.timed_out]
        self._left += left
        if self.classic and left:
            out = BytesWriter()
            for number in left:
                commands.free(out, number, number)
            self._log.append((0, out.getvalue()))
        return bool(effects.deliveries or effects.dead or effects.freed or effects.timed_out)

    def forget(self) -> None:
        """What came of entries so far was looked at."""
        self.deliveries, self.died, self.told = [], [], []

    def freed(self) -> list[int]:
        """Numbers of messages that left since this was asked last."""
        left, self._left = self._left, []
        return left

    def enqueue(self, first: int, facts: bytes, count: int, life_ms: int, now_ms: int) -> None:
        """Messages arrive."""
        messages = Enqueue(first, count, 1 << 20, life_ms, facts)
        if self.classic:
            self._log.append((now_ms, messages))
        self._note(self.fifo.apply(Meta(now_ms), messages)[1])

    def transient(self, first: int, count: int) -> None:
        """The messages that arrive next do not outlive the process."""
        self._transient |= set(range(first, first + count))
        self.fifo.transient.push(first, first + count - 1)

    def run(self, payload: bytes, now_ms: int, session: int = 0) -> Reply:
        """Encoded commands arrive, which lie somewhere in a buffer."""
        if self.classic and payload[0] == commands.CONFIG:
            self._log.append((now_ms, payload))
        command = Encoded(b"xyz" + payload + b"more", 3, 3 + len(payload))
        reply, effects = self.fifo.apply(Meta(now_ms, session), command)
        self._note(effects)
        return reply

    def close(self, session: int, lost: bool, now_ms: int) -> None:
        """The session of a node is closed."""
        self._note(close_sessions(self.fifo, [session], now_ms, lost))

    def dispatch(self) -> bool:
        """What follows an entry; whether anything came of it."""
        before = self._counts()
        did = self._note(self.fifo.dispatch())
        return did or before != self._counts()

    def is_due(self, now_ms: int) -> bool:
        """Whether a message was to expire, or has waited, by a time."""
        return 0 < self.fifo.next_expiry() <= now_ms

    def _counts(self) -> tuple[int, ...]:
        fifo = self.fifo
        return tuple(
            map(
                int,
                (fifo.ready.count, fifo.held, fifo.delayed.count, fifo.dropped, fifo.sizes.count),
            )
        )

    def live(self) -> list[int]:
        """Numbers of all messages there are."""
        return [n for first, last in self.fifo.live() for n in range(int(first), int(last) + 1)]

    def ready(self) -> list[int]:
        """Numbers of those that are ready of a queue without priorities, in order."""
        pairs = [(int(run[0]), int(run[1])) for run in self.fifo.ready.quadruples()]
        return sorted(n for first, last in pairs for n in range(first, last + 1))

    def deaths(self) -> dict[int, tuple[str, int, int]]:
        """Dead letters that are kept, by death: why, number, failures."""
        found: dict[int, tuple[str, int, int]] = {}
        death = 0
        while True:
            run, reason = self.fifo.discards.from_death(death)
            if run is None:
                return found
            for at in range(int(run.count)):
                what = (REASONS[int(reason)], int(run.first) + at, int(run.failed))
                found[int(run.key) + at] = what
            death = int(run.key + run.count)

    # --- other lives ----------------------------------------------------------------------------

    def _another(self) -> Fifo:
        """An empty machine, as a start makes it, that does as much in one go."""
        fifo = Fifo(config.NOT_SET_UP, False, self.classic)
        fifo.hand_out_max = self.fifo.hand_out_max
        fifo.return_max = self.fifo.return_max
        fifo.part_runs = self.fifo.part_runs
        return fifo

    def restore(self, now_ms: int) -> None:
        """Go on with a machine restored from the snapshot."""
        state = self.fifo.encode()
        fifo = self._another()
        fifo.restore(state)
        assert fifo.encode() == state
        # The next entry says how late it is.
        fifo.pass_time(now_ms)
        self.fifo = fifo

    def set_up(self, **values: Any) -> None:
        """The first entry of a classic queue's log."""
        fields = fields_of(keeps_place=True, delivery_limit=-1, **values)
        out = BytesWriter()
        commands.config(out, fields)
        self.run(out.getvalue(), 0)

    def write_durable(self) -> None:
        """The log goes on behind a snapshot of what a restart is to see."""
        out = BytesWriter()
        work = self.fifo.write_durable(out)
        while not work.go_on():
            pass
        self._state = out.getvalue()
        self._log = []

    def replay(self, now_ms: int) -> None:
        """The process is killed; another one reads the log."""
        fifo = self._another()
        fifo.reports_freed = False
        if self._state:
            fifo.restore(self._state)
        for stamp_ms, what in self._log:
            command = what if isinstance(what, Enqueue) else Encoded(what, 0, len(what))
            fifo.apply(Meta(stamp_ms), command)
            if isinstance(what, Enqueue) and what.first in self._transient:
                fifo.transient.push(what.first, what.first + what.count - 1)
            fifo.dispatch()
        fifo.reports_freed = True
        lost = fifo.transient.pairs()
        out = BytesWriter()
        if lost:
            fifo.all_back()
            fifo.free(lost)
            for first, last in lost:
                commands.free(out, first, last)
            self._log.append((0, out.getvalue()))
        fifo.transient.clear()
        fifo.count_as_delivered()
        fifo.pass_time(now_ms)
        self.fifo = fifo
        self.forget()
        self._left = []
