"""The machine: replay, snapshots, restarts, and rows that agree with routes after any history."""

from __future__ import annotations

import base64
import hashlib
from itertools import pairwise

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from warren.errors import Refusal, StorageError
from warren.limits import BINDINGS_AT_ONCE_MAX, QUEUES_AT_ONCE_MAX
from warren.metadata import commands, encoding
from warren.metadata.commands import Command
from warren.metadata.machine import MetadataMachine, Outcome
from warren.metadata.passwords import MD5, SHA256, SHA512, hash_password, password_matches
from warren.metadata.permissions import Authority, first_commands
from warren.metadata.reading import Reading
from warren.metadata.rows import (
    LOT_ROWS,
    EncodedRows,
    array_head,
    binding_row,
    exchange_row,
    queue_row,
)
from warren.metadata.tables import MemberRecord
from warren.metadata.weights import weight_of_binding, weight_of_exchange, weight_of_queue
from warren.routing.exchange_types import (
    DELAYED_MESSAGE,
    OLDEST_TYPES,
    RECENT_HISTORY,
    STORE_PREFIX,
)
from warren.wire.amqp091.table import Decimal, SignedInt, Table, Timestamp

VHOSTS = st.sampled_from(["/", "v"])
NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from(["", "k", "#", "*.k", "2"])
TABLES: st.SearchStrategy[Table] = st.sampled_from(
    [{}, {"x": 1}, {"x": SignedInt(1), "y": ["z", None]}, {"t": Timestamp(5)}, {"d": Decimal(1, 2)}]
)
KINDS = st.sampled_from([*OLDEST_TYPES, "x-consistent-hash", "x-modulus-hash", RECENT_HISTORY])
BOOLS = st.booleans()
NODES = st.sampled_from(["", "n1", "n2", "n3"])
UIDS = st.sampled_from([b"1", b"2", b"3"])
MEMBERS = st.lists(
    st.builds(MemberRecord, st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 3), BOOLS),
    max_size=3,
    unique_by=lambda member: member.node,
)
LIMITS = st.dictionaries(NAMES, st.integers(-1, 3), max_size=2)
PROPERTIES: st.SearchStrategy[dict[str, object]] = st.sampled_from(
    [
        {},
        {"description": "d"},
        {"description": ""},
        {"tags": ["x", "y"], "default_queue_type": "quorum"},
        {"protected_from_deletion": True},
        {"protected_from_deletion": False, "tags": []},
    ]
)
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        commands.DeclareQueue,
        VHOSTS,
        NAMES,
        st.sampled_from(["classic", "quorum"]),
        BOOLS,
        BOOLS,
        st.sampled_from([0, 7, 8]),
        TABLES,
        st.integers(1, 5),
        NODES,
        MEMBERS,
    ),
    st.builds(commands.DeleteQueue, VHOSTS, NAMES, st.integers(1, 5), BOOLS),
    st.builds(commands.DeclareExchange, VHOSTS, NAMES, KINDS, BOOLS, BOOLS, BOOLS, TABLES),
    st.builds(
        commands.DeclareDelayed,
        VHOSTS,
        NAMES,
        BOOLS,
        BOOLS,
        BOOLS,
        st.sampled_from([{"x-delayed-type": "topic"}, {"x-delayed-type": "fanout"}]),
        st.integers(1, 5),
        NODES,
        MEMBERS,
    ),
    st.builds(commands.DeleteExchange, VHOSTS, NAMES, BOOLS, BOOLS),
    st.builds(
        commands.KeepRecent,
        VHOSTS,
        NAMES,
        st.lists(st.binary(max_size=3), max_size=30),
        st.just(0),
    ),
    st.builds(commands.Bind, VHOSTS, NAMES, NAMES, BOOLS, KEYS, TABLES, BOOLS),
    st.builds(commands.Bind, VHOSTS, NAMES, NAMES, BOOLS, KEYS, TABLES, BOOLS),
    st.builds(commands.Unbind, VHOSTS, NAMES, NAMES, BOOLS, KEYS, TABLES, BOOLS),
    st.builds(commands.DeclareVhost, VHOSTS),
    st.builds(commands.DeleteVhost, VHOSTS),
    st.builds(commands.SetUser, NAMES, st.binary(max_size=3), st.just("s"), st.just(["t"]), BOOLS),
    st.builds(commands.DeleteUser, NAMES),
    st.builds(commands.SetPermissions, NAMES, VHOSTS, KEYS, KEYS, KEYS),
    st.builds(commands.ClearPermissions, NAMES, VHOSTS),
    st.builds(commands.SetPassword, NAMES, st.binary(max_size=3), st.just("s")),
    st.builds(
        commands.RenewHash, NAMES, st.binary(max_size=3), st.binary(max_size=3), st.just("s")
    ),
    st.builds(commands.SetUserTags, NAMES, st.just(["t"])),
    st.builds(commands.SetUserLimits, NAMES, LIMITS, st.lists(NAMES, max_size=2)),
    st.builds(commands.SetVhost, VHOSTS, BOOLS, PROPERTIES),
    st.builds(commands.SetVhostLimits, VHOSTS, LIMITS),
    st.builds(
        commands.SetParameter, VHOSTS, st.sampled_from(["", "c"]), NAMES, KEYS.map(str.encode)
    ),
    st.builds(commands.SetParameter, st.just(""), st.just(""), NAMES, KEYS.map(str.encode)),
    st.builds(commands.ClearParameter, st.just(""), st.just(""), NAMES),
    st.builds(commands.SetTopicPermissions, NAMES, VHOSTS, NAMES, KEYS, KEYS),
    st.builds(commands.ClearTopicPermissions, NAMES, VHOSTS, st.sampled_from(["", "a", "b"])),
    st.builds(commands.BeginCluster, st.binary(max_size=2)),
    st.builds(commands.AddNode, NODES, UIDS, KEYS, st.integers(1, 3), st.integers(1, 3)),
    st.builds(commands.RemoveNode, NODES, BOOLS),
    st.builds(commands.RemoveNode, NODES, BOOLS, UIDS),
    st.builds(commands.NodeUp, NODES, UIDS, st.binary(max_size=1)),
    st.builds(commands.MoreSessions, NODES, st.binary(max_size=1), st.integers(0, 20)),
    st.builds(commands.NodeMoved, NODES, KEYS, st.integers(1, 3)),
    st.builds(commands.NodeLabelled, NODES, KEYS, KEYS),
    st.builds(commands.SetMembers, st.integers(1, 5), VHOSTS, NAMES, MEMBERS, st.integers(0, 2)),
)
BEGINNING: list[Command] = [
    commands.DeclareVhost("/"),
    commands.AddNode("n1", b"1", "h", 1, 1),
    commands.AddNode("n2", b"2", "h", 1, 1),
]
HISTORIES = st.lists(COMMANDS, max_size=60).map(lambda tail: [*BEGINNING, *tail])


