"""Judges histories that are too large for one event after the other, on Spark.

It comes to the same verdict as `serial`. A task takes the messages of some publishers, and judges
them by whole columns (`vector`), which costs a tenth of the same in Spark's own SQL: that would
hash each message's words, and exchange all events between tasks, since what a message's consumer
saw lies in another file than what its publisher did. Each task reads the files for itself instead.

Source: G-24.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from sim.history.events import paths_of
from sim.history.vector import Others, Partial, judge_others, judge_part, put_together, read_part
from sim.history.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS_EACH: Final = 6_000_000
"""Events that one task judges, about: some 100 bytes of memory each."""


def check(spark: SparkSession, folder: Path) -> Verdict:
    """Judge the history in a folder, which all hosts have that run tasks.

    Raises:
        FileNotFoundError: There is none.
    """
    events = sum(pq.read_metadata(path).num_rows for path in paths_of(folder))
    parts = -(-events // EVENTS_EACH)
    context = spark.sparkContext

    def judge(part: int) -> Partial | Others:
        """One task: of the messages of some publishers, or of all else."""
        return judge_others(folder) if part < 0 else judge_part(read_part(folder, part, parts))

    found = context.parallelize(range(-1, parts), parts + 1).map(judge).collect()
    others = next(each for each in found if isinstance(each, Others))
    return put_together((each for each in found if isinstance(each, Partial)), others)


def session(threads: int = 2) -> SparkSession:
    """A session for checks on this machine."""
    from pyspark.sql import SparkSession as Sessions

    # Tasks need what this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    builder = Sessions.builder.master(f"local[{threads}]").appName("histories")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
