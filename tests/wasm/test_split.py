"""A module in halves does what the whole one does; the cold half is loaded when somebody calls into it, and not before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from belljar import Limits, Sandbox
from belljar.engines.wasm import split
from belljar.engines.wasm.deno import find_deno
from belljar.engines.wasm.encoding import MAGIC, changed, exports_in, joined, number, sections, text, vector
from belljar.errors import StartFailed

OWN_NUMBER = 7
HOT, COLD, INNER, AGAIN, COUNT = range(5)  # functions, without the imported one


def function(*code: int) -> bytes:
    body = bytes([0, *code, 0x0B])
    return number(len(body)) + body


def call(k: int) -> tuple[int, int]:
    return 0x10, k + 1


def export(name: str, kind: int, index: int) -> bytes:
    return text(name) + bytes([kind]) + number(index)


# hot(x) = cold(x) + 1; cold(x) counts, and is inner(x) + again(x); inner(x) = 2x; again(x) = outer(x), which is JavaScript's.
GET_X, ADD, TIMES = (0x20, 0), 0x6A, 0x6C
CODE = [
    function(*GET_X, *call(COLD), 0x41, 1, ADD),
    function(0x23, 0, 0x41, 1, ADD, 0x24, 0, *GET_X, *call(INNER), *GET_X, *call(AGAIN), ADD),
    function(*GET_X, 0x41, 2, TIMES),
    function(*GET_X, 0x10, 0),
    function(0x23, 0),
]
MODULE = joined(
    [
        (0, text("dylink.0")),
        (1, vector([b"\x60\x01\x7f\x01\x7f", b"\x60\x00\x01\x7f", b"\x60\x00\x00"])),
        (2, vector([text("env") + text("outer") + b"\x00\x00"])),
        (3, vector(map(number, [0, 0, 0, 0, 1]))),
        (4, vector([b"\x70\x00\x01"])),
        (5, vector([b"\x00\x01"])),
        (13, vector([b"\x00\x02"])),
        (6, vector([b"\x7f\x01\x41\x00\x0b", b"\x7f\x00\x41\x09\x0b"])),
        (7, vector([export("hot", 0, HOT + 1), export("count", 0, COUNT + 1), export("table", 1, 0)])),
        (9, vector([b"\x00\x41\x00\x0b" + vector([number(COLD + 1)])])),
        (10, vector(CODE)),
    ]
)
WHOLE = {"hot": 61, "table": 60, "count": 2}

RUN = """
const [hot, cold] = Deno.args.map((path) => new WebAssembly.Module(Deno.readFileSync(path)));
const env = { outer: (x) => 10 * x }, { exports } = new WebAssembly.Instance(hot, { env }), asked = [], steps = [];
const load = (number) => {
  asked.push(number);
  const belljar_constant = new Proxy({}, { get: (_, value) => Number(value) });
  new WebAssembly.Instance(cold, { env, belljar_hot: exports, belljar_constant });
};
const adapter = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 1, 127, 0, 2, 7, 1, 1, 101, 1, 48, 0, 0, 7, 5, 1, 1, 48, 0, 0]);
const loader = new WebAssembly.Instance(new WebAssembly.Module(adapter), { e: { 0: load } }).exports[0];
exports.belljar_hot_table?.set(0, loader);
exports.count();
const before = asked.length;
const answers = { hot: exports.hot(5), table: exports.table.get(0)(5), count: exports.count() };
const calls = exports.belljar_calls && Array.from({ length: exports.belljar_calls.length }, (_, k) => exports.belljar_calls.get(k) !== null);
console.log(JSON.stringify({ answers, before, asked, calls, imports: cold && WebAssembly.Module.imports(cold).length }));
"""


def run_in_v8(folder: Path, *modules: bytes) -> dict[str, Any]:
    for k, module in enumerate(modules):
        (folder / f"{k}.wasm").write_bytes(module)
    (folder / "run.js").write_text(RUN)
    names = [f"{k}.wasm" for k in range(len(modules))]
    command = [str(find_deno()), "run", "--quiet", "--no-config", f"--allow-read={folder}", "run.js", *names]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def test_a_counted_module_tells_which_functions_were_called(tmp_path: Path):
    told = run_in_v8(tmp_path, split.counted(MODULE))
    assert told["answers"] == WHOLE
    assert told["calls"] == [True] * 5


def test_a_counted_module_does_not_tell_of_those_that_were_not(tmp_path: Path):
    only_count = MODULE.replace(export("hot", 0, HOT + 1), export("hot", 0, AGAIN + 1))
    only_count = only_count.replace(vector([number(COLD + 1)]), vector([number(AGAIN + 1)]))
    assert run_in_v8(tmp_path, split.counted(only_count))["calls"] == [False, False, False, True, True]


def test_a_constant_before_what_changes_is_imported_by_its_value(tmp_path: Path):
    """Else there would be as many exports as constants."""
    count = function(0x23, 1, 0x23, 0, ADD)  # the changing one is the second now, and 300 is added to what was counted
    code = [
        CODE[0],
        function(0x23, 1, 0x41, 1, ADD, 0x24, 1, *GET_X, *call(INNER), *GET_X, *call(AGAIN), ADD),
        function(*GET_X, 0x23, 0, ADD),
        *CODE[3:4],
        count,
    ]
    module = changed(MODULE, {6: vector([b"\x7f\x00\x41\xac\x02\x0b", b"\x7f\x01\x41\x00\x0b"]), 10: vector(code)})
    halves = split.halves(module, [HOT, COUNT], OWN_NUMBER)
    told = run_in_v8(tmp_path, halves.hot, halves.cold)
    assert told["answers"] == {"hot": 5 + 300 + 50 + 1, "table": 5 + 300 + 50, "count": 302}
    names = [it.name for it in exports_in(dict(sections(halves.hot))[7])]
    assert [name for name in names if "global" in name] == ["belljar_hot_global_1"]


@pytest.mark.parametrize("called", [[HOT, AGAIN, COUNT], [COUNT], [COLD, INNER], [HOT, COLD, INNER, AGAIN, COUNT], []])
def test_both_halves_together_do_what_the_whole_does(tmp_path: Path, called: list[int]):
    halves = split.halves(MODULE, called, OWN_NUMBER)
    told = run_in_v8(tmp_path, halves.hot, halves.cold)
    assert told["answers"] == WHOLE


def test_the_cold_half_is_loaded_at_the_first_call_and_only_then(tmp_path: Path):
    halves = split.halves(MODULE, [HOT, AGAIN, COUNT], OWN_NUMBER)
    told = run_in_v8(tmp_path, halves.hot, halves.cold)
    assert (told["before"], told["asked"]) == (0, [OWN_NUMBER])


def test_a_function_that_only_cold_ones_call_is_no_part_of_the_hot_half():
    whole, hot = (dict(sections(module))[10] for module in (MODULE, split.halves(MODULE, [HOT], OWN_NUMBER).hot))
    doubling = bytes([*GET_X, 0x41, 2, TIMES])
    assert doubling in whole
    assert doubling not in hot


def test_what_can_change_is_shared_and_what_cannot_is_copied():
    cold = dict(sections(split.halves(MODULE, [HOT], OWN_NUMBER).cold))
    assert cold[6] == vector([b"\x7f\x00\x41\x09\x0b"])  # the constant
    assert not {4, 5, 7, 8, 13} & cold.keys()
    names = [b"belljar_hot_table_0", b"belljar_hot_memory_0", b"belljar_hot_global_0", b"belljar_hot_tag_0"]
    assert all(name in cold[2] for name in names)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (MAGIC, "lacks sections"),
        (MODULE.replace(b"\x60\x01\x7f\x01\x7f", b"\x5f\x01\x7f\x01\x7f"), "not functions"),
        (MODULE.replace(b"\x7f\x01\x41\x00\x0b", b"\x7f\x01\xfb\x00\x0b"), "unknown way"),
        (MODULE.replace(b"\x7f\x01\x41\x00\x0b", b"\x70\x01\xd2\x03\x0b"), "unknown way"),
        (changed(MODULE, {8: number(COLD + 1)}), "begins with a function"),
        (MODULE + b"\x63\x01\x00", "sections that are not known"),
        (MODULE.replace(text("outer") + b"\x00\x00", text("outer") + b"\x07\x00"), "unknown kind"),
        (MODULE.replace(b"\x01\x00\x41\x00\x0b\x01\x02", b"\x01\x05\x41\x00\x0b\x01\x02"), "fills its table"),
    ],
)
def test_what_is_not_understood_is_refused(broken: bytes, why: str):
    assert broken != MODULE
    with pytest.raises(StartFailed, match=why):
        split.halves(broken, [HOT], OWN_NUMBER)


IS_LOADED = """
from pyodide.code import run_js
import pyodide_js
print(run_js('''(module) => {
  const table = module.LDSO.loadedLibsByName.__main__.exports.belljar_hot_table;
  return JSON.stringify(table.get(table.length - 1) !== null);
}''')(pyodide_js._module))
"""
LOAD_TWICE = """
from pyodide.code import run_js
import pyodide_js
print(run_js('''(module) => {
  const known = module.LDSO.loadedLibsByName.__main__.exports, genuine = known.fd_write;
  const load = () => { try { return known.belljar_hot_table.get(0)(0) ?? "done"; } catch (failure) { return failure.name; } };
  known.fd_write = 1;
  const first = load();
  known.fd_write = genuine;
  return `${first} ${load()}`;
}''')(pyodide_js._module))
"""
UNUSUAL = "import decimal, sqlite3, unicodedata, zlib\nlen(zlib.compress(unicodedata.name('ß').encode() * 99))"
USUAL = [
    "n = 3\nwhile n:\n    n -= 1\n    if n == 1: break",
    "try: int('x')\nexcept ValueError as e: print(e)\nfinally: pass",
    "with open('a.txt', 'w') as f: f.write('x')\nopen('a.txt').read()",
    "def f():\n    global q\n    q = 1\nf(), q",
    "match 3:\n    case int(n): print(n)",
    "'x y'.title(), int('12') % 5, round(2.5, 1), pow(2, 10), divmod(7, 2)",
    "import itertools\nlist(itertools.permutations('abc'))",
    "import asyncio\nawait asyncio.sleep(0)",
    "def f(n): return n and 1 + f(n - 1)\nf(900)",
    "class A:\n    def __init__(self): self.x = [1, *range(3)]\n{a: b for a, b in zip('ab', A().x)}, sorted(A().x)[::-1]",
    "import json, re, math\njson.loads('[1, {\"a\": null}]'), re.sub('a+', 'b', 'caat'), math.pi",
    "1 / 0",
]


@pytest.fixture
def fresh() -> Iterator[Sandbox]:
    """A sandbox of a size that no pool has."""
    with Sandbox("wasm", limits=Limits(memory_mb=300)) as sandbox:
        yield sandbox


def is_loaded(sandbox: Sandbox) -> bool:
    answer: bool = json.loads(sandbox.run(IS_LOADED).stdout)
    return answer


def test_a_sandbox_loads_what_it_calls_when_it_calls_it(fresh: Sandbox, bare: Sandbox):
    assert [is_loaded(fresh), is_loaded(fresh)] == [False, False]  # to ask is no reason
    assert fresh.run(UNUSUAL).value == bare.run(UNUSUAL).value
    assert is_loaded(fresh)


def test_usual_code_needs_no_cold_half(fresh: Sandbox):
    for code in USUAL:
        fresh.run(code)
        assert not is_loaded(fresh), code


def test_an_unusual_call_may_come_from_deep_down(fresh: Sandbox):
    code = "def f(n): return f(n - 1) if n else '{:,}'.format(10 ** 400).encode('utf-16')[:2]\nf(900)"
    assert not is_loaded(fresh)
    assert fresh.run(code).text == repr(b"\xff\xfe")
    assert is_loaded(fresh)


def test_a_load_that_failed_can_be_tried_again(fresh: Sandbox):
    assert fresh.run(LOAD_TWICE).stdout == "LinkError done\n"
    assert is_loaded(fresh)
    assert fresh.run(UNUSUAL).value > 0


def test_builtins_that_were_changed_are_not_asked(fresh: Sandbox):
    spoil = "WebAssembly.Module = WebAssembly.Instance = null"
    loaded = fresh.run(f"from pyodide.code import run_js\nrun_js('() => {{ {spoil} }}')()\n'x'.encode('utf-16')[:2]")
    assert loaded.text == repr(b"\xff\xfe")
