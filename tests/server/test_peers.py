"""Links between nodes over real sockets: they come about, carry, break, and come back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.server.peer_nodes import HOST, SECRET, WAIT_SECONDS, TestNode, hello
from tests.support.broker import free_port
from warren.config.peer_tls import PeerTls, certified_names, peer_tls
from warren.errors import ConfigError
from warren.protocols.peer import refusal as codes
from warren.protocols.peer.hello import PREAMBLE, refuse_frame
from warren.server.clients import RESET_AT_CLOSE
from warren.server.peer_link import PeerSettings
from warren.server.peers import PeerNetwork

ROOT = Path(__file__).resolve().parent.parent.parent
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


def play(scenario: Callable[[], Awaitable[None]], loop: str = "uvloop") -> list[dict[str, Any]]:
    """Run a scenario; gives what reached the loop's handler of exceptions."""
    raised: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
        async with asyncio.timeout(50):
            await scenario()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
    return raised


@asynccontextmanager
async def nodes(*made: TestNode, listen: bool = True) -> AsyncIterator[None]:
    """Nodes that listen, and dial each other."""
    try:
        if listen:
            for node in made:
                await node.listen()
            for node in made:
                for other in made:
                    if other is not node:
                        node.dial(other)
        yield
    finally:
        for node in made:
            await node.network.close()


def mesh(*made: TestNode) -> Awaitable[None]:
    """Wait until all nodes have all links."""

    async def wait() -> None:
        for node in made:
            others = [other.name for other in made if other is not node]
            await node.heard.told(
                *[("linked", name) for name in others], *[("incoming", name) for name in others]
            )

    return wait()


# --- links come about ---------------------------------------------------------------------------


@pytest.mark.parametrize("loop", LOOPS)
def test_messages_both_ways_in_order(loop: str) -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            assert not a.network.send("c@three", [b"k"])
            for number in range(10_000):
                body = number.to_bytes(4, "little")
                assert a.network.send("b@two", [b"k", body])
                assert b.network.send("a@one", [b"K" + body])
                if number % 100 == 99:
                    a.network.flush()
                    b.network.flush()
                    await asyncio.sleep(0)
            for node, kind in ((b, b"k"), (a, b"K")):
                await node.heard.wait(lambda node=node: len(node.heard.messages) == 10_000)
                assert [m for _, m in node.heard.messages] == [
                    kind + number.to_bytes(4, "little") for number in range(10_000)
                ]
            assert {peer for peer, _ in a.heard.messages} == {"b@two"}
            assert a.network.backlog_bytes("b@two") == 0 == a.network.backlog_bytes("c@three")

    assert play(scenario, loop) == []


def test_messages_leave_without_a_flush() -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            a.network.send("b@two", [b"k"])
            await b.heard.wait(lambda: b.heard.messages)

    assert play(scenario) == []


@pytest.mark.parametrize("loop", LOOPS)
def test_large_messages_between_small_ones(loop: str) -> None:
    """A message above what could be sent whole once; pings and other groups do not wait for it."""

    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            body = os.urandom(1 << 20) * 72
            group, other = b"k" + bytes(8), b"k" + bytes(7) + b"o"
            for message in ([b"\x01"], [group + b"1", body], [group + b"2"], [other]):
                assert a.network.send("b@two", message)
            assert a.network.backlog_bytes("b@two") > len(body)
            got = b.heard.messages
            await b.heard.wait(lambda: got)
            while len(got) < 3:
                assert a.network.send("b@two", [b"\x02ping"])
                await asyncio.sleep(0)
            await b.heard.wait(lambda: ("a@one", group + b"2") in got)
            order = [m for _, m in got if m != b"\x02ping"]
            assert order == [b"\x01", other, group + b"1" + body, group + b"2"]
            assert got.index(("a@one", b"\x02ping")) < got.index(("a@one", order[2]))
            assert a.network.backlog_bytes("b@two") < len(body)

    assert play(scenario, loop) == []


def test_what_no_node_takes_is_refused_and_said() -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            assert not a.network.send("b@two", [bytes(1 << 20)] * 1_025)
            assert a.network.send("b@two", [b"after"])
            await b.heard.wait(lambda: b.heard.messages == [("a@one", b"after")])
            await a.heard.wait(lambda: a.heard.reasons)
            assert "no node takes one of that size" in a.heard.reasons[0][1]

    assert play(scenario) == []


