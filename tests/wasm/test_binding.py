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
from belljar.engines.wasm.encoding import Reader, changed, imports_in, joined, number, sections, sized, text, vector
from belljar.errors import StartFailed

PATH, ALIGNMENT = "/lib/it.so", 4
MEMORY, TABLE, SIZE = 1030, 8, 100  # the data is placed at the next multiple of 16
START, OWN, BORROWED, READ = range(5, 9)  # its own functions, after those that it imports
FUNCTION, CONSTANT, CHANGING = b"\x00\x00", b"\x03\x7f\x00", b"\x03\x7f\x01"  # types of imports
SIZES = bytes([1]) + sized(b"".join(map(number, [SIZE, ALIGNMENT, 1, 0])))


def entry(module: str, name: str, kind: bytes) -> bytes:
    return text(module) + text(name) + kind


def function(*code: int) -> bytes:
    return sized(bytes([0, *code, 0x0B]))


# Globals: 0 the stack, 1 where its data begins, 2 where its functions begin, 3 a place of main's, 4 a slot of its own,
# 5 a number that its first function sets, 6 the place of its own data.
IMPORTS = [
    entry("env", "memory", b"\x02\x00\x01"),
    entry("env", "__indirect_function_table", b"\x01\x70\x00\x00"),
    entry("env", "__stack_pointer", CHANGING),
    entry("env", "__memory_base", CONSTANT),
    entry("env", "__table_base", CONSTANT),
    entry("env", "of_main", FUNCTION),
    entry("env", "of_script", FUNCTION),
    entry("env", "own", FUNCTION),
    entry("GOT.mem", "place_in_main", CHANGING),
    entry("GOT.func", "own", CHANGING),
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
            text("own") + b"\x00" + number(OWN), text("borrowed") + b"\x00" + number(BORROWED),
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
    first, stack, memory, *rest = IMPORTS[1:]
    bodies = Reader(dict(sections(LIBRARY))[10]).texts()
    code = vector(sized(body.replace(bytes([0x23, 1]), bytes([0x23, 0]))) for body in bodies)
    swapped = changed(LIBRARY, {2: vector([IMPORTS[0], first, memory, stack, *rest]), 10: code})
    bound = bound_library(swapped, PATH, PLACES)
    assert bound.given == {"__memory_base": BASE}
    assert run_in_v8(tmp_path, bound)["table"][TABLE] == 5000 + 6 + (BASE + 12) + BASE


def test_a_function_that_two_names_have_gets_both_slots(tmp_path: Path):
    twice = Places(PLACES.late, {**PLACES.recorded, "librarySlots": [[6, PATH, "own"], [7, PATH, "again"]]})
    exports = dict(sections(LIBRARY))[7]
    named = exports.replace(text("borrowed") + b"\x00" + number(BORROWED), text("again") + b"\x00" + number(OWN))
    assert named != exports
    told = run_in_v8(tmp_path, bound_library(changed(LIBRARY, {7: named}), PATH, twice))
    assert told["table"][6:8] == [7, 7]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ((0x41, 0x7F, 0x24, 5), -1),
        ((0x23, 1, 0x41, 12, 0x6A, 0x22, 0, 0x24, 5, 0x20, 0, 0x1A), None),
        ((0x23, 1, 0x22, 0, 0x41, 1, 0x6A, 0x24, 5, 0x20, 0, 0x41, 0, 0x41, 8, 0xFC, 0x0B, 0), BASE + 1),
        ((0x41, 5, 0x24, 5, 0x23, 5, 0x23, 5, 0x6A, 0x24, 5), 10),
        ((0x41, 0xFF, 0xFF, 0xFF, 0xFF, 7, 0x41, 1, 0x6A, 0x24, 5), -(1 << 31)),
    ],
    ids=["negative", "unknown", "a variable", "set and read", "around"],
)
def test_what_it_begins_with_is_reckoned_as_it_would_be(tmp_path: Path, code: tuple[int, ...], value: int | None):
    first = sized(bytes([1, 1, 0x7F, *code, 0x0B]))
    bodies = Reader(dict(sections(LIBRARY))[10]).texts()
    module = changed(LIBRARY, {10: vector([first, *map(sized, bodies[1:])])})
    if value is None:
        with pytest.raises(StartFailed, match="0x1a"):
            bound_library(module, PATH, PLACES)
    else:
        reads = 5000 + 6 + value + BASE
        assert run_in_v8(tmp_path, bound_library(module, PATH, PLACES))["table"][TABLE] == _as_i32(reads)


def _as_i32(value: int) -> int:
    return int.from_bytes((value % (1 << 32)).to_bytes(4, "little"), "little", signed=True)


