"""Nodes of two releases in one cluster: what the older one does not know waits for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair, Station
from warren.admin.service import users
from warren.admin.service.caller import LOCAL
from warren.errors import Refusal, StorageError
from warren.log.manifest import MANIFEST_PATH, decode
from warren.metadata import commands, encoding
from warren.metadata.machine import MetadataMachine
from warren.metadata.passwords import ARGON2, MD5, SCHEMES, SHA256, SHA512
from warren.metadata.version_checks import check_version
from warren.protocols.broker import Settings
from warren.protocols.peer import refusal as codes
from warren.routing.exchange_types import EXCHANGE_TYPES, OLDEST_TYPES
from warren.versions import (
    COUNTED_FAILURES,
    CREATION_INDEXES,
    DELIVERY_LIMIT_ARGUMENT,
    NEWEST,
    OLDEST,
    PASSWORD_HASHES,
    SAID_BY_LOGS,
    SPREADING_EXCHANGES,
)
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

QUEUE = "orders"


class Releases:
    """Which cluster version each node knows at its next start."""

    def __init__(self, known: int) -> None:
        self.known: dict[str, int] = {}
        self._else = known

    def configure(self, settings: Settings) -> None:
        settings.cluster_version_max = self.known.get(settings.node_name, self._else)


def three(known: int) -> tuple[Pair, Releases]:
    """Nodes a, b and c, with a replicated queue."""
    releases = Releases(known)
    pair = Pair(configure=releases.configure)
    pair.minds_seconds = True
    pair.add("c")
    pair.a.client().declare(QUEUE, kind="quorum")
    return pair, releases


def versions(pair: Pair) -> list[int]:
    """The cluster version by the tables of each node that runs."""
    stations = pair.stations.values()
    return [station.node.metadata.version for station in stations if station.alive]


def restart(pair: Pair, releases: Releases, name: str, known: int) -> None:
    """Another release, on the same disk."""
    station = pair.stations[name]
    station.kill()
    releases.known[name] = known
    station.start()
    pair.until(lambda: station.node.ready)


def other(pair: Pair, name: str) -> Station:
    return next(station for station in pair.stations.values() if station.name != name)


def limit_of(definition: dict[str, Any]) -> commands.SetPolicy:
    return commands.SetPolicy("/", "p", False, ".*", "queues", 0, definition)


def test_a_new_cluster_begins_with_what_its_first_node_knows() -> None:
    assert versions(Pair(alone=True)) == [NEWEST]
    pair, _ = three(OLDEST)
    assert versions(pair) == [OLDEST] * 3


def test_a_cluster_moves_up_when_the_last_node_can_and_loses_nothing() -> None:
    pair, releases = three(OLDEST)
    sent = 0
    for name in ("b", "c", "a"):
        client = other(pair, name).client()
        client.publish_confirmed(QUEUE, 10)
        sent += 10
        assert set(versions(pair)) == {OLDEST}
        restart(pair, releases, name, NEWEST)
    pair.until(lambda: versions(pair) == [NEWEST] * 3)
    client = pair.b.client()
    for _ in range(sent):
        got = client.get(QUEUE)
        assert got is not None
        client.ack(got.tag)
    assert client.get(QUEUE) is None
    for station in pair.stations.values():
        station.kill()
        station.start()
    pair.until(lambda: versions(pair) == [NEWEST] * 3)


def test_a_node_that_is_down_keeps_the_cluster_back_until_it_is_newer_or_gone() -> None:
    pair, releases = three(OLDEST)
    pair.stations["c"].kill()
    for name in ("b", "a"):
        restart(pair, releases, name, NEWEST)
    pair.settle(100)
    assert versions(pair) == [OLDEST] * 2
    pair.a.node.store.submit(commands.RemoveNode("c", True), None)
    pair.until(lambda: versions(pair) == [NEWEST] * 2)


def test_a_change_that_some_node_would_not_understand_is_refused_by_name() -> None:
    pair, releases = three(NEWEST)
    assert versions(pair) == [NEWEST] * 3
    check_version(pair.a.node.metadata, limit_of({"delivery-limit": 3}))
    older, releases = three(OLDEST)
    machine = older.a.node.metadata
    check_version(machine, limit_of({"target-group-size": 3}))
    with pytest.raises(Refusal, match="needs cluster version 2.*at 1.* on a, b, c$"):
        check_version(machine, limit_of({"delivery-limit": 3}))
    for name in ("c", "a"):
        restart(older, releases, name, NEWEST)
    machine = older.a.node.metadata
    with pytest.raises(Refusal, match=r"let cluster\.version_max be 2, on b$"):
        check_version(machine, limit_of({"delivery-limit": 3}))


def exchange_of(kind: str) -> commands.DeclareExchange:
    return commands.DeclareExchange("/", "x", kind, True, False, False, {})


@pytest.mark.parametrize("kind", sorted({*EXCHANGE_TYPES} - {*OLDEST_TYPES}))
def test_types_of_exchanges_wait_until_all_nodes_know_them(kind: str) -> None:
    machine = MetadataMachine()
    for index, version in enumerate((SPREADING_EXCHANGES - 1, SPREADING_EXCHANGES), 1):
        machine.apply(index, commands.BeginCluster(b"c" * 16, version))
        machine.version = version
        check_version(machine, exchange_of("topic"))
        if version < SPREADING_EXCHANGES:
            with pytest.raises(Refusal, match=f"needs cluster version {SPREADING_EXCHANGES}"):
                check_version(machine, exchange_of(kind))
        else:
            check_version(machine, exchange_of(kind))


def test_a_client_is_told_that_a_type_is_too_new() -> None:
    pair, _ = three(SPREADING_EXCHANGES - 1)
    declare = spec.ExchangeDeclare(0, "x", "x-random", False, True, False, False, False, {})
    answer = pair.a.client().call(declare)
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 406
    assert f"needs cluster version {SPREADING_EXCHANGES}" in answer.reply_text


def labels(station: Station) -> list[tuple[str, str]]:
    return [(row.host_label, row.zone) for row in station.node.metadata.nodes.values()]


def test_labels_of_nodes_wait_until_all_know_them() -> None:
    """Each node says where it is, once that can be written down, and again where that changes."""
    releases = Releases(OLDEST)

    def configure(settings: Settings) -> None:
        releases.configure(settings)
        settings.host_label, settings.zone = f"h-{settings.node_name}", "z"

    pair = Pair(configure=configure)
    pair.minds_seconds = True
    pair.settle(50)
    assert labels(pair.a) == [("", "")] * 2
    for name in ("b", "a"):
        restart(pair, releases, name, NEWEST)

    both = [("h-a", "z"), ("h-b", "z")]
    pair.until(lambda: labels(pair.a) == both and labels(pair.b) == both)
    again = MetadataMachine()
    again.restore(pair.a.node.metadata.snapshot())
    assert again.snapshot() == pair.a.node.metadata.snapshot()
    pair.b.node.settings.zone = ""
    pair.until(lambda: labels(pair.a) == [("h-a", "z"), ("h-b", "")])


def test_an_older_release_does_not_start_on_what_a_newer_one_wrote() -> None:
    releases = Releases(NEWEST)
    pair = Pair(alone=True, configure=releases.configure)
    pair.a.kill()
    releases.known["a"] = OLDEST
    with pytest.raises(
        StorageError, match=f"cluster version {NEWEST}, .* up to 1: start the release that"
    ):
        pair.a.start()
    pair.a.alive = False
    releases.known["a"] = NEWEST
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)


def test_an_older_release_is_not_let_in() -> None:
    pair, releases = three(NEWEST)
    releases.known["d"] = OLDEST
    late = pair.stations["d"] = Station(pair, "d")
    late.start()
    pair.until(lambda: codes.BEHIND in late.refusals)
    assert "d" not in pair.a.node.metadata.nodes and not late.node.ready


def test_an_older_release_that_was_away_when_the_cluster_moved_up_is_refused() -> None:
    """By its own disk it might start: only the others can tell it."""
    pair, releases = three(OLDEST)
    releases.known["c"] = NEWEST
    restart(pair, releases, "c", NEWEST)
    c = pair.stations["c"]
    pair.until(lambda: pair.a.node.metadata.nodes["c"].version == NEWEST)
    c.kill()
    for name in ("b", "a"):
        restart(pair, releases, name, NEWEST)
    pair.until(lambda: versions(pair) == [NEWEST] * 2)
    releases.known["c"] = OLDEST
    c.start()
    pair.until(lambda: codes.BEHIND in c.refusals)
    assert not c.node.ready
    restart(pair, releases, "c", NEWEST)
    assert versions(pair) == [NEWEST] * 3


def test_a_version_that_some_node_does_not_know_is_not_reached() -> None:
    machine = MetadataMachine()
    machine.apply(1, commands.BeginCluster(b"c" * 16, OLDEST))
    for name in ("a", "b"):
        machine.apply(2, commands.AddNode(name, name.encode() * 16, name, 1, 7))
    machine.apply(3, commands.NodeUp("a", b"a" * 16, b"life", 1, 0, NEWEST))
    assert not machine.apply(4, commands.RaiseVersion(NEWEST)).changed
    machine.apply(5, commands.NodeUp("b", b"b" * 16, b"life", 1, 0, NEWEST))
    assert not machine.apply(6, commands.RaiseVersion(NEWEST + 1)).changed
    assert machine.apply(7, commands.RaiseVersion(NEWEST)).changed
    assert not machine.apply(8, commands.RaiseVersion(OLDEST)).changed
    again = MetadataMachine()
    again.restore(machine.snapshot())
    assert (again.version, again.snapshot()) == (NEWEST, machine.snapshot())


def test_an_older_release_stops_where_the_cluster_moves_on() -> None:
    """So it comes to no command that it does not know, and leaves none out that others apply."""
    releases = Releases(OLDEST)
    pair = Pair(alone=True, configure=releases.configure)
    pair.a.node.store.member().propose_plain(encoding.encode(commands.RaiseVersion(NEWEST)))
    pair.settle()
    assert versions(pair) == [OLDEST], "it is one of all nodes, and does not know that version"
    later = MetadataMachine()
    later.restore(pair.a.node.metadata.snapshot())
    later.nodes["a"].version = NEWEST
    later.apply(later.applied_index + 1, commands.RaiseVersion(NEWEST))
    with pytest.raises(StorageError, match=f"cluster version {NEWEST}, .* up to 1"):
        pair.a.node.store.restore(later.snapshot())


def test_logs_of_earlier_releases_are_read() -> None:
    """Their first entry and their nodes' starts name no cluster version."""
    begin = encoding.decode(b"\x93\x02\x0e\xc4\x01c")
    assert isinstance(begin, commands.BeginCluster) and begin.version == OLDEST
    for more in ([], [3, 4]):
        row = [encoding.VERSION, 17, "a", b"u", b"n", *more]
        up = encoding.decode(msgspec.msgpack.encode(row))
        assert isinstance(up, commands.NodeUp) and up.version == OLDEST
        assert [up.boot, up.round] == (more or [0, 0])


