"""Write the part of the protocol that TypeScript needs: python tools/protocol_ts.py

The WebAssembly runtime imports the written file. A test compares it with `belljar_kernel/protocol.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

from belljar_kernel import protocol
from belljar_kernel.protocol import Fields

TARGET = Path(__file__).parent.parent / "src/belljar/engines/wasm/runtime/protocol.ts"
HEAD = """\
/** The part of belljar_kernel/protocol.py that the runtime needs. Written by tools/protocol_ts.py: change it there. */
"""
CONSTANTS = {
    "WORKSPACE": ("The sandbox's own files.", protocol.WORKSPACE),
    "HOME": ("Its home folder.", protocol.HOME),
    "OWN": (
        "Folders of the sandbox's own, which share its disk limit.",
        [protocol.WORKSPACE, protocol.TMP, protocol.HOME],
    ),
    "LAYER": ("Packages that were added.", protocol.PACKAGES),
    "SITE": ("Packages of the environment.", protocol.WASM_SITE),
    "KERNEL": ("The folder that the kernel is imported from.", protocol.WASM_KERNEL),
    "FILE_PIECE_BYTES": ("Of a file that is read.", protocol.FILE_PIECE_BYTES),
    "HANDED_PIECE_BYTES": ("Of a file that is handed over.", protocol.HANDED_PIECE_BYTES),
    "MOUNT_PIECE_BYTES": ("Of a file in a mounted folder that is read.", protocol.MOUNT_PIECE_BYTES),
    "FOLDER_LEVELS": ("Of folders within folders.", protocol.FOLDER_LEVELS),
}
WIDTH = 120
TYPES = {str: "string", int: "number", float: "number", bool: "boolean", list: "unknown[]", dict: "object"}


def source() -> str:
    """The whole file, as `deno fmt` leaves it."""
    constants = "".join(
        f"/** {words} */\nexport const {name} = {written(value)};\n" for name, (words, value) in CONSTANTS.items()
    )
    requests = union("ProgramRequest", "Requests that the program answers itself.", protocol.PROGRAM_REQUESTS)
    events = {**protocol.KERNEL_EVENTS, **protocol.PROGRAM_EVENTS}
    open_end = {"done": "[field: string]: unknown"}  # its fields depend on the Request
    words = " | ".join(f'"{word}"' for word in protocol.FILE_FAILURES)
    failures = f"/** Why an act on a file did not work. */\nexport type FileFailure = {words};\n"
    return f"{HEAD}{constants}\n{failures}\n{requests}\n{union('Event', 'What the host takes.', events, open_end)}"


def union(name: str, words: str, messages: dict[str, Fields], open_end: dict[str, str] | None = None) -> str:
    """A type for messages: each by its name, with its fields."""
    rows = [row(members(kind, fields, (open_end or {}).get(kind))) for kind, fields in messages.items()]
    return f"/** {words} */\nexport type {name} =\n" + "\n".join(rows) + ";\n"


def row(members: list[str]) -> str:
    """One message of a union: on one line if it fits there, as `deno fmt` decides."""
    line = f"  | {{ {'; '.join(members)} }}"
    return line if len(line) <= WIDTH else "\n".join(["  | {", *(f"    {member};" for member in members), "  }"])


def members(kind: str, fields: Fields, open_end: str | None) -> list[str]:
    """The members of a message's type."""
    typed = [member(name, types) for name, types in fields.items()]
    return [f'type: "{kind}"', "id: number", *typed, *([open_end] if open_end else [])]


def member(name: str, types: tuple[type, ...]) -> str:
    """One field. What may be null may be left out."""
    if not types:
        return f"{name}?: unknown"
    names = dict.fromkeys(TYPES[kind] for kind in types if kind is not protocol.NULL)
    is_optional = protocol.NULL in types
    return f"{name}{'?' if is_optional else ''}: {' | '.join([*names, *(['null'] if is_optional else [])])}"


def written(value: object) -> str:
    """A value as TypeScript writes it."""
    return json.dumps(value)


if __name__ == "__main__":
    TARGET.write_text(source(), encoding="utf-8")
