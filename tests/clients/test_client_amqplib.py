"""amqplib (Node.js) against the broker: the checks of `js/amqplib.js`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.fixtures import Names
from tests.clients.javascript import node_path, run_check

__all__ = ["node_path"]


@pytest.mark.rule("QQ-03")
@pytest.mark.parametrize(
    "check", ["bodies", "consume", "returns", "headers", "unicode", "errors", "rpc"]
)
def test_amqplib(
    check: str, kind: str, names: Names, amqp_address: tuple[str, int], node_path: Path
) -> None:
    run_check("amqplib.js", check, amqp_address, names.queue(), kind, node_path)