def replay(history: list[Command], machine: MetadataMachine | None = None) -> MetadataMachine:
    machine = machine or MetadataMachine()
    for command in history:
        machine.apply(machine.applied_index + 1, command)
    return machine


def check_invariants(machine: MetadataMachine, going: str = "") -> None:
    """Rows, their indexes and the routes say the same.

    Args:
        going: A node that is leaving its queues.
    """
    for tables in machine.vhosts.values():
        bound = [one for row in tables.exchanges.values() for one in row.bound.values()]
        incoming = [one for row in tables.exchanges.values() for one in row.incoming]
        incoming += [one for queue in tables.queues.values() for one in queue.incoming]
        assert len(bound) == len(incoming)
        assert set(map(id, bound)) == set(map(id, incoming))
        owned = [queue.name for group in tables.owned.values() for queue in group]
        exclusive = [queue.name for queue in tables.queues.values() if queue.exclusive_owner]
        assert sorted(owned) == sorted(exclusive)
        # What snapshots are made of is kept, and has to change with what it is of.
        exchange_rows = list(map(exchange_row, tables.exchanges.values()))
        assert b"".join(tables.exchange_rows.joined()) == b"".join(exchange_rows)
        queue_rows = list(map(queue_row, tables.queues.values()))
        assert b"".join(tables.queue_rows.joined()) == b"".join(queue_rows)
        stores = [name for name, queue in tables.queues.items() if queue.type.delays]
        delaying = [row.name for row in tables.exchanges.values() if row.kind == DELAYED_MESSAGE]
        assert sorted(stores) == sorted(STORE_PREFIX + name for name in delaying)
        assert tables.stores == len(stores)
        for name in delaying:
            assert tables.router.route(name, "k", {"x-delay": 1}) == [STORE_PREFIX + name]
        keepers = [row for row in tables.exchanges.values() if row.kind == RECENT_HISTORY]
        assert list(tables.keepers.values()) == keepers
        for row in tables.exchanges.values():
            assert len(row.recent) <= (20 if row in keepers else 0)
            assert row.recent_bytes == sum(len(record) for _, record in row.recent)
            binding_rows = list(map(binding_row, row.bound.values()))
            assert b"".join(row.binding_rows.joined()) == b"".join(binding_rows)
        weight = sum(map(weight_of_exchange, tables.exchanges.values()))
        weight += sum(map(weight_of_queue, tables.queues.values()))
        assert tables.weight == weight + sum(map(weight_of_binding, bound))
        for queue in tables.queues.values():
            if queue.members:
                assert queue.type.replicated
                assert queue.member_on(queue.node) is not None
                assert all(member.node in {*machine.nodes, going} for member in queue.members)
        for name in tables.exchanges:
            for key in ("", "k", "a.k"):
                for found in tables.router.route(name, key, {"x": 1}):
                    assert found in tables.queues


