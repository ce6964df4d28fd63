"""What is agreed with a client before its connection is open: who it is, and the limits of both.

Source: AMQP 0-9-1, 2.2.4; B-07; RabbitMQ's checks of `tune-ok`.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

from warren import __version__
from warren.limits import (
    FRAME_BYTES_MAX,
    FRAME_BYTES_MIN,
    INITIAL_FRAME_BYTES_MAX,
    PROPERTIES_WEIGHT_MAX,
)
from warren.metadata.weights import weight_of_table
from warren.protocols.broker import Broker, Login, LoginListener
from warren.wire import sasl
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.frame import method_frame
from warren.wire.amqp091.table import Table

EXTERNAL: Final = "EXTERNAL"
"""The mechanism of clients whose certificate says who they are."""

_GREETINGS: Final[dict[tuple[str, str], bytes]] = {}
"""The frame of `connection.start` by the node's name and the mechanisms that are offered."""


PROPERTIES_MAX: Final = 64
PROPERTIES_BYTES_MAX: Final = 4_096
"""How many clients' properties are remembered, and how long each may be."""

_PROPERTIES: Final[dict[bytes, Table]] = {}
"""What clients said of themselves, by the bytes in which they did: most say what others say."""


def shared_properties(data: bytes, at: i64, properties: Table) -> Table:
    """Give all clients that say the same of themselves one table, which nobody changes.

    Args:
        data: The frame that has the encoded table, at `at`.
        properties: The table.

    Raises:
        ConnectionException: 530, it takes too much memory, and is kept while its client is here.
    """
    weight = weight_of_table(properties)
    if weight > PROPERTIES_WEIGHT_MAX:
        text = f"client properties would take {weight} bytes of memory"
        raise ConnectionException(530, f"{text}, and {PROPERTIES_WEIGHT_MAX} is the most", 10, 11)
    size = i64(read_i32_be(data, at)) + 4
    if size > PROPERTIES_BYTES_MAX:
        return properties
    encoded = data[at : at + size]
    known = _PROPERTIES.get(encoded)
    if known is None:
        if len(_PROPERTIES) >= PROPERTIES_MAX:
            _PROPERTIES.clear()
        known = _PROPERTIES[encoded] = properties
    return known


def greeting(node_name: str, mechanisms: str) -> bytes:
    """`connection.start` with product, version and capabilities, under RabbitMQ's keys.

    Args:
        mechanisms: Those that are offered, with blanks between them.
    """
    known = _GREETINGS.get((node_name, mechanisms))
    if known is None:
        start = spec.ConnectionStart(
            0, 9, server_properties(node_name), mechanisms.encode(), b"en_US"
        )
        known = _GREETINGS[(node_name, mechanisms)] = method_frame(0, start.encode())
    return known


def server_properties(node_name: str) -> Table:
    """What clients are told of the server that they have reached."""
    capabilities: Table = {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }
    return {
        "capabilities": capabilities,
        "cluster_name": node_name,
        "copyright": "Copyright (c) the Warren authors.",
        "information": "Licensed under the Apache License 2.0.",
        "platform": "Python",
        "product": "Warren",
        "version": __version__,
    }


