"""The world around a proxy: asyncio for the tests, and a certificate that nobody trusts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.loopback import certificate_in


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One PEM file with a key and a self-signed certificate for example.test and other.test."""
    return certificate_in(tmp_path_factory.mktemp("tls"), "example.test", "other.test")
