"""A machine that nodes talk to."""

from __future__ import annotations

from warren.ids import of_life
from warren.metadata import commands, encoding
from warren.metadata.commands import Command
from warren.metadata.machine import MetadataMachine, Outcome
from warren.metadata.tables import NO_OWNER, MemberRecord, QueueRecord

UIDS = {name: name.encode() * 16 for name in ("a", "b", "c", "d")}


class Cluster:
    """A machine, and what it is told by the nodes `a`, `b` and so on."""

    def __init__(self, *names: str) -> None:
        self.machine = MetadataMachine()
        self.apply(commands.BeginCluster(b"c" * 16))
        self.apply(commands.DeclareVhost("/"))
        for name in names:
            self.add(name)
            self.up(name)

    def apply(self, command: Command) -> Outcome:
        before = self.machine.state_hash()
        index = self.machine.applied_index
        decoded = encoding.decode(encoding.encode(command))
        outcome = self.machine.apply(index + 1, decoded)
        if not outcome.changed:
            self.machine.applied_index = index
            if not isinstance(command, commands.DeclareQueue):
                assert self.machine.state_hash() == before
            self.machine.applied_index = index + 1
        return outcome

    def add(self, name: str, uid: bytes = b"", port: int = 1, incarnation: int = 1) -> Outcome:
        return self.apply(
            commands.AddNode(name, uid or UIDS[name], f"{name}.example", port, incarnation)
        )

    def up(self, name: str, nonce: bytes = b"") -> Outcome:
        nonce = nonce or str(self.machine.applied_index).encode()
        return self.apply(commands.NodeUp(name, UIDS[name], nonce))

    def declare(
        self,
        name: str,
        node: str,
        members: str = "",
        durable: bool = True,
        owner: int = NO_OWNER,
        session: int = -1,
    ) -> Outcome:
        """`members` are nodes with a copy, voters in capitals."""
        if session < 0:
            session = int(self.machine.nodes[node].session)
        group_id = int(of_life(session, int(self.machine.applied_index)))
        kind = "quorum" if members else "classic"
        return self.apply(
            commands.DeclareQueue(
                "/", name, kind, durable, False, owner, {}, group_id, node, copies(members)
            )
        )

    def set_members(self, name: str, members: str, revision: int, group_id: int = 0) -> Outcome:
        group_id = group_id or int(self.queue(name).group_id)
        return self.apply(commands.SetMembers(group_id, "/", name, copies(members, 2), revision))

    def queue(self, name: str) -> QueueRecord:
        queue = self.machine.queue("/", name)
        assert queue is not None
        return queue

    def queues(self) -> list[str]:
        return list(self.machine.vhosts["/"].queues)

    def members(self, name: str) -> str:
        return shown(self.queue(name))


def copies(members: str, incarnation: int = 1) -> list[MemberRecord]:
    return [MemberRecord(one.lower(), incarnation, one.isupper()) for one in members]


def shown(queue: QueueRecord) -> str:
    return "".join(one.node.upper() if one.voter else one.node for one in queue.members)


def names(queues: list[QueueRecord]) -> list[str]:
    return [queue.name for queue in queues]
