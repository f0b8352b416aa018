"""A folder of this machine with something of everything in it, made as private as temporary folders are."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import engines

from belljar import Policy, Sandbox


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    (folder / "notes").mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "prices.csv").write_text("item,price\napple,3\npear,4\n")
    (folder / "notes/today.md").write_text("# today")
    (folder / "notes/today.md").chmod(0o600)
    (tmp_path / "secret.txt").write_text("nobody's business")
    links = {
        "inner": "notes/today.md",
        "up": "../secret.txt",
        "full": str(tmp_path / "secret.txt"),
        "passwd": "/etc/passwd",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    return folder


@pytest.fixture
def special(vault: Path) -> Iterator[socket.socket]:
    """A socket that somebody listens on and a pipe, both in the vault and open to everybody."""
    os.mkfifo(vault / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(vault, os.O_RDONLY)
        try:
            listening.bind(f"/proc/self/fd/{here}/socket")
        finally:
            os.close(here)
        listening.listen()
        listening.setblocking(False)
        for name in ("pipe", "socket"):
            (vault / name).chmod(0o777)
        yield listening


@pytest.fixture(params=["native", "wasm"])
def mounted(request: pytest.FixtureRequest, vault: Path) -> Iterator[Sandbox]:
    """A sandbox of each engine that has the vault at /data, and Python alone."""
    with engines.required():
        made = Sandbox(request.param, policy=Policy(packages="none", mounts={"/data": str(vault)}))
    with made:
        yield made