def test_returns_count_towards_a_limit_until_all_nodes_can_tell_failures_apart() -> None:
    """The queue's log says from where on they can, and what is there keeps its counts."""
    pair, releases = three(COUNTED_FAILURES - 1)
    client = pair.a.client()
    client.publish_confirmed(QUEUE, 1)

    def come(times: int, failed: bool) -> list[object]:
        counts = []
        for _ in range(times):
            got = client.get(QUEUE)
            assert got is not None
            counts.append(got.headers().get("x-delivery-count"))
            answer = (
                spec.BasicReject(got.tag, True) if failed else spec.BasicNack(got.tag, False, True)
            )
            client.send(answer)
        return counts

    assert come(3, False) == [None, 1, 2]
    assert come(1, True) == [3]
    for name in ("c", "b"):
        restart(pair, releases, name, NEWEST)
    assert come(2, False) == [4, 5]
    restart(pair, releases, "a", NEWEST)
    pair.until(lambda: versions(pair) == [NEWEST] * 3)
    stations = pair.stations.values()
    pair.until(lambda: all(each.queue(QUEUE).fifo.config.failures for each in stations))
    client = pair.b.client()
    pair.until(lambda: pair.b.queue(QUEUE).ready_count() == 1)
    assert len(set(come(30, False))) == 1


