"""Frames of AMQP 0-9-1 as clients send them, right and wrong in every way that has a name.

What is right opens the way to what is deep in a node; `Frames.damaged` then does to it what a
broken or hostile client would: cut, joined, nested, of wrong length, end, kind or channel.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tests.clients.raw import (
    BODY,
    FRAME_END,
    HEADER,
    HEARTBEAT,
    METHOD,
    METHODS,
    PROPERTIES,
    Typed,
    encode_method,
    encode_properties,
)
from tests.fuzz.drawing import Draw

CHANNELS = 4
QUEUES: dict[str, dict[str, Any]] = {
    "f.classic": {"durable": True},
    "f.transient": {"auto_delete": True},
    "f.priority": {"durable": True, "arguments": {"x-max-priority": 10}},
    "f.short": {
        "durable": True,
        "arguments": {
            "x-max-length": 10,
            "x-message-ttl": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "f.classic",
        },
    },
    "f.single": {"durable": True, "arguments": {"x-single-active-consumer": True}},
    "f.quorum": {"durable": True, "arguments": {"x-queue-type": "quorum"}},
    "f.limited": {
        "durable": True,
        "arguments": {
            "x-queue-type": "quorum",
            "x-delivery-limit": 2,
            "x-overflow": "reject-publish",
            "x-max-length": 50,
        },
    },
}
EXCHANGES = {"f.direct": "direct", "f.fanout": "fanout", "f.topic": "topic", "f.headers": "headers"}
KNOWN_EXCHANGES = ("", "", "", *EXCHANGES, "amq.topic", "amq.fanout", "amq.headers", "f.none")
ARGUMENTS = (
    *("x-queue-type", "x-max-length", "x-max-length-bytes", "x-message-ttl", "x-expires"),
    *("x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy"),
    *("x-overflow", "x-max-priority", "x-single-active-consumer", "x-delivery-limit"),
    *("x-priority", "x-consumer-timeout", "x-match", "x-delayed-type", "alternate-exchange"),
    *("x-queue-leader-locator", "x-queue-mode", "x-quorum-initial-group-size", "CC", "BCC"),
    *("x-death", "x-delay", "x-stream-offset", "x-cancel-on-ha-failover"),
)  # fmt: skip
ACK_BYTES = 13
"""What the payload of a `basic.ack` has."""
BODY_BYTES = (0, 0, 1, 10, 100, 1_000, 4_088, 70_000)


def frame(kind: int, channel: int, payload: bytes, end: int = FRAME_END, size: int = -1) -> bytes:
    """Lay out a frame, whose size may be told wrongly."""
    told = len(payload) if size < 0 else size
    return struct.pack(">BHI", kind & 255, channel & 0xFFFF, told) + payload + bytes([end])


def method(name: str, channel: int = 0, **arguments: Any) -> bytes:
    """Lay out a method's frame."""
    return frame(METHOD, channel, encode_method(name, arguments))