def test_three_nodes() -> None:
    async def scenario() -> None:
        three = [TestNode(name) for name in ("a@one", "b@two", "c@three")]
        async with nodes(*three):
            await mesh(*three)

    assert play(scenario) == []


# --- refusals -----------------------------------------------------------------------------------


def refused(
    first: dict[str, Any], second: dict[str, Any], code: int, dialled: str = "b@two"
) -> None:
    """Dial one node from the other; both are to give this reason, once, and no link to be."""

    async def scenario() -> None:
        a, b = TestNode(**{"name": "a@one", **first}), TestNode(**{"name": "b@two", **second})
        async with nodes(a, b, listen=False):
            await b.listen()
            a.network.dial(dialled, HOST, b.port)
            await a.heard.wait(lambda: a.heard.reasons)
            await b.heard.wait(lambda: b.heard.reasons)
            # It dials again, and what it complains of then is nothing new.
            before = attempts(a)
            async with asyncio.timeout(WAIT_SECONDS):
                while attempts(a) < before + 2:
                    await asyncio.sleep(0.01)
            for node in (a, b):
                assert len(node.heard.reasons) == 1
                assert node.heard.reasons[0][1].startswith(codes.TEXTS[code])
                assert node.heard.events == []
                assert SECRET.decode() not in node.heard.reasons[0][1]
            assert a.heard.reasons[0][0] == dialled and b.heard.reasons[0][0] == HOST

    def attempts(node: TestNode) -> int:
        left_out = node.network._peer_complaints._left_out
        return sum(left_out.values())

    assert play(scenario) == []


def test_wrong_secret() -> None:
    refused({}, {"secret": b"another"}, codes.SECRET)


def test_another_cluster() -> None:
    refused({}, {"own": hello("b@two", b"D" * 16)}, codes.CLUSTER)


def test_not_the_node_that_was_dialled() -> None:
    refused({}, {}, codes.NOT_DIALLED, dialled="c@three")


def test_its_own_name() -> None:
    refused({}, {"name": "a@one"}, codes.OWN_NAME, dialled="a@one")


def test_no_secret() -> None:
    async def scenario() -> None:
        with pytest.raises(ConfigError, match="secret"):
            TestNode("a@one", secret=b"")

    play(scenario)


def test_nobody_there() -> None:
    async def scenario() -> None:
        a = TestNode("a@one")
        port = free_port()
        async with nodes(a, listen=False):
            a.network.dial("b@two", HOST, port)
            await a.heard.wait(lambda: a.heard.reasons)
            peer, reason = a.heard.reasons[0]
            assert peer == "b@two" and reason.startswith(f"cannot reach {HOST}:{port}: ")
            assert "refused" in reason.lower()
            # Somebody comes; that is noticed soon.
            b = TestNode("b@two")
            await b.listen(port)
            await a.heard.told(("linked", "b@two"))
            await b.network.close()

    assert play(scenario) == []


