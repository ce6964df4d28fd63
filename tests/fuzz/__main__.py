"""`python -m tests.fuzz frames|http`: fuzz a broker, or a cluster of three, for as long as told.

Prints the seed first. A failure prints what was found and how to bring it about again, and leaves
the last episodes' scripts in the folder.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster.nodes import Cluster
from tests.fuzz.campaign import FRAMES, FUZZERS, HTTP, Campaign
from tests.fuzz.probe import Bounds
from tests.fuzz.watched import Found, Watched
from tests.support.broker import HOST, Broker, free_port
from tests.support.certificates import new_certificates

SECONDS = 60.0
SEED_MAX = 10**9


class Nodes:
    """Brokers for a run, each with the HTTP API and metrics.

    Attributes:
        watched: They, once started.
        encrypted: Their ports of TLS for AMQP and for HTTP, if they have such.
    """

    def __init__(self, folder: Path, count: int, tls: bool) -> None:
        self.watched: list[Watched] = []
        self.encrypted: dict[str, list[int]] = {FRAMES: [], HTTP: []}
        self._folder = folder
        self._brokers: list[Broker] = []
        self._certificates = new_certificates(folder, {"server": "/CN=server"}) if tls else None
        if count == 1:
            self._make().start()
        else:
            cluster = Cluster(self._make, folder)
            cluster.start(count)
        self.watched = [Watched(broker) for broker in self._brokers]

    def _make(self, *options: str) -> Broker:
        words = list(options)
        if self._certificates is not None:
            for ports in self.encrypted.values():
                ports.append(free_port())
            settings = {
                "listeners.ssl.1": f"{HOST}:{self.encrypted[FRAMES][-1]}",
                "management.ssl.ip": HOST,
                "management.ssl.port": self.encrypted[HTTP][-1],
            }
            for prefix in ("ssl_options", "management.ssl"):
                settings[f"{prefix}.certfile"] = self._certificates / "server.pem"
                settings[f"{prefix}.keyfile"] = self._certificates / "server.key"
            for key, value in settings.items():
                words += ["--set", f"{key}={value}"]
        folder = self._folder / f"node-{len(self._brokers)}"
        broker = Broker(free_port(), folder, options=words)
        broker.management, broker.metrics = str(free_port()), str(free_port())
        self._brokers.append(broker)
        return broker

    def stop(self) -> None:
        """End them, in good order if they can.

        Raises:
            Found: One does not end as it has to.
        """
        try:
            for node in self.watched:
                status = node.broker.stop()
                if status:
                    raise Found(f"the node ends with {status}")
                node.check()
        finally:
            self.kill()

    def kill(self) -> None:
        """End those that still run."""
        for broker in self._brokers:
            broker.kill()


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("fuzzer", choices=FUZZERS)
    parser.add_argument("--seed", type=int, help="what all is drawn from (a new one)")
    parser.add_argument("--seconds", type=float, help=f"how long to go on ({SECONDS:g})")
    parser.add_argument("--episodes", type=int, help="how many episodes to play instead")
    parser.add_argument("--first", type=int, default=0, help="the number of the first episode (0)")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="how many nodes (1)")
    parser.add_argument("--tls", action="store_true", help="come to a port of TLS, too")
    parser.add_argument(
        "--wait", type=float, default=1.0, help="seconds that another client may wait (1)"
    )
    parser.add_argument("--folder", type=Path, help="a new folder for data and logs")
    options = parser.parse_args()
    seed = secrets.randbelow(SEED_MAX) if options.seed is None else options.seed
    folder = options.folder or Path(tempfile.mkdtemp(prefix="warren-fuzz-"))
    if options.folder is not None:
        # The data of a run before would be another cluster's.
        folder.mkdir(parents=True)
    print(f"{options.fuzzer}, seed {seed}, in {folder}", flush=True)
    nodes = Nodes(folder, options.nodes, options.tls)
    try:
        bounds = Bounds(options.wait, min(1.0, options.wait))
        encrypted = nodes.encrypted[options.fuzzer]
        campaign = Campaign(options.fuzzer, seed, nodes.watched, bounds, folder, encrypted)
        over = time.monotonic() + (options.seconds or SECONDS)
        wanted = options.episodes
        report = campaign.run(
            options.first,
            lambda done: time.monotonic() < over if wanted is None else done < wanted,
        )
        nodes.stop()
    except Found as fault:
        print(f"FAILED, seed {seed}: {fault}", flush=True)
        return 1
    finally:
        nodes.kill()
    print(f"seed {seed}: {report}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
