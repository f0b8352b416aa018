"""An environment: one CPython and one read-only folder of packages, named by its content."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """What a native sandbox imports from.

    `site` is None for Python alone. `warm` names modules worth importing once, ahead of any sandbox.
    """

    python: Path
    site: Path | None = None
    digest: str = "bare"
    packages: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()


def default_python() -> str:
    """The CPython that this process runs on, without its virtual environment."""
    return os.path.realpath(sys.executable)
