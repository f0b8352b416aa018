"""What a zygote imports lies in one piece, and what is made later lies together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import belljar_jail

PROGRAM = """
from belljar_jail import arenas
import email.message, http.client, decimal
arenas.reserve()
places = {id(block) // arenas.ARENA for block in arenas._kept}
print(len(places) >= 40, max(places) - min(places) < 1.5 * len(places))
arenas.fill_holes()
sizes = range(160, 513, 16)
blocks = [[arenas._block(size) for _ in range(8)] for size in sizes]
print(sum(id(eight[7]) - id(eight[0]) == 7 * size for eight, size in zip(blocks, sizes)) >= len(sizes) - 3)
print(len({id(eight[0]) // arenas.ARENA for eight in blocks}) <= 3)
"""


def ran(program: str, **environment: str) -> list[str]:
    root = str(Path(belljar_jail.__file__).parents[1])
    command = [sys.executable, "-c", program]
    env = {"PYTHONPATH": root, **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_arenas_are_in_a_row_and_new_objects_begin_pools():
    assert ran(PROGRAM) == ["True"] * 4


@pytest.mark.parametrize("allocator", ["malloc", "pymalloc_debug"])
def test_with_another_allocator_little_is_lost(allocator: str):
    usage = "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) < 150_000)"
    act = "from belljar_jail import arenas; arenas.reserve(); arenas.fill_holes();" + usage
    assert ran(act, PYTHONMALLOC=allocator) == ["True"]
