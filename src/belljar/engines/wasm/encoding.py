"""How a WebAssembly module is written down: a list of sections, each a number and its bytes.

Whoever changes a module understands the sections that it changes; the rest passes through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from belljar.errors import StartFailed

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, TYPE, IMPORT, FUNCTIONS, TABLE, MEMORY, GLOBAL, EXPORT, START, ELEMENT, CODE, DATA, DATA_COUNT, TAG = range(14)
ORDER = (CUSTOM, TYPE, IMPORT, FUNCTIONS, TABLE, MEMORY, TAG, GLOBAL, EXPORT, START, ELEMENT, DATA_COUNT, CODE, DATA)
FUNCTION, TABLE_KIND, MEMORY_KIND, GLOBAL_KIND, TAG_KIND = range(5)  # what an import or an export is
FUNCREF, EXTERNREF = 0x70, 0x6F
LINKING = b"dylink.0"  # the custom section that Emscripten's loader reads
TYPED_REFERENCES = (0x63, 0x64)  # followed by what they refer to
I32, FUNCTION_TYPE = 0x7F, 0x60
CONSTANT_I32, CONSTANT_I64, LOCAL_GET, GLOBAL_GET, REF_NULL, END = 0x41, 0x42, 0x20, 0x23, 0xD0, 0x0B
OTHER_CONSTANTS = {0x43: 4, 0x44: 8}  # bytes that follow: of a float and of a double

Section = tuple[int, bytes]


class Reader:
    """Reads bytes in order, and complains when there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def is_done(self) -> bool:
        """Whether all is read."""
        return self.at >= len(self._data)

    def byte(self) -> int:
        """The next one."""
        return self.take(1)[0]

    def take(self, count: int) -> bytes:
        """The next few.

        Raises:
            StartFailed: when there are not as many.
        """
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
        """Bytes that say before how many they are."""
        return self.take(self.number())

    def texts(self) -> list[bytes]:
        """A vector of these."""
        return [self.text() for _ in range(self.number())]

    def limits(self) -> int:
        """The least of a table or a memory; the most, if there is one, is read over."""
        has_most = self.number() & 1
        least = self.number()
        if has_most:
            self.number()
        return least

    def value_type(self) -> bytes:
        """The type of a value, as it is written."""
        start = self.at
        if self.byte() in TYPED_REFERENCES:
            self.number(signed=True)
        return self._data[start : self.at]


@dataclass(frozen=True)
class Export:
    """A name, what it names, and which of these."""

    name: str
    kind: int
    index: int

    def entry(self) -> bytes:
        """As it is written."""
        return text(self.name) + bytes([self.kind]) + number(self.index)


def sections(module: bytes) -> Iterator[Section]:
    """All of a module, in order.

    Raises:
        StartFailed: when it is none.
    """
    reader = Reader(module)
    if reader.take(len(MAGIC)) != MAGIC:
        raise StartFailed("a library of Pyodide's is no WebAssembly module")
    while not reader.is_done:
        yield reader.byte(), reader.text()


def joined(parts: Iterable[Section]) -> bytes:
    """A module of these sections, in this order."""
    return MAGIC + b"".join(bytes([kind]) + number(len(body)) + body for kind, body in parts)


def changed(module: bytes, new: Mapping[int, bytes | None]) -> bytes:
    """The module with some sections replaced, added or, when they are None, left out.

    Raises:
        StartFailed: when it has a section that is not known.
    """
    kept = [(kind, body) for kind, body in sections(module) if kind not in new]
    if unknown := {kind for kind, _ in kept}.difference(ORDER):
        raise StartFailed(f"a WebAssembly module has sections that are not known: {sorted(unknown)}")
    added = [(kind, body) for kind, body in new.items() if body is not None]
    return joined(sorted(kept + added, key=lambda section: ORDER.index(section[0])))


def exports_in(section: bytes) -> list[Export]:
    """What a section of exports has."""
    reader = Reader(section)
    return [Export(reader.text().decode(), reader.byte(), reader.number()) for _ in range(reader.number())]


@dataclass(frozen=True)
class Import:
    """Where it is looked up, what it is, and its type as it is written."""

    module: str
    name: str
    kind: int
    type: bytes

    def entry(self) -> bytes:
        """As it is written."""
        return text(self.module) + text(self.name) + bytes([self.kind]) + self.type


