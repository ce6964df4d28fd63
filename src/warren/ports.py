"""The outside world as node code sees it: clock, randomness, disk, workers, transports.

The server shell implements these with the operating system, the simulator with virtual time and
faulty disks. Nothing below `warren.server` reaches the world in any other way.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, final

from mypy_extensions import mypyc_attr


class Clock(Protocol):
    """Time. Wall time may jump; monotonic time may not."""

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""

    def monotonic_ns(self) -> int:
        """Nanoseconds from an arbitrary start; never goes back."""


class Random(Protocol):
    """Randomness that a seed can replay."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes, fit for names and identities that must not be guessed."""


class File(Protocol):
    """One open file. Every call may block and may raise `OSError`."""

    def write(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write all buffers, gathered, at an offset. Not durable before `sync`."""

    def write_durable(self, buffers: list[bytes], offset_bytes: int) -> None:
        """`write` followed by `sync`, in one system call where there is one."""

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes from an offset; fewer only at the end of the file."""

    def sync(self) -> None:
        """Make everything written so far survive a crash of the machine (`fdatasync`)."""

    def allocate(self, offset_bytes: int, size_bytes: int) -> None:
        """Reserve disk space, which reads as zeros until written; `OSError(ENOSPC)` if none."""

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend the file to a size."""

    def size_bytes(self) -> int:
        """The file's present size."""

    def close(self) -> None:
        """Release the file. Does not sync."""


class Disk(Protocol):
    """A directory tree. Paths are relative to the node's data directory, with `/` between parts.

    A created, renamed or removed name survives a crash only after `sync_directory`.
    """

    def open(self, path: str, create: bool = False) -> File:
        """Open for reading and writing. `FileNotFoundError` if absent and `create` is False."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it does not exist."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target` by `source`."""

    def remove(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a crash."""

    def free_bytes(self) -> int:
        """Space left for ordinary files."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Job:
    """Blocking work for a worker. `run` happens off the node's thread, `done` back on it.

    Attributes:
        brief: Whether `run` is as short as handing it to another thread. The executor may then do
            both at once, before `submit` returns, while the disk answers promptly.
    """

    brief: bool = False

    @abstractmethod
    def run(self) -> None:
        """The blocking part. Touches nothing that the node's thread may touch meanwhile."""

    @abstractmethod
    def done(self, error: BaseException | None) -> None:
        """What follows, on the node's thread; `error` is what `run` raised."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Work:
    """Something on the node's thread that takes too long for one turn."""

    @abstractmethod
    def go_on(self) -> bool:
        """Do the next part; whether it was the last. It is called no more then."""

    def failed(self, error: Exception) -> None:
        """Hear that a part raised an error; there are no more. Work for one client ends that one.

        Raises:
            Exception: The error itself, where the node depends on the work.
        """
        raise error


@final
class NoWork(Work):
    """All has been done."""

    def go_on(self) -> bool:
        """Nothing is to be done."""
        return True


class Executor(Protocol):
    """Workers for blocking jobs. Jobs of one lane run one at a time, in order."""

    def submit(self, lane: str, job: Job) -> None:
        """Queue a job.

        Lanes: `wal` (group commit), `read` and more with a number behind (backlogs), `compact`
        (background).
        """


class Transport(Protocol):
    """The byte stream to one client."""

    def write(self, data: bytes) -> None:
        """Queue bytes for sending; never blocks."""

    def close(self) -> None:
        """Send what is queued, then close."""

    def abort(self) -> None:
        """Close now, with a reset, and drop what is queued."""

    def pause_reading(self) -> None:
        """Stop delivering input until `resume_reading`."""

    def resume_reading(self) -> None:
        """Deliver input again."""


@final
class PeerHello:
    """What a node says of itself to another one, proven by the cluster's secret.

    Attributes:
        name: `name@host`, the node's name in its cluster.
        node_uid: 16 bytes, drawn once for the node's data directory.
        cluster_id: 16 bytes, all zero while the node belongs to no cluster.
        boot: How often this data directory was started; below 2**64, larger at each start.
        software_version: For logs.
        cluster_version: The newest cluster version that this node knows; see `warren.versions`.
        host, port: Where its links are accepted; empty and 0 if they are not.
        life: 16 random bytes, drawn at this start; empty where they do not matter.
        lives: Those of the starts before, the newest first; what follows them is unknown.
        round: Number of the newest durable round of its log when it started.
        former_uid: The uid that it gave up to begin anew, until it is in its cluster again.
    """

    def __init__(
        self,
        name: str,
        node_uid: bytes,
        cluster_id: bytes,
        boot: int,
        software_version: str,
        cluster_version: int,
        host: str = "",
        port: int = 0,
        life: bytes = b"",
        lives: list[bytes] | None = None,
        round: int = 0,
        former_uid: bytes = b"",
    ) -> None:
        self.name: str = name
        self.node_uid: bytes = node_uid
        self.cluster_id: bytes = cluster_id
        self.boot: int = boot
        self.software_version: str = software_version
        self.cluster_version: int = cluster_version
        self.host: str = host
        self.port: int = port
        self.life: bytes = life
        self.lives: list[bytes] = [] if lives is None else lives
        self.round: int = round
        self.former_uid: bytes = former_uid


class Peers(Protocol):
    """The links from this node to others. No call here calls the listener from within."""

    def send(self, peer: str, message: list[bytes]) -> bool:
        """Queue one message, made of these buffers in order; they must not change any more.

        Messages to a peer arrive in order and once, up to some point; what a lost link had not
        brought over is gone. Only messages about different groups may overtake each other, where
        one is so large that it travels in parts. False, and nothing sent, if there is no link, or
        if the message is larger than any node takes.
        """

    def backlog_bytes(self, peer: str) -> int:
        """Bytes queued for a peer that its machine has not taken yet; 0 if there is no link."""

    def dial(self, peer: str, host: str, port: int) -> None:
        """Keep a link to this node from now on. Again: the address that counts from then on."""

    def forget(self, peer: str) -> None:
        """End the link to this node, if there is one, and dial no more; no `unlinked` follows."""

    def refuse(self, peer: str, reason: str) -> None:
        """End the link from a peer, for what came over it is damaged; the peer may dial anew.

        Nothing more is received over it; `incoming_lost` follows, and `refused` with the reason.
        """

    def flush(self) -> None:
        """Send what is queued, with one write for each peer; called at the end of a turn."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerListener:
    """What links tell the node, on its thread. Each pair of nodes has one link a direction."""

    def judge(self, hello: PeerHello) -> int:
        """Whether a link with this node, which has proven who it is, is wanted.

        Returns:
            0, or the code of a refusal (`protocols.peer.refusal`).
        """
        return 0

    @abstractmethod
    def linked(self, peer: str, hello: PeerHello) -> None:
        """The link to a dialled peer is up: `send` works."""

    @abstractmethod
    def unlinked(self, peer: str) -> None:
        """The link to a peer is gone, and with it what was queued; it is dialled again."""

    @abstractmethod
    def incoming(self, peer: str, hello: PeerHello) -> None:
        """A peer has a link to this node: messages follow. An older one was reported as lost."""

    @abstractmethod
    def incoming_lost(self, peer: str) -> None:
        """A peer's link to this node is gone."""

    @abstractmethod
    def received(self, peer: str, message: bytes) -> None:
        """A whole message of at least one byte came; the first one tells its kind."""

    def received_in_parts(self, peer: str, message: bytes, body: bytes, checksum: int) -> None:
        """A message came that is long, and was put together as it came.

        Args:
            peer: Who sent it.
            message: It, or of a proposal of messages, or a part of a snapshot, what is before those
                bytes, and its checksum.
            body: Those bytes; else empty.
            checksum: CRC-32 of what was sent, which ends in its own.
        """
        assert not body, "a peer listener defines received_in_parts"
        self.received(peer, message)

    def gone(self, peer: str) -> None:
        """The peer's machine says that nobody listens there: its process has ended."""

    def outdated(self, peer: str) -> None:
        """A peer that has a majority with it says that this node's disk is an older copy."""

    def forgotten(self, peer: str) -> None:
        """A peer that has a majority with it says that the cluster does not know this node."""

    def behind(self, peer: str) -> None:
        """A peer says that the cluster is at a version that this node does not know."""

    @abstractmethod
    def refused(self, peer_or_address: str, reason: str) -> None:
        """A link did not come about or was ended, to be logged; repetitions are left out."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Deaf(PeerListener):
    """Lets links come and go, and what comes over them fall: there is no node to tell.

    So it is of a node that is closed. What waits for a node to begin is told some of it.
    """

    def linked(self, peer: str, hello: PeerHello) -> None:
        """Let it be."""

    def unlinked(self, peer: str) -> None:
        """Let it be: the peer is dialled again."""

    def incoming(self, peer: str, hello: PeerHello) -> None:
        """Let it be: this node says nothing."""

    def incoming_lost(self, peer: str) -> None:
        """Let it be: nothing was expected of the peer."""

    def received(self, peer: str, message: bytes) -> None:
        """Let it fall: peers that want an answer ask again."""

    def refused(self, peer_or_address: str, reason: str) -> None:
        """Let it be: no operator waits for that link."""
