"""Options of `format("warren")`: what a query may say, checked in full before anything is asked.

Spark hands options over as strings under case-insensitive names. A name or a value that is not
known is an error that lists what would be: an option that is silently ignored costs its user a
day. Names follow Spark's Kafka source where the meaning is the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from warren.client.uri import parse_uri
from warren.errors import ConfigError
from warren.spark.schema import COLUMNS, OFFLINE_COLUMNS, column_kinds
from warren.spark.where import Condition, parse_where

#: Where a broker on the same machine answers.
URI_DEFAULT: Final = "amqp://guest:guest@localhost:5672/"

#: The mode that reads without touching the queue, and the one that takes what it reads.
BROWSE: Final = "browse"
DRAIN: Final = "drain"

#: The mode that sees messages as they come, and takes none.
LOG: Final = "log"

#: The mode that takes messages of brokers that are not Warren, by way of files.
STAGED: Final = "staged"

#: The two guarantees of a write.
AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

#: Bytes of a write's name: names of queues are made of it.
_SINK_BYTES_MAX: Final = 200

#: "No bound" where the broker expects a number: the largest it can hold.
UNBOUNDED: Final = (1 << 63) - 1

_LOGIN: Final = {"amqp.user", "amqp.password"}
_TLS: Final = {"amqp.cacertfile", "amqp.certfile", "amqp.keyfile", "amqp.verify"}
_CONNECTION: Final = {"amqp.uri", "retrytimeout"} | _LOGIN | _TLS
_TABLE: Final = {"columns", "includeheaders", "includevalue"}
_QUEUES: Final = ("subscribe", "subscribepattern", "assign")
_BATCH: Final = (
    _CONNECTION
    | _TABLE
    | set(_QUEUES)
    | {"mode", "minpartitions", "maxrecordsperpartition", "arrowbatchrows"}
)
#: Where a batch query begins and ends, and what it keeps of that.
_BOUNDS: Final = {
    *("startingoffsets", "startingtimestamp", "endingoffsets", "endingtimestamp", "where"),
}
#: How large a micro-batch is, and when it begins.
_TRIGGER: Final = {
    *("maxoffsetspertrigger", "maxbytespertrigger"),
    *("minoffsetspertrigger", "maxtriggerdelay"),
}
#: How a stream is read that takes nothing.
_LOG: Final = _BATCH | _TRIGGER | {"failondataloss", "startingoffsets", "startingtimestamp"}
_STREAM: Final = (
    _BATCH
    | _TRIGGER
    | {
        "groupid",
        "failondataloss",
        "leasetimeout",
        "newcheckpoint",
        "checkpointlocation",
        "archivedirectory",
    }
)
#: How a data directory is read that no broker uses.
_OFFLINE: Final = _TABLE | {
    *("datadirectory", "subscribe", "vhost", "includegone", "where"),
    *("minpartitions", "maxrecordsperpartition", "arrowbatchrows"),
}
#: How a queue of a foreign broker is read.
_STAGED: Final = (
    _CONNECTION
    | _TABLE
    | {"mode", "subscribe", "assign", "stagingdirectory", "newcheckpoint"}
    | {"maxoffsetspertrigger", "maxbytespertrigger"}
    | {"minpartitions", "maxrecordsperpartition", "arrowbatchrows"}
)
_WRITE: Final = _CONNECTION | {"topic", "exchange", "mandatory", "delivery", "sinkid", "batchid"}

#: The names as they are documented, for error messages.
_SPELLING: Final = {
    "subscribepattern": "subscribePattern",
    "groupid": "groupId",
    "maxoffsetspertrigger": "maxOffsetsPerTrigger",
    "maxbytespertrigger": "maxBytesPerTrigger",
    "minoffsetspertrigger": "minOffsetsPerTrigger",
    "maxtriggerdelay": "maxTriggerDelay",
    "minpartitions": "minPartitions",
    "maxrecordsperpartition": "maxRecordsPerPartition",
    "failondataloss": "failOnDataLoss",
    "includeheaders": "includeHeaders",
    "includevalue": "includeValue",
    "leasetimeout": "leaseTimeout",
    "newcheckpoint": "newCheckpoint",
    "checkpointlocation": "checkpointLocation",
    "retrytimeout": "retryTimeout",
    "arrowbatchrows": "arrowBatchRows",
    "sinkid": "sinkId",
    "batchid": "batchId",
    "startingoffsets": "startingOffsets",
    "startingtimestamp": "startingTimestamp",
    "endingoffsets": "endingOffsets",
    "endingtimestamp": "endingTimestamp",
    "datadirectory": "dataDirectory",
    "includegone": "includeGone",
    "stagingdirectory": "stagingDirectory",
    "archivedirectory": "archiveDirectory",
}

#: What a queue's incarnation is kept under in a checkpoint, behind the queue's name.
INCARNATION: Final = "#incarnation"

#: Added by Spark itself to what the query said.
_FROM_SPARK: Final = {"checkpointlocation", "path"}


@dataclass(frozen=True)
class Bound:
    """Where a batch query begins or ends: behind what comes before a message, or a time.

    Attributes:
        number: The first message that is beyond it; -1 where a time says.
        stamp_ms: In milliseconds since 1970; what the broker took then or later is beyond it.
    """

    number: int
    stamp_ms: int = 0


EARLIEST: Final = Bound(0)
LATEST: Final = Bound(UNBOUNDED)

_EARLIEST: Final = {"earliest": EARLIEST}
_LATEST: Final = {"latest": LATEST}
#: What stands for a word where numbers are said.
_NUMBERS: Final = {"earliest": -2, "latest": -1}


@dataclass(frozen=True)
class Bounds:
    """Where a batch query begins or ends in each of its queues.

    Attributes:
        rest: In those that `named` does not have.
        named: By queue.
    """

    rest: Bound
    named: Mapping[str, Bound] = field(default_factory=dict)

    def of(self, queue: str) -> Bound:
        """Where it begins or ends in one of them."""
        return self.named.get(queue, self.rest)


@dataclass(frozen=True)
class ReadOptions:
    """How a query reads one or more queues.

    Attributes:
        uris: Broker, user and vhost; further ones are tried where one does not answer (`amqp.uri`,
            with the other options `amqp.*` in them).
        retry_seconds: How long a broker that does not answer is tried (`retryTimeout`).
        queues: The queues to read (`subscribe`, `assign`); none where `pattern` says.
        pattern: A regular expression that the whole name of each queue matches which is read, of
            those that there are at any time (`subscribePattern`); else empty.
        group: The group that the query checks messages out for (`groupId`); empty when browsing.
        rows_max: Rows a micro-batch takes at most (`maxOffsetsPerTrigger`).
        bytes_max: Bytes of messages a micro-batch takes at most (`maxBytesPerTrigger`).
        partitions_min: Tasks a batch is cut into at least, where it has that many rows
            (`minPartitions`).
        partition_rows_max: Rows of one task at most (`maxRecordsPerPartition`).
        fail_on_data_loss: Whether rows a checkpoint promises and the queue no longer has end the
            query (`failOnDataLoss`).
        columns: The columns to read; Spark cannot prune those of a Python source (`columns`,
            `includeValue`, `includeHeaders`).
        lease_ms: How long the broker keeps an open checkout of a query that went silent; 0 keeps
            it for ever, which is the default (`leaseTimeout`).
        arrow_rows_max: Rows of one Arrow batch at most (`arrowBatchRows`).
        new_checkpoint: Whether a query without a checkpoint may go on with a group that has settled
            batches of another one (`newCheckpoint`).
        checkpoint: The query's checkpoint, if batches are to be settled as soon as Spark has
            committed them there and not at the next trigger only (`checkpointLocation`).
        archive: The folder of an archive, if tasks write their rows into files of it, and Spark
            has a row for each file (`archiveDirectory`).
        start, end: The messages that a batch query sees, and where one begins that follows queues
            (`startingOffsets`, `startingTimestamp`, `endingOffsets`, `endingTimestamp`).
        follows: Whether all messages are seen that are in the queues, those that consumers hold,
            too, and none is taken (`mode=log`).
        where: Which rows a batch query keeps of those, or None for all (`where`).
        rows_min: A micro-batch begins when so many messages wait (`minOffsetsPerTrigger`),
        delay_seconds: or so long after the one before (`maxTriggerDelay`).
    """

    uris: tuple[str, ...]
    retry_seconds: float
    queues: tuple[str, ...]
    pattern: str
    group: str
    rows_max: int
    bytes_max: int
    partitions_min: int
    partition_rows_max: int
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    lease_ms: int
    arrow_rows_max: int
    new_checkpoint: bool
    checkpoint: Path | None = None
    archive: Path | None = None
    start: Bounds = Bounds(EARLIEST)
    end: Bounds = Bounds(LATEST)
    follows: bool = False
    where: Condition | None = None
    rows_min: int = 1
    delay_seconds: float = 15 * 60.0

    @property
    def queue(self) -> str:
        """The queue of a reader that has a single one."""
        (queue,) = self.queues
        return queue


@dataclass(frozen=True)
class OfflineOptions:
    """How a query reads the data directory of a node that does not run, or a copy of one.

    Attributes:
        directory: Where it lies, on each host that reads (`dataDirectory`).
        queue: The queue to read, or None for all of them (`subscribe`).
        vhost: The vhost whose queues are read, or None for all of them (`vhost`).
        gone: Whether messages that left their queue are wanted, too, as far as files still have
            them (`includeGone`).
        partitions_min, partition_rows_max, columns, arrow_rows_max, where: As in `ReadOptions`.
    """

    directory: str
    queue: str | None
    vhost: str | None
    gone: bool
    partitions_min: int
    partition_rows_max: int
    columns: tuple[str, ...]
    arrow_rows_max: int
    where: Condition | None = None


@dataclass(frozen=True)
class StagedOptions:
    """How a streaming query reads a queue of a broker that is not Warren.

    Attributes:
        queue: The queue to consume (`subscribe`, `assign`).
        folder: Where its messages are staged; all hosts of Spark see it under this path
            (`stagingDirectory`).
        new_checkpoint: Whether a query without a checkpoint may go on with a directory that has
            messages of another one (`newCheckpoint`).
        uris, retry_seconds, rows_max, bytes_max, partitions_min, partition_rows_max, columns,
            arrow_rows_max: As in `ReadOptions`.
    """

    uris: tuple[str, ...]
    retry_seconds: float
    queue: str
    folder: Path
    rows_max: int
    bytes_max: int
    partitions_min: int
    partition_rows_max: int
    columns: tuple[str, ...]
    arrow_rows_max: int
    new_checkpoint: bool


@dataclass(frozen=True)
class WriteOptions:
    """Where a query writes.

    Attributes:
        uris: Broker, user and vhost; further ones are tried where one does not answer (`amqp.uri`,
            with the other options `amqp.*` in them).
        retry_seconds: How long a broker that does not answer is tried (`retryTimeout`).
        queue: Name of the queue that gets every row (`topic`), or None.
        exchange: The exchange that gets every row, under the row's `key` (`exchange`), or None.
        mandatory: Whether a row that no queue takes fails the task (`mandatory`).
        exactly_once: Whether rows are staged, and published once when the batch is decided
            (`delivery`).
        sink, batch: What a `df.write` is called, so that the same one is done once however often
            it is run (`sinkId`, `batchId`); the sink is empty for one without a name.
    """

    uris: tuple[str, ...]
    retry_seconds: float
    queue: str | None
    exchange: str | None
    mandatory: bool
    exactly_once: bool = False
    sink: str = ""
    batch: int = 0


class _Options:
    """The given options by lower-case name, read one by one with their limits."""

    def __init__(self, given: Mapping[str, str], known: set[str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        unknown = set(self._values) - known - _FROM_SPARK
        if unknown:
            names = ", ".join(sorted(_SPELLING.get(name, name) for name in known))
            raise ConfigError(f"unknown option {sorted(unknown)[0]!r}; known are: {names}")

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def required(self, name: str, why: str) -> str:
        value = self._values.get(name)
        if not value:
            raise ConfigError(f"option {_SPELLING.get(name, name)!r} is required: {why}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise _bad(name, value, "true or false")
        return value.lower() == "true"

    def number(self, name: str, default: int, low: int = 1) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit() or not low <= int(value) <= UNBOUNDED:
            raise _bad(name, value, f"a whole number from {low}")
        return int(value)

    def duration_ms(self, name: str, default: int) -> int:
        """A time such as `90s`, `30m` or `2h`; a bare number counts milliseconds."""
        value = self._values.get(name)
        if value is None:
            return default
        for unit, factor in (("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("", 1)):
            digits = value.removesuffix(unit).strip() if unit else value
            if value.endswith(unit) and digits.isascii() and digits.isdigit():
                return int(digits) * factor
        raise _bad(name, value, "a time such as 90s, 30m or 2h, or 0 for no end")

    def subscription(self) -> tuple[tuple[str, ...], str]:
        """The queues to read, or else the pattern of their names."""
        given = [name for name in _QUEUES if self._values.get(name)]
        if not given:
            raise ConfigError(
                "option 'subscribe' is required: the names of the queues to read, with commas "
                "between; or 'assign', which has them as JSON, or 'subscribePattern'"
            )
        if len(given) > 1:
            both = " and ".join(repr(_SPELLING.get(name, name)) for name in given)
            raise ConfigError(f"options {both} exclude each other")
        (option,) = given
        value = self._values[option]
        if option == "subscribepattern":
            try:
                re.compile(value)
            except re.error as error:
                raise _bad(option, value, f"a regular expression ({error})") from None
            return (), value
        names = [name.strip() for name in value.split(",")]
        if option == "assign":
            example = json.dumps({"orders": [0], "returns": [0]})
            try:
                found = json.loads(value)
            except ValueError:
                found = None
            if not isinstance(found, dict) or any(parts != [0] for parts in found.values()):
                raise _bad(option, value, f"JSON such as {example}: a queue has the partition 0")
            names = list(found)
        if not names or not all(names) or len(set(names)) < len(names):
            raise _bad(option, value, "names of queues, each once, with commas between")
        if len(names) > 1 and any(name.endswith(INCARNATION) for name in names):
            raise ConfigError(f"a queue whose name ends with {INCARNATION} is read by itself alone")
        return tuple(names), ""

    def bounds(self, kind: str, queues: Sequence[str], words: Mapping[str, Bound]) -> Bounds:
        """Where a query begins or ends, as offsets or as a time.

        Args:
            kind: `starting` or `ending`.
            queues: Those that are read; empty where a pattern says.
            words: What a word stands for, the default first.
        """
        offsets = self._values.get(f"{kind}offsets")
        stamp = self._values.get(f"{kind}timestamp")
        standard = next(iter(words.values()))
        if offsets is not None and stamp is not None:
            raise ConfigError(f"options '{kind}Offsets' and '{kind}Timestamp' exclude each other")
        if stamp is not None:
            if not stamp.isascii() or not stamp.isdigit() or int(stamp) > UNBOUNDED:
                raise _bad(f"{kind}timestamp", stamp, "milliseconds since 1970")
            return Bounds(Bound(-1, int(stamp)))
        if offsets is None:
            return Bounds(standard)
        if offsets.lower() in words:
            return Bounds(words[offsets.lower()])
        example = json.dumps({queue: {"0": 100} for queue in queues or ("orders",)})
        wrong = _bad(f"{kind}offsets", offsets, f"{', '.join(words)}, or JSON such as {example}")
        try:
            numbers = {queue: parts["0"] for queue, parts in json.loads(offsets).items()}
        except (ValueError, TypeError, LookupError, AttributeError):
            raise wrong from None
        if queues and set(numbers) != set(queues):
            raise wrong
        special = {_NUMBERS[word]: bound for word, bound in words.items()}
        named: dict[str, Bound] = {}
        for queue, number in numbers.items():
            if type(number) is not int or not (number in special or 0 <= number <= UNBOUNDED):
                raise wrong
            named[queue] = special.get(number) or Bound(number)
        return Bounds(standard, named)

    def condition(self, columns: Sequence[str]) -> Condition | None:
        """Which rows are kept, by what is said of some columns."""
        text = self._values.get("where")
        return None if text is None else parse_where(text, column_kinds(columns))

    def folder(self, name: str) -> Path | None:
        """A folder of this machine, as a path or a URI."""
        value = self._values.get(name)
        if value is None:
            return None
        parts = urlsplit(value)
        path = unquote(parts.path) if parts.scheme == "file" else value
        if parts.scheme not in ("", "file") or not path.startswith("/"):
            raise _bad(name, value, "an absolute path on the driver's machine")
        return Path(path)

    def uris(self) -> tuple[str, ...]:
        """Where brokers are, each with what the other options `amqp.*` say."""
        value = self._values.get("amqp.uri", URI_DEFAULT)
        uris = [part.strip() for part in re.split(r",(?=\s*amqps?://)", value)]
        for number, uri in enumerate(uris):
            try:
                uris[number] = self._completed(uri)
            except (ConfigError, ValueError) as error:
                raise ConfigError(
                    f"option 'amqp.uri' is wrong: {error}; allowed: "
                    "amqp://user:password@host:port/vhost or amqps://..., several with commas "
                    "between"
                ) from None
        return tuple(uris)

    def _completed(self, uri: str) -> str:
        parts = urlsplit(uri)
        address = parse_uri(uri)
        login, _, place = parts.netloc.rpartition("@")
        if self._values.keys() & _LOGIN:
            user = self._values.get("amqp.user", address.user)
            password = self._values.get("amqp.password", address.password)
            login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        tls = {name[5:]: self._values[name] for name in sorted(self._values.keys() & _TLS)}
        if tls and address.tls is None:
            raise ConfigError(f"option 'amqp.{next(iter(tls))}' is for URIs with amqps://")
        query = urlencode(dict(parse_qsl(parts.query)) | tls)
        netloc = f"{login}@{place}" if login else place
        completed = urlunsplit((parts.scheme, netloc, parts.path, query, ""))
        parse_uri(completed)
        return completed


def one_queue(name: str) -> dict[str, str]:
    """The option that names a single queue, whatever characters its name has."""
    return {"assign": json.dumps({name: [0]})}


def _bad(name: str, value: str, allowed: str) -> ConfigError:
    return ConfigError(f"option {_SPELLING.get(name, name)!r} is {value!r}; allowed: {allowed}")


def table_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a read, before its kind is known.

    Raises:
        ConfigError: A name is unknown, or a value is.
    """
    offline = is_offline(given)
    known = OFFLINE_COLUMNS if offline else COLUMNS
    queue = _STAGED if is_staged(given) else _STREAM | _BOUNDS
    options = _Options(given, _OFFLINE if offline else queue)
    with_value = options.flag("includevalue", True)
    with_headers = options.flag("includeheaders", False)
    wanted = options.text("columns")
    if wanted is None:
        left_out = {"value"} if not with_value else set()
        left_out |= {"headers"} if not with_headers else set()
        return tuple(name for name in known if name not in left_out)
    if options.text("includevalue") or options.text("includeheaders"):
        raise ConfigError("option 'columns' names all columns; leave out include...")
    names = tuple(name.strip() for name in wanted.split(","))
    for name in names:
        if name not in known:
            raise _bad("columns", wanted, "names, with commas between, of " + ", ".join(known))
    return names


