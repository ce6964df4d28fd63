"""Sockets that are not read are asked about, some at a time."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.support.patience import patient
from warren.server.held_sockets import TCP_PROBES, TCP_RETRANSMITS, HeldSockets, is_unanswered

WAIT_S = patient(5.0)


class Stream:
    """Stands for a transport of asyncio's."""

    def __init__(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.client = socket.create_connection(listening.getsockname())
        self.end, _ = listening.accept()
        listening.close()
        self.closing = False

    def get_extra_info(self, name: str) -> Any:
        assert name == "socket"
        return self.end

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.client.close()
        self.end.close()


def transport(stream: Stream) -> asyncio.Transport:
    return cast(asyncio.Transport, stream)


@pytest.fixture
def make_stream() -> Any:
    made: list[Stream] = []

    def make() -> Stream:
        made.append(Stream())
        return made[-1]

    yield make
    for stream in made:
        stream.close()


def test_each_socket_has_its_turn_however_many_there_are(make_stream: Callable[[], Stream]) -> None:
    held = HeldSockets(3)
    streams = [make_stream() for _ in range(7)]
    for stream in streams:
        held.add(transport(stream))
        stream.client.shutdown(socket.SHUT_WR)
    looks = [[streams.index(cast(Any, found)) for found, _ in held.look()] for _ in range(3)]
    assert looks == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]


def test_who_sends_no_more_is_told_from_who_is_gone(make_stream: Callable[[], Stream]) -> None:
    held = HeldSockets()
    there, half, gone, closing, read = (make_stream() for _ in range(5))
    for stream in (there, half, gone, closing, read):
        held.add(transport(stream))
    half.client.shutdown(socket.SHUT_WR)
    gone.end.sendall(b"is not read before it closes")
    gone.client.recv(1)
    closing.closing = True
    held.drop(transport(read))
    for stream in (gone, closing, read):
        stream.client.close()
    assert {id(stream): only for stream, only in held.look()} == {id(half): True, id(gone): False}


class Kernel:
    """Stands for a socket of which the kernel says this."""

    def __init__(self, retransmits: int, probes: int, silent_ms: int) -> None:
        self.info = bytearray(56) + silent_ms.to_bytes(4, sys.byteorder) + bytes(40)
        self.info[TCP_RETRANSMITS] = retransmits
        self.info[TCP_PROBES] = probes

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO)
        return bytes(self.info[:size])


@pytest.mark.parametrize(
    ("retransmits", "probes", "silent_ms", "wanted"),
    [
        (0, 0, 600_000, False),
        (7, 7, 600_000, False),
        (8, 0, 60_000, True),
        (0, 8, 60_000, True),
        (8, 8, 59_999, False),
    ],
)
def test_a_machine_that_answers_nothing_is_gone(
    retransmits: int, probes: int, silent_ms: int, wanted: bool
) -> None:
    assert is_unanswered(cast(Any, Kernel(retransmits, probes, silent_ms))) is wanted


def test_a_client_that_reads_nothing_answers(make_stream: Callable[[], Stream]) -> None:
    stream = make_stream()
    stream.end.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            stream.end.send(bytes(65_536))
    assert not is_unanswered(stream.end)
