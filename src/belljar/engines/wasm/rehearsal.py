"""Finds out which functions of its modules a sandbox calls: when it starts, and for what most code begins with."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from belljar.engines.base import Event
from belljar.engines.channel import BrokenProtocol, FrameReader, encode
from belljar.engines.wasm.deno import ENVIRONMENT, sandbox_command
from belljar.engines.wasm.split import CALLS
from belljar.errors import StartFailed
from belljar.limits import Limits

TIMEOUT_S = 120
CHUNK = 1 << 16
MAIN = "__main__"  # how the linker calls the main module

# What is not called here is not lost, but waits for its half to be loaded at its first call.
_USUAL = [
    "2 + 2",
    """
import collections, datetime, json, math, os, random, re, statistics, time
from dataclasses import dataclass
from pathlib import Path
@dataclass
class Point:
    x: int
    y: float = 0.5
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
points = sorted((Point(n, n / 7) for n in range(5)), key=lambda point: -point.x)
words = collections.Counter(re.findall(r"[a-z]+", "the quick brown fox jumps over the lazy dog".lower()))
print(f"{fibonacci(10):>8,} {math.sqrt(2):.3f} {points[0]!r} {words.most_common(2)} {10 ** 30 // 7}")
print(json.dumps({"when": datetime.datetime(2024, 1, 31).isoformat(), "mean": statistics.mean([1, 2, 4])}, indent=1))
Path("rehearsal.txt").write_text("one\\ntwo\\n")
lines = [line.strip() for line in open("rehearsal.txt")]
os.remove("rehearsal.txt")
random.random(), time.time(), lines, {1: {2, 3}}, (None, True, b"bytes")
""",
]
_FAILING = ["def broken():\n    raise ValueError('rehearsed')\nbroken()", "import is_not_there", "print(1 +"]
_SCIENCE = [
    "import pandas as pd; pd.DataFrame({'a': [1, 2, 3, 4], 'b': [0.5, 1.5, None, 3.5]}).describe()",
    """
import io
import numpy as np
import pandas as pd
table = pd.read_csv(io.StringIO("name,group,value\\nann,x,1.5\\nbob,y,2\\ncid,x,\\n"))
table["double"] = table.value * 2
print(table.head(), table.dtypes, table.value.mean(), len(table[table.value > 1]), table.sort_values("value").shape)
print(np.arange(6).reshape(2, 3) @ np.ones(3), np.random.default_rng(0).normal(size=3), np.linalg.norm([3, 4]))
table.groupby("group").value.sum()
""",
    "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2], label='a')\nplt.title('t')\nplt.legend()\nplt.show()",
]
_TELL = f"""
from pyodide.code import run_js
import pyodide_js
print(run_js('''(module) => {{
  const called = (table) => Array.from({{ length: table.length }}, (_, k) => k).filter((k) => table.get(k) !== null);
  const tables = Object.entries(module.LDSO.loadedLibsByName).map(([path, library]) => [path, library.exports.{CALLS}]);
  return JSON.stringify(Object.fromEntries(tables.map(([path, table]) => [path, table ? called(table) : []])));
}}''')(pyodide_js._module))
"""


def called_functions(deno: Path, folder: Path, snapshot: str, has_packages: bool) -> dict[str, list[int]]:
    """By path of a library, or for the main module: the functions that were called, without imports in counting.

    Raises:
        StartFailed: when the rehearsal does not work.
    """
    options = {"snapshot": snapshot, "packages": has_packages, "diskBytes": 1 << 20, "mounts": []}
    command = sandbox_command(str(deno), str(folder), Limits().memory_mb, options)
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, bufsize=0, env=ENVIRONMENT
        ) as process,
    ):
        deadline = threading.Timer(TIMEOUT_S, process.kill)
        deadline.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            told = _rehearse(process.stdin, process.stdout, has_packages)
            counted: dict[str, list[int]] = json.loads(told)
        except (OSError, ValueError, BrokenProtocol) as failure:
            process.kill()
            said.seek(0)
            words = " ".join(said.read().decode(errors="replace").split())[-400:]
            raise StartFailed(f"the rehearsal of snapshot {snapshot} did not work: {failure} {words}") from failure
        finally:
            deadline.cancel()
            process.kill()
    return counted


def _rehearse(requests: IO[bytes], answers: IO[bytes], has_packages: bool) -> str:
    """Everything that a host asks a kernel for; what the last run printed."""
    usual = [{"type": "run", "code": code, "expect": "ok"} for code in (*_USUAL, *(_SCIENCE if has_packages else ()))]
    failing = [{"type": "run", "code": code, "expect": "error"} for code in _FAILING]
    asking = {"type": "run", "code": "_args, input()", "args": {"n": [1, 2.5]}, "stdin": "line\n", "expect": "ok"}
    orders: list[dict[str, Any]] = [
        {"type": "configure", "env": {"A": "b"}, "path": [], "results_bytes": 1 << 20, "network": [], "warm": 1},
        {"type": "imports", "code": "import json, is_not_there"},
        *usual, *failing, asking,
        {"type": "variables"},
        {"type": "complete", "code": "json.du", "cursor": 7},
        {"type": "run", "code": _TELL, "expect": "ok"},
    ]  # fmt: skip
    reader, told = FrameReader(), ""
    for number, order in enumerate(orders, 1):
        expected = order.pop("expect", None)
        requests.write(encode({**order, "id": number, "count": number}))
        told, done = _answer(answers, reader)
        if done.get("status") != expected:
            raise ValueError(f"{order['type']} number {number} ended with {done}")
    return told


def _answer(answers: IO[bytes], reader: FrameReader) -> tuple[str, Event]:
    """What was printed, and how it ended."""
    printed = ""
    while data := answers.read(CHUNK):
        for event in reader.feed(data):
            if event["type"] == "stdout":
                printed += event["text"]
            elif event["type"] == "done":
                return printed, event
    raise ValueError("it ended early")