def read_options(given: Mapping[str, str], streaming: bool) -> ReadOptions:
    """Check and complete the options of `spark.read` or, if `streaming`, `spark.readStream`.

    Raises:
        ConfigError: A name is unknown, a value is out of its range, a required one is missing, or
            the mode does not fit the kind of query.
    """
    if streaming and is_offline(given):
        raise ConfigError("option 'dataDirectory' is for spark.read: a directory does not stream")
    if is_staged(given):
        raise ConfigError(f"mode {STAGED!r} is for spark.readStream: it takes what it reads")
    if not streaming:
        _refuse_files(given, "with spark.read, which takes nothing")
    follows = is_log(given)
    if follows:
        _refuse_files(given, f"with mode {LOG!r}")
    if streaming:
        options = _Options(given, _LOG if follows else _STREAM)
    else:
        options = _Options(given, _BATCH | _BOUNDS)
    fitting = DRAIN if streaming else BROWSE
    mode = options.text("mode") or fitting
    if mode not in (BROWSE, DRAIN, LOG):
        allowed = f"{BROWSE} (spark.read), {DRAIN} or {STAGED} (spark.readStream), or {LOG} (both)"
        raise _bad("mode", mode, allowed)
    if mode not in (fitting, LOG):
        call = "readStream" if streaming else "read"
        raise ConfigError(
            f"mode {mode!r} does not go with spark.{call}, which can only {fitting} or {LOG}"
        )
    group = ""
    if streaming and not follows:
        group = options.required(
            "groupid", "the broker keeps a streaming query's open rows under this name"
        )
    rows_max = options.number("maxoffsetspertrigger", 100_000)
    rows_min = options.number("minoffsetspertrigger", 1)
    if rows_min > rows_max:
        raise _bad("minoffsetspertrigger", str(rows_min), f"up to maxOffsetsPerTrigger, {rows_max}")
    start, end = Bounds(EARLIEST), Bounds(LATEST)
    queues, pattern = options.subscription()
    if not streaming:
        start = options.bounds("starting", queues, _EARLIEST)
        end = options.bounds("ending", queues, _LATEST)
    elif follows:
        start = options.bounds("starting", queues, _LATEST | _EARLIEST)
    return ReadOptions(
        uris=options.uris(),
        retry_seconds=options.duration_ms("retrytimeout", 5 * 60_000) / 1000,
        queues=queues,
        pattern=pattern,
        group=group,
        rows_max=rows_max,
        bytes_max=options.number("maxbytespertrigger", 256 * 1024 * 1024),
        partitions_min=options.number("minpartitions", 1),
        partition_rows_max=options.number("maxrecordsperpartition", 100_000),
        fail_on_data_loss=options.flag("failondataloss", True),
        columns=table_columns(given),
        lease_ms=options.duration_ms("leasetimeout", 0),
        arrow_rows_max=options.number("arrowbatchrows", 16_384),
        new_checkpoint=options.flag("newcheckpoint", False),
        checkpoint=options.folder("checkpointlocation") if streaming else None,
        archive=options.folder("archivedirectory"),
        start=start,
        end=end,
        follows=follows,
        where=None if streaming else options.condition(COLUMNS),
        rows_min=rows_min,
        delay_seconds=options.duration_ms("maxtriggerdelay", 15 * 60_000) / 1000,
    )