def test_a_dialled_node_that_hangs_up_at_once_costs_nobody_a_descriptor() -> None:
    """A number that a lost link had is another's soon; nothing of the link closes it again."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        taken: list[int] = []

        def take_what_is_free() -> None:
            taken.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(3))

        def hang_up() -> None:
            # On a thread of its own: before the dialling end has said its first word.
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = server.accept()
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
                    accepted.close()
                    loop.call_soon_threadsafe(loop.call_later, 0.005, take_what_is_free)

        a = TestNode("a@one", settings=PeerSettings(redial_ms_min=20, redial_ms_max=20))
        with socket.create_server((HOST, 0)) as server:
            thread = threading.Thread(target=hang_up)
            thread.start()
            async with nodes(a, listen=False):
                a.network.dial("b@two", HOST, server.getsockname()[1])
                async with asyncio.timeout(WAIT_SECONDS):
                    while len(taken) < 300:
                        await asyncio.sleep(0.01)
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
        for number in taken:
            os.close(number)

    assert play(scenario) == []


def test_a_port_that_is_taken() -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b, listen=False):
            await a.listen()
            with pytest.raises(ConfigError, match=f"other nodes on {HOST}:{a.port}"):
                await b.listen(a.port)

    assert play(scenario) == []


# --- strangers ----------------------------------------------------------------------------------


def test_strangers_cost_little_and_harm_nobody() -> None:
    """Silent, slow and noisy connections are ended, and links come about among them."""

    async def scenario() -> None:
        settings = PeerSettings(handshake_ms=600, strangers_max=8)
        a, b = TestNode("a@one"), TestNode("b@two", settings=settings)
        async with nodes(a, b, listen=False):
            await b.listen()
            loop = asyncio.get_running_loop()
            streams = [await asyncio.open_connection(HOST, b.port) for _ in range(40)]
            for number, (_, writer) in enumerate(streams):
                writer.write((b"", b"GET / HTTP/1.1\r\n\r\n", PREAMBLE, b"WARR")[number % 4])
            a.dial(b)
            await a.heard.told(("linked", "b@two"))
            assert len(b.network._strangers) <= 8
            started = loop.time()
            answers = [await reader.read() for reader, _ in streams]
            assert loop.time() - started < 10
            assert set(answers) <= {b"", PREAMBLE + refuse_frame(codes.TIMEOUT)}
            assert PREAMBLE + refuse_frame(codes.TIMEOUT) in answers
            for _, writer in streams:
                writer.close()
            assert 1 <= len(b.heard.reasons) <= 6, "one line for each reason and address"
            async with asyncio.timeout(WAIT_SECONDS):
                while b.network._strangers:
                    await asyncio.sleep(0.01)
            a.network.send("b@two", [b"still there"])
            await b.heard.wait(lambda: b.heard.messages)

    assert play(scenario) == []


def test_a_probe_of_the_port_is_no_complaint() -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b, listen=False):
            await b.listen()
            _, writer = await asyncio.open_connection(HOST, b.port)
            writer.close()
            await writer.wait_closed()
            a.dial(b)
            await a.heard.told(("linked", "b@two"))
            assert b.heard.reasons == []

    assert play(scenario) == []


# --- links break --------------------------------------------------------------------------------


def test_an_oversized_message_ends_the_link_with_a_reason() -> None:
    async def scenario() -> None:
        a = TestNode("a@one")
        b = TestNode("b@two", settings=PeerSettings(whole_bytes_max=1_000))
        async with nodes(a, b):
            await mesh(a, b)
            a.network.send("b@two", [b"before"])
            a.network.send("b@two", [bytes(1_500_000)])
            await a.heard.told(("unlinked", "b@two"))
            await b.heard.told(("incoming_lost", "a@one"))
            assert b.heard.messages == [("a@one", b"before")]
            text = codes.TEXTS[codes.TOO_LARGE]
            assert [reason[: len(text)] for _, reason in b.heard.reasons] == [text]
            assert [reason[: len(text)] for _, reason in a.heard.reasons] == [text]
            # It is dialled again.
            await a.heard.wait(lambda: a.heard.events.count(("linked", "b@two")) == 2)

    assert play(scenario) == []


def test_output_is_bounded() -> None:
    """A peer that takes nothing loses its link; whatever was queued is let go."""

    async def scenario() -> None:
        limit = 8_000_000
        settings = PeerSettings(backlog_bytes_max=limit, socket_bytes=0)
        a, b = TestNode("a@one", settings=settings), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            # The other end stops reading.
            for link in b.network._incoming.values():
                link._transport.pause_reading()
            sent = 0
            async with asyncio.timeout(WAIT_SECONDS):
                while a.network.send("b@two", [b"k" * 100_000]):
                    sent += 1
                    assert a.network.backlog_bytes("b@two") <= limit + 100_004
                    if sent % 10 == 0:
                        a.network.flush()
                        await asyncio.sleep(0)
            assert ("unlinked", "b@two") not in a.heard.events, "not from within `send`"
            assert not a.network.send("b@two", [b"k"])
            assert a.network.backlog_bytes("b@two") == 0
            await a.heard.told(("unlinked", "b@two"))
            assert any("takes too little" in reason for _, reason in a.heard.reasons)
            assert sent * 100_000 > limit - 200_000
            await a.heard.wait(lambda: a.heard.events.count(("linked", "b@two")) == 2)

    assert play(scenario) == []


def test_what_comes_behind_a_large_message_does_not_end_the_link() -> None:
    """A body as large as the bound of what is queued did, with the next ping."""

    async def scenario() -> None:
        settings = PeerSettings(backlog_bytes_max=4_000_000, socket_bytes=0)
        a, b = TestNode("a@one", settings=settings), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            large = b"\x01" + bytes(8_000_000)
            assert a.network.send("b@two", [large])
            for _ in range(3):
                assert a.network.send("b@two", [b"\x02ping"])
            await b.heard.wait(lambda: len(b.heard.messages) == 4)
            assert [len(message) for _, message in b.heard.messages] == [len(large), 5, 5, 5]
            assert ("unlinked", "b@two") not in a.heard.events

    assert play(scenario) == []


def test_forget() -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            a.network.forget("b@two")
            assert not a.network.send("b@two", [b"k"])
            await b.heard.told(("incoming_lost", "a@one"))
            assert ("unlinked", "b@two") not in a.heard.events
            assert ("incoming_lost", "b@two") not in a.heard.events, "the other direction stays"
            a.dial(b)
            await a.heard.wait(lambda: a.heard.events.count(("linked", "b@two")) == 2)

    assert play(scenario) == []


def test_a_new_address() -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b, listen=False):
            await b.listen()
            a.network.dial("b@two", HOST, free_port())
            await a.heard.wait(lambda: a.heard.reasons)
            a.network.dial("b@two", HOST, b.port)
            await a.heard.told(("linked", "b@two"))

    assert play(scenario) == []


def test_a_newer_link_replaces_an_older_one() -> None:
    """A peer that comes back before its old connection has ended is not kept out."""

    async def scenario() -> None:
        old, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(old, b, listen=False):
            await b.listen()
            old.dial(b)
            await b.heard.told(("incoming", "a@one"))
            new = TestNode("a@one", own=hello("a@one", boot=2))
            new.dial(b)
            await b.heard.wait(lambda: len(b.heard.events) >= 3)
            assert b.heard.events[:3] == [
                ("incoming", "a@one"), ("incoming_lost", "a@one"), ("incoming", "a@one"),
            ]  # fmt: skip
            old.network.forget("b@two")
            await new.network.close()

    assert play(scenario) == []


def test_a_failure_in_one_link_spares_the_others() -> None:
    """An exception while one peer's bytes are taken ends that link; others go on."""

    async def scenario() -> None:
        a, b, c = (TestNode(name) for name in ("a@one", "b@two", "c@three"))
        async with nodes(a, b, c):
            await mesh(a, b, c)
            take = b.heard.received

            def received(peer: str, message: bytes) -> None:
                if message == b"poison":
                    raise RuntimeError("poisoned")
                take(peer, message)

            b.heard.received = received
            a.network.send("b@two", [b"poison"])
            c.network.send("b@two", [b"1"])
            await b.heard.told(("incoming_lost", "a@one"))
            await a.heard.wait(lambda: a.heard.events.count(("linked", "b@two")) == 2)
            for node in (a, c):
                node.network.send("b@two", [b"2"])
            await b.heard.wait(lambda: len(b.heard.messages) == 3)
            assert ("incoming_lost", "c@three") not in b.heard.events

    raised = play(scenario)
    assert [str(context["exception"]) for context in raised] == ["poisoned"]


