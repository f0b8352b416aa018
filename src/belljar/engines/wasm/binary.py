"""Rewrites WebAssembly modules, so that a start reads, links and fills no more of them than it needs.

A module is a list of sections, each a number and its bytes. Only what has to change is understood; the rest passes
through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from belljar.errors import StartFailed

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, IMPORT, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT, DATA, DATA_COUNT = 0, 2, 4, 5, 6, 7, 9, 11, 12
FUNCTION, TABLE_KIND, MEMORY_KIND, GLOBAL_KIND, TAG_KIND = range(5)  # what an import or an export is
FUNCREF, EXTERNREF = 0x70, 0x6F
CONSTANT_I32, END = 0x41, 0x0B
LINKING = b"dylink.0"  # the one custom section that Emscripten's loader reads
REFERENCES = "belljar_references_"  # with a number: the tables of references to JavaScript's objects

MEMORY_IMPORT = b"\x03env\x06memory" + bytes([MEMORY_KIND, 1, 0, 0x80, 0x80, 0x04])  # of any size

Section = tuple[int, bytes]


@dataclass(frozen=True)
class Trimmed:
    """What a restore instantiates, and what it can still ask for by name.

    `late` has the slots of functions and the places of data, by name.
    """

    module: bytes
    late: dict[str, dict[str, int]]


@dataclass(frozen=True)
class _Export:
    name: str
    kind: int
    index: int

    def entry(self) -> bytes:
        name = self.name.encode()
        return _number(len(name)) + name + bytes([self.kind]) + _number(self.index)


def without_data(module: bytes) -> bytes:
    """For an instance whose memory is filled by other means: no data, and no custom section but the loader's."""
    left = [(kind, body) for kind, body in _sections(module) if kind not in (DATA, DATA_COUNT)]
    return _joined((kind, body) for kind, body in left if kind != CUSTOM or _Reader(body).text() == LINKING)


def extended(module: bytes) -> bytes:
    """The main module with all exported functions in its table, too, and with the tables of references exported.

    Of its exports an instance makes every one; out of the table, a function is made when it is asked for.

    Raises:
        StartFailed: when it has no such table.
    """
    sections = _by_kind(module)
    tables = _tables(sections[TABLE])
    if not tables or tables[0][0] != FUNCREF:
        raise StartFailed("the main module of Pyodide has no function table of its own")
    functions = {export.index for export in _exports(sections[EXPORT]) if export.kind == FUNCTION}
    missing = sorted(functions - _slots(sections[ELEMENT]).keys())  # one address each: C compares them
    start = tables[0][1]
    element = bytes([0, CONSTANT_I32]) + _signed(start) + bytes([END]) + _vector(map(_number, missing))
    references = [index for index, (kind, _) in enumerate(tables) if kind == EXTERNREF]
    added = [_Export(f"{REFERENCES}{k}", TABLE_KIND, index).entry() for k, index in enumerate(references)]
    tables[0] = (FUNCREF, start + len(missing))
    changed = {
        TABLE: _vector(bytes([kind, 0]) + _number(least) for kind, least in tables),
        ELEMENT: _longer(sections[ELEMENT], [element]),
        EXPORT: _longer(sections[EXPORT], added),
    }
    return _joined((kind, changed.get(kind, body)) for kind, body in _sections(module))


def trimmed(module: bytes, wanted: Collection[str]) -> Trimmed:
    """An extended module that imports its memory, without data, and exports what is wanted or cannot be had later."""
    sections = _by_kind(module)
    exports = _exports(sections[EXPORT])
    slots = _slots(sections[ELEMENT])
    constants = _constants(sections[IMPORT], sections[GLOBAL])
    places = {export.name: constants[export.index] for export in exports if _is_constant(export, constants)}
    kept = [it for it in exports if it.name in wanted or not (it.kind == FUNCTION or it.name in places)]
    changed = {EXPORT: _vector(it.entry() for it in kept), IMPORT: _longer(sections[IMPORT], [MEMORY_IMPORT])}
    smaller = _joined((kind, changed.get(kind, body)) for kind, body in _sections(module) if kind != MEMORY)
    functions = {export.name: slots[export.index] for export in exports if export.kind == FUNCTION}
    return Trimmed(without_data(smaller), {"functions": functions, "data": places})


