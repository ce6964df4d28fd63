"""Certificates for tests, made with the command `openssl`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.broker import HOST


def new_certificates(folder: Path, subjects: Mapping[str, str]) -> Path:
    """Make an authority `ca`, with a certificate and a key for each name, by its subject.

    That of `stranger` is of another authority, `other-ca`.
    """
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for authority in ("ca", "other-ca"):
        openssl(
            "req", "-x509", *new_key, "-keyout", f"{authority}.key", "-out", f"{authority}.pem",
            "-subj", f"/CN={authority}", "-days", "2",
        )  # fmt: skip
    (folder / "ext").write_text(f"subjectAltName=IP:{HOST}\n")
    for name, subject in subjects.items():
        authority = "other-ca" if name == "stranger" else "ca"
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem",
            "-CAkey", f"{authority}.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2",
            "-extfile", "ext",
        )  # fmt: skip
    return folder
