"""The conformance suite: what every engine must do, written once as data. It imports no engine."""

from __future__ import annotations

from belljar.engines.conformance import (
    awaits,
    edges,
    errors,
    exits,
    figures,
    files,
    imports,
    inputs,
    limits,
    names,
    results,
    state,
    streams,
    syntax,
    tables,
    text,
    values,
)
from belljar.engines.conformance.case import Case
from belljar.engines.conformance.run import run_case

CASES: tuple[Case, ...] = tuple(
    case
    for noun in (
        streams,
        results,
        values,
        tables,
        figures,
        errors,
        syntax,
        imports,
        exits,
        state,
        awaits,
        inputs,
        files,
        names,
        limits,
        text,
        edges,
    )
    for case in noun.CASES
)

__all__ = ["CASES", "Case", "run_case"]
