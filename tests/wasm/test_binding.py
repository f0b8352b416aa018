"""A library that is linked ahead does what the loader would have made of it, and asks for next to nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from belljar import Sandbox
from belljar.engines.wasm.binding import Bound, Places, bound_library, bound_main, main_slots
from belljar.engines.wasm.deno import find_deno
from belljar.engines.wasm.encoding import changed, imports_in, joined, number, sections, sized, text, vector
from belljar.errors import StartFailed

PATH, ALIGNMENT = "/lib/it.so", 4
MEMORY, TABLE, SIZE = 1030, 8, 100  # the data is placed at the next multiple of 16
START, OWN, BORROWED, READ = range(5, 9)  # its own functions, after three that it imports
GLOBAL, FUNCTION = b"\x03\x7f\x00", b"\x00\x00"
SIZES = bytes([1]) + sized(vector([])[:0] + number(SIZE) + number(ALIGNMENT) + number(1) + number(0))


def entry(module: str, name: str, kind: bytes) -> bytes:
    return text(module) + text(name) + kind


def function(*code: int) -> bytes:
    return sized(bytes([0, *code, 0x0B]))


# Globals: 0 the stack, 1 where its data begins, 2 where its functions begin, 3 a place of main's, 4 a slot of its own,
# 5 a number that its first function sets, 6 the place of its own data.
IMPORTS = [
    entry("env", "memory", b"\x02\x00\x01"),
    entry("env", "__indirect_function_table", b"\x01\x70\x00\x00"),
    entry("env", "__stack_pointer", b"\x03\x7f\x01"),
    entry("env", "__memory_base", GLOBAL),
    entry("env", "__table_base", GLOBAL),
    entry("env", "of_main", FUNCTION),
    entry("env", "of_script", FUNCTION),
    entry("env", "own", FUNCTION),
    entry("GOT.mem", "place_in_main", b"\x03\x7f\x01"),
    entry("GOT.func", "own", b"\x03\x7f\x01"),
    entry("env", "other_of_main", FUNCTION),
    entry("env", "unused", FUNCTION),
]
FIRST = function(0x23, 1, 0x41, 12, 0x6A, 0x24, 5, 0x23, 1, 0x41, 0, 0x41, 8, 0xFC, 0x0B, 0)
LIBRARY = joined(
    [
        (0, text("dylink.0") + SIZES),
        (1, vector([b"\x60\x00\x01\x7f", b"\x60\x00\x00"])),
        (2, vector(IMPORTS)),
        (3, vector(map(number, [1, 0, 0, 0]))),
        (6, vector([b"\x7f\x01\x41\x00\x0b", b"\x7f\x00\x41\x24\x0b"])),
        (7, vector([
            text("own") + b"\x00" + number(OWN + 0), text("borrowed") + b"\x00" + number(BORROWED),
            text("read") + b"\x00" + number(READ), text("data") + b"\x03\x06",
            text("__wasm_call_ctors") + b"\x00" + number(START),
        ])),
        (8, number(START)),
        (9, vector([b"\x00\x23\x02\x0b" + vector([number(READ)])])),
        (10, vector([
            FIRST,
            function(0x41, 7),
            function(0x10, 0, 0x10, 1, 0x6A, 0x10, 2, 0x6A),  # of main, of the script, and its own
            function(0x23, 3, 0x23, 4, 0x6A, 0x23, 5, 0x6A, 0x23, 1, 0x6A),
        ])),
    ]
)  # fmt: skip
PLACES = Places(
    {"functions": {"of_main": 2, "other_of_main": 3, "unused": 3}, "data": {"place_in_main": 5000}},
    {
        "libraries": [{"path": PATH, "memory": MEMORY, "memorySize": SIZE + 16, "table": TABLE, "tableSize": 1}],
        "librarySlots": [[6, PATH, "own"], [7, PATH, "borrowed"], [5, "/lib/another.so", "own"]],
        "offsets": {"own": 6},
    },
)
BASE = 1040

RUN = """
const memory = new WebAssembly.Memory({ initial: 1 }), table = new WebAssembly.Table({ element: "anyfunc", initial: 16 });
const bytes = new Uint8Array(memory.buffer).fill(9), stack = new WebAssembly.Global({ value: "i32", mutable: true }, 0);
const give = (n) => new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(
  [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 127, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 6, 1, 4, 0, 65, n, 11]))).exports.f;
