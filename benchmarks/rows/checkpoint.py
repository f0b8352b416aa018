"""A state out of a sandbox and into a new one: checkpoint and restore of 1, 10 and 100 MB that do not shrink."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from belljar import Checkpoint, Limits, Sandbox
from benchmarks.measure import Contestant, Effort, Figure, Row, in_turns, milliseconds
from benchmarks.ours import ENGINE, Belljar, checked

SIZES = (1, 10, 100)
LIMITS = Limits(memory_mb=1024)
ROUNDS = 5  # at the most: they are long, and alike
DATA = "import numpy as np; data = np.frombuffer(np.random.default_rng(7).bytes({size} << 20), dtype='u1').copy()"


def measure_checkpoint(effort: Effort, stage: ExitStack) -> Row:
    """From the call to signed bytes."""
    entrants: list[Contestant | Figure] = []
    for size, sandbox in _sandboxes(stage).items():
        entrants.append(
            Contestant(f"belljar, {size} MB", lambda sandbox=sandbox: milliseconds(sandbox.checkpoint), True)
        )
    return Row("checkpoint", "checkpoint of a live sandbox", in_turns(entrants, few(effort)))


def measure_restore(effort: Effort, stage: ExitStack) -> Row:
    """From signed bytes to a new sandbox that has answered."""
    belljar = stage.enter_context(Belljar(0))
    entrants: list[Contestant | Figure] = []
    for size, sandbox in _sandboxes(stage).items():
        data = sandbox.checkpoint().to_bytes()
        entrants.append(
            Contestant(f"belljar, {size} MB", lambda data=data: milliseconds(lambda: _restored(belljar, data)), True)
        )
    return Row("restore", "restore into a new sandbox, and use it", in_turns(entrants, few(effort)))


def _sandboxes(stage: ExitStack) -> dict[int, Sandbox]:
    belljar = stage.enter_context(Belljar(0))
    sandboxes = {}
    with belljar.in_charge():
        for size in SIZES:
            sandboxes[size] = stage.enter_context(Sandbox(ENGINE, limits=LIMITS))
            checked(sandboxes[size].run(DATA.format(size=size)))
    return sandboxes


def _restored(belljar: Belljar, data: bytes) -> None:
    with belljar.in_charge(), Sandbox.restore(Checkpoint.from_bytes(data)) as sandbox:
        checked(sandbox.run("assert len(data)"))


def few(effort: Effort) -> Effort:
    """Not as many rounds as of what is short."""
    return replace(effort, rounds=min(effort.rounds, ROUNDS), discarded=1)
