"""Checklist rows E: defects of the sandbox of seed 004 that Belljar must not have, as far as the library goes."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.checklist.processes import host_processes, wait_until_gone

from belljar import AsyncSandbox


def test_e20_newlines_are_preserved(shared):
    assert shared.run("print(5);print(5)").stdout == "5\n5\n"


def test_e21_a_literal_backslash_n_in_code_runs(shared):
    assert shared.run("a='hello world\\n'\nprint(a)").stdout == "hello world\n\n"
    assert shared.run(r"a='hello world\n'" + "\na").value == "hello world\n"


def test_e22_a_submodule_import_runs(shared):
    ex = shared.run("import matplotlib.pyplot as plt\nfig = plt.figure()\nplt.close(fig)")
    assert (ex.status, ex.stderr, ex.results) == ("ok", "", [])


def test_e25_standard_error_on_success_does_not_hide_standard_output(shared):
    ex = shared.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (ex.status, ex.stdout, ex.stderr) == ("ok", "out\n", "err\n")


def test_e29_cancelling_the_task_ends_the_run():
    marker = f"75319.{os.getpid()}"

    async def main() -> None:
        async with AsyncSandbox() as sandbox:
            code = f"import subprocess\nx = 1\nsubprocess.run(['sleep', '{marker}'])"
            task = asyncio.create_task(sandbox.run(code))
            while not host_processes(marker):
                assert not task.done()
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(wait_until_gone, marker) == []
            assert (await sandbox.run("2 + 2")).value == 4

    asyncio.run(asyncio.wait_for(main(), 60))


def test_e30_values_that_are_no_json_return_something_useful(shared):
    array = shared.run("import numpy as np\nnp.array([[1, 2], [3, 4]])")
    frame = shared.run("import pandas as pd\npd.DataFrame({'x': [1, 2]})")
    own = shared.run("class Point:\n    def __repr__(self): return 'Point(1, 2)'\nPoint()")
    mixed = shared.run("{'p': Point(), 'n': np.float32(0.5), 's': {1}}")
    assert (array.value, array.text) == ([[1, 2], [3, 4]], "array([[1, 2],\n       [3, 4]])")
    assert frame.value == [{"x": 1}, {"x": 2}]
    assert (own.status, own.value, own.text) == ("ok", None, "Point(1, 2)")
    assert mixed.status == "ok"
    assert "Point(1, 2)" in mixed.text
