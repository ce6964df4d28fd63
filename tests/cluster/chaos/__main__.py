"""One run: cycles of one kind of fault under publishers and consumers, in a network of its own.

    unshare --net python -m tests.cluster.chaos --fault kill --nodes 3 --cycles 10 --folder DIR

The history is in DIR/history, the nodes' data and logs beside it. Ends with 1 if the run could not
be finished; what the history says is for the checker.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from pathlib import Path

from sim.history.events import History, Log
from tests.clients.support import eventually
from tests.cluster.chaos.clients import CONSUMERS, PUBLISHERS, Client, RawConsumer, Work
from tests.cluster.chaos.faults import KINDS
from tests.cluster.chaos.lab import HEALED_S, Lab

GOES_ON = 20
"""Messages that each client has to get through before something else goes wrong."""
DRAIN_S = 120.0


def main() -> int:
    """Do what the words say."""
    parser = argparse.ArgumentParser(prog="tests.cluster.chaos")
    parser.add_argument("--fault", choices=KINDS, required=True)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0, help="the longest fault")
    parser.add_argument("--pace", type=float, default=1.0, help="of the publishers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    words = parser.parse_args()
    # What the clients think of lost connections is in the history.
    logging.disable()
    words.folder.mkdir(parents=True, exist_ok=True)
    history = History(words.folder / "history")
    lab = Lab(words.folder, words.nodes, *KINDS[words.fault].options)
    try:
        lab.start()
        run(words, lab, history)
        lab.cluster.check_alive()
    finally:
        history.close()
        lab.close()
    return 0


def run(words: argparse.Namespace, lab: Lab, history: History) -> None:
    """All cycles, then the rest is drained."""
    dice = random.Random(words.seed)
    queues = {"three": 3} if words.nodes == 3 else {"three": 3, "five": 5}
    for queue, voters in queues.items():
        lab.declare(queue, voters)
    names = list(queues)
    work = Work(history, [node.address for node in lab.cluster.nodes], words.seed, words.pace)
    places = {queue: lab.places(queue) for queue in names}
    publishers = start(work, PUBLISHERS, places)
    consumers = start(work, CONSUMERS, places)
    log = history.log("nemesis")
    fault = KINDS[words.fault](lab, dice, words.seconds)
    for cycle in range(words.cycles):
        lab.whole(names)
        for queue in names:
            log.note("leader", "ok", queue, node=lab.leader(queue).name)
        go_on(publishers, consumers)
        what, end = fault.strike(lab.leader(dice.choice(names)))
        say(f"{cycle + 1}/{words.cycles} {what}; {work.confirmed:,} confirmed so far")
        log.note("fault", "invoke", what=what)
        end()
        log.note("fault", "ok", what=what)
    lab.whole(names)
    fault.over()
    lab.whole(names)
    go_on(publishers, consumers)
    finish(work, lab, publishers, consumers, names, log)


def start(work: Work, kinds: tuple[type, ...], places: dict[str, list[int]]) -> list[Client]:
    """A client of every library for every queue, each of a queue at a node of its own."""
    made: list[Client] = []
    for queue, homes in places.items():
        for kind, home in zip(kinds, homes, strict=False):
            made.append(kind(work, f"{kind.__name__}-{queue}", queue, home))
            made[-1].start()
    return made


def go_on(publishers: list[Client], consumers: list[Client]) -> None:
    """Wait until every publisher, and the consumers together, got through with some more."""
    before = [client.done for client in publishers]
    received = sum(client.done for client in consumers)

    def more() -> bool:
        for client in [*publishers, *consumers]:
            assert client.failure is None, f"{client.name}: {client.failure!r}"
        got = sum(client.done for client in consumers) - received
        return got >= GOES_ON and all(
            client.done >= done + GOES_ON for client, done in zip(publishers, before, strict=True)
        )

    eventually(more, HEALED_S)


def finish(
    work: Work,
    lab: Lab,
    publishers: list[Client],
    consumers: list[Client],
    queues: list[str],
    log: Log,
) -> None:
    """Stop the publishers, empty the queues, stop the consumers, and see whether that was all."""
    work.stopping.set()
    for client in publishers:
        client.join(HEALED_S)
        assert not client.is_alive(), f"{client.name} does not end"
    eventually(lambda: all(lab.ready(queue) == 0 for queue in queues), DRAIN_S)
    work.over.set()
    for client in consumers:
        client.join(HEALED_S)
        assert not client.is_alive(), f"{client.name} does not end"
    # What those held came back when they left.
    rest = Work(work.history, work.nodes, work.seed)
    for queue in queues:
        last = RawConsumer(rest, f"last-{queue}", queue, 0)
        last.start()
        eventually(lambda queue=queue: lab.ready(queue) == 0, DRAIN_S)
        seen = -1
        while seen != last.done:
            seen = last.done
            time.sleep(1.0)
        consumers.append(last)
    rest.over.set()
    for client in consumers:
        client.join(HEALED_S)
        assert client.failure is None and not client.is_alive(), client.failure
    say(f"{work.confirmed:,} confirmed")


def say(text: str) -> None:
    """Tell whoever looks on."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
