"""Sessions whose queries start at the same moment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from warren.spark.session import LOCAL, REDACTED, prepare_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run_query(session: SparkSession, source: str, folder: Path) -> None:
    """Read what a source has into nowhere."""
    rows = session.readStream.format(source).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def variables_of(session: Any, source: str) -> Any:
    """The environment that Spark keeps for all queries of a source."""
    manager = session._jsparkSession.sessionState().dataSourceManager()
    return manager.lookupDataSource(source).dataSourceCls().envVars()


def test_a_prepared_query_adds_nothing_to_what_all_share(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two that added to it at once left it damaged."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"n": 0}

        def latestOffset(self, *given: object) -> dict[str, int]:
            return {"n": 1}

        def partitions(self, start: object, end: object) -> list[InputPartition]:
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Any:
            yield (1,)

    class Ones(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ones"

        def schema(self) -> str:
            return "n int"

        def streamReader(self, schema: object) -> DataSourceStreamReader:
            return Reader()

    session = spark.newSession()
    session.dataSource.register(Ones)
    assert prepare_queries(session, "ones")
    names = set(variables_of(session, "ones"))
    run_query(session, "ones", tmp_path)
    variables = variables_of(session, "ones")
    assert set(variables) == names
    assert variables["SPARK_BUFFER_SIZE"] == "65536", "the query's own"


def test_what_is_no_source_of_python_is_not_prepared(spark: SparkSession) -> None:
    assert not prepare_queries(spark, "nonesuch")
    assert prepare_queries(spark) and prepare_queries(spark)


def test_plans_show_no_password(spark: SparkSession) -> None:
    """Spark knows that options called so are secret, and not that a URI may be."""

    def plan(**login: str) -> str:
        reader = spark.readStream.format("warren").options(subscribe="q", groupId="g")
        for name, value in login.items():
            reader = reader.option(f"amqp.{name}", value)
        return str(reader.load()._jdf.queryExecution().toString())

    uri = "amqp://spark:hidden@127.0.0.1:1/%2F"
    spark.conf.unset(REDACTED)
    assert "hidden" in plan(uri=uri), "Spark shows it by itself"
    assert prepare_queries(spark)
    for login in ({"uri": uri}, {"user": "spark", "password": "hidden"}):
        shown = plan(**login)
        assert "redacted" in shown and "hidden" not in shown
    # What else was hidden stays so.
    spark.conf.set(REDACTED, "other")
    assert prepare_queries(spark) and prepare_queries(spark)
    assert spark.conf.get(REDACTED) == "other|^amqp[.]uri$"
    assert LOCAL[REDACTED] == "(?i)url|^amqp[.]uri$"
    spark.conf.set(REDACTED, LOCAL[REDACTED])
