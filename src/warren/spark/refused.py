"""A streaming reader in the place of one that cannot be made.

Spark's runner loses an error that is raised while a reader is made behind one of its own; what a
reader answers to its first call reaches the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from warren.errors import ConfigError


class RefusedReader(DataSourceStreamReader):
    """Stands for a query that cannot run, and says why whatever it is asked."""

    def __init__(self, error: ConfigError) -> None:
        self._error = str(error)

    def initialOffset(self) -> dict[str, Any]:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def latestOffset(self, *where: Any) -> dict[str, Any]:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Say what is wrong."""
        raise ConfigError(self._error)

    def stop(self) -> None:
        """There is nothing to end."""
