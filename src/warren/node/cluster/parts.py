"""What else of a node its cluster tells of links, messages, leaders and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from warren.node.announcing import Announcer
    from warren.node.cluster.membership import Membership
    from warren.node.cluster.observers import Observers
    from warren.node.cluster.queue_members import QueueMembers
    from warren.node.cluster.reconcile import Reconciler
    from warren.node.cluster.stranded import StrandedGroups
    from warren.node.copies import Copies
    from warren.node.direct_replies import DirectReplyLinks
    from warren.node.queues import LocalQueues
    from warren.node.remote.proxying import Remotes
    from warren.node.removals import QueueRemovals
    from warren.node.repairs import Repairs
    from warren.node.usage import Usage


@final
class NodeParts:
    """Those parts of a node that hear of links, messages, leaders and time from its cluster."""

    def __init__(
        self,
        queues: LocalQueues,
        copies: Copies,
        observers: Observers,
        repairs: Repairs,
        remotes: Remotes,
        removals: QueueRemovals,
        announcer: Announcer,
        membership: Membership,
        queue_members: QueueMembers,
        reconciler: Reconciler,
        usage: Usage,
        direct_replies: DirectReplyLinks,
        stranded: StrandedGroups,
    ) -> None:
        self.queues: LocalQueues = queues
        self.copies: Copies = copies
        self.observers: Observers = observers
        self.repairs: Repairs = repairs
        self.remotes: Remotes = remotes
        self.removals: QueueRemovals = removals
        self.announcer: Announcer = announcer
        self.membership: Membership = membership
        self.queue_members: QueueMembers = queue_members
        self.reconciler: Reconciler = reconciler
        self.usage: Usage = usage
        self.direct_replies: DirectReplyLinks = direct_replies
        self.stranded: StrandedGroups = stranded
