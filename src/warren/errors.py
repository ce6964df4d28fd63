"""Every exception Warren raises on purpose, free of any protocol.

The tree follows who has to act on an error: a client (`Refusal`, `ProtocolError`), the operator
(`StorageError`, `ClusterError`, `ConfigError`), or a peer that should retry elsewhere
(`ConsensusError`). A broken invariant of our own is an `AssertionError` and stops the node.

Each protocol maps refusals to its own codes in one module, as `protocols.amqp091.refusals` does.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

NOT_FOUND: Final = "NOT_FOUND"
"""What was named does not exist, or cannot be reached now."""
ACCESS_REFUSED: Final = "ACCESS_REFUSED"
"""This user may not do that, or no client may."""
RESOURCE_LOCKED: Final = "RESOURCE_LOCKED"
"""Another connection has it to itself."""
PRECONDITION_FAILED: Final = "PRECONDITION_FAILED"
"""What was asked contradicts what there is, or is not valid."""
NOT_ALLOWED: Final = "NOT_ALLOWED"
"""The client may not be here: the vhost, or one more connection."""
NOT_IMPLEMENTED: Final = "NOT_IMPLEMENTED"
"""This kind of queue or exchange cannot do that."""
EXHAUSTED: Final = "EXHAUSTED"
"""There is a bound to how many there may be, and it is reached."""
TIMED_OUT: Final = "TIMED_OUT"
"""It was not done in time, for want of a majority; it may yet come about."""
NO_MAJORITY: Final = "NO_MAJORITY"
"""It takes a majority of nodes, which is not there; nothing was done."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BrokerError(Exception):
    """Root of all errors raised on purpose."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Refusal(BrokerError):
    """What a client asked for may not or cannot be done, whatever protocol it speaks.

    Attributes:
        kind: Why, one of the constants above.
        text: The same for a human, in RabbitMQ's words where it has some.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind} - {self.text}"


class ProtocolError(BrokerError):
    """A peer broke a rule of its protocol, or sent what cannot be read."""


class StorageError(BrokerError):
    """Something on disk is not as it has to be."""


class CorruptRecord(StorageError):
    """Bytes on disk fail their checksum or contradict their neighbours.

    Attributes:
        path: The file, or what else the bytes came from.
        offset_bytes: Where in it.
        reason: What is wrong there.
        group_id: The group that was read, 0 if it was none in particular.
        lost: Ascending pairs (first, last), both included: messages that the group cannot be given
            from what was read.
    """

    def __init__(self, path: str, offset_bytes: int, reason: str) -> None:
        super().__init__(f"{path}: damaged at byte {offset_bytes}: {reason}")
        self.path = path
        self.offset_bytes = offset_bytes
        self.reason = reason
        self.group_id: int = 0
        self.lost: list[tuple[int, int]] = []


class UnknownFlavour(StorageError):
    """Messages are stored in a way that only a later release of Warren can read.

    Attributes:
        flavour: The number of that way.
    """

    def __init__(self, flavour: int, what: str = "these messages") -> None:
        super().__init__(
            f"{what} are of flavour {flavour}, which this release of Warren does not know: "
            "a later one can read them"
        )
        self.flavour = flavour


class Compacted(StorageError):
    """The messages asked for were settled and their place in the log is gone."""


class ConsensusError(BrokerError):
    """A Raft group cannot take this request here and now."""


class ClusterError(BrokerError):
    """The cluster does not take a node in, let it go, or let it go on; the operator has to act."""


class ConfigError(BrokerError):
    """An option, a configuration file or an environment variable is wrong."""
