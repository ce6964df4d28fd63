"""Rates with features on, of Warren beside RabbitMQ 4.3, turn by turn.

    python -m bench.features [--only REGEX] [--secs 10] [--reps 3] [--targets "rabbit warren"]
                             [--scale 1] [--json FILE]

    l features   what passes a queue of each kind while a feature is used: TTL, priorities, a single
                 active consumer, a limit that drops, 100 policies, 10,000 queues, 100,000 bindings
    m rejected   every message is rejected into a quorum queue of dead letters: what its consumers
                 get, while a publisher goes as fast as its confirms allow
    n expiry     1,000,000 messages expire at once, behind one that does not until it is taken: how
                 long that takes, and what messages of another queue wait before and meanwhile
                 (of the second that begins with it, where it is over before)

Messages have 1 KB and properties of their own each, publishers a window of 256 confirms, consumers
a prefetch of 256; a row is the median of its runs, and `notes` has the lowest and highest, with the
cores that the broker and the load took in the middle one. `--scale` makes policies, queues,
bindings and what expires fewer, to try the rows out.

Load comes from the load generator of `bench/peer` and, where that cannot make it, from `bench.raw`.
Both brokers run all the time but for rows that leave much behind; they start afresh for those.
BASE sets Warren's ports as in `bench/ctl`, PEER_BASE those of RabbitMQ.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pika import spec

from bench.raw import Link, address

HERE = Path(__file__).resolve().parent
QUEUE = "bench-features"
DEAD = "bench-dead"
OTHER = "bench-other"
KINDS = {"quorum": "quorum", "classic durable": "classic"}
LOAD = f"--queue {QUEUE} --size 1024 --real"
TOPICS = "loadgen-topic"
"""The exchange that the load generator binds its queue to."""
HOUR_MS = 3_600_000
WARMUP_SECONDS = 2.0
START_SECONDS = 1.0
"""What processes get to connect before they are counted."""
WAIT_SECONDS = 1_800.0
POLL_SECONDS = 0.01
MEANWHILE_SECONDS = 1.0
"""What counts of the other queue at least: a hundredth of a few messages is none of them."""

POLICIES = 100
QUEUES = 10_000
KEYS = 10_000
BINDINGS = 100_000
BOUND_QUEUES = 100
BACKLOG = 1_000_000
PROBE_RATE = 1_000


# --- brokers ------------------------------------------------------------------------------------


class Target:
    """A broker that is measured, through its control command.

    Attributes:
        name: `warren` or `rabbit`.
        running: Whether it was started, and not stopped since.
        address: Where it listens, as a client's command line has it.
    """

    def __init__(self, name: str, tools: Path) -> None:
        self.name = name
        self.running = False
        self.address = ""
        self._pids: list[str] = []
        self._loadgen = tools / "loadgen" / "loadgen"
        self._environment = dict(os.environ)
        if name == "warren":
            self._control = [str(HERE / "ctl")]
        else:
            self._control = [str(tools / "peer" / "run_rabbit.sh"), "4.3"]
            self._environment.pop("BASE", None)
            if base := os.environ.get("PEER_BASE"):
                self._environment["BASE"] = base

    def ctl(self, *words: object) -> str:
        """Have the control command do something; gives what it says."""
        command = [*self._control, *map(str, words)]
        return subprocess.check_output(command, env=self._environment, text=True).strip()

    def start(self) -> None:
        """Start it without data, unless it runs."""
        if not self.running:
            self.ctl("start")
            self.running = True
            self.address = self.ctl("addrs")
            self._pids = self.ctl("pids").split()
            time.sleep(START_SECONDS)

    def stop(self) -> None:
        """End it if it runs."""
        if self.running:
            self.ctl("stop")
            self.running = False

    def link(self) -> Link:
        """A connection with it."""
        return Link(*address(self.address))

    def loadgen(self, words: str) -> subprocess.Popen[str]:
        """Begin a run of the load generator."""
        command = [str(self._loadgen), "--addr", self.address, *shlex.split(words)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def raw(self, what: str, words: str) -> subprocess.Popen[str]:
        """Begin a run of the raw client."""
        command = [sys.executable, "-m", "bench.raw", what, self.address, *shlex.split(words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=HERE.parent)

    def cpu_seconds(self) -> float:
        """Processor time that the broker has used, user and system."""
        ticks = 0
        for pid in self._pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def set_policies(self, policies: dict[str, tuple[str, dict[str, object]]]) -> None:
        """Create policies: of each name the pattern and the definition."""
        data = Path(self.ctl("datadir"))
        if self.name == "warren":
            program = os.environ.get("WARREN", str(HERE.parent / ".venv" / "bin" / "warren"))
            for name, (pattern, definition) in policies.items():
                words = ["set_policy", name, pattern, json.dumps(definition)]
                command = [program, "policies", "--data-dir", str(data / "node1"), *words]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            return
        rows = [
            {"vhost": "/", "name": name, "pattern": pattern, "definition": definition}
            | {"apply-to": "all", "priority": 0}
            for name, (pattern, definition) in policies.items()
        ]
        path = data.parent / "definitions.json"
        path.write_text(json.dumps({"policies": rows}))
        # Its command sees another root, in which that folder lies where such folders do.
        self.ctl("ctl", 1, "import_definitions", f"/var/lib/{data.parent.name}/definitions.json")


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a run of either client says at its end."""
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    if process.returncode:
        raise RuntimeError(f"{process.args!r} failed")
    found: dict[str, Any] = json.loads(out)
    return found


