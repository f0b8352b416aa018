"""`python -m benchmarks.soak`: thousands of sandboxes, some of which end badly, and then all is as it was."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from belljar import Limits, Sandbox, compose
from belljar.execution import Execution

LIMITS = Limits(memory_mb=128)
CODES = {  # what is run, by how it must end
    "ok": "sum(range({number})) + 1",
    "timeout": "while True: pass",
    "crashed": "import os; os._exit(1)",
    "out_of_memory": "x = [bytearray(1 << 20) for _ in range(1000)]",
}
WEIGHTS = (85, 5, 5, 5)
GROUPS = Path("/sys/fs/cgroup")
SETTLE_S = 20.0
BATCH = 100  # what is handed to the workers at once: it is memory of ours, too
MOST_GROWN_KB = 2048

KILLED = """
import json, sys, threading, time
from belljar import Sandbox, compose
from belljar.service.base import LIBRARY
made = [Sandbox("native", durable=True) for _ in range(int(sys.argv[1]))]
here = compose.local_host()
for number, sandbox in enumerate(made):
    sandbox.run(f"x = {number}")
    here.background.wait(here.host.session(LIBRARY, sandbox.id).guardian.settle())
begun = threading.Semaphore(0)
for sandbox in made:
    code = "print('on', flush=True)\\nwhile True: pass"
    run = lambda sandbox=sandbox: sandbox.run(code, on_event=lambda _: begun.release())
    threading.Thread(target=run, daemon=True).start()
for _ in made:
    begun.acquire()
print(json.dumps([sandbox.id for sandbox in made]), flush=True)
time.sleep(1000)
"""


@dataclass(frozen=True)
class Baseline:
    """What this process and its machine hold on its behalf."""

    descriptors: int
    threads: int
    processes: int
    zombies: int
    groups: int
    mounts: int
    files: int

    @classmethod
    def now(cls, scratch: Path) -> Baseline:
        """Count."""
        states = family(os.getpid())
        return cls(
            descriptors=len(os.listdir("/proc/self/fd")),
            threads=threading.active_count(),
            processes=len(states),
            zombies=sum(state == "Z" for state in states.values()),
            groups=sum(f"/belljar-{os.getpid()}-" in folder for folder, _, _ in os.walk(GROUPS)),
            mounts=len(Path("/proc/self/mountinfo").read_text().splitlines()),
            files=sum(1 for _ in scratch.rglob("*")),
        )


def family(ancestor: int) -> dict[int, str]:
    """The state of every descendant of a process."""
    parents: dict[int, tuple[int, str]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(name)] = (int(fields[1]), fields[0])
    found: dict[int, str] = {}
    level = {ancestor}
    while level:
        level = {pid for pid, (parent, _) in parents.items() if parent in level}
        found |= {pid: parents[pid][1] for pid in level}
    return found


def use(number: int, kind: str, durable: bool) -> str:
    """Make, run, check and close one; how it ended."""
    sandbox = Sandbox("native", limits=LIMITS, durable=durable)
    try:
        ran: Execution = sandbox.run(CODES[kind].format(number=number), timeout=1 if kind == "timeout" else None)
        assert ran.status == kind, f"{kind} became {ran.status}: {ran.error}"
        assert kind != "ok" or ran.value == sum(range(number)) + 1, "an answer of somebody else"
        return ran.status
    finally:
        sandbox.close()


def soak(count: int, workers: int, durable: bool, seed: int, scratch: Path) -> dict[str, object]:
    """Use so many, and tell what is different afterwards."""
    chance = random.Random(seed)
    kinds = chance.choices(list(CODES), WEIGHTS, k=count)
    with ThreadPoolExecutor(workers) as pool:
        first = list(CODES) * 2 * workers  # whatever stays, stays from here
        list(pool.map(use, range(len(first)), first, [durable] * len(first)))
        compose.local_host().background.wait(fill_executor())
        before, resident = settled(scratch, None), memory()
        began, ended = time.monotonic(), Counter[str]()
        for start in range(0, count, BATCH):
            some = kinds[start : start + BATCH]
            ended.update(pool.map(use, range(start, start + BATCH), some, [durable] * len(some)))
        took = time.monotonic() - began
        after = settled(scratch, before)
    grown = memory() - resident
    return {
        "sandboxes": count, "seconds": round(took, 1), "ended": dict(ended), "before": asdict(before),
        "after": asdict(after), "grown_kb": grown, "clean": before == after and grown < MOST_GROWN_KB,
    }  # fmt: skip


async def fill_executor() -> None:
    """Have all threads there that the loop may ever have for what blocks: it starts them one by one."""
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.1) for _ in range(32)))


def settled(scratch: Path, wanted: Baseline | None) -> Baseline:
    """What there is when it has stopped changing, or is what it should be."""
    here = compose.local_host()
    if here.settings.pool_size:
        native = here.host.registry.engine("native")
        here.background.wait(here.host.pools.ready(native, compose.base_environment("native")))
    deadline, last, same = time.monotonic() + SETTLE_S, None, 0
    while time.monotonic() < deadline and same < 10:
        gc.collect()
        now = Baseline.now(scratch)
        same = same + 1 if now == (wanted or last) else 0
        last = now
        time.sleep(0.1)
    return Baseline.now(scratch)


def memory() -> int:
    """Resident memory of this process, in kilobytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def kill_host(sandboxes: int) -> dict[str, object]:
    """kill -9 a host with so many busy durable sandboxes; within how many seconds nothing is left, and who goes on."""
    with subprocess.Popen([sys.executable, "-c", KILLED, str(sandboxes)], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        identities = json.loads(host.stdout.readline())
        parts = family(host.pid)
        host.send_signal(signal.SIGKILL)
    began = time.monotonic()
    first = Sandbox.connect(identities[0])
    while any(pid in parts for pid in family(1)) and time.monotonic() - began < 60:
        time.sleep(0.05)
    gone = time.monotonic() - began
    ran = [first.run("x")]
    first.close()
    for identity in identities[1:]:
        with Sandbox.connect(identity) as sandbox:
            ran.append(sandbox.run("x"))
            sandbox.close()
    goes_on = [each.value for each in ran] == list(range(sandboxes)) and {each.state for each in ran} == {"restored"}
    return {"sandboxes": sandboxes, "gone_after_s": round(gone, 2), "clean": goes_on and gone < 10}


def main(argv: list[str] | None = None) -> int:
    """Soak, print what was found as JSON lines, and end with 1 when something is left."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many sandboxes (default: 10000)")
    parser.add_argument("--workers", type=int, default=8, help="how many at once (default: 8)")
    parser.add_argument("--durable", action="store_true", help="durable ones")
    parser.add_argument("--seed", type=int, default=1, help="which of them end how")
    parser.add_argument("--kill", type=int, nargs="?", const=50, default=0, metavar="N",
                        help="then kill a host with N busy durable sandboxes (default: 50)")  # fmt: skip
    options = parser.parse_args(argv)
    clean = True
    with tempfile.TemporaryDirectory(prefix="belljar-soak-") as scratch:
        os.environ["BELLJAR_STATE_DIR"] = f"{scratch}/state"
        found = [
            soak(options.count, options.workers, options.durable, options.seed, Path(scratch) / "state/checkpoints")
        ]
        if options.kill:
            found.append(kill_host(options.kill))
        compose.close()
    for row in found:
        print(json.dumps(row))
        clean = clean and bool(row["clean"])
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
