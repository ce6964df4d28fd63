"""Direct replies to channels of other nodes.

An address says which life of a node its channel belongs to, so that every node knows where a reply
goes. It is handed to the link to that node, and is on its way at most once. As in RabbitMQ it
counts as routed if the address can be one, and is dropped if its channel, or the node, is gone.
A mandatory one is returned where that is no address, where too much is queued, and in a cluster
with nodes that do not understand it.

    DIRECT    channel i64, u8 size of the vhost's name, u8 size of the address, both, the record
    SEEK      number i64, u8 size of the vhost's name, u8 size of the address, both
    SOUGHT    number i64, u8: 1 if a channel takes replies to the address, 0 if none does

The channel of a DIRECT is a number out of its address, by which its replies keep their order.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i64_be, read_i64_le
from mypy_extensions import i64, u8

from warren.errors import CorruptRecord, Refusal
from warren.message.flavours import AMQP091, check_of
from warren.metadata.machine import MetadataMachine
from warren.node.loop import Loop
from warren.pending import PendingRequest
from warren.replication import frames, kinds
from warren.versions import DIRECT_REPLIES
from warren.vhost.host import VhostHost
from warren.vhost.pending import QueueDeclared
from warren.vhost.routes import REPLY_PREFIX, ReplyTarget

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

SESSION_BYTES: Final = 8
RANDOM_BYTES: Final = 16
TOKEN_SIZE: Final = 32
"""So many characters in base64, without padding."""
BACKLOG_BYTES_MAX: Final = 33_554_432
"""With more than this queued for a node, replies to its clients are dropped."""
SEEK_MS_MAX: Final = 5_000
"""How long a node may take to say whether a channel is there."""
TELL_MS: Final = 60_000
"""Operators are told of what is dropped so often at most."""


@final
class AddressedReplies(ReplyTarget):
    """An address that no channel of this node has: one of another node, which may be gone."""

    def __init__(self, replies: DirectReplyLinks, vhost: str, address: str) -> None:
        self._replies: DirectReplyLinks = replies
        self._vhost: str = vhost
        self._address: str = address

    def replied(self, record: bytes) -> bool:
        """Hand a reply to the link, if there is one."""
        return self._replies.send(self._vhost, self._address, record)


@final
class Seeking:
    """A passive declare that waits for another node."""

    def __init__(self, peer: str, address: str, refusal: Refusal, until_ms: i64) -> None:
        self.peer: str = peer
        self.address: str = address
        self.refusal: Refusal = refusal
        self.until_ms: i64 = until_ms


@final
class DirectReplyLinks:
    """The direct replies between one node and the others.

    Attributes:
        dropped: Replies that were dropped since too much was queued for their node, or came from
            another node while too much waited for their client.
    """

    def __init__(self, loop: Loop, metadata: MetadataMachine, cluster: Cluster) -> None:
        self.dropped: i64 = 0
        self._loop: Loop = loop
        self._told: i64 = 0
        self._told_ms: i64 = 0
        self._slow: str = ""
        """What the last of them was for."""
        self._metadata: MetadataMachine = metadata
        self._cluster: Cluster = cluster
        self._host: VhostHost | None = None
        self._asked: i64 = 0
        self._seeking: dict[int, tuple[Seeking, PendingRequest]] = {}
        """Oldest first; each channel waits for one at most."""

    def wire(self, host: VhostHost) -> None:
        """Name who knows this node's channels."""
        self._host = host

    def new_address(self, random: bytes) -> str:
        """Make an address of a channel of this node, out of bytes that cannot be guessed."""
        assert len(random) == RANDOM_BYTES
        session = int(self._cluster.session).to_bytes(SESSION_BYTES, "big")
        return f"{REPLY_PREFIX}.{urlsafe_b64encode(session + random).decode()}"

    def find(self, vhost: str, address: str) -> ReplyTarget | None:
        """The way to an address that no channel of this node has; None if it can be none."""
        return AddressedReplies(self, vhost, address) if _token(address) else None

    def send(self, vhost: str, address: str, record: bytes) -> bool:
        """Hand a reply to the link to its node, if that is up; whether it counts as routed."""
        token = _token(address)
        if read_i64_be(token, 0) == self._cluster.session:
            return True
        if self._metadata.version < DIRECT_REPLIES:
            return False
        node = self._node_of(address)
        if not node:
            return True
        if self._cluster.backlog_bytes(node) > BACKLOG_BYTES_MAX:
            self._drop(f"node {node}")
            return False
        channel = read_i64_be(token, SESSION_BYTES)
        self._cluster.send(node, [_about(kinds.DIRECT, channel, vhost, address), record])
        return True

    def _drop(self, slow: str) -> None:
        self.dropped += 1
        self._slow = slow
        self._tell(self._cluster.monotonic_ms())

    def _tell(self, now: i64) -> None:
        """Tell operators what was dropped since they were told last, once in a while."""
        if self.dropped == self._told or (self._told and now - self._told_ms < TELL_MS):
            return
        count = self.dropped - self._told
        self._told, self._told_ms = self.dropped, now
        self._loop.log_warning(
            f"{count} direct replies are dropped: {self._slow} takes them too slowly"
        )

    def seek(self, vhost: str, address: str, refusal: Refusal, pending: PendingRequest) -> bool:
        """Ask the node of an address whether its channel is there; False if there is no such node.

        Args:
            refusal: What `pending` is told if the channel is not there.
        """
        node = self._node_of(address)
        if not node:
            return False
        self._asked += 1
        if not self._cluster.send(node, [_about(kinds.SEEK, self._asked, vhost, address)]):
            return False
        until_ms = self._cluster.monotonic_ms() + SEEK_MS_MAX
        seeking = Seeking(node, address, refusal, until_ms)
        self._seeking[int(self._asked)] = (seeking, pending)
        return True

    def received(self, peer: str, message: bytes) -> None:
        """A node replies, asks or answers.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        kind: i64 = message[0]
        number = read_i64_le(message, 1)
        at: i64 = frames.HEAD_BYTES
        end = frames.end_of(message)
        if kind == kinds.SOUGHT:
            if end != at + 1:
                raise CorruptRecord(f"a message of {peer}", 0, "an answer of another size")
            self._answered(peer, int(number), message[at] == 1)
            return
        if kind not in (kinds.DIRECT, kinds.SEEK):
            raise CorruptRecord(f"a message of {peer}", 0, f"of kind {kind}, which there is not")
        if end < at + 2:
            raise CorruptRecord(f"a message of {peer}", 0, "a direct reply is cut off")
        name_end = at + 2 + i64(message[at])
        address_end = name_end + i64(message[at + 1])
        if address_end > end:
            raise CorruptRecord(f"a message of {peer}", 0, "an address is cut off")
        try:
            vhost = str(message[at + 2 : name_end], "utf-8")
            address = str(message[name_end:address_end], "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"a message of {peer}", 0, str(error)) from error
        host = self._host
        assert host is not None, "the node wires its parts first"
        target = host.replies.get((vhost, address))
        if kind == kinds.SEEK:
            writer = frames.head(kinds.SOUGHT, number)
            writer.append(u8(0 if target is None else 1))
            self._cluster.send(peer, [writer.getvalue()])
            return
        record = message[address_end:end]
        check = check_of(AMQP091)
        if check is None or not check.passes(record, 0, len(record)):
            raise CorruptRecord(f"a message of {peer}", 0, "this is no message")
        if target is not None and not target.replied(record):
            self._drop("a client")

    def _answered(self, peer: str, number: int, found: bool) -> None:
        known = self._seeking.get(number)
        if known is None or known[0].peer != peer:
            # It has come too late.
            return
        del self._seeking[number]
        seeking, pending = known
        if found:
            pending.succeeded(QueueDeclared(seeking.address, 0, 1))
        else:
            pending.refused(seeking.refusal)

    def broken(self, peer: str) -> None:
        """A link with a node is gone, and so are its answers."""
        for number, (seeking, _) in list(self._seeking.items()):
            if seeking.peer == peer:
                self._answered(peer, number, False)

    def tick(self, now: i64) -> None:
        """Give up what has waited too long, and tell what was dropped."""
        self._tell(now)
        while self._seeking:
            number = next(iter(self._seeking))
            seeking, _ = self._seeking[number]
            if seeking.until_ms > now:
                return
            self._answered(seeking.peer, number, False)

    def _node_of(self, address: str) -> str:
        """The other node, which is up, that has the channel of an address; empty for none."""
        if self._metadata.version < DIRECT_REPLIES:
            return ""
        token = _token(address)
        if not token:
            return ""
        session = read_i64_be(token, 0)
        cluster = self._cluster
        for name, record in self._metadata.nodes.items():
            if session > 0 and record.session == session:
                return name if name != cluster.name and cluster.detector.is_up(name) else ""
        return ""


def _token(address: str) -> bytes:
    """What an address says; empty if it is none of this release."""
    text = address[len(REPLY_PREFIX) + 1 :]
    if len(text) != TOKEN_SIZE or not text.isascii():
        return b""
    try:
        token = urlsafe_b64decode(text)
    except Error:
        return b""
    return token if len(token) == SESSION_BYTES + RANDOM_BYTES else b""


def _about(kind: i64, number: i64, vhost: str, address: str) -> bytes:
    """A frame's beginning. An address is short, and so are names of vhosts."""
    writer = frames.head(kind, number)
    name = vhost.encode()
    text = address.encode()
    writer.append(u8(len(name)))
    writer.append(u8(len(text)))
    writer.write(name)
    writer.write(text)
    return writer.getvalue()
