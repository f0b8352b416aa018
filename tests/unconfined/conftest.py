"""A host without walls: it starts sandboxes in tens of milliseconds, and needs nothing prepared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from belljar import Sandbox
from belljar.testing import UnconfinedHost, World, unconfined


@pytest.fixture
def host() -> Iterator[UnconfinedHost]:
    with unconfined() as made:
        yield made


@pytest.fixture
def sandbox(host: UnconfinedHost) -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


def is_gone(pid: int) -> bool:
    """Whether a process has ended; where nothing reaps orphans, its number stays."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def eventually(holds: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)
