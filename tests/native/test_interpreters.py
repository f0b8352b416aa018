"""Other CPythons as the sandbox's Python, through the engine itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.native.interpreters import find_python

from belljar.engines.base import Spec, ignore
from belljar.engines.native.engine import NativeEngine
from belljar.packages.environment import Environment
from belljar.settings import Settings

RUN = {"type": "run", "count": 1, "env": {}, "stdin": None, "cwd": None, "code": "import sys; sys.version_info[:2]"}


@pytest.mark.parametrize("minor", ["3.10", "3.11", "3.12", "3.13", "3.14"])
@pytest.mark.usefixtures("native")
def test_this_python_runs_inside(minor: str):
    python = find_python(minor)
    if python is None:
        pytest.skip(f"there is no Python {minor} on this machine")
    assert asyncio.run(run_in(python)) == [int(part) for part in minor.split(".")]


async def run_in(python: Path) -> object:
    engine = NativeEngine("native", Settings.load())
    try:
        process = await engine.start(Spec("other-python", Environment(python, digest=f"other-{python.name}")))
        try:
            done = await process.request(RUN, ignore)
        finally:
            await process.close()
    finally:
        await engine.close()
    assert done["error"] is None, done
    return done["value"]


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="this machine has no /usr/bin/python3")
@pytest.mark.usefixtures("native")
def test_the_systems_own_python_runs_inside():
    assert asyncio.run(run_in(Path("/usr/bin/python3")))[0] == 3