def test_a_limit_of_a_queues_own_waits_until_all_nodes_mind_it() -> None:
    pair, _ = three(DELIVERY_LIMIT_ARGUMENT - 1)
    arguments: Table = {"x-queue-type": "quorum", "x-delivery-limit": 5}
    declare = spec.QueueDeclare(0, "q", False, True, False, False, False, arguments)
    answer = pair.a.client().call(declare)
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 406
    assert f"needs cluster version {DELIVERY_LIMIT_ARGUMENT}" in answer.reply_text


def test_a_user_made_on_a_newer_node_may_log_in_on_the_older_ones() -> None:
    """Whose release knows RabbitMQ's hashes and no others."""
    pair, releases = three(PASSWORD_HASHES - 1)
    restart(pair, releases, "b", NEWEST)
    service = service_of(pair, "b")
    answered(pair, lambda: users.add_user(service, LOCAL, name="app", password="secret"))
    vhost = commands.SetPermissions("app", "/", ".*", ".*", ".*")
    answered(pair, lambda: service.change(vhost))
    made = pair.b.node.metadata.users["app"]
    assert made.hash_scheme == SHA256
    pair.until(lambda: all("app" in each.node.metadata.users for each in pair.stations.values()))
    for station in pair.stations.values():
        assert station.client(user="app", password="secret").opened
    for name in ("c", "a"):
        restart(pair, releases, name, NEWEST)
    pair.until(lambda: versions(pair) == [NEWEST] * 3)
    service = service_of(pair, "c")
    answered(pair, lambda: users.change_password(service, LOCAL, name="app", password="other"))
    assert pair.stations["c"].node.metadata.users["app"].hash_scheme == ARGON2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_hashes_that_older_nodes_do_not_know_are_refused_until_all_do(scheme: str) -> None:
    machine = MetadataMachine()
    machine.apply(1, commands.BeginCluster(b"c" * 16, PASSWORD_HASHES - 1))
    user = commands.SetUser("app", b"salt and digest", scheme, [], False)
    if scheme in (SHA256, SHA512):
        check_version(machine, user)
    else:
        assert scheme in (ARGON2, MD5)
        with pytest.raises(Refusal, match=f"needs cluster version {PASSWORD_HASHES}"):
            check_version(machine, user)


