"""The HTTP listener: bounds on what a client can make of it, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
import base64
import gc
import http.client
import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.http.talk import Ask, Peer
from tests.support.broker import Broker, free_port
from tests.support.patience import patient
from warren.admin.http import listener
from warren.admin.http.asked import BODY_BYTES_MAX
from warren.server.listeners import url_of
from warren.server.listening import open_sockets
from warren.server.socket_options import SocketOptions

CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
GUEST = "Basic " + base64.b64encode(b"guest:guest").decode()


def until(done: Callable[[], bool], seconds: float = 10.0) -> bool:
    over = time.monotonic() + patient(seconds)
    while not done() and time.monotonic() < over:
        time.sleep(0.02)
    return done()


def dial(peer: Peer) -> socket.socket:
    return socket.create_connection((peer.host, peer.port), timeout=patient(40.0))


def spoken(sock: socket.socket, request: bytes) -> bytes:
    """All that is answered to a request after which the connection is closed."""
    sock.sendall(request)
    parts = []
    while part := sock.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def test_a_body_that_is_too_large_is_not_waited_for(peer: Peer) -> None:
    with dial(peer) as sock:
        answer = spoken(
            sock,
            f"PUT /api/queues/%2F/large HTTP/1.1\r\nhost: x\r\nauthorization: {GUEST}\r\n"
            f"content-length: {BODY_BYTES_MAX + 1}\r\n\r\n".encode(),
        )
    assert answer.startswith(b"HTTP/1.1 400") and b"body size limit" in answer


def test_a_body_that_grows_too_large_is_refused(peer: Peer) -> None:
    """In chunks nobody says beforehand how large it is."""
    with dial(peer) as sock:
        sock.sendall(
            f"PUT /api/queues/%2F/large HTTP/1.1\r\nhost: x\r\nauthorization: {GUEST}\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        chunk = b"40000\r\n" + b"a" * 0x40000 + b"\r\n"
        try:
            for _ in range(BODY_BYTES_MAX // 0x40000 + 2):
                sock.sendall(chunk)
        except ConnectionError:
            pass
        assert sock.recv(20).startswith(b"HTTP/1.1 400")


def test_headers_are_bounded(peer: Peer) -> None:
    with dial(peer) as sock:
        try:
            sock.sendall(b"GET /api/whoami HTTP/1.1\r\nhost: x\r\nlong: ")
            sock.sendall(b"a" * (2 * listener.HEAD_BYTES_MAX))
            answer = sock.recv(100)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert peer.raw(Ask("GET", "/whoami"))[0] == 200


def test_what_is_no_http_is_refused(peer: Peer) -> None:
    with dial(peer) as sock:
        assert spoken(sock, b"AMQP\0\0\x09\x01\r\n\r\n").startswith(b"HTTP/1.1 400")


BROKEN = {
    "after the last request": (b"GET", b"connection: close\r\n\r\n\0more", [b"200"]),
    "in the body of what has none in its answer": (b"HEAD", CHUNKED + b"zz\r\n", [b"400"]),
    "in a body that is not read yet": (b"PUT", CHUNKED + b"zz\r\n", [b"400"]),
    "behind a whole request": (b"GET", b"\r\n\0\r\n\r\n", [b"200", b"400"]),
}
"""What is no HTTP by where it stands: a method, what comes after its head, and the answers."""


@pytest.mark.parametrize("where", list(BROKEN))
def test_what_is_no_http_ends_its_connection_alone(
    where: str, make_http: Callable[[], Broker]
) -> None:
    """Every whole request before it is answered, and the log has no error of it."""
    method, rest, statuses = BROKEN[where]
    broker = make_http().start()
    with socket.create_connection((broker.host, int(broker.management)), patient(40.0)) as sock:
        head = f" /api/whoami HTTP/1.1\r\nhost: x\r\nauthorization: {GUEST}\r\n".encode()
        answer = spoken(sock, method + head + rest)
    assert re.findall(rb"HTTP/1\.1 (\d+)", answer) == statuses
    assert "Traceback" not in broker.log_text()


def test_what_is_no_http_after_an_answer_ends_its_connection(
    make_http: Callable[[], Broker],
) -> None:
    """Who asks is refused before the body is there, and what comes then is no body."""
    broker = make_http().start()
    with socket.create_connection((broker.host, int(broker.management)), patient(40.0)) as sock:
        sock.sendall(b"PUT /api/vhosts/x HTTP/1.1\r\nhost: x\r\n" + CHUNKED)
        assert sock.recv(65_536).startswith(b"HTTP/1.1 401")
        assert b"HTTP/1.1" not in spoken(sock, b"zz\r\nzz\r\n")
    assert "Traceback" not in broker.log_text()


def test_who_says_nothing_is_let_go(peer: Peer) -> None:
    """A request has to be whole in time; its first bytes do not keep the connection."""
    began = time.monotonic()
    with dial(peer) as silent, dial(peer) as slow:
        slow.sendall(b"GET /api/who")
        for sock in (silent, slow):
            try:
                assert sock.recv(100) == b""
            except ConnectionResetError:
                pass
    assert time.monotonic() - began >= listener.HEAD_SECONDS - 1


def test_connections_are_bounded(make_http: Callable[[], Broker]) -> None:
    """When one comes too many, one that asks nothing goes; who asks is answered all the same."""
    broker = make_http().start()
    port = int(broker.management)
    idle = [
        socket.create_connection((broker.host, port), timeout=patient(10.0)) for _ in range(400)
    ]
    peer = Peer(broker.host, port, broker.port)
    assert peer.raw(Ask("GET", "/whoami"))[0] == 200

    def let_go() -> int:
        count = 0
        for sock in idle:
            sock.setblocking(False)
            try:
                count += sock.recv(1) == b""
            except BlockingIOError:
                pass
            except ConnectionError:
                count += 1
        return count

    assert until(lambda: let_go() >= 100)
    for sock in idle:
        sock.close()
    broker.check_alive()


def test_half_sent_logins_keep_nobody_out(make_http: Callable[[], Broker]) -> None:
    """Of one address few may be under way, and what is half sent makes room for who asks."""
    broker = make_http().start()
    port = int(broker.management)
    peer = Peer(broker.host, port, broker.port)
    head = "POST /login HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n"
    head += "content-type: application/x-www-form-urlencoded\r\n\r\nusername="
    slow = []
    for _ in range(400):
        sock = socket.create_connection((broker.host, port), timeout=patient(10.0))
        sock.sendall(head.encode())
        slow.append(sock)
    assert [peer.raw(Ask("GET", "/whoami"))[0] for _ in range(20)] == [200] * 20
    answers = []
    for sock in slow:
        try:
            answers.append(sock.recv(12))
        except ConnectionError:
            answers.append(b"")
        sock.close()
    assert b"HTTP/1.1 503" in answers
    # Those that were let wait were told that it took too long, or made room.
    assert answers.count(b"HTTP/1.1 408") <= 20
    assert set(answers) <= {b"HTTP/1.1 503", b"HTTP/1.1 408", b""}


def test_uploads_that_do_not_come_make_room(make_http: Callable[[], Broker]) -> None:
    """Requests of users, too: their bodies may be on their way, but others ask meanwhile."""
    broker = make_http().start()
    port = int(broker.management)
    peer = Peer(broker.host, port, broker.port)
    head = f"PUT /api/vhosts/x HTTP/1.1\r\nhost: x\r\nauthorization: {GUEST}\r\n"
    slow = []
    for _ in range(400):
        sock = socket.create_connection((broker.host, port), timeout=patient(10.0))
        sock.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
        slow.append(sock)
    assert [peer.raw(Ask("GET", "/whoami"))[0] for _ in range(20)] == [200] * 20
    for sock in slow:
        sock.close()


def test_another_sites_page_changes_nothing(peer: Peer) -> None:
    for headers in (
        {"origin": "http://elsewhere.example"},
        {"origin": "null"},
        {"origin": "http://[elsewhere"},
        {"sec-fetch-site": "cross-site"},
    ):
        status, _, body = peer.raw(Ask("PUT", "/vhosts/crossed", {}, headers=headers))
        assert status == 403, body
        assert peer.raw(Ask("GET", "/whoami", headers=headers))[0] == 200
    own = {"origin": f"http://{peer.host}:{peer.port}", "sec-fetch-site": "same-origin"}
    assert peer.raw(Ask("GET", "/vhosts/crossed"))[0] == 404
    assert peer.raw(Ask("PUT", "/vhosts/crossed", {}, headers=own))[0] == 201
    assert peer.raw(Ask("DELETE", "/vhosts/crossed", headers=own))[0] == 204


def test_names_are_kept_whatever_they_are(peer: Peer) -> None:
    for name in (
        "<script>alert(1)</script>",
        "a\"b'c",
        "é" * 127,
        "a/b?c#d&e%2F",
        " ",
        "..",
        "\x7f",
    ):
        path = "/queues/%2F/" + "".join(f"%{byte:02X}" for byte in name.encode())
        assert peer.raw(Ask("PUT", path, {"durable": True}))[0] == 201, name
        status, _, body = peer.raw(Ask("GET", path))
        assert status == 200 and json.loads(body)["name"] == name
        assert peer.raw(Ask("DELETE", path))[0] == 204


def test_what_is_no_utf8_is_refused(peer: Peer) -> None:
    """In a path, and as JSON's half of a character in a body; the metadata could not hold it."""
    for path in ("/queues/%2F/%FF%FE", "/queues/%FF/q", "/exchanges/%2F/%FF", "/users/%FF"):
        for method in ("PUT", "GET", "DELETE"):
            asked = Ask(method, path, {"tags": "", "password": "x"} if method == "PUT" else None)
            assert peer.raw(asked)[0] == 400, (method, path)
    for path, body in (
        ("/users/halved", '{"tags": "\\ud800", "password": "\\ud800"}'),
        ("/queues/%2F/halved", '{"arguments": {"\\ud800": "\\udfff"}}'),
        ("/exchanges/%2F/halved", '{"type": "\\ud800"}'),
        ("/policies/%2F/halved", '{"pattern": "\\ud800", "definition": {"max-length": 5}}'),
        ("/global-parameters/halved", '{"value": "\\ud800"}'),
    ):
        assert peer.raw(Ask("PUT", path, body))[0] == 400, path
    assert peer.raw(Ask("GET", "/whoami", user="\udcff:x"))[0] == 401
    assert peer.raw(Ask("GET", "/queues?page=1&name=%FF&use_regex=true"))[0] == 200


