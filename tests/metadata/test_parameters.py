"""Runtime parameters: set, cleared, gone with their vhost, and kept by snapshots."""

from __future__ import annotations

import pytest

from warren.errors import NOT_FOUND, CorruptRecord, Refusal
from warren.limits import SHORTSTR_BYTES_MAX
from warren.metadata import commands, encoding
from warren.metadata.foreign_checks import foreign_command
from warren.metadata.machine import MetadataMachine
from warren.metadata.parameters import (
    PARAMETERS_MAX,
    VALUE_BYTES_MAX,
    check_clear_global,
    check_set_global,
)
from warren.metadata.version_checks import check_version
from warren.versions import PARAMETERS


def machine_of(*given: commands.Command) -> MetadataMachine:
    machine = MetadataMachine()
    for index, command in enumerate((commands.DeclareVhost("v"), *given), 1):
        machine.apply(index, command)
    return machine


def test_a_parameter_is_replaced_and_cleared() -> None:
    machine = machine_of(commands.SetParameter("", "", "n", b"1"))
    assert machine.apply(9, commands.SetParameter("", "", "n", b"2")).changed
    assert machine.parameters == {("", "", "n"): b"2"}
    assert machine.apply(10, commands.ClearParameter("", "", "n")).changed
    assert not machine.apply(11, commands.ClearParameter("", "", "n")).changed
    assert machine.parameters == {}


def test_those_of_a_vhost_go_with_it() -> None:
    machine = machine_of(
        commands.SetParameter("v", "c", "n", b"1"), commands.SetParameter("", "", "n", b"2")
    )
    assert not machine.apply(8, commands.SetParameter("none", "c", "n", b"1")).changed
    machine.apply(9, commands.DeleteVhost("v"))
    assert machine.parameters == {("", "", "n"): b"2"}


def test_a_snapshot_has_them_only_where_there_are_some() -> None:
    """Older releases, which know none, read the others."""
    machine = machine_of()
    without = machine.snapshot()
    machine.apply(2, commands.SetParameter("v", "c", "ü", b'{"a":[1]}'))
    restored = MetadataMachine()
    restored.restore(machine.snapshot())
    assert restored.parameters == machine.parameters
    assert restored.state_hash() == machine.state_hash()
    restored.restore(without)
    assert restored.parameters == {}
    machine.apply(3, commands.ClearParameter("v", "c", "ü"))
    assert len(machine.snapshot()) == len(without)


def test_they_wait_until_all_nodes_know_them() -> None:
    machine = machine_of()
    machine.version = PARAMETERS - 1
    for command in (commands.SetParameter("", "", "n", b"1"), commands.ClearParameter("", "", "n")):
        with pytest.raises(Refusal, match=f"needs cluster version {PARAMETERS}"):
            check_version(machine, command)
    machine.version = PARAMETERS
    check_version(machine, commands.SetParameter("", "", "n", b"1"))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("n", "{", "Could not parse JSON document"),
        ("n", "[" * 100_000, "Could not parse JSON document"),
        ("n", f'"{"x" * VALUE_BYTES_MAX}"', f"at most {VALUE_BYTES_MAX} bytes"),
        ("", "1", "has a name"),
        ("x" * (SHORTSTR_BYTES_MAX + 1), "1", f"at most {SHORTSTR_BYTES_MAX} bytes"),
    ],
)
def test_what_is_none_is_refused(name: str, value: str, text: str) -> None:
    with pytest.raises(Refusal, match=text):
        check_set_global({}, name, value)


def test_there_are_only_so_many() -> None:
    full = {("", "", str(number)): b"1" for number in range(PARAMETERS_MAX)}
    with pytest.raises(Refusal, match=f"{PARAMETERS_MAX} parameters at most"):
        check_set_global(full, "more", "1")
    assert check_set_global(full, "1", '{ "a": 1 }').value == b'{"a":1}'


def test_what_is_not_there_cannot_be_cleared() -> None:
    with pytest.raises(Refusal) as refused:
        check_clear_global({}, "n")
    assert refused.value.kind == NOT_FOUND


@pytest.mark.parametrize(
    "command",
    [
        commands.SetParameter("", "", "n", b"{"),
        commands.SetParameter("", "", "n", b"[" * 60_000),
        commands.SetParameter("", "", "", b"1"),
        commands.SetParameter("v" * 256, "c", "n", b"1"),
    ],
)
def test_no_node_has_such_a_parameter_logged(command: commands.Command) -> None:
    with pytest.raises(CorruptRecord):
        foreign_command(encoding.encode(command))
