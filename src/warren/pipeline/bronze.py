"""Bronze: the messages of queues as they were sent, each archived once.

Each queue has an archive of its own (`warren.spark.archiving`): whatever ends a run, the next one
goes on where it was. No Spark is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from warren.client.uri import parse_uri
from warren.errors import BrokerError
from warren.pipeline.layout import PipelineFolder
from warren.spark.archiving import ArchiveProgress, QueueArchive
from warren.spark.broker import Connect, connect

Tell = Callable[[str, ArchiveProgress], None]


class Archived(NamedTuple):
    """What became of one queue in a run.

    Attributes:
        queue: Its name.
        progress: How far the run came.
        problem: Why it went no further; empty if nothing was left.
    """

    queue: str
    progress: ArchiveProgress
    problem: str


def archive_queues(
    folder: PipelineFolder,
    queues: list[str],
    uri: str,
    options: Mapping[str, str],
    tell: Tell = lambda queue, progress: None,
    connect: Connect = connect,
) -> list[Archived]:
    """Archive what queues have now, one after the other; one that fails does not stop the others.

    Args:
        options: Of docs/spark.md for reading.

    Raises:
        PipelineError: The folder is of another vhost, or another process archives into it.
        ConfigError: An option is wrong.
        OSError: The disk is full, or cannot link.
    """
    folder.begin(parse_uri(uri).vhost)
    done: list[Archived] = []
    with folder.writing("bronze"):
        for queue in queues:
            archive = QueueArchive(queue, folder.bronze(queue), uri, options, connect)
            reached = ArchiveProgress(0, 0, 0)

            def told(progress: ArchiveProgress, queue: str = queue) -> None:
                nonlocal reached
                reached = progress
                tell(queue, progress)

            try:
                done.append(Archived(queue, archive.run(tell=told), ""))
            except BrokerError as error:
                done.append(Archived(queue, reached, str(error)))
    return done
