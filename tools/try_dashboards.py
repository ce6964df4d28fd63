"""Has a real Prometheus scrape Warren, and asks it what dashboards of Grafana ask.

    python tools/try_dashboards.py PROMETHEUS NODES DASHBOARD.json ...

PROMETHEUS is its program, version 3 or newer, which writes bounds of histograms as the dashboards
have them; NODES says how many nodes of Warren run; the dashboards are those that RabbitMQ publishes
(`deps/rabbitmq_prometheus/docker/grafana/dashboards` of rabbitmq-server). While clients publish,
consume and poll on each node, every expression of every panel is asked of Prometheus' HTTP API, as
Grafana does it, until all of them have data. Names that RabbitMQ 4.3 does not have either are not
asked for. Exit status 0 if all expressions have data, of every node where they tell nodes apart.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pika

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.cluster.nodes import Cluster
from tests.metrics.exposition import SUFFIXES
from tests.support.broker import Broker, free_port

ROOT = Path(__file__).resolve().parent.parent
SCRAPE_SECONDS = 1
RATE_INTERVAL = f"{5 * SCRAPE_SECONDS}s"
RANGE = "1m"
DATA_SECONDS_MAX = 90.0
HELD = 3
"""Deliveries of each node that are not settled."""
BODY_BYTES = (10, 500, 5_000, 50_000)


class Panel(NamedTuple):
    """An expression of a panel."""

    title: str
    expression: str


def panels(board: dict[str, Any]) -> Iterator[Panel]:
    """All expressions of a dashboard, those of folded rows too."""
    for panel in board.get("panels", []):
        yield from panels(panel)
        for target in panel.get("targets", []):
            yield Panel(panel.get("title") or panel["type"], " ".join(target["expr"].split()))


def of_rabbitmq() -> set[str]:
    """The names of RabbitMQ 4.3's samples, as recorded for the tests."""
    recorded = ROOT / "tests" / "metrics" / "answers" / "rabbitmq-4.3.json"
    found = set()
    for family in json.loads(recorded.read_text("utf-8"))["/metrics"]:
        if family["labels"]:
            found.add(family["name"])
            found.update(family["name"] + suffix for suffix in SUFFIXES["histogram"])
    return found


def names_in(expression: str) -> set[str]:
    """The names of metrics that an expression has, not those of its labels."""
    found = re.sub(r"\{[^}]*\}|\([\w, ]*\)|\"[^\"]*\"", " ", expression)
    return set(re.findall(r"\brabbitmq_\w+", found)) | {"rabbitmq_identity_info"}


