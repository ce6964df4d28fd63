"""Direct replies: a requester consumes its answers without a queue.

A channel that consumes from `amq.rabbitmq.reply-to` gets an address of its own. Requests that name
the pseudo queue in `reply_to` carry that address on; a message published to the address through
the default exchange goes straight to the channel, or nowhere.

Source: RabbitMQ's direct reply-to; B-07 for the texts.
"""

from __future__ import annotations

from typing import ClassVar, Final, final

from mypy_extensions import i64

from warren.message.amqp091.edits import with_reply_to
from warren.message.amqp091.record import content_at
from warren.message.flavours import AMQP091
from warren.protocols.amqp091.consuming import MessageFrames
from warren.protocols.amqp091.unsettled import Unsettled
from warren.vhost.handle import VhostHandle
from warren.vhost.routes import REPLY_PREFIX, ReplyTarget
from warren.vhost.tracing import Redeliveries
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

REPLIES_BYTES_MAX: Final = 67_108_864
"""With more than this waiting for a client that does not read, its replies are dropped."""


@final
class DirectReplies(ReplyTarget):
    """A channel's consumer of direct replies.

    Attributes:
        tag: Its consumer tag.
        address: Routing key that reaches it.
    """

    NAME: ClassVar[str] = REPLY_PREFIX

    def __init__(
        self,
        vhost: VhostHandle,
        frames: MessageFrames,
        unsettled: Unsettled,
        tag: str,
        connection: str,
    ) -> None:
        """
        Args:
            connection: The name of the channel's connection.
        """
        self._connection: str = connection
        self.tag: str = tag
        self.address: str = vhost.reply_address()
        self._vhost: VhostHandle = vhost
        self._frames: MessageFrames = frames
        self._unsettled: Unsettled = unsettled
        vhost.register_reply(self.address, self)

    def close(self) -> None:
        """No more replies; the address is dead."""
        self._vhost.forget_reply(self.address)

    def replied(self, record: bytes) -> bool:
        """Deliver a message that was published to the address, if its client reads at all."""
        try:
            return self._replied(record)
        except Exception as error:
            # It is not the publisher who ends for that.
            self._frames.output.failed(error)
            return False

    def _replied(self, record: bytes) -> bool:
        frames = self._frames
        if frames.output.stalled_bytes > REPLIES_BYTES_MAX:
            return False
        tag = self._unsettled.next_tag
        self._unsettled.next_tag = tag + 1
        deliver = spec.BasicDeliver(self.tag, int(tag), False, "", self.address)
        frames.output.buffer.write(method_frame(int(frames.channel), deliver.encode()))
        frames.write_content(record, content_at(record, 0), len(record))
        frames.output.touch()
        if frames.tracer.on:
            self._vhost.trace_delivered(
                self._connection,
                frames.channel,
                self.address,
                AMQP091,
                record,
                len(record).to_bytes(4, "little"),
                Redeliveries(0, 0, True, False),
            )
        return True

    def addressed(self, record: bytes, head: i64) -> bytes:
        """A request with this address as its `reply_to`; its header frame is at `head`."""
        return with_reply_to(record, head, self.address)
