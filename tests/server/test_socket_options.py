"""What the kernel is told of clients' sockets, as the configuration says it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.node.pair import Pair
from tests.support.broker import HOST, free_port
from tests.support.patience import patient
from warren.config.building import build
from warren.config.config import ServerConfig
from warren.config.reading import parse_lines, read_file
from warren.server.client_log import ClientLog
from warren.server.clients import ClientProtocol, Reception
from warren.server.listening import open_sockets
from warren.server.socket_options import client_sockets
from warren.server.turns import NodeTurns

TCP = socket.IPPROTO_TCP
SOL = socket.SOL_SOCKET
WAIT_S = patient(20.0)


def config(text: str) -> ServerConfig:
    return build(parse_lines(text, "w.conf"))


class Caught(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, came: asyncio.Future[socket.socket]) -> None:
        self._came = came

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._came.set_result(transport.get_extra_info("socket"))


def accepted(got: ServerConfig, read: Callable[[socket.socket], Any]) -> Any:
    """What `read` finds at a connection to a listener of this configuration."""

    async def run() -> Any:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[socket.socket] = loop.create_future()
        port = free_port()
        (listening,) = await open_sockets(loop, HOST, port, client_sockets(got))
        server = await loop.create_server(lambda: Caught(came), sock=listening)
        with socket.create_connection((HOST, port)):
            found = read(await asyncio.wait_for(came, WAIT_S))
        server.close()
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


def test_a_machine_that_is_gone_is_missed_within_minutes() -> None:
    def read(end: socket.socket) -> list[int]:
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        return [
            end.getsockopt(SOL, socket.SO_KEEPALIVE),
            *(end.getsockopt(TCP, option) for option in options),
            # A client that reads nothing for a while is no client that is gone.
            end.getsockopt(TCP, socket.TCP_USER_TIMEOUT),
            end.getsockopt(TCP, socket.TCP_NODELAY),
        ]

    assert accepted(config(""), read) == [1, 60, 10, 6, 0, 1]


def test_clients_sockets_are_as_the_configuration_says() -> None:
    got = config(
        "tcp_listen_options.keepalive = false\ntcp_listen_options.recbuf = 20000\n"
        "tcp_listen_options.sndbuf = 30000\ntcp_listen_options.send_timeout = 15000\n"
        "tcp_listen_options.backlog = 7\n"
    )
    assert client_sockets(got).backlog == 7

    def read(end: socket.socket) -> list[int]:
        return [
            end.getsockopt(SOL, socket.SO_KEEPALIVE),
            # The kernel gives twice as much, half of it for itself.
            end.getsockopt(SOL, socket.SO_RCVBUF),
            end.getsockopt(SOL, socket.SO_SNDBUF),
            end.getsockopt(TCP, socket.TCP_USER_TIMEOUT),
        ]

    assert accepted(got, read) == [0, 40_000, 60_000, 15_000]


@pytest.mark.parametrize("no_delay", [True, False])
def test_what_clients_are_sent_waits_to_be_more_where_that_is_wanted(no_delay: bool) -> None:
    """The loop turns Nagle's way off for each connection by itself."""
    node = Pair(alone=True).a.node
    ends: list[int] = []

    class Looked(asyncio.Protocol):
        """A compiled class has no interpreted ones below it, so this has it beside itself."""

        def __init__(self, client: ClientProtocol) -> None:
            self.connection_lost = client.connection_lost  # type: ignore[method-assign]
            self.data_received = client.data_received  # type: ignore[method-assign]
            self._client = client

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._client.connection_made(transport)
            end = transport.get_extra_info("socket")
            ends.append(end.getsockopt(TCP, socket.TCP_NODELAY))

    async def run() -> None:
        loop = asyncio.get_running_loop()
        turns = NodeTurns(loop, lambda status: None, lambda: True, lambda: False, False)
        reception = Reception(node, turns, ClientLog(logging.getLogger("test")), "", 10)
        reception.no_delay = no_delay
        got = config(f"tcp_listen_options.nodelay = {str(no_delay).lower()}")
        port = free_port()
        (listening,) = await open_sockets(loop, HOST, port, client_sockets(got))
        server = await loop.create_server(lambda: Looked(ClientProtocol(reception)), sock=listening)
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.close()
        await asyncio.wait_for(reader.read(), WAIT_S)
        server.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    assert ends == [int(no_delay)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tcp_listen_options.linger.timeout = 5", "closed in order"),
        ("tcp_listen_options.exit_on_close = true", "that sends no more is taken in"),
        ("tcp_listen_options.exit_on_close = false", ""),
        ("tcp_listen_options.send_timeout_close = true", ""),
        ("tcp_listen_options = none", ""),
        ("tcp_listen_options.port = 5673", "listeners.tcp says where"),
        ("tcp_listen_options.buffer = 1000", "Erlang"),
    ],
)
def test_what_sets_nothing_is_said(line: str, said: str) -> None:
    warnings = config(line).warnings
    assert (said in warnings[0]) if said else warnings == ()


def test_options_of_the_other_format_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "advanced.config"
    path.write_text(
        "[{rabbit, [{tcp_listen_options, [{backlog, 128}, {nodelay, false}, {keepalive, true},"
        " {linger, {true, 0}}, {exit_on_close, false}]}]}]."
    )
    got = build(read_file(str(path)))
    assert (got.tcp_backlog, got.tcp_nodelay, got.tcp_keepalive) == (128, False, True)
    (warning,) = got.warnings
    assert "linger" in warning


def test_listeners_over_tls_have_backlogs() -> None:
    got = config("management.ssl.backlog = 16\nprometheus.ssl.backlog = 17")
    assert (got.management_ssl_backlog, got.prometheus_ssl_backlog) == (16, 17)
    assert got.warnings == ()
