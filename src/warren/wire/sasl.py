"""SASL responses that carry a name and a password: PLAIN and AMQPLAIN.

    PLAIN     u8 0, name, u8 0, password                    (the authorization identity is empty)
    AMQPLAIN  the entries of a field table with LOGIN and PASSWORD, without the table's size

Names and passwords are bytes on the wire; what is not UTF-8 survives as lone surrogates.

Source: RFC 4616; AMQPLAIN is RabbitMQ's, as are the error texts.
"""

from __future__ import annotations

from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.table import Value, decode_table, encode_table


def decode_plain(response: bytes) -> tuple[str, str]:
    """Name and password of a PLAIN response.

    Raises:
        ConnectionException: 502, it does not have the form above.
    """
    parts = response.split(b"\x00")
    # RabbitMQ takes no authorization identity, so the response starts with a zero.
    if len(parts) != 3 or parts[0]:
        raise ConnectionException(502, "PLAIN response is not an empty identity, name and password")
    return parts[1].decode("utf-8", "surrogateescape"), parts[2].decode("utf-8", "surrogateescape")


def encode_plain(user: str, password: str) -> bytes:
    """The response by which a client logs in with mechanism PLAIN."""
    return (
        b"\x00"
        + user.encode("utf-8", "surrogateescape")
        + b"\x00"
        + password.encode("utf-8", "surrogateescape")
    )


def decode_amqplain(response: bytes) -> tuple[str, str]:
    """Name and password of an AMQPLAIN response.

    Raises:
        ConnectionException: 502, it is no table, or LOGIN or PASSWORD is missing or no string.
    """
    table = decode_table(response, 0, len(response))
    if "LOGIN" not in table or "PASSWORD" not in table:
        raise ConnectionException(502, "AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    return _string(table["LOGIN"]), _string(table["PASSWORD"])


def encode_amqplain(user: str, password: str) -> bytes:
    """The response by which a client logs in with mechanism AMQPLAIN."""
    return encode_table({"LOGIN": user, "PASSWORD": password})


def _string(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    raise ConnectionException(
        502, "AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field"
    )
