"""Plain Pyodide: a fresh Deno process and a full boot each time, as the sandboxes of the field do, with our files.

It has no wall but Deno's own permissions, reads its wheels from a local folder and fetches nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belljar import SandboxError
from belljar.engines.wasm.deno import find_deno
from belljar.packages.pyodide import is_prepared, pyodide_set
from belljar.settings import Settings
from benchmarks.peers.wheels import Site

NAME = "plain Pyodide"
SCRIPT = Path(__file__).with_suffix(".ts")
PACKAGES = ("pandas", "matplotlib")


def absent() -> str | None:
    """Why it cannot be measured here; None when it can."""
    try:
        find_deno()
    except SandboxError as failure:
        return str(failure)
    prepared = is_prepared(Settings.load().cache_dir)
    return None if prepared else "Pyodide is not prepared (belljar packages sync --engine wasm)"


class PlainPyodide:
    """Pyodide's own files and a folder of wheels, made once, before anything is measured."""

    def __init__(self, wheels: Path) -> None:
        settings = Settings.load()
        found = pyodide_set(settings.cache_dir, settings)
        self._core, self._wheels, self._deno = found.core, wheels, find_deno()
        info = json.loads((found.core / "pyodide-lock.json").read_text("utf-8"))["info"]
        lock = {"info": info, "packages": Site(found.site).write_wheels(PACKAGES, wheels)}
        (wheels / "pyodide-lock.json").write_text(json.dumps(lock), "utf-8")

    def run(self, code: str, expected: str) -> None:
        """Boot, load what the code imports, run it, and end."""
        with self.started(code, expected):
            pass

    @contextmanager
    def started(self, code: str, expected: str) -> Iterator[int]:
        """A process that has run the code, which ends with the block; its number."""
        command = [
            str(self._deno), "run", "--quiet", "--no-prompt", "--no-config", "--no-lock", "--cached-only",
            f"--allow-read={self._core},{self._wheels}", str(SCRIPT), str(self._core), str(self._wheels), code,
        ]  # fmt: skip
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            if not re.search(expected, said):
                process.kill()
                raise RuntimeError(f"plain Pyodide failed while it was measured: {said!r}")
            yield process.pid
            process.kill()


@contextmanager
def prepared() -> Iterator[PlainPyodide]:
    """Plain Pyodide with its wheels, which are gone after the block."""
    with tempfile.TemporaryDirectory() as folder:
        yield PlainPyodide(Path(folder))
