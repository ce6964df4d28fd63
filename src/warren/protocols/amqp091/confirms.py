"""Publisher confirms of one channel: which publish sequences are owed, which are answered.

Runs of publishes are answered by the queues they went to, in any order. Answers at the head of
what is owed go out as one `basic.ack` with `multiple`; an answer out of order goes out message by
message, since it must not wait for a slower queue.

Source: AMQP 0-9-1 extension `confirm.select`; QQ-27; R-29.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i64

from warren.headed_list import HeadedList
from warren.queues.publishing import PublishRun

ACK: Final = 0x003C0050
NACK: Final = 0x003C0078
FRAME_END: Final = 0xCE


@final
class Confirms:
    """What one channel in confirm mode owes its publisher.

    Attributes:
        next_sequence: Publish sequence of the next message, from 1.
    """

    def __init__(self, channel: i64) -> None:
        self.next_sequence: i64 = 1
        self._channel: i64 = channel
        self._owed: HeadedList[PublishRun] = HeadedList()
        self._early: list[PublishRun] = []

    def add(self, run: PublishRun) -> None:
        """Owe an answer for a run; runs are added in sequence order."""
        self._owed.append(run)

    def owed_count(self) -> i64:
        """Messages that the publisher has no answer for."""
        count: i64 = 0
        for at in range(self._owed.size()):
            count += self._owed.at(at).count
        return count

    def settled(self, run: PublishRun) -> None:
        """A run was answered; `write` says so to the publisher."""
        if self._owed.at(0) is not run:
            self._early.append(run)

    def write(self, out: BytesWriter) -> None:
        """Append the acks and nacks that are due."""
        owed = self._owed
        size = owed.size()
        done: i64 = 0
        while done < size:
            run = owed.at(done)
            if run.waiting != 0:
                break
            if run.count == 0:
                done += 1
                continue
            first, refused = run.first, run.refused
            last = first
            if run.rejected is not None:
                for behind, nacked in run.parts():
                    last = run.first + behind - 1
                    self._answer(out, NACK if nacked else ACK, last, last > first)
                    first = last + 1
                run.count = 0
                done += 1
                continue
            while done < size:
                run = owed.at(done)
                if run.waiting != 0 or (run.count > 0 and run.refused != refused):
                    break
                if run.rejected is not None and run.count > 0:
                    break
                if run.count > 0:
                    last = run.first + run.count - 1
                    run.count = 0
                done += 1
            self._answer(out, NACK if refused else ACK, last, last > first)
        owed.drop(done)
        if self._early:
            for run in self._early:
                if run.count == 0:
                    # It was at the head by now.
                    continue
                sequence = run.first
                for behind, nacked in run.parts():
                    while sequence < run.first + behind:
                        self._answer(out, NACK if nacked else ACK, sequence, False)
                        sequence += 1
                run.count = 0
            self._early.clear()

    def _answer(self, out: BytesWriter, key: i64, sequence: i64, multiple: bool) -> None:
        out.append(1)
        write_i16_be(out, i16(self._channel))
        write_i32_be(out, 13)
        write_i32_be(out, 0x003C0050 if key == ACK else 0x003C0078)
        write_i64_be(out, sequence)
        out.append(1 if multiple else 0)
        out.append(FRAME_END)
