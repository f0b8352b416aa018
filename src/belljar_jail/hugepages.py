"""Backs a zygote's memory by huge pages where the kernel can: a fork, and its end, then handle one entry, not 512."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from belljar_jail import linux

SIZE = 2 << 20


def collapse() -> None:
    """Do it for all private memory of this process; what the kernel cannot collapse stays as it is."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        places = list(whole(maps))
    for place in places:
        linux.collapse(place, SIZE)


def whole(maps: Iterable[str]) -> Iterator[int]:
    """Where a whole huge page of private memory could lie, from the rows of /proc/self/maps."""
    for row in maps:
        addresses, permissions, _, _, _, *name = row.split(maxsplit=5)
        if permissions == "rw-p" and (not name or name[0].strip() == "[heap]"):
            start, end = (int(address, 16) for address in addresses.split("-"))
            yield from range(-(-start // SIZE) * SIZE, end - SIZE + 1, SIZE)
