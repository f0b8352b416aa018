"""The user ids of a sandbox and of its live forks: a family shares one block of the host's ids, each member has two.

The first is the one that its code runs as. The second, the door, owns the user namespaces of its forks: whoever owns a
namespace has power over all that is in it, so that must be nobody who runs code.
"""

from __future__ import annotations

USER, DOOR, RELATIVES = 1000, 1001, 2000  # as a member sees itself, its door, and the rest of its family
FAMILY, PAIR = 256, 2


def map_of_first(block: int) -> str:
    """The id map of a sandbox that nobody forked, whose family has the ids from `block` on."""
    return f"{USER} {block} {PAIR}\n{RELATIVES + PAIR} {block + PAIR} {FAMILY - PAIR}\n"


def map_of_fork(own: int, parent: int) -> str:
    """The id map of a fork, by the places of its own pair and of its parent's in the family.

    Pair by pair, since Linux wants each row within one row of the parent's own map.
    """
    rows = []
    for place in range(0, FAMILY, PAIR):
        inside = USER if place == own else RELATIVES + place
        outside = USER if place == parent else RELATIVES + place
        rows.append(f"{inside} {outside} {PAIR}\n")
    return "".join(rows)
