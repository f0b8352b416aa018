"""The interpreters of this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_python(minor: str) -> Path | None:
    """A CPython of that version on this machine."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(versions.glob(f"{minor}.*/bin/python{minor}"))
    beside = shutil.which(f"python{minor}")
    system = Path(f"/usr/bin/python{minor}")
    return found[-1] if found else system if system.exists() else Path(beside) if beside else None