@given(HISTORIES, st.integers(0, 60))
def test_snapshot_and_tail_equal_a_full_replay(history: list[Command], cut: int) -> None:
    whole = replay(history)
    restored = MetadataMachine()
    restored.restore(replay(history[:cut]).snapshot())
    replay(history[cut:], restored)
    assert restored.snapshot() == whole.snapshot()
    for vhost, tables in whole.vhosts.items():
        other = restored.vhosts[vhost].router
        for name in tables.exchanges:
            for key in ("", "k", "a.k"):
                headers: Table = {"x": 1}
                assert sorted(other.route(name, key, headers)) == sorted(
                    tables.router.route(name, key, headers)
                )


@given(HISTORIES, st.integers(0, 2))
def test_bindings_that_go_in_parts_leave_the_same_state(history: list[Command], few: int) -> None:
    whole, parts = MetadataMachine(), MetadataMachine()
    parts.bindings_at_once = few
    for index, command in enumerate(history, 1):
        outcome = whole.apply(index, command)
        first = parts.begin(index, command)
        changed = first.changed
        gone = [row.name for row in first.deleted_queues + first.deleted_exchanges]
        while parts.unfinished():
            # A node that goes is found to be needed nowhere first, and leaves its queues last.
            check_invariants(
                parts, command.name if isinstance(command, commands.RemoveNode) else ""
            )
            parts.bindings_at_once = few + 1
            more = parts.go_on()
            changed = changed or more.changed
            gone += [row.name for row in more.deleted_queues + more.deleted_exchanges]
        assert changed == outcome.changed
        parts.bindings_at_once = few
        names = [row.name for row in outcome.deleted_queues + outcome.deleted_exchanges]
        assert sorted(gone) == sorted(names)
        assert parts.snapshot() == whole.snapshot()


