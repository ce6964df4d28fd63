"""What one command costs a node whose queue has its messages in as many runs.

    python -m bench.scattered [--runs 500000] [--kind classic|quorum|transient] [COMMAND ...]

One node, with its disk and clients in memory. A channel was handed twice as many messages as there
are to be runs, and acked every second of them, so that each of the rest is a run of its own: for
the channel, for its consumer and for its queue. A consumer of a quorum queue may hold 65,535, so
that it has several there, which take turns. A node is filled for each command. Then the command
is sent, and told are the longest turn from there until all is done, how many took more than a
millisecond, and the sum of all, in seconds of the processor. `snapshot` and `live` are no commands
of clients: the one is the queue's state for the log, the other what is found out when files are
compacted, part by part. `status` is `table.status`, for quorum queues, of what is ready again.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames, method_frame

PART = 1_000
"""Messages that are published or acked in one go while a node is filled."""

PREFETCH_MAX = 65_535

TURNS_MAX = 1_000_000
IDLE_TURNS = 400
"""Two seconds: a member that is alone may wait as long before it leads."""

TURN_MS = 5
TICK_MS = 1_000
"""How often a node looks after its queues, as in a server."""


class Silent(Client):
    """A client that does not look at what it is sent."""

    def write(self, data: bytes) -> None:
        if not self.opened:
            super().write(data)


class Filled:
    """A node with such a queue, and the client that consumes from it."""

    def __init__(self, kind: str, runs: int, transactional: bool) -> None:
        self.pair = Pair(alone=True, file_bytes=1 << 26)
        self.node = self.pair.a.node
        self.last_tag = 2 * runs
        self.idle = False
        self._tick_ms = 0
        self.parts: list[float] = []
        """What was not done in turns of the node."""
        self.began = 0.0
        """When the command was sent, in seconds of the processor."""
        other = self.pair.a.client()
        other.declare("q", durable=kind != "transient", kind=kind.replace("transient", "classic"))
        self.queue = self.pair.a.queue("q")
        self.client = Silent(self.pair.a)
        self.pair.a.clients.append(self.client)
        self.pair.until(lambda: self.client.opened)
        channel: Any = self.client.end.channels[1]
        consumers = 1
        if kind == "quorum":
            consumers = 2 * runs // PREFETCH_MAX + 1
            self.client.send(spec.BasicQos(0, PREFETCH_MAX, False))
        for number in range(consumers):
            name = f"c{number}"
            self.client.send(spec.BasicConsume(0, "q", name, False, False, False, False, {}))
            self.rest()
        publish = spec.BasicPublish(0, "", "q", False, False)
        part = content_frames(1, publish, b"\x10\x00\x02", b"", 131_072) * PART
        for _ in range(2 * runs // PART):
            self.client.outbox += part
            self.rest(1)
        self.rest()
        if transactional:
            self.client.send(spec.TxSelect())
        for first in range(2, 2 * runs, 2 * PART):
            for tag in range(first, min(first + 2 * PART, 2 * runs), 2):
                self.client.outbox += method_frame(1, spec.BasicAck(tag, False).encode())
            self.rest(1)
        self.rest()
        assert transactional or channel.unsettled.count() == runs + 1
        held = [consumer.holding() for consumer in self.queue.fifo.consumers.values()]
        assert transactional or sum(map(len, held)) >= runs
        del held

    def turn(self) -> float:
        """Let everybody do what is to be done; seconds of the node's turn.

        What a disk thread has done is told in it; what it does costs no turn.
        """
        executor = self.pair.a.executor
        told = len(executor._finished) - 1
        began = time.process_time()
        executor.step()
        if len(executor._finished) != told:
            began = time.process_time()
        self.client.exchange()
        self.node.turn()
        took = time.process_time() - began
        self.idle = not self.node.needs_turn and not self.queue.fifo.unfinished()
        # A publisher that its queue holds back has more to say.
        self.idle = self.idle and not self.client.outbox and self.node.ready
        self.pair.clock.advance(TURN_MS)
        self.node.tick_log()
        if self.pair.clock.monotonic_ms() >= self._tick_ms:
            self._tick_ms = self.pair.clock.monotonic_ms() + TICK_MS
            self.node.tick(0)
        return took

    def rest(self, turns: int = IDLE_TURNS) -> list[float]:
        """Go on until nothing was to do for some turns; what each took."""
        took: list[float] = []
        idle = 0
        while idle < turns:
            took.append(self.turn())
            idle = idle + 1 if self.idle else 0
            assert len(took) < TURNS_MAX
        return took


def send(method: Callable[[int], spec.Method]) -> Callable[[Filled], None]:
    """A command that the consuming client sends; it may be about the last tag."""
    return lambda filled: filled.client.send(method(filled.last_tag))


def purge(filled: Filled) -> None:
    """What the channel held is ready before."""
    make_ready(filled)
    filled.client.send(spec.QueuePurge(0, "q", False))


def status(filled: Filled) -> None:
    """Likewise."""
    make_ready(filled)
    filled.client.send(spec.TableStatus(queue="q", group="group"))


def roll_back_and_ack(filled: Filled) -> None:
    """What was acked, one by one, is unsettled again before, between what was all the time."""
    filled.client.send(spec.TxRollback())
    filled.rest()
    filled.began = time.process_time()
    filled.client.send(spec.BasicAck(filled.last_tag - 1, True))


def publish_in_turn(filled: Filled) -> None:
    """Publish in a transaction, to queues that take turns, as many messages as there are runs."""
    filled.client.send(spec.QueueDeclare(0, "r", False, True, False, False, False, {}))
    part = b"".join(
        content_frames(
            1, spec.BasicPublish(0, "", name, False, False), b"\x10\x00\x02", b"", 131_072
        )
        for name in ("q", "r")
    )
    for _ in range(filled.last_tag // 2 // PART):
        filled.client.outbox += part * (PART // 2)
        filled.rest(1)
    filled.rest()
    filled.began = time.process_time()


def commit_messages(filled: Filled) -> None:
    publish_in_turn(filled)
    filled.client.send(spec.TxCommit())


def forget_messages(filled: Filled) -> None:
    publish_in_turn(filled)
    filled.client.send(spec.TxRollback())


def lose_transaction(filled: Filled) -> None:
    publish_in_turn(filled)
    lose(filled)


def make_ready(filled: Filled) -> None:
    filled.client.send(spec.ChannelClose(0, "", 0, 0))
    filled.client.send(spec.ChannelOpen())
    filled.rest()
    filled.began = time.process_time()


def crash(filled: Filled) -> None:
    """The node dies with a consumer, and with all else ready; told is what it does once it runs."""
    make_ready(filled)
    filled.client.send(spec.BasicQos(0, 1, False))
    filled.client.send(spec.BasicConsume(0, "q", "", False, False, False, False, {}))
    filled.rest()
    filled.client.outbox.clear()
    filled.pair.a.kill()
    filled.pair.a.start()
    filled.node = filled.pair.a.node
    filled.queue = filled.pair.a.queue("q")
    gc.collect()
    filled.began = time.process_time()


def live(filled: Filled) -> None:
    gathering = filled.queue.gather_live()
    filled.parts = timed_parts(gathering.go_on)


def timed_parts(go_on: Callable[[], bool]) -> list[float]:
    """What each part of some work takes."""
    took: list[float] = []
    through = False
    while not through:
        began = time.process_time()
        through = go_on()
        took.append(time.process_time() - began)
    return took


def lose(filled: Filled) -> None:
    filled.pair.a.clients.remove(filled.client)
    filled.client.over = True
    filled.client.end.lost()


COMMANDS: dict[str, Callable[[Filled], None]] = {
    "ack": send(lambda tag: spec.BasicAck(tag - 1, True)),
    "nack": send(lambda tag: spec.BasicNack(tag, True, True)),
    "discard": send(lambda tag: spec.BasicNack(tag, True, False)),
    "recover": send(lambda tag: spec.BasicRecover(True)),
    "cancel": send(lambda tag: spec.BasicCancel("c0", False)),
    "channel.close": send(lambda tag: spec.ChannelClose(0, "", 0, 0)),
    "connection.close": lose,
    "purge": purge,
    "delete": send(lambda tag: spec.QueueDelete(0, "q", False, False, False)),
    "tx.commit": send(lambda tag: spec.TxCommit()),
    "tx.rollback": send(lambda tag: spec.TxRollback()),
    "tx.recover": send(lambda tag: spec.BasicRecover(True)),
    "tx.rollback+ack": roll_back_and_ack,
    "tx.messages": commit_messages,
    "tx.messages+rollback": forget_messages,
    "tx.lose": lose_transaction,
    "crash": crash,
    "status": status,
    "snapshot": lambda filled: filled.node.want_snapshot(int(filled.queue.group_id)),
    "live": live,
}

ONLY = {
    "crash": ("quorum", "classic"),
    "status": ("quorum",),
    "snapshot": ("quorum", "classic"),
    "live": ("quorum", "classic"),
}
"""Kinds of queues that know a command, where that is not all."""


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("commands", nargs="*", metavar="COMMAND", help=" ".join(COMMANDS))
    words.add_argument("--runs", type=int, default=500_000)
    words.add_argument("--kind", choices=["classic", "quorum", "transient"], default="classic")
    chosen = words.parse_args()
    for name in chosen.commands or COMMANDS:
        if chosen.kind not in ONLY.get(name, (chosen.kind,)):
            continue
        filled = Filled(chosen.kind, chosen.runs, name.startswith("tx."))
        gc.collect()
        gc.disable()
        filled.began = time.process_time()
        COMMANDS[name](filled)
        took = [time.process_time() - filled.began]
        if filled.parts:
            # The first also began it.
            took = [max(took[0] - sum(filled.parts), 0.0) + filled.parts[0], *filled.parts[1:]]
        took += filled.rest()
        gc.enable()
        print(
            f"{chosen.kind} {name}: longest turn {max(took) * 1e3:,.1f} ms, "
            f"{sum(one > 1e-3 for one in took)} of more than 1 ms, all {sum(took) * 1e3:,.0f} ms; "
            f"{filled.queue.ready_count():,} ready",
            flush=True,
        )
        del filled


if __name__ == "__main__":
    main()
