"""The page about limitations tells what is so: every difference of the suite, every package without a build, and claims."""

from __future__ import annotations

import re
from pathlib import Path

from tests.wasm.conftest import Probe

from belljar import Sandbox
from belljar.engines.conformance import CASES
from belljar.engines.conformance.differences import DIFFERENCES
from belljar.engines.wasm.engine import OVERHEAD_MB
from belljar.packages.names import NO_BUILD

PAGE = Path(__file__).parents[2] / "docs" / "limitations" / "wasm.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables in one section."""
    section = PAGE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ][2:]


def test_every_difference_is_on_the_page_and_no_other():
    told = {case for case, _ in rows("Cases of the conformance suite that differ")}
    assert told == set(DIFFERENCES["wasm"])
    assert told <= {case.name for case in CASES}


def test_every_package_without_a_build_is_on_the_page():
    told = {name for names, _ in rows("Packages that have no build") for name in names.split(", ")}
    assert told == set(NO_BUILD)


def test_the_overhead_on_the_page_is_the_one_of_the_engine():
    assert f"`memory_mb` + {OVERHEAD_MB} MB + `disk_mb` + 10 %" in PAGE.read_text("utf-8")


def test_what_the_page_says_about_numbers_is_so(value: Probe):
    assert value("import errno\n[errno.ENOENT, errno.ENOSPC]") == [44, 51]
    assert value("import numpy as np\n[np.array([1]).dtype.name, np.argsort([2, 1]).dtype.name]") == ["int32", "int32"]
    assert value("[np.arange(100_000).sum().item(), np.arange(100_000).sum(dtype=np.int64).item()]") == [
        704982704,
        4999950000,
    ]
    assert value("import pandas as pd\n[pd.Series([1]).dtype.name, pd.Series(range(100_000)).sum().item()]") == [
        "int64",
        4999950000,
    ]
    assert value("import sys\nsys.maxsize") == 2**31 - 1


def test_what_cannot_be_done_says_so_and_harms_nothing(bare: Sandbox):
    for code, name in {
        "import subprocess\nsubprocess.run(['ls'])": "OSError",
        "import os\nos.system('ls')": "OSError",
        "import os\nos.fork()": "OSError",
        "import threading\nthreading.Thread(target=print).start()": "RuntimeError",
        "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(print).result()": "RuntimeError",
        "import os\nos.mkfifo('pipe')": "OSError",
        "open('/lib/new', 'w')": "OSError",
    }.items():
        ran = bare.run(code)
        assert ran.status == "error", code
        assert re.fullmatch(f"{name}|AttributeError", ran.error.name), code
        assert (ran.state, bare.run("1 + 1").value) == ("kept", 2)
