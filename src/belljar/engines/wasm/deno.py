"""The Deno that came with Belljar, and how it is started: allowed nothing but to read the runtime."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from belljar.errors import EngineUnavailable

PAGES_PER_MB = 16  # of WebAssembly's memory, 64 KiB each


def find_deno() -> Path:
    """The deno binary.

    Raises:
        EngineUnavailable: when there is none.
    """
    name = "deno.exe" if sys.platform == "win32" else "deno"
    beside = Path(sys.executable).parent / name
    found = beside if beside.exists() else shutil.which("deno")
    if found is None:
        raise EngineUnavailable("deno is missing, which comes with Belljar: `pip install deno`")
    return Path(found)


def sandbox_command(deno: str, folder: str, memory_mb: int, options: Mapping[str, object]) -> tuple[str, ...]:
    """What starts one sandbox. Every permission is denied by name, whatever a later Deno may allow by default."""
    denied = ("write", "net", "env", "run", "ffi", "sys", "import")
    return (
        deno, "run", "--quiet", "--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only",
        "--no-code-cache", f"--allow-read={folder}", *(f"--deny-{name}" for name in denied),
        f"--v8-flags=--wasm-max-mem-pages={memory_mb * PAGES_PER_MB}", f"{folder}/control.js", json.dumps(options),
    )  # fmt: skip


def build_command(deno: str, folder: Path, script: str, *args: str, into: Path | None = None) -> list[str]:
    """What runs one of our own scripts, on no user's behalf, that may read and write the folder it builds in.

    That is the runtime's own, which scripts are read from, unless `into` is another one.
    """
    readable = f"{folder},{into}" if into is not None else str(folder)
    return [
        deno, "run", "--quiet", "--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only",
        "--deny-net", "--deny-env", "--deny-run", "--deny-ffi", "--deny-sys", "--deny-import",
        f"--allow-read={readable}", f"--allow-write={into or folder}", str(folder / script), *args,
    ]  # fmt: skip
