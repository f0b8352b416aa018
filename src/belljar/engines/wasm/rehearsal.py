"""Finds out which functions of its modules a sandbox calls: when it starts, and for what most code begins with."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

from belljar.engines.base import Event
from belljar.engines.transport.frames import BrokenProtocol, FrameReader, encode
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
    # Each kind of statement has code of its own in Python's compiler.
    """
import asyncio, contextlib, functools, itertools, string, sys, textwrap
from typing import NamedTuple
class Pair(NamedTuple):
    left: int
    right: "int | None" = None
class Base:
    kinds: list[str] = []
    def __init__(self, *args, **options):
        self.args, self.options = args, options
    def __len__(self):
        return len(self.args)
    def __enter__(self):
        return self
    def __exit__(self, *failure):
        return False
class Derived(Base):
    @property
    def first(self):
        return super().__len__() and self.args[0]
    @staticmethod
    def made(*args):
        return Derived(*args, flag=True)
    @classmethod
    def name(cls):
        return cls.__name__
@functools.lru_cache
def depth(n, /, *, step=1):
    return 0 if n <= 0 else 1 + depth(n - step, step=step)
def deep(n):
    return n and 1 + deep(n - 1)
@contextlib.contextmanager
def entered():
    yield 1
def numbers(most):
    n = 0
    while True:
        n += 1
        if n > most:
            break
        elif n % 2:
            continue
        yield n
    yield from (0, -1)
def counter():
    count = 0
    def more():
        nonlocal count
        count += 1
        return count
    return more
async def waits():
    async def each():
        yield 1
    await asyncio.sleep(0)
    return [n async for n in each()]
total = 0
def add(n):
    global total
    total += n
for index, (letter, n) in enumerate(zip("abc", numbers(6)), start=1):
    add(n * index)
else:
    assert total >= 0, "a total"
for text in ("12", "x"):
    try:
        total += int(text) % 5 - 2 ** 3 // 3 << 1
    except (ValueError, TypeError) as failure:
        caught = str(failure)
    else:
        del text
    finally:
        flags = not total and None is None or total in (1, 2)
try:
    raise ExceptionGroup("several", [KeyError("k")])
except* KeyError:
    pass
with entered() as one, Derived.made(1, 2) as two, open("rehearsal.txt", "w") as file:
    print("a line", one, file=file)
with open("rehearsal.txt") as file:
    content = file.read().splitlines()
match Pair(1), {"k": [1, 2, 3]}:
    case (Pair(left=1), {"k": [first, *others]}) if first:
        found = others
    case int(found) | str(found):
        pass
    case _:
        found = None
head, *middle, tail = sorted(range(9), reverse=True)
table = {**{letter: ord(letter) for letter in "xyz"}, "w": (lambda x=1: x)()}
table.update(v=1), table.pop("v"), table.setdefault("u", []).append(2), table.get("none")
list(table.items())[::2], (walrus := 5) + walrus, slice(1, 2), ...
names = {*"abca"} | {"d"} & {"d"} - {"e"} ^ {"f"}
words = ["One", "two"]
words.extend(["three"]), words.insert(0, "zero"), words.remove("two"), words.reverse(), words.sort(key=str.lower)
text = " ".join(words).title().strip().replace("o", "0").split(" ", 1)[0].center(20, "-").encode().decode()
text += f"{total:08.3f}{len(words)!r:>5}{'a' if flags else 'b'}{3 + 4j}"
text += "%s %d %.2f" % ("s", 2, 1.5) + "{:>4}".format(7)
text.startswith(("a", "b")), text.isdigit(), text.find("z"), text.count("e"), text.upper(), text.partition("-")
round(2.567, 1), divmod(7, 2), pow(2, 10, 7), abs(-3), max(1, 2), min([3, 1]), sum(n * n for n in range(5)), hex(255)
7 / 2, 1e300 * 1e10, float("nan") != 0, 0.1 + 0.2, int(3.9), complex(1, 2).real, bin(5), bool([]), -7 // 2
list(itertools.permutations("ab")), list(map(str, filter(None, [0, 1]))), any([0, 1]), all([]), [*reversed([1, 2])]
list(itertools.islice(itertools.chain("ab", itertools.count()), 3)), chr(97), repr("q"), ascii("ü"), isinstance(1, int)
more = counter()
more(), depth(300), deep(900), string.ascii_letters[:3], textwrap.dedent("  x"), "é".casefold(), type(more)
bytes(3), bytearray(b"xy"), memoryview(b"z")[0], json.loads('[1, {"a": null}]'), re.sub("a+", "b", "caat")
getattr(two, "first"), hasattr(two, "none"), vars(two), dir(two)[:1], id(two) > 0, hash("x"), callable(more)
[y for x in range(3) if x for y in (x, x + 1)], [[0] * 2 for _ in range(2)][1][0:1], Derived.name(), len(two)
await waits()
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


def called_functions(
    deno: Path, folder: Path, snapshot: str, libraries: Collection[str], has_packages: bool
) -> dict[str, list[int]]:
    """For the main module and by path of a library: the functions that were called, without imports in counting.

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
            if missing := {MAIN, *libraries} - counted.keys():
                raise ValueError(f"it does not know {', '.join(sorted(missing))}")
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
        *({"type": "run", "code": _TELL, "expect": "ok"} for _ in range(2)),  # the first has its own calls counted
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
            elif event["type"] == "ended":
                raise ValueError(f"its Python ended with {event.get('code')}")
    raise ValueError(f"it ended, or took longer than {TIMEOUT_S} s")
