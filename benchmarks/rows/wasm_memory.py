"""What one more idle wasm sandbox costs, many of them at once: memory that no other process shares."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from belljar import Policy
from benchmarks.measure import Effort, Figure, Row
from benchmarks.ours import BARE, WASM, Belljar, checked
from benchmarks.peers import pyodide
from benchmarks.rows.memory import CODE, private_mb

MOST = 20  # each holds a hundred times what a native one does
PEERS = 2  # each takes seconds to start and they are all alike


def measure_bare(effort: Effort, stage: ExitStack) -> Row:
    """Python alone."""
    figures = _ours(BARE, "2+2", _count(effort)), _peers("2+2", min(_count(effort), PEERS), stage)
    return Row("wasm-memory", f"{_title(effort)}, no packages", figures, unit="MB")


def measure_science(effort: Effort, stage: ExitStack) -> Row:
    """A default sandbox, with pandas imported."""
    figures = _ours(Policy(), CODE, _count(effort)), _peers(f"{CODE}; 2+2", min(_count(effort), PEERS), stage)
    return Row("wasm-memory-pandas", f"{_title(effort)}, with pandas", figures, unit="MB")


def denos(root: int) -> set[int]:
    """The Deno processes that a process started, itself or by others, in whatever namespaces they are."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = path.read_text().partition(" (")
        except OSError:
            continue  # it has just ended
        names[int(pid)], _, facts = rest.rpartition(") ")
        parents[int(pid)] = int(facts.split()[1])
    found, above = set(), {root}
    while above:
        above = {pid for pid, parent in parents.items() if parent in above}
        found |= {pid for pid in above if names[pid] == "deno"}
    return found


def _count(effort: Effort) -> int:
    return min(effort.idle, MOST)


def _title(effort: Effort) -> str:
    return f"wasm: private memory of an idle sandbox, {_count(effort)} at once, all answering"


def _ours(policy: Policy, code: str, count: int) -> Figure:
    """Their Deno processes, while all of them are alive and answer; the others of a sandbox are small."""
    with ExitStack() as stage:
        belljar = stage.enter_context(Belljar(0, WASM, policy))
        others = denos(os.getpid())
        sandboxes = [stage.enter_context(belljar.create()) for _ in range(count)]
        for sandbox in sandboxes:
            checked(sandbox.run(code))
        answers = [checked(sandbox.run("6*7")).value for sandbox in sandboxes]
        own = denos(os.getpid()) - others
        if answers != [42] * count or len(own) != count:
            raise RuntimeError(f"{answers.count(42)} of {count} sandboxes answered, {len(own)} processes were there")
        try:
            return Figure("belljar", tuple(private_mb(pid) for pid in own), ours=True)
        except PermissionError:
            return Figure("belljar", ours=True, absent="only root may read the memory maps of a sandbox")


def _peers(code: str, count: int, stage: ExitStack) -> Figure:
    if why := pyodide.absent():
        return Figure(pyodide.NAME, absent=why)
    plain = stage.enter_context(pyodide.prepared())
    pids = [stage.enter_context(plain.started(code, "4")) for _ in range(count)]
    return Figure(pyodide.NAME, tuple(private_mb(pid) for pid in pids))
