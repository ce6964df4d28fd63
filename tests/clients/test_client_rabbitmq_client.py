"""rabbitmq-client (Node.js) against the broker: dead letters, expiration, retries, RPC."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.fixtures import Names
from tests.clients.javascript import node_path, run_check

__all__ = ["node_path"]


@pytest.mark.parametrize("check", ["deadletters", "expiration", "backoff", "rpc"])
def test_rabbitmq_client(
    check: str, kind: str, names: Names, amqp_address: tuple[str, int], node_path: Path
) -> None:
    name = names.queue()
    for more in ("dead", "wait"):
        names.queue(f"{name}-{more}")
    names.exchange(f"{name}-dlx")
    run_check("rabbitmq-client.js", check, amqp_address, name, kind, node_path)
