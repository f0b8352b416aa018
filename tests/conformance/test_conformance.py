"""Runs the conformance suite on every engine of this version; an engine that cannot run says why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from tests.engines import go_without

from belljar import EngineUnavailable, Limits, Policy, Sandbox, compose
from belljar.engines.conformance import CASES, Case, run_case
from belljar.engines.conformance.differences import DIFFERENCES
from belljar.settings import Settings

MODULES = sorted({module for case in CASES for module in case.needs})


@cache
def available(engine: str) -> tuple[str, frozenset[str]]:
    """Why the engine cannot run, if it cannot, and which modules it has."""
    try:
        with Sandbox(engine) as sandbox:
            code = "import importlib.util\n[m for m in _args if importlib.util.find_spec(m)]"
            return "", frozenset(sandbox.run(code, args=MODULES).value)
    except EngineUnavailable as unavailable:
        return str(unavailable), frozenset()


@pytest.fixture(scope="module")
def unhurried() -> Iterator[compose.LocalHost]:
    """A host that keeps nothing ready."""
    host = compose.LocalHost(replace(Settings.load(), pool_size=0))
    yield host
    host.close()


def pairs() -> list[Any]:
    """Every engine with every case. A wasm sandbox takes half a second to start: `make test` takes each eighth there."""
    return [
        pytest.param(
            engine,
            case,
            id=f"{engine}-{case.name}",
            marks=[pytest.mark.long] if engine == "wasm" and number % 8 else [],
        )
        for engine in sorted(DIFFERENCES)
        for number, case in enumerate(CASES)
    ]


@pytest.mark.parametrize(("engine", "case"), pairs())
def test_conformance(engine: str, case: Case, unhurried: compose.LocalHost):
    problem, modules = available(engine)
    if problem:
        go_without(f"{engine}: {problem}")
    if missing := [module for module in case.needs if module not in modules]:
        go_without(f"{engine} has no {', '.join(missing)}")

    # Without packages where the case needs none: a wasm sandbox is up in half the time.
    packages = "none" if engine == "wasm" and not case.needs else ()  # and nothing is ever added

    def sandbox(limits: Limits) -> Sandbox:
        return Sandbox(engine, limits=limits, policy=Policy(packages=packages))

    # A pool that keeps wasm sandboxes ready costs more than it saves here.
    with compose.using(unhurried) if engine == "wasm" else nullcontext():
        differences = run_case(sandbox, case)
    reason = DIFFERENCES[engine].get(case.name)
    if reason is None:
        assert not differences, "\n".join([case.name, *differences])
    else:
        assert differences, f"{engine} is said to differ ({reason}), but it does not"
