"""Splits a module: what usual code calls, and the rest, which V8 need not even read before somebody calls it.

Both halves have all functions, under the same numbers. One whose home is the other half is a stub here, which calls
it through a table that both share. The first call of a cold function has the cold half loaded, by a function that the
table begins with; see cold.ts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from belljar.engines.wasm.encoding import (
    CODE,
    CONSTANT_I32,
    CUSTOM,
    ELEMENT,
    END,
    EXPORT,
    FUNCREF,
    FUNCTION,
    FUNCTION_TYPE,
    FUNCTIONS,
    GLOBAL,
    GLOBAL_GET,
    GLOBAL_KIND,
    I32,
    IMPORT,
    LOCAL_GET,
    MEMORY,
    MEMORY_KIND,
    START,
    TABLE,
    TABLE_KIND,
    TAG,
    TAG_KIND,
    TYPE,
    Export,
    Reader,
    changed,
    count_imports,
    end_of_locals,
    exports_in,
    globals_in,
    longer,
    number,
    sections,
    signed,
    sized,
    text,
    vector,
)
from belljar.errors import StartFailed

HOT = "belljar_hot"  # the namespace that the cold half imports from, and how the names in it begin
CONSTANT = "belljar_constant"  # the namespace of constants, each called as its value
CALLS = "belljar_calls"  # of a counted module: the table that has the functions that were called
LOADER = 0  # the slot of the function that loads the cold half, given the number of the module

NOTHING = 0x40
UNREACHABLE, IF, CALL, CALL_INDIRECT, TAIL_CALL, TAIL_CALL_INDIRECT = 0x00, 0x04, 0x10, 0x11, 0x12, 0x13
TABLE_GET, TABLE_SET, REF_IS_NULL, REF_FUNC = 0x25, 0x26, 0xD1, 0xD2
MENTIONS = (CALL, TAIL_CALL, REF_FUNC)  # what is followed by the number of a function
TO_TABLE, DECLARED = 2, 3  # kinds of elements
NO_LOCALS = b"\0"


@dataclass(frozen=True)
class Halves:
    """The hot one is instantiated at every start, the cold one when it is needed."""

    hot: bytes
    cold: bytes


def counted(module: bytes) -> bytes:
    """The module, each of whose functions puts itself into the table `belljar_calls` when it is called."""
    its = _Anatomy(module)
    table = its.tables
    marked = []
    for k, body in enumerate(its.bodies):
        mark = bytes([CONSTANT_I32]) + signed(k) + bytes([REF_FUNC]) + number(its.imported + k)
        start = end_of_locals(body)
        marked.append(sized(body[:start] + mark + bytes([TABLE_SET]) + number(table) + body[start:]))
    everyone = vector(number(its.imported + k) for k in range(len(its.bodies)))
    return changed(
        module,
        {
            TABLE: longer(its.parts.get(TABLE), [bytes([FUNCREF, 0]) + number(len(its.bodies))]),
            EXPORT: longer(its.parts.get(EXPORT), [Export(CALLS, TABLE_KIND, table).entry()]),
            ELEMENT: longer(its.parts.get(ELEMENT), [bytes([DECLARED, 0]) + everyone]),
            CODE: vector(marked),
        },
    )


def halves(module: bytes, called: Collection[int], own_number: int) -> Halves:
    """Split a module into the functions that were called, counted without imports, and the others.

    `own_number` is what the loader is given.

    Raises:
        StartFailed: when it has something that is not known here.
    """
    its = _Anatomy(module)
    its.check_start(called)
    hot = [k for k in range(len(its.bodies)) if k in called]
    cold = sorted(its.wanted_of(hot) - set(hot))
    slots = {k: slot for slot, k in enumerate([*hot, *cold], LOADER + 1)}
    return Halves(_hot_half(module, its, hot, slots, own_number), _cold_half(module, its, hot, cold, slots))


def _hot_half(module: bytes, its: _Anatomy, hot: Sequence[int], slots: Mapping[int, int], own_number: int) -> bytes:
    table, loading = its.tables, its.types
    bodies = list(its.bodies)
    for k in set(range(len(bodies))).difference(hot):
        bodies[k] = bytes([0, UNREACHABLE, END])  # called by cold ones only, and these have the real one
        if k in slots:
            is_there = bytes([CONSTANT_I32]) + signed(slots[k]) + bytes([TABLE_GET]) + number(table)
            call = bytes([CONSTANT_I32]) + signed(own_number) + bytes([CONSTANT_I32, LOADER, CALL_INDIRECT])
            load = bytes([REF_IS_NULL, IF, NOTHING]) + call + number(loading) + number(table) + bytes([END])
            bodies[k] = NO_LOCALS + is_there + load + its.passing(k, slots[k], table)
    shared = [export.entry() for export, _ in its.shared() if export is not None]
    return changed(
        module,
        {
            TYPE: longer(its.parts[TYPE], [bytes([FUNCTION_TYPE, 1, I32, 0])]),
            TABLE: longer(its.parts.get(TABLE), [bytes([FUNCREF, 0]) + number(LOADER + 1 + len(slots))]),
            EXPORT: longer(its.parts.get(EXPORT), [*shared, Export(f"{HOT}_table", TABLE_KIND, table).entry()]),
            ELEMENT: longer(its.parts.get(ELEMENT), [its.elements(table, LOADER + 1, hot)]),
            CODE: vector(map(sized, bodies)),
        },
    )


def _cold_half(
    module: bytes, its: _Anatomy, hot: Sequence[int], cold: Sequence[int], slots: Mapping[int, int]
) -> bytes:
    """It has no memory, table, tag or changing global of its own, exports nothing, and starts nothing."""
    table = its.tables
    bodies = list(its.bodies)
    for k in hot:
        bodies[k] = NO_LOCALS + its.passing(k, slots[k], table)
    imports = [entry for _, entry in its.shared()]
    imports.append(text(HOT) + text(f"{HOT}_table") + bytes([TABLE_KIND, FUNCREF, 0, 0]))
    return changed(
        module,
        {
            CUSTOM: None, TABLE: None, MEMORY: None, TAG: None, EXPORT: None, START: None,
            IMPORT: longer(its.parts[IMPORT], imports),
            GLOBAL: its.lasting_globals(),
            ELEMENT: vector([its.elements(table, LOADER + 1 + len(hot), cold)]),
            CODE: vector(map(sized, bodies)),
        },
    )  # fmt: skip


class _Anatomy:
    """What of a module has to be known to split it. Functions are counted from the first that is not imported."""

    def __init__(self, module: bytes) -> None:
        self.parts = dict(sections(module))
        if missing := {TYPE, IMPORT, FUNCTIONS, CODE} - self.parts.keys():
            raise StartFailed(f"a WebAssembly module cannot be split, since it lacks sections: {sorted(missing)}")
        self._imports = count_imports(self.parts[IMPORT])
        self.imported = self._imports[FUNCTION]
        self.tables = self._imports[TABLE_KIND] + self._count(TABLE)
        self.types = self._count(TYPE)
        self.bodies = Reader(self.parts[CODE]).texts()
        self._parameters = _parameters(self.parts[TYPE])
        reader = Reader(self.parts[FUNCTIONS])
        self._types_of = [reader.number() for _ in range(reader.number())]
        self._globals = globals_in(self.parts.get(GLOBAL, b"\0"))

    def check_start(self, called: Collection[int]) -> None:
        """What an instance begins with runs before there is a loader."""
        if START in self.parts and Reader(self.parts[START]).number() - self.imported not in called:
            raise StartFailed("a WebAssembly module begins with a function that the rehearsal did not call")

    def _count(self, section: int) -> int:
        return Reader(self.parts.get(section, b"\0")).number()

    def passing(self, k: int, slot: int, table: int) -> bytes:
        """The end of a function that hands its parameters on to the one in a slot, and is gone itself."""
        given = b"".join(bytes([LOCAL_GET]) + number(n) for n in range(self._parameters[self._types_of[k]]))
        target = bytes([CONSTANT_I32]) + signed(slot) + bytes([TAIL_CALL_INDIRECT])
        return given + target + number(self._types_of[k]) + number(table) + bytes([END])

    def elements(self, table: int, start: int, functions: Sequence[int]) -> bytes:
        """What fills the table with functions, from a slot on."""
        place = bytes([TO_TABLE]) + number(table) + bytes([CONSTANT_I32]) + signed(start) + bytes([END, 0])
        return place + vector(number(self.imported + k) for k in functions)

    def wanted_of(self, hot: Sequence[int]) -> set[int]:
        """Those that the hot half may have to call: its own calls, and what is known by address or by name.

        Wherever a byte may be a call, it is taken for one.
        """
        wanted = {export.index for export in exports_in(self.parts.get(EXPORT, b"\0")) if export.kind == FUNCTION}
        wanted |= set(_functions_in(self.parts.get(ELEMENT, b"\0")))
        for k in hot:
            wanted.update(_mentioned(self.bodies[k]))
        return {index - self.imported for index in wanted if 0 <= index - self.imported < len(self.bodies)}

    def shared(self) -> Iterator[tuple[Export | None, bytes]]:
        """What the hot half has and the cold one uses as well: as an export, and as an import.

        A constant that lies before what can change is imported by its value, and not exported: there may be many.
        """
        for export, kind in self._exported():
            written = self._globals[export.index - self._imports[GLOBAL_KIND]] if export.kind == GLOBAL_KIND else None
            if written is not None and not written.is_mutable and written.constant is not None:
                yield None, text(CONSTANT) + text(str(written.constant)) + bytes([GLOBAL_KIND]) + kind
            else:
                yield export, text(HOT) + text(export.name) + bytes([export.kind]) + kind

    def _exported(self) -> Iterator[tuple[Export, bytes]]:
        """All that is shared, and its type as an import has it."""
        reader = Reader(self.parts.get(TABLE, b"\0"))
        for k in range(reader.number()):
            kind, _ = reader.value_type(), reader.limits()
            yield Export(f"{HOT}_table_{k}", TABLE_KIND, self._imports[TABLE_KIND] + k), kind + bytes([0, 0])
        for k in range(self._count(MEMORY)):
            yield Export(f"{HOT}_memory_{k}", MEMORY_KIND, self._imports[MEMORY_KIND] + k), bytes([0, 0])
        for k, written in enumerate(self._globals[: self._count_changing()]):
            yield Export(f"{HOT}_global_{k}", GLOBAL_KIND, self._imports[GLOBAL_KIND] + k), written.kind
        reader = Reader(self.parts.get(TAG, b"\0"))
        for k in range(reader.number()):
            kind = reader.take(1) + number(reader.number())
            yield Export(f"{HOT}_tag_{k}", TAG_KIND, self._imports[TAG_KIND] + k), kind

    def _count_changing(self) -> int:
        """How many globals are shared: all up to the last that can change, or the others would get new numbers."""
        return max((k + 1 for k, written in enumerate(self._globals) if written.is_mutable), default=0)

    def lasting_globals(self) -> bytes:
        """The section of those that the cold half has itself."""
        return vector(written.entry() for written in self._globals[self._count_changing() :])


def _parameters(section: bytes) -> list[int]:
    """How many each type of function has."""
    reader, counts = Reader(section), []
    for _ in range(reader.number()):
        if reader.byte() != FUNCTION_TYPE:
            raise StartFailed("a WebAssembly module has types that are not functions")
        parameters = [reader.value_type() for _ in range(reader.number())]
        for _ in range(reader.number()):
            reader.value_type()
        counts.append(len(parameters))
    return counts


def _functions_in(section: bytes) -> Iterator[int]:
    """Those that fill a module's table."""
    reader = Reader(section)
    for _ in range(reader.number()):
        if reader.number() != 0:
            raise StartFailed("a WebAssembly module fills its table in a way that is not known")
        while (instruction := reader.byte()) != END:
            if instruction not in (CONSTANT_I32, GLOBAL_GET):
                raise StartFailed("a WebAssembly module fills its table from a place that is not known")
            reader.number()
        yield from (reader.number() for _ in range(reader.number()))


def _mentioned(body: bytes) -> Iterator[int]:
    for at, byte in enumerate(body):
        if byte in MENTIONS:
            value = shift = 0
            for more in body[at + 1 : at + 6]:
                value |= (more & 0x7F) << shift
                shift += 7
                if not more & 0x80:
                    yield value
                    break
