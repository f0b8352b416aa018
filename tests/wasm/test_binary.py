"""Modules are rewritten so that V8 still takes them, and so that what is no longer exported is in the table."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from belljar.engines.wasm import binary
from belljar.engines.wasm.deno import find_deno
from belljar.engines.wasm.encoding import MAGIC, Reader, signed
from belljar.errors import StartFailed

TWO, FORTY, PLACE = 2, 40, 1 << 20


def section(kind: int, body: bytes) -> bytes:
    return bytes([kind, len(body)]) + body


def name(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def returns(number: int) -> bytes:
    return b"\x04\x00\x41" + bytes([number]) + b"\x0b"


# Two functions of which one is in the table, a table of references, a memory with data, a constant and a variable.
MODULE = MAGIC + b"".join(
    [
        section(0, name("dylink.0") + b"\x01\x04\x00\x00\x00\x00"),
        section(0, name("name") + b"\x00\x01\x00"),
        section(1, b"\x01\x60\x00\x01\x7f"),
        section(2, b"\x01" + name("env") + name("outer") + b"\x03\x7f\x00"),
        section(3, b"\x02\x00\x00"),
        section(4, b"\x02\x70\x00\x01\x6f\x00\x00"),
        section(5, b"\x01\x00\x01"),
        section(6, b"\x02\x7f\x00\x41\x80\x80\xc0\x00\x0b\x7f\x01\x41\x07\x0b"),
        section(
            7,
            b"\x06" + name("two") + b"\x00\x00" + name("forty") + b"\x00\x01" + name("memory") + b"\x02\x00"
            + name("place") + b"\x03\x01" + name("variable") + b"\x03\x02" + name("table") + b"\x01\x00",
        ),
        section(9, b"\x01\x00\x41\x00\x0b\x01\x00"),
        section(12, b"\x01"),
        section(10, b"\x02" + returns(TWO) + returns(FORTY)),
        section(11, b"\x01\x00\x41\x00\x0b\x03abc"),
    ]
)  # fmt: skip
LOOK = """
const module = new WebAssembly.Module(Deno.readFileSync(Deno.args[0]));
const memory = new WebAssembly.Memory({ initial: 3, maximum: 65536 });
const outer = new WebAssembly.Global({ value: "i32" }, 1);
const { exports } = new WebAssembly.Instance(module, { env: { memory, outer } });
const called = Array.from({ length: exports.table.length }, (_, k) => exports.table.get(k)?.() ?? null);
const start = [...new Uint8Array(exports.memory.buffer, 0, 3)], names = Object.keys(exports).sort();
const references = names.filter((name) => name.startsWith("belljar")).map((name) => exports[name].length);
const custom = ["dylink.0", "name"].map((name) => WebAssembly.Module.customSections(module, name).length);
const brought = exports.memory === memory;
console.log(JSON.stringify({ called, start, names, references, custom, brought }));
"""


def seen_by_v8(module: bytes, folder: Path) -> dict[str, object]:
    (folder / "module.wasm").write_bytes(module)
    (folder / "look.js").write_text(LOOK)
    command = [str(find_deno()), "run", "--quiet", "--no-config", f"--allow-read={folder}", "look.js", "module.wasm"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, object] = json.loads(told.stdout)
    return found


def test_a_module_without_data_has_an_empty_memory_and_keeps_what_the_loader_reads(tmp_path: Path):
    seen = seen_by_v8(binary.without_data(MODULE), tmp_path)
    assert seen["start"] == [0, 0, 0]
    assert seen["custom"] == [1, 0]
    assert seen["names"] == ["forty", "memory", "place", "table", "two", "variable"]


def test_an_extended_module_has_each_exported_function_once_in_the_table(tmp_path: Path):
    seen = seen_by_v8(binary.extended(MODULE), tmp_path)
    assert seen["called"] == [TWO, FORTY]
    assert seen["start"] == list(b"abc")
    assert not seen["brought"]
    assert seen["references"] == [0]


def test_a_trimmed_module_tells_where_the_rest_is(tmp_path: Path):
    trimmed = binary.trimmed(binary.extended(MODULE), {"two"})
    seen = seen_by_v8(trimmed.module, tmp_path)
    assert seen["names"] == ["belljar_references_0", "memory", "table", "two", "variable"]
    assert trimmed.late == {"functions": {"two": 0, "forty": 1}, "data": {"place": PLACE}}
    assert seen["called"] == [TWO, FORTY]
    assert seen["start"] == [0, 0, 0]
    assert seen["brought"]


@pytest.mark.parametrize("content", [b"", b"\0asm\2\0\0\0", MODULE[:40], MODULE[:-2]])
def test_what_is_no_module_is_refused(content: bytes):
    with pytest.raises(StartFailed, match="module"):
        binary.without_data(content)


@pytest.mark.parametrize(("value", "written"), [(0, b"\0"), (63, b"\x3f"), (64, b"\xc0\0"), (8733, b"\x9d\xc4\0")])
def test_a_number_where_a_sign_is_expected_is_never_negative(value: int, written: bytes):
    assert signed(value) == written
    assert Reader(written).number(signed=True) == value
