"""The Deno that came with Belljar, and how it is started: allowed nothing but to read the runtime."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from belljar.errors import EngineUnavailable, PackageError, StartFailed
from belljar.packages.programs import find_program

PAGES_PER_MB = 16  # of WebAssembly's memory, 64 KiB each
STACK_KB = 2500  # V8's default ends before Python's own limit of recursion does

# Python's interpreter is one large function. V8 guesses what it calls, and guesses wrong: each time it throws the
# compiled code away, goes on slowly and compiles for another 150 ms.
# Whatever it compiles, it does so in one thread beside the one that runs Python: more would only take turns with that.
V8_FLAGS = (f"--stack-size={STACK_KB}", "--no-wasm-deopt", "--wasm-num-compilation-tasks=1")

CACHE = "deno"  # the folder of the runtime's that has Deno's compiled scripts; see cache.py

# No folder for caches of its own, and no graphics driver: both are there without any permission.
ENVIRONMENT = {"DENO_DIR": f"{os.devnull}/none", "DENO_WEBGPU_BACKEND": "none", "NO_COLOR": "1"}


def find_deno() -> Path:
    """The deno binary.

    Raises:
        EngineUnavailable: when there is none.
    """
    try:
        return Path(find_program("deno"))
    except PackageError as missing:
        raise EngineUnavailable(str(missing)) from None


def sandbox_command(
    deno: str, folder: str, memory_mb: int, options: Mapping[str, object], *, is_cached: bool = False
) -> tuple[str, ...]:
    """What starts one sandbox. Every permission is denied by name, whatever a later Deno may allow by default.

    `is_cached` says that its environment names a folder of scripts that Deno has compiled before.
    """
    if "," in folder:
        raise StartFailed(f"Deno cannot be given a folder with a comma in its name: {folder}; use another one")
    pages = memory_mb * PAGES_PER_MB
    denied = ("write", "net", "env", "run", "ffi", "sys", "import")
    return (
        deno, "run", "--quiet", "--no-prompt", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only",
        *(() if is_cached else ("--no-code-cache",)), f"--allow-read={folder}", *(f"--deny-{name}" for name in denied),
        f"--v8-flags={','.join((f'--wasm-max-mem-pages={pages}', *V8_FLAGS))}", f"{folder}/control.js",
        json.dumps({**options, "memoryPages": pages, "areCompiled": is_cached}),
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
