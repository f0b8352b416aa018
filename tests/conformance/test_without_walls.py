"""The conformance suite on the engine without walls, and on an engine that is an example of another's."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests import engine_example
from tests.engines import go_without

from belljar import Limits, Sandbox
from belljar.engines.conformance import CASES, Case, run_case
from belljar.engines.conformance.differences import WITHOUT_WALLS
from belljar.packages import base
from belljar.packages.environment import default_python
from belljar.settings import Settings
from belljar.testing import ENGINE, UnconfinedHost, unconfined

# The engine without walls runs on this very Python, with what a developer has installed.
IPYTHON = {"display is also found in IPython's place when IPython is missing": "IPython is not missing"}
DIFFERENCES = {
    ENGINE: {**WITHOUT_WALLS, **(IPYTHON if find_spec("IPython") is not None else {})},
    engine_example.NAME: WITHOUT_WALLS,
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, UnconfinedHost]]:
    """One host for each of the two engines."""
    with unconfined(science=True) as own, unconfined(parts=engine_example.PARTS, science=True) as example:
        yield {ENGINE: own, engine_example.NAME: example}


def pairs() -> list[Any]:
    """Both engines with every case. A kernel that was not forked imports pandas anew: each eighth of those will do."""
    return [
        pytest.param(
            engine,
            case,
            id=f"{engine}-{case.name}",
            marks=[
                *([pytest.mark.long] if number % (8 if case.needs or engine != ENGINE else 1) else []),
                *([pytest.mark.engine, pytest.mark.native] if case.needs else []),  # its packages, not its walls
            ],
        )
        for engine in DIFFERENCES
        for number, case in enumerate(CASES)
    ]


@pytest.mark.parametrize(("engine", "case"), pairs())
def test_conformance(engine: str, case: Case, hosts: dict[str, UnconfinedHost]):
    if case.needs and not base.is_prepared(default_python(), Settings.load().cache_dir):
        go_without(f"{', '.join(case.needs)} is not there: `belljar packages sync --engine native`")

    def sandbox(limits: Limits) -> Sandbox:
        return hosts[engine].sandbox(limits=limits)

    differences = run_case(sandbox, case)
    reason = DIFFERENCES[engine].get(case.name)
    if reason is None:
        assert not differences, "\n".join([case.name, *differences])
    else:
        assert differences, f"{engine} is said to differ ({reason}), but it does not"


def test_an_engine_is_less_than_150_lines():
    assert len(Path(engine_example.__file__).read_text().splitlines()) < 150
