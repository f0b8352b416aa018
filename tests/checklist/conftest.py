"""Sandboxes for the checklist: one shared by tests that leave nothing behind, and a fresh one for those that do."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from belljar import Sandbox
from belljar.engines.conformance import picture
from belljar.execution import Result

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def fresh() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """The text of one of the seeds' examples, word for word."""
    return lambda name: (PROGRAMS / name).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def decoded() -> Callable[[Result], dict[str, Any]]:
    """What a result's PNG shows."""

    def decode(result: Result) -> dict[str, Any]:
        assert result.png is not None
        assert base64.b64decode(result.png, validate=True) == result.to_bytes("png")
        return picture.describe("png", result.png)

    return decode
