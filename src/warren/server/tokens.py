"""Tokens of OAuth 2.0: JSON web tokens that say what their bearers may do.

Signatures are looked at with PyJWT, which is loaded only where tokens are configured. Keys are
given in files, or fetched from where the issuer has them: at the start, and again when a token
names a key that is not known, but not more often than every `FETCH_SECONDS`. Nothing waits for
that: until the keys are there, tokens signed by them are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from warren.errors import ConfigError
from warren.metadata.grants import PERMISSIONS, GrantedScope, Grants, TokenVerifier

log = logging.getLogger("warren")

FETCH_SECONDS: Final = 10.0
ANSWER_BYTES_MAX: Final = 1_048_576
TOKEN_BYTES_MAX: Final = 16_384
SCOPES_MAX: Final = 1_000
LIFE_SECONDS_MAX: Final = 10 * 365 * 86_400
"""A token that claims to be good for longer is good for this long."""
DISCOVERY: Final = "/.well-known/openid-configuration"
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Those whose keys for looking at a signature are no secrets; others have to be asked for."""
TAG: Final = "tag:"


class TokenSettings(NamedTuple):
    """How tokens are looked at.

    Attributes:
        alone: Whether clients log in by tokens only.
        resource_server_id: The audience that tokens have to name.
        scope_prefix: What scopes for this broker begin with.
        extra_scopes_key: A further claim that has scopes; empty for none.
        user_claims: Claims that name the user, the first that a token has.
        key_files: Files with keys in PEM, by their ids.
        default_key: The id of the key of tokens that name none.
        jwks_uri: Where the issuer's keys are; empty for where its discovery document says.
        issuer: Who has to have issued tokens; empty for anybody with a key.
        verify_audience: Whether tokens have to name the audience.
        algorithms: How tokens may be signed.
        ca_file: Authorities of the issuer's certificate; empty for those of the system.
    """

    alone: bool
    resource_server_id: str
    scope_prefix: str
    extra_scopes_key: str
    user_claims: tuple[str, ...]
    key_files: tuple[tuple[str, str], ...]
    default_key: str
    jwks_uri: str
    issuer: str
    verify_audience: bool
    algorithms: tuple[str, ...]
    ca_file: str


class JwtVerifier(TokenVerifier):
    """Looks at tokens with keys that it has or fetches."""

    def __init__(self, settings: TokenSettings, monotonic_ms: Callable[[], int]) -> None:
        """Read the keys that are given.

        Raises:
            ConfigError: A library is missing, or a key cannot be read.
        """
        super().__init__(settings.alone)
        try:
            import jwt
        except ImportError:
            raise ConfigError("auth_backends names oauth2, which needs the package PyJWT") from None
        for uri in (settings.jwks_uri, settings.issuer):
            try:
                # Of an issuer the name counts, too, if keys are elsewhere.
                if uri and (uri == settings.jwks_uri or not settings.jwks_uri):
                    check_address(uri)
            except ValueError as error:
                raise ConfigError(f"auth_oauth2: {error}") from None
        self._jwt = jwt
        self._settings = settings
        self._monotonic_ms = monotonic_ms
        self._given = {name: self._key_of(path) for name, path in settings.key_files}
        self._fetched: dict[str, Any] = {}
        self._fetched_at = -FETCH_SECONDS
        self._fetching: asyncio.Task[None] | None = None

    def _key_of(self, path: str) -> Any:
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
        from cryptography.x509 import load_pem_x509_certificate

        try:
            with open(path, "rb") as file:
                text = file.read()
            if b"BEGIN CERTIFICATE" in text:
                return load_pem_x509_certificate(text).public_key()
            return load_pem_public_key(text)
        except (OSError, ValueError) as error:
            raise ConfigError(f"auth_oauth2.signing_keys: {path}: {error}") from None

    # --- keys -----------------------------------------------------------------------------------

    def fetch_soon(self) -> None:
        """Fetch the issuer's keys, if there is a place for them and that was not done just now."""
        settings = self._settings
        if not settings.jwks_uri and not settings.issuer:
            return
        now = time.monotonic()
        if self._fetching is not None or now - self._fetched_at < FETCH_SECONDS:
            return
        self._fetched_at = now
        self._fetching = asyncio.get_running_loop().create_task(self._fetch())

    async def _fetch(self) -> None:
        try:
            keys = await asyncio.to_thread(self._keys_of_issuer)
        except (
            *(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError),
            self._jwt.PyJWTError,
        ) as error:
            log.warning("OAuth 2.0: the issuer's keys cannot be fetched: %s", error)
        else:
            self._fetched = keys
        finally:
            self._fetching = None

    def _keys_of_issuer(self) -> dict[str, Any]:
        uri = self._settings.jwks_uri
        if not uri:
            uri = str(self._document(self._settings.issuer.rstrip("/") + DISCOVERY)["jwks_uri"])
        keys = self._jwt.PyJWKSet.from_dict(self._document(uri)).keys
        return {key.key_id: key.key for key in keys if key.key_id}

    def _document(self, uri: str) -> Any:
        context = ssl.create_default_context(cafile=self._settings.ca_file or None)
        document = json.loads(fetched(uri, context))
        if not isinstance(document, dict):
            raise ValueError(f"{uri} answers with no JSON object")
        return document

    # --- tokens ---------------------------------------------------------------------------------

    def verify(self, token: str) -> Grants | None:
        """What the bearer of a token may do; None if the token is not good."""
        if len(token) > TOKEN_BYTES_MAX:
            return None
        settings = self._settings
        try:
            name = self._jwt.get_unverified_header(token).get("kid") or settings.default_key
            key = self._given.get(name) or self._fetched.get(name)
            if key is None:
                self.fetch_soon()
                return None
            claims = self._jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=settings.resource_server_id if settings.verify_audience else None,
                issuer=settings.issuer or None,
                # As RabbitMQ has it, a token that never expires lets nobody in.
                options={"verify_aud": settings.verify_audience, "require": ["exp"]},
            )
            return self._grants(claims)
        except (self._jwt.PyJWTError, ValueError, TypeError, OverflowError):
            # A number of JSON may be infinite, or have more digits than any time.
            return None

    def _grants(self, claims: dict[str, Any]) -> Grants | None:
        user = next(
            (
                claims[claim]
                for claim in self._settings.user_claims
                if isinstance(claims.get(claim), str) and claims[claim]
            ),
            "",
        )
        if not user:
            return None
        left = min(float(claims["exp"]) - time.time(), LIFE_SECONDS_MAX)
        expires_ms = max(1, self._monotonic_ms() + int(1_000 * left))
        said = [*words_of(claims.get("scope"))]
        if self._settings.extra_scopes_key:
            said += words_of(claims.get(self._settings.extra_scopes_key))
        tags, scopes = parsed(said[:SCOPES_MAX], self._settings.scope_prefix)
        return Grants(user, tags, scopes, expires_ms)