def test_a_refused_login_is_one_line_of_the_log(peer: Peer, _http_broker: Broker) -> None:
    """Who it was and why, whatever they call themselves, and never with what secret."""
    said = "HTTP access denied: user 'no\\none' - invalid credentials"
    deadline = time.monotonic() + patient(10.0)
    while said not in _http_broker.log_text():
        assert time.monotonic() < deadline
        # Of many warnings in a second, some are only counted.
        assert peer.raw(Ask("GET", "/whoami", user="no\none:s3cret"))[0] == 401
        time.sleep(0.05)
    assert "s3cret" not in _http_broker.log_text()


def test_many_queues_are_answered_in_parts(peer: Peer) -> None:
    """A long list has no length in its head, and is whole; a page of it is what was asked for."""
    vhost = "/vhosts/many"
    assert peer.raw(Ask("PUT", vhost, {}))[0] == 201
    try:
        for number in range(300):
            path = f"/queues/many/q{number:03}"
            assert peer.raw(Ask("PUT", path, {"durable": True}))[0] == 201
        status, headers, body = peer.raw(Ask("GET", "/queues/many"))
        names = [row["name"] for row in json.loads(body)]
        assert status == 200 and names == [f"q{number:03}" for number in range(300)]
        assert "content-length" not in headers
        message = {
            "properties": {}, "routing_key": "q123", "payload": "x", "payload_encoding": "string",
        }  # fmt: skip
        publish = "/exchanges/many/amq.default/publish"
        assert peer.raw(Ask("POST", publish, message))[0] == 200
        for sort in ("messages", "messages_ready"):
            page = f"?page=1&page_size=1&sort={sort}&sort_reverse=true&columns=name"
            found = json.loads(peer.raw(Ask("GET", f"/queues/many{page}"))[2])
            assert found["items"] == [{"name": "q123"}]
        page = "?page=3&page_size=100&sort=messages&sort_reverse=true&columns=name"
        found = json.loads(peer.raw(Ask("GET", f"/queues/many{page}"))[2])
        assert (found["item_count"], found["total_count"], found["page_count"]) == (100, 300, 3)
        found = json.loads(peer.raw(Ask("GET", "/queues/many?page=1&name=q29&columns=name"))[2])
        assert [row["name"] for row in found["items"]] == [f"q29{last}" for last in range(10)]
        assert (found["filtered_count"], found["total_count"]) == (10, 300)
    finally:
        assert peer.raw(Ask("DELETE", vhost))[0] == 204