def said(pair: Pair) -> list[int]:
    """What the manifest of each node's log says of the cluster version."""
    disks = [station.disk for station in pair.stations.values()]
    return [decode(disk.image()[MANIFEST_PATH]).version for disk in disks]


def test_logs_say_the_version_once_it_is_in_force_and_not_before() -> None:
    """So the way back to 0.1.0 is open until then, and what it refuses is named."""
    pair, releases = three(SAID_BY_LOGS - 1)
    for name in ("b", "c", "a"):
        pair.a.client().publish_confirmed(QUEUE, 1)
        pair.settle(30)
        assert said(pair) == [0, 0, 0]
        restart(pair, releases, name, NEWEST)
    pair.until(lambda: versions(pair) == [NEWEST] * 3)
    pair.a.client().publish_confirmed(QUEUE, 1)
    pair.until(lambda: said(pair) == [NEWEST] * 3)
    alone = Pair(alone=True)
    alone.until(lambda: said(alone) == [NEWEST])


def test_a_log_says_the_version_of_what_comes_before_the_tables_know_it() -> None:
    """A member may be given messages while its tables lag."""
    pair, releases = three(SAID_BY_LOGS - 1)
    for name in ("b", "c"):
        restart(pair, releases, name, NEWEST)
    c = pair.stations["c"]
    pair.until(lambda: pair.a.node.metadata.nodes["c"].version == NEWEST)
    for other_name in ("a", "b"):
        pair.withheld[other_name, "c"] = []
        pair.withheld["c", other_name] = []
    restart(pair, releases, "a", NEWEST)
    pair.until(lambda: pair.a.node.metadata.version == NEWEST)
    log = c.node.log.group(int(c.record(QUEUE).group_id))
    before = log.last_index
    client = pair.a.client()
    client.publish_confirmed(QUEUE, 1)
    pair.until(lambda: log.last_index > before)
    pair.settle(30)
    assert c.node.metadata.version < NEWEST and said(pair) == [NEWEST] * 3


def test_what_was_created_before_the_version_that_notes_it_has_no_index_of_that() -> None:
    """So that an older release reads the tables, and all nodes have the same ones."""
    pair, releases = three(CREATION_INDEXES - 1)
    store = pair.a.node.store
    store.submit(commands.DeclareVhost("v"), None)
    store.submit(commands.DeclareVhost("w"), None)
    pair.until(lambda: all("w" in each.node.metadata.vhosts for each in pair.stations.values()))
    *_, users_rows, vhosts = msgspec.msgpack.decode(pair.a.node.metadata.snapshot())
    assert {len(row) for row in users_rows} == {5} and {len(row) for row in vhosts} == {7}
    for name in ("b", "c", "a"):
        restart(pair, releases, name, NEWEST)
    pair.until(lambda: versions(pair) == [NEWEST] * 3)
    store = pair.a.node.store
    for command in (
        commands.DeleteVhost("v"),
        commands.DeclareVhost("v"),
        commands.SetUser("late", b"", SHA256, [], False),
    ):
        store.submit(command, None)
    pair.until(lambda: all("late" in each.node.metadata.users for each in pair.stations.values()))

    def hashes() -> set[str]:
        return {each.node.metadata.state_hash() for each in pair.stations.values()}

    for again in (False, True):
        for station in pair.stations.values():
            if again:
                restart(pair, releases, station.name, NEWEST)
            tables = station.node.metadata
            assert tables.vhosts["v"].created > 0 and tables.users["late"].created > 0
            assert tables.vhosts["w"].created == tables.users["guest"].created == 0
        pair.until(lambda: len(hashes()) == 1)
        restored = MetadataMachine()
        restored.restore(pair.a.node.metadata.snapshot())
        assert {restored.state_hash()} == hashes()