def check_address(uri: str) -> SplitResult:
    """An address that keys may be fetched from: of HTTPS, or of this machine.

    Raises:
        ValueError: Who is on the way could put keys of their own in the place of the issuer's.
    """
    parts = urlsplit(uri)
    host = parts.hostname or ""
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(f"{uri} is no address of HTTPS")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(
            f"{uri}: keys are fetched over https:// only, as RabbitMQ does by default; "
            "http:// is for loopback addresses"
        )
    return parts


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name or address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def fetched(uri: str, context: ssl.SSLContext, seconds: float = FETCH_SECONDS) -> bytes:
    """What is at an address; a redirection is not followed.

    Raises:
        ValueError: The address will not do, or the answer.
        OSError: It cannot be reached, or all of it was not there in time.
    """
    # It takes some megabytes, which only those pay who fetch keys.
    from http.client import HTTPException

    parts = check_address(uri)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    deadline = time.monotonic() + seconds
    with socket.create_connection((host, port), seconds) as plain, plain.dup() as line:
        # Timeouts are of each part that is received, and it may come byte by byte.
        left = max(0.0, deadline - time.monotonic())
        timer = threading.Timer(left, _shut, [line])
        timer.daemon = True
        timer.start()
        try:
            secured = parts.scheme == "https"
            with context.wrap_socket(plain, server_hostname=host) if secured else plain as sock:
                text = _answer(uri, parts, host, port, sock)
        except (OSError, ValueError, HTTPException) as error:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{uri} has not answered in {seconds:g} s") from None
            if isinstance(error, HTTPException):
                raise ValueError(f"{uri} answers with no HTTP: {error!r}") from None
            raise
        finally:
            timer.cancel()
            timer.join()
    if time.monotonic() >= deadline:
        raise TimeoutError(f"{uri} has not answered in {seconds:g} s")
    return text


def _answer(uri: str, parts: SplitResult, host: str, port: int, sock: socket.socket) -> bytes:
    from http.client import HTTPConnection

    connection = HTTPConnection(host, port)
    connection.sock = sock
    target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    connection.request("GET", target, headers={"accept": "application/json"})
    with connection.getresponse() as answer:
        if answer.status != 200:
            raise ValueError(f"{uri} answers with status {answer.status}")
        text = answer.read(ANSWER_BYTES_MAX + 1)
    if len(text) > ANSWER_BYTES_MAX:
        raise ValueError(f"{uri} answers with more than {ANSWER_BYTES_MAX} bytes")
    return text


def _shut(line: socket.socket) -> None:
    """Have whoever waits for a connection go on."""
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def words_of(value: object) -> list[str]:
    """Scopes as a claim has them: a text with blanks, or a list."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [word for item in value if isinstance(item, str) for word in item.split()]
    return []


def parsed(words: Iterable[str], prefix: str) -> tuple[list[str], list[GrantedScope]]:
    """The tags and the scopes that words mean; those that mean nothing here are passed over."""
    tags: list[str] = []
    scopes: list[GrantedScope] = []
    for word in words:
        if not word.startswith(prefix):
            continue
        own = word.removeprefix(prefix)
        if own.startswith(TAG):
            tags.append(own.removeprefix(TAG))
            continue
        permission, colon, where = own.partition(":")
        parts = [unquote(part) for part in where.split("/")]
        if colon and permission in PERMISSIONS and len(parts) in (2, 3):
            scopes.append(GrantedScope(permission, *parts, *["*"] * (3 - len(parts))))
    return tags, scopes