def imports_in(section: bytes) -> list[Import]:
    """What a section of imports has.

    Raises:
        StartFailed: when one is of a kind that is not known.
    """
    reader, found = Reader(section), []
    for _ in range(reader.number()):
        module, name, kind, start = reader.text().decode(), reader.text().decode(), reader.byte(), reader.at
        if kind == FUNCTION:
            reader.number()
        elif kind == TABLE_KIND:
            reader.value_type(), reader.limits()
        elif kind == MEMORY_KIND:
            reader.limits()
        elif kind == GLOBAL_KIND:
            reader.value_type(), reader.byte()
        elif kind == TAG_KIND:
            reader.byte(), reader.number()
        else:
            raise StartFailed(f"a WebAssembly module imports something of an unknown kind: {kind}")
        found.append(Import(module, name, kind, section[start : reader.at]))
    return found


def count_imports(section: bytes) -> list[int]:
    """How many a section of imports has of each kind: they come first wherever these are counted."""
    kinds = [it.kind for it in imports_in(section)]
    return [kinds.count(kind) for kind in (FUNCTION, TABLE_KIND, MEMORY_KIND, GLOBAL_KIND, TAG_KIND)]


@dataclass(frozen=True)
class Global:
    """One that a module has itself: its type, and the instructions that make its first value, as they are written."""

    kind: bytes
    value: bytes
    is_mutable: bool

    @property
    def constant(self) -> int | None:
        """Its first value, where that is a plain number."""
        reader = Reader(self.value)
        return reader.number(signed=True) if reader.byte() == CONSTANT_I32 else None

    def entry(self) -> bytes:
        """As it is written."""
        return self.kind + self.value


def globals_in(section: bytes) -> list[Global]:
    """What a section of globals has.

    Raises:
        StartFailed: when one is made in a way that is not known.
    """
    reader, found = Reader(section), []
    for _ in range(reader.number()):
        kind, is_mutable, start = reader.value_type(), reader.byte(), reader.at
        while (instruction := reader.byte()) != END:
            if instruction in (CONSTANT_I32, CONSTANT_I64):
                reader.number(signed=True)
            elif instruction == GLOBAL_GET:
                reader.number()
            elif instruction in OTHER_CONSTANTS:
                reader.take(OTHER_CONSTANTS[instruction])
            elif instruction == REF_NULL:
                reader.number(signed=True)
            else:
                raise StartFailed(f"a WebAssembly module has a global that is made in an unknown way: {instruction:#x}")
        found.append(Global(kind + bytes([is_mutable]), section[start : reader.at], bool(is_mutable)))
    return found


def end_of_locals(body: bytes) -> int:
    """Where the instructions of a function begin."""
    reader = Reader(body)
    for _ in range(reader.number()):
        reader.number(), reader.value_type()
    return reader.at


def longer(section: bytes | None, entries: Sequence[bytes]) -> bytes:
    """A vector with more entries; without a section, a new one."""
    reader = Reader(section or b"\0")
    count = reader.number()
    return number(count + len(entries)) + (section or b"\0")[reader.at :] + b"".join(entries)


def vector(entries: Iterable[bytes]) -> bytes:
    """Entries, and before them how many they are."""
    items = list(entries)
    return number(len(items)) + b"".join(items)


def sized(body: bytes) -> bytes:
    """Bytes, and before them how many they are."""
    return number(len(body)) + body


def text(name: str) -> bytes:
    """A name as it is written."""
    return sized(name.encode())


def number(value: int) -> bytes:
    """A number that is not negative."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def signed(value: int) -> bytes:
    """A number that may be negative: the highest bit of what is written is its sign."""
    written = bytearray()
    while not -0x40 <= value < 0x40:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value & 0x7F])


def elements(slots: Mapping[int, int]) -> list[bytes]:
    """What fills the first table with functions, by slot; one entry for those that follow each other."""
    found = []
    for _, run in groupby(enumerate(sorted(slots)), lambda it: it[1] - it[0]):
        places = [slot for _, slot in run]
        at = bytes([0, CONSTANT_I32]) + signed(places[0]) + bytes([END])
        found.append(at + vector(number(slots[slot]) for slot in places))
    return found