@pytest.mark.parametrize(
    ("section", "content", "said"),
    [
        (0, text("other") + SIZES, "no library of Emscripten's"),
        (0, text("dylink.0"), "does not tell its size"),
        (0, text("dylink.0") + SIZES + bytes([2]) + sized(vector([text("libother.so")])), "needs other libraries"),
        (2, None, "lacks sections"),
        (2, vector([*IMPORTS, entry("GOT.mem", "nowhere", CHANGING)]), "nowhere, whose place is not known"),
        (2, vector([*IMPORTS, entry("elsewhere", "it", FUNCTION)]), "it from elsewhere"),
        (2, vector([entry("GOT.mem", "place_in_main", CHANGING), *IMPORTS]), "in an order that is not known"),
        (6, vector([b"\x7f\x01\x41\x00\x0b", b"\x7f\x01\x41\x24\x0b"]), "data, which is not the place of anything"),
        (6, vector([b"\x7e\x01\x42\x00\x0b", b"\x7f\x00\x41\x24\x0b"]), "not its own"),
        (7, vector([text("__em_js__say") + b"\x03\x06"]), "JavaScript in it"),
        (7, vector([]), "slots that it does not export"),
        (8, number(1), "somebody else's"),
        (10, vector([function(0x41, 0, 0x1A), *[function(0x41, 7)] * 3]), "an instruction that is not known: 0x1a"),
        (10, vector([function(0x23, 0, 0x24, 5), *[function(0x41, 7)] * 3]), "counts on what is not known"),
        (10, vector([function(0x41, 0, 0x24, 0), *[function(0x41, 7)] * 3]), "not its own"),
        (10, vector([function(0x24, 5), *[function(0x41, 7)] * 3]), "counts on what is not known"),
    ],
)
def test_what_is_not_known_is_refused(section: int, content: bytes | None, said: str):
    with pytest.raises(StartFailed, match=said):
        bound_library(changed(LIBRARY, {section: content}), PATH, PLACES)


def test_a_library_that_was_loaded_twice_is_refused():
    twice = {**PLACES.recorded, "libraries": [*PLACES.recorded["libraries"]] * 2}
    with pytest.raises(StartFailed, match="loaded 2 times"):
        bound_library(LIBRARY, PATH, Places(PLACES.late, twice))


def test_one_without_data_and_globals_is_bound(tmp_path: Path):
    bare = joined([
        (0, text("dylink.0") + bytes([1]) + sized(bytes(4))),
        (1, vector([b"\x60\x00\x01\x7f"])),
        (2, vector([*IMPORTS[:2], entry("env", "tag", b"\x04\x00\x00"), IMPORTS[5]])),
        (3, vector([number(0)])),
        (10, vector([function(0x10, 0)])),
    ])  # fmt: skip
    places = {"libraries": [{"path": PATH, "memory": 0, "table": 0}], "librarySlots": [], "offsets": {}}
    bound = bound_library(bare, PATH, Places(PLACES.late, places))
    assert bound.asked == ["memory", "__indirect_function_table", "tag"]


def test_the_main_module_knows_the_slots_of_the_script():
    imports = [entry("env", "a", FUNCTION), entry("GOT.func", "own", CHANGING), entry("env", "b", FUNCTION)]
    module = joined([(2, vector(imports)), (6, vector([b"\x7f\x01\x41\x05\x0b"]))])
    parts = dict(sections(bound_main(module, PLACES)))
    assert [it.name for it in imports_in(parts[2])] == ["a", "b"]
    assert parts[6] == vector([b"\x7f\x00\x41\x06\x0b", b"\x7f\x01\x41\x05\x0b"])
    with pytest.raises(StartFailed, match="no addresses"):
        bound_main(changed(module, {2: vector([entry("env", "c", CONSTANT)])}), PLACES)


def test_names_of_libraries_are_found_when_they_are_asked_for(wasm: Sandbox):
    ran = wasm.run("""
import ctypes, numpy._core._multiarray_umath as it
library = ctypes.CDLL(it.__file__)
ctypes.cast(library.PyInit__multiarray_umath, ctypes.c_void_p).value > 0
""")
    assert ran.value is True, ran.error
    for name in ("no_such_name", "constructor", "toString", "__proto__"):
        assert wasm.run(f"getattr(library, {name!r})").error.name == "AttributeError"


def test_whoever_goes_through_all_names_of_a_library_finds_them(wasm: Sandbox):
    """As Emscripten does for a library that needs it, and to make its names known to everybody."""
    ran = wasm.run("""
import js, pyodide_js, numpy._core._multiarray_umath as it
exports = pyodide_js._module.LDSO.loadedLibsByName.as_object_map()[it.__file__].exports
copied = js.Object.assign(js.Object.new(), exports)
listed = [entry[0] for entry in js.Object.entries(exports)]
"PyInit__multiarray_umath" in listed, hasattr(copied, "PyInit__multiarray_umath"), len(listed) > 40, hasattr(exports, "constructor")
""")
    assert ran.value == [True, True, True, False], ran.error
    assert wasm.run("import numpy as np\nint(np.arange(10).sum())").value == 45


def test_a_library_that_is_loaded_later_may_need_one_of_the_snapshot(wasm: Sandbox):
    """Its names are copied then, all of them."""
    needed = wasm.run("import numpy.random._generator as it\nit.__file__").value
    kind = b"\x60\x03\x7f\x7c\x7c\x01\x7c"  # (pointer, double, double) to double
    library = joined(
        [
            (0, text("dylink.0") + bytes([1]) + sized(bytes(4)) + bytes([2]) + sized(vector([text(needed)]))),
            (1, vector([kind])),
            (2, vector([entry("env", "random_uniform", FUNCTION)])),
            (3, vector([number(0)])),
            (7, vector([text("drawn") + b"\x00" + number(1)])),
            (10, vector([function(0x20, 0, 0x20, 1, 0x20, 2, 0x10, 0)])),
        ]
    )
    wasm.files.write("later.so", library)
    ran = wasm.run("""
import ctypes
from numpy.random import PCG64, Generator
drawn = ctypes.CDLL("/workspace/later.so").drawn
drawn.restype, drawn.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_double, ctypes.c_double]
drawn(PCG64(1).ctypes.bit_generator, 0.0, 1.0) == Generator(PCG64(1)).uniform()
""")
    assert ran.value is True, ran.error
