"""The ids that a sandbox and its live forks have among themselves: each two, given back when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from belljar.errors import StartFailed
from belljar_jail.ids import FAMILY, PAIR, map_of_first, map_of_fork


@dataclass
class Family:
    """A block of ids. The first pair is the eldest's."""

    block: int
    host_id: int  # of the first id, as the host counts
    _taken: set[int] = field(default_factory=lambda: {0})

    def take(self) -> int:
        """The place of a free pair.

        Raises:
            StartFailed: when so many forks live at the same time.
        """
        for place in range(0, FAMILY, PAIR):
            if place not in self._taken:
                self._taken.add(place)
                return place
        raise StartFailed(f"a sandbox and its forks can be at most {FAMILY // PAIR} at a time; close some first")

    def give_back(self, place: int) -> None:
        """Nobody runs as these ids any more."""
        self._taken.discard(place)

    def map_for(self, place: int, parent: int | None) -> str:
        """The id map of a member, beneath the outer wall or beneath its parent."""
        return map_of_first(self.block) if parent is None else map_of_fork(place, parent)
