"""What a channel has that consumes or polls: one that only publishes is spared all of it."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.protocols.amqp091.consuming import ConsumerLink, MessageFrames
from warren.protocols.amqp091.unsettled import Unsettled
from warren.protocols.output import Output
from warren.queues.queue import Queue
from warren.queues.traffic import QueueUse
from warren.vhost.tracing import Tracer


@final
class HandedOut:
    """What is handed out on one channel, and by whom.

    Attributes:
        unsettled: Deliveries that wait for an ack.
        consumers: By consumer tag.
        frames: Writes messages to this channel.
        holders: Queues that may have handed something to this channel, each under its identity and
            the id of the consumer there.
        pollers: By a queue's identity, the id of this channel's consumer for `basic.get`.
        poll_times: Likewise, for how many milliseconds that may hold what it gets.
        uses: What was got of each queue, by the queue's identity.
    """

    def __init__(self, output: Output, channel: i64, tracer: Tracer) -> None:
        self.unsettled: Unsettled = Unsettled()
        self.consumers: dict[str, ConsumerLink] = {}
        self.frames: MessageFrames = MessageFrames(output, channel, tracer)
        self.holders: dict[tuple[int, int], Queue] = {}
        self.pollers: dict[int, i64] = {}
        self.poll_times: dict[int, i64] = {}
        self.uses: dict[int, QueueUse] = {}