def test_large_messages_come_back_whole(peer: Peer) -> None:
    payload = base64.b64encode(bytes(range(256)) * 8_192).decode()
    assert peer.raw(Ask("PUT", "/queues/%2F/large", {"durable": True}))[0] == 201
    body = {
        "properties": {},
        "routing_key": "large",
        "payload": payload,
        "payload_encoding": "base64",
    }
    assert peer.raw(Ask("POST", "/exchanges/%2F/amq.default/publish", body))[0] == 200
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "base64"}
    (message,) = json.loads(peer.raw(Ask("POST", "/queues/%2F/large/get", asked))[2])
    assert message["payload"] == payload and message["payload_bytes"] == 256 * 8_192
    assert peer.raw(Ask("DELETE", "/queues/%2F/large"))[0] == 204


def test_requests_beside_each_other(peer: Peer) -> None:
    """Each gets its own answer, also over one connection, one behind the other."""
    wrong: list[object] = []

    def ask(number: int) -> None:
        client = http.client.HTTPConnection(peer.host, peer.port, timeout=patient(30.0))
        for _ in range(10):
            path = f"/api/queues/%2F/beside{number}"
            headers = {"authorization": GUEST}
            for method, expected in (("PUT", 201), ("GET", 200), ("DELETE", 204)):
                client.request(method, path, b"{}" if method == "PUT" else None, headers)
                response = client.getresponse()
                response.read()
                if response.status != expected:
                    wrong.append((method, response.status))
        client.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_port_that_is_taken(make_http: Callable[[], Broker]) -> None:
    """A node that was told which port does not start without it, and says which option to use."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = make_http()
        broker.management = str(taken.getsockname()[1])
        process = broker.launch()
        assert process.wait(patient(30.0)) == 2
        assert "--management-port" in broker.log_text()


def test_a_node_that_is_told_so_has_no_api(make_broker: Callable[..., Broker]) -> None:
    broker = make_broker().start()
    assert "HTTP API answers" not in broker.log_text()


def test_nothing_of_it_is_loaded_before_it_listens() -> None:
    """A node without the API has neither its code in memory nor that of its libraries."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, warren.server.main\n"
            "print([name for name in sys.modules if name.split('.')[0] in ('starlette', 'uvicorn')"
            " or name.startswith('warren.admin.http')])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "[]"