def test_a_host_that_is_no_name() -> None:
    async def scenario() -> None:
        a = TestNode("a@one")
        async with nodes(a, listen=False):
            a.network.dial("b@two", "x" * 80 + ".invalid", 1)
            a.network.dial("c@three", "nowhere.invalid", 1)
            await a.heard.wait(lambda: any(peer == "c@three" for peer, _ in a.heard.reasons))

    for context in play(scenario):
        assert isinstance(context["exception"], UnicodeError)


def test_nothing_is_left_behind() -> None:
    """Links that come and go leave no objects and no descriptors."""

    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b, listen=False):
            await b.listen()
            counts = []
            for turn in range(1, 41):
                a.dial(b)
                await a.heard.wait(lambda t=turn: a.heard.events.count(("linked", "b@two")) == t)
                a.network.forget("b@two")
                lost = ("incoming_lost", "a@one")
                await b.heard.wait(lambda t=turn, e=lost: b.heard.events.count(e) == t)
                if turn in (10, 40):
                    gc.collect()
                    links = sum(type(o).__name__ == "PeerLink" for o in gc.get_objects())
                    counts.append((links, len(os.listdir("/proc/self/fd"))))
            assert counts[1][0] <= counts[0][0] + 2 and counts[1][1] <= counts[0][1] + 2, counts

    assert play(scenario) == []


