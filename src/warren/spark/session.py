"""What a session of Spark is given, so that its processes cost less and its queries start safely.

    builder = SparkSession.builder.master("local[2]")
    for name, value in LOCAL.items():
        builder = builder.config(name, value)
    os.environ["PYSPARK_PYTHON"] = python_launcher()
    spark = builder.getOrCreate()
    prepare_queries(spark)

`docs/spark.md` ("Running it") says what each of them is for, and what it takes away.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REDACTED: Final = "spark.sql.redaction.options.regex"
"""Names options whose values Spark does not show in plans."""
URI: Final = "^amqp[.]uri$"
"""The option that may have a password; Spark knows only names such as `amqp.password`."""

LOCAL: Final = {
    REDACTED: f"(?i)url|{URI}",
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC"
        " -Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
    ),
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}
"""Settings of a session whose driver does all work and whose checkpoints are on its own disk."""

_VARIABLES: Final = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What each query that starts puts into the environment of its source's process, by default."""

_PREFIX: Final = "warren-python-"
_LOCK: Final = "lock"


@cache
def python_launcher() -> str:
    """Make a script that starts this Python, with the installed `pyspark` first, for Spark.

    Spark has its Python processes import `pyspark` from a zip file that has no bytecode, and each
    compiles it anew. All other packages come from where they came from before.

    Returns:
        Its path, good for as long as this process lives; the path of this Python where Spark is
        not the installed one, or has no shell to run scripts with.
    """
    found = find_spec("pyspark")
    home = Path(found.origin).parent if found is not None and found.origin else None
    elsewhere = os.environ.get("SPARK_HOME")
    if home is None or not home.is_dir() or os.name != "posix":
        return sys.executable
    if elsewhere and Path(elsewhere).resolve() != home.resolve():
        return sys.executable
    _remove_left()
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    atexit.register(_remove, folder, os.getpid(), _locked(Path(folder)))
    first = Path(folder) / "first"
    first.mkdir()
    (first / "pyspark").symlink_to(home.resolve())
    script = Path(folder) / "python"
    script.write_text(
        "#!/bin/sh\n"
        f"PYTHONPATH={shlex.quote(str(first))}${{PYTHONPATH:+:$PYTHONPATH}}"
        f' exec {shlex.quote(sys.executable)} "$@"\n'
    )
    script.chmod(0o700)
    return str(script)


def prepare_queries(spark: SparkSession, source: str = "warren") -> bool:
    """Make it safe for queries of a session to start at the same moment, and to show their plans.

    A password in `amqp.uri` stands in no plan and on no page of Spark from here on.

    Spark has one map of environment variables for all queries of a data source. Each query puts
    its own in when it starts, and nothing guards that: two of them that are a session's first may
    leave the map damaged, and then every query of the source ends with "Task not serializable" for
    as long as the session lives. Here it has the names before; a query replaces their values.

    Returns:
        Whether it is; False where Spark keeps no such map, or in another place, as over Spark
        Connect.
    """
    # Where queries are not used, importing Spark takes too long.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    session: Any = spark
    shown = spark.conf.get(REDACTED) or ""
    if URI not in shown:
        spark.conf.set(REDACTED, f"{shown}|{URI}" if shown else URI)
    try:
        manager = session._jsparkSession.sessionState().dataSourceManager()
        variables = manager.lookupDataSource(source).dataSourceCls().envVars()
        for name, value in _VARIABLES.items():
            if variables.get(name) is None:
                variables.put(name, value)
    except (AttributeError, TypeError, Py4JError, PySparkException):
        return False
    return True


def _locked(folder: Path) -> int:
    """Lock a folder for as long as the process lives; gives what holds the lock.

    The lock is there when its file gets its name: a folder without one is not taken for left.
    """
    new = folder / "new"
    lock = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    new.rename(folder / _LOCK)
    return lock


def _remove_left() -> None:
    """Remove the folders of processes that were killed: their locks are free."""
    for name in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            lock = os.open(name, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or gone
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_uid == os.getuid():
                shutil.rmtree(name.parent, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(lock)


def _remove(folder: str, owner: int, lock: int) -> None:
    """Remove a folder at the end of the process that made it, and not at that of a fork."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