@pytest.mark.parametrize("what", ["queue", "exchange", "target"])
def test_very_many_bindings_go_in_several_parts(what: str) -> None:
    queue = commands.DeclareQueue("/", "q", "classic", True, False, 0, {}, 1)
    machine = replay([*BEGINNING, queue])
    for name in ("x", "y"):
        machine.apply(9, commands.DeclareExchange("/", name, "topic", True, False, False, {}))
    end, to_exchange = ("y", True) if what == "target" else ("q", False)
    for number in range(2 * BINDINGS_AT_ONCE_MAX + 1):
        machine.apply(9, commands.Bind("/", "x", end, to_exchange, f"k.{number}", {}, True))
    gone = {"queue": "q", "exchange": "x", "target": "y"}[what]
    last = machine.begin(
        10,
        commands.DeleteQueue("/", gone, 1, True)
        if what == "queue"
        else commands.DeleteExchange("/", gone, False, True),
    )
    assert last.changed
    turns = 1
    while machine.unfinished():
        assert not last.deleted_queues and not last.deleted_exchanges
        last = machine.go_on()
        turns += 1
    assert turns == 3
    assert [row.name for row in last.deleted_queues + last.deleted_exchanges] == [gone]
    check_invariants(machine)
    tables = machine.vhosts["/"]
    assert not any(row.bound or row.incoming for row in tables.exchanges.values())


GOING: dict[str, tuple[str, Command]] = {
    "vhost": ("v", commands.DeleteVhost("v")),
    "node": ("/", commands.RemoveNode("n2")),
    "life": ("/", commands.NodeUp("n2", b"2", b"new")),
}


@pytest.mark.parametrize(
    ("what", "to_exchange"), [("vhost", False), ("vhost", True), ("node", False), ("life", False)]
)
def test_what_goes_with_very_many_bindings_goes_in_several_parts(
    what: str, to_exchange: bool
) -> None:
    """A vhost, a node, or what ended with its last process; nobody hears of it before the end."""
    vhost, command = GOING[what]
    durable = what != "life"
    machine = replay([*BEGINNING, commands.DeclareVhost("v")])
    for number in (1, 2, 3):
        machine.apply(
            9,
            commands.DeclareQueue(
                vhost, f"q{number}", "classic", durable, False, 0, {}, number, "n2"
            ),
        )
    for name in ("x", "y"):
        machine.apply(9, commands.DeclareExchange(vhost, name, "topic", True, False, False, {}))
    end = "y" if to_exchange else "q2"
    count = 2 * BINDINGS_AT_ONCE_MAX + 1
    for number in range(count):
        machine.apply(9, commands.Bind(vhost, "x", end, to_exchange, f"k.{number}", {}, True))
    bound = machine.vhosts[vhost].exchanges["x"].bound
    last = machine.begin(10, command)
    left = [count, len(bound)]
    while machine.unfinished():
        assert not last.vhosts_changed and last.node_up is None
        check_invariants(machine)
        last = machine.go_on()
        left.append(len(bound) if machine.exchange(vhost, "x") is not None else 0)
    assert len(left) > 3
    assert all(before - now <= BINDINGS_AT_ONCE_MAX for before, now in pairwise(left))
    assert left[-1] == 0
    check_invariants(machine)
    if what == "vhost":
        assert "v" not in machine.vhosts and last.vhosts_changed
    else:
        assert list(machine.vhosts["/"].queues) == []
        assert (last.node_up is not None) == (what == "life")


@given(HISTORIES)
def test_a_replay_from_any_index_comes_to_the_same_state(history: list[Command]) -> None:
    whole = MetadataMachine()
    resumed = MetadataMachine()
    for command in history:
        before = resumed.snapshot()
        resumed = MetadataMachine()
        resumed.restore(before)
        outcomes = [
            machine.apply(machine.applied_index + 1, command) for machine in (whole, resumed)
        ]
        assert resumed.state_hash() == whole.state_hash()
        assert outline(outcomes[0]) == outline(outcomes[1])


def outline(outcome: Outcome) -> list[object]:
    """An outcome as values that compare."""
    return [
        outcome.changed,
        outcome.created_queue and outcome.created_queue.name,
        [(queue.vhost, queue.name) for queue in outcome.deleted_queues],
        {(row.vhost, row.name) for row in outcome.deleted_exchanges},
        outcome.nodes_changed,
        outcome.node_up and outcome.node_up.name,
        [(queue.vhost, queue.name) for queue in outcome.members_changed],
    ]


@given(HISTORIES)
def test_same_commands_give_the_same_state_and_bytes(history: list[Command]) -> None:
    decoded = [encoding.decode(encoding.encode(command)) for command in history]
    encoded = [encoding.encode(command) for command in history]
    assert [encoding.encode(command) for command in decoded] == encoded
    assert replay(decoded).state_hash() == replay(history).state_hash()


