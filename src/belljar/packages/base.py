"""The base environment: the packages that every sandbox has, resolved and unpacked once by uv, then only read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from belljar.errors import PackageError
from belljar.packages.environment import Environment
from belljar.packages.lock import alone
from belljar.packages.programs import find_program
from belljar.packages.progress import Progress as Progress
from belljar.packages.progress import in_silence

PREINSTALLED = (
    "pandas", "numpy", "scipy", "scikit-learn", "matplotlib", "seaborn", "requests", "httpx", "beautifulsoup4", "lxml",
    "openpyxl", "xlsxwriter", "pyyaml", "tabulate", "jinja2", "jsonschema", "pillow", "sympy", "pip",
    "pandas_ta; python_version >= '3.12'",
)  # fmt: skip
WARM = ("numpy", "pandas", "matplotlib", "matplotlib.pyplot")
GENERATION = "1"  # counts up when an environment of an older Belljar must not be reused


def base_environment(python: Path, cache_dir: Path, progress: Progress | None = None) -> Environment:
    """The base environment for one CPython, prepared if it is not there yet.

    Raises:
        PackageError: with what uv said.
    """
    folder = cache_dir / "environments" / _name(python)
    if not (folder / "environment.json").exists():
        with alone(folder.with_suffix(".lock")):
            if not (folder / "environment.json").exists():
                _prepare(python, folder, progress or in_silence)
    facts = json.loads((folder / "environment.json").read_text())
    return Environment(python, folder / "site", facts["digest"], tuple(facts["packages"]), WARM)


def is_prepared(python: Path, cache_dir: Path) -> bool:
    """Whether base_environment() would return at once."""
    return (cache_dir / "environments" / _name(python) / "environment.json").exists()


def _name(python: Path) -> str:
    facts = os.stat(python)
    text = "\0".join([GENERATION, str(python), str(facts.st_size), str(facts.st_mtime_ns), *PREINSTALLED])
    return f"base-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _prepare(python: Path, folder: Path, progress: Progress) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
    try:
        progress("Preparing the base environment (once)", 0.0)
        _install(python, fresh / "site", progress)
        packages = _installed(fresh / "site")
        digest = hashlib.sha256("\0".join([str(python), *packages]).encode()).hexdigest()[:24]
        (fresh / "environment.json").write_text(json.dumps({"digest": digest, "packages": packages}))
        fresh.chmod(0o755)
        fresh.rename(folder)
        progress("Base environment ready", 1.0)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _install(python: Path, site: Path, progress: Progress) -> None:
    """Run uv and turn what it says into progress."""
    command = [
        find_program("uv"), "pip", "install", "--python", str(python), "--target", str(site), "--only-binary", ":all:",
        "--compile-bytecode", "--no-progress", "--no-config", *PREINSTALLED,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    steps = {"Resolved": 0.2, "Prepared": 0.7, "Installed": 0.8, "Bytecode": 0.95}
    said: list[str] = []
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            said.append(line)
            step = next((done for word, done in steps.items() if line.startswith(word)), None)
            if step is not None:
                progress(line.strip(), step)
    if process.wait():
        raise PackageError(
            "the base environment could not be prepared; uv said: "
            + "".join(said).strip()[-800:]
            + " (is a package index reachable? Policy(packages='none') needs none)"
        )


def _installed(site: Path) -> list[str]:
    """`name==version` of everything in a folder, by its metadata folders."""
    found = []
    for path in site.glob("*.dist-info"):
        match = re.fullmatch(r"(.+)-([^-]+)\.dist-info", path.name)
        if match:
            found.append(f"{match[1].replace('_', '-').lower()}=={match[2]}")
    return sorted(found)