def test_it_is_loaded_when_it_is_asked_first(make_http: Callable[[], Broker]) -> None:
    """A node that nobody asks has none of it in memory; the first answer comes all the same."""
    broker = make_http()
    broker.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    broker.start()
    printed = broker.log_path.read_text()
    assert "uvloop" in printed and "uvicorn" not in printed
    asking = http.client.HTTPConnection(broker.host, int(broker.management), timeout=patient(20.0))
    asking.request("GET", "/api/whoami", headers={"authorization": GUEST})
    answer = asking.getresponse()
    assert answer.status == 200 and json.loads(answer.read())["name"] == "guest"
    assert "uvicorn" in broker.log_path.read_text()


def test_a_stop_ends_what_is_under_way(make_http: Callable[[], Broker]) -> None:
    broker = make_http().start()
    with socket.create_connection((broker.host, int(broker.management))) as sock:
        sock.sendall(b"GET /api/whoami HTTP/1.1\r\n")
        assert broker.stop() == 0


def test_who_does_not_read_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes nothing of a long answer keeps neither the connection nor the answer."""

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not ended.is_set():
            await send({"type": "http.response.body", "body": bytes(65_536), "more_body": True})
            await asyncio.sleep(0)

    async def run() -> None:
        served = listener.HttpListener(endless, 10)
        port = free_port()
        sockets = await open_sockets(
            asyncio.get_running_loop(), "127.0.0.1", port, SocketOptions(10)
        )
        await served.serve(sockets, 10)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await reader.read(12) == b"HTTP/1.1 200"
        # It reads no more; what the kernel and the reader take is a few megabytes.
        reader._transport.pause_reading()
        async with asyncio.timeout(patient(20.0)):
            while served.connections:
                await asyncio.sleep(0.01)
        ended.set()
        writer.close()
        await served.close(1.0)

    ended = asyncio.Event()
    monkeypatch.setattr(listener, "UNREAD_SECONDS", 0.2)
    asyncio.run(run())


def test_a_client_that_resets_leaves_nothing_behind() -> None:
    """Its connection is not kept for as long as an idle one might ask something more."""

    async def greet(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, listener.HttpProtocol) for each in gc.get_objects())

    async def run() -> None:
        before = kept()
        served = listener.HttpListener(greet, 10)
        port = free_port()
        sockets = await open_sockets(
            asyncio.get_running_loop(), "127.0.0.1", port, SocketOptions(10)
        )
        await served.serve(sockets, 10)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        assert kept() == before + 1
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        async with asyncio.timeout(patient(20.0)):
            while kept() > before:
                await asyncio.sleep(0.01)
        await served.close(1.0)

    asyncio.run(run())


def test_many_small_chunks_are_looked_at_in_pieces() -> None:
    """What one read brings has thousands of them: others have their turn in between."""
    chunks = 20_000
    sizes: list[int] = []
    turns: list[int] = []

    async def measured(scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        sizes.append(size)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def run() -> None:
        served = listener.HttpListener(measured, 10)
        port = free_port()
        sockets = await open_sockets(
            asyncio.get_running_loop(), "127.0.0.1", port, SocketOptions(10)
        )
        await served.serve(sockets, 10)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = b"PUT / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        request += b"1\r\na\r\n" * chunks + b"0\r\n\r\n"
        # A further request comes in the same bytes, and has its answer as well.
        writer.write(request * 2)
        ticking = asyncio.create_task(tick())
        async with asyncio.timeout(patient(20.0)):
            for _ in range(2):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        ticking.cancel()
        writer.close()
        await served.close(1.0)
        assert len(turns) >= 2 * len(request) // listener.PIECE_BYTES

    async def tick() -> None:
        while True:
            turns.append(len(sizes))
            await asyncio.sleep(0)

    asyncio.run(run())
    assert sizes == [chunks] * 2


def test_what_waits_to_be_looked_at_is_bounded() -> None:
    """Where more is read than there was time for, the connection is closed."""

    class Transport(asyncio.Transport):
        aborted = False

        def is_closing(self) -> bool:
            return self.aborted

        def abort(self) -> None:
            self.aborted = True

        def close(self) -> None:
            pass

        def pause_reading(self) -> None:
            pass

        def resume_reading(self) -> None:
            pass

        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return default

    async def run() -> None:
        connection = listener.HttpListener(lambda *_: None, 10).connection()
        transport = Transport()
        connection.connection_made(transport)
        connection.data_received(bytes(listener.UNPARSED_BYTES_MAX))
        assert not transport.aborted
        connection.data_received(b"a")
        assert transport.aborted
        connection.connection_lost(None)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "encrypted", "url"),
    [
        ("", False, "http://localhost:15672/"),
        ("0.0.0.0", False, "http://localhost:15672/"),
        ("::", True, "https://localhost:15672/"),
        ("192.0.2.1", False, "http://192.0.2.1:15672/"),
        ("2001:db8::1", True, "https://[2001:db8::1]:15672/"),
    ],
)
def test_the_web_ui_has_an_address_for_browsers(host: str, encrypted: bool, url: str) -> None:
    assert url_of(host, 15672, encrypted) == url


def test_the_log_says_where_the_web_ui_is(make_http: Callable[[], Broker]) -> None:
    broker = make_http()
    broker.start()
    assert f"the web UI is at http://{broker.host}:{broker.management}/" in broker.log_text()
