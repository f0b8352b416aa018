"""Attacks from WebAssembly on time and memory that are not Python's: loops in C, buffers and threads of JavaScript."""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path

from belljar.attacks.arena import descendants
from belljar.attacks.case import Cases, Trial
from belljar.engines.wasm.engine import OVERHEAD_MB
from belljar.execution import Execution

attack = Cases(engines=("wasm",))
THREADS = 200  # far more than a sandbox needs, far fewer than would hurt
_WORKER = "new Worker('data:text/javascript,%s', {type: 'module'})"


@attack("W19", "an endless loop, also one that refuses to end, stops at its deadline", timeout_s=1)
def loop(trial: Trial) -> str:
    plain = trial.run("while True: pass")
    trial.expect_usable("kept")
    stubborn = trial.run("""
        while True:
            try:
                while True: pass
            except BaseException: pass
    """)
    trial.expect_usable("reset")
    return f"{trial.expect_status(plain, 'timeout')}, {trial.expect_status(stubborn, 'timeout')} and killed"


@attack("W20", "work in C or JavaScript that never looks at the interrupt is killed", timeout_s=1)
def busy(trial: Trial) -> str:
    codes = {
        "power": "x = 3 ** (1 << 27); len(str(x))",
        "regex": "import re; re.match('(a+)+$', 'a' * 40 + 'b')",
        "sort": "x = sorted('ab' * 5_000_000); x = sorted(x * 3, key=lambda _: 0); [sorted(x) for _ in range(99)]",
        "script": "script('while (true) {}')",
        "handler": "import signal; signal.signal(2, lambda *_: None); script('for (;;);')",
    }
    statuses = {}
    for name, code in codes.items():
        statuses[name] = trial.expect_status(trial.run(code), "timeout", "out_of_memory")
        trial.expect_usable()
    return ", ".join(f"{name}: {status}" for name, status in statuses.items())


@attack("W22", "buffers, memories and strings outside Python's heap end at the memory of the process", memory_mb=64)
def memory_outside_python(trial: Trial) -> str:
    bombs = {
        "ArrayBuffer": "const h = []; for (;;) { const b = new Uint8Array(16 << 20); b.fill(1); h.push(b) }",
        "one ArrayBuffer": "const b = new Uint8Array(1500 * (1 << 20)); b.fill(1); b.length",
        "SharedArrayBuffer": "const h = []; for (;;) { const b = new Uint8Array(new SharedArrayBuffer(16 << 20));"
        " b.fill(1); h.push(b) }",
        "WebAssembly.Memory": "const h = []; for (;;) { const m = new WebAssembly.Memory({initial: 500, maximum: 500});"
        " new Uint8Array(m.buffer).fill(1); h.push(m) }",
        "strings": "const h = []; for (;;) { h.push('x'.repeat(1 << 20) + Math.random()); h.at(-1).charCodeAt(9) }",
        "messages": "for (;;) postMessage(['data', 1, 'x'.repeat(1 << 20)])",
        "beyond the flag": "const m = new WebAssembly.Memory({initial: 1, maximum: 65536}); m.grow(32768);"
        " new Uint8Array(m.buffer).fill(1)",
    }
    cap = trial.limits.memory_mb + OVERHEAD_MB + trial.limits.disk_mb
    peaks = []
    for name, code in bombs.items():
        execution, seen, _ = _watched(trial, f"script({code!r})")
        trial.expect_status(execution, "out_of_memory", "error", "crashed", "timeout")
        peaks.append(max(seen, execution.usage.peak_memory_bytes >> 20))
        trial.expect(peaks[-1] <= cap * 1.1, f"{name}: {peaks[-1]} MB with a cap of {cap}")
        trial.expect_usable()
    return f"{max(peaks)} MB at most, of {cap}"


@attack("W23", "a thousand threads, deep recursion and deep or large results are bounded", memory_mb=128)
def deep_and_many(trial: Trial) -> str:
    many, _, threads = _watched(
        trial, f"script({'for (let i = 0; i < 1000; i++) ' + _WORKER % 'setInterval(Object, 1e6)' + '; 0'!r})"
    )
    trial.expect_status(many, "ok", "error", "crashed", "out_of_memory", "timeout")
    trial.expect(threads <= THREADS, f"{threads} threads")
    trial.sandbox.reset()
    codes = {
        "recursion": "sys.setrecursionlimit(10**6)\ndef f(): return f()\nf()",
        "recursion in JavaScript": "script('(function f() { f() })()')",
        "a nested list": "x = []\nfor _ in range(10**5): x = [x]\nx",
        "a nested JSON": "class N:\n def _repr_json_(s):\n  x = {}\n  for _ in range(9**5): x = [x]\n  return x\nN()",
        "a nested repr": "class N:\n def __repr__(s): return repr(N())\nN()",
        "a large value": "list(range(3_000_000))",
        "a large text": "'x' * (50 << 20)",
    }
    ends = {}
    for name, code in codes.items():
        execution = trial.run(code)
        ends[name] = trial.expect_status(execution, "ok", "error", "crashed", "out_of_memory", "timeout")
        trial.expect_usable()
    return f"{threads} threads; " + ", ".join(f"{name}: {status}" for name, status in ends.items())


def _watched(trial: Trial, code: str) -> tuple[Execution, int, int]:
    """What a run became, and the most memory of its own, in MB, and threads that its process was seen with."""
    memory, threads = 0, 0
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(trial.run, code)
        while not future.done():
            for process in descendants():
                if process.name == "deno" and process.pid not in trial.others:
                    facts = _facts(process.pid)
                    memory = max(memory, facts.get("RssAnon", 0) + facts.get("RssShmem", 0) >> 10)
                    threads = max(threads, facts.get("Threads", 0))
            time.sleep(0.02)
        return future.result(), memory, threads


def _facts(pid: int) -> dict[str, int]:
    try:
        rows = [row.split() for row in Path(f"/proc/{pid}/status").read_text().splitlines()]
    except OSError:
        return {}
    return {row[0].rstrip(":"): int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
