"""What tokens say: signatures, claims and scopes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.support.patience import patient
from tests.support.tokens import AUDIENCE, Issuer, KeyServer
from warren.errors import ConfigError, Refusal
from warren.metadata.grants import Grants, fits, like_token
from warren.server.tokens import (
    ALGORITHMS,
    LIFE_SECONDS_MAX,
    SCOPES_MAX,
    JwtVerifier,
    TokenSettings,
    fetched,
    parsed,
)

NOW_MS = 1_000_000


def settings(**given: Any) -> TokenSettings:
    values: dict[str, Any] = {
        "alone": False,
        "resource_server_id": AUDIENCE,
        "scope_prefix": f"{AUDIENCE}.",
        "extra_scopes_key": "",
        "user_claims": ("sub", "client_id"),
        "key_files": (),
        "default_key": "",
        "jwks_uri": "",
        "issuer": "",
        "verify_audience": True,
        "algorithms": ALGORITHMS,
        "ca_file": "",
    }
    return TokenSettings(**{**values, **given})


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def verifier(issuer: Issuer, folder: Path, **given: Any) -> JwtVerifier:
    files = ((issuer.key_id, str(issuer.public_file(folder))),)
    return JwtVerifier(settings(key_files=files, **given), lambda: NOW_MS)


def test_a_token_says_who_its_bearer_is_and_what_they_may(issuer: Issuer, tmp_path: Path) -> None:
    found = verifier(issuer, tmp_path).verify(
        issuer.token("read:%2F/orders-*", "write:shop/*/eu.*", "tag:monitoring", "unknown")
    )
    assert isinstance(found, Grants)
    assert (found.user, found.tags) == ("app", ["monitoring"])
    assert found.permits("/", "read", "orders-1") and not found.permits("/", "write", "orders-1")
    assert found.enters("/") and found.enters("shop") and not found.enters("other")
    found.check_topic("shop", "write", "any", "eu.north")
    with pytest.raises(Refusal, match=r"write access to topic 'us' in exchange 'any'"):
        found.check_topic("shop", "write", "any", "us")
    found.check_topic("/", "read", "orders-x", "any key")
    assert abs(found.expires_ms - NOW_MS - 300_000) < 5_000
    assert not found.expired(NOW_MS) and found.expired(NOW_MS + 400_000)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": None},
        {"seconds": -5},
        {"exp": None},
        {"sub": None},
        {"sub": 5},
        {"exp": "soon"},
        {"nbf": 9_999_999_999},
    ],
)
def test_tokens_that_are_not_good_are_refused(
    claims: dict[str, Any], issuer: Issuer, tmp_path: Path
) -> None:
    looks = verifier(issuer, tmp_path)
    assert looks.verify(issuer.token("read:*/*")) is not None
    if claims == {"exp": "soon"}:
        token = jwt.encode(
            {"sub": "app", "aud": AUDIENCE, "exp": None, "scope": ""},
            issuer.key,
            algorithm="ES256",
            headers={"kid": issuer.key_id},
        )
        assert looks.verify(token) is None
        return
    assert looks.verify(issuer.token("read:*/*", **claims)) is None


def test_a_token_of_no_end_is_good_for_years_at_most(issuer: Issuer, tmp_path: Path) -> None:
    """Times that are no times are refused."""
    looks = verifier(issuer, tmp_path)
    for far in (1e307, 1e308, 10**300):
        found = looks.verify(issuer.token("read:*/*", exp=far))
        assert found is not None
        assert 0 < found.expires_ms - NOW_MS <= LIFE_SECONDS_MAX * 1_000
    for wrong in (float("inf"), float("-inf"), float("nan"), 10**400, -(10**400)):
        assert looks.verify(issuer.token("read:*/*", exp=wrong)) is None


def test_signatures_count(issuer: Issuer, tmp_path: Path) -> None:
    looks = verifier(issuer, tmp_path)
    token = issuer.token("read:*/*")
    stranger = Issuer()
    secret = jwt.encode(
        {"sub": "app", "aud": AUDIENCE, "scope": ""},
        issuer.public_file(tmp_path).read_text()[:40],
        algorithm="HS256",
        headers={"kid": issuer.key_id},
    )
    unsigned = jwt.encode({"sub": "app", "aud": AUDIENCE}, None, algorithm="none")
    head, body, signature = token.split(".")
    for wrong in (
        *(stranger.token("read:*/*"), Issuer("k2").token("read:*/*"), secret, unsigned),
        *(f"{head}.{body}.", f"{head}.{body}.{signature[:-4]}AAAA", "eyJ..", "", "x", "é.é.é"),
        token + "x" * 20_000,
    ):
        assert looks.verify(wrong) is None


def test_claims_and_prefixes_follow_the_settings(issuer: Issuer, tmp_path: Path) -> None:
    looks = verifier(
        issuer,
        tmp_path,
        user_claims=("email", "sub"),
        extra_scopes_key="roles",
        scope_prefix="",
        verify_audience=False,
    )
    token = issuer.token(aud=None, email="me@x", scope="read:a/*", roles=["tag:administrator"])
    found = looks.verify(token)
    assert found is not None and (found.user, found.tags) == ("me@x", ["administrator"])
    assert found.permits("a", "read", "q")


def test_keys_are_fetched_from_the_issuer(issuer: Issuer) -> None:
    """When an unknown one is named, too, but not each time."""
    keys = KeyServer(issuer)

    async def scenario(**given: Any) -> None:
        looks = JwtVerifier(settings(**given), lambda: NOW_MS)
        token = issuer.token("read:*/*", iss=keys.address)
        async with asyncio.timeout(patient(15)):
            while looks.verify(token) is None:
                await asyncio.sleep(0.01)
        asked = keys.asked
        for _ in range(20):
            assert looks.verify(Issuer("none").token("read:*/*", iss=keys.address)) is None
            await asyncio.sleep(0)
        assert keys.asked == asked

    try:
        asyncio.run(scenario(jwks_uri=f"{keys.address}/keys"))
        asyncio.run(scenario(issuer=keys.address))
    finally:
        keys.close()


@pytest.mark.parametrize(
    "uri", ["http://keys.example/k", "http://10.0.0.1/k", "ftp://127.0.0.1/k", "file:///k", "k"]
)
def test_keys_are_fetched_over_https(uri: str) -> None:
    for given in ({"jwks_uri": uri}, {"issuer": uri}):
        with pytest.raises(ConfigError, match="auth_oauth2: .*(https://|HTTPS)"):
            JwtVerifier(settings(**given), lambda: NOW_MS)
    for good in ("https://keys.example/k", "http://localhost:1/k", "http://[::1]/k"):
        JwtVerifier(settings(jwks_uri=good), lambda: NOW_MS)


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """Listens for one that fetches keys."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def answer_once(listener: socket.socket, parts: Iterable[bytes], pause: float = 0.0) -> Any:
    """Answer one request, part by part, until the other side goes; a thread."""

    def answer() -> None:
        line, _ = listener.accept()
        with line, contextlib.suppress(OSError):
            line.recv(65_536)
            for part in parts:
                line.sendall(part)
                time.sleep(pause)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("parts", "pause", "text"),
    [
        (itertools.repeat(b"H"), 0.02, "has not answered in"),
        (
            itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b" ")),
            0.02,
            "has not answered in",
        ),
        (
            itertools.chain([b"HTTP/1.1 200 OK\r\n\r\n"], itertools.repeat(b" " * 65_536)),
            0.0,
            "more than",
        ),
        ([b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"], 0.0, "status 302"),
        ([b"+OK\r\n"], 0.0, "no HTTP"),
    ],
)
def test_an_issuer_is_waited_for_and_read_within_bounds(
    stranger: socket.socket, parts: Iterable[bytes], pause: float, text: str
) -> None:
    """One that sends byte by byte, one that sends no end, and one that leads elsewhere."""
    thread = answer_once(stranger, parts, pause)
    uri = f"http://127.0.0.1:{stranger.getsockname()[1]}/"
    with pytest.raises((OSError, ValueError), match=text):
        fetched(uri, ssl.create_default_context(), 1.0 if pause else patient(15.0))
    thread.join(patient(15.0))
    assert not thread.is_alive()