def declare(link: Link, queue: str, kind: str, **arguments: object) -> int:
    """Declare a durable queue, with `_` for `-` in its arguments; gives how many it holds."""
    table = {name.replace("_", "-"): value for name, value in arguments.items()}
    request = spec.Queue.Declare(
        queue=queue, durable=True, arguments={"x-queue-type": kind} | table
    )
    return int(link.call(request, spec.Queue.DeclareOk).message_count)


def held(link: Link, queue: str) -> int:
    """How many messages a queue holds."""
    request = spec.Queue.Declare(queue=queue, passive=True)
    return int(link.call(request, spec.Queue.DeclareOk).message_count)


def delete(link: Link, *queues: str) -> None:
    """Delete queues, there or not."""
    for queue in queues:
        link.call(spec.Queue.Delete(queue=queue), spec.Queue.DeleteOk)


# --- rows ---------------------------------------------------------------------------------------


@dataclass
class Plan:
    """What the command line asks for."""

    secs: float
    reps: int
    scale: float

    def some(self, count: int) -> int:
        """So many, by the scale."""
        return max(1, round(count * self.scale))


Run = dict[str, Any]
"""What was measured: `value` is what the table shows, `cpu` and `gen_cpu` are cores."""


def nothing(target: Target, plan: Plan) -> None:
    """Most rows need nothing to be there."""


@dataclass
class Row:
    """A line of the table.

    Attributes:
        name: Says what is measured, and its unit.
        run: Measures once; gives the values of this line's parts, by their names.
        prepare: Brings about what has to be there, on a broker without data.
        fresh: Whether it leaves things behind that others should not meet.
        better: `high` or `low`.
    """

    name: str
    run: Callable[[Target, Plan], dict[str, Run]]
    prepare: Callable[[Target, Plan], None] = nothing
    fresh: bool = False
    better: str = "high"


def traffic(words: str, key: str = "con_rate") -> Callable[[Target, Plan], dict[str, Run]]:
    """A row that is one run of the load generator."""

    def run(target: Target, plan: Plan) -> dict[str, Run]:
        cpu, began = target.cpu_seconds(), time.monotonic()
        process = target.loadgen(f"{words} --secs {plan.secs} --warmup {WARMUP_SECONDS}")
        found = ended(process)
        found["cpu"] = (target.cpu_seconds() - cpu) / (time.monotonic() - began)
        return {"": found | {"value": found[key]}}

    return run


def counted(plan: Plan) -> tuple[str, float, float]:
    """When the next run counts, as the raw client is told, and that time."""
    begin = time.monotonic() + START_SECONDS + WARMUP_SECONDS
    return f"--begin {begin} --end {begin + plan.secs}", begin, begin + plan.secs


