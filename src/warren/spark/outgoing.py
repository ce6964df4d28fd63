"""Rows to messages: what each row of a DataFrame becomes when it is published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from warren.client import ConnectionException
from warren.errors import ConfigError
from warren.limits import SHORTSTR_BYTES_MAX
from warren.message.amqp091.scan import validate_properties
from warren.spark.columns import LAST_SECOND, header_bytes, shown_headers, shown_text
from warren.spark.options import WriteOptions
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table

#: Survives a restart of the broker. What a job writes should, unless a row says otherwise.
_PERSISTENT: Final = 2

#: Columns that become the property of the same name.
_TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "type",
    "user_id",
    "app_id",
)

#: Columns that say where a message goes, and what is in it.
_OTHERS: Final = (
    "key",
    "value",
    "topic",
    "exchange",
    "headers",
    "message_id",
    "priority",
    "delivery_mode",
    "producer_timestamp",
    "properties_raw",
)

#: Columns of a browsed queue that say where a message was, which is over.
_IGNORED: Final = ("partition", "offset", "timestamp", "timestampType", "dead_letter")


class Outgoing(NamedTuple):
    """One message to publish; `properties` are encoded, flags first."""

    exchange: str
    key: str
    properties: bytes
    body: bytes

    @property
    def message_id(self) -> str | None:
        """The property of this name."""
        return decode_properties(self.properties, 0, len(self.properties)).message_id


def check_columns(names: Sequence[str], options: WriteOptions) -> None:
    """Refuse a DataFrame that cannot be published, before a task starts.

    Raises:
        ConfigError: A column is missing, or its meaning is not known.
    """
    unknown = [name for name in names if name not in (*_TEXTS, *_OTHERS, *_IGNORED)]
    if unknown:
        known = ", ".join(sorted((*_TEXTS, *_OTHERS)))
        raise ConfigError(
            f"column {unknown[0]!r} has no place in a message; put what belongs into the body "
            f"into 'value'. Columns with a place are: {known}"
        )
    if "value" not in names:
        raise ConfigError("a column 'value' with the body is required")
    if options.queue is None and options.exchange is None:
        if "exchange" not in names and "topic" not in names:
            raise ConfigError(
                "where to? Give the option 'topic' (a queue) or 'exchange', or such a column"
            )


def messages(
    batch: pa.RecordBatch, options: WriteOptions, id_prefix: str, first_row: int
) -> Iterator[Outgoing]:
    """The messages that an Arrow batch's rows become.

    Args:
        batch: Its columns have passed `check_columns`.
        id_prefix: A row without a `message_id` gets this and its number in the partition, which
            names the row in whatever attempt it is published.
        first_row: The number of the batch's first row.

    Raises:
        ConfigError: A row has no body or target, or a value that does not fit a message.
    """
    columns: dict[str, list[Any]] = {
        name: batch.column(name).to_pylist() for name in batch.schema.names if name not in _IGNORED
    }
    bodies = columns.pop("value")
    keys = columns.pop("key", None)
    queues = columns.pop("topic", None)
    exchanges = columns.pop("exchange", None)
    raw = columns.pop("properties_raw", None)
    ids = columns.pop("message_id", None)
    for at, body in enumerate(bodies):
        row = first_row + at
        if body is None:
            raise ConfigError(f"row {row}: 'value' is null; an empty body is an empty value")
        key = keys[at] or "" if keys else ""
        if options.queue is not None:
            exchange, key = "", options.queue
        elif options.exchange is not None:
            exchange = options.exchange
        elif exchanges and exchanges[at] is not None:
            exchange = exchanges[at]
        elif queues and queues[at] is not None:
            exchange, key = "", queues[at]
        else:
            raise ConfigError(f"row {row}: both 'exchange' and 'topic' are null")
        for name in (exchange, key):
            if len(name.encode()) > SHORTSTR_BYTES_MAX:
                raise ConfigError(
                    f"row {row}: {name[:32]!r}... is longer than {SHORTSTR_BYTES_MAX} bytes"
                )
        try:
            if raw and raw[at] is not None:
                validate_properties(raw[at], 0, len(raw[at]))
                properties = _edited(raw[at], columns, ids, at)
            else:
                message_id = ids[at] if ids and ids[at] is not None else f"{id_prefix}:{row}"
                properties = _properties(columns, at, message_id)
        except ConnectionException as error:
            raise ConfigError(f"row {row}: {error.text}") from error
        yield Outgoing(exchange, key, properties, body.encode() if isinstance(body, str) else body)


def _edited(raw: bytes, columns: dict[str, list[Any]], ids: list[Any] | None, at: int) -> bytes:
    """Properties as they were browsed, but for what a row's columns say otherwise by now."""
    properties = decode_properties(raw, 0, len(raw))
    edited = False
    for name, values in columns.items() if ids is None else [*columns.items(), ("message_id", ids)]:
        value = values[at]
        if name == "headers":
            known = properties.headers
            if value != (None if known is None else shown_headers(known)):
                properties.headers = _mixed(known or {}, value)
                edited = True
            continue
        field = {"type": "type_", "producer_timestamp": "timestamp"}.get(name, name)
        if name == "producer_timestamp" and value is not None:
            value = int(value.timestamp())
        shown: Any = getattr(properties, field)
        if isinstance(shown, str):
            shown = shown_text(shown)
        elif name == "producer_timestamp" and shown is not None and shown > LAST_SECOND:
            shown = None
        if value != shown:
            setattr(properties, field, value)
            edited = True
    return properties.encode() if edited else raw


def _mixed(known: Table, wanted: list[dict[str, Any]] | None) -> Table | None:
    """Headers that a row asks for; those that it left alone keep their types."""
    if wanted is None:
        return None
    names = {shown_text(name): name for name in known}
    mixed: Table = {}
    for header in wanted:
        _check_header(header)
        name = names.get(header["key"])
        if name is not None and header_bytes(known[name]) == header["value"]:
            mixed[name] = known[name]
        else:
            mixed[header["key"]] = _header(header["value"])
    return mixed


def _check_header(header: dict[str, Any] | None) -> None:
    """Refuse an entry of the column `headers` that names none."""
    if header is None or header["key"] is None:
        raise ConnectionException(502, "a header without a name")


def _header(value: bytes | None) -> str | None:
    """A header's value: a longstr holds any bytes, and those that are not UTF-8 are surrogates."""
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _properties(columns: dict[str, list[Any]], at: int, message_id: str) -> bytes:
    """Encode the properties of one row."""
    properties = Properties(delivery_mode=_PERSISTENT, message_id=message_id)
    for name, values in columns.items():
        value = values[at]
        if value is None:
            continue
        if name == "type":
            properties.type_ = value
        elif name == "headers":
            for header in value:
                _check_header(header)
            properties.headers = {header["key"]: _header(header["value"]) for header in value}
        elif name == "producer_timestamp":
            assert isinstance(value, datetime)
            properties.timestamp = int(value.timestamp())
        elif name in ("priority", "delivery_mode"):
            setattr(properties, name, int(value))
        else:
            setattr(properties, name, value)
    return properties.encode()
