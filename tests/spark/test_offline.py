"""What a data directory has is read without a broker, and is what the node has when it starts."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.support import eventually
from tests.support.broker import Broker, free_port
from warren.__main__ import main
from warren.client import PERSISTENT, Channel, Connection, connect
from warren.errors import ConfigError, StorageError
from warren.log.manifest import load
from warren.offline.directory import open_directory
from warren.offline.view import DiskView
from warren.spark.archiving import archived_files
from warren.spark.offline_rows import read_directory
from warren.spark.queue_rows import Drain, read_queue
from warren.spark.schema import COLUMNS, OFFLINE_COLUMNS
from warren.versions import NEWEST
from warren.wire.amqp091.properties import Properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUORUM = {"x-queue-type": "quorum"}
ORDERS = 3_000
SINGLE = 2_980
"""From here on orders are written one by one, behind all else."""
BODY = b"%06d" + b"x" * 1_000
QUEUES = ("orders", "purged", "again", "dying", "keeping", "held")
FILE_BYTES = 1 << 20
"""Files of the log are small, so that there are several, and snapshots behind them."""

Row = dict[str, Any]


def bodies(first: int, last: int) -> list[bytes]:
    return [BODY % number for number in range(first, last)]


def declare(channel: Channel, queue: str, **arguments: object) -> None:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments=QUORUM | named)


def publish(channel: Channel, queue: str, some: list[bytes], mode: Properties = PERSISTENT) -> None:
    assert channel.publish_many("", queue, some, mode) == []


def bodies_of(channel: Channel) -> list[bytes]:
    """What has come for its consumer."""
    return [delivery.body for delivery in channel.receive(1_000, 0.1)]


def settle(channel: Channel, queue: str, count: int, how: Callable[[int], None]) -> None:
    """Take some messages; what is confirmed behind it shows that the log has that."""
    for _ in range(count):
        delivery = channel.get(queue)
        assert delivery is not None
        how(delivery.delivery_tag)


def lose(channel: Channel) -> None:
    """Queues whose messages leave, each in another way."""
    declare(channel, "purged")
    publish(channel, "purged", bodies(0, 50))
    assert channel.queue_purge("purged") == 50
    publish(channel, "purged", bodies(50, 55))
    declare(channel, "again")
    publish(channel, "again", bodies(0, 20))
    channel.queue_delete("again")
    declare(channel, "again")
    publish(channel, "again", bodies(20, 23))
    channel.queue_declare("plain", durable=True)
    publish(channel, "plain", bodies(0, 100))
    publish(channel, "plain", bodies(100, 110), Properties(delivery_mode=1).encode())
    settle(channel, "plain", 7, channel.ack)
    publish(channel, "plain", bodies(110, 111))
    declare(channel, "dying", dead_letter_exchange="", dead_letter_routing_key="nowhere")
    publish(channel, "dying", bodies(0, 9))
    settle(channel, "dying", 2, lambda tag: channel.reject(tag, requeue=False))
    settle(channel, "dying", 1, lambda tag: channel.nack(tag, requeue=True))
    publish(channel, "dying", bodies(9, 10))
    declare(
        channel,
        "keeping",
        dead_letter_exchange="",
        dead_letter_routing_key="nowhere",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    publish(channel, "keeping", bodies(0, 6))
    settle(channel, "keeping", 2, lambda tag: channel.reject(tag, requeue=False))
    publish(channel, "keeping", bodies(6, 7))


def work(connection: Connection) -> None:
    """What happens to the queues while the broker runs."""
    channel = connection.channel()
    declare(channel, "orders")
    publish(channel, "orders", bodies(0, 2_000))
    settle(channel, "orders", 40, channel.ack)
    for first in range(2_000, SINGLE, 100):
        publish(channel, "orders", bodies(first, min(first + 100, SINGLE)))
    settle(channel, "orders", 10, channel.ack)
    settle(channel, "orders", 5, lambda tag: None)
    lose(channel)
    declare(channel, "held")
    publish(channel, "held", bodies(0, 6))
    for number in range(SINGLE, ORDERS - 1):
        publish(channel, "orders", bodies(number, number + 1))


class Crashed:
    """A broker that was killed, and its data directory as it lay then."""

    def __init__(self, folder: Path) -> None:
        self.broker = Broker(
            free_port(),
            folder / "data",
            options=["--set", f"raft.wal_max_size_bytes={8 * FILE_BYTES}"],
        )
        self.broker.start()
        data = self.broker.data_dir
        assert data is not None
        self.data = data
        with connect(self.broker.url) as connection:
            work(connection)
            with Drain("held", "g", self.broker.url, options={"maxOffsetsPerTrigger": "4"}) as held:
                assert held.take() is not None
                publish(connection.channel(), "orders", bodies(ORDERS - 1, ORDERS))
                with pytest.raises(StorageError, match="is used by a node that runs: stop it, or"):
                    read_directory(str(data))
                self.broker.kill()
        self.copy = folder / "copy"
        shutil.copytree(data, self.copy)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashed]:
    """All tests read copies; one starts the broker again."""
    made = Crashed(tmp_path_factory.mktemp("offline"))
    yield made
    made.broker.kill()


def offline(directory: Path, queue: str | None = None, **options: str) -> list[Row]:
    rows: list[Row] = read_directory(str(directory), queue, options=options).read_all().to_pylist()
    return rows


def live(directory: Path, queue: str) -> list[Row]:
    """What a restart makes ready, as a broker shows it."""
    rows = offline(directory, queue)
    return sorted(
        (
            {name: row[name] for name in COLUMNS}
            for row in rows
            if row["state"] == "ready" or row["reason"] == "a consumer has it"
        ),
        key=lambda row: int(row["offset"]),
    )


def online(broker: Broker, queue: str) -> list[Row]:
    rows = read_queue(queue, broker.url).read_all().to_pylist()
    return sorted(rows, key=lambda row: int(row["offset"]))


def digests(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        + str(path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def states(rows: list[Row]) -> Counter[tuple[str, str | None]]:
    return Counter((row["state"], row["reason"]) for row in rows)


# --- what a node that starts has ----------------------------------------------------------------


@pytest.mark.rule("DUR-02")
def test_offline_is_what_the_node_has_when_it_starts(crashed: Crashed) -> None:
    before = digests(crashed.data)
    read = {queue: live(crashed.data, queue) for queue in (*QUEUES, "plain")}
    assert digests(crashed.data) == before
    assert [row["value"] for row in read["orders"]] == bodies(50, ORDERS)
    crashed.broker.start()
    for queue in QUEUES:
        same = eventually(lambda queue=queue: online(crashed.broker, queue) == read[queue], 20)
        assert same, queue
    with connect(crashed.broker.url) as connection:
        channel = connection.channel()
        took = []
        while (delivery := channel.get("plain")) is not None:
            took.append(delivery.body)
    assert took == [row["value"] for row in read["plain"]]
    crashed.broker.stop()
    # And after an orderly stop.
    assert live(crashed.data, "orders") == read["orders"]
    assert [row for row in offline(crashed.data) if row["state"] == "damaged"] == []


def test_states(crashed: Crashed) -> None:
    found = {queue: states(offline(crashed.copy, queue)) for queue in (*QUEUES, "plain")}
    assert found["orders"] == {("ready", None): ORDERS - 55, ("unacked", "a consumer has it"): 5}
    assert found["purged"] == {("ready", None): 5}
    assert found["again"] == {("ready", None): 3}
    assert found["plain"] == {("ready", None): 94}
    assert found["keeping"] == {("ready", None): 5, ("dead-lettered", "rejected"): 2}
    held = ("unacked", "group g has it in checkout 1")
    assert found["held"] == {held: 4, ("ready", None): 2}
    # A node that counts deliveries which came back tells.
    (back,) = [row for row in offline(crashed.copy, "dying") if row["acquired_count"]]
    assert (back["value"], back["acquired_count"]) == (BODY % 2, 1)


def test_ways_out(tmp_path: Path) -> None:
    """Of what left, the entries behind the newest snapshot say how; no full file, no snapshot."""
    broker = Broker(free_port(), tmp_path / "data")
    broker.start()
    try:
        with connect(broker.url) as connection:
            lose(connection.channel())
    finally:
        broker.kill()
    gone = {
        queue: states(offline(tmp_path / "data", queue, includeGone="true"))
        for queue in ("purged", "dying", "plain")
    }
    assert gone["purged"] == {("ready", None): 5, ("purged", None): 50}
    assert gone["dying"] == {("ready", None): 8, ("dead-lettered", "rejected"): 2}
    assert gone["plain"][("ready", None)] == 94
    assert gone["plain"][("dropped", "transient")] == 10


def test_all_queues_at_once(crashed: Crashed) -> None:
    rows = offline(crashed.copy)
    assert {row["topic"] for row in rows} == {*QUEUES, "plain"}
    assert {row["vhost"] for row in rows} == {"/"}
    assert [name for name in OFFLINE_COLUMNS if name not in rows[0]] == []
    assert offline(crashed.copy, vhost="other") == []


# --- damage -------------------------------------------------------------------------------------


@pytest.fixture
def damaged(crashed: Crashed, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(crashed.copy, tmp_path / "damaged"))


def place_of(directory: Path, body: bytes) -> tuple[Path, int]:
    """The file of the log in which a body lies, and where."""
    for name in reversed(names_of(directory)):
        path = directory / "log" / name
        at = path.read_bytes().find(body)
        if at >= 0:
            return path, at
    raise AssertionError(body[:20])


def flip(directory: Path, body: bytes) -> Path:
    path, at = place_of(directory, body)
    data = bytearray(path.read_bytes())
    data[at + 100] ^= 1
    path.write_bytes(data)
    return path


def names_of(directory: Path) -> list[str]:
    """The files that the manifest names."""
    return [f"{number:08d}.log" for number, _ in load(DiskView(directory)).files]


def round_before(path: Path, at: int) -> int:
    """Where the round begins that a place of a file is in: each at a multiple of a block."""
    data = path.read_bytes()
    return next(begin for begin in range(at // 512 * 512, -1, -512) if data[begin:][:4] == b"WRB1")


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("within a block", "is cut off at byte .*, within a block: what came last is missing"),
        ("within a round", "is cut off at byte .*, within a round: what came last is missing"),
        ("between rounds", "ends with a round of messages and has no room behind it"),
        ("at its beginning", "is empty, as no node leaves it"),
        ("zeros", None),
    ],
)
def test_a_tail_that_is_cut_off_costs_what_was_in_it(
    damaged: Path, where: str, why: str | None
) -> None:
    """And it is told, but for zeros, which are what was never written."""
    path, at = place_of(damaged, BODY % (ORDERS - 1))
    if where == "at its beginning":
        path = damaged / "log" / names_of(damaged)[-1]
    begin = round_before(path, at)
    end = {
        "within a block": at + 10,
        "within a round": begin + 512,
        "between rounds": begin,
        "at its beginning": 0,
        "zeros": begin,
    }[where]
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(end)
        if where == "zeros":
            file.truncate(size)
    rows = offline(damaged, "orders")
    told = [row["reason"] for row in rows if row["state"] == "damaged" and row["offset"] is None]
    assert [bool(re.search(why, reason)) for reason in told] == [True] if why else not told
    kept = sorted(row["value"] for row in rows if row["state"] != "damaged")
    if where == "at its beginning":
        assert set(kept) < set(bodies(0, ORDERS - 1)), "settled ones come back, too"
        return
    assert kept == bodies(50, ORDERS - 1)
    assert len([row for row in offline(damaged, "plain") if row["state"] != "damaged"]) == 94


@pytest.mark.parametrize("where", ["a closed file", "the newest file"])
def test_a_flipped_bit_costs_its_record_batch(damaged: Path, crashed: Crashed, where: str) -> None:
    """The others are there, and one that is about the damage."""
    whole = offline(damaged, "orders")
    number = 1_000
    if where == "the newest file":
        newest = damaged / "log" / names_of(damaged)[-1]
        # What is damaged at the very end was never whole.
        singles = range(SINGLE, ORDERS - 1)
        number = next(n for n in singles if place_of(damaged, BODY % n)[0] == newest)
    path = flip(damaged, BODY % number)
    rows = offline(damaged, "orders")
    told = [row for row in rows if row["state"] == "damaged"]
    stretches = [(row["offset"], row["last_offset"]) for row in told if row["offset"] is not None]
    lost = {n for first, last in stretches for n in range(first, last + 1)}
    assert number in lost and len(lost) < 1_000
    assert all(path.name in row["reason"] for row in told)
    left = [row for row in rows if row["state"] != "damaged"]
    assert [row for row in whole if row["offset"] not in lost] == sorted(
        left, key=lambda row: int(row["offset"])
    )
    others = [queue for queue in QUEUES if queue != "orders"]
    for queue in others:
        assert live(damaged, queue) == live(crashed.copy, queue)


def test_a_node_that_goes_on_over_damage_has_the_same(damaged: Path, crashed: Crashed) -> None:
    flip(damaged, BODY % (SINGLE + 5))
    read = [row["value"] for row in live(damaged, "orders")]
    assert BODY % (SINGLE + 5) not in read
    broker = Broker(free_port(), damaged, options=["--salvage"])
    broker.start()
    try:
        # Tables are read over the hole: what lies behind it is not held up by it.
        table = read_queue("orders", broker.url, ["value"], {"retryTimeout": "20s"}).read_all()
        assert sorted(table["value"].to_pylist()) == read
        with connect(broker.url) as connection:
            channel = connection.channel()
            channel.consume("orders", no_ack=True)
            took: list[bytes] = []
            eventually(lambda: took.extend(bodies_of(channel)) or len(took) >= len(read), 20)
            took += bodies_of(channel)
    finally:
        broker.kill()
    assert sorted(took) == read


def test_a_file_that_is_missing(damaged: Path) -> None:
    # The first one may have the names of queues, if no snapshot has them.
    name = names_of(damaged)[1]
    (damaged / "log" / name).unlink()
    (damaged / "log" / name).with_suffix(".idx").unlink(missing_ok=True)
    rows = offline(damaged, "orders")
    assert any(name in row["reason"] for row in rows if row["state"] == "damaged")
    values = sorted(row["value"] for row in rows if row["state"] == "ready")
    assert values[-1] == BODY % (ORDERS - 1) and len(values) > 500


def test_rows_that_are_asked_for(damaged: Path) -> None:
    """What is damaged is told of in rows that are kept, or not, like all others."""
    flip(damaged, BODY % 1_000)
    rows = offline(damaged, includeGone="true")

    def some(text: str, **options: str) -> list[Row]:
        return offline(damaged, includeGone="true", where=text, **options)

    assert some("state = 'damaged'") == [row for row in rows if row["state"] == "damaged"] != []
    assert some("topic IN ('held', 'again') AND state <> 'unacked'") == [
        row for row in rows if row["topic"] in ("held", "again") and row["state"] != "unacked"
    ]
    assert some("offset IS NULL OR offset < 3 AND vhost = '/'") == [
        row for row in rows if row["offset"] is None or row["offset"] < 3
    ]
    assert some("topic IS NULL") == [row for row in rows if row["topic"] is None]
    assert some("topic = 'orders' AND topic <> 'orders'") == some("vhost = 'other'") == []
    numbers = [row["offset"] for row in rows if row["topic"] == "held"]
    narrow = some("topic = 'held'", columns="offset")
    assert narrow == [{"offset": number} for number in numbers]


def test_without_the_identity_all_of_it_is_still_there(damaged: Path) -> None:
    (damaged / "node").unlink()
    rows = offline(damaged, "orders")
    assert {row["value"] for row in rows if row["offset"] is not None} >= set(bodies(50, ORDERS))
    assert any("'node' is missing" in (row["reason"] or "") for row in rows)


def later_manifest(directory: Path) -> None:
    (directory / "log" / "MANIFEST").write_text("warren-log 9\nwhatever\n")


def later_cluster(directory: Path) -> None:
    manifest = load(DiskView(directory))
    manifest.version = NEWEST + 1
    (directory / "log" / "MANIFEST").write_bytes(manifest.encode())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (later_manifest, "format 'warren-log 9' is not one this version reads"),
        (later_cluster, f"is of cluster version {NEWEST + 1}, and this node knows versions up to"),
        (lambda path: (path / "log" / "MANIFEST").write_bytes(b"x"), "the checksum does not match"),
        (lambda path: shutil.rmtree(path / "log"), "is no data directory of a node"),
        (shutil.rmtree, "is no directory"),
    ],
)
def test_what_cannot_be_read_is_refused(
    damaged: Path, change: Callable[[Path], None], what: str
) -> None:
    change(damaged)
    with pytest.raises(StorageError, match=what):
        offline(damaged)


# --- ways in ------------------------------------------------------------------------------------


def test_a_queue_that_is_not_there(crashed: Crashed) -> None:
    with pytest.raises(
        ConfigError, match="has no queue 'nope' that is kept on disk; it has: 'again"
    ):
        offline(crashed.copy, "nope")


def test_a_queue_is_rescued_by_a_command(
    crashed: Crashed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow.parquet as pq

    folder = tmp_path / "rescued"
    words = ["archive", "orders", str(folder), "--offline", str(crashed.copy), "--rows", "1000"]
    assert main(words) == 0
    assert f"orders: {ORDERS - 50:,} messages in 3 files in {folder}" in capsys.readouterr().out
    rows = pq.read_table([str(file) for file in archived_files(folder)]).to_pylist()
    assert [row["value"] for row in rows] == bodies(50, ORDERS)
    assert json.loads((folder / "_damage.json").read_text())["damage"] == []
    assert main(words) == 1 and "is not empty" in capsys.readouterr().err
    broker = ["archive", "orders", str(folder), "--uri", "amqp://127.0.0.1:1/"]
    assert main(broker) == 1 and "rescued from" in capsys.readouterr().err
    assert main([*words, "--follow"]) == 2


@pytest.mark.parametrize("number", [1_000, SINGLE + 5])
def test_a_damaged_queue_is_rescued_as_far_as_it_goes(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """What recovery already finds damaged is told of the file, too."""
    flip(damaged, BODY % number)
    folder = tmp_path / "rescued"
    assert main(["archive", "orders", str(folder), "--offline", str(damaged)]) == 1
    assert "orders: damaged: messages " in capsys.readouterr().err
    damage = json.loads((folder / "_damage.json").read_text())["damage"]
    lost = [(each["first"], each["last"]) for each in damage if each["first"] is not None]
    assert any(first <= number <= last for first, last in lost)


def test_queues_are_listed_by_a_command(
    crashed: Crashed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(crashed.copy)]) == 0
    lines = {line.split()[1]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert lines["orders"][2::2] == ["quorum", str(ORDERS - 55), "0"]
    assert main(["inspect", str(crashed.copy), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["name"] for each in found} == {*QUEUES, "plain"}
    assert main(["inspect", "/nowhere"]) == 1


def test_one_process_recovers_a_directory_once(crashed: Crashed) -> None:
    """As long as it does not change."""
    with open_directory(crashed.copy) as first, open_directory(crashed.copy) as second:
        assert first is second
    (crashed.copy / "node").touch()
    with open_directory(crashed.copy) as third:
        assert third is not first


@pytest.mark.spark
def test_spark_reads_a_directory_in_parallel(crashed: Crashed, spark: SparkSession) -> None:
    source = spark.read.format("warren").option("dataDirectory", str(crashed.copy))
    table = source.option("minPartitions", "4").load()
    assert table.rdd.getNumPartitions() >= 4
    found = {
        (row["topic"], row["state"]): row["count"]
        for row in table.groupBy("topic", "state").count().collect()
    }
    assert found[("orders", "ready")] == ORDERS - 55
    assert found[("held", "unacked")] == 4
    text = "topic <> 'orders' AND (state = 'unacked' OR reason IS NOT NULL)"
    wanted = table.where(text).select("topic", "offset").orderBy("topic", "offset").collect()
    asked = spark.read.format("warren").options(dataDirectory=str(crashed.copy), where=text)
    some = asked.load().select("topic", "offset")
    assert some.orderBy("topic", "offset").collect() == wanted != []
    values = source.option("subscribe", "again").load().select("value").collect()
    assert sorted(bytes(row.value) for row in values) == bodies(20, 23)
    with pytest.raises(Exception, match="unknown option 'amqp.uri'"):
        source.option("amqp.uri", "amqp://localhost/").load()