def single_active(kind: str) -> Callable[[Target, Plan], dict[str, Run]]:
    """Two consumers, one of which is active: what they get."""

    def run(target: Target, plan: Plan) -> dict[str, Run]:
        link = target.link()
        declare(link, QUEUE, kind, x_single_active_consumer=True)
        span, begin, end = counted(plan)
        load = [target.raw("take", f"{QUEUE} {span}") for _ in range(2)]
        load.append(target.raw("publish", f"{QUEUE} {span}"))
        cores = broker_cores(target, begin, end)
        found = [ended(process) for process in load]
        delete(link, QUEUE)
        link.close()
        return {"": together(found, sum(each["con_rate"] for each in found), cores)}

    return run


def rejected(kind: str, strategy: str) -> Callable[[Target, Plan], dict[str, Run]]:
    """A publisher, a consumer that rejects everything, and one that takes the dead letters."""
    arguments: dict[str, object] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": DEAD,
    }
    if strategy == "at-least-once":
        arguments |= {"x-dead-letter-strategy": strategy, "x-overflow": "reject-publish"}

    def run(target: Target, plan: Plan) -> dict[str, Run]:
        link = target.link()
        declare(link, DEAD, "quorum")
        declare(link, QUEUE, kind, **arguments)
        span, begin, end = counted(plan)
        load = [
            target.raw("take", f"{DEAD} {span}"),
            target.raw("reject", f"{QUEUE} {span}"),
            target.raw("publish", f"{QUEUE} {span}"),
        ]
        cores = broker_cores(target, begin, end)
        found = [ended(process) for process in load]
        delete(link, QUEUE, DEAD)
        link.close()
        return {"": together(found, found[0]["con_rate"], cores)}

    return run


def broker_cores(target: Target, begin: float, end: float) -> float:
    """The cores that a broker takes in a time to come; returns when that is over."""
    time.sleep(max(0.0, begin - time.monotonic()))
    cpu, began = target.cpu_seconds(), time.monotonic()
    time.sleep(max(0.0, end - time.monotonic()))
    return (target.cpu_seconds() - cpu) / (time.monotonic() - began)


def together(found: list[dict[str, Any]], value: float, cores: float) -> Run:
    """What several processes with load have measured."""
    return {
        "value": value,
        "cpu": cores,
        "gen_cpu": round(sum(each["gen_cpu"] for each in found), 2),
        "processes": found,
    }


def many_policies(target: Target, plan: Plan) -> None:
    """Policies of which one matches the queue that is measured."""
    policies: dict[str, tuple[str, dict[str, object]]] = {
        f"other-{number}": (f"^team-{number}[.]", {"max-length": 1_000 + number})
        for number in range(plan.some(POLICIES) - 1)
    }
    target.set_policies(policies | {"ours": (f"^{QUEUE}", {"max-length": 100_000_000})})


def many_queues(target: Target, plan: Plan) -> None:
    """Durable classic queues that nobody uses."""
    count = plan.some(QUEUES)
    process = target.loadgen(
        f"--mode declare --type classic --queue {OTHER} --count {count} --qwindow 100"
    )
    ended(process)


def many_bindings(target: Target, plan: Plan) -> None:
    """Bindings of other queues, which no message has a key for; a third of each kind."""
    link = target.link()
    exchange = spec.Exchange.Declare(exchange=TOPICS, type="topic", durable=True)
    link.call(exchange, spec.Exchange.DeclareOk)
    for number in range(BOUND_QUEUES):
        declare(link, f"{OTHER}-{number}", "classic")
    count = plan.some(BINDINGS)
    for start in range(0, count, 1_000):
        link.cast(
            [
                spec.Queue.Bind(
                    queue=f"{OTHER}-{number % BOUND_QUEUES}",
                    exchange=TOPICS,
                    routing_key=pattern(number),
                    nowait=True,
                )
                for number in range(start, min(count, start + 1_000))
            ]
        )
        held(link, f"{OTHER}-0")
    link.close()


def pattern(number: int) -> str:
    """A binding key beside those that messages have, `k.00000000` and so on."""
    third, rest = divmod(number, 3)
    return (f"k.{third:08}.a", f"k.*.{third:08}", f"k.#.x.{third:08}")[rest]


