"""What Spark's Python processes cost: imports, since they start anew, and memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.spark.conftest import environment
from tests.support.patience import patient
from warren.spark.session import python_launcher

LOOK_UP = """
import sys
from pyspark_warren import DefaultSource
DefaultSource({"subscribe": "q"}).schema()
print([name for name in ("numpy", "pandas", "pyarrow") if name in sys.modules])
"""

TASK = """
import sys
from tests.spark.fake import batch, record
from warren.spark.columns import to_arrow
from warren.spark.records import parse
from warren.spark.schema import COLUMNS, arrow_schema
from warren.wire.amqp091.properties import Properties
rich = Properties(
    content_type="a", delivery_mode=2, priority=1, message_id="m", timestamp=1, app_id="a"
)
columns = [name for name in COLUMNS if name != "headers"]
rows = to_arrow(parse(batch(1, [record(b"x"), record(b"y", properties=rich)]))[0], "q",
                arrow_schema(columns))
print(rows.num_rows, "pandas" in sys.modules)
"""

WHERE = """
import sys
from tests.spark.fake import FakeBroker, record
from warren.spark.batch import QueueReader
from warren.spark.options import read_options
broker = FakeBroker()
broker.queue("q").put(record(b"x", key="a"), record(b"y"))
where = "key IN ('a', 'b') AND key <> 'b' AND key LIKE '%' AND NOT (priority = 1 OR offset = 9)"
options = read_options({"subscribe": "q", "where": where + " OR priority IS NULL"}, False)
reader = QueueReader(options, broker.connect)
(part,) = reader.partitions()
print([rows.num_rows for rows in reader.read(part)], "pandas" in sys.modules)
"""

FAULTS = """
import resource
from tests.spark.fake import FakeBroker
from warren.spark.options import read_options
from warren.spark.partition import Rows, read
options = read_options({"subscribe": "q"}, streaming=False)
list(read(options, Rows([], 0, 1), False, FakeBroker().connect))

def blocks():
    for _ in range(20):
        held = [b"x" * (4 << 20) for _ in range(8)]

blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
blocks()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def said(code: str) -> str:
    """What a Python process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=patient(60),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_looking_the_source_up_needs_no_arrow() -> None:
    assert said(LOOK_UP) == "[]"


def test_reading_needs_no_pandas() -> None:
    assert said(TASK) == "2 False"
    assert said(WHERE) == "[2] False"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="glibc alone has mallopt")
def test_a_task_reads_into_memory_that_the_one_before_had() -> None:
    pages = 20 * 8 * (4 << 20) // 4096
    assert int(said(FAULTS)) < pages / 10


def test_processes_import_the_installed_spark_and_all_else_as_before(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    (tmp_path / "numpy.py").touch()  # something else that is installed
    code = "import numpy, pyspark, sys; print(pyspark.__file__, numpy.__file__, sys.argv[1:])"
    paths = [str(home / "python" / "lib" / "pyspark.zip"), str(tmp_path)]
    done = subprocess.run(
        [python_launcher(), "-c", code, "a b"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        timeout=patient(60),
    )
    assert done.returncode == 0, done.stderr
    spark, other, words = done.stdout.split(maxsplit=2)
    assert Path(spark).resolve() == (home / "__init__.py").resolve()
    assert (other, words) == (str(tmp_path / "numpy.py"), "['a b']\n")


def test_a_spark_that_is_elsewhere_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert python_launcher.__wrapped__() == sys.executable


def test_the_launcher_goes_with_the_process_that_made_it() -> None:
    code = """
import os
from warren.spark.session import python_launcher
script = python_launcher()
if os.fork() == 0:
    raise SystemExit
os.wait()
print(script, os.path.exists(script))
"""
    script, there = said(code).split()
    assert there == "True"
    assert not os.path.exists(script)


def test_what_killed_processes_left_goes_with_the_next_launcher() -> None:
    made = "import time; from warren.spark.session import python_launcher; "
    made += "print(python_launcher(), flush=True); time.sleep(600)"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", made],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment()},
        )
        for _ in range(2)
    ]
    try:
        scripts = [str(each.stdout and each.stdout.readline()).strip() for each in processes]
        assert all(map(os.path.exists, scripts))
        processes[0].kill()
        processes[0].wait()
        assert os.path.exists(scripts[0])
        python_launcher.__wrapped__()
        assert [os.path.exists(script) for script in scripts] == [False, True]
    finally:
        for each in processes:
            each.kill()
            each.communicate()
