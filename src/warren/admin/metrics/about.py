"""What each scrape says of itself, and of who answers."""

from __future__ import annotations

from warren.admin.compatible import PRODUCT, RABBITMQ_VERSION, RUNTIME
from warren.admin.metrics.exposition import CONTENT_TYPE
from warren.admin.service.metrics.families import BUILD, IDENTITY, SCRAPES
from warren.admin.service.metrics.samples import Series, labelled, single
from warren.admin.service.service import AdminService
from warren.admin.service.status import cluster_name


class Telemetry:
    """What scrapes of one path took."""

    def __init__(self, registry: str) -> None:
        self._labels = labelled(registry=registry, content_type=CONTENT_TYPE)
        self._count = 0
        self._seconds = 0.0
        self._bytes = 0

    def add(self, seconds: float, size: int) -> None:
        """One more was answered."""
        self._count += 1
        self._seconds += seconds
        self._bytes += size

    def series(self) -> list[Series]:
        """As of the scrapes before this one."""
        return [
            Series(family, (self._labels,) * 2, (self._count, total), "", ("_count", "_sum"))
            for family, total in zip(
                SCRAPES.families.values(), (self._seconds, self._bytes), strict=True
            )
        ]


def identity(service: AdminService, endpoint: str) -> list[Series]:
    """Which release answers, and which node of which cluster, on which path."""
    process = service.host.state()
    build = labelled(
        rabbitmq_version=RABBITMQ_VERSION,
        prometheus_plugin_version=RABBITMQ_VERSION,
        prometheus_client_version=process.version,
        # What runs it; the label is one that dashboards ask for.
        erlang_version=RUNTIME,
        product_name=PRODUCT,
        product_version=process.version,
    )
    identity = labelled(
        rabbitmq_node=service.own_name,
        rabbitmq_cluster=cluster_name(service),
        rabbitmq_cluster_permanent_id=service.machine.cluster_id.hex(),
        rabbitmq_endpoint=endpoint,
    )
    return [single(BUILD, 1, build), single(IDENTITY, 1, identity)]
