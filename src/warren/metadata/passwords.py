"""Password hashes in RabbitMQ's format: four bytes of salt, then a digest of salt and password."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
MD5: Final = "rabbit_password_hashing_md5"
SCHEMES: Final = (SHA256, SHA512, MD5)
"""Those of which passwords are accepted; new ones are made with `SHA256`, as RabbitMQ does."""
SALT_BYTES: Final = 4


def hash_password(password: bytes, salt: bytes) -> bytes:
    """The `SHA256` hash of a password.

    Args:
        salt: `SALT_BYTES` random bytes.
    """
    assert len(salt) == SALT_BYTES
    return salt + hashlib.sha256(salt + password).digest()


def password_matches(password: bytes, password_hash: bytes, scheme: str) -> bool:
    """Whether a password has this hash. An unknown scheme or an empty hash matches nothing."""
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
