"""How fast bytes come from a server on loopback: into a wasm sandbox by way of the host, and to a plain Python."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from belljar import Policy, Sandbox
from benchmarks.measure import Contestant, Effort, Row, in_turns
from benchmarks.ours import WASM, Belljar, checked
from benchmarks.rows.egress import BY_URL, MEGABYTES, ROUNDS, directly, server


def measure(effort: Effort, stage: ExitStack) -> Row:
    """One download, over and over; each of ours in a sandbox of its own, whose start is not counted."""
    port = server(stage)
    belljar = stage.enter_context(Belljar(0, WASM))
    entrants = [
        Contestant("belljar", lambda: _ours(belljar, port), True),
        Contestant("directly, plain python", lambda: directly(port)),
    ]
    few = replace(effort, rounds=min(effort.rounds, ROUNDS))
    title = f"wasm: {MEGABYTES} MB from a server on loopback"
    return Row("wasm-egress", title, in_turns(entrants, few), unit="MB/s", better="higher")


def _ours(belljar: Belljar, port: int) -> float:
    policy = Policy(network=[f"127.0.0.1:{port}"], packages="none")
    with belljar.in_charge(), Sandbox(WASM, policy=policy) as sandbox:
        return float(checked(sandbox.run(BY_URL.replace("{port}", str(port)))).value)
