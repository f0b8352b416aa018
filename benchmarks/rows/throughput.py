"""How many sandboxes a second several callers at once can make, use and end on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from belljar import Sandbox
from benchmarks.measure import Contestant, Effort, Figure, Row, Target, in_turns
from benchmarks.ours import ENGINE, FORKED, POOLED, Belljar, checked
from benchmarks.peers import bwrap

CALLERS = 8  # at once: making a sandbox is partly waiting
ROUNDS = 3  # at the most: each lasts seconds


def measure(effort: Effort, stage: ExitStack) -> Row:
    """Create, run `1+1` with pandas imported, close; sustained."""
    pooled, forked = (stage.enter_context(Belljar(pool_size)) for pool_size in (2, 0))
    entrants: list[Contestant | Figure] = [
        Contestant(POOLED, lambda: _ours(pooled, effort.seconds), True, Target(100, where={bwrap.NAME: 5})),
        Contestant(FORKED, lambda: _ours(forked, effort.seconds), True),
    ]
    if why := bwrap.absent():
        entrants.append(Figure(bwrap.NAME, absent=why))
    else:
        jailed = Contestant(bwrap.NAME, lambda: _per_second(lambda: bwrap.run("-c", "import pandas"), effort.seconds))
        entrants.append(jailed)
    few = replace(effort, rounds=min(effort.rounds, ROUNDS), discarded=0)
    title = f"new sandboxes per second, {CALLERS} callers"
    return Row("throughput", title, in_turns(entrants, few), unit="/s", better="higher")


def _ours(belljar: Belljar, seconds: float) -> float:
    belljar.fill()
    with belljar.in_charge():
        return _per_second(_use, seconds)


def _use() -> None:
    with Sandbox(ENGINE) as sandbox:
        checked(sandbox.run("1+1"))


def _per_second(once: Callable[[], None], seconds: float) -> float:
    started = time.perf_counter()

    def work() -> int:
        done = 0
        while time.perf_counter() - started < seconds:
            once()
            done += 1
        return done

    with ThreadPoolExecutor(CALLERS) as workers:
        counts = [workers.submit(work) for _ in range(CALLERS)]
        total = sum(count.result() for count in counts)
    return total / (time.perf_counter() - started)
