"""Another pandas than the preinstalled one: a new sandbox with it, the first time and ever after, to an answer.

Importing it is not part of it: that takes as long as anywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from belljar import Sandbox, compose
from belljar.packages import pip
from belljar.packages.requirements import versions
from belljar.settings import Settings
from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns, milliseconds
from benchmarks.ours import ENGINE, checked

TITLE = "new sandbox with another pandas to an answer"
SHARED = ("environments", "inside", "interpreters", "proofs")
NAMES = ("belljar, the first time", "belljar, ever after", "belljar, without it", "ever after, more than without it")


def measure(effort: Effort, stage: ExitStack) -> Row:
    """Its wheel is fetched before, so that no network is measured; for the first time, all that was kept is removed."""
    folder = Path(stage.enter_context(tempfile.TemporaryDirectory(prefix="belljar-bench-")))
    folder.chmod(0o755)
    settings = Settings.load()
    here = compose.LocalHost(
        replace(settings, pool_size=0, cache_dir=shared(settings.cache_dir, folder / "cache"), wheelhouse=folder)
    )
    stage.callback(here.close)
    with compose.using(here):
        preinstalled = versions(compose.base_environment(ENGINE).packages)["pandas"]
    wanted = fetched(preinstalled, folder)
    if wanted is None:
        absent = "no other pandas could be fetched"
        return Row("pandas", TITLE, tuple(Figure(name, absent=absent) for name in NAMES))
    before = os.environ.get("UV_NO_INDEX")
    os.environ["UV_NO_INDEX"] = "1"
    stage.callback(_set, "UV_NO_INDEX", before)

    def time_of(*packages: str) -> float:
        def once() -> None:
            with compose.using(here), Sandbox(ENGINE, packages=packages) as sandbox:
                checked(sandbox.run("1+1"))

        return milliseconds(once)

    def first() -> float:
        for place in (here.settings.cache_dir / "environments" / "layers", here.settings.cache_dir / "uv"):
            shutil.rmtree(place, ignore_errors=True)
        return time_of(wanted)

    first()
    acts = (first, lambda: time_of(wanted), time_of, lambda: time_of(wanted) - time_of())
    entrants = [
        Contestant(name, act, True, Target(20) if name == NAMES[-1] else None)
        for name, act in zip(NAMES, acts, strict=True)
    ]
    return Row("pandas", TITLE, in_turns(entrants, replace(effort, rounds=min(effort.rounds, 10), discarded=1)))


def shared(cache: Path, copy: Path) -> Path:
    """A cache of its own, with all of another one but its layers."""
    for name in SHARED:
        (copy / name).mkdir(parents=True)
        for path in (cache / name).glob("*"):
            if path.name not in ("layers", "built"):
                (copy / name / path.name).symlink_to(path)
    return copy


def fetched(preinstalled: str, folder: Path) -> str | None:
    """An older pandas, as pip finds it; None when it finds none."""
    argv = [
        *pip.command(), "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check",
        "--dest", str(folder), f"pandas<{preinstalled}",
    ]  # fmt: skip
    if subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode:
        return None
    return f"pandas=={next(folder.glob('pandas-*.whl')).name.split('-')[1]}"


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
