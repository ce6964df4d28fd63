"""What a checkpoint says, and batches that are settled as soon as Spark has committed them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark.driver import Checkpoint, Query
from tests.spark.fake import FakeBroker, record
from tests.spark.test_stream import bodies, wait_for
from warren.errors import ConfigError
from warren.spark.checkpoint import Place, committed


def log(checkpoint: Path, batch: int, *offsets: dict[str, int], commit: bool = True) -> None:
    """A batch in a checkpoint, laid out as Spark does."""
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(exist_ok=True)
    lines = ["v1", '{"batchWatermarkMs":0}', *map(json.dumps, offsets)]
    whole(checkpoint / "offsets" / str(batch), "\n".join(lines))
    (checkpoint / "offsets" / f".{batch}.crc").write_bytes(b"\x00")
    if commit:
        whole(checkpoint / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')


def whole(file: Path, text: str) -> None:
    """A file that is never there in part, as a query that runs may look."""
    written = file.with_name(f".{file.name}.tmp")
    written.write_text(text)
    written.replace(file)


def test_the_newest_commit_says_how_far_a_query_has_come(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    assert committed(tmp_path, "q") is None
    for batch in range(11):
        log(tmp_path, batch, {"other": 40}, {"q": batch + 3, "q#incarnation": 8})
    log(tmp_path, 11, {"other": 40}, {"q": 14, "q#incarnation": 8}, commit=False)
    assert committed(tmp_path, "q") == Place(13, 8)


def test_a_folder_that_is_no_checkpoint_of_the_queue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder 'offsets'"):
        committed(tmp_path, "q")
    log(tmp_path, 0, {"other": 1})
    with pytest.raises(ConfigError, match="no checkpoint of a query of queue 'q'"):
        committed(tmp_path, "q")


def running(folder: Path, given_to: Path | None = None) -> tuple[FakeBroker, Query, dict]:
    """A query whose first batch is under way: logged, planned, and not committed."""
    broker = FakeBroker()
    broker.queue("q").put(*[record(body) for body in bodies(3)])
    query = Query(broker.connect, Checkpoint(), checkpointLocation=str(given_to or folder))
    reader = query.reader
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    log(folder, 0, end, commit=False)
    reader.partitions(start, end)
    return broker, query, end


def test_a_batch_is_settled_as_soon_as_it_is_committed(tmp_path: Path) -> None:
    broker, query, end = running(tmp_path)
    queue = broker.queue("q")
    assert queue.groups["g"].settled == 0 and len(queue.messages) == 3
    log(tmp_path, 0, end)
    wait_for(lambda: queue.groups["g"].settled == 1)
    assert not queue.messages
    query.reader.stop()
    wait_for(lambda: broker.open_connections == 0)


def test_nothing_is_settled_by_the_checkpoint_of_another_query(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    for folder in (ours, other):
        folder.mkdir()
    log(other, 0, {"q": 7})
    said: list[str] = []

    def complained() -> bool:
        said.append(capfd.readouterr().err)
        return "checkpointLocation is not of this query" in "".join(said)

    broker, query, _ = running(ours, given_to=other)
    wait_for(complained)
    assert broker.queue("q").groups["g"].settled == 0
    query.reader.stop()


def test_where_the_checkpoint_is_has_to_be_a_path(tmp_path: Path) -> None:
    broker = FakeBroker()
    for wrong in ("hdfs://a/b", "relative"):
        with pytest.raises(ConfigError, match=r"'checkpointLocation' is .* allowed: an absolute"):
            Query(broker.connect, Checkpoint(), checkpointLocation=wrong)
    assert Query(broker.connect, Checkpoint(), checkpointLocation=tmp_path.as_uri())
