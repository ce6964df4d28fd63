"""The handshake between two nodes: who gets through, who does not, and what each end says."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from tests.protocols.peer_pair import CLUSTER, ends, hello, key, shake
from warren.protocols.peer import refusal as codes
from warren.protocols.peer.handshake import (
    AWAIT_HELLO,
    DONE,
    REFUSED,
    Handshake,
    certificate_holds,
    derive_key,
)
from warren.protocols.peer.hello import (
    FRAME_BYTES_MAX,
    KIND_ACCEPT,
    KIND_PROOF,
    NO_CLUSTER,
    PREAMBLE,
    decode_hello,
    frame,
    refuse_frame,
)

KINDS = {1: "HELLO", 2: "PROOF", 3: "ACCEPT", 4: "REFUSE"}


def transcript(said: list[tuple[str, bytes]]) -> str:
    """What was said, as a line: `>` is the dialling end."""
    words = []
    preambles = {">": True, "<": True}
    for side, data in said:
        words.append(side)
        if preambles[side] and data.startswith(b"WARRENP"):
            preambles[side] = False
            words.append(f"WARRENP{data[7]}")
            data = data[8:]
        while data:
            size = int.from_bytes(data[:4], "little")
            word = KINDS[data[4]]
            if word == "REFUSE":
                word += f"({int.from_bytes(data[5:7], 'little')})"
            words.append(word)
            data = data[4 + size :]
    return " ".join(words)


GREETED = "> WARRENP3 HELLO < WARRENP3 HELLO > PROOF"


def test_accepted() -> None:
    one, other = ends()
    said = shake(one, other)
    assert transcript(said) == f"{GREETED} < PROOF ACCEPT > ACCEPT"
    assert (one.state, other.state) == (DONE, DONE)
    assert one.peer is not None and other.peer is not None
    assert (one.peer.name, other.peer.name) == ("b@two", "a@one")
    assert (other.peer.boot, other.peer.software_version, other.peer.cluster_version) == (
        7, "1.2.3", 5,
    )  # fmt: skip
    assert other.peer.cluster_id == CLUSTER and other.peer.node_uid == (b"a@one" * 16)[:16]
    assert sum(len(data) for _, data in said) < 4096


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50])
def test_accepted_in_pieces(step: int) -> None:
    """It does not matter how the bytes are cut."""
    one, other = ends()
    while one.state < DONE or other.state < DONE:
        for source, target in ((one, other), (other, one)):
            data = source.take_output()
            for at in range(0, len(data), step):
                target.receive(data[at : at + step])
    assert (one.state, other.state) == (DONE, DONE)


@pytest.mark.parametrize(
    ("first", "second"), [(NO_CLUSTER, CLUSTER), (CLUSTER, NO_CLUSTER), (NO_CLUSTER, NO_CLUSTER)]
)
def test_a_node_without_a_cluster_may_talk_to_any(first: bytes, second: bytes) -> None:
    one, other = ends(hello("a@one", cluster=first), hello("b@two", cluster=second))
    shake(one, other)
    assert (one.state, other.state) == (DONE, DONE)


def test_messages_may_follow_at_once() -> None:
    one, other = ends()
    other.receive(one.take_output())
    one.receive(other.take_output())
    other.receive(one.take_output())
    one.receive(other.take_output())
    other.receive(one.take_output() + b"\x01\x00\x00\x00m")
    assert other.state == DONE and other.rest == b"\x01\x00\x00\x00m"


REFUSALS = {
    "secret": (
        {"keys": (key(), key(b"another"))},
        codes.SECRET,
        f"{GREETED} < REFUSE(4)",
    ),
    "cluster": (
        {"acceptor": hello("b@two", cluster=b"D" * 16)},
        codes.CLUSTER,
        f"{GREETED} < PROOF REFUSE(5)",
    ),
    "own name": (
        {"acceptor": hello("a@one", uid=b"other" * 3 + b"1"), "dialled": "a@one"},
        codes.OWN_NAME,
        f"{GREETED} < PROOF REFUSE(6)",
    ),
    "itself": (
        {"acceptor": hello("a@one")},
        codes.OWN_NAME,
        f"{GREETED} < PROOF REFUSE(6)",
    ),
    "another node than dialled": (
        {"dialled": "c@three"},
        codes.NOT_DIALLED,
        f"{GREETED} < PROOF REFUSE(7)",
    ),
    "copied data directory": (
        {"acceptor": hello("b@two", uid=(b"a@one" * 16)[:16])},
        codes.COPIED,
        f"{GREETED} < PROOF REFUSE(8)",
    ),
    "the dialler's certificate": (
        {"certified": (["two"], ["elsewhere"])},
        codes.CERTIFICATE,
        f"{GREETED} < PROOF REFUSE(9)",
    ),
    "the other's certificate": (
        {"certified": ([], ["a@one"])},
        codes.CERTIFICATE,
        f"{GREETED} < PROOF ACCEPT > REFUSE(9)",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refused(case: str) -> None:
    """Both ends know the same reason, and exactly one of them refused."""
    options, code, expected = REFUSALS[case]
    one, other = ends(**options)
    assert transcript(shake(one, other)) == expected
    assert (one.state, other.state) == (REFUSED, REFUSED)
    assert one.refusal is not None and other.refusal is not None
    assert (one.refusal.code, other.refusal.code) == (code, code)
    assert one.refusal.theirs != other.refusal.theirs
    for refusal in (one.refusal, other.refusal):
        assert refusal.text.startswith(codes.TEXTS[code])


def test_the_text_for_a_wrong_secret() -> None:
    one, other = ends(keys=(key(), key(b"another")))
    shake(one, other)
    wanted = "the other node's secret differs; give both the same cluster secret"
    assert other.refusal is not None and other.refusal.text == wanted
    assert one.refusal is not None and one.refusal.text == f"{wanted} (refused by the other node)"


def test_no_identity_of_a_node_before_its_proof() -> None:
    """Nobody gets a proof, or a judgement of names, who has not proven to know the secret."""
    one, other = ends(hello("b@two"), keys=(key(b"guess"), key()))
    assert "PROOF REFUSE" not in transcript(shake(one, other))
    assert other.refusal is not None and other.refusal.code == codes.SECRET


def test_another_version() -> None:
    one, other = ends()
    data = one.take_output()
    other.receive(data[:7] + b"\x02" + data[8:])
    assert other.refusal is not None and other.refusal.code == codes.VERSION
    assert "2 there, 3 here" in other.refusal.text
    answer = other.take_output()
    assert answer == PREAMBLE + refuse_frame(codes.VERSION)
    one.receive(answer)
    assert one.refusal is not None and (one.refusal.code, one.refusal.theirs) == (3, True)


def test_a_later_version_is_answered_in_this_one() -> None:
    """An end that speaks a later one has to speak this one, too; the proofs cover what it said."""
    one, other = ends()
    later = b"WARRENP\x04" + one.take_output()[8:]
    other.receive(later)
    answer = other.take_output()
    assert answer.startswith(PREAMBLE)
    proof = hmac.digest(key(), b" dialler " + later + answer, "sha256")
    other.receive(frame(KIND_PROOF, proof))
    proof = hmac.digest(key(), b" acceptor " + later + answer, "sha256")
    assert other.take_output() == frame(KIND_PROOF, proof) + frame(KIND_ACCEPT, b"")
    other.receive(frame(KIND_ACCEPT, b""))
    assert other.state == DONE


def test_an_answer_in_another_version() -> None:
    one, _ = ends()
    one.receive(b"WARRENP\x01" + refuse_frame(codes.VERSION))
    assert one.refusal is not None and (one.refusal.code, one.refusal.theirs) == (3, False)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"X", b"WARS"]
)
def test_garbage_gets_no_answer(data: bytes) -> None:
    _, other = ends()
    other.receive(data)
    assert other.refusal is not None and other.refusal.code == codes.GARBAGE
    assert other.take_output() == b""


@pytest.mark.parametrize(
    "data",
    [
        (0).to_bytes(4, "little"),
        (FRAME_BYTES_MAX + 1).to_bytes(4, "little"),
        b"\xff\xff\xff\xff",
        b"\x01\x00\x00\x00\x03",
        b"\x02\x00\x00\x00\x01\x00",
        b"\x01\x00\x00\x00\x63",
        b"\x02\x00\x00\x00\x04\x01",
    ],
    ids=["empty", "large", "huge", "too early", "short hello", "unknown kind", "short refusal"],
)
def test_malformed(data: bytes) -> None:
    _, other = ends()
    other.receive(PREAMBLE + data)
    assert other.refusal is not None and other.refusal.code == codes.MALFORMED
    assert other.take_output() == PREAMBLE + refuse_frame(codes.MALFORMED)


def test_too_late() -> None:
    _, silent = ends()
    silent.refuse(codes.TIMEOUT)
    assert silent.take_output() == b"", "nothing is said to an end that said nothing"
    _, slow = ends()
    slow.receive(PREAMBLE)
    assert slow.state == AWAIT_HELLO
    slow.refuse(codes.TIMEOUT)
    assert slow.take_output() == PREAMBLE + refuse_frame(codes.TIMEOUT)


def test_unknown_refusal() -> None:
    one, _ = ends()
    one.receive(PREAMBLE + refuse_frame(999))
    assert one.refusal is not None
    assert one.refusal.text == "code 999 of a newer version (refused by the other node)"


def test_memory_before_the_proof_is_bounded() -> None:
    """What is kept of an unfinished handshake stays below 4 KiB, whatever comes."""
    _, other = ends()
    other.receive(PREAMBLE + FRAME_BYTES_MAX.to_bytes(4, "little"))
    for _ in range(FRAME_BYTES_MAX - 1):
        other.receive(b"\x01")
        assert other.state == AWAIT_HELLO
    other.receive(b"\x01" * 100_000)
    assert other.state == REFUSED and other.rest == b""


def test_replay() -> None:
    """What a dialler said yesterday does not get anybody in today."""
    one, other = ends()
    said = shake(one, other)
    fresh = Handshake(hello("b@two"), key(), b"3" * 32)
    for side, data in said:
        if side == ">":
            fresh.receive(data)
    assert fresh.refusal is not None and fresh.refusal.code == codes.SECRET


def test_reflection_of_a_hello() -> None:
    """An end that gets its own bytes back sees it."""
    one, _ = ends()
    one.receive(one.take_output())
    assert one.refusal is not None and one.refusal.code == codes.OWN_NAME


def test_reflection_of_a_proof() -> None:
    """The proof of the dialling end is none of the dialled one."""
    one, other = ends()
    other.receive(one.take_output())
    one.receive(other.take_output())
    one.receive(one.take_output())
    assert one.refusal is not None and one.refusal.code == codes.SECRET


def test_every_changed_byte_is_noticed() -> None:
    """Nothing of what either end says of itself can be changed on the way."""
    one, other = ends()
    total = len(shake(one, other)[0][1])
    for at in range(total):
        one, other = ends()

        def change(data: bytes, at: int = at) -> bytes:
            if len(data) != total:
                return data
            return data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :]

        shake(one, other, change)
        assert other.state != DONE and one.state != DONE, f"byte {at}"


def test_neither_secret_nor_hash_on_the_wire() -> None:
    secret = b"hunter2 hunter2 hunter2"
    one, other = ends(keys=(key(secret), key(secret)))
    everything = b"".join(data for _, data in shake(one, other))
    for hidden in (secret, key(secret), hashlib.sha256(secret).digest()):
        assert hidden not in everything
    assert b"hunter" not in everything


def test_a_key_is_slow_to_guess_and_the_same_everywhere() -> None:
    assert derive_key(b"s") == derive_key(b"s") != derive_key(b"t")
    assert len(derive_key(b"s")) == 32


def test_the_dialled_end_may_only_refuse_later() -> None:
    for later, code, theirs in (
        (refuse_frame(codes.TOO_LARGE), codes.TOO_LARGE, True),
        (b"\x01\x00\x00\x00\x03", codes.UNEXPECTED, False),
        (b"\xff\xff\xff\xff", codes.UNEXPECTED, False),
    ):
        one, other = ends()
        shake(one, other)
        one.receive(later)
        assert one.refusal is not None
        assert (one.refusal.code, one.refusal.theirs) == (code, theirs)
        assert one.take_output() == b"", "it would land between messages"


@pytest.mark.parametrize(
    ("names", "node", "holds"),
    [
        (["two"], "b@two", True),
        (["B@Two"], "b@two", True),
        (["127.0.0.1"], "b@127.0.0.1", True),
        (["b"], "b@two", False),
        (["*.two", "two.example"], "b@two", False),
        ([], "b@two", False),
        (["two"], "two", True),
    ],
)
def test_certified_names(names: list[str], node: str, holds: bool) -> None:
    assert certificate_holds(names, node) is holds


def test_a_name_that_would_forge_log_lines() -> None:
    one, other = ends()
    data = one.take_output()
    other.receive(data.replace(b"a@one", b"a\none"))
    assert other.refusal is not None and other.refusal.code == codes.MALFORMED


def test_later_versions_may_add_to_a_hello() -> None:
    one, _ = ends()
    body = one.take_output()[8 + 5 :]
    introduction = decode_hello(body + b"more")
    assert introduction is not None and introduction.hello.name == "a@one"
    assert decode_hello(body[:-1]) is None
