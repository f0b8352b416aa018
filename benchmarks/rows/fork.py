"""A live fork of a sandbox that holds 200 MB, with an empty workspace: the time, and the memory that it adds."""

from __future__ import annotations

import time
from contextlib import ExitStack

from belljar import Limits, Sandbox
from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns, milliseconds
from benchmarks.ours import ENGINE, Belljar, checked
from benchmarks.rows.memory import private_mb

HELD = "import numpy as np; held = np.ones(200 << 17)"
LIMITS = Limits(memory_mb=1024)
NAME = "belljar, live fork"
SETTLE_S = 0.05  # the memory of the last one is being freed


def measure(effort: Effort, stage: ExitStack) -> Row:
    """From the call to a fork that has said hello; it is closed outside of the clock."""
    _, parent = _parent(stage)
    forks: list[Sandbox] = []

    def act() -> float:
        while forks:
            forks.pop().close()
        time.sleep(SETTLE_S)
        return milliseconds(lambda: forks.extend(parent.fork()))

    stage.callback(lambda: [fork.close() for fork in forks])
    return Row(
        "fork", "fork of a live sandbox holding 200 MB", in_turns([Contestant(NAME, act, True, Target(30))], effort)
    )


def measure_memory(effort: Effort, stage: ExitStack) -> Row:
    """Private memory of the fork's keeper and kernel, once it has run something."""
    belljar, parent = _parent(stage)
    forks = [stage.enter_context(parent.fork()[0]) for _ in range(min(effort.idle, 5))]
    for fork in forks:
        checked(fork.run("assert held[0] == 1"))
    try:
        values = tuple(sum(private_mb(pid) for pid in belljar.pids(fork)) for fork in forks)
    except PermissionError:
        figure = Figure(NAME, ours=True, absent="only root may read the memory maps of a sandbox")
    else:
        figure = Figure(NAME, values, ours=True)
    return Row("fork-memory", "private memory of a fork of a sandbox holding 200 MB", (figure,), unit="MB")


def _parent(stage: ExitStack) -> tuple[Belljar, Sandbox]:
    belljar = stage.enter_context(Belljar(0))
    with belljar.in_charge():
        parent = stage.enter_context(Sandbox(ENGINE, limits=LIMITS))
    checked(parent.run(HELD))
    return belljar, parent
