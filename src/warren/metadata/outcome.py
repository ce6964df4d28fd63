"""What a command did to the tables, and who waits for it."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from warren.metadata.tables import ExchangeRecord, NodeRecord, QueueRecord


@final
class Outcome:
    """What a command did: the node acts on it.

    Attributes:
        changed: Whether the tables differ from before. A declare that changed nothing met an entity
            that came first: check its equivalence again.
        created_queue: Needs its machine started.
        deleted_queues, deleted_exchanges: All that are gone, by cascade too.
        nodes_changed: A node came, went, or has another address or incarnation.
        node_up: The node that began a new life. If it is this node, and the nonce not that of this
            process, a late announcement of an earlier process came through: announce it again.
        more_sessions: The node that got further sessions for its present life.
        members_changed: Queues whose members are others than before.
        policies_changed: What policies say of queues may be something else than before.
    """

    def __init__(self) -> None:
        self.changed: bool = False
        self.created_queue: QueueRecord | None = None
        self.deleted_queues: list[QueueRecord] = []
        self.deleted_exchanges: list[ExchangeRecord] = []
        self.nodes_changed: bool = False
        self.node_up: NodeRecord | None = None
        self.more_sessions: NodeRecord | None = None
        self.members_changed: list[QueueRecord] = []
        self.policies_changed: bool = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Change:
    """A change of the tables on its way; what asked for it defines `applied`."""

    @abstractmethod
    def applied(self, outcome: Outcome) -> None:
        """The change is durable and in force."""