def writes_files(given: Mapping[str, str]) -> bool:
    """Whether tasks are to write their rows into files of an archive."""
    return any(name.lower() == "archivedirectory" for name in given)


def _refuse_files(given: Mapping[str, str], where: str) -> None:
    """
    Raises:
        ConfigError: Tasks are to write files, and do not in this kind of query.
    """
    if writes_files(given):
        raise ConfigError(
            f"option 'archiveDirectory' does not go {where}: it is for a drain of a queue in "
            "Warren by spark.readStream"
        )


def is_offline(given: Mapping[str, str]) -> bool:
    """Whether a query reads a data directory, and no broker."""
    return any(name.lower() == "datadirectory" for name in given)


def offline_options(given: Mapping[str, str]) -> OfflineOptions:
    """Check and complete the options of `spark.read` of a data directory.

    Raises:
        ConfigError: As `read_options`.
    """
    _refuse_files(given, "with 'dataDirectory'")
    options = _Options(given, _OFFLINE)
    return OfflineOptions(
        directory=options.required("datadirectory", "the data directory of a node, or a copy"),
        queue=options.text("subscribe"),
        vhost=options.text("vhost"),
        gone=options.flag("includegone", False),
        partitions_min=options.number("minpartitions", 1),
        partition_rows_max=options.number("maxrecordsperpartition", 100_000),
        columns=table_columns(given),
        arrow_rows_max=options.number("arrowbatchrows", 16_384),
        where=options.condition(OFFLINE_COLUMNS),
    )