# --- processes ----------------------------------------------------------------------------------


class Process:
    """A node of links in a process of its own."""

    def __init__(self, name: str, port: int, *peers: object, boot: int = 1) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.peer_nodes", name, str(port), *map(str, peers)],
            cwd=ROOT,
            env={**os.environ, "BOOT": str(boot)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "listening\n"

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait(WAIT_SECONDS)

    def close(self) -> None:
        """End it in order."""
        self._process.communicate(timeout=WAIT_SECONDS)


def test_between_processes_over_kills() -> None:
    """10,000 messages there and back in order; a killed peer is noticed, and found again."""

    async def scenario() -> None:
        a = TestNode("a@one")
        async with nodes(a, listen=False):
            await a.listen()
            port = free_port()
            a.network.dial("b@two", HOST, port)
            for boot in (1, 2, 3):
                told = len(a.heard.events)
                process = await asyncio.to_thread(
                    Process, "b@two", port, "a@one", HOST, a.port, boot=boot
                )

                def since(event: tuple[str, str], told: int = told) -> bool:
                    return event in a.heard.events[told:]

                await a.heard.wait(
                    lambda since=since: since(("linked", "b@two")) and since(("incoming", "b@two"))
                )
                assert a.heard.boots["b@two"] == boot
                a.heard.messages.clear()
                expected = [b"k" + os.urandom(number % 300) for number in range(10_000)]
                for message in expected:
                    assert a.network.send("b@two", [message[:1], message[1:]])
                await a.heard.wait(lambda: len(a.heard.messages) == 10_000)
                assert [message for _, message in a.heard.messages] == expected
                if boot < 3:
                    process.kill()
                else:
                    process.close()
                await a.heard.wait(
                    lambda since=since: (
                        since(("unlinked", "b@two")) and since(("incoming_lost", "b@two"))
                    )
                )
                # It is dialled again, so that its absence shows.
                await a.heard.wait(lambda since=since: since(("gone", "b@two")))

    assert play(scenario) == []


# --- TLS ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, certificates of two nodes by it, and one of another authority."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for authority in ("ca", "other-ca"):
        openssl(
            "req", "-x509", *new_key, "-keyout", f"{authority}.key", "-out", f"{authority}.pem",
            "-subj", f"/CN={authority}", "-days", "2",
        )  # fmt: skip
    for name, authority, alternative in (
        ("a", "ca", "email:a@one"),
        ("b", "ca", "DNS:two"),
        ("stranger", "other-ca", "DNS:two"),
    ):
        openssl(
            "req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        (folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem",
            "-CAkey", f"{authority}.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2",
            "-extfile", f"{name}.ext",
        )  # fmt: skip
    return folder


def tls_of(folder: Path, name: str, **options: Any) -> PeerTls:
    return peer_tls(
        str(folder / "ca.pem"), str(folder / f"{name}.pem"), str(folder / f"{name}.key"), **options
    )


@pytest.mark.parametrize("loop", LOOPS)
def test_tls(certificates: Path, loop: str) -> None:
    async def scenario() -> None:
        a = TestNode("a@one", tls=tls_of(certificates, "a", verify_names=True))
        b = TestNode("b@two", tls=tls_of(certificates, "b", verify_names=True))
        async with nodes(a, b):
            await mesh(a, b)
            body = os.urandom(3_000_000)
            for number in range(1_000):
                a.network.send("b@two", [b"k", number.to_bytes(4, "little")])
            a.network.send("b@two", [b"k", body])
            b.network.send("a@one", [b"back"])
            await b.heard.wait(lambda: len(b.heard.messages) == 1_001)
            assert b.heard.messages[-1] == ("a@one", b"k" + body)
            await a.heard.wait(lambda: a.heard.messages)

    assert play(scenario, loop) == []


def test_a_certificate_without_the_nodes_name(certificates: Path) -> None:
    refused(
        {"tls": tls_of(certificates, "a")},
        {"name": "b@elsewhere", "tls": tls_of(certificates, "b", verify_names=True),
         "own": hello("b@elsewhere")},
        codes.NOT_DIALLED,
    )  # fmt: skip
    refused(
        {"name": "c@one", "tls": tls_of(certificates, "a")},
        {"tls": tls_of(certificates, "b", verify_names=True)},
        codes.CERTIFICATE,
    )
    refused(
        {"tls": tls_of(certificates, "a", verify_names=True)},
        {"name": "b@elsewhere", "tls": tls_of(certificates, "b")},
        codes.CERTIFICATE,
        dialled="b@elsewhere",
    )


def test_another_authority(certificates: Path) -> None:
    async def scenario() -> None:
        a = TestNode("a@one", tls=tls_of(certificates, "stranger"))
        b = TestNode("b@two", tls=tls_of(certificates, "b"))
        async with nodes(a, b):
            for node in (a, b):
                await node.heard.wait(
                    lambda node=node: any(
                        "certificate" in reason.lower() for _, reason in node.heard.reasons
                    )
                )
                assert node.heard.events == []

    assert play(scenario) == []


@pytest.mark.parametrize("encrypted", ["a", "b"])
def test_tls_at_one_end_only(certificates: Path, encrypted: str) -> None:
    async def scenario() -> None:
        settings = PeerSettings(handshake_ms=1_000)
        tls = tls_of(certificates, "a")
        a = TestNode("a@one", settings=settings, tls=tls if encrypted == "a" else None)
        b = TestNode("b@two", settings=settings, tls=tls if encrypted == "b" else None)
        async with nodes(a, b, listen=False):
            await b.listen()
            a.dial(b)
            await a.heard.wait(lambda: a.heard.reasons)
            await b.heard.wait(lambda: b.heard.reasons)
            assert a.heard.events == b.heard.events == []

    assert play(scenario) == []


def test_bad_files(tmp_path: Path, certificates: Path) -> None:
    with pytest.raises(ConfigError, match="absent.pem"):
        peer_tls(str(tmp_path / "absent.pem"), "", "")
    with pytest.raises(ConfigError, match=r"certificate .*a\.pem with key .*b\.key"):
        peer_tls(
            str(certificates / "ca.pem"), str(certificates / "a.pem"), str(certificates / "b.key")
        )
    assert certified_names(None) == []


def test_sockets_are_set_up() -> None:
    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            for network in (a.network, b.network):
                assert_set_up(network)

    def assert_set_up(network: PeerNetwork) -> None:
        for link in [*network._links.values(), *network._incoming.values()]:
            sock = link._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000

    assert play(scenario) == []


def test_a_link_that_brings_damage_ends_and_comes_back() -> None:
    """What came behind the damage in the same read is not acted on; both ends say why."""

    async def scenario() -> None:
        a, b = TestNode("a@one"), TestNode("b@two")
        async with nodes(a, b):
            await mesh(a, b)
            take = b.heard.received

            def received(peer: str, message: bytes) -> None:
                if message == b"damaged":
                    b.network.refuse(peer, "a bit has flipped")
                else:
                    take(peer, message)

            b.heard.received = received
            for message in (b"before", b"damaged", b"behind"):
                a.network.send("b@two", [message])
            await a.heard.told(("unlinked", "b@two"))
            await b.heard.told(("incoming_lost", "a@one"))
            await a.heard.wait(lambda: a.heard.events.count(("linked", "b@two")) == 2)
            a.network.send("b@two", [b"anew"])
            await b.heard.wait(lambda: len(b.heard.messages) == 2)
            assert [message for _, message in b.heard.messages] == [b"before", b"anew"]
            assert ("unlinked", "a@one") not in b.heard.events, "the other direction stays"
            text = codes.TEXTS[codes.DAMAGED]
            assert [reason for _, reason in b.heard.reasons] == [f"{text} (a bit has flipped)"]
            assert [reason[: len(text)] for _, reason in a.heard.reasons] == [text]

    assert play(scenario) == []
