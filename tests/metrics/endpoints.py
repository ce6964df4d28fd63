"""What is scraped, of RabbitMQ when its families were recorded and of Warren when it is tested."""

DETAILED_FAMILIES = (
    "connection_churn_metrics",
    "node_coarse_metrics",
    "node_metrics",
    "node_persister_metrics",
    "auth_attempt_metrics",
    "auth_attempt_detailed_metrics",
    "queue_coarse_metrics",
    "queue_consumer_count",
    "queue_metrics",
    "channel_metrics",
    "channel_exchange_metrics",
    "channel_process_metrics",
    "channel_queue_metrics",
    "connection_coarse_metrics",
    "connection_metrics",
    "channel_queue_exchange_metrics",
    "exchange_metrics",
    "queue_delivery_metrics",
    "queue_exchange_metrics",
    "vhost_status",
    "exchange_bindings",
    "exchange_names",
    "ra_metrics",
)
"""What `/metrics/detailed` can be asked for."""

ENDPOINTS = (
    "/metrics",
    "/metrics/per-object",
    *(f"/metrics/detailed?family={family}" for family in DETAILED_FAMILIES),
)
