"""What each kind of Spark's Python processes imports: they start anew, and each import costs."""

from __future__ import annotations

import subprocess
import sys

from tests.spark.conftest import environment
from tests.support.patience import patient

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
