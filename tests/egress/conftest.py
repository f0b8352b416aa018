"""The world around a proxy: asyncio for the tests, and a certificate that nobody trusts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One PEM file with a key and a self-signed certificate for example.test and other.test."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the test's certificate, and it is not here")
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=DNS:example.test,DNS:other.test"
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=example.test", "-addext", names, "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "certificate.pem").read_text())
    return both
