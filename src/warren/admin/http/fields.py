"""What the API calls things: details of the service as RabbitMQ's JSON fields."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

from warren.admin.http.ranges import NO_RANGES, Ranges, Samples, detailed
from warren.admin.service.details import (
    BindingDetails,
    ExchangeDetails,
    QueueDetails,
    UserDetails,
    VhostDetails,
)
from warren.admin.service.history import Values
from warren.admin.service.statistics import (
    COUNTERS,
    EXCHANGE_COUNTERS,
    LENGTHS,
    VHOST_COUNTERS,
)

Fields = dict[str, Any]


def counted(
    names: tuple[str, ...],
    values: tuple[int, ...],
    rates: tuple[float, ...],
    samples: Samples | None = None,
) -> Fields:
    """Figures with their rates, and with samples where they were asked for."""
    found: Fields = {}
    for place, name in enumerate(names):
        found[name] = values[place]
        found[f"{name}_details"] = detailed(rates[place], samples, place)
    return found


def grouped(
    groups: Iterable[tuple[str, ...]],
    values: tuple[int, ...],
    rates: tuple[float, ...],
    ranges: Ranges,
    told: list[list[Values]],
) -> Fields:
    """Rates of messages with their figures, without the groups in which nothing was counted."""
    found: Fields = {}
    first = 0
    for names in groups:
        end = first + len(names)
        if any(values[first:end]):
            samples = ranges.samples("msg_rates", told, first)
            found |= counted(names, values[first:end], rates[first:end], samples)
        first = end
    return found


def bare_queue(details: QueueDetails, ranges: Ranges = NO_RANGES) -> Fields:
    """A queue without its figures."""
    row = details.row
    found: Fields = {
        "name": row.name,
        "vhost": row.vhost,
        "type": row.type,
        "durable": row.durable,
        "auto_delete": row.auto_delete,
        "exclusive": row.exclusive,
        "arguments": row.arguments,
        "node": row.leader,
        "state": row.state,
        "effective_policy_definition": row.effective_policy_definition,
        "policy": row.policy or None,
        "operator_policy": row.operator_policy or None,
        "internal": False,
        "internal_owner": False,
    }
    limit = details.delivery_limit
    if details.replicated:
        found["leader"] = row.leader
        found["members"] = row.members
        found["online"] = row.online
    if limit is not None:
        found["delivery_limit"] = "unlimited" if limit < 0 else limit
    return found


def queue(details: QueueDetails, ranges: Ranges = NO_RANGES) -> Fields:
    """A queue with its figures, as far as its nodes said them."""
    row = details.row
    found = bare_queue(details)
    if row.messages_ready is None or row.messages_unacknowledged is None:
        return found
    ready, held = row.messages_ready, row.messages_unacknowledged
    samples = ranges.samples("lengths", details.samples, len(COUNTERS))
    found.update(counted(LENGTHS, (ready, held, ready + held), details.length_rates, samples))
    found["consumers"] = row.consumers
    if row.message_bytes is not None and row.message_bytes_ready is not None:
        found["message_bytes"] = row.message_bytes
        found["message_bytes_ready"] = row.message_bytes_ready
        found["message_bytes_unacknowledged"] = row.message_bytes - row.message_bytes_ready
    for name in ("messages_persistent", "messages_ram"):
        bytes_name = name.replace("messages", "message_bytes")
        count, size = getattr(row, name), getattr(row, bytes_name)
        if count is not None:
            found[name], found[bytes_name] = count, size
    if details.replicated:
        found["messages_dlx"] = row.messages_dlx
        found["messages_delayed"] = row.messages_delayed
    if any(details.counters):
        found["message_stats"] = grouped(
            (COUNTERS[:1], COUNTERS[1:]), details.counters, details.rates, ranges, details.samples
        )
    return found


def queue_with_totals(details: QueueDetails, ranges: Ranges = NO_RANGES) -> Fields:
    """A queue with nothing of its figures but how long it is."""
    row = details.row
    out = {"internal", "internal_owner", "policy"}
    if not details.replicated:
        out |= {"operator_policy", "effective_policy_definition"}
    found = {name: value for name, value in bare_queue(details).items() if name not in out}
    # As RabbitMQ has them.
    found["exclusive" if details.replicated else "online"] = None
    ready, held = row.messages_ready, row.messages_unacknowledged
    found["messages_ready"] = ready
    found["messages_unacknowledged"] = held
    found["messages"] = None if ready is None or held is None else ready + held
    return found


def listed_queue(details: QueueDetails, ranges: Ranges = NO_RANGES) -> Fields:
    """A queue as lists have it: without policies that there are not."""
    found = queue(details, ranges)
    for name in ("policy", "operator_policy"):
        if found[name] is None:
            del found[name]
    return found


def exchange(details: ExchangeDetails, ranges: Ranges = NO_RANGES) -> Fields:
    """An exchange as it was declared, with its policy if one fits, and what went through it."""
    found: Fields = {
        "name": details.name,
        "vhost": details.vhost,
        "type": details.type,
        "durable": details.durable,
        "auto_delete": details.auto_delete,
        "internal": details.internal,
        "arguments": details.arguments,
    }
    if details.policy:
        found["policy"] = details.policy
    if any(details.counters):
        samples = ranges.samples("msg_rates", details.samples)
        found["message_stats"] = counted(
            EXCHANGE_COUNTERS, details.counters, details.rates, samples
        )
    return found


def binding(details: BindingDetails) -> Fields:
    """A binding, and the key by which paths name it."""
    return {
        "source": details.source,
        "vhost": details.vhost,
        "destination": details.destination,
        "destination_type": details.destination_type,
        "routing_key": details.routing_key,
        "arguments": details.arguments,
        "properties_key": details.key,
    }


def vhost(details: VhostDetails, ranges: Ranges = NO_RANGES) -> Fields:
    """A vhost with its figures."""
    shared = {
        "description": details.description,
        "tags": details.tags,
        "default_queue_type": details.default_queue_type,
    }
    found: Fields = {
        "name": details.name,
        **shared,
        "metadata": dict(shared),
        "protected_from_deletion": details.protected_from_deletion,
        "tracing": details.tracing,
        "cluster_state": dict.fromkeys(details.nodes, "running"),
        **counted(
            LENGTHS,
            details.lengths,
            details.length_rates,
            ranges.samples("lengths", details.samples, len(VHOST_COUNTERS)),
        ),
    }
    if any(details.counters):
        samples = ranges.samples("msg_rates", details.samples)
        found["message_stats"] = counted(VHOST_COUNTERS, details.counters, details.rates, samples)
    return found


def user(details: UserDetails) -> Fields:
    """A user, whose hash is in Base64."""
    return {
        "name": details.name,
        "password_hash": b64encode(details.password_hash).decode(),
        "hashing_algorithm": details.hashing_algorithm,
        "tags": details.tags,
        "limits": details.limits,
    }