def expiry(kind: str) -> Callable[[Target, Plan], dict[str, Run]]:
    """How long messages take to expire at once, and what another queue's wait meanwhile.

    A policy's TTL holds for messages that come after it. So these have a TTL of 1 ms each, and wait
    behind one without: none leaves before it is first.
    """

    def run(target: Target, plan: Plan) -> dict[str, Run]:
        count = plan.some(BACKLOG)
        link = target.link()
        declare(link, QUEUE, kind)
        declare(link, OTHER, "quorum")
        ended(target.raw("publish", f"{QUEUE} --count 1"))
        fill = f"{LOAD} --type {kind} --expiration 1 --keep --consumers 0 --secs {WAIT_SECONDS}"
        ended(target.loadgen(f"{fill} --window 1000 --pub-count {count}"))
        until(lambda: held(link, QUEUE) == count + 1)
        probe = target.raw("probe", f"{OTHER} --rate {PROBE_RATE}")
        time.sleep(START_SECONDS + WARMUP_SECONDS)
        quiet = time.monotonic()
        time.sleep(plan.secs)
        began = time.monotonic()
        link.call(spec.Basic.Get(queue=QUEUE, no_ack=True), spec.Basic.GetOk)
        until(lambda: held(link, QUEUE) == 0)
        over = time.monotonic()
        heard = max(over, began + MEANWHILE_SECONDS)
        time.sleep(max(0.0, heard - time.monotonic()))
        found = ended(probe)["delays"]
        delete(link, QUEUE, OTHER)
        link.close()
        before = [delay for sent, delay in found if quiet <= sent < began]
        meanwhile = [delay for sent, delay in found if began <= sent < heard]
        return {
            ": s until the queue is empty": {"value": round(over - began, 4)},
            ": p99 of another queue before, ms": {"value": p99_ms(before)},
            ": p99 of another queue meanwhile, ms": {"value": p99_ms(meanwhile)},
        }

    return run


def p99_ms(delays: list[float]) -> float:
    """The delay that one in a hundred exceeds."""
    return round(1e3 * sorted(delays)[int(0.99 * len(delays))], 2) if delays else 0.0


def until(check: Callable[[], bool]) -> None:
    """Wait until something is the case."""
    end = time.monotonic() + WAIT_SECONDS
    while not check():
        if time.monotonic() > end:
            raise TimeoutError("it takes too long")
        time.sleep(POLL_SECONDS)


def rows() -> Iterator[Row]:
    """All lines of the table."""
    out = "msg/s consumed"
    for name, kind in KINDS.items():
        load = f"{LOAD} --type {kind}"
        ttl = traffic(f"{load} --args x-message-ttl={HOUR_MS}")
        yield Row(f"l features: {name}, TTL by queue: {out}", ttl)
    for name, kind in KINDS.items():
        each = traffic(f"{LOAD} --type {kind} --expiration {HOUR_MS}")
        yield Row(f"l features: {name}, TTL by message: {out}", each)
    for name, kind in KINDS.items():
        levels = " --args x-max-priority=9" if kind == "classic" else ""
        mixed = traffic(f"{LOAD} --type {kind} --priorities 10{levels}")
        yield Row(f"l features: {name}, priorities 0-9 mixed: {out}", mixed)
    for name, kind in KINDS.items():
        title = f"l features: {name}, single active consumer, one of two: {out}"
        yield Row(title, single_active(kind))
    for name, kind in KINDS.items():
        over = traffic(
            f"{LOAD} --type {kind} --consumers 0 --args x-max-length=1000", "confirm_rate"
        )
        yield Row(f"l features: {name}, x-max-length 1,000 overflows: msg/s published", over)
    crowds = {
        "100 policies, one matches": (many_policies, ""),
        "10,000 other queues": (many_queues, ""),
        "topic exchange with 100,000 bindings, 10,000 keys": (many_bindings, f" --keys {KEYS}"),
    }
    for title, (prepare, words) in crowds.items():
        for name, kind in KINDS.items():
            run = traffic(f"{LOAD} --type {kind}{words}")
            yield Row(f"l features: {name}, {title}: {out}", run, prepare, fresh=True)
    for name, kind in KINDS.items():
        strategies = ["at-most-once", "at-least-once"] if kind == "quorum" else [""]
        for strategy in strategies:
            title = f"m rejected: {name}, dead letters {strategy}".rstrip().replace("-", " ")
            yield Row(f"{title}: {out}", rejected(kind, strategy))
    for name, kind in KINDS.items():
        title = f"n expiry: {name}, 1,000,000 messages at once"
        yield Row(title, expiry(kind), fresh=True, better="low")


