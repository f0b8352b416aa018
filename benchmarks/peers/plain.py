"""Plain Python, without any wall: the interpreter and packages of a Belljar sandbox in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from belljar import compose

NAME = "plain python"


def run(*arguments: str) -> None:
    """Run Python to its end, with the packages of the base environment."""
    subprocess.run([python(), *arguments], env=environment(), stdout=subprocess.DEVNULL, check=True)


def python() -> str:
    """The interpreter that sandboxes get as well, by its virtual environment, which spares it the system's packages."""
    return sys.executable


def environment() -> dict[str, str]:
    """This process's environment, with the sandbox's packages and one thread for numerics, as in a sandbox."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": str(compose.base_environment("native").site)}