def export_names(module: bytes) -> set[str]:
    """The names of all exports."""
    return {export.name for export in _exports(_by_kind(module)[EXPORT])}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def is_done(self) -> bool:
        return self.at >= len(self._data)

    def byte(self) -> int:
        return self.take(1)[0]

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self._data):
            raise StartFailed("a WebAssembly module ends in the middle")
        return self._data[self.at - count : self.at]

    def number(self, *, signed: bool = False) -> int:
        """In LEB128: seven bits a byte, the lowest first; the eighth says that more follow."""
        value = shift = 0
        more = 0x80
        while more:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift, more = shift + 7, byte & 0x80
        return value - (1 << shift) if signed and byte & 0x40 else value

    def text(self) -> bytes:
        return self.take(self.number())

    def limits(self) -> int:
        """The least of a table or a memory; the most, if there is one, is read over."""
        has_most = self.number() & 1
        least = self.number()
        if has_most:
            self.number()
        return least


def _sections(module: bytes) -> Iterator[Section]:
    reader = _Reader(module)
    if reader.take(len(MAGIC)) != MAGIC:
        raise StartFailed("a library of Pyodide's is no WebAssembly module")
    while not reader.is_done:
        yield reader.byte(), reader.text()


def _by_kind(module: bytes) -> dict[int, bytes]:
    """The sections of a main module, which has all that are changed here."""
    sections = dict(_sections(module))
    if missing := {IMPORT, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT} - sections.keys():
        raise StartFailed(f"the main module of Pyodide lacks sections: {sorted(missing)}")
    return sections


def _tables(section: bytes) -> list[tuple[int, int]]:
    """Kind and least length of each, which must be free to grow."""
    reader, tables = _Reader(section), []
    for _ in range(reader.number()):
        kind, has_most, least = reader.byte(), reader.number(), reader.number()
        if has_most:
            raise StartFailed("the main module of Pyodide has a table that cannot grow")
        tables.append((kind, least))
    return tables


def _slots(section: bytes) -> dict[int, int]:
    """By number of a function, its slot in the table; of several the last, as Emscripten's loader has it."""
    reader = _Reader(section)
    slots: dict[int, int] = {}
    for _ in range(reader.number()):
        if (reader.number(), reader.byte()) != (0, CONSTANT_I32):
            raise StartFailed("the main module of Pyodide fills its table in a way that is not known")
        start = reader.number(signed=True)
        reader.byte()
        slots.update((reader.number(), start + k) for k in range(reader.number()))
    return slots


def _exports(section: bytes) -> list[_Export]:
    reader = _Reader(section)
    return [_Export(reader.text().decode(), reader.byte(), reader.number()) for _ in range(reader.number())]


def _constants(imports: bytes, section: bytes) -> dict[int, int]:
    """The values of all globals that never change, by number; imported ones come first in counting."""
    reader, values = _Reader(section), {}
    first = _imported_globals(imports)
    for index in range(first, first + reader.number()):
        _, is_mutable, instruction = reader.byte(), reader.byte(), reader.byte()
        value = reader.number(signed=True)
        if instruction != CONSTANT_I32 or reader.byte() != END:
            raise StartFailed("the main module of Pyodide has a global that is not a plain number")
        if not is_mutable:
            values[index] = value
    return values


def _imported_globals(section: bytes) -> int:
    reader, count = _Reader(section), 0
    for _ in range(reader.number()):
        reader.text(), reader.text()
        kind = reader.byte()
        count += kind == GLOBAL_KIND
        if kind == FUNCTION:
            reader.number()
        elif kind == TABLE_KIND:
            reader.byte(), reader.limits()
        elif kind == MEMORY_KIND:
            reader.limits()
        elif kind == TAG_KIND:
            reader.byte(), reader.number()
        else:
            reader.take(2)
    return count


def _is_constant(export: _Export, constants: dict[int, int]) -> bool:
    return export.kind == GLOBAL_KIND and export.index in constants


def _longer(section: bytes, entries: Sequence[bytes]) -> bytes:
    reader = _Reader(section)
    count = reader.number()
    return _number(count + len(entries)) + section[reader.at :] + b"".join(entries)


def _vector(entries: Iterable[bytes]) -> bytes:
    items = list(entries)
    return _number(len(items)) + b"".join(items)


def _joined(sections: Iterable[Section]) -> bytes:
    return MAGIC + b"".join(bytes([kind]) + _number(len(body)) + body for kind, body in sections)


def _number(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _signed(value: int) -> bytes:
    """A number that is not negative, where a sign is expected: its highest bit must not look like one."""
    plain = bytearray(_number(value))
    if plain[-1] & 0x40:
        plain[-1] |= 0x80
        plain.append(0)
    return bytes(plain)
