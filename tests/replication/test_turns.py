"""What one turn of the loop does of what is committed at once."""

from __future__ import annotations

import pytest

import warren
from tests.replication.hosts import World
from warren.replication.member import COMMAND_BYTES_MAX, STEP_BYTES

COMMANDS = 10
SIZE = 20_000
IN_A_TURN = [4, 4, 2]
"""64 KiB of commands are full with the fourth."""


@pytest.mark.parametrize("names", ["a", "abc"])
def test_many_commands_are_applied_in_several_turns(names: str) -> None:
    """As many acks or returns as a client may send at once stop nobody else for long."""
    world = World(names)
    leader = world.hosts["a"]
    member = leader.member
    leader.append(COMMANDS, SIZE)
    while member.raft.commit_index < member.log.last_index:
        for host in world.hosts.values():
            host.write()
        for frame in world.taken():
            world.deliver(frame)
    left = [member.log.last_index - member.applied_index]
    while member.applies_later():
        leader.turn()
        left.append(member.log.last_index - member.applied_index)
    done = [
        COMMANDS - left[0],
        *(before - now for before, now in zip(left, left[1:], strict=False)),
    ]
    assert done == IN_A_TURN
    assert not leader.applies
    world.settle()
    for host in world.hosts.values():
        assert host.member.applied_index == member.log.last_index


@pytest.mark.skipif(warren.COMPILED, reason="a machine is told what it cost")
def test_what_a_machine_goes_on_with_counts_as_commands_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Entries that come at once may each bring as much as a turn has leave for."""
    world = World("a")
    leader = world.hosts["a"]
    member = leader.member
    monkeypatch.setattr(member.machine, "take_steps", lambda: COMMAND_BYTES_MAX // STEP_BYTES)
    leader.append(COMMANDS)
    member_before = member.applied_index
    leader.write()
    done = [member.applied_index - member_before]
    while member.applies_later():
        before = member.applied_index
        leader.turn()
        done.append(member.applied_index - before)
    assert sum(done) >= COMMANDS and max(done) == 1