@final
class Agreement:
    """The handshake's outcome so far.

    Attributes:
        client_properties: What the client says of itself.
        mechanism: How it logs in; empty before.
        login: As whom it logged in; None before.
        tried, problem: The user whom it called itself, and why it may not come in.
        frame_max: Largest frame that it may send, in bytes.
        channel_max: Most channels that it may have; 0 for no limit.
        heartbeat_ms: Its heartbeat time-out; 0 for none.
    """

    def __init__(self, broker: Broker, certified: str) -> None:
        """Begin with nothing agreed.

        Args:
            certified: The user whom the client's certificate names; empty for none.
        """
        self.client_properties: Table = {}
        self.mechanism: str = ""
        self.login: Login | None = None
        self.tried: str = ""
        self.problem: str = ""
        self.frame_max: i64 = INITIAL_FRAME_BYTES_MAX
        self.channel_max: i64 = broker.settings.channel_max
        self.heartbeat_ms: i64 = 0
        self._broker: Broker = broker
        self._certified: str = certified

    def mechanisms(self) -> list[str]:
        """How this client may log in."""
        known = self._broker.settings.mechanisms
        return [name for name in known if name != EXTERNAL or self._certified]

    def waits(self, method: spec.ConnectionStartOk, host: str, listener: LoginListener) -> bool:
        """Whether it takes a while until the password that the client gives may be answered.

        Args:
            host: From where it comes.

        Raises:
            ConnectionException: 501, name and password are malformed.
        """
        if method.mechanism == EXTERNAL or method.mechanism not in self.mechanisms():
            return False
        self.problem = "name and password are malformed"
        user, password = credentials(method)
        self.problem = ""
        return self._broker.login_waits(user, password, host, listener)

    def authenticate(self, method: spec.ConnectionStartOk, peer: str, host: str) -> bool:
        """Check who the client says it is; False if it may not even be told that it is refused.

        Args:
            peer: Its address for the log.
            host: From where it comes.

        Raises:
            ConnectionException: 403, to a client that says that it understands that.
        """
        self.client_properties = method.client_properties
        self.mechanism = method.mechanism
        if method.mechanism not in self.mechanisms():
            self.problem = f"unknown authentication mechanism '{method.mechanism}'"
            self._broker.log_warning(f"{peer}: {self.problem}")
            return False
        if method.mechanism == EXTERNAL:
            user = self._certified
            self.login = self._broker.login_certified(user, host)
        else:
            user, password = credentials(method)
            self.login = self._broker.login(user, password, host)
        self.tried = user
        self._broker.traffic.logins += 1
        if self.login is not None:
            self.frame_max = FRAME_BYTES_MAX
            self.problem = ""
            return True
        self.problem = f"user '{user}' - invalid credentials"
        self._broker.traffic.logins_failed += 1
        self._broker.log_warning(f"{peer}: login refused for user '{user}'")
        if self.capability("authentication_failure_close"):
            raise ConnectionException(
                403,
                f"Login was refused using authentication mechanism {method.mechanism}. "
                "For details see the broker logfile.",
            )
        return False

    def turn_away(self, method: spec.ConnectionStartOk, peer: str) -> bool:
        """Refuse a client whose password was not looked at; False if it may not be told so.

        Args:
            peer: Its address for the log.

        Raises:
            ConnectionException: 320, to a client that says that it understands that: libraries try
                again then.
        """
        self.client_properties = method.client_properties
        self.mechanism = method.mechanism
        self.tried = credentials(method)[0]
        self.problem = f"user '{self.tried}' - too many wrong passwords came from its address"
        self._broker.traffic.logins += 1
        self._broker.traffic.logins_failed += 1
        self._broker.log_warning(f"{peer}: login not looked at: {self.problem}")
        if self.capability("authentication_failure_close"):
            raise ConnectionException(
                320, "too many wrong passwords came from this address, try again later"
            )
        return False

    def offer(self) -> spec.ConnectionTune:
        """The limits offered to a client that has logged in."""
        settings = self._broker.settings
        return spec.ConnectionTune(settings.channel_max, settings.frame_max, settings.heartbeat_s)

    def tune(self, method: spec.ConnectionTuneOk) -> None:
        """Take the limits that the client wants, none of them above what was offered.

        Raises:
            ConnectionException: 530.
        """
        settings = self._broker.settings
        check_negotiated("frame_max", method.frame_max, FRAME_BYTES_MIN, settings.frame_max)
        check_negotiated("channel_max", method.channel_max, 1, settings.channel_max)
        self.channel_max = method.channel_max
        self.frame_max = method.frame_max or FRAME_BYTES_MAX
        self.heartbeat_ms = method.heartbeat * 1000

    def check_channels(self, count: i64) -> None:
        """Refuse one more channel where there are as many as were agreed.

        Raises:
            ConnectionException: 530.
        """
        if self.channel_max and count >= self.channel_max:
            raise ConnectionException(
                530,
                f"number of channels opened ({count}) has reached the negotiated channel_max "
                f"({self.channel_max})",
            )

    def capability(self, name: str) -> bool:
        """Whether the client says that it knows an extension."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True


def credentials(method: spec.ConnectionStartOk) -> tuple[str, str]:
    """Name and password.

    Raises:
        ConnectionException: 501, they are malformed.
    """
    if method.mechanism == "PLAIN":
        return sasl.decode_plain(method.response)
    return sasl.decode_amqplain(method.response)


def check_negotiated(name: str, value: i64, least: i64, offered: i64) -> None:
    """Check a value of `tune-ok`, where 0 stands for no limit.

    Args:
        offered: What `tune` said, 0 for no limit.

    Raises:
        ConnectionException: 530, it is too small, or more than was offered.
    """
    if value != 0 and value < least:
        relation = f"lower than the minimum allowed value ({least})"
    elif offered != 0 and (value == 0 or value > offered):
        relation = f"higher than the maximum allowed value ({offered})"
    else:
        return
    unlimited = " (no limit)" if value == 0 and name == "channel_max" else ""
    raise ConnectionException(530, f"negotiated {name} = {value}{unlimited} is {relation}")
