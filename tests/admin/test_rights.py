"""What users with few rights are told, request by request, is what RabbitMQ 4.3 tells them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from tests.admin.rights import STORED, Script, WarrenOperator
from tests.support.broker import Broker, free_port
from warren.admin.cli.asking import find_node


def test_answers_are_those_of_rabbitmq(make_broker: Callable[..., Broker]) -> None:
    broker = make_broker("--cluster-port", str(free_port())).start()
    words = argparse.Namespace(
        config=None, node_name=None, data_dir=str(broker.data_dir), contact=None, secret_file=None
    )
    script = Script(broker.host, broker.port, WarrenOperator(find_node(words)))
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    said = script.play()
    assert {name: said[name] for name in said if said[name] != stored.get(name)} == {}
    assert said.keys() == stored.keys()
    assert sum("ACCESS_REFUSED" in said for said in stored.values()) > 100
