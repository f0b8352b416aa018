"""Foreign programs for tests: Deno with a script, or Python as native code that knows its way around; and what they said."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import probe

from belljar.engines.base import Exit, Spec
from belljar.engines.confinement import Program
from belljar.engines.native.confined import ConfinedProgram
from belljar.engines.native.engine import NativeEngine
from belljar.limits import Limits
from belljar.packages.environment import Environment, default_python
from belljar.settings import Settings

DENO = Path(sys.executable).parent / "deno"
QUIET = ("--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--cached-only", "--no-code-cache")
LIMITS = Limits(memory_mb=64, processes=16)
PATIENCE_S = 60


def deno(folder: Path, script: str, *flags: str, executable: Path = DENO) -> Program:
    """Deno with a script, which is put into a folder that everybody can read."""
    shown = _shown(folder, "main.js", script)
    argv = ("/bin/deno", "run", *QUIET, *flags, "/runtime/main.js")
    return Program(argv, {"/bin/deno": executable, "/runtime": shown}, overhead_mb=128, threads=32)


def python(folder: Path, script: str) -> Program:
    """Python with ctypes: to the walls, a program like any other, and one that can call the system as it likes."""
    import _ctypes  # noqa: F401 - for its library, which must come along

    shown = _shown(folder, "main.py", script)
    maps = Path("/proc/self/maps").read_text()
    extra = {}
    for path in set(re.findall(r"(/\S+/libffi\.so\.\S+)", maps)):
        name = re.sub(r"(\.so\.\d+).*", r"\1", os.path.basename(path))
        extra[f"{os.path.dirname(path)}/{name}"] = Path(path)
    executable = f"/python/bin/{os.path.basename(default_python())}"
    folders = {"/python": Path(sys.base_prefix), "/runtime": shown, **extra}
    argv, env = (executable, "-I", "-S", "-B", "/runtime/main.py"), {"LD_LIBRARY_PATH": "/python/lib"}
    return Program(argv, folders, env, overhead_mb=64, threads=16)


@asynccontextmanager
async def engine() -> AsyncIterator[NativeEngine]:
    """An engine of its own, ended with all that it has."""
    made = NativeEngine("native", Settings.load())
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def confined(
    program: Program, limits: Limits = LIMITS, without: tuple[str, ...] = ()
) -> AsyncIterator[ConfinedProgram]:
    """A program, running; `without` leaves layers out, as an operator may allow it."""
    async with engine() as made:
        if without:
            probe.allow_missing(made, without)
        started = await made.confine(program, spec(limits))
        try:
            yield started
        finally:
            await started.close()


def spec(limits: Limits = LIMITS) -> Spec:
    return Spec(f"lab-{uuid.uuid4().hex}", Environment(default_python()), limits)


def outcome(
    program: Program, given: bytes = b"", limits: Limits = LIMITS, without: tuple[str, ...] = ()
) -> tuple[str, str, Exit]:
    """What a program prints and how it ends."""

    async def see() -> tuple[str, str, Exit]:
        async with confined(program, limits, without) as started, asyncio.timeout(PATIENCE_S):
            os.write(started.stdin, given)
            out, err = await asyncio.gather(everything(started.stdout), everything(started.stderr))
            return out.decode(), err.decode(), await started.exit

    return asyncio.run(see())


def said(program: Program, without: tuple[str, ...] = ()) -> Any:
    """The JSON that a program prints before it ends well."""
    out, err, end = outcome(program, without=without)
    assert (end, err) == (Exit(code=0), ""), out
    return json.loads(out)


async def everything(descriptor: int) -> bytes:
    """All that comes until the other end is closed."""
    found = b""
    while piece := await some(descriptor):
        found += piece
    return found


async def some(descriptor: int) -> bytes:
    """What is there next; nothing at the end."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, 1 << 16)


def pid(started: ConfinedProgram) -> int:
    """The program's number on the host."""
    return probe.pid_of(probe.pidfd(started))


def _shown(folder: Path, name: str, text: str) -> Path:
    shown = folder / "shown"
    shown.mkdir(exist_ok=True)
    shown.chmod(0o755)
    (shown / name).write_text(text)
    (shown / name).chmod(0o644)
    return shown
