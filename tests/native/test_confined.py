"""A foreign program behind the native walls: Deno runs in it, sees what it was given, keeps its limits, and ends for good."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.native import lab
from tests.reliability import traces

from belljar.engines.base import Exit
from belljar.engines.confinement import Confined, Confinement, Program
from belljar.errors import StartFailed
from belljar.limits import Limits

pytestmark = [
    pytest.mark.usefixtures("native"),
    pytest.mark.skipif(not lab.DENO.exists(), reason="Deno is not installed beside this Python"),
]

FOREVER = "console.log('on'); setInterval(() => {}, 1000);"
ECHO = """
const frame = new Uint8Array(5);
for (let turn = 0; turn < 3; turn++) {
  Deno.stdin.readSync(frame);
  console.log(new TextDecoder().decode(frame), turn + 1);
}
console.error("done");
"""
WORKERS = """
let made = 0;
const source = "data:application/javascript,setInterval(() => {}, 1000)";
for (; made < 1000; made++) { new Worker(source, { type: "module" }); if (made % 10 === 0) console.log(made); }
await new Promise((wake) => setTimeout(wake, 60000));
"""
SANDBOX_OF_A_DYING_HOST = """
import asyncio, pathlib
from tests.native import lab
async def main():
    async with lab.confined(lab.deno(pathlib.Path({folder!r}), {script!r})) as program:
        await lab.some(program.stdout)
        print(lab.pid(program), flush=True)
        await asyncio.sleep(100)
asyncio.run(main())
"""


def test_the_engine_keeps_the_contract(tmp_path: Path):
    async def see() -> list[str]:
        async with lab.engine() as engine:
            lender: Confinement = engine
            program: Confined = await lender.confine(lab.deno(tmp_path, "console.log(1 + 1)"), lab.spec())
            assert (await lab.everything(program.stdout), await program.exit) == (b"2\n", Exit(code=0))
            assert (program.degraded, program.sample().cpu_s > 0, program.sample().peak_memory_bytes > 1 << 20) == (
                (),
                True,
                True,
            )
            await program.close()
            await program.close()
            return [layer.name for layer in (await lender.check()).missing]

    assert asyncio.run(see()) == []


def test_frames_go_in_and_answers_come_out(tmp_path: Path):
    assert lab.outcome(lab.deno(tmp_path, ECHO), b"firstsecndthird") == (
        "first 1\nsecnd 2\nthird 3\n", "done\n", Exit(code=0),
    )  # fmt: skip


def test_workers_webassembly_timers_and_shared_memory_work(tmp_path: Path):
    script = """
const shared = new SharedArrayBuffer(8);
const source = "self.onmessage = (event) => { new Int32Array(event.data)[0] = 7; self.postMessage(0); }";
const worker = new Worker(`data:application/javascript,${source}`, { type: "module" });
worker.postMessage(shared);
await new Promise((seen) => worker.onmessage = seen);
worker.terminate();
const memory = new WebAssembly.Memory({ initial: 1, maximum: 512 });
memory.grow(255);
await new Promise((wake) => setTimeout(wake, 10));
const add = [0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11];
const { instance } = await WebAssembly.instantiate(new Uint8Array(add));
let deep = "";
try { (function down() { return 1 + down(); })(); } catch (error) { deep = error.name; }
console.log(JSON.stringify([new Int32Array(shared)[0], memory.buffer.byteLength, instance.exports.add(40, 2), deep]));
"""
    assert lab.said(lab.deno(tmp_path, script)) == [7, 256 << 16, 42, "RangeError"]


def test_it_sees_its_folders_and_nothing_of_the_host(tmp_path: Path):
    (tmp_path / "canary").write_text("canary")
    script = f"""
