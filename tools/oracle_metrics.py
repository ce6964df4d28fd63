"""Record which metric families RabbitMQ has, for the tests that hold Warren to them.

    python tools/oracle_metrics.py AMQP_PORT METRICS_PORT > tests/metrics/answers/rabbitmq-4.3.json

Asks a RabbitMQ with the plugin `rabbitmq_prometheus` and nothing in it, on this machine.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.metrics.endpoints import ENDPOINTS
from tests.metrics.exposition import Family, families
from tests.metrics.traffic import traffic

VIRTUAL_MACHINE = ("erlang_vm_", "erlang_mnesia_")
"""Families of Erlang's virtual machine and of a database in it, which Warren has not."""
TOLD = (
    "rabbitmq_global_",
    "rabbitmq_message_size_",
    "rabbitmq_exchange_messages_",
    "rabbitmq_queue_messages",
    "rabbitmq_queue_exchange_messages",
    "rabbitmq_queue_get_",
    "rabbitmq_queue_consumers",
    "rabbitmq_queue_info",
    "rabbitmq_cluster_",
    "rabbitmq_auth_attempts",
)
COLLECTED_SECONDS = 12.0
"""RabbitMQ's channels and queues say what they count every five seconds."""


def main() -> None:
    """Make some traffic, and print the families of every endpoint."""
    amqp_port, metrics_port = (int(word) for word in sys.argv[1:3])
    record = {}
    with traffic(amqp_port):
        time.sleep(COLLECTED_SECONDS)
        for endpoint in ENDPOINTS:
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}{endpoint}") as answer:
                text = answer.read().decode()
            record[endpoint] = [
                recorded(family)
                for _, family in sorted(families(text).items())
                if not family.name.startswith(VIRTUAL_MACHINE)
            ]
    lines = [
        f" {json.dumps(endpoint)}: [\n"
        + ",\n".join(f"  {json.dumps(family, sort_keys=True)}" for family in found)
        + "\n ]"
        for endpoint, found in record.items()
    ]
    print("{\n" + ",\n".join(lines) + "\n}")


def recorded(family: Family) -> dict[str, Any]:
    """What is kept of a family; values only where they say what the traffic was."""
    shown: dict[str, Any] = {
        "name": family.name,
        "type": family.type,
        "help": family.help,
        "labels": family.labels(),
    }
    if family.name.startswith(TOLD) and not any("channel" in kind for kind in family.labels()):
        shown["values"] = [[*sample] for sample in family.samples]
    return shown


if __name__ == "__main__":
    main()
