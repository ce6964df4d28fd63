"""One run of a fuzzer: nodes, well-behaved clients beside it, the probe, and what is held to them.

A run is a row of episodes, each drawn from the run's seed and its number. What may not be: a node
that ends by itself, `[CRITICAL]` or a traceback in its log, an answer that says that it failed,
another client that waits for too long, a confirmed message that is lost, and memory, descriptors or
objects that do not come back once the fuzzer has gone.
"""

from __future__ import annotations

import re
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from tests.clients.support import eventually
from tests.cluster.traffic import Consumer, Publisher, all_taken, check_books
from tests.fuzz import clients, requests
from tests.fuzz.answers import wrong_in_answers
from tests.fuzz.drawing import Draw
from tests.fuzz.frames import EXCHANGES, QUEUES
from tests.fuzz.probe import Asked, Bounds, Probe, Wait
from tests.fuzz.scripts import Script
from tests.fuzz.sockets import READ_SECONDS, Unplayable, play
from tests.fuzz.watched import Found, Held, Watched
from tests.support.patience import patient

FRAMES, HTTP = "frames", "http"
FUZZERS = (FRAMES, HTTP)
WARMING_EPISODES = 60
"""Episodes with numbers below 0, which come first in each run. A node needs to have seen something
of all, so that what it keeps for good is there when its memory is looked at."""
CHECK_EACH = 10
SET_UP_EACH = 200
"""Episodes after which what they work on is made anew."""
KEPT = 60
"""Episodes whose scripts are written down where a fault is found."""
COME_BACK_SECONDS = patient(20.0)
PUBLISH_PAUSE_SECONDS = 0.2
STEADY = "steady"
MESSAGE = {
    "properties": {},
    "routing_key": "f.classic",
    "payload": "x",
    "payload_encoding": "string",
}
EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
TOKEN = re.compile(rb'name="token" value="([^"]+)"')


class Waited(Found):
    """Another client of the node waited for too long."""


class Steady(Publisher):
    """A publisher that does not try how fast the nodes are."""

    def _fill(self) -> None:
        self._stop_now.wait(PUBLISH_PAUSE_SECONDS)
        super()._fill()


@dataclass
class Report:
    """What a run did.

    Attributes:
        episodes, cases: How many of each; a case is a request, or some frames that belong together.
        seconds: How long it took.
        asked: Roundtrips of the probe.
        longest: The longest of them.
        confirmed: Messages of the well-behaved publishers that were confirmed, and came.
        before, after: What the first node held.
    """

    episodes: int
    cases: int
    seconds: float
    asked: int
    longest: Wait
    confirmed: int
    before: Held
    after: Held

    def __str__(self) -> str:
        return (
            f"{self.episodes:,} episodes, {self.cases:,} cases in {self.seconds:.0f} s; "
            f"the probe asked {self.asked:,} times: the longest, {self.longest}; "
            f"{self.confirmed:,} messages beside it, none lost; "
            f"before it {self.before}, and after it {self.after}"
        )


