"""Limits on the connections and channels of users and vhosts, on one node and over several."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair, Station
from tests.node.test_access import ALL, closed
from warren.errors import CorruptRecord
from warren.limits import USED_AT_ONCE_MAX
from warren.metadata import commands
from warren.metadata.commands import Command
from warren.metadata.passwords import SHA256, hash_password
from warren.node.usage import Usage
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

USER_TEXT = "NOT_ALLOWED - connection refused for user 'u': user connection limit ({}) is reached"
VHOST_TEXT = (
    "NOT_ALLOWED - access to vhost 'v' refused for user 'u': connection limit ({}) is reached"
)
CHANNEL_TEXT = (
    "NOT_ALLOWED - number of channels opened for user 'u' has reached "
    "the maximum allowed user limit of {}"
)


def change(pair: Pair, *changes: Command) -> None:
    """Have changes of the tables in force on all nodes."""
    for command in changes:
        pair.a.node.store.submit(command, None)
    pair.until(lambda: pair.a.node.store.in_force)
    pair.settle()


def prepared(pair: Pair) -> Pair:
    """User u may enter vhosts / and v."""
    change(
        pair,
        commands.DeclareVhost("v"),
        commands.SetUser("u", hash_password(b"u", b"salt"), SHA256, [], False),
        commands.SetPermissions("u", "/", ALL, ALL, ALL),
        commands.SetPermissions("u", "v", ALL, ALL, ALL),
    )
    return pair


def limit_user(pair: Pair, **limits: int) -> None:
    named = {name.replace("_", "-"): value for name, value in limits.items()}
    change(pair, commands.SetUserLimits("u", named, []))


def limit_vhost(pair: Pair, **limits: int) -> None:
    named = {name.replace("_", "-"): value for name, value in limits.items()}
    change(pair, commands.SetVhostLimits("v", named))


def refused(station: Station, vhost: str = "/") -> str:
    """What a client of user u is told that is not let in."""
    client = station.caller(user="u", vhost=vhost)
    station.pair.until(lambda: bool(client.methods))
    assert not client.opened
    close = closed(client)
    assert close.reply_code == 530
    station.clients.remove(client)
    return close.reply_text


def open_channel(client: Client, number: int) -> spec.Method | None:
    """Open one more channel; the answer if it is not opened."""
    client.outbox += method_frame(number, spec.ChannelOpen().encode())
    client.opened = False
    client.pair.until(lambda: client.opened or bool(client.methods))
    return None if client.opened else client.methods.pop()


def test_users_and_vhosts_have_no_more_connections_than_they_may() -> None:
    pair = prepared(Pair(alone=True))
    limit_user(pair, max_connections=2)
    first, second = pair.a.client(user="u"), pair.a.client(user="u", vhost="v")
    assert refused(pair.a) == refused(pair.a, "v") == USER_TEXT.format(2)
    # A limit of the vhost is looked at first.
    limit_vhost(pair, max_connections=1)
    assert refused(pair.a, "v") == VHOST_TEXT.format(1)
    assert refused(pair.a, "none") == "NOT_ALLOWED - vhost none not found"
    second.vanish()
    third = pair.a.client(user="u", vhost="v")
    limit_user(pair, max_connections=-1)
    assert refused(pair.a, "v") == VHOST_TEXT.format(1)
    limit_vhost(pair, max_connections=0)
    third.vanish()
    assert refused(pair.a, "v") == VHOST_TEXT.format(0)
    limit_vhost(pair)
    pair.a.client(user="u", vhost="v")
    limit_user(pair, max_connections=0)
    assert refused(pair.a) == USER_TEXT.format(0)
    # Others have limits of their own, and who is there stays.
    pair.a.client()
    assert isinstance(first.call(spec.BasicQos(0, 0, False)), spec.BasicQosOk)


def test_a_user_has_no_more_channels_than_it_may() -> None:
    pair = prepared(Pair(alone=True))
    limit_user(pair, max_channels=3)
    client = pair.a.client(user="u")
    other = pair.a.client(user="u")
    assert open_channel(client, 2) is None
    close = open_channel(client, 3)
    assert isinstance(close, spec.ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 0, 0)
    assert close.reply_text == CHANNEL_TEXT.format(3)
    # With it its two channels went.
    assert open_channel(other, 2) is None
    assert open_channel(other, 3) is None
    # A channel that ends by an error counts no more, once; nor one that the client closes.
    gone = other.declare("none", passive=True)
    assert isinstance(gone, spec.ChannelClose)
    pair.settle()
    other.methods.clear()
    other.outbox += method_frame(2, spec.ChannelClose(200, "", 0, 0).encode())
    pair.settle()
    other.methods.clear()
    assert open_channel(other, 4) is None
    close = open_channel(other, 5)
    assert isinstance(close, spec.ConnectionClose)


def test_a_limit_counts_what_clients_of_all_nodes_have() -> None:
    pair = prepared(Pair())
    limit_user(pair, max_connections=2, max_channels=3)
    on_a, on_b = pair.a.client(user="u"), pair.b.client(user="u")
    pair.settle()
    assert refused(pair.a) == refused(pair.b) == USER_TEXT.format(2)
    assert open_channel(on_b, 2) is None
    pair.settle()
    close = open_channel(on_a, 2)
    assert isinstance(close, spec.ConnectionClose)
    assert close.reply_text == CHANNEL_TEXT.format(3)
    pair.settle()
    again = pair.b.client(user="u")
    assert refused(pair.a) == USER_TEXT.format(2)
    again.vanish()
    on_b.vanish()
    pair.settle()
    for _ in range(2):
        pair.a.client(user="u")
    assert refused(pair.b) == USER_TEXT.format(2)


def test_a_limit_that_comes_later_counts_what_is_there_already() -> None:
    pair = prepared(Pair())
    there = pair.b.client(user="u", vhost="v")
    limit_vhost(pair, max_connections=1)
    assert refused(pair.a, "v") == VHOST_TEXT.format(1)
    there.vanish()
    pair.settle()
    pair.a.client(user="u", vhost="v")


def test_a_node_that_is_gone_takes_its_counts_along_and_brings_new_ones() -> None:
    pair = prepared(Pair())
    pair.minds_seconds = True
    pair.add("c")
    limit_user(pair, max_connections=1)
    pair.b.client(user="u")
    pair.settle()
    assert refused(pair.a) == USER_TEXT.format(1)
    pair.b.kill()
    pair.settle()
    here = pair.a.client(user="u")
    pair.b.start()
    pair.until(lambda: pair.b.node.ready and pair.usable())
    pair.settle()
    # A node that came back, or whose link did, is told everything.
    assert refused(pair.b) == USER_TEXT.format(1)
    pair.cut("a", "b")
    pair.cut("b", "a")
    pair.settle(40)
    assert refused(pair.b) == USER_TEXT.format(1)
    here.vanish()
    pair.settle()
    pair.b.client(user="u")


def test_what_a_node_says_of_its_clients_is_checked_and_bounded() -> None:
    pair = prepared(Pair())
    usage: Usage = pair.a.node.usage
    limit_user(pair, max_connections=1)
    for wrong in (b"", b"\xc1", b"\x91\x94\xc3\xa1u\xff\x00", b"\x91\x93\xc3\xa1u\x01"):
        with pytest.raises(CorruptRecord):
            usage.heard("b", b"\x0f" + wrong)
    # Names are kept before the tables here know them, as after a start, but not without end.
    usage.heard("b", b"\x0f\x91\x94\xc3\xa4none\x01\x01")
    assert list(usage._others["b"].users) == ["none"]
    few = Usage(pair.a.node.metadata, pair.a.node.cluster, 2)
    for name in (b"none", b"some", b"more", b"none"):
        few.heard("b", b"\x0f\x91\x94\xc3\xa4" + name + b"\x02\x01")
    assert list(few._others["b"].users) == ["none", "some"]
    names = [f"u{number}" for number in range(USED_AT_ONCE_MAX + 5)]
    change(
        pair,
        *[commands.SetUser(name, b"", SHA256, [], False) for name in names],
        *[commands.SetUserLimits(name, {"max-connections": 5}, []) for name in names],
    )
    for name in names:
        usage.connected(name, "/", 1)
    pair.a.node.needs_turn = True
    pair.settle()
    heard = pair.b.node.usage._others["a"].users
    assert all(heard[name].connections == 1 for name in names)
    for name in names:
        usage.connected(name, "/", -1)
    pair.a.node.needs_turn = True
    pair.settle()
    assert not pair.b.node.usage._others["a"].users
