"""Class `table` on the wire: what each call sends, and how its answer is read."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.script import Peer, scripted
from warren.client import connect
from warren.client.table import (
    Acquired,
    Batches,
    Checkout,
    GroupState,
    HeldCheckout,
    OpenCheckout,
    Status,
    Tables,
    decode_checkouts,
    decode_groups,
    decode_held,
    decode_names,
    decode_runs,
)
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException

numbers = st.integers(-(2**63), 2**63 - 1)
run_lists = st.lists(st.tuples(numbers, numbers), max_size=10)


def runs_bytes(runs: list[tuple[int, int]]) -> bytes:
    """Runs laid out without the code under test."""
    return struct.pack(">I", len(runs)) + b"".join(struct.pack(">qq", *run) for run in runs)


def named(text: str) -> bytes:
    """A name laid out likewise."""
    return bytes([len(text.encode())]) + text.encode()


def age(since_ms: int, now_ms: int) -> int:
    return -1 if since_ms <= 0 else max(0, now_ms - since_ms)


@given(run_lists)
def test_runs(runs: list[tuple[int, int]]) -> None:
    data = runs_bytes(runs)
    assert decode_runs(data) == runs
    for broken in (data[:-1], data + b"\x00", b""):
        with pytest.raises(ConnectionException):
            decode_runs(broken)


@given(st.lists(st.tuples(st.text(max_size=60), *[numbers] * 7), max_size=5), st.integers(0, 2**62))
def test_groups(groups: list[tuple[str, int, int, int, int, int, int, int]], now_ms: int) -> None:
    data = b"".join(named(name) + struct.pack(">7q", *rest) for name, *rest in groups)
    assert decode_groups(data, len(groups), now_ms) == [
        GroupState(*rest, age(since_ms, now_ms)) for *rest, since_ms in groups
    ]
    for broken, count in (
        (data + b"\x00", len(groups)),
        (data, len(groups) + 1),
        (data[:-1], len(groups) + (not groups)),
    ):
        with pytest.raises(ConnectionException):
            decode_groups(broken, count, now_ms)


@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=5), st.integers(0, 2**62))
def test_held(checkouts: list[tuple[int, int, int]], now_ms: int) -> None:
    data = b"".join(struct.pack(">3q", *each) for each in checkouts)
    assert decode_held(data, len(checkouts), now_ms) == [
        HeldCheckout(number, messages, age(since_ms, now_ms))
        for number, messages, since_ms in checkouts
    ]
    for broken, count in ((data + b"\x00", len(checkouts)), (data, len(checkouts) + 1)):
        with pytest.raises(ConnectionException):
            decode_held(broken, count, now_ms)


@given(st.lists(st.text(max_size=60), max_size=5))
def test_names(names: list[str]) -> None:
    data = b"".join(map(named, names))
    assert decode_names(data, len(names)) == names
    for broken, count in ((data + b"\x01", len(names)), (data, len(names) + 1)):
        with pytest.raises(ConnectionException):
            decode_names(broken, count)


@given(st.lists(st.tuples(numbers, run_lists), max_size=5))
def test_checkouts(checkouts: list[tuple[int, list[tuple[int, int]]]]) -> None:
    data = b"".join(struct.pack(">q", number) + runs_bytes(runs) for number, runs in checkouts)
    assert decode_checkouts(data, len(checkouts)) == [OpenCheckout(*each) for each in checkouts]
    with pytest.raises(ConnectionException):
        decode_checkouts(data + b"\x00", len(checkouts))
    with pytest.raises(ConnectionException):
        decode_checkouts(data, len(checkouts) + 1)


@given(st.binary(max_size=60), st.integers(0, 3))
def test_arbitrary_content_ends_in_a_declared_error(data: bytes, count: int) -> None:
    try:
        decode_runs(data)
    except ConnectionException as error:
        assert error.code == 502
    try:
        decode_checkouts(data, count)
    except ConnectionException as error:
        assert error.code == 502


def test_every_call() -> None:
    big = bytes(300_000)

    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        acquire = peer.expect(spec.TableAcquire)
        assert (acquire.queue, acquire.group, acquire.lease_ms) == ("q", "g", 60_000)
        peer.send(1, spec.TableAcquireOk(epoch=3, settled=2))
        checkout = peer.expect(spec.TableCheckout)
        assert (checkout.epoch, checkout.after, checkout.max_rows) == (3, 2, 100)
        assert (checkout.max_bytes, checkout.up_to) == (1 << 20, 900)
        peer.send_content(
            1, spec.TableCheckoutOk(number=3, count=4, bytes=400), runs_bytes([(1, 3), (9, 9)])
        )
        checkouts = peer.expect(spec.TableCheckouts)
        assert (checkouts.after, checkouts.up_to) == (2, 3)
        peer.send_content(
            1,
            spec.TableCheckoutsOk(count=1),
            struct.pack(">q", 3) + runs_bytes([(1, 3), (9, 9)]),
        )
        read = peer.expect(spec.TableRead)
        assert (read.first, read.last, read.max_bytes) == (1, 9, 1 << 20)
        peer.send_content(1, spec.TableReadOk(next=10), big)
        peer.expect(spec.TableRead)
        peer.send_content(1, spec.TableReadOk(next=10), b"")
        settle = peer.expect(spec.TableSettle)
        assert (settle.epoch, settle.up_to) == (3, 3)
        peer.send(1, spec.TableSettleOk())
        release = peer.expect(spec.TableRelease)
        assert release.epoch == 3
        peer.send(1, spec.TableReleaseOk())
        peer.expect(spec.TableStatus)
        peer.send_content(
            1, spec.TableStatusOk(first=4, next=10, ready=5, settled=3), runs_bytes([(4, 8)])
        )
        peer.expect(spec.TableSettle)
        peer.send(1, spec.ChannelClose(406, "PRECONDITION_FAILED - fenced: epoch 3", 240, 50))
        peer.expect(spec.ChannelCloseOk)
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri, connect(uri) as connection:
        tables = Tables(connection.channel())
        assert tables.acquire("q", "g", 60_000) == Acquired(3, 2)
        runs = [(1, 3), (9, 9)]
        taken = tables.checkout("q", "g", 3, 2, 100, 1 << 20, 900)
        assert taken == Checkout(3, 4, 400, runs)
        assert tables.checkouts("q", "g", 2, 3) == [OpenCheckout(3, runs)]
        assert tables.read("q", 1, 9, 1 << 20) == Batches(10, big)
        assert tables.read("q", 1, 9, 1 << 20) == Batches(10, b"")
        tables.settle("q", "g", 3, 3)
        tables.release("q", "g", 3)
        assert tables.status("q", "g") == Status(4, 10, 5, 3, [(4, 8)])
        with pytest.raises(ChannelException, match="fenced: epoch 3") as caught:
            tables.settle("q", "g", 3, 3)
        assert caught.value.code == 406


def test_an_answer_to_something_else_is_refused() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.TableAcquire)
        peer.send(1, spec.TableSettleOk())
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with (
        scripted(script) as uri,
        connect(uri) as connection,
        pytest.raises(ConnectionException, match=r"table\.settle-ok"),
    ):
        Tables(connection.channel()).acquire("q", "g", 1)
