"""A bound on bytes that the sandboxes of a host hold together, such as output over its cap."""

from __future__ import annotations


class Budget:
    """Bytes that may be held at once. The caller gives back what it took."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    @property
    def left(self) -> int:
        """How many bytes are free."""
        return max(0, self.most - self.held)

    def take(self, count: int) -> None:
        """Count bytes as held, whether or not they fit: the caller has asked `left`."""
        self.held += count

    def give_back(self, count: int) -> None:
        """Count bytes as free again."""
        self.held -= count
