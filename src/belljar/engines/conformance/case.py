"""A case: a sentence that must hold on every engine, and the steps that show it. Data only; `run.py` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from belljar.engines.conformance.expect import Expected


@dataclass(frozen=True)
class Raises:
    """The call must raise this error of `belljar.errors`, with these words in its sentence."""

    error: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """Run code and compare the whole Execution."""

    code: str
    expected: Expected | Raises
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Interrupted:
    """Run code, interrupt it once it has printed `after`, and compare the whole Execution."""

    code: str
    after: str
    expected: Expected


@dataclass(frozen=True)
class Reset:
    """Forget all state; keep the files."""


@dataclass(frozen=True)
class Write:
    """Write a file through the API."""

    path: str
    data: str | bytes
    expected: Raises | None = None


@dataclass(frozen=True)
class Read:
    """Read a file through the API and compare its bytes."""

    path: str
    expected: bytes | Raises


@dataclass(frozen=True)
class Listing:
    """List a folder through the API and compare (path, type, size); the size of what is no file is not compared."""

    path: str
    expected: list[tuple[str, str, int | None]] | Raises


@dataclass(frozen=True)
class Delete:
    """Delete through the API."""

    path: str
    expected: Raises | None = None


@dataclass(frozen=True)
class Complete:
    """Complete code at a cursor (its end, unless told), and compare what the code would become.

    `only` is all of it and in order; `among` must be in it; `never` must not.
    """

    code: str
    cursor: int | None = None
    only: list[str] | None = None
    among: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variables:
    """Describe the variables: exactly these names, each with at least these facts."""

    expected: Mapping[str, Mapping[str, Any]]


Step = Run | Interrupted | Reset | Write | Read | Listing | Delete | Complete | Variables


@dataclass(frozen=True)
class Case:
    """A sentence and the steps that show it, in one fresh sandbox."""

    name: str
    steps: tuple[Step, ...]
    tags: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)


def case(name: str, *steps: Step, tags: str = "", needs: str = "", **limits: Any) -> Case:
    """Shorthand: tags and needed modules are separated by spaces, other keywords are limits."""
    return Case(name, steps, frozenset(tags.split()), tuple(needs.split()), limits)


def run(code: str, expected: Expected | Raises, **arguments: Any) -> Run:
    """Shorthand for a Run with its arguments."""
    return Run(code, expected, arguments)
