"""Tokens for tests: an issuer with keys, in files and over HTTP."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.broker import HOST

AUDIENCE = "warren"


class Issuer:
    """Signs tokens."""

    def __init__(self, key_id: str = "k1") -> None:
        self.key_id = key_id
        self.key = ec.generate_private_key(ec.SECP256R1())

    def token(self, *scopes: str, seconds: float = 300, **claims: Any) -> str:
        """A token for `app`, with scopes that begin with the audience; claims of None go."""
        said = {
            "sub": "app",
            "aud": AUDIENCE,
            "exp": time.time() + seconds,
            "scope": " ".join(f"{AUDIENCE}.{scope}" for scope in scopes),
            **claims,
        }
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(said, self.key, algorithm="ES256", headers={"kid": self.key_id})

    def public_file(self, folder: Path) -> Path:
        """Where its public key is."""
        path = folder / f"{self.key_id}.pem"
        path.write_bytes(
            self.key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return path

    @property
    def public_jwk(self) -> dict[str, Any]:
        """The same as a web key."""
        found = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {**found, "kid": self.key_id, "alg": "ES256", "use": "sig"}


class KeyServer:
    """Tells keys of issuers over HTTP, and counts how often it is asked."""

    def __init__(self, *issuers: Issuer) -> None:
        self.issuers = list(issuers)
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                document: Any = {"keys": [issuer.public_jwk for issuer in outer.issuers]}
                if self.path.startswith("/.well-known"):
                    document = {"jwks_uri": f"{outer.address}/keys"}
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """What its paths begin with."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    def close(self) -> None:
        """Tell no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
