"""A Warren like the oracle, and what its tools say at each step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ctl.normal import Said
from tests.ctl.play import GIVEN, NODE_NAME, in_process, play
from tests.support.broker import Broker, free_port
from warren import __version__
from warren.admin.cli.asking import FOLDER_VARIABLE
from warren.admin.cli.tools.session import NODE_VARIABLE


@contextmanager
def running(folder: Path) -> Iterator[list[Said]]:
    """Play all steps to a broker of its own; gives what was said."""
    # In the order of the oracle's, as they are listed.
    port, http_port, cluster_port = sorted([free_port(), free_port(), free_port()])
    options = ["--cluster-port", str(cluster_port), "--set", "quorum_queue.compat=4.3"]
    broker = Broker(port, folder / "broker", options=[*options, "--node-name", NODE_NAME])
    broker.management = str(http_port)
    broker.start()
    before = {name: os.environ.get(name) for name in (FOLDER_VARIABLE, NODE_VARIABLE)}
    os.environ[FOLDER_VARIABLE] = str(broker.data_dir)
    os.environ[NODE_VARIABLE] = NODE_NAME
    ports = {str(broker.port): "5672", str(http_port): "15672", str(cluster_port): "25672"}
    try:
        known = {str(broker.data_dir): "DATA", __version__: "VERSION", **ports}
        yield play(in_process, str(GIVEN), str(folder / "out.json"), known, broker.port)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        broker.stop()
