"""What draining many backlogs reads from the disk, beside what is drained.

    python -m bench.backlogs [--queues 38] [--messages 1000] [--run 100] [--size 1000]
                              [--prefetch 10]

Publishes to all queues in turn, starts the broker again so that nothing is in memory, and drains
all queues side by side, over one channel each. Bytes read are those of the broker's process
(`rchar` of its io counters, which has what comes over sockets as well: some hundred bytes a
message). The queues are durable classic ones.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker import Broker, free_port


def bytes_read(pid: int) -> int:
    """What a process has read so far."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("rchar: "):
            return int(line.split()[1])
    raise RuntimeError("the kernel counts no reads")


def fill(broker: Broker, queues: int, messages: int, size: int, run: int) -> None:
    """Publish to all queues in turn, some messages each time."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for number in range(queues):
            channel.queue_declare(f"q{number}", durable=True)
        lasting = pika.BasicProperties(delivery_mode=2)
        channel.tx_select()
        for _ in range(messages // run):
            for number in range(queues):
                for _ in range(run):
                    channel.basic_publish("", f"q{number}", bytes(size), lasting)
            channel.tx_commit()


def drain(broker: Broker, queues: int, messages: int, prefetch: int) -> tuple[int, float]:
    """Drain all queues; bytes read and seconds."""
    left = queues * messages

    def took(channel: BlockingChannel, method: object, properties: object, body: bytes) -> None:
        nonlocal left
        left -= 1
        channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        before, began = bytes_read(broker.pid), time.perf_counter()
        for number in range(queues):
            channel = connection.channel()
            channel.basic_qos(prefetch_count=prefetch)
            channel.basic_consume(f"q{number}", took)
        while left:
            connection.process_data_events(time_limit=1)
        return bytes_read(broker.pid) - before, time.perf_counter() - began


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--queues", type=int, default=38)
    words.add_argument("--messages", type=int, default=1_000, help="in each queue")
    words.add_argument("--run", type=int, default=100, help="messages before the next queue's turn")
    words.add_argument("--size", type=int, default=1_000, help="of a body, bytes")
    words.add_argument("--prefetch", type=int, default=10)
    chosen = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(free_port(), Path(folder) / "data")
        broker.options = ["--cluster-port", str(free_port())]
        broker.start()
        fill(broker, chosen.queues, chosen.messages, chosen.size, chosen.run)
        broker.restart()
        read, seconds = drain(broker, chosen.queues, chosen.messages, chosen.prefetch)
        broker.stop()
    count = chosen.queues * chosen.messages
    print(
        f"{count:,} messages of {chosen.size} B from {chosen.queues} queues: {read / count:,.0f} B "
        f"read a message, {read / 1e6:,.1f} MB in {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
