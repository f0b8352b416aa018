"""The whole command for a line of Python, with nothing kept warm."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

from benchmarks.measure import Contestant, Effort, Row, Target, in_turns, milliseconds
from benchmarks.peers import plain

CODE = "print(2+2)"


def measure(effort: Effort, stage: ExitStack) -> Row:  # noqa: ARG001
    """`belljar run -c`, from its start to its end."""
    entrants = [
        Contestant("belljar run", lambda: milliseconds(lambda: run("-c", CODE)), True, Target(300)),
        Contestant(plain.NAME, lambda: milliseconds(lambda: plain.run("-c", CODE))),
    ]
    return Row("command", "belljar run -c 'print(2+2)', nothing warm", in_turns(entrants, effort))


def run(*arguments: str) -> None:
    """`belljar run` to its end."""
    beside = os.path.join(os.path.dirname(sys.executable), "belljar")
    belljar = [beside] if os.path.exists(beside) else [sys.executable, "-m", "belljar"]
    command = [*belljar, "run", "--engine", "native", *arguments]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
