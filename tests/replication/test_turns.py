"""What one turn of the loop does of what is committed at once."""

from __future__ import annotations

import pytest

from tests.replication.hosts import World

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
