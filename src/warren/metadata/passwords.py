"""Hashes of passwords: Argon2id for new ones, and RabbitMQ's, four bytes of salt before a digest.

Argon2id takes some 20 ms and 19 MiB on purpose: who has come by the hashes can try few passwords.
That is too long for a turn of the loop, so a node has it done on another thread and remembers what
came of it (`warren.node.logins`). The library is loaded with the first login.

Source: RFC 9106; the parameters are the least that OWASP recommends.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final, final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
ARGON2: Final = "argon2id"
SCHEMES: Final = (ARGON2, SHA256, SHA512, MD5)
"""Those of which passwords are accepted; new ones are made with `ARGON2`."""
OLDEST_SCHEMES: Final = (SHA256, SHA512)
"""Those that nodes of every release know."""
SALT_BYTES: Final = 4
"""Of RabbitMQ's hashes."""
ARGON2_SALT_BYTES: Final = 16
ARGON2_BYTES: Final = 32
ARGON2_PASSES: Final = 2
ARGON2_KIB: Final = 19_456
ARGON2_LANES: Final = 1
ARGON2_PASSES_MAX: Final = 16
ARGON2_KIB_MAX: Final = 131_072
ARGON2_LANES_MAX: Final = 16
"""What a hash that somebody else made may ask for: logins wait for it, and take the memory."""
ARGON2_TEXT_BYTES_MAX: Final = 256
ARGON2_OWN: Final = b"$argon2id$v=19$m=19456,t=2,p=1$"
"""What hashes begin with that `argon2_hash` makes."""

NO_PASSWORD: Final = ARGON2_OWN + (
    b"AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)
"""A hash that no password has; it takes as long as another one to find that out."""

OUTCOMES_MAX: Final = 10_000


def hash_password(password: bytes, salt: bytes) -> bytes:
    """The `SHA256` hash of a password, which RabbitMQ takes too.

    Args:
        salt: `SALT_BYTES` random bytes.
    """
    assert len(salt) == SALT_BYTES
    return salt + hashlib.sha256(salt + password).digest()


def argon2_hash(password: bytes, salt: bytes) -> bytes:
    """The `ARGON2` hash of a password, with its parameters, as text. Takes some 20 ms.

    Args:
        salt: `ARGON2_SALT_BYTES` random bytes.
    """
    from argon2.low_level import Type, hash_secret

    assert len(salt) == ARGON2_SALT_BYTES
    return hash_secret(
        password, salt, ARGON2_PASSES, ARGON2_KIB, ARGON2_LANES, ARGON2_BYTES, Type.ID
    )


def is_argon2(password_hash: bytes) -> bool:
    """Whether this is an `ARGON2` hash that takes no more than logins may take."""
    if len(password_hash) > ARGON2_TEXT_BYTES_MAX:
        return False
    from argon2 import Type, extract_parameters
    from argon2.exceptions import InvalidHash

    try:
        found = extract_parameters(password_hash.decode("ascii"))
    except (InvalidHash, UnicodeDecodeError):
        return False
    return (
        found.type == Type.ID
        and 1 <= found.time_cost <= ARGON2_PASSES_MAX
        and 8 <= found.memory_cost <= ARGON2_KIB_MAX
        and 1 <= found.parallelism <= ARGON2_LANES_MAX
    )


def is_slow(scheme: str) -> bool:
    """Whether to look for a password's hash takes too long for a turn of the loop."""
    return scheme == ARGON2


NO_MEMORY: Final = "Memory allocation error"
"""The library's text of that."""


def is_renewable(password_hash: bytes, scheme: str) -> bool:
    """Whether `argon2_hash` would make another kind of hash of the same password."""
    return scheme != ARGON2 or not password_hash.startswith(ARGON2_OWN)


def spend_as_much(password: bytes) -> None:
    """Take as long as the comparison of a password with an `ARGON2` hash."""
    password_matches(password, NO_PASSWORD, ARGON2)


def password_matches(password: bytes, password_hash: bytes, scheme: str) -> bool:
    """Whether a password has this hash. An unknown scheme or an empty hash matches nothing.

    Raises:
        MemoryError: There is too little memory to find out.
    """
    if scheme == ARGON2:
        from argon2.exceptions import Argon2Error
        from argon2.low_level import Type, verify_secret

        try:
            return is_argon2(password_hash) and verify_secret(password_hash, password, Type.ID)
        except Argon2Error as error:
            if str(error) == NO_MEMORY:
                raise MemoryError(f"Argon2: {error}") from None
            return False
    if scheme not in SCHEMES:
        return False
    salt = password_hash[:SALT_BYTES]
    return hmac.compare_digest(_digest(salt + password, scheme), password_hash[SALT_BYTES:])


def _digest(salted: bytes, scheme: str) -> bytes:
    if scheme == SHA512:
        return hashlib.sha512(salted).digest()
    if scheme == MD5:
        # Of users that came from a RabbitMQ of long ago.
        return hashlib.md5(salted, usedforsecurity=False).digest()
    return hashlib.sha256(salted).digest()


@final
class Outcomes:
    """What came of passwords and hashes that took long to compare, the newest of them.

    Neither is kept, but a digest of both with a key that lives as long as the process.
    """

    def __init__(self) -> None:
        self._key: bytes = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, bool] = OrderedDict()

    def digest(self, password: bytes, password_hash: bytes) -> bytes:
        """Under this what comes of them is known."""
        return hmac.digest(self._key, password_hash + b"\0" + password, "sha256")

    def known(self, digest: bytes) -> bool:
        """Whether it is known what comes of them."""
        return digest in self._known

    def learn(self, digest: bytes, matches: bool) -> None:
        """Remember it; what was asked for least recently is forgotten."""
        self._known[digest] = matches
        self._known.move_to_end(digest)
        if len(self._known) > OUTCOMES_MAX:
            self._known.popitem(last=False)

    def matches(self, password: bytes, password_hash: bytes, scheme: str) -> bool:
        """Whether a password has this hash; computed here and now if it is not known."""
        if not is_slow(scheme):
            return password_matches(password, password_hash, scheme)
        digest = self.digest(password, password_hash)
        if digest not in self._known:
            self.learn(digest, password_matches(password, password_hash, scheme))
        self._known.move_to_end(digest)
        return self._known[digest]
