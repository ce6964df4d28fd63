"""What a command did to the tables."""

from __future__ import annotations

from typing import final

from warren.metadata.tables import (
    ExchangeRecord,
    NodeRecord,
    PolicyRecord,
    QueueRecord,
    VhostRecord,
)
from warren.pending import Result
from warren.routing.bindings import Binding


@final
class Outcome(Result):
    """What a command did: the node acts on it.

    Attributes:
        changed: Whether the tables differ from before. A declare that changed nothing met an entity
            that came first: check its equivalence again.
        created_queue: Needs its machine started.
        deleted_queues, deleted_exchanges: All that are gone, by cascade too.
        deleted_bindings: Those that went with their queue or exchange, with their vhost's name.
        nodes_changed: A node came, went, or has another address or incarnation.
        node_up: The node that began a new life. If it is this node, and the nonce not that of this
            process, a late announcement of an earlier process came through: announce it again.
        more_sessions: The node that got further sessions for its present life.
        members_changed: Queues whose members are others than before.
        policies_changed: What policies say of queues may be something else than before.
        created_user: Whether a user that was set is a new one.
        cleared_policy: The policy that is no more; None if none went.
        vhosts_changed: A vhost came, or all that it had is gone.
        deleted_vhost: The vhost whose deletion has begun; None if none has.
        gone_vhost: The vhost of which nothing is left; None if none is.
        repeated: What was set, a policy or limits, was so before.
        limits_changed: A user or a vhost has other limits than before.
        deleted_user: The user that is no more; None if none went.
    """

    def __init__(self) -> None:
        self.changed: bool = False
        self.created_queue: QueueRecord | None = None
        self.deleted_queues: list[QueueRecord] = []
        self.deleted_exchanges: list[ExchangeRecord] = []
        self.deleted_bindings: list[tuple[str, Binding]] = []
        self.nodes_changed: bool = False
        self.node_up: NodeRecord | None = None
        self.more_sessions: NodeRecord | None = None
        self.members_changed: list[QueueRecord] = []
        self.policies_changed: bool = False
        self.created_user: bool = False
        self.cleared_policy: PolicyRecord | None = None
        self.vhosts_changed: bool = False
        self.repeated: bool = False
        self.limits_changed: bool = False
        self.deleted_vhost: VhostRecord | None = None
        self.gone_vhost: VhostRecord | None = None
        self.deleted_user: str | None = None
