"""Who logs in over HTTP: how many wait at a time, and sessions of browsers."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

import warren
from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service.caller import Caller
from warren.admin.service.logins import WAITING_MAX, log_in
from warren.admin.ui.sessions import Sessions
from warren.metadata import commands
from warren.metadata.passwords import ARGON2, SHA256, argon2_hash, password_matches
from warren.node.login_turns import FREE, PACE_MS, WAIT_MS_MAX
from warren.protocols.broker import Settings

STRANGER = "10.0.0.1"


def renewing(settings: Settings) -> None:
    """As servers have it, for users from everywhere."""
    settings.renews_hashes = True
    settings.loopback_users = []


@pytest.mark.skipif(warren.COMPILED, reason="replaces functions of the node")
def test_so_many_requests_of_one_address_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are refused at once, and their passwords are not looked at."""
    seen: list[bytes] = []

    def compare(password: bytes, password_hash: bytes, scheme: str) -> bool:
        seen.append(password)
        return (
            False
            if password.startswith(b"wrong")
            else password_matches(password, password_hash, scheme)
        )

    monkeypatch.setattr("warren.node.logins.password_matches", compare)
    monkeypatch.setattr("warren.metadata.passwords.password_matches", compare)
    monkeypatch.setattr("warren.node.logins.spend_as_much", lambda password: None)
    pair = Pair(1, alone=True, configure=renewing)
    service = service_of(pair)
    ended: list[int] = []
    beyond = 40

    async def guess(number: int) -> Caller | None:
        caller = await log_in(service, "guest", f"wrong {number}", STRANGER)
        ended.append(number)
        return caller

    async def many() -> tuple[list[Caller | None], Caller | None]:
        began = pair.clock.monotonic_ms()
        guesses = [asyncio.ensure_future(guess(n)) for n in range(WAITING_MAX + beyond)]
        while len(ended) < beyond:
            await asyncio.sleep(0)
        # Those that are refused at once are those that came last.
        assert sorted(ended) == list(range(WAITING_MAX, WAITING_MAX + beyond))
        assert pair.clock.monotonic_ms() - began < PACE_MS
        assert service.http_waiting == {STRANGER: WAITING_MAX}
        # Another address waits for none of that.
        elsewhere = await log_in(service, "guest", "guest", "10.0.0.2")
        assert len(ended) < beyond + FREE + 5
        return await asyncio.gather(*guesses), elsewhere

    refused, elsewhere = answered(pair, many)
    assert elsewhere is not None and refused == [None] * (WAITING_MAX + beyond)
    assert not service.http_waiting
    assert any("too many wrong ones" in text for text in pair.a.warnings)
    tried = {password for password in seen if password != b"guest"}
    assert len(tried) <= FREE + WAIT_MS_MAX // PACE_MS + 1
    assert not tried & {f"wrong {n}".encode() for n in range(WAITING_MAX, WAITING_MAX + beyond)}


def test_a_session_outlives_that_its_password_is_hashed_anew_and_not_that_it_is_changed() -> None:
    pair = Pair(1, alone=True, configure=renewing)
    service = service_of(pair)

    async def entered() -> Caller | None:
        return await log_in(service, "guest", "guest", "127.0.0.1")

    users = service.machine.users
    caller = answered(pair, entered)
    assert caller is not None
    sessions = Sessions()
    early = sessions.begin(service, caller)
    assert early.caller(service) is not None
    pair.until(lambda: users["guest"].hash_scheme == ARGON2)
    assert early.caller(service) is not None
    late = sessions.begin(service, caller)
    changed = commands.SetPassword("guest", argon2_hash(b"other", b"s" * 16), ARGON2)
    pair.a.node.store.submit(changed, None)
    pair.until(lambda: users["guest"].password_hash == changed.password_hash)
    assert early.caller(service) is None and late.caller(service) is None
    # Nor does a user come back who was made anew, or whose password was taken away.
    for command in (
        commands.SetUser("guest", b"", SHA256, [], False),
        commands.SetUser("guest", b"salt" + hashlib.sha256(b"saltx").digest(), SHA256, [], False),
    ):
        pair.a.node.store.submit(command, None)
        pair.settle()
        assert users["guest"].password_hash == command.password_hash
        assert early.caller(service) is None and late.caller(service) is None