const asked = { memory, __indirect_function_table: table, __stack_pointer: stack, of_script: () => 20 };
const { names, given } = JSON.parse(Deno.args[0]), env = { ...given };
let exports;
for (const name of names) env[name] = asked[name] ?? ((...args) => (exports[name] ?? table.get(6))(...args));
const library = new WebAssembly.Module(Deno.readFileSync("it.wasm"));
exports = new WebAssembly.Instance(library, { env, belljar_main: { 2: give(10), 3: give(11) } }).exports;
console.log(JSON.stringify({
  exports: Object.keys(exports), table: Array.from({ length: 16 }, (_, k) => table.get(k)?.()), cleared: bytes.includes(0),
}));
"""


def run_in_v8(folder: Path, bound: Bound) -> dict[str, Any]:
    (folder / "it.wasm").write_bytes(bound.module)
    (folder / "run.js").write_text(RUN)
    command = [str(find_deno()), "run", "--quiet", "--no-config", f"--allow-read={folder}", "run.js"]
    told = json.dumps({"names": bound.asked, "given": bound.given})
    ended = subprocess.run([*command, told], cwd=folder, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_it_knows_its_addresses_and_fills_its_slots(tmp_path: Path):
    told = run_in_v8(tmp_path, bound_library(LIBRARY, PATH, PLACES))
    reads = 5000 + 6 + (BASE + 12) + BASE
    assert told["table"] == [None] * 6 + [7, 10 + 20 + 7, reads] + [None] * 7


def test_what_it_would_begin_with_has_been_done(tmp_path: Path):
    told = run_in_v8(tmp_path, bound_library(LIBRARY, PATH, PLACES))
    assert told["cleared"] is False, "a memory that a snapshot has filled"


def test_it_imports_by_slot_and_exports_what_has_none(tmp_path: Path):
    bound = bound_library(LIBRARY, PATH, PLACES)
    assert main_slots(bound.module) == {2, 3}
    assert sorted(bound.asked) == ["__indirect_function_table", "__stack_pointer", "memory", "of_script", "own"]
    assert bound.given == {}
    assert run_in_v8(tmp_path, bound)["exports"] == ["read"]
    assert bound.functions == {"own": 6, "borrowed": 7}
    assert bound.data == {"data": BASE + 36}


def test_addresses_before_what_must_be_imported_are_handed_over(tmp_path: Path):
    stack, memory = IMPORTS[2], IMPORTS[3]
    swapped = LIBRARY.replace(stack + memory, memory + stack).replace(bytes([0x23, 1]), bytes([0x23, 0]))
    bound = bound_library(swapped, PATH, PLACES)
    assert bound.given == {"__memory_base": BASE}
    assert run_in_v8(tmp_path, bound)["table"][TABLE] == 5000 + 6 + (BASE + 12) + BASE


def test_a_function_that_two_names_have_gets_both_slots(tmp_path: Path):
    twice = Places(PLACES.late, {**PLACES.snapshot, "librarySlots": [[6, PATH, "own"], [7, PATH, "again"]]})
    named = LIBRARY.replace(text("borrowed") + b"\x00" + number(BORROWED), text("again") + b"\x00" + number(OWN))
    section = dict(sections(LIBRARY))[7].replace(
        text("borrowed") + b"\x00" + number(BORROWED), text("again") + b"\x00" + number(OWN)
    )
    assert named != LIBRARY
    told = run_in_v8(tmp_path, bound_library(changed(LIBRARY, {7: section}), PATH, twice))
    assert told["table"][6:8] == [7, 7]


@pytest.mark.parametrize(
    ("section", "content", "said"),
    [
        (0, text("other") + SIZES, "no library of Emscripten's"),
        (2, vector([*IMPORTS, entry("GOT.mem", "nowhere", b"\x03\x7f\x01")]), "nowhere, whose place is not known"),
        (2, vector([*IMPORTS, entry("elsewhere", "it", FUNCTION)]), "it from elsewhere"),
        (2, vector([entry("GOT.mem", "place_in_main", b"\x03\x7f\x01"), *IMPORTS]), "in an order that is not known"),
        (10, vector([function(0x41, 0, 0x1A), *[function(0x41, 7)] * 3]), "begins with something that is not known"),
        (6, vector([b"\x7f\x01\x41\x00\x0b", b"\x7f\x01\x41\x24\x0b"]), "data, which is not the place of anything"),
    ],
)
def test_what_is_not_known_is_refused(section: int, content: bytes, said: str):
    with pytest.raises(StartFailed, match=said):
        bound_library(changed(LIBRARY, {section: content}), PATH, PLACES)


def test_the_main_module_knows_the_slots_of_the_script():
    imports = [entry("env", "a", FUNCTION), entry("GOT.func", "own", b"\x03\x7f\x01"), entry("env", "b", FUNCTION)]
    module = joined([(2, vector(imports)), (6, vector([b"\x7f\x01\x41\x05\x0b"]))])
    parts = dict(sections(bound_main(module, PLACES)))
    assert [it.name for it in imports_in(parts[2])] == ["a", "b"]
    assert parts[6] == vector([b"\x7f\x00\x41\x06\x0b", b"\x7f\x01\x41\x05\x0b"])
    with pytest.raises(StartFailed, match="no addresses"):
        bound_main(changed(module, {2: vector([entry("env", "c", GLOBAL)])}), PLACES)


def test_names_of_libraries_are_found_when_they_are_asked_for(wasm: Sandbox):
    """Functions by their slots, data by its place, and all of them for whoever makes a library's names known to everybody."""
    ran = wasm.run("""
import ctypes, numpy._core._multiarray_umath as it
library = ctypes.CDLL(it.__file__)
start = ctypes.cast(library.PyInit__multiarray_umath, ctypes.c_void_p).value
again = ctypes.cast(ctypes.CDLL(it.__file__, ctypes.RTLD_GLOBAL).PyInit__multiarray_umath, ctypes.c_void_p).value
start > 0 and start == again
""")
    assert ran.error is None, ran.error
    assert ran.value is True
    for name in ("no_such_name", "constructor", "toString"):
        assert wasm.run(f"library.{name}").error.name == "AttributeError"
    assert wasm.run("import numpy as np\nint(np.arange(10).sum())").value == 45
