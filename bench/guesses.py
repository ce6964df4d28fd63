"""How many passwords strangers can try, and what that costs the clients of a node.

    python -m bench.guesses [--attackers 10] [--rate 1000] [--seconds 10] [--only REGEX]

A node of its own takes 1,000 messages of 256 bytes a second through ten queues meanwhile, as in
`bench.watched`. So many attackers, each a connection over HTTP or one AMQP connection after the
other, try one wrong password after the other:

    nothing         nobody tries any
    http, amqp      for the user `guest`
    http many, amqp many
                    each attacker for 16 users in turn, whom there are not
    http argon2, amqp argon2
                    for a user who has never logged in

Passwords that the node did not look at are no guesses: it says so to clients of AMQP (320), and
over HTTP it answers them after 5 s. With each row goes how long a user waits meanwhile, who logs in
for the first time with the right password, over HTTP, from another address.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import multiprocessing
import re
import socket
import tempfile
import threading
import time
from base64 import b64encode
from pathlib import Path

from bench.watched import BUSY, HOST, declare, processor_seconds, rank, started, traffic
from warren.node.login_turns import LINES_OF_NETWORK, WAIT_MS_MAX
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import PROTOCOL_HEADER, method_frame
from warren.wire.amqp091.table import Table

ELSEWHERE = "127.0.0.2"
"""Another address of this machine."""
SLOW = "slow"
"""A user whose hash is Argon2id."""
PASSWORD = "a-long-secret"
COLUMNS = "guesses a second | messages p50 ms | p99 | max | first login ms | node's CPU %"
CAPABILITIES: Table = {"capabilities": {"authentication_failure_close": True}}


def basic(user: str, password: str) -> dict[str, str]:
    token = b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {token}"}


def status(
    connection: http.client.HTTPConnection, user: str, password: str, path: str = "/api/whoami"
) -> int:
    """The status of the answer to one request."""
    connection.request("GET", path, headers=basic(user, password))
    answer = connection.getresponse()
    answer.read()
    return answer.status


def over_http(port: int, users: list[str], until: float, first: int) -> int:
    """Try passwords on one connection; how many were looked at."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    looked_at = 0
    for tried in itertools.count():
        began = time.monotonic()
        if began > until:
            return looked_at
        user = users[(first + tried) % len(users)]
        assert status(connection, user, f"wrong-{first}-{tried}") == 401
        looked_at += time.monotonic() - began < WAIT_MS_MAX / 1_000
    raise AssertionError


def over_amqp(port: int, users: list[str], until: float, first: int) -> int:
    """Try passwords, each on a connection of its own; how many were looked at."""
    refused, unseen = (
        method_frame(0, spec.ConnectionClose(code, "", 0, 0).encode())[7:13] for code in (403, 320)
    )
    looked_at = 0
    for tried in itertools.count():
        if time.monotonic() > until:
            return looked_at
        user = users[(first + tried) % len(users)]
        login = f"\0{user}\0wrong-{first}-{tried}".encode()
        method = spec.ConnectionStartOk(CAPABILITIES, "PLAIN", login, "en_US")
        with socket.create_connection((HOST, port), 60) as stranger:
            stranger.sendall(PROTOCOL_HEADER + method_frame(0, method.encode()))
            heard = b""
            while refused not in heard and unseen not in heard:
                data = stranger.recv(65_536)
                assert data, heard
                heard += data
            looked_at += refused in heard
    raise AssertionError


TRIES = {"http": over_http, "amqp": over_amqp}


def attack(
    kind: str,
    port: int,
    users: list[str],
    seconds: float,
    attackers: int,
    told: multiprocessing.Queue[int],
) -> None:
    """Try passwords in so many threads, and put how many there were into a queue."""
    until = time.monotonic() + seconds
    counts = [0] * attackers

    def one(number: int) -> None:
        counts[number] = TRIES[kind](port, users, until, number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(attackers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put(sum(counts))


def first_login(port: int, user: str) -> float:
    """How long the first login of a user takes, from another address, in seconds."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(HOST, port, timeout=60, source_address=(ELSEWHERE, 0))
    found = status(connection, user, PASSWORD)
    assert found in (200, 401), found
    return time.monotonic() - began if found == 200 else float("inf")


def add_user(port: int, user: str) -> None:
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    body = f'{{"password": "{PASSWORD}", "tags": "management"}}'
    connection.request("PUT", f"/api/users/{user}", body, basic("guest", "guest"))
    answer = connection.getresponse()
    assert answer.status in (201, 204), answer.read()
    answer.read()


def measure(options: argparse.Namespace, ports: list[int], pid: int) -> None:
    ours, theirs = multiprocessing.Pipe()
    busy = multiprocessing.Process(target=traffic, args=(ports[0], options.rate, theirs))
    busy.start()
    print(f"| | {COLUMNS} |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    time.sleep(2)
    more = ("", " many", " argon2")
    rows = ["nothing", *(f"{kind}{whom}" for whom in more for kind in TRIES)]
    for number, name in enumerate(rows):
        if options.only and not re.fullmatch(options.only, name):
            continue
        add_user(ports[1], f"{SLOW}{number}")
        ours.send("tell")
        ours.recv()
        used = processor_seconds(pid)
        told: multiprocessing.Queue[int] = multiprocessing.Queue()
        kind, _, whom = name.partition(" ")
        first = 0.0
        if kind in TRIES:
            users = ["guest"]
            if whom == "many":
                users = [f"nobody{one}" for one in range(LINES_OF_NETWORK)]
            elif whom:
                users = [f"{SLOW}{number}"]
            port = ports[1] if kind == "http" else ports[0]
            words = (kind, port, users, options.seconds, options.attackers, told)
            attackers = multiprocessing.Process(target=attack, args=words)
            attackers.start()
            time.sleep(options.seconds / 2)
            first = first_login(ports[1], f"{SLOW}{number}")
            guesses = told.get()
            attackers.join()
        else:
            time.sleep(options.seconds)
            guesses = 0
        ours.send("tell")
        took = ours.recv()
        used = processor_seconds(pid) - used
        cells = [name, f"{guesses / options.seconds:.0f}"]
        cells += [f"{1_000 * rank(took, share):.1f}" for share in (0.5, 0.99, 1.0)]
        cells += [f"{1_000 * first:.0f}", f"{100 * used / options.seconds:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    ours.send("end")
    busy.join()


async def guesses(options: argparse.Namespace, folder: Path) -> None:
    broker, node = await started(folder)
    try:
        await declare(broker.ports[0], BUSY)
        await asyncio.to_thread(measure, options, broker.ports, node.pid)
    finally:
        node.terminate()
        node.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attackers", type=int, default=10)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(guesses(options, Path(folder)))


if __name__ == "__main__":
    main()