# --- the table ----------------------------------------------------------------------------------


def measure(row: Row, targets: list[Target], plan: Plan) -> list[tuple[str, str, list[Run]]]:
    """The runs of a row: of each part its name, whose it is, and all runs."""
    parts: dict[tuple[str, str], list[Run]] = {}
    failed: set[str] = set()

    def attempt(target: Target, act: Callable[[Target, Plan], Any]) -> Any:
        if target.name in failed:
            return None
        try:
            return act(target, plan)
        except Exception as error:  # a broker that cannot do this leaves a hole, not a dead table
            failed.add(target.name)
            print(f"{row.name}: {target.name}: {error!r}", file=sys.stderr, flush=True)
            return None

    for target in targets:
        if row.fresh:
            target.stop()
        target.start()
        attempt(target, row.prepare)
    for number in range(plan.reps):
        for target in targets if number % 2 == 0 else targets[::-1]:
            for part, run in (attempt(target, row.run) or {}).items():
                parts.setdefault((part, target.name), []).append(run)
                print(f"  {row.name}{part}: {target.name} {run['value']:,}", file=sys.stderr)
    for target in targets:
        if row.fresh or target.name in failed:
            target.stop()
    return [(part, name, runs) for (part, name), runs in parts.items()]


def line(title: str, better: str, names: list[str], found: dict[str, list[Run]]) -> str:
    """A line of the table."""
    middles: dict[str, float] = {}
    cells, notes = [], []
    for name in names:
        runs = sorted(found.get(name, []), key=lambda run: float(run["value"]))
        if not runs:
            cells.append("-")
            continue
        middle = runs[len(runs) // 2]
        middles[name] = middle["value"]
        cells.append(f"{middle['value']:,}")
        note = f"{name}: {runs[0]['value']:,}-{runs[-1]['value']:,}"
        if "cpu" in middle:
            note += f", cpu {middle['cpu']:.2f} gen {middle['gen_cpu']:.2f}"
        notes.append(note)
    if len(names) == 2:
        first, second = (middles.get(name) for name in names)
        if first and second is not None:
            ratio = second / first
            cells.append(f"{ratio:.{2 if ratio > 0.1 else 6}f}x ({better} is better)")
        else:
            cells.append("-")
    return f"| {title} | {' | '.join(cells)} | {'; '.join(notes)} |"


def main() -> int:
    """Measure the rows that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.features")
    parser.add_argument("--only", default=".", help="rows whose names this is found in")
    parser.add_argument("--secs", type=float, default=10.0)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--targets", default="rabbit warren")
    parser.add_argument("--scale", type=float, default=1.0, help="of counts, at most 1")
    parser.add_argument("--json", type=Path, help="write every run here")
    words = parser.parse_args()
    chosen = [row for row in rows() if re.search(words.only, row.name)]
    names = words.targets.split()
    if set(names) - {"rabbit", "warren"}:
        parser.error(f"unknown targets: {words.targets}")
    if not chosen:
        return 0
    tools = Path(subprocess.check_output([HERE / "peer", "tools"], text=True).strip())
    targets = [Target(name, tools) for name in names]
    plan = Plan(words.secs, words.reps, words.scale)
    print(
        f"| measure | {' | '.join(names)}"
        + f" | {names[-1]}/{names[0]}" * (len(names) == 2)
        + " | notes |"
    )
    print("|---|" + "---:|" * (len(names) + (len(names) == 2)) + "---|", flush=True)
    kept: list[str] = []
    try:
        for row in chosen:
            found: dict[str, dict[str, list[Run]]] = {}
            for part, name, runs in measure(row, targets, plan):
                found.setdefault(part, {})[name] = runs
                kept += [json.dumps({"row": row.name + part, "target": name} | run) for run in runs]
            for part, by_name in (found or {"": {}}).items():
                print(line(row.name + part, row.better, names, by_name), flush=True)
    finally:
        for target in targets:
            target.stop()
        if words.json:
            words.json.write_text("\n".join(kept) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
