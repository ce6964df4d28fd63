"""Publisher confirms: every publish is answered once, rightly, and not before it is safe."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from warren.protocols.amqp091.confirms import Confirms
from warren.queues.publishing import Publisher, PublishRun
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import FrameReader

CHANNEL = 7


def vote(confirms: Confirms, run: PublishRun) -> None:
    """One of a run's queues has it safe; what a channel does then."""
    run.waiting -= 1
    if run.waiting == 0:
        confirms.settled(run)


def answers_in(data: bytes) -> list[tuple[bool, int, bool]]:
    """The acks and nacks in what was written: whether an ack, the sequence, multiple."""
    reader = FrameReader(131_072)
    reader.feed(data)
    found: list[tuple[bool, int, bool]] = []
    while reader.next():
        assert reader.channel == CHANNEL
        method = spec.decode_method(reader.buffer, reader.start, reader.end)
        assert isinstance(method, (spec.BasicAck, spec.BasicNack))
        ack = isinstance(method, spec.BasicAck)
        found.append((ack, method.delivery_tag, method.multiple))
    return found


@pytest.mark.rule("QQ-27")
@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    data=st.data(),
)
def test_every_publish_is_answered_once(counts: list[int], data: st.DataObject) -> None:
    """Runs are settled by their queues in any order; writes fall anywhere between."""
    confirms = Confirms(CHANNEL)
    runs: list[PublishRun] = []
    for count in counts:
        queues = data.draw(st.integers(1, 2))
        run = PublishRun(Publisher(), confirms.next_sequence, count, queues)
        run.refused = data.draw(st.booleans())
        # What queues have no room for may be the same.
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, count - 1))
            run.reject(at, data.draw(st.integers(1, count - at)))
        confirms.next_sequence += count
        confirms.add(run)
        runs.append(run)
    refused = {
        run.first + at: run.refused or any(low <= at < low + n for low, n in run.rejected or ())
        for run, count in zip(runs, counts, strict=True)
        for at in range(count)
    }
    safe: set[int] = set()
    open_: dict[int, bool] = dict.fromkeys(refused, True)

    def write() -> None:
        out = BytesWriter()
        confirms.write(out)
        for ack, sequence, multiple in answers_in(out.getvalue()):
            assert open_.get(sequence), f"publish {sequence} is answered again"
            answered = [s for s in open_ if s <= sequence] if multiple else [sequence]
            for one in answered:
                assert one in safe, f"publish {one} is not safe yet"
                assert refused[one] is not ack
                del open_[one]

    votes = [at for at, run in enumerate(runs) for _ in range(run.waiting)]
    for at in data.draw(st.permutations(votes)):
        run = runs[at]
        vote(confirms, run)
        if run.waiting == 0:
            safe.update(range(run.first, run.first + counts[at]))
        if data.draw(st.booleans()):
            write()
    write()
    assert not open_, "everything is answered in the end"
    write()


def test_a_contiguous_stretch_is_one_answer() -> None:
    """What is due at the head goes out as one frame with `multiple`."""
    confirms = Confirms(CHANNEL)
    runs = [PublishRun(Publisher(), first, 10, 1) for first in (1, 11, 21)]
    for run in runs:
        confirms.add(run)
    for run in reversed(runs):
        vote(confirms, run)
    out = BytesWriter()
    confirms.write(out)
    assert answers_in(out.getvalue()) == [(True, 30, True)]