def is_log(given: Mapping[str, str]) -> bool:
    """Whether a query sees all that is in its queues, and takes nothing."""
    return any(name.lower() == "mode" and value == LOG for name, value in given.items())


def is_staged(given: Mapping[str, str]) -> bool:
    """Whether a query takes messages of a foreign broker, by way of files."""
    return any(name.lower() == "mode" and value == STAGED for name, value in given.items())


def staged_options(given: Mapping[str, str]) -> StagedOptions:
    """Check and complete the options of `spark.readStream` with `mode=staged`.

    Raises:
        ConfigError: As `read_options`.
    """
    _refuse_files(given, f"with mode {STAGED!r}")
    options = _Options(given, _STAGED)
    options.required("stagingdirectory", "where messages lie until they are processed")
    queues, _ = options.subscription()
    if len(queues) != 1:
        raise ConfigError(f"mode {STAGED!r} reads one queue: a query for each, please")
    folder = options.folder("stagingdirectory")
    assert folder is not None, "it is required"
    return StagedOptions(
        uris=options.uris(),
        retry_seconds=options.duration_ms("retrytimeout", 5 * 60_000) / 1000,
        queue=queues[0],
        folder=folder,
        rows_max=options.number("maxoffsetspertrigger", 100_000),
        bytes_max=options.number("maxbytespertrigger", 256 * 1024 * 1024),
        partitions_min=options.number("minpartitions", 1),
        partition_rows_max=options.number("maxrecordsperpartition", 100_000),
        columns=table_columns(given),
        arrow_rows_max=options.number("arrowbatchrows", 16_384),
        new_checkpoint=options.flag("newcheckpoint", False),
    )


