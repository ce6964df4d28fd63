"""Users: who may log in, by which password, and what they may administer.

What changes them is done when the change is in force on this node.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode

from warren.admin.service.caller import Caller
from warren.admin.service.operation import operation
from warren.admin.service.rows import UserRow
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.errors import ACCESS_REFUSED, Refusal
from warren.metadata.access_checks import (
    check_add_user,
    check_delete_user,
    check_password,
    check_user_tags,
    decoded_hash,
)
from warren.metadata.passwords import (
    ARGON2,
    ARGON2_SALT_BYTES,
    SALT_BYTES,
    SHA256,
    argon2_hash,
    hash_password,
    is_slow,
    password_matches,
)
from warren.versions import PASSWORD_HASHES


@operation()
async def add_user(
    service: AdminService,
    caller: Caller,
    *,
    name: str,
    password: str | None = None,
    password_hash: str = "",
    hashing_algorithm: str = SHA256,
) -> None:
    """Create a user, who has no tags and no permissions yet.

    Args:
        password: With an empty one, or none, the user cannot log in by a password.
        password_hash: In place of a password its salted hash, in Base64.
        hashing_algorithm: How that was made, one of `passwords.SCHEMES`.

    Raises:
        Refusal: There is one of that name, something is wrong, or there is no majority.
    """
    hashed, scheme = await _hashed(service, password, password_hash, hashing_algorithm)
    await service.catch_up()
    await service.change(check_add_user(service.machine, name, hashed, scheme))


@operation()
async def salted_hash(service: AdminService, caller: Caller, *, password: str) -> str:
    """What a password comes to with a new salt, in Base64: `password_hash` of a user."""
    secret = password.encode("utf-8", "surrogateescape")
    return b64encode(hash_password(secret, service.node.random.bytes(SALT_BYTES))).decode()


@operation()
async def delete_user(service: AdminService, caller: Caller, *, name: str) -> None:
    """Delete a user with its permissions, and close its connections.

    Raises:
        Refusal: There is none of that name, or no majority.
    """
    await service.catch_up()
    await service.change(check_delete_user(service.machine, name))


@operation()
async def change_password(
    service: AdminService,
    caller: Caller,
    *,
    name: str,
    password: str | None = None,
    password_hash: str = "",
    hashing_algorithm: str = SHA256,
) -> None:
    """Give a user another password; connections stay. The arguments are those of `add_user`.

    Raises:
        Refusal: There is no such user, something is wrong, or there is no majority.
    """
    hashed, scheme = await _hashed(service, password, password_hash, hashing_algorithm)
    await service.catch_up()
    await service.change(check_password(service.machine, name, hashed, scheme))


@operation()
async def clear_password(service: AdminService, caller: Caller, *, name: str) -> None:
    """Let a user log in by no password any more.

    Raises:
        Refusal: There is no such user, or no majority.
    """
    await service.catch_up()
    await service.change(check_password(service.machine, name, b"", SHA256))


@operation()
async def set_user_tags(
    service: AdminService, caller: Caller, *, name: str, tags: list[str]
) -> None:
    """Give a user these tags, and no others.

    Raises:
        Refusal: There is no such user, these are no tags, or there is no majority.
    """
    await service.catch_up()
    await service.change(check_user_tags(service.machine, name, tags))


@operation()
async def list_users(service: AdminService, caller: Caller) -> list[UserRow]:
    """List all users, by name."""
    slices = Slices()
    rows: list[UserRow] = []
    for name in sorted(service.machine.users):
        user = service.machine.users.get(name)
        if user is not None:
            rows.append(UserRow(user=name, tags=list(user.tags)))
        await slices.breathe()
    return rows


@operation()
async def authenticate_user(
    service: AdminService, caller: Caller, *, name: str, password: str
) -> None:
    """See whether a user would be let in by a password.

    Raises:
        Refusal: `ACCESS_REFUSED`, it would not.
    """
    secret = password.encode("utf-8", "surrogateescape")
    authority = service.node.store.authority
    password_hash, scheme = authority.hash_of(name)
    if is_slow(scheme):
        # Not on the node's thread; what comes of it is known then.
        matches = await asyncio.to_thread(password_matches, secret, password_hash, scheme)
        authority.outcomes.learn(authority.outcomes.digest(secret, password_hash), matches)
    if authority.authenticate(name, secret, True) is None:
        raise Refusal(
            ACCESS_REFUSED,
            f"failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials",
        )


async def _hashed(
    service: AdminService, password: str | None, password_hash: str, scheme: str
) -> tuple[bytes, str]:
    """The hash of a password, or the one that was given, and how it was made; empty for neither.

    Every node of the cluster knows how: older ones let nobody in by an Argon2id hash.
    """
    if password_hash:
        return decoded_hash(password_hash), scheme
    if password is None:
        return b"", SHA256
    secret = password.encode("utf-8", "surrogateescape")
    if service.machine.version < PASSWORD_HASHES:
        return hash_password(secret, service.node.random.bytes(SALT_BYTES)), SHA256
    salt = service.node.random.bytes(ARGON2_SALT_BYTES)
    return await asyncio.to_thread(argon2_hash, secret, salt), ARGON2
