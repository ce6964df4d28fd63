"""Two nodes prove to each other that they share the cluster's secret, and judge who the other is.

Sans-I/O: one object for each end, fed with what the socket brought; answers gather in its output.

    dialling end                               dialled end
    preamble, HELLO(nonce, dialled name) -->
                                         <--   preamble, HELLO(nonce)
    PROOF("dialler")                     -->
                                         <--   PROOF("acceptor"), ACCEPT or REFUSE
    ACCEPT or REFUSE                     -->

A proof is an HMAC-SHA256 over the role and both hellos as they were sent, with their nonces. So
neither a recorded nor a reflected proof fits, and nothing in a hello can be changed on the way. The
dialled end proves nothing to an end that has not done so, and says nothing to one that did not send
the magic. The key is a slow hash of the secret: whoever takes the place of a dialled node gets one
proof to try guesses on, and each guess shall cost time.

After the handshake the dialled end sends nothing but a REFUSE that ends the link; that comes here,
too. The messages of the dialling end are `framing`'s.

Both ends go through the same states:

    AWAIT_PREAMBLE -> AWAIT_HELLO -> AWAIT_PROOF -> AWAIT_VERDICT -> DONE

and from each of them to REFUSED.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, final

from mypy_extensions import i64

from warren.ports import PeerHello, PeerListener
from warren.protocols.peer import refusal as codes
from warren.protocols.peer.hello import (
    ANYONE,
    FRAME_BYTES_MAX,
    KIND_ACCEPT,
    KIND_HELLO,
    KIND_PROOF,
    KIND_REFUSE,
    MAGIC,
    NO_CLUSTER,
    PREAMBLE,
    PREAMBLE_BYTES,
    SIZE_BYTES,
    VERSION_NUMBER,
    Introduction,
    decode_hello,
    frame,
    hello_frame,
    refuse_frame,
)
from warren.protocols.peer.refusal import LinkRefusal

AWAIT_PREAMBLE: Final = 0
AWAIT_HELLO: Final = 1
AWAIT_PROOF: Final = 2
AWAIT_VERDICT: Final = 3
DONE: Final = 4
REFUSED: Final = 5

KEY_SALT: Final = b"warren peer link 1"
KEY_ROUNDS: Final = 1 << 14
ROLE_DIALLER: Final = b" dialler "
ROLE_ACCEPTOR: Final = b" acceptor "


def derive_key(secret: bytes) -> bytes:
    """The key of all handshakes of a cluster; takes some 50 ms, so keep it."""
    return hashlib.scrypt(secret, salt=KEY_SALT, n=KEY_ROUNDS, r=8, p=1, dklen=32)


def certificate_holds(names: list[str], node: str) -> bool:
    """Whether a certificate's names have this node's name, or the host in it."""
    wanted = node.lower()
    host = wanted.rpartition("@")[2]
    for name in names:
        lower = name.lower()
        if lower == wanted or lower == host:
            return True
    return False


@final
class Handshake:
    """One end of one link.

    Attributes:
        state: One of the constants above.
        peer: Who the other end says it is; proven once `state` is DONE.
        refusal: Why `state` is REFUSED.
        rest: What came behind the handshake, once `state` is DONE at the dialled end.
    """

    def __init__(
        self,
        own: PeerHello,
        key: bytes,
        nonce: bytes,
        dialled: str = "",
        certified: list[str] | None = None,
        judge: PeerListener | None = None,
    ) -> None:
        """Begin; the dialling end has output at once.

        Args:
            own: Who this node is.
            key: `derive_key` of the cluster's secret.
            nonce: 32 bytes that cannot be guessed and were never used before.
            dialled: The node that is expected there, or `ANYONE`; empty at the dialled end.
            certified: The names in the other end's certificate, one of which has to be its own;
                None if names need not be certified.
            judge: Asked last whether the node is wanted.
        """
        self.state: i64 = AWAIT_PREAMBLE
        self.peer: PeerHello | None = None
        self.refusal: LinkRefusal | None = None
        self.rest: bytes = b""
        self._own: PeerHello = own
        self._key: bytes = key
        self._nonce: bytes = nonce
        self._dialled: str = dialled
        self._dials: bool = dialled != ""
        self._certified: list[str] | None = certified
        self._judge_of_nodes: PeerListener | None = judge
        self._cluster_id: bytes = own.cluster_id
        self._own_hello: bytes = hello_frame(Introduction(nonce, dialled, own))
        self._their_hello: bytes = b""
        self._their_preamble: bytes = b""
        self._their_dialled: str = ""
        self._proven: bool = False
        self._tail: bytes = b""
        self._out: list[bytes] = []
        if self._dials:
            self._out.append(PREAMBLE)
            self._out.append(self._own_hello)

    def proven(self) -> PeerHello | None:
        """Who the other end is, if it has proven that, whatever came of it."""
        return self.peer if self._proven else None

    def take_output(self) -> bytes:
        """What is to be sent; empty if nothing is."""
        if not self._out:
            return b""
        out = b"".join(self._out)
        self._out = []
        return out

    def receive(self, data: bytes) -> None:
        """Take bytes from the other end; never raises for what it can do."""
        if self._tail:
            data = self._tail + data
            self._tail = b""
        at: i64 = 0
        if self.state == AWAIT_PREAMBLE:
            at = self._preamble(data)
        while self.state < DONE or (self.state == DONE and self._dials):
            if self.state == AWAIT_PREAMBLE or len(data) - at < SIZE_BYTES:
                break
            size: i64 = int.from_bytes(data[at : at + SIZE_BYTES], "little")
            if size < 1 or size > FRAME_BYTES_MAX:
                self.refuse(codes.MALFORMED if self.state < DONE else codes.UNEXPECTED)
                break
            start: i64 = at + SIZE_BYTES
            if len(data) - start < size:
                break
            self._frame(data[start], data[at : start + size])
            at = start + size
        if self.state == REFUSED:
            return
        if self.state == DONE and not self._dials:
            self.rest = data[at:]
        else:
            self._tail = data[at:]

    def refuse(self, code: int, detail: str = "") -> None:
        """End the link, and tell the other end if that has shown to be a node."""
        if self.state == REFUSED:
            return
        # Nothing to strangers, and nothing of this kind between the dialling end's messages.
        speaks = self.state != AWAIT_PREAMBLE and not (self._dials and self.state == DONE)
        if speaks and not self._dials and self.state == AWAIT_HELLO:
            self._out.append(PREAMBLE)
        self.state = REFUSED
        self.refusal = LinkRefusal(code, False, detail)
        if speaks:
            self._out.append(refuse_frame(code))

    def _preamble(self, data: bytes) -> i64:
        """Look at the first eight bytes; returns how many were taken."""
        if len(data) < PREAMBLE_BYTES:
            if MAGIC.startswith(data[:7]):
                self._tail = data
            else:
                self.refuse(codes.GARBAGE)
            return 0
        if not data.startswith(MAGIC):
            self.refuse(codes.GARBAGE)
            return 0
        self.state = AWAIT_HELLO
        self._their_preamble = data[:PREAMBLE_BYTES]
        # An end of a later release goes on in this version, which is how it is answered.
        if data[7] < VERSION_NUMBER:
            self.refuse(codes.VERSION, f"{data[7]} there, {VERSION_NUMBER} here")
        return PREAMBLE_BYTES

    def _frame(self, kind: i64, data: bytes) -> None:
        """A whole frame came, its size included."""
        if kind == KIND_REFUSE and len(data) >= SIZE_BYTES + 3:
            self.state = REFUSED
            code = int.from_bytes(data[SIZE_BYTES + 1 : SIZE_BYTES + 3], "little")
            self.refusal = LinkRefusal(code, True, self._name_there())
        elif self.state == AWAIT_HELLO and kind == KIND_HELLO:
            self._hello(data)
        elif self.state == AWAIT_PROOF and kind == KIND_PROOF:
            self._proof(data[SIZE_BYTES + 1 :])
        elif self.state == AWAIT_VERDICT and kind == KIND_ACCEPT:
            self._accepted()
        else:
            self.refuse(codes.MALFORMED if self.state < DONE else codes.UNEXPECTED)

    def _hello(self, data: bytes) -> None:
        introduction = decode_hello(data[SIZE_BYTES + 1 :])
        if introduction is None:
            self.refuse(codes.MALFORMED)
            return
        if introduction.nonce == self._nonce:
            # Our own bytes came back.
            self.refuse(codes.OWN_NAME, "this node has reached itself")
            return
        self._their_hello = data
        self._their_dialled = introduction.dialled
        self.peer = introduction.hello
        self.state = AWAIT_PROOF
        if self._dials:
            self._out.append(frame(KIND_PROOF, self._mac(ROLE_DIALLER)))
        else:
            self._out.append(PREAMBLE)
            self._out.append(self._own_hello)

    def _proof(self, proof: bytes) -> None:
        role = ROLE_ACCEPTOR if self._dials else ROLE_DIALLER
        if not hmac.compare_digest(proof, self._mac(role)):
            self.refuse(codes.SECRET)
            return
        self._proven = True
        self.state = AWAIT_VERDICT
        if not self._dials:
            self._out.append(frame(KIND_PROOF, self._mac(ROLE_ACCEPTOR)))
            if self._judge():
                self._out.append(frame(KIND_ACCEPT, b""))

    def _accepted(self) -> None:
        if not self._dials:
            self.state = DONE
        elif self._judge():
            self._out.append(frame(KIND_ACCEPT, b""))
            self.state = DONE

    def _mac(self, role: bytes) -> bytes:
        """A proof for the end that has this role."""
        own = PREAMBLE + self._own_hello
        theirs = self._their_preamble + self._their_hello
        mac = hmac.new(self._key, role, "sha256")
        mac.update(own if self._dials else theirs)
        mac.update(theirs if self._dials else own)
        return mac.digest()

    def _judge(self) -> bool:
        """Whether this node wants a link with the other one, which has proven who it is."""
        peer = self.peer
        assert peer is not None and self._proven
        own = self._own
        if peer.name == own.name:
            itself = peer.node_uid == own.node_uid
            self.refuse(codes.OWN_NAME, "this node has reached itself" if itself else own.name)
        elif peer.node_uid == own.node_uid:
            self.refuse(codes.COPIED, self._name_there())
        elif self._dials and self._dialled not in (peer.name, ANYONE):
            self.refuse(codes.NOT_DIALLED, f"{peer.name} instead of {self._dialled}")
        elif not self._dials and self._their_dialled not in (own.name, ANYONE):
            self.refuse(
                codes.NOT_DIALLED, f"{peer.name} expects {self._their_dialled or 'nobody'} here"
            )
        elif peer.cluster_id != self._cluster_id and NO_CLUSTER not in (
            peer.cluster_id,
            self._cluster_id,
        ):
            self.refuse(codes.CLUSTER, self._name_there())
        elif peer.name == ANYONE:
            # An operator, who is no node and has no name to certify.
            if self._dials:
                self.refuse(codes.MALFORMED)
        elif self._certified is not None and not certificate_holds(self._certified, peer.name):
            self.refuse(codes.CERTIFICATE, peer.name)
        elif self._judge_of_nodes is not None:
            code = self._judge_of_nodes.judge(peer)
            if code:
                self.refuse(code, self._name_there())
        return self.state != REFUSED

    def _name_there(self) -> str:
        """The other node's name, once it is proven."""
        return f"there: {self.peer.name}" if self.peer is not None and self._proven else ""
