"""A package that is not preinstalled: a new sandbox with it, to its first answer, the first time and ever after."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from belljar import Sandbox, compose
from belljar.packages.programs import find_program
from belljar.settings import Settings
from benchmarks.measure import Contestant, Effort, Row, Target, in_turns, milliseconds
from benchmarks.ours import ENGINE, checked

NAME, MODULES = "belljar-benchmark", 40
CODE = "import belljar_benchmark; belljar_benchmark.answer"
PEER = "uv pip install, then python"


def measure(effort: Effort, stage: ExitStack) -> Row:
    """A wheel out of a folder, so that no network is measured; every first time is of another version."""
    folder = Path(stage.enter_context(tempfile.TemporaryDirectory(prefix="belljar-bench-")))
    house = folder / "wheels"
    house.mkdir()
    settings = replace(Settings.load(), pool_size=0, wheelhouse=house)
    here = compose.LocalHost(settings)
    stage.callback(_tidy, settings.cache_dir / "environments" / "layers")
    stage.callback(here.close)
    numbers = itertools.count(1)
    write_wheel(house, "0.1")

    def time_of(*packages: str) -> float:
        def once() -> None:
            with compose.using(here), Sandbox(ENGINE, packages=packages) as sandbox:
                checked(sandbox.run(CODE if packages else "1+1"))

        return milliseconds(once)

    def first() -> float:
        version = f"1.{next(numbers)}"
        write_wheel(house, version)
        return time_of(f"{NAME}=={version}")

    def peer() -> float:
        target = folder / "target"
        shutil.rmtree(target, ignore_errors=True)
        return milliseconds(lambda: _install_and_run(house, target))

    time_of(f"{NAME}==0.1")
    entrants = [
        Contestant("belljar, the first time", first, True),
        Contestant("belljar, ever after", lambda: time_of(f"{NAME}==0.1"), True),
        Contestant("belljar, without it", time_of, True),
        Contestant("ever after, more than without it", lambda: time_of(f"{NAME}==0.1") - time_of(), True, Target(20)),
        Contestant(PEER, peer),
    ]
    few = replace(effort, rounds=min(effort.rounds, 10), discarded=1)
    return Row("packages", "new sandbox with a package to its first answer", in_turns(entrants, few))


def write_wheel(house: Path, version: str) -> None:
    """A package of a few dozen modules."""
    stem = f"{NAME.replace('-', '_')}-{version}"
    with zipfile.ZipFile(house / f"{stem}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("belljar_benchmark/__init__.py", f"answer = 42  # {version}")
        for number in range(MODULES):
            wheel.writestr(f"belljar_benchmark/part{number}.py", "def act(x):\n    return x + 1\n" * 50)
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "".join(f"{name},,\n" for name in wheel.namelist()))


def _tidy(layers: Path) -> None:
    """Nobody will ask for these layers again."""
    for facts in layers.glob("*/layer.json"):
        if facts.read_text("utf-8").startswith(f'{{"packages": ["{NAME}=='):
            shutil.rmtree(facts.parent)


def _install_and_run(house: Path, target: Path) -> None:
    install = [
        find_program("uv"), "pip", "install", "--quiet", "--no-config", "--no-index", "--find-links", str(house),
        "--python", sys.executable, "--target", str(target), "--compile-bytecode", f"{NAME}==0.1",
    ]  # fmt: skip
    subprocess.run(install, check=True, stdin=subprocess.DEVNULL)
    env = {"PYTHONPATH": str(target)}
    subprocess.run([sys.executable, "-c", CODE], check=True, env=env, stdin=subprocess.DEVNULL)
