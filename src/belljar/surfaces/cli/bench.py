"""`belljar bench`: the figures of this machine, measured by the benchmarks of a source checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from belljar.errors import InvalidRequest

if TYPE_CHECKING:
    from argparse import Namespace


def command(options: Namespace) -> int:
    """Run `python -m benchmarks` in the checkout and return its exit code."""
    checkout = find_checkout()
    if checkout is None:
        raise InvalidRequest("the benchmarks are not installed with Belljar; run this from a checkout of its source")
    arguments = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    # By path rather than by folder: a relative --json stays relative to where the user is.
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.call([sys.executable, "-m", "benchmarks", *arguments], env=environment)


def find_checkout() -> Path | None:
    """The source tree that this package, or the current folder, belongs to."""
    for folder in (Path(__file__).resolve().parents[4], Path.cwd()):
        if (folder / "benchmarks" / "__main__.py").is_file() and (folder / "src" / "belljar").is_dir():
            return folder
    return None
