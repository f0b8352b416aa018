"""pip as the client of the user's own index: it looks and downloads, and never builds, installs or runs anything."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from belljar.packages.programs import find_program
from belljar.packages.progress import Progress
from belljar.packages.sources.base import Unavailable, megabytes
from belljar.packages.weight import weight
from belljar_kernel.protocol import WASM_PYTHON

# What the wasm engine can import: Pyodide's own platform, and wheels without compiled parts.
FOR_WASM = (
    "--platform", "pyemscripten_2026_0_wasm32", "--python-version", WASM_PYTHON, "--implementation", "cp",
    "--abi", f"cp{WASM_PYTHON.replace('.', '')}", "--abi", "none", "--only-binary", ":all:",
)  # fmt: skip
LAUNCHER = str(Path(__file__).with_name("launcher.py"))
STALLED_S = 60.0
# The user's settings for an index are kept; those that change what a download is are not.
UNWANTED = ("CONSTRAINT", "DRY_RUN", "NO_BINARY", "PLATFORM", "PREFIX", "REQUIREMENT", "REQUIRE_VIRTUALENV", "TARGET",
            "USE_DEPRECATED", "USER", "VERBOSE", "QUIET", "LOG", "PRE", "REQUIRE_HASHES")  # fmt: skip


def command() -> list[str]:
    """How pip is called: this Python's own, or one that uv fetches where there is none.

    Raises:
        PackageError: when there is neither.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-P", LAUNCHER]
    return [
        find_program("uv"), "run", "--no-config", "--no-project", "--isolated", "--python", sys.executable, "--with",
        "pip", "--", "python", "-P", LAUNCHER,
    ]  # fmt: skip


def environment(scratch: Path) -> dict[str, str]:
    """This process's environment; temporary files go to a folder of ours, and uv's index serves when pip has none."""
    kept = {name: value for name, value in os.environ.items() if name.upper() not in {f"PIP_{x}" for x in UNWANTED}}
    index = kept.get("UV_DEFAULT_INDEX") or kept.get("UV_INDEX_URL")
    if index and "PIP_INDEX_URL" not in kept:
        name, equals, address = index.partition("=")
        kept["PIP_INDEX_URL"] = address if equals and "/" not in name else index
    return kept | {"TMPDIR": str(scratch), "TMP": str(scratch), "TEMP": str(scratch), "PYTHONUTF8": "1"}


def download(
    requirements: Sequence[str], options: Sequence[str], into: Path, size: int, progress: Progress, what: str
) -> None:
    """Download wheels by name and version, without their dependencies, into a fresh folder.

    Raises:
        Unavailable: with what pip said.
    """
    into.mkdir(parents=True)
    scratch = into / "scratch"
    scratch.mkdir()
    said = into / "pip.log"
    argv = [
        *command(), "download", "--no-deps", "--no-input", "--no-cache-dir", "--disable-pip-version-check",
        "--progress-bar", "off", "--timeout", "20", "--retries", "2", "--dest", str(into), *options, "--",
        *requirements,
    ]  # fmt: skip
    with open(said, "wb") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=scratch, env=environment(scratch),
            start_new_session=True,
        )  # fmt: skip
    try:
        _watch(process, into, size, progress, what)
    finally:
        end(process)
    if process.returncode:
        raise Unavailable(complaint(said.read_text("utf-8", "replace")))


def complaint(said: str) -> str:
    """The lines of pip's output that say why."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith(("ERROR", "error"))]
    return "pip said: " + ("; ".join(errors[-2:] or lines[-2:]) or "nothing")[-400:]


def end(process: subprocess.Popen[bytes]) -> None:
    """End pip and whatever it started, if it still runs."""
    if process.poll() is None:
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _watch(process: subprocess.Popen[bytes], folder: Path, size: int, progress: Progress, what: str) -> None:
    """Tell how much has come until it ends; give up when nothing comes any more."""
    seen, since = -1, time.monotonic()
    while True:
        try:
            process.wait(0.25)
            return
        except subprocess.TimeoutExpired:
            pass
        arrived = weight(folder)
        if arrived != seen:
            seen, since = arrived, time.monotonic()
            progress(f"Downloading {what} ({megabytes(min(arrived, size))} of {megabytes(size)})", arrived / size)
        elif time.monotonic() - since > STALLED_S:
            raise Unavailable(f"nothing came for {STALLED_S:.0f} s")