const tried = (path) => {{ try {{ return Deno.readTextFileSync(path); }} catch (error) {{ return error.name; }} }};
const names = (path) => Array.from(Deno.readDirSync(path), (entry) => entry.name).sort();
let interfaces = "refused";
try {{ interfaces = Deno.networkInterfaces().map((one) => one.name); }} catch {{ /* as it should be */ }}
console.log(JSON.stringify({{
  canary: tried({str(tmp_path / "canary")!r}), passwd: tried("/etc/passwd"), mounts: tried("/proc/self/mountinfo"),
  root: names("/").filter((name) => !name.startsWith("lib")), proc: names("/proc"), runtime: names("/runtime"),
  environment: Deno.env.toObject(), hostname: Deno.hostname(), user: Deno.uid(), interfaces,
}}));
"""
    assert lab.said(lab.deno(tmp_path, script, "--allow-all")) == {
        "canary": "NotFound", "passwd": "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n", "mounts": "NotFound",
        "root": ["bin", "dev", "etc", "proc", "runtime"], "proc": ["self"], "runtime": ["main.js"],
        "environment": {}, "hostname": "sandbox", "user": 1000, "interfaces": "refused",
    }  # fmt: skip


def test_from_outside_it_has_no_power_no_network_and_a_filter(tmp_path: Path):
    async def look() -> tuple[dict[str, str], list[str], set[str]]:
        async with lab.confined(lab.deno(tmp_path, FOREVER)) as program:
            await lab.some(program.stdout)
            folder = Path(f"/proc/{lab.pid(program)}")
            status = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line
            )
            network = [line.split(":")[0].strip() for line in (folder / "net/dev").read_text().splitlines()[2:]]
            shared = {name for name in os.listdir(folder / "ns") if _same_namespace(folder, name)}
            return status, network, shared

    status, network, shared = asyncio.run(look())
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"], status["Seccomp_filters"]) == ("1", "2", "2")
    assert os.getuid() or int(status["Uid"].split()[0]) > 1_000_000_000
    assert (network, shared) == (["lo"], {"time", "time_for_children"})


def test_a_memory_bomb_is_ended_and_told(tmp_path: Path):
    bomb = "const held = []; while (true) held.push(new Uint8Array(8 << 20).fill(1));"
    assert lab.outcome(lab.deno(tmp_path, bomb))[2] == Exit(signal=signal.SIGKILL, out_of_memory=True)


def test_a_thousand_workers_stop_at_the_limit(tmp_path: Path):
    async def look() -> tuple[int, Exit]:
        most = 0
        limits = Limits(memory_mb=1024, processes=16)
        async with lab.confined(lab.deno(tmp_path, WORKERS), limits) as program:
            tasks = Path(f"/proc/{lab.pid(program)}/task")
            async with asyncio.timeout(lab.PATIENCE_S):
                while await lab.some(program.stdout):
                    most = max(most, len(os.listdir(tasks)) if tasks.exists() else 0)
                return most, await program.exit

    most, end = asyncio.run(look())
    assert 5 < most <= 16 + 32
    assert end != Exit(code=0)


def test_kill_ends_it_and_close_leaves_nothing(tmp_path: Path):
    async def act() -> tuple[Exit, bytes, bool, traces.Traces, traces.Traces]:
        async with lab.engine() as engine:
            program = lab.deno(tmp_path, FOREVER)
            await (await engine.confine(program, lab.spec())).close()  # so that the jail is there before we count
            before = traces.traces()
            started = await engine.confine(program, lab.spec())
            await lab.some(started.stdout)
            folder = Path(f"/proc/{lab.pid(started)}")
            await started.kill()
            end, rest = await started.exit, await lab.everything(started.stdout)
            await started.close()
            there = folder.exists()
            await asyncio.to_thread(traces.eventually, lambda: traces.traces().processes <= before.processes)
            return end, rest, there, before, traces.traces()

    end, rest, there, before, after = asyncio.run(act())
    assert (end, rest, there) == (Exit(signal=signal.SIGKILL), b"", False)
    assert after.processes <= before.processes  # each keeper takes a moment to be gone, also the first one's
    assert replace(after, processes=0) == replace(before, processes=0)


def test_closing_the_engine_ends_it(tmp_path: Path):
    async def act() -> tuple[Path, Confined]:
        async with lab.engine() as engine:
            program = await engine.confine(lab.deno(tmp_path, FOREVER), lab.spec())
            await lab.some(program.stdout)
            folder = Path(f"/proc/{lab.pid(program)}")
        assert (await program.exit).code is None
        await program.close()
        return folder, program

    folder, _ = asyncio.run(act())
    assert traces.eventually(lambda: not folder.exists())


def test_when_the_host_is_killed_it_ends(tmp_path: Path):
    script = SANDBOX_OF_A_DYING_HOST.format(folder=str(tmp_path), script=FOREVER)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as host:
        assert host.stdout is not None
        folder = Path(f"/proc/{int(host.stdout.readline())}")
        assert folder.exists()
        host.kill()
        host.wait()
    assert traces.eventually(lambda: not folder.exists())


def test_when_the_zygote_dies_the_program_does_not_run_on_unseen(tmp_path: Path):
    async def act() -> Exit:
        async with lab.confined(lab.deno(tmp_path, FOREVER)) as program:
            await lab.some(program.stdout)
            parent = traces.processes()[lab.pid(program)].parent
            os.kill(parent, signal.SIGKILL)
            end = await asyncio.wait_for(asyncio.shield(program.exit), lab.PATIENCE_S)
            assert await lab.everything(program.stdout) == b""
            return end

    assert asyncio.run(act()).broken is not None


@pytest.mark.parametrize(
    ("path", "words"),
    [("bin/nothing", "is missing"), ("bin/text", "is not a 64-bit program"), ("bin/empty", "is not a 64-bit program")],
)
def test_what_is_no_program_is_refused_with_its_name(tmp_path: Path, path: str, words: str):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/text").write_text("#!/bin/sh\n" * 20)
    (tmp_path / "bin/empty").write_bytes(b"")
    with pytest.raises(StartFailed, match=words):
        lab.outcome(Program(("/program",), {"/program": tmp_path / path}))


def test_a_program_that_may_not_be_executed_says_so_and_leaves_nothing(tmp_path: Path):
    copy = tmp_path / "program"
    copy.write_bytes(Path("/bin/true").read_bytes())
    copy.chmod(0o644)
    with pytest.raises(StartFailed, match="Permission denied"):
        lab.outcome(Program(("/program",), {"/program": copy}))


def _same_namespace(folder: Path, name: str) -> bool:
    return os.readlink(folder / "ns" / name) == os.readlink(f"/proc/self/ns/{name}")