@settings(max_examples=examples(200))
@given(HISTORIES)
def test_rows_and_routes_agree_after_each_command(history: list[Command]) -> None:
    machine = MetadataMachine()
    for command in history:
        before = machine.snapshot()
        outcome = machine.apply(0, command)
        check_invariants(machine)
        if not outcome.changed and not isinstance(command, commands.DeclareQueue):
            assert machine.snapshot() == before


@pytest.mark.rule("DUR-02")
@given(HISTORIES, st.sampled_from(["n1", "n2"]))
def test_only_what_does_not_end_with_a_process_survives_it(
    history: list[Command], name: str
) -> None:
    machine = replay(history)
    before = {
        (tables.name, queue.name): (queue.node == name and queue.in_memory())
        for tables in machine.vhosts.values()
        for queue in tables.queues.values()
    }
    node = machine.nodes.get(name)
    if node is None:
        return
    index = machine.applied_index + 1
    outcome = machine.apply(index, commands.NodeUp(name, node.uid, b"new life"))
    check_invariants(machine)
    assert outcome.node_up is node
    assert node.session == index
    left = {
        (tables.name, queue.name)
        for tables in machine.vhosts.values()
        for queue in tables.queues.values()
    }
    assert left == {key for key, ends in before.items() if not ends}
    if len(machine.nodes) == 1:
        for tables in machine.vhosts.values():
            assert all(row.durable for row in tables.exchanges.values())


@given(HISTORIES, st.sampled_from(["n1", "n2", "n3"]), BOOLS)
def test_nothing_is_left_of_a_removed_node(history: list[Command], name: str, force: bool) -> None:
    machine = replay(history)
    before = machine.snapshot()
    silent = without_voters(machine)
    outcome = machine.apply(machine.applied_index, commands.RemoveNode(name, force))
    check_invariants(machine)
    if not outcome.changed:
        assert machine.snapshot() == before
        return
    assert name not in machine.nodes
    for tables in machine.vhosts.values():
        for queue in tables.queues.values():
            assert queue.node != name
            assert queue.member_on(name) is None
    assert force or without_voters(machine) <= silent


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_no_queue_is_at_home_where_it_has_no_member(kind: str) -> None:
    # Its member on n2 stays when n1 is removed, and so the queue does; it must not stay on n1.
    there = [MemberRecord("n2", 5, True)]
    declare = commands.DeclareQueue("/", "a", kind, True, False, 0, {}, 5, "n1", there)
    machine = replay([*BEGINNING, declare])
    check_invariants(machine)
    machine.apply(machine.applied_index + 1, commands.RemoveNode("n1", False))
    queue = machine.queue("/", "a")
    if kind == "quorum":
        assert queue is not None and queue.node == "n2"
    else:
        assert queue is None
    late = commands.DeclareQueue("/", "b", kind, True, False, 0, {}, 6, "n1", there)
    machine.apply(machine.applied_index + 1, late)
    queue = machine.queue("/", "b")
    assert (queue is None) == (kind == "classic")


NAMES_OF_THE_WORLD = ["заявки", "注文", "Ürgüp", "e\u0301", "\u00e9", "🐇", "a\u0000b", "ß" * 127]


