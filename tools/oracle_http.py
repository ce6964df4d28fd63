"""Talks to brokers over HTTP as tests/http has it: records answers, or compares them.

    python tools/oracle_http.py record HOST:PORT AMQP_PORT [TALK ...]   store what RabbitMQ answers
    python tools/oracle_http.py stale HOST:PORT AMQP_PORT [TALK ...]    where it answers otherwise
    python tools/oracle_http.py warren HOST:PORT AMQP_PORT [TALK ...]   where Warren does

TALK is a talk, or the beginning of some. What Warren does otherwise on purpose is listed, with its
reason, in `tests/http/deviations.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.http import recorded
from tests.http.talk import Peer
from tests.http.verdict import differences, unlike


def main(words: list[str]) -> int:
    """Record or compare; the exit code says whether everything agreed."""
    if len(words) < 3 or words[0] not in ("record", "stale", "warren"):
        print(__doc__)
        return 2
    action, where, amqp_port, *names = words
    host, _, port = where.rpartition(":")
    peer = Peer(host, int(port), int(amqp_port))
    stored = recorded.read()
    wrong = asks = 0
    for name, talk in recorded.TALKS.items():
        if names and not name.startswith(tuple(names)):
            continue
        said = peer.talk(talk)
        asks += len(said)
        if action == "record":
            stored[name] = said
            continue
        compare = unlike if action == "stale" else differences
        for text in compare(name, stored.get(name, []), said):
            wrong += 1
            print(text)
    if action == "record":
        recorded.write(stored)
    print(f"{asks} requests, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
