"""Huge pages under a zygote: only whole ones, only private memory."""

from __future__ import annotations

from belljar_jail import hugepages

MAPS = """\
555500000000-555500400000 r--p 00000000 00:00 17 /opt/python/bin/python3
555500400000-555500600000 rw-p 00000000 00:00 17 /opt/python/bin/python3
555500700000-555500d00000 rw-p 00000000 00:00 0 [heap]
7fff00000000-7fff00400000 rw-p 00000000 00:00 0
7fff10000000-7fff10100000 rw-p 00000000 00:00 0
7fff20000000-7fff20400000 rw-s 00000000 00:01 23 /memory (deleted)
7fff30000000-7fff30400000 rw-p 00000000 00:00 0 [stack]
"""


def test_only_whole_pages_of_private_memory_are_collapsed():
    assert [hex(place) for place in hugepages.whole(MAPS.splitlines(keepends=True))] == [
        "0x555500800000", "0x555500a00000", "0x7fff00000000", "0x7fff00200000",
    ]  # fmt: skip


def test_collapsing_keeps_every_value():
    kept = [bytes([number % 256]) * 1000 for number in range(10_000)]
    hugepages.collapse()
    assert all(value == bytes([number % 256]) * 1000 for number, value in enumerate(kept))