def test_a_snapshot_keeps_names_of_any_script() -> None:
    history: list[Command] = [*BEGINNING]
    for number, name in enumerate(NAMES_OF_THE_WORLD):
        table: Table = {name: name}
        group = 2 * number + 1
        history += [
            commands.AddNode(name, name.encode(), name, 1, 1),
            commands.DeclareVhost(name),
            commands.SetUser(name, b"hash", "scheme", [name], False),
            commands.SetPermissions(name, name, name, name, name),
            commands.SetPolicy(name, name, False, ".*", "queues", 0, {"x": name}),
            commands.SetPolicy(name, name, True, ".*", "queues", 0, {"x": name}),
            commands.DeclareExchange(name, name, "topic", True, False, False, table),
            commands.DeclareQueue(name, name, "classic", True, False, 0, table, group, name),
            commands.DeclareQueue(
                name,
                f"{name}2",
                "quorum",
                True,
                False,
                0,
                table,
                group + 1,
                name,
                [MemberRecord(name, 1, True)],
            ),
            commands.Bind(name, name, name, False, name, table, True),
            commands.Bind(name, name, name, True, name, table, True),
        ]
    machine = replay([encoding.decode(encoding.encode(command)) for command in history])
    restored = MetadataMachine()
    restored.restore(machine.snapshot())
    for one in (machine, restored):
        assert list(one.nodes) == ["n1", "n2", *NAMES_OF_THE_WORLD]
        assert list(one.users) == NAMES_OF_THE_WORLD
        assert list(one.vhosts) == ["/", *NAMES_OF_THE_WORLD]
        for name in NAMES_OF_THE_WORLD:
            tables = one.vhosts[name]
            node, user = one.nodes[name], one.users[name]
            assert (node.name, node.host, user.name, user.tags) == (name, name, name, [name])
            permission = tables.permissions[name]
            assert permission.user == permission.vhost == name
            assert permission.configure == permission.write == permission.read == name
            for policies in (tables.policies, tables.operator_policies):
                assert policies[name].name == name and policies[name].definition == {"x": name}
            exchange = tables.exchanges[name]
            assert (exchange.name, exchange.arguments) == (name, {name: name})
            assert list(tables.queues) == [name, f"{name}2"]
            assert tables.queues[name].node == name
            assert tables.queues[name].arguments == {name: name}
            assert tables.queues[f"{name}2"].members[0].node == name
            assert [binding.source for binding in tables.queues[name].incoming] == [name]
            assert [binding.arguments for binding in exchange.incoming] == [{name: name}]
            assert tables.router.route(name, name, {}) == [name]
    snapshot = machine.snapshot()
    assert restored.snapshot() == snapshot
    # Joined of parts, it is what its values make as a whole.
    assert msgspec.msgpack.encode(msgspec.msgpack.decode(snapshot)) == snapshot


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_arrays_of_rows_have_the_form_of_any_array(count: int) -> None:
    plain = [[number, "x"] for number in range(count)]
    rows = b"".join(msgspec.msgpack.encode(row) for row in plain)
    assert array_head(count) + rows == msgspec.msgpack.encode(plain)


def without_voters(machine: MetadataMachine) -> set[tuple[str, str]]:
    return {
        (tables.name, queue.name)
        for tables in machine.vhosts.values()
        for queue in tables.queues.values()
        if queue.members and not any(member.voter for member in queue.members)
    }


@pytest.mark.rule("DUR-02")
@given(HISTORIES)
def test_only_what_is_durable_survives_a_restart(history: list[Command]) -> None:
    machine = replay(history)
    node = machine.nodes.get("n1")
    assume(node is not None)
    assert node is not None
    lasting = {
        (tables.name, queue.name)
        for tables in machine.vhosts.values()
        for queue in tables.queues.values()
        if queue.node != "n1" or (queue.durable and queue.exclusive_owner == 0)
    }
    outcome = machine.apply(machine.applied_index + 1, commands.NodeUp("n1", node.uid, b"later"))
    check_invariants(machine)
    left = {
        (tables.name, queue.name)
        for tables in machine.vhosts.values()
        for queue in tables.queues.values()
    }
    assert outcome.node_up is not None and left == lasting
    # Exchanges belong to no node: they last until the only one starts again.
    for other in [name for name in machine.nodes if name != "n1"]:
        machine.apply(machine.applied_index + 1, commands.RemoveNode(other, True))
    machine.apply(machine.applied_index + 1, commands.NodeUp("n1", node.uid, b"last"))
    for tables in machine.vhosts.values():
        assert all(row.durable for row in tables.exchanges.values())
        assert all(one.durable for row in tables.exchanges.values() for one in row.bound.values())


