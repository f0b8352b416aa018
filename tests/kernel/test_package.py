from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from pathlib import Path

import belljar_kernel
from belljar_kernel import protocol
from belljar_kernel.reseed import after_fork

FOLDER = Path(belljar_kernel.__file__).parent


def test_its_modules_import_each_other_by_their_whole_names():
    for path in FOLDER.glob("*.py"):
        relative = [node for node in ast.walk(ast.parse(path.read_text())) if getattr(node, "level", 0)]
        assert [ast.unparse(node) for node in relative] == [], path.name


ALONE = """
import cloudpickle.cloudpickle, importlib, sys
sys.modules["belljar_inside.cloudpickle.cloudpickle"] = cloudpickle.cloudpickle  # as it lies beside the kernel
for name in sys.argv[1:]:
    for loaded in [loaded for loaded in sys.modules if loaded.startswith("belljar_kernel")]:
        del sys.modules[loaded]
    try:
        importlib.import_module(f"belljar_kernel.{name}")
    except ImportError as error:
        print(f"{name}: {error}")
"""


def test_every_module_can_be_imported_first():
    names = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("__"))
    command = [sys.executable, "-c", ALONE, *names]
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER.parent, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_digest_is_over_every_source():
    sha = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.py")):
        sha.update(f"{path.name} {len(path.read_bytes())}\n".encode() + path.read_bytes())
    assert belljar_kernel.digest() == sha.hexdigest()
    assert protocol.PROTOCOL == 1


def test_files_stay_small():
    assert {path.name: n for path in FOLDER.glob("*.py") if (n := len(path.read_text().splitlines())) > 250} == {}


def test_a_fork_of_a_zygote_draws_its_own_randomness():
    import os
    import random
    import tempfile

    random.seed(1)
    expected = random.random()
    random.seed(1)
    tempfile._get_candidate_names()  # type: ignore[attr-defined]
    after_fork()
    assert random.random() != expected
    assert tempfile._name_sequence is None  # type: ignore[attr-defined]
    assert os.path.exists(tempfile.gettempdir())


def test_numpy_is_reseeded_when_it_is_loaded(science):
    import numpy

    numpy.random.seed(1)
    expected = numpy.random.random()
    numpy.random.seed(1)
    after_fork()
    assert numpy.random.random() != expected


def test_warming_up_needs_no_pandas(process):
    assert process.request(
        type="configure", env={}, path=[], data_bytes=None, results_bytes=1000, warm=True
    ).events == [{"type": "done", "id": 1}]


def test_warming_up_takes_pandas_when_it_is_there(start, science):
    process = start("-m", "belljar_kernel", path=science)
    assert process.request(
        type="configure", env={}, path=[], data_bytes=None, results_bytes=1000, warm=True
    ).events == [{"type": "done", "id": 1}]
    assert process.run("import pandas").done["status"] == "ok"
    assert process.request(
        type="configure", env={}, path=[], data_bytes=None, results_bytes=1000, warm=True
    ).events == [{"type": "done", "id": 3}]
