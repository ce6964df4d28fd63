"""What transactions that are not committed may take: of a channel, a connection and a node."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, body_frame, publish_frames
from warren.limits import ASSEMBLY_BYTES_MAX
from warren.node.relief import KEPT_MS_MAX
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec

BODY = bytes(1_000_000)
MEMORY = 100_000_000


def few(settings: Settings) -> None:
    settings.tx_messages_max = 10


def small(settings: Settings) -> None:
    settings.memory_limit_bytes = MEMORY
    settings.max_message_bytes = 1_000_000


def begin(pair: Pair, channels: int = 1) -> Line:
    """A client whose channels are all transactional, and another client's queue."""
    line = Line(pair.a, channels)
    line.ask(1, spec.QueueDeclare(0, "q", False, True, False, False, False, {}))
    for channel in range(1, channels + 1):
        line.ask(channel, spec.TxSelect())
    return line


def publish(line: Line, count: int, channel: int = 1, body: bytes = b"m") -> None:
    """Publish messages, in one piece if they are small."""
    step = 131_064
    parts = [body[at : at + step] for at in range(0, len(body), step)]
    message = b"".join(publish_frames(channel, "", "q", parts=parts))
    if len(body) < step:
        line.hand(message * count)
    else:
        for _ in range(count):
            line.hand(message)
            line.pair.settle(1)


def closed(line: Line) -> list[tuple[int, int, str]]:
    line.pair.settle(3)
    return [
        (told.channel, told.method.reply_code, told.method.reply_text)
        for told in line.of(spec.ChannelClose)
    ]


def ready(pair: Pair) -> int:
    pair.settle(3)
    return int(pair.a.queue("q").ready_count())


def test_publishes_of_a_transaction_are_counted_as_rabbitmq_counts_them() -> None:
    """Each commit and each rollback begins anew."""
    pair = Pair(alone=True, configure=few)
    line = begin(pair)
    publish(line, 10)
    line.ask(1, spec.TxRollback())
    publish(line, 10)
    line.ask(1, spec.TxCommit())
    publish(line, 9)
    publish(line, 1)
    assert closed(line) == [] and ready(pair) == 10
    publish(line, 1)
    text = "PRECONDITION_FAILED - transaction has reached the maximum of 10 uncommitted publishes"
    assert closed(line) == [(1, 406, text)]
    assert [told.method.class_id for told in line.of(spec.ChannelClose)] == [60]
    assert ready(pair) == 10 and pair.a.node.assembled_bytes == 0


@pytest.mark.parametrize("whole", [True, False])
def test_what_follows_a_publish_too_many_is_dropped(whole: bool) -> None:
    """Also what has come of a message in parts; then the channel's number can be used again."""
    pair = Pair(alone=True, configure=few)
    line = begin(pair)
    first, header, body = publish_frames(1, "", "q", parts=[b"m"])
    publish(line, 10)
    if whole:
        line.hand((first + header + body) * 3)
    else:
        for frame in (first, header, body, first, header):
            line.hand(frame)
    assert [code for _, code, _ in closed(line)] == [406]
    line.send(1, spec.ChannelCloseOk())
    if not whole:
        line.hand(body)
    line.ask(1, spec.ChannelOpen())
    publish(line, 1)
    assert ready(pair) == 1


def test_transactions_of_a_connection_have_a_bound_in_bytes() -> None:
    """The largest goes; the others are committed."""
    pair = Pair(alone=True)
    line = begin(pair, 2)
    publish(line, 20, 2, BODY)
    publish(line, 1 + ASSEMBLY_BYTES_MAX // len(BODY) - 20, 1, BODY)
    ((channel, code, text),) = closed(line)
    assert (channel, code) == (1, 406)
    assert f"have more than {ASSEMBLY_BYTES_MAX} bytes; commit less at a time" in text
    assert 20 * len(BODY) < pair.a.node.assembled_bytes < 21 * len(BODY)
    line.ask(2, spec.TxCommit())
    assert ready(pair) == 20 and pair.a.node.assembled_bytes == 0


def test_transactions_of_a_node_have_a_bound_in_bytes() -> None:
    """Who has most loses one; who goes frees all."""
    pair = Pair(alone=True, configure=small)
    greedy, modest = begin(pair, 2), begin(pair)
    publish(modest, 5, 1, BODY)
    publish(greedy, 9, 1, BODY)
    publish(greedy, 13, 2, BODY)
    assert [(channel, code) for channel, code, _ in closed(greedy)] == [(2, 406)]
    assert closed(modest) == []
    modest.ask(1, spec.TxCommit())
    assert ready(pair) == 5
    greedy.end.lost()
    assert pair.a.node.assembled_bytes == 0


def test_answers_of_a_transaction_are_counted_too() -> None:
    pair = Pair(alone=True)
    line = begin(pair, 2)
    line.ask(2, spec.TxSelect())
    publish(line, 100)
    line.ask(1, spec.TxCommit())
    line.ask(2, spec.BasicConsume(0, "q", "", False, False, False, False, {}))
    line.wait(100, spec.BasicDeliver)
    for tag in range(1, 101):
        line.send(2, spec.BasicAck(tag, False))
    assert 50_000 < pair.a.node.assembled_bytes < 100_000
    line.ask(2, spec.TxCommit())
    assert pair.a.node.assembled_bytes == 0


def later(pair: Pair, used: int, ms: int) -> None:
    """Time passes, while the node uses so much memory."""
    for _ in range(ms // 1_000):
        pair.clock.advance(1_000)
        pair.a.node.tick(used)
        pair.settle(1)


@pytest.mark.rule("R-38")
def test_a_transaction_does_not_keep_up_the_alarm_that_it_raised() -> None:
    pair = Pair(alone=True, configure=small)
    line = begin(pair, 2)
    publish(line, 10, 1, BODY)
    publish(line, 2, 2, BODY)
    used = MEMORY + 5_000_000
    pair.a.node.tick(used)
    publish(line, 1, 2)
    assert line.held
    later(pair, used, KEPT_MS_MAX - 1_000)
    assert closed(line) == []
    later(pair, used, 2_000)
    ((channel, code, text),) = closed(line)
    assert (channel, code) == (1, 406) and "memory is short" in text
    # What is left of these is not to blame.
    later(pair, used, 2 * KEPT_MS_MAX)
    assert len(closed(line)) == 1
    later(pair, MEMORY, 1_000)
    line.ask(2, spec.TxCommit())
    assert ready(pair) == 3


def test_what_is_not_to_blame_for_an_alarm_stays() -> None:
    """Without it memory would be short all the same."""
    pair = Pair(alone=True, configure=small)
    line = begin(pair)
    publish(line, 10, 1, BODY)
    later(pair, 2 * MEMORY, 3 * KEPT_MS_MAX)
    assert closed(line) == []


def test_half_a_message_does_not_keep_up_an_alarm_either() -> None:
    pair = Pair(alone=True, configure=small)
    line = begin(pair)
    publish_frame, header = publish_frames(1, "", "q", parts=[BODY])[:2]
    line.hand(publish_frame + header + body_frame(1, bytes(100_000)))
    later(pair, MEMORY + 50_000, KEPT_MS_MAX + 1_000)
    assert [(channel, code) for channel, code, _ in closed(line)] == [(1, 311)]
