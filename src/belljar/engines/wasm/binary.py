"""Rewrites Pyodide's modules for restores, so that a start reads, links and fills no more of them than it needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from belljar.engines.wasm.encoding import (
    CONSTANT_I32,
    CUSTOM,
    DATA,
    DATA_COUNT,
    ELEMENT,
    EXPORT,
    EXTERNREF,
    FUNCREF,
    FUNCTION,
    GLOBAL,
    GLOBAL_KIND,
    IMPORT,
    LINKING,
    MEMORY,
    MEMORY_KIND,
    TABLE,
    TABLE_KIND,
    Export,
    Reader,
    changed,
    count_imports,
    elements,
    exports_in,
    globals_in,
    joined,
    longer,
    number,
    sections,
    text,
    vector,
)
from belljar.errors import StartFailed

REFERENCES = "belljar_references_"  # with a number: the tables of references to JavaScript's objects

MEMORY_IMPORT = text("env") + text("memory") + bytes([MEMORY_KIND, 1, 0, 0x80, 0x80, 0x04])  # of any size


@dataclass(frozen=True)
class Trimmed:
    """What a restore instantiates, and what it can still ask for by name.

    `late` has the slots of functions and the places of data, by name.
    """

    module: bytes
    late: dict[str, dict[str, int]]


def without_data(module: bytes) -> bytes:
    """For an instance whose memory is filled by other means: no data, and no custom section but the loader's."""
    left = [(kind, body) for kind, body in sections(module) if kind not in (DATA, DATA_COUNT)]
    return joined((kind, body) for kind, body in left if kind != CUSTOM or Reader(body).text() == LINKING)


def extended(module: bytes) -> bytes:
    """The main module with all exported functions in its table, too, and with the tables of references exported.

    Of its exports an instance makes every one; out of the table, a function is made when it is asked for.

    Raises:
        StartFailed: when it has no such table.
    """
    parts = _by_kind(module)
    tables = _tables(parts[TABLE])
    if not tables or tables[0][0] != FUNCREF:
        raise StartFailed("the main module of Pyodide has no function table of its own")
    functions = {export.index for export in exports_in(parts[EXPORT]) if export.kind == FUNCTION}
    missing = sorted(functions - _slots(parts[ELEMENT]).keys())  # one address each: C compares them
    start = tables[0][1]
    references = [index for index, (kind, _) in enumerate(tables) if kind == EXTERNREF]
    added = [Export(f"{REFERENCES}{k}", TABLE_KIND, index).entry() for k, index in enumerate(references)]
    tables[0] = (FUNCREF, start + len(missing))
    return changed(
        module,
        {
            TABLE: vector(bytes([kind, 0]) + number(least) for kind, least in tables),
            ELEMENT: longer(parts[ELEMENT], elements(dict(enumerate(missing, start)))),
            EXPORT: longer(parts[EXPORT], added),
        },
    )


def trimmed(module: bytes, wanted: Collection[str]) -> Trimmed:
    """An extended module that imports its memory, without data, and exports what is wanted or cannot be had later."""
    parts = _by_kind(module)
    exports = exports_in(parts[EXPORT])
    slots = _slots(parts[ELEMENT])
    constants = _constants(parts[IMPORT], parts[GLOBAL])
    places = {export.name: constants[export.index] for export in exports if _is_constant(export, constants)}
    kept = [it for it in exports if it.name in wanted or not (it.kind == FUNCTION or it.name in places)]
    smaller = changed(
        module,
        {
            EXPORT: vector(it.entry() for it in kept),
            IMPORT: longer(parts[IMPORT], [MEMORY_IMPORT]),
            MEMORY: None,
        },
    )
    functions = {export.name: slots[export.index] for export in exports if export.kind == FUNCTION}
    return Trimmed(without_data(smaller), {"functions": functions, "data": places})


def export_names(module: bytes) -> set[str]:
    """The names of all exports."""
    return {export.name for export in exports_in(_by_kind(module)[EXPORT])}


def _by_kind(module: bytes) -> dict[int, bytes]:
    """The sections of a main module, which has all that are changed here."""
    parts = dict(sections(module))
    if missing := {IMPORT, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT} - parts.keys():
        raise StartFailed(f"the main module of Pyodide lacks sections: {sorted(missing)}")
    return parts


def _tables(section: bytes) -> list[tuple[int, int]]:
    """Kind and least length of each, which must be free to grow."""
    reader, tables = Reader(section), []
    for _ in range(reader.number()):
        kind, has_most, least = reader.byte(), reader.number(), reader.number()
        if has_most:
            raise StartFailed("the main module of Pyodide has a table that cannot grow")
        tables.append((kind, least))
    return tables


def _slots(section: bytes) -> dict[int, int]:
    """By number of a function, its slot in the table; of several the last, as Emscripten's loader has it."""
    reader = Reader(section)
    slots: dict[int, int] = {}
    for _ in range(reader.number()):
        if (reader.number(), reader.byte()) != (0, CONSTANT_I32):
            raise StartFailed("the main module of Pyodide fills its table in a way that is not known")
        start = reader.number(signed=True)
        reader.byte()
        slots.update((reader.number(), start + k) for k in range(reader.number()))
    return slots


def _constants(imports: bytes, section: bytes) -> dict[int, int]:
    """The values of all globals that never change, by number; imported ones come first in counting."""
    values = {}
    for index, it in enumerate(globals_in(section), count_imports(imports)[GLOBAL_KIND]):
        if it.constant is None:
            raise StartFailed("the main module of Pyodide has a global that is not a plain number")
        if not it.is_mutable:
            values[index] = it.constant
    return values


def _is_constant(export: Export, constants: dict[int, int]) -> bool:
    return export.kind == GLOBAL_KIND and export.index in constants
