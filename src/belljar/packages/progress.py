"""How a long preparation tells that it moves: a sentence, and how far it is from 0 to 1 when that is known."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float | None], None]


def in_silence(message: str, done: float | None) -> None:
    """Progress for nobody."""


def part_of(progress: Progress, start: float, end: float) -> Progress:
    """Progress of one stretch of a longer work; it never steps back."""
    reached = start

    def tell(message: str, done: float | None) -> None:
        nonlocal reached
        if done is not None:
            reached = max(reached, start + (end - start) * min(1.0, done))
        progress(message, reached)

    return tell
