"""What a policy would do before it is saved: how many names it is for, and what would be lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from warren.admin.service.details import looked_at
from warren.admin.service.rows import QueueRow
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.metadata.policies import (
    EXCHANGES_TOO,
    EffectiveSettings,
    operator_policy_of,
    policy_of,
    would_count,
)
from warren.metadata.policy_checks import check_set_policy
from warren.metadata.policy_keys import BY_NAME
from warren.metadata.tables import PolicyRecord, QueueRecord, VhostRecord

LOOKED_AT_MAX: Final = 200
"""Queues whose messages are looked at."""
DROP_HEAD: Final = ("", "drop-head")


class PolicyEffects:
    """What a policy would do.

    Attributes:
        matched: Queues that it would count for.
        exchanges: Exchanges whose names it matches.
        looked: Of how many of the queues the messages were looked at.
        dropped: Messages beyond its limit of messages.
        dropped_bytes: Bytes beyond its limit of bytes.
        timed: Messages that would have a time to live that they had not.
        unused: Queues without a consumer that would go when they are not used.
    """

    def __init__(self) -> None:
        self.matched = self.exchanges = self.looked = 0
        self.dropped = self.dropped_bytes = self.timed = self.unused = 0

    @property
    def loses(self) -> bool:
        """Whether messages would be lost."""
        return self.dropped + self.dropped_bytes + self.timed > 0


async def effects_of(
    service: AdminService,
    *,
    operator: bool,
    vhost: str,
    name: str,
    pattern: str,
    definition: str,
    priority: int,
    apply_to: str,
) -> PolicyEffects:
    """Find what would become of what is in a vhost if a policy were set; see `set_policy`.

    It is for users who may see the policies of the vhost, which is checked before.

    Raises:
        Refusal: Something of the policy is wrong, or there is no such vhost.
    """
    command = check_set_policy(
        service.machine, operator, vhost, name, pattern, definition, priority, apply_to
    )
    tables = service.machine.vhosts[vhost]
    policy = PolicyRecord(name, pattern, apply_to, priority, command.definition)
    found = PolicyEffects()
    slices = Slices()
    wanted: list[QueueRecord] = []
    for record in list(tables.queues_in_order()):
        await slices.breathe()
        if would_count(tables, policy, operator, record):
            found.matched += 1
            if len(wanted) < LOOKED_AT_MAX:
                wanted.append(record)
    if not operator and apply_to in EXCHANGES_TOO:
        for exchange in list(tables.exchanges):
            found.exchanges += bool(exchange) and policy.matches(exchange)
            await slices.breathe()
    rows = {each.row.name: each.row for each in await looked_at(service, wanted, [])}
    for record in wanted:
        row = rows.get(record.name)
        if row is not None and row.messages_ready is not None:
            found.looked += 1
            _add(found, policy.definition, operator, tables, record, row)
    return found


def _add(
    found: PolicyEffects,
    definition: Mapping[str, Any],
    operator: bool,
    tables: VhostRecord,
    record: QueueRecord,
    row: QueueRow,
) -> None:
    """Add what one queue would lose."""
    other = (policy_of if operator else operator_policy_of)(tables, record.name, record.kind)
    beside = {} if other is None else other.definition
    before = EffectiveSettings(tables, record.name, record.kind, record.arguments)

    def newly(key: str) -> int | None:
        """A number that would count from now on, and is stricter than what does."""
        known = BY_NAME[key]
        pair = (beside, definition) if operator else (definition, beside)
        merged = known.merged(pair[0].get(key), pair[1].get(key))
        now, was = known.with_own(merged, record.arguments.get(known.argument)), before.value(key)
        if not isinstance(now, int) or (isinstance(was, int) and was <= now):
            return None
        return now

    ready, taken = row.messages_ready or 0, row.message_bytes_ready or 0
    overflow = definition.get("overflow", beside.get("overflow", before.text("overflow")))
    length, size = newly("max-length"), newly("max-length-bytes")
    if overflow in DROP_HEAD:
        found.dropped += max(ready - length, 0) if length is not None else 0
        found.dropped_bytes += max(taken - size, 0) if size is not None else 0
    if newly("message-ttl") is not None:
        found.timed += ready
    if newly("expires") is not None and not row.consumers:
        found.unused += 1
