"""What clients of all nodes did with queues, vhosts and exchanges: each node counts its own.

A node that does not answer is left out of the sums. How long queues are is told by the nodes that
lead them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from warren.admin.service.caller import MONITORING, Caller
from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.history import SampleRange, Values
from warren.admin.service.node_figures import summed
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.statistics import (
    EXCHANGE_COUNTERS,
    EXCHANGE_NOTHING,
    LENGTHS,
    NO_LENGTHS,
    NOTHING,
    VHOST_NOTHING,
    Figures,
    Rates,
    counters_of,
)
from warren.errors import PRECONDITION_FAILED, Refusal

QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
VHOSTS: Final = "vhosts"
NO_EXCHANGE_RATES: Final[Rates] = (0.0,) * len(EXCHANGE_COUNTERS)

Thing = tuple[str, str]
"""A vhost, and the name of a queue or an exchange in it; empty for the vhost itself."""


class SharedFigures(msgspec.Struct, kw_only=True):
    """What one node counts of one thing, or all nodes together.

    Attributes:
        vhost, name: What it is.
        counters, rates: In the order of `COUNTERS`, `VHOST_COUNTERS` or `EXCHANGE_COUNTERS`.
        lengths, length_rates: In the order of `LENGTHS`, of queues that the node leads; nothing of
            an exchange.
        samples: Counters, and then lengths but of an exchange, for each span that was asked for.
    """

    vhost: str
    name: str
    counters: tuple[int, ...]
    rates: tuple[float, ...]
    lengths: tuple[int, ...] = ()
    length_rates: tuple[float, ...] = ()
    samples: list[list[Values]] = []


@operation(MONITORING)
async def shared_figures(
    service: AdminService,
    caller: Caller,
    *,
    kind: str,
    things: list[Thing],
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
    keep: bool = False,
) -> list[SharedFigures]:
    """Show what clients of this node did with some things, where they did anything.

    Args:
        kind: `queues`, `exchanges` or `vhosts`.
        spans: Moments at which samples are wanted.
        keep: Whether to keep samples of queues and exchanges from now on.

    Raises:
        Refusal: There is no such kind.
    """
    if kind not in (QUEUES, EXCHANGES, VHOSTS):
        raise Refusal(PRECONDITION_FAILED, f"there are no figures of {kind}")
    found = await own_shared(service, kind, things, spans, keep)
    return [each for each in found if any(each.counters) or any(each.lengths)]


async def shared(
    service: AdminService,
    kind: str,
    things: Sequence[Thing],
    spans: list[SampleRange],
    keep: bool,
) -> list[SharedFigures]:
    """What clients of all nodes did with some things, in their order."""
    own = await own_shared(service, kind, things, spans, keep)
    nodes = others(service)
    if not nodes or not own:
        return own
    asked = {"kind": kind, "things": list(things), "spans": spans, "keep": keep}
    answers = await ask_all(service, nodes, shared_figures.name, asked, list[SharedFigures])
    by_thing: dict[Thing, list[SharedFigures]] = {}
    slices = Slices()
    for rows in answers.by_node.values():
        for row in rows:
            by_thing.setdefault((row.vhost, row.name), []).append(row)
        await slices.breathe()
    added = []
    for each in own:
        more = by_thing.get((each.vhost, each.name))
        added.append(each if more is None else _added(each, more))
        await slices.breathe()
    return added


def _added(own: SharedFigures, more: list[SharedFigures]) -> SharedFigures:
    """What some nodes come to, of which each has samples of the same moments."""
    every = [own, *(each for each in more if len(each.counters) == len(own.counters))]
    return SharedFigures(
        vhost=own.vhost,
        name=own.name,
        counters=summed((0,) * len(own.counters), [each.counters for each in every]),
        rates=summed((0.0,) * len(own.rates), [each.rates for each in every]),
        lengths=summed((0,) * len(own.lengths), [each.lengths for each in every]),
        length_rates=summed((0.0,) * len(own.length_rates), [each.length_rates for each in every]),
        samples=[
            [summed((0,) * len(rows[0]), list(rows)) for rows in zip(*columns, strict=True)]
            for columns in zip(*(each.samples for each in every), strict=True)
        ],
    )


async def own_shared(
    service: AdminService,
    kind: str,
    things: Sequence[Thing],
    spans: list[SampleRange],
    keep: bool,
) -> list[SharedFigures]:
    """What clients of this node did with some things, in their order."""
    shown = {QUEUES: _queue, EXCHANGES: _exchange, VHOSTS: _vhost}[kind]
    slices = Slices()
    found = []
    for vhost, name in things:
        found.append(shown(service, vhost, name, spans, keep))
        await slices.breathe()
    return found


def _queue(
    service: AdminService, vhost: str, name: str, spans: list[SampleRange], keep: bool
) -> SharedFigures:
    statistics = service.statistics
    queue = service.node.queues.find(vhost, name)
    figures = Figures() if queue is None else statistics.queues.get(queue) or Figures()
    leads = queue is not None and service.leads(queue)
    found = SharedFigures(
        vhost=vhost,
        name=name,
        counters=NOTHING if queue is None else counters_of(queue),
        rates=figures.rates,
        lengths=figures.lengths if leads else NO_LENGTHS,
        length_rates=figures.length_rates if leads else (0.0,) * len(LENGTHS),
    )
    seen = figures.counters + figures.lengths
    if spans and keep and queue is not None:
        statistics.queue_samples.wanted(queue, statistics.moment, seen)
    for span in spans:
        rows = statistics.queue_samples.at(queue, span, seen)
        found.samples.append(rows if leads else [row[: len(NOTHING)] + NO_LENGTHS for row in rows])
    return found


def _exchange(
    service: AdminService, vhost: str, name: str, spans: list[SampleRange], keep: bool
) -> SharedFigures:
    statistics = service.statistics
    key = (vhost, name)
    traffic = service.node.traffic.exchanges.get(key)
    figures = statistics.exchanges.get(key)
    counters = (
        EXCHANGE_NOTHING
        if traffic is None
        else (int(traffic.counts.published), int(traffic.routed))
    )
    if spans and keep:
        statistics.want_exchange(vhost, name)
    samples = statistics.exchange_samples
    return SharedFigures(
        vhost=vhost,
        name=name,
        counters=counters,
        rates=NO_EXCHANGE_RATES if figures is None else figures.rates,
        samples=[samples.at(key, span, counters) for span in spans],
    )


def _vhost(
    service: AdminService, vhost: str, name: str, spans: list[SampleRange], keep: bool
) -> SharedFigures:
    figures = service.statistics.of_vhost(vhost) or Figures(VHOST_NOTHING)
    samples = service.statistics.vhost_samples
    now = figures.counters + figures.lengths
    return SharedFigures(
        vhost=vhost,
        name=name,
        counters=figures.counters,
        rates=figures.rates,
        lengths=figures.lengths,
        length_rates=figures.length_rates,
        samples=[samples.at(vhost, span, now) for span in spans],
    )
