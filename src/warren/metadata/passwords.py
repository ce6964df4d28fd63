"""Password hashes in RabbitMQ's format: four bytes of salt, then a digest of salt and password."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

SHA256: Final = "rabbit_password_hashing_sha256"
SHA512: Final = "rabbit_password_hashing_sha512"
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
    salt = password_hash[:SALT_BYTES]
    digest = password_hash[SALT_BYTES:]
    if scheme == SHA256:
        return hmac.compare_digest(hashlib.sha256(salt + password).digest(), digest)
    if scheme == SHA512:
        return hmac.compare_digest(hashlib.sha512(salt + password).digest(), digest)
    return False