class Campaign:
    """A fuzzer, the nodes that it is let loose on, and those who watch.

    Args:
        fuzzer: One of `FUZZERS`.
        seed: What all episodes are drawn from.
        nodes: Nodes that run, of one cluster where there are some.
        bounds: How long other clients may wait.
        folder: Where scripts are written down if a fault is found.
        encrypted: The port of each node for what is fuzzed, over TLS, if clients are to come to
            that, too.
    """

    def __init__(
        self,
        fuzzer: str,
        seed: int,
        nodes: Sequence[Watched],
        bounds: Bounds,
        folder: Path,
        encrypted: Sequence[int] = (),
    ) -> None:
        assert fuzzer in FUZZERS
        self._fuzzer = fuzzer
        self._seed = seed
        self._nodes = nodes
        self._bounds = bounds
        self._folder = folder
        self._amqp: dict[str, tuple[str, int]] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._context = ssl._create_unverified_context()
        self._encrypted = encrypted
        for number, node in enumerate(nodes):
            self._amqp[f"amqp-{number}"] = node.address
        for number, port in enumerate(encrypted):
            self._amqp[f"amqps-{number}"] = (nodes[number].broker.host, port)
            self._contexts[f"amqps-{number}"] = self._context
        self._known: dict[bytes, bytes] = {}
        self._last: deque[tuple[int, list[Script]]] = deque(maxlen=KEPT)
        self._probe: Probe | None = None
        self._steady: tuple[list[Publisher], list[Consumer]] = ([], [])

    def run(
        self, first: int, goes_on: Callable[[int], bool], warming: int = WARMING_EPISODES
    ) -> Report:
        """Play episodes for as long as `goes_on` says so of the number of those played.

        Args:
            first: The number of the first episode.
            warming: How many are played before, for the nodes to have seen all.

        Raises:
            Found: With the seed and the episode in its text.
        """
        episodes = cases = 0
        began = time.monotonic()
        try:
            self._begin_to_watch()
            before = self._warmed_up(warming)
            began = time.monotonic()
            self._set_up()
            while goes_on(episodes):
                cases += self._episode(first + episodes)
                episodes += 1
                if episodes % CHECK_EACH == 0:
                    self._check()
                if episodes % SET_UP_EACH == 0:
                    self._set_up()
            seconds = time.monotonic() - began
            self._check()
            after = self._come_back(before)
            self._stop_watching()
        except AssertionError as fault:
            raise self._told(fault) from fault
        finally:
            if self._probe is not None:
                self._probe.kill()
        probe = self._probe
        assert probe is not None
        confirmed = sum(len(publisher.confirmed) for publisher in self._steady[0])
        return Report(
            episodes, cases, seconds, probe.count, probe.longest, confirmed, before[0], after[0]
        )

    def _told(self, fault: AssertionError) -> Found:
        """A fault with how to bring it about again."""
        number = self._last[-1][0] if self._last else 0
        scripts = self._folder / f"{self._fuzzer}-{self._seed}-{number}.txt"
        lines = [
            f"episode {played}\n  " + "\n  ".join(script.told() for script in each)
            for played, each in self._last
        ]
        scripts.write_text("\n".join(lines) + "\n")
        waited = [] if self._probe is None else self._probe.found
        if waited and not isinstance(fault, Waited):
            fault = Found(f"{fault}\nmeanwhile another client waited: {waited[0]}")
        again = f"python -m tests.fuzz {self._fuzzer} --seed {self._seed}"
        return Found(
            f"{fault}\nfound up to episode {number}: {again}; the last {len(self._last)} episodes "
            f"are in {scripts}, and --first N --episodes 1 plays one"
        )

    # --- episodes -------------------------------------------------------------------------------

    def _episode(self, number: int) -> int:
        """Play one episode; how many cases it had."""
        draw = Draw(self._seed, self._fuzzer, number)
        ports, contexts = self._amqp, self._contexts
        if self._fuzzer == FRAMES:
            scripts = clients.episode(draw, list(ports), list(contexts))
        else:
            scripts = requests.episode(draw)
            chosen = draw.count(0, len(self._nodes) - 1)
            node = self._nodes[chosen]
            metrics = (node.broker.host, int(node.broker.metrics))
            ports, contexts = {requests.API: node.api, requests.METRICS: metrics}, {}
            if self._encrypted and draw.chance(0.5):
                ports[requests.API] = (node.broker.host, self._encrypted[chosen])
                contexts = {requests.API: self._context}
            self._known[requests.HOST] = b"%s:%d" % (node.api[0].encode(), node.api[1])
        self._last.append((number, scripts))
        try:
            wires = play(draw, scripts, ports, contexts, self._fill)
        except Unplayable as refused:
            self._check()
            raise Found(f"no connection is taken: {refused}") from None
        for wire in wires:
            wrong = wrong_in_answers(wire.script, bytes(wire.answers))
            if wrong:
                self._check()
                raise Found(f"{wrong}\nsaid to a client {wire.script.told()[:4_000]}")
        return sum(script.cases for script in scripts)

    def _fill(self, data: bytes) -> bytes:
        for mark, known in self._known.items():
            if mark in data:
                data = data.replace(mark, known)
        return data

    def _set_up(self) -> None:
        """Make what episodes work on, anew."""
        node = self._nodes[0]
        node.clean()
        node.ask("PUT", "/vhosts/f", {})
        node.ask("PUT", "/permissions/f/guest", EVERYTHING)
        for user, tags in {requests.ADMINISTRATOR: "administrator", **requests.ROLES}.items():
            node.ask("PUT", f"/users/{user}", {"password": user, "tags": tags})
            node.ask("PUT", f"/permissions/f/{user}", EVERYTHING)
        for name, said in QUEUES.items():
            node.ask("PUT", f"/queues/f/{name}", said)
        for name, kind in EXCHANGES.items():
            node.ask("PUT", f"/exchanges/f/{name}", {"type": kind})
        for _ in range(3):
            node.ask("POST", "/exchanges/f/amq.default/publish", MESSAGE)
        if self._fuzzer == HTTP:
            self._log_in(node)

    def _log_in(self, node: Watched) -> None:
        """Have a session of the UI, whose cookie and token are put into requests of pages."""
        name = requests.ADMINISTRATOR
        form = urlencode({"username": name, "password": name}).encode()
        host = b"%s:%d" % (node.api[0].encode(), node.api[1])
        post = requests.laid_out(
            b"POST /login HTTP/1.1",
            [(b"host", host), (b"content-length", b"%d" % len(form)), (b"connection", b"close")],
        )
        answer = _answered(node.api, post + form)
        cookie = re.search(rb"set-cookie: ([^;\r]+)", answer)
        if cookie is None:
            raise Found(f"no session is given: {answer[:500]!r}")
        get = [(b"host", host), (b"cookie", cookie[1]), (b"connection", b"close")]
        page = _answered(node.api, requests.laid_out(b"GET /queues HTTP/1.1", get))
        token = TOKEN.search(page)
        if token is None:
            raise Found(f"a page has no form: {page[:500]!r}")
        name_of_node = node.ask("GET", "/overview")["node"].encode()
        self._known |= {
            requests.COOKIE: cookie[1], requests.TOKEN: token[1], requests.NODE: name_of_node,
        }  # fmt: skip

    # --- those who watch ------------------------------------------------------------------------

    def _warmed_up(self, warming: int) -> list[Held]:
        """Have the nodes seen all there is once; what they hold then."""
        self._set_up()
        for number in range(-warming, 0):
            self._episode(number)
        self._check()
        self._nodes[0].clean()
        return [self._settled(node) for node in self._nodes]

    def _settled(self, node: Watched) -> Held:
        """What a node holds when those who watch are its only clients."""
        watching = sum(map(len, self._steady)) + len(self._nodes)
        eventually(lambda: node.held().objects["connections"] == watching, COME_BACK_SECONDS)
        return node.held()

    def _begin_to_watch(self) -> None:
        asked = [Asked(each.broker.pid, each.address, each.api) for each in self._nodes]
        first = self._nodes[0]
        publishers, consumers = self._steady
        for number, kind in enumerate(("classic", "quorum")):
            queue = f"{STEADY}.{kind}"
            first.ask(
                "PUT",
                f"/queues/%2F/{queue}",
                {"durable": True, "arguments": {"x-queue-type": kind}},
            )
            publishers.append(Steady(self._place(number), queue, queue))
            consumers.append(Consumer(self._place(number + 1), queue))
        for each in (*publishers, *consumers):
            each.start()
        self._probe = Probe(asked, self._bounds)
        self._probe.began(patient(30))

    def _place(self, number: int) -> Watched:
        return self._nodes[number % len(self._nodes)]

    def _stop_watching(self) -> None:
        """Have the well-behaved clients end, and see that nothing was lost or doubled."""
        assert self._probe is not None
        publishers, consumers = self._steady
        for publisher in publishers:
            publisher.stop()
        eventually(lambda: all_taken(publishers, consumers), COME_BACK_SECONDS)
        for consumer in consumers:
            consumer.stop()
        check_books(publishers, consumers)
        self._probe.stop(patient(10))
        self._check()
        for kind in ("classic", "quorum"):
            self._nodes[0].ask("DELETE", f"/queues/%2F/{STEADY}.{kind}")

    def _check(self) -> None:
        """See that nothing has happened that may not."""
        for node in self._nodes:
            node.check()
        publishers, consumers = self._steady
        for each in (*publishers, *consumers):
            if each.broken or each.surprise is not None:
                raise Found(f"a well-behaved client was sent away: {each.surprise}")
        if self._probe is not None and self._probe.found:
            raise Waited(f"another client waited: {self._probe.found[0]}")

    def _come_back(self, before: list[Held]) -> list[Held]:
        """Wait until all is given back that was taken."""
        self._nodes[0].clean()
        after: list[Held] = []
        for node, had in zip(self._nodes, before, strict=True):
            deadline = time.monotonic() + COME_BACK_SECONDS
            while beyond := (has := node.held()).beyond(had):
                if time.monotonic() > deadline:
                    raise Found(f"the node does not give back what it took: {beyond}")
                time.sleep(0.5)
            after.append(has)
            node.check()
        return after


def _answered(address: tuple[str, int], request: bytes) -> bytes:
    """All that a node answers to a request after which it closes."""
    script = Script("one")
    script.write(request)
    for _ in range(int(patient(10) / READ_SECONDS)):
        script.read()
    (wire,) = play(Draw("alone"), [script], {"one": address}, {})
    return bytes(wire.answers)