def test_commands_of_a_later_version_are_refused() -> None:
    newer = msgspec.msgpack.encode([encoding.VERSION + 1, 1, "/"])
    with pytest.raises(StorageError, match="command of version 3"):
        encoding.decode(newer)
    with pytest.raises(StorageError, match="snapshot of version 9"):
        MetadataMachine().restore(msgspec.msgpack.encode([9]))


# --- users and permissions ----------------------------------------------------------------------


def test_guest_may_log_in_from_this_machine_only() -> None:
    authority = Authority(replay(first_commands(b"salt", "/", "guest", "guest", True)))
    guest = authority.authenticate("guest", b"guest", True)
    assert guest is not None
    assert guest.tags == ["administrator"]
    assert authority.authenticate("guest", b"guest", False) is None
    assert authority.authenticate("guest", b"Guest", True) is None
    assert authority.authenticate("guest", b"", True) is None
    assert authority.authenticate("nobody", b"guest", True) is None


def test_password_hashes_have_the_format_of_rabbitmq() -> None:
    # The example of RabbitMQ's documentation.
    documented = base64.b64decode("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert hash_password(b"test12", documented[:4]) == documented
    assert password_matches(b"test12", documented, SHA256)
    assert not password_matches(b"test13", documented, SHA256)
    assert not password_matches(b"test12", documented, SHA512)
    assert not password_matches(b"test12", documented, "unknown")
    for scheme, digest in ((SHA512, hashlib.sha512), (MD5, hashlib.md5)):
        hashed = b"salt" + digest(b"salttest12").digest()
        assert password_matches(b"test12", hashed, scheme)
        assert not password_matches(b"test13", hashed, scheme)
        assert not password_matches(b"test12", hashed, SHA256)
    assert not password_matches(b"", b"", SHA256)


def test_vhost_access() -> None:
    machine = replay(
        [*first_commands(b"salt", "/", "guest", "guest", True), commands.DeclareVhost("v")]
    )
    authority = Authority(machine)
    authority.check_vhost("guest", "/")
    with pytest.raises(Refusal) as caught:
        authority.check_vhost("guest", "nowhere")
    assert str(caught.value) == "NOT_ALLOWED - vhost nowhere not found"
    with pytest.raises(Refusal) as caught:
        authority.check_vhost("guest", "v")
    assert str(caught.value) == "NOT_ALLOWED - access to vhost 'v' refused for user 'guest'"


@pytest.mark.parametrize(
    ("pattern", "name", "permitted"),
    [
        (".*", "anything", True),
        ("", "anything", False),
        ("^a", "ab", True),
        ("^a", "ba", False),
        ("b", "abc", True),
        ("(", "(", False),
    ],
)
def test_resource_patterns(pattern: str, name: str, permitted: bool) -> None:
    grant = commands.SetPermissions("guest", "/", "^$", pattern, "^$")
    authority = Authority(replay([*first_commands(b"salt", "/", "guest", "guest", True), grant]))
    if permitted:
        authority.check_resource("guest", "/", "write", "queue", name)
    else:
        with pytest.raises(Refusal) as caught:
            authority.check_resource("guest", "/", "write", "queue", name)
        assert str(caught.value) == (
            f"ACCESS_REFUSED - write access to queue '{name}' in vhost '/' refused for user 'guest'"
        )


def test_default_exchange_has_a_name_for_patterns() -> None:
    grant = commands.SetPermissions("guest", "/", "", r"^amq\.default$", "")
    authority = Authority(replay([*first_commands(b"salt", "/", "guest", "guest", True), grant]))
    authority.check_resource("guest", "/", "write", "exchange", "")
    with pytest.raises(Refusal):
        authority.check_resource("guest", "/", "read", "exchange", "")
    with pytest.raises(Refusal):
        authority.check_resource("guest", "/", "write", "exchange", "other")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=80))
def test_encoded_rows_are_those_of_a_dict_in_its_order(history: list[tuple[int, bool]]) -> None:
    rows, plain = EncodedRows(), {}
    for step, (name, there) in enumerate(history):
        if there:
            rows.put(name, bytes([step]))
            plain[name] = bytes([step])
        elif name in plain:
            rows.drop(name)
            del plain[name]
        assert b"".join(rows.joined()) == b"".join(plain.values())
        assert len(rows) == len(plain)
        assert all(rows.row(name) == row for name, row in plain.items())


