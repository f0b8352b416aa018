"""Links a snapshot's modules ahead: what Emscripten's loader would look up at every start is written into them.

A snapshot knows where every library's data and functions are, so nothing of that has to be asked for by name: addresses
become constants, functions of the main module are imported by their slot in the table, a library's own functions get
their slots from itself, and the function that an instance would begin with has been carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from belljar.engines.wasm.encoding import (
    CODE,
    CONSTANT_I32,
    CUSTOM,
    ELEMENT,
    END,
    EXPORT,
    FUNCTION,
    GLOBAL,
    GLOBAL_GET,
    GLOBAL_KIND,
    I32,
    IMPORT,
    LINKING,
    LOCAL_GET,
    START,
    Export,
    Global,
    Import,
    Reader,
    changed,
    end_of_locals,
    exports_in,
    globals_in,
    imports_in,
    longer,
    number,
    sections,
    signed,
    sized,
    vector,
)
from belljar.errors import StartFailed

MAIN = "belljar_main"  # the namespace of the main module's functions, each called as its slot
OTHER = "env"  # the namespace of what is still found by name
MEMORY_BASE, TABLE_BASE = "__memory_base", "__table_base"
ADDRESSES = ("GOT.mem", "GOT.func")  # the namespaces of globals that are addresses of data and of functions
ONLY_AT_FIRST = ("__wasm_call_ctors", "__wasm_apply_data_relocs")  # what they would do is in the snapshot
SIZES = 1  # the part of what the loader is told that has sizes

LOCAL_TEE, GLOBAL_SET, ADD, BULK, MEMORY_FILL = 0x22, 0x24, 0x6A, 0xFC, b"\x0b\0"
NOTHING = bytes([0, END])  # the body of a function that does nothing


@dataclass(frozen=True)
class Places:
    """Where things are: in the main module, by name, and in the libraries, as the snapshot recorded it."""

    late: Mapping[str, Mapping[str, int]]
    snapshot: Mapping[str, Any]

    def address(self, name: str) -> int:
        """Of data, or the slot of a function.

        Raises:
            StartFailed: when nobody has it.
        """
        for known in (self.snapshot["offsets"], self.late["functions"], self.late["data"]):
            if name in known:
                return int(known[name])
        raise StartFailed(f"a library of Pyodide's refers to {name}, whose place is not known")


@dataclass(frozen=True)
class Bound:
    """A library that is linked, and what is left for a start to do.

    `asked` is imported by name. `given` are addresses that have to be handed over. The others are what it no longer
    exports: the slots of functions and the places of data.
    """

    module: bytes
    asked: list[str] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    data: dict[str, int] = field(default_factory=dict)


def main_slots(module: bytes) -> set[int]:
    """Which functions of the main module it imports by slot."""
    found = imports_in(dict(sections(module))[IMPORT])
    return {int(it.name) for it in found if it.module == MAIN}


def bound_main(module: bytes, places: Places) -> bytes:
    """The main module. It takes from JavaScript whatever it took, but knows where in the table that is."""
    parts = dict(sections(module))
    imports = imports_in(parts[IMPORT])
    constants = [_constant(places.address(it.name)) for it in imports if it.module in ADDRESSES]
    left = [it for it in imports if it.module not in ADDRESSES]
    if any(it.kind == GLOBAL_KIND for it in left):
        raise StartFailed("the main module of Pyodide imports globals that are no addresses")
    globals_ = [*constants, *globals_in(parts[GLOBAL])]
    return changed(
        module,
        {IMPORT: vector(it.entry() for it in left), GLOBAL: vector(it.entry() for it in globals_)},
    )


def bound_library(module: bytes, path: str, places: Places) -> Bound:
    """One of the libraries.

    Raises:
        StartFailed: when something in it is not known here.
    """
    parts = dict(sections(module))
    bases = _bases(parts.get(CUSTOM, b"\0"), path, places)
    imports = imports_in(parts[IMPORT])
    constants, kept, given = _addresses(imports, bases, places)
    linked = [_by_slot(it, places.late["functions"]) for it in imports if it.kind != GLOBAL_KIND or it in kept]
    its_globals = [*constants, *globals_in(parts.get(GLOBAL, b"\0"))]
    first = len(kept)  # imported globals come first in counting
    exports = exports_in(parts.get(EXPORT, b"\0"))
    data = dict(_data(exports, its_globals, first, bases[MEMORY_BASE]))
    slots = {name: slot for slot, library, name in places.snapshot["librarySlots"] if library == path}
    functions = {it.name: it.index for it in exports if it.kind == FUNCTION}
    bodies = Reader(parts[CODE]).texts()
    if START in parts:
        start = Reader(parts[START]).number() - sum(it.kind == FUNCTION for it in imports)
        known = {k: given[it.name] for k, it in enumerate(kept) if it.name in given}
        known |= {first + k: it.constant for k, it in enumerate(its_globals) if it.constant is not None}
        for index, value in _carried_out(bodies[start], known).items():
            its_globals[index - first] = _constant(value)
        bodies[start] = NOTHING
    gone = {*slots, *data, *ONLY_AT_FIRST}
    return Bound(
        changed(
            module,
            {
                CUSTOM: None, START: None,
                IMPORT: vector(it.entry() for it in linked),
                GLOBAL: vector(it.entry() for it in its_globals),
                EXPORT: vector(it.entry() for it in exports if it.name not in gone),
                ELEMENT: longer(parts.get(ELEMENT), list(_elements({slots[name]: functions[name] for name in slots}))),
                CODE: vector(map(sized, bodies)),
            },
        ),
        [it.name for it in linked if it.module == OTHER and it.name not in given], given, slots, data,
    )  # fmt: skip


def _bases(custom: bytes, path: str, places: Places) -> dict[str, int]:
    """Where its data and its functions begin, as the loader placed them."""
    reader = Reader(custom)
    if reader.text() != LINKING or reader.byte() != SIZES:
        raise StartFailed(f"{path} is no library of Emscripten's")
    sizes = Reader(reader.text())
    memory_size, alignment = sizes.number(), 1 << sizes.number()
    (library,) = (it for it in places.snapshot["libraries"] if it["path"] == path)
    memory = -(-library["memory"] // alignment) * alignment if memory_size else 0
    return {MEMORY_BASE: memory, TABLE_BASE: library["table"]}


def _addresses(
    imports: Sequence[Import], bases: Mapping[str, int], places: Places
) -> tuple[list[Global], list[Import], dict[str, int]]:
    """Its imported globals: those that are constants now, those that are imported as before, and the values of these.

    The others keep their numbers, so all before one that has to be imported are imported as well.
    """
    found = [it for it in imports if it.kind == GLOBAL_KIND]
    is_address = [it.module in ADDRESSES or it.name in bases for it in found]
    first = max((k + 1 for k, is_known in enumerate(is_address) if not is_known), default=0)
    if any(it.module != OTHER for it in found[:first]):
        raise StartFailed("a library of Pyodide's imports its globals in an order that is not known")
    given = {it.name: bases[it.name] for it in found[:first] if it.name in bases}
    rest = [bases[it.name] if it.name in bases else places.address(it.name) for it in found[first:]]
    return [_constant(value) for value in rest], found[:first], given


def _by_slot(it: Import, slots: Mapping[str, int]) -> Import:
    if it.kind == FUNCTION and it.name in slots:
        return Import(MAIN, str(slots[it.name]), FUNCTION, it.type)
    if it.module != OTHER:
        raise StartFailed(f"a library of Pyodide's imports {it.name} from {it.module}, which is not known")
    return it


def _carried_out(body: bytes, known: Mapping[int, int]) -> dict[int, int]:
    """The globals that the first function of a library sets. It also clears memory, which the snapshot fills."""
    try:
        return dict(_set_by(body, known))
    except (KeyError, IndexError):
        raise StartFailed("a library of Pyodide's begins with a function that counts on what is not known") from None


def _set_by(body: bytes, known: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """The numbers and values of globals, in order. There are no jumps in such a function."""
    reader = Reader(body)
    reader.take(end_of_locals(body))
    stack: list[int] = []
    local: dict[int, int] = {}
    while (instruction := reader.byte()) != END:
        if instruction == CONSTANT_I32:
            stack.append(reader.number(signed=True))
        elif instruction == GLOBAL_GET:
            stack.append(known[reader.number()])
        elif instruction == GLOBAL_SET:
            yield reader.number(), stack.pop()
        elif instruction == LOCAL_GET:
            stack.append(local[reader.number()])
        elif instruction == LOCAL_TEE:
            local[reader.number()] = stack[-1]
        elif instruction == ADD:
            stack.append(stack.pop() + stack.pop())
        elif instruction == BULK and reader.take(2) == MEMORY_FILL:
            del stack[-3:]
        else:
            raise StartFailed(f"a library of Pyodide's begins with something that is not known: {instruction:#x}")


def _data(exports: Sequence[Export], own: Sequence[Global], first: int, base: int) -> Iterator[tuple[str, int]]:
    """The places of data that it exported; they were told from where its data begins."""
    for it in exports:
        if it.kind == GLOBAL_KIND:
            value = own[it.index - first].constant if it.index >= first else None
            if value is None or own[it.index - first].is_mutable:
                raise StartFailed(f"a library of Pyodide's exports {it.name}, which is not the place of anything")
            yield it.name, base + value


def _elements(functions: Mapping[int, int]) -> Iterator[bytes]:
    """What puts functions into the table, by slot."""
    slots = sorted(functions)
    starts = [slot for k, slot in enumerate(slots) if k == 0 or slots[k - 1] != slot - 1]
    for start, after in pairwise([*starts, float("inf")]):
        run = [slot for slot in slots if start <= slot < after]
        yield bytes([0, CONSTANT_I32]) + signed(run[0]) + bytes([END]) + vector(number(functions[k]) for k in run)


def _constant(value: int) -> Global:
    return Global(bytes([I32, 0]), bytes([CONSTANT_I32]) + signed(value) + bytes([END]), is_mutable=False)
