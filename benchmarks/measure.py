"""Measures contestants in turns, so that noise hits all of them. Knows nothing of what they do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Effort:
    """How much to measure: rounds, rounds thrown away first, seconds of load and of rest, idle sandboxes."""

    rounds: int
    discarded: int
    seconds: float
    idle: int
    rest_s: float = 0.0  # before each row


QUICK = Effort(rounds=3, discarded=1, seconds=1.0, idle=4)
FULL = Effort(rounds=20, discarded=2, seconds=5.0, idle=200, rest_s=10.0)


@dataclass(frozen=True)
class Target:
    """What a figure should reach: a limit in the row's unit, or `times` a peer's figure.

    With `lead` it also has to be that many times better than the peer named there. `where` has what peers reached on
    the machine that the limit is for: on any other, and in a busier hour, the limit counts as a ratio to them.
    """

    limit: float
    times: str | None = None
    lead: tuple[float, str] | None = None
    where: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Contestant:
    """Something that can be measured again and again; `once` returns one value in the row's unit."""

    name: str
    once: Callable[[], float]
    ours: bool = False
    target: Target | None = None
    per_round: int = 1


@dataclass(frozen=True)
class Figure:
    """What one contestant reached; `absent` says why there are no values."""

    name: str
    values: tuple[float, ...] = ()
    ours: bool = False
    target: Target | None = None
    absent: str | None = None

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.values)

    @property
    def p90(self) -> float:
        """Nine of ten values are no larger."""
        return sorted(self.values)[max(0, -(-len(self.values) * 9 // 10) - 1)]


@dataclass(frozen=True)
class Row:
    """One question, and everybody's figures."""

    name: str
    title: str
    figures: tuple[Figure, ...]
    unit: str = "ms"
    better: Literal["lower", "higher"] = "lower"
    note: str = ""
    _by_name: dict[str, Figure] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {figure.name: figure for figure in self.figures if figure.values})

    def advantage(self, figure: Figure) -> dict[str, float]:
        """How many times better than each peer; below 1 when it is worse."""
        if not figure.ours or not figure.values:
            return {}
        peers = [peer for peer in self.figures if not peer.ours and peer.values]
        ratios = {peer.name: peer.p50 / figure.p50 for peer in peers}
        return ratios if self.better == "lower" else {name: 1 / ratio for name, ratio in ratios.items()}

    def limit(self, figure: Figure) -> float | None:
        """The target in the row's unit; None when there is none, or its peer was not measured."""
        if figure.target is None:
            return None
        if figure.target.times is None:
            return figure.target.limit
        peer = self._by_name.get(figure.target.times)
        return figure.target.limit * peer.p50 if peer else None

    def ratios(self, figure: Figure) -> dict[str, float]:
        """How many times better than a peer the limit is where it was set."""
        if figure.target is None:
            return {}
        limit, peers = figure.target.limit, figure.target.where
        return {name: peer / limit if self.better == "lower" else limit / peer for name, peer in peers.items()}

    def is_met(self, figure: Figure) -> bool | None:
        """Whether the median reaches the target; None when that cannot be told."""
        limit = self.limit(figure)
        if figure.target is None or limit is None or not figure.values:
            return None
        reached = figure.p50 <= limit if self.better == "lower" else figure.p50 >= limit
        if figure.target.lead is None:
            return reached
        least, peer = figure.target.lead
        advantage = self.advantage(figure)
        return reached and advantage[peer] >= least if peer in advantage else None

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON data."""
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "better": self.better,
            "note": self.note,
            "figures": [self._figure(figure) for figure in self.figures],
        }

    def _figure(self, figure: Figure) -> dict[str, Any]:
        known = bool(figure.values)
        return {
            "name": figure.name,
            "ours": figure.ours,
            "p50": round(figure.p50, 4) if known else None,
            "p90": round(figure.p90, 4) if known else None,
            "mean": round(statistics.fmean(figure.values), 4) if known else None,
            "values": [round(value, 4) for value in figure.values],
            "target": None if figure.target is None else asdict(figure.target),
            "met": self.is_met(figure),
            "times_better_than": {name: round(ratio, 3) for name, ratio in self.advantage(figure).items()},
            "times_to_reach": {name: round(ratio, 3) for name, ratio in self.ratios(figure).items()},
            "absent": figure.absent,
        }


def in_turns(entrants: Sequence[Contestant | Figure], effort: Effort) -> tuple[Figure, ...]:
    """Measure all contestants, one after the other in each round; Figures, which are absent peers, pass through."""
    values: dict[str, list[float]] = {entrant.name: [] for entrant in entrants}
    for number in range(effort.discarded + effort.rounds):
        for entrant in entrants:
            if isinstance(entrant, Contestant):
                measured = [entrant.once() for _ in range(entrant.per_round)]
                if number >= effort.discarded:
                    values[entrant.name] += measured
    return tuple(
        Figure(entrant.name, tuple(values[entrant.name]), entrant.ours, entrant.target)
        if isinstance(entrant, Contestant)
        else entrant
        for entrant in entrants
    )


def milliseconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000