class Prometheus:
    """One that runs, scraping some nodes of Warren."""

    def __init__(self, program: str, folder: Path, targets: list[str]) -> None:
        self._port = free_port()
        rules = {
            "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "warren", "static_configs": [{"targets": targets}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(rules), "utf-8")
        words = [f"--config.file={folder / 'prometheus.yml'}"]
        words += [f"--storage.tsdb.path={folder / 'data'}"]
        words += [f"--web.listen-address=127.0.0.1:{self._port}"]
        with (folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen([program, *words], stdout=log, stderr=log)

    def ask(self, path: str, **query: str) -> Any:
        """What its HTTP API says; a list that is empty while it starts."""
        where = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(where, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{query}: {error.read().decode()}") from None
        except OSError:
            return []

    def label_values(self, name: str, labels: str) -> list[str]:
        """What a variable of a dashboard may be."""
        found: list[str] = self.ask(
            f"label/{name}/values", **{"match[]": f"rabbitmq_identity_info{{{labels}}}"}
        )
        return found

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def busy(port: int, name: str, until: threading.Event) -> None:
    """Do a little of everything that the dashboards show on one node, over and over."""

    def connect() -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))

    def nothing(*_: object) -> None:
        pass

    stays = connect()
    channel = stays.channel()
    channel.confirm_delivery()
    for kind in ("classic", "quorum"):
        channel.queue_declare(f"{name}.{kind}", durable=True, arguments={"x-queue-type": kind})
    for queue in ("held", "automatic", "manual", "polled", "empty"):
        channel.queue_declare(f"{name}.{queue}")
    consumer = stays.channel()
    consumer.basic_qos(prefetch_count=HELD)
    consumer.basic_consume(f"{name}.held", nothing)
    sink = stays.channel()
    sink.basic_consume(f"{name}.automatic", nothing, auto_ack=True)
    settling = stays.channel()

    def settled(_: Any, method: Any, *rest: Any) -> None:
        if method.redelivered:
            settling.basic_ack(method.delivery_tag)
        else:
            settling.basic_nack(method.delivery_tag)

    settling.basic_consume(f"{name}.manual", settled)
    turn = 0
    while not until.is_set():
        turn += 1
        body = b"x" * BODY_BYTES[turn % len(BODY_BYTES)]
        for queue in ("classic", "quorum", "held", "automatic", "manual", "polled", "polled"):
            channel.basic_publish("", f"{name}.{queue}", body)
        channel.basic_publish("amq.direct", "nowhere", body)
        try:
            channel.basic_publish("amq.direct", "nowhere", body, mandatory=True)
        except pika.exceptions.UnroutableError:
            pass
        for automatic in (True, False):
            method, _, _ = channel.basic_get(f"{name}.polled", auto_ack=automatic)
            if method is not None and not automatic:
                channel.basic_ack(method.delivery_tag)
        channel.basic_get(f"{name}.empty")
        passing = connect()
        brief = passing.channel()
        brief.queue_declare(f"{name}.passing")
        brief.queue_delete(f"{name}.passing")
        passing.close()
        for queue in ("classic", "quorum", "held"):
            if turn % 50 == 0:
                channel.queue_purge(f"{name}.{queue}")
        stays.process_data_events(0.02)
    stays.close()


def variables_of(prometheus: Prometheus) -> dict[str, str]:
    """What the variables of the dashboards are, found as Grafana finds them."""
    chosen: dict[str, str] = {}
    for label in ("namespace", "rabbitmq_cluster", "rabbitmq_endpoint"):
        narrowed = ",".join(f'{name}="{value}"' for name, value in chosen.items())
        chosen[label] = (prometheus.label_values(label, narrowed) or [""])[0]
    chosen["endpoint"] = chosen.pop("rabbitmq_endpoint")
    return {**chosen, "__rate_interval": RATE_INTERVAL, "__range": RANGE}


def answered(prometheus: Prometheus, variables: dict[str, str], expression: str) -> list[float]:
    """The values that an expression has; none where one of them is no number."""
    asked = re.sub(r"\$(\w+)", lambda name: variables[name[1]], expression)
    found = prometheus.ask("query", query=asked)
    values = [float(row["value"][1]) for row in found["result"]] if found else []
    return [] if any(math.isnan(value) for value in values) else values


def rows_wanted(expression: str, nodes: int) -> int:
    """How many rows a panel is to have at least: one, or one of each node."""
    if re.search(r"by ?\((\w+, ?)?rabbitmq_node\)$", expression):
        return nodes
    return 1 if re.match(r"\(?(sum|count) ?\(", expression) else nodes


def shown(prometheus: Prometheus, path: str, nodes: int) -> bool:
    """Ask all that one dashboard asks, and print what was had; whether everything was."""
    board = json.loads(Path(path).read_text("utf-8"))
    known = of_rabbitmq()
    every = list(panels(board))
    some = [panel for panel in every if names_in(panel.expression) <= known]
    lacking = some
    zero: list[Panel] = []
    until = time.monotonic() + DATA_SECONDS_MAX
    while lacking and time.monotonic() < until:
        time.sleep(SCRAPE_SECONDS)
        variables = variables_of(prometheus)
        lacking, zero = [], []
        for panel in some:
            values = answered(prometheus, variables, panel.expression)
            if len(values) < rows_wanted(panel.expression, nodes):
                lacking.append(panel)
            elif not any(values):
                zero.append(panel)
    print(
        f"{Path(path).stem}, {nodes} nodes: {len(some) - len(lacking)} of {len(some)} expressions "
        f"have data, {len(zero)} of them only zeros; {len(every) - len(some)} are of names that "
        "RabbitMQ 4.3 has not"
    )
    for panel in lacking:
        print(f"  no data: {panel.title}: {panel.expression}")
    for panel in zero:
        print(f"  zero: {panel.title}")
    return not lacking and bool(some)


def main(words: list[str]) -> int:
    """Run it all; the exit status says whether all expressions had data."""
    if len(words) < 3 or not words[1].isdigit():
        print(__doc__)
        return 2
    program, nodes = words[0], int(words[1])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def make(*options: str) -> Broker:
            port = free_port()
            broker = Broker(port, folder / f"node-{port}", options=list(options))
            broker.metrics = str(free_port())
            stack.callback(broker.kill)
            return broker

        cluster = Cluster(make, folder)
        cluster.start(nodes)
        done = threading.Event()
        for node in cluster.nodes:
            clients = threading.Thread(target=busy, args=(node.broker.port, node.name, done))
            clients.start()
            stack.callback(clients.join)
        stack.callback(done.set)
        targets = [f"127.0.0.1:{node.broker.metrics}" for node in cluster.nodes]
        prometheus = Prometheus(program, folder, targets)
        stack.callback(prometheus.stop)
        told = [shown(prometheus, path, nodes) for path in words[2:]]
        return 0 if all(told) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
