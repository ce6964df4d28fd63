"""The overview: what the cluster has and does now, with charts of the last minutes."""

from __future__ import annotations

from warren.admin.http.resources import nodes, overview
from warren.admin.ui.asking import PageRequest, Shown, WebPage
from warren.admin.ui.charts import RANGES, asking, churn_chart, lengths_chart, rates_chart
from warren.admin.ui.collected import with_samples


async def show(asked: PageRequest) -> Shown:
    """The overview."""
    wanted = asking(asked.query, asked.since)
    found = await asked.api(overview.show, query=wanted.query)
    rows = await asked.api(nodes.all_nodes, query=wanted.query) if asked.monitors else []
    rows.sort(key=lambda row: str(row["name"]))
    lengths = with_samples(asked.session.collected, "lengths", found["queue_totals"], wanted)
    rates = with_samples(asked.session.collected, "rates", found["message_stats"], wanted)
    churn = with_samples(asked.session.collected, "churn", found["churn_rates"], wanted)
    return Shown(
        "overview.html",
        found=found,
        nodes=rows,
        charts=[
            lengths_chart(lengths, wanted),
            rates_chart(rates, wanted),
            churn_chart(churn, wanted),
        ],
        ranges=RANGES,
        wanted=wanted,
    )


PAGES = [WebPage("/", show)]
