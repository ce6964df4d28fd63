"""The Spark that a pipeline computes with: the one that there is, or a small local one."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import warren
from warren.pipeline.layout import PipelineError
from warren.spark.session import python_launcher

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: For a session of one's own. Pipelines are mostly small: what Spark does to spread large ones out
#: costs more than it gives.
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}

#: What tables rely on, in any session: times as Arrow has them, so that files say their range.
_NEEDED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
}


def open_session(log: Path | None = None) -> SparkSession:
    """The session of `spark-submit`, or a local one on all cores.

    Args:
        log: Where a local one writes what it has to say, in the place of standard error.

    Raises:
        PipelineError: Spark does not start.
        ModuleNotFoundError: It is not installed.
    """
    source = str(Path(warren.__file__).resolve().parent.parent)
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = python_launcher()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    # It prints pages of Java for each error that is raised, too.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    # And a traceback for Ctrl-C.
    for name in (None, "py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_is_no_interrupt)
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("warren pipeline")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._active_spark_context
    if not submitted:
        builder = builder.master("local[*]")
        for name, value in _CONF.items():
            builder = builder.config(name, value)
    try:
        with _stderr_to(None if submitted else log), _interrupted_later():
            session = builder.getOrCreate()
    except (PySparkException, OSError) as error:
        more = f"; more in {log}" if log else ""
        raise PipelineError(
            f"Spark does not start, which needs Java 17 or newer: {first_line(error)}{more}"
        ) from None
    if submitted:
        session = session.newSession()  # What is set here is not for others.
    for name, value in _NEEDED.items():
        session.conf.set(name, value)
    return session


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Have Ctrl-C wait for the end of the block.

    A JVM whose start is waited for no more does not end by itself, nor with this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        # In the place of Spark's own, which talks to the JVM while the same thread may be doing so.
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Whether a record is of something else than what Ctrl-C brought about."""
    error = record.exc_info[1] if record.exc_info else None
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is None


@contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Have processes that begin in the block write their standard error into a file.

    The JVM's own words there, and those of its start, cannot be turned off.
    """
    if log is None:
        yield
        return
    kept = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(kept, 2)
    finally:
        os.close(kept)


def first_line(error: BaseException) -> str:
    """The first line of an error that has pages of Java behind it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip().rstrip(";") if lines else type(error).__name__


def write_files(rows: DataFrame, folder: Path, files: int = 1) -> None:
    """Write rows as Parquet files into a new folder."""
    rows.coalesce(files).write.option("compression", "zstd").parquet(folder.as_uri())