def test_a_key_that_is_none_stops_the_start(tmp_path: Path) -> None:
    wrong = tmp_path / "k.pem"
    wrong.write_text("nothing")
    for path in (wrong, tmp_path / "none.pem"):
        with pytest.raises(ConfigError, match=r"auth_oauth2\.signing_keys"):
            JwtVerifier(settings(key_files=(("k", str(path)),)), lambda: NOW_MS)


@pytest.mark.parametrize(
    ("pattern", "text", "fit"),
    [
        ("*", "", True),
        ("*", "any", True),
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "ab", True),
        ("*b", "ab", True),
        ("a*a", "a", False),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "acb", False),
        ("*b*b*", "ab", False),
        ("", "", True),
        ("", "x", False),
        ("*a*a*a*a*a*a*b", "a" * 255, False),
    ],
)
def test_stars_stand_for_any_text(pattern: str, text: str, fit: bool) -> None:
    assert fits(pattern, text) is fit


def test_scopes_that_mean_nothing_here_are_passed_over() -> None:
    words = ["w.read:a/b", "w.read:a", "w.drop:a/b", "read:a/b", "w.read", "w.read:a/b/c/d", "w."]
    tags, scopes = parsed(words, "w.")
    assert (tags, len(scopes)) == ([], 1)
    assert (scopes[0].vhost, scopes[0].name, scopes[0].routing_key) == ("a", "b", "*")
    assert SCOPES_MAX >= 1_000
    assert like_token("eyJa.b.c") and not like_token("a.b.c") and not like_token("eyJa.b")
