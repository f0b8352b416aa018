"""The yardstick: how long this machine takes for a Python that does nothing."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.measure import Contestant, Effort, Row, in_turns, milliseconds
from benchmarks.peers import plain


def measure(effort: Effort, stage: ExitStack) -> Row:  # noqa: ARG001
    """`python -c pass`."""
    once = Contestant(plain.NAME, lambda: milliseconds(lambda: plain.run("-c", "pass")))
    return Row("python", "python -c pass (the yardstick)", in_turns([once], effort))
