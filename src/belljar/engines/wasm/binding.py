"""Links a snapshot's modules ahead: what Emscripten's loader would look up at every start is written into them.

A snapshot knows where every library's data and functions are, so nothing of that has to be asked for by name: addresses
become constants, functions of the main module are imported by their slot in the table, a library's own functions get
their slots from itself, and the function that an instance would begin with has been carried out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    elements,
    end_of_locals,
    exports_in,
    globals_in,
    imports_in,
    longer,
    sections,
    signed,
    sized,
    vector,
)
from belljar.errors import StartFailed

MAIN_SLOTS = "belljar_main"  # the namespace of the main module's functions, each called as its slot
OTHER = "env"  # the namespace of what is still found by name
MEMORY_BASE, TABLE_BASE = "__memory_base", "__table_base"
ADDRESSES = ("GOT.mem", "GOT.func")  # the namespaces of globals that are addresses of data and of functions
ONLY_AT_FIRST = ("__wasm_call_ctors", "__wasm_apply_data_relocs")  # what they would do is in the snapshot
SCRIPTS = ("__em_js__", "__start_em_asm")  # how the names of texts begin that the loader would make JavaScript of
SIZES, NEEDED = 1, 2  # parts of what the loader is told

LOCAL_TEE, GLOBAL_SET, ADD, BULK, MEMORY_FILL = 0x22, 0x24, 0x6A, 0xFC, b"\x0b\0"
EMPTY = bytes([0, END])  # the body of a function that does nothing


@dataclass(frozen=True)
class Places:
    """Where things are: in the main module, by name, and in the libraries, as the snapshot recorded it."""

    late: Mapping[str, Mapping[str, int]]
    recorded: Mapping[str, Any]

    def address(self, name: str) -> int:
        """Of data, or the slot of a function.

        Raises:
            StartFailed: when nobody has it.
        """
        for known in (self.recorded["offsets"], self.late["functions"], self.late["data"]):
            if name in known:
                return int(known[name])
        raise StartFailed(f"it refers to {name}, whose place is not known")


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
    return {int(it.name) for it in found if it.module == MAIN_SLOTS}


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
    """One of the libraries, as binary.without_data() left it.

    Raises:
        StartFailed: when something in it is not known here.
    """
    parts = dict(sections(module))
    if missing := {CUSTOM, IMPORT, CODE} - parts.keys():
        raise StartFailed(f"it lacks sections: {sorted(missing)}")
    bases = _bases(parts[CUSTOM], path, places)
    imports = imports_in(parts[IMPORT])
    constants, kept, given = _addresses(imports, bases, places)
    others = [it for it in imports if it.kind != GLOBAL_KIND]
    linked = [_by_slot(it, places.late["functions"]) for it in [*kept, *others]]  # each kind is counted by itself
    its_globals = [*constants, *globals_in(parts.get(GLOBAL, b"\0"))]
    exports = exports_in(parts.get(EXPORT, b"\0"))
    data = dict(_data(exports, its_globals, len(kept), bases[MEMORY_BASE]))
    slots = {name: slot for slot, library, name in places.recorded["librarySlots"] if library == path}
    functions = {it.name: it.index for it in exports if it.kind == FUNCTION}
    if lost := slots.keys() - functions.keys():
        raise StartFailed(f"functions have slots that it does not export: {sorted(lost)[:3]}")
    bodies = Reader(parts[CODE]).texts()
    if START in parts:
        start = Reader(parts[START]).number() - sum(it.kind == FUNCTION for it in imports)
        if start < 0:
            raise StartFailed("it begins with a function of somebody else's")
        known = [given.get(it.name) for it in kept] + [it.constant for it in its_globals]
        _set_first(its_globals, len(kept), _carried_out(bodies[start], known))
        bodies[start] = EMPTY
    gone = {*slots, *data, *ONLY_AT_FIRST}
    bound = changed(
        module,
        {
            CUSTOM: None, START: None,
            IMPORT: vector(it.entry() for it in linked),
            GLOBAL: vector(it.entry() for it in its_globals),
            EXPORT: vector(it.entry() for it in exports if it.name not in gone),
            ELEMENT: longer(parts.get(ELEMENT), elements({slots[name]: functions[name] for name in slots})),
            CODE: vector(map(sized, bodies)),
        },
    )  # fmt: skip
    asked = [it.name for it in linked if it.module == OTHER and it.name not in given]
    return Bound(bound, asked=asked, given=given, functions=slots, data=data)


def _bases(custom: bytes, path: str, places: Places) -> dict[str, int]:
    """Where its data and its functions begin, as the loader placed them."""
    reader = Reader(custom)
    if reader.text() != LINKING:
        raise StartFailed("it is no library of Emscripten's")
    told = {}
    while not reader.is_done:
        kind = reader.byte()
        told[kind] = Reader(reader.text())
    if SIZES not in told or (NEEDED in told and told[NEEDED].texts()):
        raise StartFailed("it needs other libraries, or does not tell its size")
    memory_size, alignment = told[SIZES].number(), 1 << told[SIZES].number()
    places_of_it = [it for it in places.recorded["libraries"] if it["path"] == path]
    if len(places_of_it) != 1:
        raise StartFailed(f"it was loaded {len(places_of_it)} times")
    memory = -(-places_of_it[0]["memory"] // alignment) * alignment if memory_size else 0
    return {MEMORY_BASE: memory, TABLE_BASE: places_of_it[0]["table"]}


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
        raise StartFailed("it imports its globals in an order that is not known")
    given = {it.name: bases[it.name] for it in found[:first] if it.name in bases}
    rest = [bases[it.name] if it.name in bases else places.address(it.name) for it in found[first:]]
    return [_constant(value) for value in rest], found[:first], given


def _by_slot(it: Import, slots: Mapping[str, int]) -> Import:
    if it.kind == FUNCTION and it.name in slots:
        return Import(MAIN_SLOTS, str(slots[it.name]), FUNCTION, it.type)
    if it.module != OTHER:
        raise StartFailed(f"it imports {it.name} from {it.module}, which is not known")
    return it


def _carried_out(body: bytes, known: Sequence[int | None]) -> dict[int, int]:
    """The globals that the first function of a library sets. It also clears memory, which the snapshot fills.

    There are no jumps in such a function.
    """
    reader = Reader(body)
    reader.take(end_of_locals(body))
    values = {k: value for k, value in enumerate(known) if value is not None}
    stack: list[int] = []
    local: dict[int, int] = {}
    made: dict[int, int] = {}
    try:
        while (instruction := reader.byte()) != END:
            if instruction == CONSTANT_I32:
                stack.append(reader.number(signed=True))
            elif instruction == GLOBAL_GET:
                stack.append(values[reader.number()])
            elif instruction == GLOBAL_SET:
                index = reader.number()
                made[index] = values[index] = stack.pop()
            elif instruction == LOCAL_GET:
                stack.append(local[reader.number()])
            elif instruction == LOCAL_TEE:
                local[reader.number()] = stack[-1]
            elif instruction == ADD:
                stack.append(_as_i32(stack.pop() + stack.pop()))
            elif instruction == BULK and reader.take(2) == MEMORY_FILL:
                del stack[-3:]
            else:
                raise StartFailed(f"it begins with an instruction that is not known: {instruction:#x}")
    except (KeyError, IndexError):
        raise StartFailed("it begins with a function that counts on what is not known") from None
    return made


def _set_first(its_globals: list[Global], first: int, values: Mapping[int, int]) -> None:
    """Make constants of what is set before anything else runs."""
    for index, value in values.items():
        if index < first or its_globals[index - first].kind != bytes([I32, 1]):
            raise StartFailed("it begins with setting a global that is not its own")
        its_globals[index - first] = _constant(value)


def _data(exports: Sequence[Export], own: Sequence[Global], first: int, base: int) -> Iterator[tuple[str, int]]:
    """The places of data that it exported; they were told from where its data begins."""
    for it in exports:
        if it.name.startswith(SCRIPTS):
            raise StartFailed("there is JavaScript in it")
        if it.kind == GLOBAL_KIND:
            value = own[it.index - first].constant if it.index >= first else None
            if value is None or own[it.index - first].is_mutable:
                raise StartFailed(f"it exports {it.name}, which is not the place of anything")
            yield it.name, base + value


def _as_i32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _constant(value: int) -> Global:
    return Global(bytes([I32, 0]), bytes([CONSTANT_I32]) + signed(_as_i32(value)) + bytes([END]), is_mutable=False)
