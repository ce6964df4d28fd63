"""The machine: replay, snapshots, restarts, and rows that agree with routes after any history."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.errors import ChannelException, ConnectionException, StorageError
from warren.metadata import commands
from warren.metadata.commands import Command
from warren.metadata.machine import MetadataMachine
from warren.metadata.passwords import SHA256, SHA512, hash_password, password_matches
from warren.metadata.permissions import Authority, first_commands
from warren.wire.amqp091.table import Decimal, SignedInt, Table, Timestamp

VHOSTS = st.sampled_from(["/", "v"])
NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from(["", "k", "#", "*.k"])
TABLES: st.SearchStrategy[Table] = st.sampled_from(
    [{}, {"x": 1}, {"x": SignedInt(1), "y": ["z", None]}, {"t": Timestamp(5)}, {"d": Decimal(1, 2)}]
)
KINDS = st.sampled_from(["direct", "fanout", "topic", "headers"])
BOOLS = st.booleans()
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
    ),
    st.builds(commands.DeleteQueue, VHOSTS, NAMES, st.integers(1, 5), BOOLS),
    st.builds(commands.DeclareExchange, VHOSTS, NAMES, KINDS, BOOLS, BOOLS, BOOLS, TABLES),
    st.builds(commands.DeleteExchange, VHOSTS, NAMES, BOOLS, BOOLS),
    st.builds(commands.Bind, VHOSTS, NAMES, NAMES, BOOLS, KEYS, TABLES, BOOLS),
    st.builds(commands.Bind, VHOSTS, NAMES, NAMES, BOOLS, KEYS, TABLES, BOOLS),
    st.builds(commands.Unbind, VHOSTS, NAMES, NAMES, BOOLS, KEYS, TABLES, BOOLS),
    st.builds(commands.DeclareVhost, VHOSTS),
    st.builds(commands.DeleteVhost, VHOSTS),
    st.builds(commands.SetUser, NAMES, st.binary(max_size=3), st.just("s"), st.just(["t"]), BOOLS),
    st.builds(commands.DeleteUser, NAMES),
    st.builds(commands.SetPermissions, NAMES, VHOSTS, KEYS, KEYS, KEYS),
    st.builds(commands.ClearPermissions, NAMES, VHOSTS),
    st.builds(commands.DropTransient),
)
HISTORIES = st.lists(COMMANDS, max_size=60).map(lambda tail: [commands.DeclareVhost("/"), *tail])


def replay(history: list[Command], machine: MetadataMachine | None = None) -> MetadataMachine:
    machine = machine or MetadataMachine()
    for command in history:
        machine.apply(machine.applied_index + 1, command)
    return machine


def check_invariants(machine: MetadataMachine) -> None:
    """Rows, their indexes and the routes say the same."""
    for tables in machine.vhosts.values():
        bound = [one for row in tables.exchanges.values() for one in row.bound.values()]
        incoming = [one for row in tables.exchanges.values() for one in row.incoming]
        incoming += [one for queue in tables.queues.values() for one in queue.incoming]
        assert len(bound) == len(incoming)
        assert set(map(id, bound)) == set(map(id, incoming))
        owned = [queue.name for group in tables.owned.values() for queue in group]
        exclusive = [queue.name for queue in tables.queues.values() if queue.exclusive_owner]
        assert sorted(owned) == sorted(exclusive)
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


@given(HISTORIES)
def test_same_commands_give_the_same_state_and_bytes(history: list[Command]) -> None:
    decoded = [commands.decode(commands.encode(command)) for command in history]
    assert [one.fields() for one in decoded] == [one.fields() for one in history]
    assert replay(decoded).state_hash() == replay(history).state_hash()


@settings(max_examples=200)
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
@given(HISTORIES)
def test_only_what_is_durable_survives_a_restart(history: list[Command]) -> None:
    machine = replay(history)
    durable = {
        (tables.name, queue.name)
        for tables in machine.vhosts.values()
        for queue in tables.queues.values()
        if queue.durable
    }
    outcome = machine.apply(machine.applied_index + 1, commands.DropTransient())
    check_invariants(machine)
    left = {
        (tables.name, queue.name)
        for tables in machine.vhosts.values()
        for queue in tables.queues.values()
    }
    assert left == durable
    assert not any(queue.durable for queue in outcome.deleted_queues)
    for tables in machine.vhosts.values():
        assert all(row.durable for row in tables.exchanges.values())
        assert all(one.durable for row in tables.exchanges.values() for one in row.bound.values())


def test_commands_of_a_later_version_are_refused() -> None:
    newer = msgspec.msgpack.encode([commands.VERSION + 1, 1, "/"])
    with pytest.raises(StorageError, match="command of version 3"):
        commands.decode(newer)
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
    assert not password_matches(b"", b"", SHA256)


def test_vhost_access() -> None:
    machine = replay(
        [*first_commands(b"salt", "/", "guest", "guest", True), commands.DeclareVhost("v")]
    )
    authority = Authority(machine)
    authority.check_vhost("guest", "/")
    with pytest.raises(ConnectionException) as caught:
        authority.check_vhost("guest", "nowhere")
    assert str(caught.value) == "NOT_ALLOWED - vhost nowhere not found"
    with pytest.raises(ConnectionException) as caught:
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
        with pytest.raises(ChannelException) as caught:
            authority.check_resource("guest", "/", "write", "queue", name)
        assert str(caught.value) == (
            f"ACCESS_REFUSED - write access to queue '{name}' in vhost '/' refused for user 'guest'"
        )


def test_default_exchange_has_a_name_for_patterns() -> None:
    grant = commands.SetPermissions("guest", "/", "", r"^amq\.default$", "")
    authority = Authority(replay([*first_commands(b"salt", "/", "guest", "guest", True), grant]))
    authority.check_resource("guest", "/", "write", "exchange", "")
    with pytest.raises(ChannelException):
        authority.check_resource("guest", "/", "read", "exchange", "")
    with pytest.raises(ChannelException):
        authority.check_resource("guest", "/", "write", "exchange", "other")
