"""What operators are told of a client's connection, whatever protocol it speaks."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp091.table import Table


@final
class ClientPlace:
    """Where a client reached this node.

    Attributes:
        host, port: The address; empty and 0 if nobody knows.
        encrypted: Whether the client speaks TLS.
    """

    def __init__(self, host: str, port: i64, encrypted: bool) -> None:
        self.host: str = host
        self.port: i64 = port
        self.encrypted: bool = encrypted


NOWHERE: Final = ClientPlace("", 0, False)


@final
class ConsumerFacts:
    """One consumer.

    Attributes:
        queue: The name of the queue that it is of, in the connection's vhost.
        tag: Its consumer tag.
        ack_required: Whether its messages have to be settled.
        exclusive: Whether it is the only one of its queue.
        prefetch: How many messages it may hold; 0 for any number.
        arguments: As it was begun with.
        consumer_id: By which its queue knows it.
    """

    def __init__(
        self,
        queue: str,
        tag: str,
        ack_required: bool,
        exclusive: bool,
        prefetch: i64,
        arguments: Table,
        consumer_id: i64,
    ) -> None:
        self.queue: str = queue
        self.tag: str = tag
        self.ack_required: bool = ack_required
        self.exclusive: bool = exclusive
        self.prefetch: i64 = prefetch
        self.arguments: Table = arguments
        self.consumer_id: i64 = consumer_id


@final
class ChannelFacts:
    """One channel, or what another protocol has in its place.

    Attributes:
        number: On its connection.
        transactional, confirm: Whether publishes wait for a commit; whether they are confirmed.
        unacknowledged: Messages handed out and not settled.
        unconfirmed: Publishes that wait for a confirm.
        uncommitted, acks_uncommitted: Publishes and settles that wait for a commit.
        prefetch: What consumers begin with; 0 for no limit.
        global_prefetch: The limit over all consumers; 0 for none.
        consumers: In the order in which they came.
    """

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.transactional: bool = False
        self.confirm: bool = False
        self.unacknowledged: i64 = 0
        self.unconfirmed: i64 = 0
        self.uncommitted: i64 = 0
        self.acks_uncommitted: i64 = 0
        self.prefetch: i64 = 0
        self.global_prefetch: i64 = 0
        self.consumers: list[ConsumerFacts] = []


@final
class ConnectionFacts:
    """One connection.

    Attributes:
        state: As RabbitMQ names it, such as `running`.
        protocol: The protocol, and its version.
        mechanism: How its client logged in.
        peer_host, peer_port: Where its client is.
        host, port: Where the client reached this node; empty and 0 if nobody knows.
        encrypted: Whether it speaks TLS.
        channel_max, frame_max, heartbeat_s: As agreed.
        client_properties: What the client says of itself.
        received_bytes, received_count: What came, in how many reads.
        sent_bytes, sent_count: What was handed to the socket, in how many writes.
        pending_bytes: What is to be handed to it.
        connected_ms: When it came, since the epoch.
        identity: Under which exclusive queues know it, 0 before it is open.
        channels: How many there are.
    """

    def __init__(self) -> None:
        self.state: str = ""
        self.protocol: str = ""
        self.mechanism: str = ""
        self.peer_host: str = ""
        self.peer_port: i64 = 0
        self.host: str = ""
        self.port: i64 = 0
        self.encrypted: bool = False
        self.channel_max: i64 = 0
        self.frame_max: i64 = 0
        self.heartbeat_s: i64 = 0
        self.client_properties: Table = {}
        self.received_bytes: i64 = 0
        self.received_count: i64 = 0
        self.sent_bytes: i64 = 0
        self.sent_count: i64 = 0
        self.pending_bytes: i64 = 0
        self.connected_ms: i64 = 0
        self.identity: i64 = 0
        self.channels: i64 = 0
