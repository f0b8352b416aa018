"""What one more idle sandbox costs: memory that no other process shares."""

from __future__ import annotations

from contextlib import ExitStack

from belljar import Sandbox
from benchmarks.measure import Effort, Figure, Row, Target
from benchmarks.ours import ENGINE, FORKED, POOLED, Belljar, checked
from benchmarks.peers import ipykernel

CODE = "import pandas as pd"
LIMIT = Target(8, where={ipykernel.NAME: 90})
NOTEBOOKS = 3  # each takes a second to start and they are all alike


def measure(effort: Effort, stage: ExitStack) -> Row:
    """Private memory of the keeper and the kernel, with pandas imported."""
    figures = [_ours(POOLED, stage.enter_context(Belljar(2)), effort.idle, LIMIT, stage)]
    figures.append(_ours(FORKED, stage.enter_context(Belljar(0)), effort.idle, LIMIT, stage))
    figures.append(_notebooks(min(effort.idle, NOTEBOOKS), stage))
    return Row("memory", "private memory of an idle sandbox with pandas", tuple(figures), unit="MB")


def private_mb(pid: int) -> float:
    """Pages that only this process has."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rows:
        kilobytes = [int(row.split()[1]) for row in rows if row.startswith("Private_")]
    return sum(kilobytes) / 1024


def _ours(name: str, belljar: Belljar, count: int, target: Target, stage: ExitStack) -> Figure:
    sandboxes = []
    for _ in range(count):
        belljar.fill()
        with belljar.in_charge():
            sandboxes.append(stage.enter_context(Sandbox(ENGINE)))
        checked(sandboxes[-1].run(CODE))
    try:
        values = [sum(private_mb(pid) for pid in belljar.pids(sandbox)) for sandbox in sandboxes]
    except PermissionError:
        return Figure(name, ours=True, target=target, absent="only root may read the memory maps of a sandbox")
    return Figure(name, tuple(values), ours=True, target=target)


def _notebooks(count: int, stage: ExitStack) -> Figure:
    if why := ipykernel.absent():
        return Figure(ipykernel.NAME, absent=why)
    notebooks = [stage.enter_context(ipykernel.notebook()) for _ in range(count)]
    for notebook in notebooks:
        notebook.run(CODE)
    return Figure(ipykernel.NAME, tuple(private_mb(notebook.pid) for notebook in notebooks))
