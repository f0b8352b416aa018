"""The files of a thread that is ended: what it told, or was told to have written, is handed on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import belljar.engines.wasm
from belljar import Sandbox
from belljar.engines.wasm.deno import find_deno

RUNTIME = Path(belljar.engines.wasm.__file__).with_name("runtime")
FILES = 3000
FREE = 15  # a place of the shared integers that nobody uses
WORKER = """
import { teller } from "./kept.ts";
self.onmessage = ({ data: { shared, port } }) => {
  const tell = teller(port, shared), facts = () => new Float64Array(new SharedArrayBuffer(24));
  self.postMessage("on");
  Atomics.wait(shared, FREE, 0);
  tell(["make", 1, 0, "/workspace", facts()]);
  for (let id = 2; id < FILES + 2; id++) tell(["make", id, 1, `file${id}`, facts()]);
  while (true);
};
"""
CONTROL = """
import { Kept } from "./kept.ts";
import { sharedMemory, TOLD } from "./shared.ts";
const shared = sharedMemory(), { port1, port2 } = new MessageChannel(), kept = new Kept(port1, shared);
const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
worker.postMessage({ shared, port: port2 }, [port2]);
await new Promise((resolve) => worker.onmessage = resolve);
Atomics.store(shared, FREE, 1);
Atomics.notify(shared, FREE);
while (Atomics.load(shared, TOLD) < FILES + 1); // so that nothing is taken meanwhile
worker.terminate();
const before = [...kept.files()].length;
await kept.arrived();
console.log(JSON.stringify([before, [...kept.files()].length]));
Deno.exit(0);
"""
SHOUT = """
import os
data = b"x" * SIZE + b"\\n"
open("own", "w").write("text")
while True:
    try:
        while True:
            os.write(1, data)
    except BaseException:
        pass
"""


def test_what_a_thread_told_arrives_though_it_is_ended_first(tmp_path: Path):
    for name in ("kept.ts", "protocol.ts", "shared.ts"):
        (tmp_path / name).write_text((RUNTIME / name).read_text())
    for name, script in (("worker.ts", WORKER), ("control.ts", CONTROL)):
        (tmp_path / name).write_text(script.replace("FILES", str(FILES)).replace("FREE", str(FREE)))
    command = [str(find_deno()), "run", "--no-check", "--allow-read", "control.ts"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert json.loads(told.stdout) == [0, FILES]


@pytest.mark.parametrize("size", [50, 1 << 20], ids=["often", "much"])
def test_code_that_is_killed_while_it_shouts_leaves_its_files(bare: Sandbox, size: int):
    bare.files.write("given", b"text" * 1000)
    assert bare.run(SHOUT.replace("SIZE", str(size)), timeout=1).state == "reset"
    ran = bare.run("sorted(__import__('os').listdir())")
    assert {"given", "own"} <= set(ran.value)
    assert "files are lost" not in ran.state_reason
    assert bare.files.read("given") == b"text" * 1000
