"""The command `warren archive`: moves a queue into a folder of Parquet files, each message once.

It may be ended anywhere, and goes on where it was. How that comes about is told in
`warren.spark.archiving`, which needs pyarrow. With `--offline` it copies what a data directory has,
of a node that does not run (`warren.spark.rescue`).
"""

from __future__ import annotations

import argparse
import os
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from warren.admin.cli.client import URI, complain, parse_count
from warren.admin.cli.words import INTERRUPTED, Parser, checked, examples

if TYPE_CHECKING:
    from warren.spark.archiving import ArchiveProgress
    from warren.spark.rescue import Rescued

TELL_SECONDS: Final = 0.2
TELL_SECONDS_IN_FILE: Final = 10.0
BAR: Final = 24
DAMAGE_MAX: Final = 20
"""Damaged places that are told one by one."""


def add_command(commands: Any) -> None:
    """Define its words."""
    command: Parser = commands.add_parser(
        "archive",
        help="move the messages of a queue into Parquet files",
        description="Move the messages of a durable queue into a folder of Parquet files, each "
        "message once, whatever ends the command; it goes on where it was. With --offline copy "
        "those of one out of the data directory of a node that does "
        "not run, as far as they can be read; nothing is changed there.",
        epilog=examples(
            "warren archive orders /data/orders",
            "warren archive orders /data/orders --follow",
            "warren archive orders /data/orders --uri amqp://u:p@host:5672/%2F",
            "warren archive orders /data/rescued --offline /backups/node-1",
        ),
    )
    command.set_defaults(run=run)
    command.add_argument("queue", metavar="QUEUE")
    command.add_argument("folder", metavar="DIR", help="of this queue alone; made where missing")
    shown = URI.replace("%", "%%")
    command.add_argument("--uri", default=URI, help=f"broker, user and vhost (default: {shown})")
    command.add_argument(
        "--follow", action="store_true", help="go on with what comes, until Ctrl-C"
    )
    command.add_argument(
        "--rows",
        metavar="N",
        type=checked(parse_count),
        default=1_000_000,
        help="messages of one file at most (default: 1000000)",
    )
    command.add_argument(
        "--offline",
        metavar="DATA_DIR",
        help="a node's data directory, or a copy; no broker is asked",
    )
    command.add_argument("--vhost", help="the queue's vhost, with --offline (default: any)")
    command.add_argument(
        "--include-gone",
        action="store_true",
        help="with --offline: messages that left the queue, too, as far as files have them",
    )


def run(words: argparse.Namespace) -> int:
    """Archive; returns the exit status: 0 done, 1 refused, 2 wrong words, 130 ended by Ctrl-C."""
    teller = Teller(words.queue)
    try:
        return _archive(words, teller)
    except KeyboardInterrupt:
        teller.end()
        how = "the same command goes on from here"
        if words.offline is not None:
            how = f"to begin anew, remove {words.folder}"
        return complain(f"{words.queue}: ended; {how}", INTERRUPTED)


def _archive(words: argparse.Namespace, teller: Teller) -> int:
    from warren.errors import BrokerError, ConfigError

    if words.offline is None and (words.vhost is not None or words.include_gone):
        return complain("--vhost and --include-gone go with --offline", 2)
    if words.offline is not None and words.follow:
        return complain("--follow does not go with --offline: nothing comes there", 2)
    # numpy would start threads for matrices, of which there are none here, and have them spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from warren.spark.archiving import QueueArchive
        from warren.spark.rescue import rescue
    except ModuleNotFoundError as missing:
        if missing.name not in ("numpy", "pyarrow"):
            raise
        return complain(
            f"'warren archive' needs {missing.name}: pip install 'warren-broker[arrow]'", 1
        )
    if words.offline is not None:
        try:
            rescued = rescue(
                words.offline,
                words.queue,
                words.folder,
                words.vhost,
                words.rows,
                words.include_gone,
                teller.tell,
            )
        except ConfigError as error:
            return complain(str(error), 2)
        except (BrokerError, OSError) as error:
            teller.end()
            return complain(str(error), 1)
        teller.end()
        return tell_rescued(words, rescued)
    options = {"maxOffsetsPerTrigger": str(words.rows), "retryTimeout": "30s"}
    if words.follow:
        options["retryTimeout"] = "24h"
    archive = QueueArchive(words.queue, words.folder, words.uri, options)
    try:
        done = archive.run(words.follow, teller.tell)
    except ConfigError as error:
        return complain(str(error), 2)
    except (BrokerError, OSError) as error:
        teller.end()
        return complain(f"{words.queue}: {error}", 1)
    teller.end()
    what = "1 file" if done.files == 1 else f"{done.files:,} files"
    print(f"{words.queue}: {done.rows:,} messages in {what} in {words.folder}")
    return 0


def tell_rescued(words: argparse.Namespace, rescued: Rescued) -> int:
    """Say what was copied, and what was not; the exit status is 1 if something was not."""
    what = "1 file" if rescued.files == 1 else f"{rescued.files:,} files"
    print(f"{words.queue}: {rescued.rows:,} messages in {what} in {words.folder}")
    for first, last, why in rescued.damage[:DAMAGE_MAX]:
        where = "" if first is None else f"messages {first} to {last}: "
        complain(f"{words.queue}: damaged: {where}{why}", 1)
    if len(rescued.damage) > DAMAGE_MAX:
        more = len(rescued.damage) - DAMAGE_MAX
        complain(f"{words.queue}: and {more} more, see {words.folder}/_damage.json", 1)
    return 1 if rescued.damage else 0


class Teller:
    """Shows how far a run has come: a bar on a terminal, else a line now and then."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._began = monotonic()
        self._told = self._began
        self._on_terminal = sys.stderr.isatty()
        self._shown = False

    def tell(self, progress: ArchiveProgress) -> None:
        """Show it, unless that was done a moment ago."""
        now = monotonic()
        if now - self._told < (TELL_SECONDS if self._on_terminal else TELL_SECONDS_IN_FILE):
            return
        self._told = now
        text = shown(self._queue, progress, now - self._began)
        if self._on_terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._shown = True
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear what is on the terminal."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def shown(queue: str, progress: ArchiveProgress, seconds: float) -> str:
    """A line about a run."""
    rate = f"{progress.rows:,} messages, {progress.rows / max(seconds, 0.001):,.0f} a second"
    if progress.waiting <= 0:
        return f"{queue}: {rate}"
    part = min(progress.rows / progress.waiting, 1.0)
    bar = "#" * int(part * BAR)
    return f"{queue}: [{bar:.<{BAR}}] {part:4.0%}  {rate}"