class Frames:
    """Draws frames of one client.

    Args:
        draw: Draws them.
        wrong: The share of what it does that is wrong as frames go; without any it gets far.
    """

    def __init__(self, draw: Draw, wrong: float = 0.1) -> None:
        self.draw = draw
        self._wrong = wrong
        self._channels = list(range(1, CHANNELS + 1))
        self._right: list[tuple[int, Callable[[int], list[bytes]]]] = [
            (6, self.declare), (24, self.publishes), (14, self.settles), (5, self.consume),
            (5, self.get), (3, self.bind), (8, self.modes), (3, self.remove), (8, self.renew),
        ]  # fmt: skip
        self._odd: list[tuple[int, Callable[[int], list[bytes]]]] = [
            (3, self.anything), (2, self.channel_ends), (1, self.beats),
            (3, self.acks_of_any_length), (3, self.odd_content),
        ]  # fmt: skip

    def channel(self) -> int:
        """Choose a channel that is likely to be open."""
        return self.draw.one(self._channels)

    def some(self) -> list[bytes]:
        """Draw what a client does next: some frames that belong together, perhaps damaged."""
        draw = self.draw
        if not draw.chance(self._wrong):
            return draw.weighted(self._right)(self.channel())
        if draw.chance(0.5):
            return draw.weighted(self._odd)(self.channel())
        return self.damaged(draw.weighted(self._right)(self.channel()))

    def renew(self, channel: int) -> list[bytes]:
        """Open a new channel in the place of one that an error may have ended."""
        newest = max(self._channels) + 1
        self._channels[self._channels.index(channel)] = newest
        return [method("channel.open", newest)]

    # --- what is right --------------------------------------------------------------------------

    def queue(self) -> str:
        """Choose a queue's name, which is often one that may be there."""
        return self.draw.one((*QUEUES, *QUEUES, "", "f.none"))

    def declare(self, channel: int) -> list[bytes]:
        """Declare a queue or an exchange."""
        draw = self.draw
        passive, nowait = draw.chance(0.1), draw.chance(0.1)
        if draw.chance(0.3):
            name = draw.one(list(EXCHANGES))
            given: dict[str, Any] = {"exchange": name, "type": EXCHANGES[name], "durable": True}
            title = "exchange.declare"
        elif draw.chance(0.2):
            given = {"queue": "", "exclusive": True, "arguments": draw.table(keys=ARGUMENTS)}
            title = "queue.declare"
        else:
            name = draw.one(list(QUEUES))
            given = {"queue": name, **QUEUES[name]}
            title = "queue.declare"
        if draw.chance(0.05):
            given["arguments"] = draw.table(keys=ARGUMENTS)
        return [method(title, channel, **given, passive=passive, nowait=nowait)]

    def bind(self, channel: int) -> list[bytes]:
        """Bind or unbind a queue or an exchange."""
        draw = self.draw
        given: dict[str, Any] = {
            "routing_key": draw.one(("k", "a.*", "#", "a.b.c", "")),
            "arguments": {"x-match": "any", "a": 1} if draw.chance(0.5) else {},
        }
        if draw.chance(0.2):
            given["arguments"] = draw.table(keys=ARGUMENTS)
        if draw.chance(0.3):
            title = draw.one(("exchange.bind", "exchange.unbind"))
            ends = {"destination": draw.one(list(EXCHANGES)), "source": draw.one(list(EXCHANGES))}
            return [method(title, channel, **ends, **given)]
        title = draw.one(("queue.bind", "queue.unbind"))
        where = draw.one([*EXCHANGES, "amq.topic", "amq.headers"])
        return [method(title, channel, queue=self.queue(), exchange=where, **given)]

    def remove(self, channel: int) -> list[bytes]:
        """Purge or delete."""
        draw = self.draw
        nowait = draw.chance(0.2)
        if draw.chance(0.3):
            name = draw.one(list(EXCHANGES))
            return [method("exchange.delete", channel, exchange=name, nowait=nowait)]
        title = draw.one(("queue.purge", "queue.delete"))
        given = {"if_unused": draw.chance(0.3)} if title == "queue.delete" else {}
        return [method(title, channel, queue=self.queue(), nowait=nowait, **given)]

    def publishes(self, channel: int) -> list[bytes]:
        """Publish a message, or a run of them to one place."""
        draw = self.draw
        exchange = draw.one(KNOWN_EXCHANGES)
        key = self.queue() if exchange == "" else draw.one(("k", "a.b.c", "", "a.b"))
        said = method(
            "basic.publish", channel, exchange=exchange, routing_key=key, mandatory=draw.chance(0.2)
        )
        content = self.content(channel)
        small = sum(map(len, content)) < 2_000
        return [said, *content] * draw.one((1, 1, 1, 3, 30) if small else (1, 1, 2))

    def content(self, channel: int) -> list[bytes]:
        """Draw a content header and the body that it announces."""
        draw = self.draw
        body = bytes(draw.one(BODY_BYTES))
        pieces = [frame(HEADER, channel, encode_properties(len(body), self.properties()))]
        step = draw.one((4_088, 131_064, max(1, len(body) // 3)))
        pieces += [frame(BODY, channel, body[at : at + step]) for at in range(0, len(body), step)]
        return pieces

    def properties(self) -> dict[str, Any]:
        """Draw a message's properties."""
        draw = self.draw
        if draw.chance(0.4):
            return {"delivery_mode": draw.one((1, 2))}
        found: dict[str, Any] = {}
        for key, kind in PROPERTIES:
            if draw.chance(0.3):
                found[key] = self.argument(kind)
        if draw.chance(0.3):
            found["headers"] = draw.table(keys=ARGUMENTS)
        if draw.chance(0.2):
            copies = [Typed("S", draw.short_text()) for _ in range(draw.one((0, 1, 5)))]
            found["headers"] = {draw.one(("CC", "BCC")): Typed("A", copies)}
        if draw.chance(0.8):
            found.pop("user_id", None)
        if draw.chance(0.8):
            found["expiration"] = draw.one(("0", "10", "100000"))
        return found

    def settles(self, channel: int) -> list[bytes]:
        """Acknowledge, refuse or give back, alone or in runs as the fast ways take them."""
        draw = self.draw
        first = draw.one((0, 1, 1, 1, 2, 5, 20))
        tags = range(first, first + draw.one((1, 1, 2, 10)))
        pieces = []
        for tag in tags:
            if draw.chance(0.05):
                tag = draw.unsigned(64)
            name = draw.weighted(((8, "basic.ack"), (2, "basic.nack"), (2, "basic.reject")))
            given: dict[str, Any] = {"delivery_tag": tag}
            if name != "basic.reject":
                given["multiple"] = draw.chance(0.2)
            if name != "basic.ack":
                given["requeue"] = draw.chance(0.5)
            pieces.append(method(name, channel, **given))
        return pieces

    def consume(self, channel: int) -> list[bytes]:
        """Begin or end to consume."""
        draw = self.draw
        tag = draw.one(("c1", "c2", "c3", ""))
        if draw.chance(0.2):
            return [method("basic.cancel", channel, consumer_tag=tag, nowait=draw.chance(0.3))]
        queue = draw.one((self.queue(), "amq.rabbitmq.reply-to")) if draw.chance(0.1) else ""
        given = {"queue": queue or self.queue(), "consumer_tag": tag}
        flags = {name: draw.chance(0.2) for name in ("no_ack", "exclusive", "nowait", "no_local")}
        table = draw.table(keys=ARGUMENTS) if draw.chance(0.1) else {}
        prefetch = draw.one((0, 1, 10, 65_535))
        qos = method("basic.qos", channel, prefetch_count=prefetch, **{"global": draw.chance(0.2)})
        return [qos, method("basic.consume", channel, **given, **flags, arguments=table)]

    def get(self, channel: int) -> list[bytes]:
        """Get messages one by one."""
        asked = method("basic.get", channel, queue=self.queue(), no_ack=self.draw.chance(0.5))
        return [asked] * self.draw.one((1, 1, 5))

    def modes(self, channel: int) -> list[bytes]:
        """Choose what the channel promises, and end a transaction."""
        draw = self.draw
        name = draw.one(
            (
                *("confirm.select", "tx.select", "tx.commit", "tx.rollback", "basic.recover"),
                *("basic.recover-async", "channel.flow", "basic.qos"),
            )
        )
        given: dict[str, Any] = {}
        if name.startswith("basic.recover"):
            given = {"requeue": draw.chance(0.8)}
        elif name == "channel.flow":
            given = {"active": draw.chance(0.9)}
        elif name == "basic.qos":
            given = {"prefetch_size": draw.one((0, 0, 0, 1)), "prefetch_count": draw.unsigned(16)}
        return [method(name, channel, **given)]

    def channel_ends(self, channel: int) -> list[bytes]:
        """Open, close and answer closes of a channel, in any order."""
        draw = self.draw
        names = ("channel.open", "channel.close", "channel.close-ok", "channel.open")
        return [method(draw.one(names), channel) for _ in range(draw.count(1, 4))]

    def beats(self, channel: int) -> list[bytes]:
        """Send heartbeats, as they have to be or not."""
        draw = self.draw
        if draw.chance(0.8):
            return [frame(HEARTBEAT, 0, b"")] * draw.one((1, 2, 50))
        return [frame(HEARTBEAT, draw.one((0, channel)), draw.bytes(4))]

    # --- what may be wrong ----------------------------------------------------------------------

    def argument(self, kind: str) -> Any:
        """Draw a method's argument of a type, up to its ends."""
        draw = self.draw
        if kind == "b":
            return draw.chance(0.5)
        if kind == "s":
            return draw.one(list(QUEUES)).encode() if draw.chance(0.3) else draw.short_text()
        if kind == "S":
            return draw.bytes(300)
        if kind == "F":
            return draw.table(keys=ARGUMENTS)
        return draw.unsigned({"o": 8, "h": 16, "l": 32, "L": 64}[kind])

    def anything(self, channel: int) -> list[bytes]:
        """Draw any method with any arguments, and of any length."""
        draw = self.draw
        name = draw.one(list(METHODS))
        signature = [item.rsplit(":", 1) for item in METHODS[name][2].split()]
        payload = encode_method(name, {key: self.argument(kind) for key, kind in signature})
        way = draw.count(0, 3)
        if way == 0:
            payload = payload[: draw.count(0, len(payload))]
        elif way == 1:
            payload += draw.bytes(12)
        where = 0 if name.startswith("connection.") else channel
        return [frame(METHOD, where, payload)]

    def acks_of_any_length(self, channel: int) -> list[bytes]:
        """Acknowledge in frames of every length about the right one, beside right ones."""
        draw = self.draw
        right = method("basic.ack", channel, delivery_tag=1)
        payload = right[7:-1]
        several = [right] * draw.one((0, 1, 3))
        size = draw.count(4, 2 * ACK_BYTES + 1) if draw.chance(0.2) else ACK_BYTES
        odd = frame(METHOD, channel, (payload + draw.random.randbytes(ACK_BYTES + 1))[:size])
        if draw.chance(0.2):
            odd = frame(METHOD, channel, payload, draw.one((0, 0xCD, 0xCF)))
        return [*several, odd, *([right] if draw.chance(0.5) else [])]

    def damaged(self, pieces: list[bytes]) -> list[bytes]:
        """Do to some frames what breaks them."""
        draw = self.draw
        at = draw.count(0, len(pieces) - 1)
        before, victim, behind = pieces[:at], pieces[at], pieces[at + 1 :]
        kind, channel, payload = victim[0], victim[1] << 8 | victim[2], victim[7:-1]
        way = draw.count(0, 13)
        if way == 0:  # cut, and whole all the same
            changed = [frame(kind, channel, payload[: draw.count(0, len(payload))])]
        elif way == 1:
            changed = [frame(kind, channel, payload + draw.bytes(20))]
        elif way == 2:
            changed = [frame(kind, channel, payload, draw.unsigned(8))]
        elif way == 3:  # of another length than it says
            lengths = (0, 1, len(payload) - 1, len(payload) + 1, len(payload) + 8, 131_064, 131_065)
            odd = draw.one((*lengths, (1 << 31) - 1, 1 << 31, (1 << 32) - 1))
            changed = [frame(kind, channel, payload, size=max(0, odd))]
        elif way == 4:
            changed = [frame(kind, draw.one((0, channel + 1, 0xFFFF, 256)), payload)]
        elif way == 5:
            changed = [frame(draw.one((0, 1, 2, 3, 4, 8, 255)), channel, payload)]
        elif way == 6:  # a frame within a frame
            changed = [frame(kind, channel, draw.one((victim, payload[:4] + victim)))]
        elif way == 7:
            changed = [frame(draw.one((BODY, HEADER, METHOD)), channel, victim * 2)]
        elif way == 8:  # bytes turned over
            raw = bytearray(victim)
            for _ in range(draw.count(1, 4)):
                raw[draw.count(0, len(raw) - 1)] = draw.unsigned(8)
            changed = [bytes(raw)]
        elif way == 9:
            changed = [victim] * draw.count(2, 4)
        elif way == 10:
            changed = []
        elif way == 11:  # in another order
            changed = behind[::-1]
            behind = [victim]
        elif way == 12:
            changed = self.odd_content(channel)
        else:
            changed = [victim[: draw.count(0, len(victim) - 1)]]
        return [*before, *changed, *behind]

    def odd_content(self, channel: int) -> list[bytes]:
        """Draw a content that is at odds with itself."""
        draw = self.draw
        size, weight, flags = draw.unsigned(64), draw.one((0, 0, 1, 65_535)), draw.unsigned(16)
        class_id = draw.one((60, 60, 0, 10, 65_535))
        header = struct.pack(">HHQH", class_id, weight, size, flags) + draw.bytes(60)
        if draw.chance(0.4):
            header = encode_properties(draw.one((0, 1, 10, 11)), self.properties())
        header = header[: draw.count(0, len(header))] if draw.chance(0.3) else header
        bodies = [frame(BODY, channel, draw.bytes(30)) for _ in range(draw.count(0, 3))]
        said = method("basic.publish", channel, routing_key="f.classic")
        return [
            said,
            frame(HEADER, channel, header),
            *bodies,
            *([said] if draw.chance(0.3) else []),
        ]
