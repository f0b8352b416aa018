"""Many sandboxes, one after the other and all at once, with nothing left of them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import probe
from tests.reliability.traces import Traces, descendants, eventually, traces

from belljar import Sandbox, compose

SEQUENTIAL = int(os.environ.get("BELLJAR_TEST_SEQUENTIAL", "300"))
CONCURRENT = int(os.environ.get("BELLJAR_TEST_CONCURRENT", "200"))


@pytest.fixture
def baseline(native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Traces]]:
    """A warm host with a full pool and reserve; after the test there must be no more of anything, and no file may be new."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cache = compose.local_host().settings.cache_dir
    with ThreadPoolExecutor(32) as pool:  # let the threads that a host keeps come first
        list(pool.map(lambda _: use_once(), range(64)))
    fill_pool()
    before = traces()
    yield traces
    fill_pool()
    assert eventually(lambda: traces().is_within(before), 10), (traces(), before)
    assert list(tmp_path.iterdir()) == []
    assert eventually(lambda: not [*cache.glob("**/.new-*"), *cache.glob("canary-*")])
    assert [process for process in descendants(os.getpid()) if process.state == "Z"] == []


def fill_pool() -> None:
    here = compose.local_host()
    environment = compose.base_environment("native")
    engine = probe.engine(here, "native")
    here.background.wait(here.host.pools.ready(engine, environment))
    reserve = probe.reserves(engine)[environment.digest]
    assert eventually(lambda: reserve.ready == reserve.size)


def use_once() -> None:
    with Sandbox("native") as sandbox:
        sandbox.files.write("a", "x")
        assert sandbox.run("6 * 7").value == 42


@pytest.mark.parametrize("count", [SEQUENTIAL, pytest.param(1000, marks=pytest.mark.long)])
def test_many_one_after_the_other_leave_nothing(count: int, baseline: Callable[[], Traces], record_property):
    began = time.monotonic()
    for number in range(count):
        with Sandbox("native") as sandbox:
            assert sandbox.run(f"{number} + 1").value == number + 1
    record_property("seconds", time.monotonic() - began)
    print(f"{count} in {time.monotonic() - began:.1f} s")


def test_two_hundred_live_at_once_all_answer_and_leave_nothing(baseline: Callable[[], Traces]):
    began = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: Sandbox("native"), range(CONCURRENT)))
        try:
            list(pool.map(lambda pair: pair[1].run(f"x = {pair[0]}"), enumerate(made)))
            answers = list(pool.map(lambda sandbox: sandbox.run("x").value, made))
            ready = time.monotonic() - began
            during = baseline()
        finally:
            list(pool.map(lambda sandbox: sandbox.close(), made))
    assert answers == list(range(CONCURRENT))
    assert during.processes >= 2 * CONCURRENT
    print(f"{CONCURRENT} up and answering in {ready:.1f} s, gone after {time.monotonic() - began:.1f} s")


def test_sandboxes_that_end_badly_leave_nothing_either(baseline: Callable[[], Traces]):
    for code in ("import os; os._exit(1)", "import ctypes; ctypes.string_at(0)", "import os; os.fork(); os._exit(2)"):
        for _ in range(5):
            with Sandbox("native") as sandbox:
                assert sandbox.run(code).status == "crashed"
    for _ in range(5):
        with Sandbox("native") as sandbox:
            sandbox.run("import subprocess; child = subprocess.Popen(['sleep', '1000'])")


def test_resets_leave_nothing(baseline: Callable[[], Traces]):
    with Sandbox("native") as sandbox:
        for number in range(30):
            sandbox.run(f"x = {number}")
            sandbox.reset()
        assert sandbox.run("'x' in globals()").value is False
