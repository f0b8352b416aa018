"""`belljar attack`: hostile code against a real sandbox, and what came of each attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace


def command(options: Namespace) -> int:
    """Attack the engine; fail when something was not contained."""
    raise NotImplementedError(options)