def test_few_of_many_rows_are_joined_anew_for_a_snapshot() -> None:
    rows = EncodedRows()
    for name in range(10 * LOT_ROWS):
        rows.put(name, b"x")
    assert len(rows.lots) == 10
    rows.joined()
    # None has its row twice, joined and by itself.
    assert not any(any(lot.rows.values()) for lot in rows.lots)
    rows.put(3 * LOT_ROWS, b"y")
    rows.drop(5 * LOT_ROWS)
    rows.put("new", b"z")
    assert sum(not lot.joined for lot in rows.lots) == 3
    assert len(rows.lots) == 11
    for name in range(LOT_ROWS):
        rows.drop(name)
    assert len(rows.lots) == 10


def test_a_vhost_with_many_queues_is_deleted_in_parts() -> None:
    count = 2 * QUEUES_AT_ONCE_MAX + 10
    history: list[Command] = [commands.DeclareVhost("/"), commands.DeclareVhost("v")]
    for number in range(count):
        name = f"{number}"
        history.append(commands.DeclareQueue("v", name, "classic", True, False, 0, {}, number + 1))
        history.append(commands.Bind("v", "amq.topic", name, False, name, {}, True))
    machine = replay(history)
    outcome = machine.begin(machine.applied_index + 1, commands.DeleteVhost("v"))
    assert outcome.changed and not outcome.vhosts_changed and outcome.gone_vhost is None
    assert outcome.deleted_vhost is not None and outcome.deleted_vhost.name == "v"
    with pytest.raises(Refusal):
        Authority(machine).check_vhost("u", "v")
    gone = [len(outcome.deleted_queues)]
    while machine.unfinished():
        assert not outcome.vhosts_changed and "v" in machine.vhosts
        outcome = machine.go_on()
        gone.append(len(outcome.deleted_queues))
        assert outcome.deleted_vhost is None
    assert outcome.vhosts_changed and list(machine.vhosts) == ["/"]
    assert sum(gone) == count and max(gone) <= QUEUES_AT_ONCE_MAX
    at_once = replay([*history, commands.DeleteVhost("v")])
    assert at_once.snapshot() == machine.snapshot()


def test_a_snapshot_is_read_some_rows_at_a_time() -> None:
    """However many queues and bindings there are, and nothing is there before all of it is."""
    room = 10
    whole = replay([*BEGINNING, commands.DeclareVhost("v")])
    for vhost in ("/", "v"):
        whole.apply(9, commands.DeclareExchange(vhost, "x", "topic", True, False, False, {}))
        for number in range(60):
            name = f"q{number}"
            whole.apply(9, commands.DeclareQueue(vhost, name, "classic", True, False, 0, {}, 1))
            whole.apply(9, commands.Bind(vhost, "x", name, False, f"k.{number}", {}, True))
    whole.apply(9, commands.SetPolicy("/", "p", False, "q", "queues", 0, {"max-length": 1}))
    data = whole.snapshot()
    machine = replay([commands.DeclareVhost("/"), commands.DeclareVhost("gone")])
    router = machine.vhosts["/"].router
    before = machine.snapshot()
    reading = Reading(data, room)
    parts = 1
    rows = [0]

    def read() -> int:
        tables = [*reading.vhosts.values()]
        if reading._tables is not None:
            tables.append(reading._tables)
        return sum(len(t.queues) + len(t.queue_rows) for t in tables) // 2 + sum(
            len(exchange.bound) for t in tables for exchange in t.exchanges.values()
        )

    while not reading.go_on():
        parts += 1
        rows.append(read())
        assert machine.snapshot() == before
    assert parts > 20 and all(b - a <= room for a, b in pairwise(rows))
    machine.take(reading)
    assert machine.snapshot() == data
    assert machine.vhosts["/"].router is router
    assert router.route("x", "k.7", None) == ["q7"] and router.route("", "q7", None) == ["q7"]
    check_invariants(machine)
