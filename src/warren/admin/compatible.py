"""What clients and scripts look at before they go on: which RabbitMQ this broker is like."""

from __future__ import annotations

import platform
from typing import Final

RABBITMQ_VERSION: Final = "4.3.6"
"""The release whose API and tools these are like; others choose paths and fields by it."""
RABBITMQ_FLAGS: Final = frozenset(
    (
        *("classic_queue_type_delivery_support", "detailed_queues_endpoint"),
        *("direct_exchange_routing_v2", "drop_unroutable_metric", "empty_basic_get_metric"),
        *("feature_flags_v2", "implicit_default_bindings", "khepri_db", "listener_records_in_ets"),
        *("maintenance_mode_status", "message_containers", "message_containers_deaths_v2"),
        *("quorum_queue", "quorum_queue_non_voters", "rabbit_exchange_type_local_random"),
        *("rabbitmq_4.0.0", "rabbitmq_4.1.0", "rabbitmq_4.2.0", "rabbitmq_4.3.0"),
        *("track_qq_members_uids", "tracking_records_in_ets", "user_limits"),
        "virtual_host_metadata",
    )
)
"""Feature flags of RabbitMQ for what is here, too: tools see whether one is enabled before they use
it. What is not here, as streams, has none."""
PRODUCT: Final = "Warren"
RUNTIME: Final = f"{platform.python_implementation()} {platform.python_version()}"
"""What runs the broker, for clients that ask for the version of Erlang."""