def check_read(given: Mapping[str, str]) -> None:
    """Refuse at once what is wrong for both kinds of reads; which of them it is, is not known yet.

    Raises:
        ConfigError: As `read_options`.
    """
    if is_offline(given):
        offline_options(given)
        return
    if is_staged(given):
        staged_options(given)
        return
    try:
        read_options(given, streaming=False)
    except ConfigError as batch:
        try:
            read_options(given, streaming=True)
        except ConfigError as stream:
            only_stream = _STREAM - _BATCH
            raise (stream if only_stream & {name.lower() for name in given} else batch) from None


def write_options(given: Mapping[str, str], streaming: bool = False) -> WriteOptions:
    """Check and complete the options of `df.write` or, if `streaming`, `df.writeStream`.

    Raises:
        ConfigError: A name is unknown, a value is out of its range, or two targets are named.
    """
    options = _Options(given, _WRITE)
    queue = options.text("topic")
    exchange = options.text("exchange")
    if queue is not None and exchange is not None:
        raise ConfigError("options 'topic' (a queue) and 'exchange' exclude each other")
    delivery = options.text("delivery") or AT_LEAST_ONCE
    if delivery not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise _bad("delivery", delivery, f"{AT_LEAST_ONCE} or {EXACTLY_ONCE}")
    sink = options.text("sinkid") or ""
    if sink or options.text("batchid") is not None:
        if streaming:
            raise ConfigError("'sinkId' and 'batchId' are for df.write: a stream has its own")
        if not sink or delivery != EXACTLY_ONCE:
            raise ConfigError("'batchId' goes with 'sinkId', and both with delivery=exactly-once")
        if len(sink.encode()) > _SINK_BYTES_MAX:
            raise _bad("sinkid", sink, f"a name of {_SINK_BYTES_MAX} bytes at most")
    return WriteOptions(
        uris=options.uris(),
        retry_seconds=options.duration_ms("retrytimeout", 5 * 60_000) / 1000,
        queue=queue,
        exchange=exchange,
        mandatory=options.flag("mandatory", True),
        exactly_once=delivery == EXACTLY_ONCE,
        sink=sink,
        batch=options.number("batchid", 0, low=0),
    )
