"""The Deno that came with Belljar, and how it is started: allowed nothing but to read the runtime."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from belljar.errors import EngineUnavailable

PAGES_PER_MB = 16  # of WebAssembly's memory, 64 KiB each
STACK_KB = 2500  # V8's default ends before Python's own limit of recursion does


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
        f"--v8-flags=--wasm-max-mem-pages={memory_mb * PAGES_PER_MB},--stack-size={STACK_KB}", f"{folder}/control.js",
        json.dumps(options),
    )  # fmt: skip


def build_command(deno: str, folder: Path, script: str, *args: str) -> list[str]:
    """What runs one of our own scripts, on no user's behalf, that may read and write the folder it builds in."""
    return [
        deno, "run", "--quiet", "--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only",
        "--deny-net", "--deny-env", "--deny-run", "--deny-ffi", "--deny-sys", "--deny-import",
        f"--allow-read={folder}", f"--allow-write={folder}", str(folder / script), *args,
    ]  # fmt: skip
