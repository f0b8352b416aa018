"""Assembles the runtime folder, once per version: scripts, modules, kernel, packages, two proven snapshots, a cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import ModuleType

import belljar_kernel
from belljar.engines.wasm import binary, binding, bundle, cache, encoding, modules, pack, patches, rehearsal, split
from belljar.engines.wasm import deno as deno_module
from belljar.engines.wasm.deno import build_command, find_deno
from belljar.engines.wasm.modules import Calls, Modules
from belljar.engines.wasm.pack import Packing
from belljar.engines.wasm.rehearsal import called_functions
from belljar.errors import StartFailed
from belljar.limits import Limits
from belljar.packages import companion
from belljar.packages.bounded import bound_memory
from belljar.packages.lock import alone
from belljar.packages.progress import Progress
from belljar.packages.pyodide import PyodideSet

INSIDE = "/runtime"  # where a jail shows the folder
THREADS = ("control", "python")  # the scripts that those of a sandbox begin with
SCIENCE = "science"
SNAPSHOTS = ("base", SCIENCE)
PACK = ("packages.json", "packages.bin")
BUILD_TIMEOUT_S = 600
CHANGING = (
    binary,
    binding,
    bundle,
    cache,
    deno_module,
    encoding,
    modules,
    pack,
    patches,
    rehearsal,
    split,
)  # make another runtime
GENERATION = "7"  # counts up when a folder of an older Belljar must not be reused


@dataclass(frozen=True)
class Runtime:
    """A folder that sandboxes boot from, and only read. `snapshots` has the memory that each takes, in bytes."""

    folder: Path
    deno: Path
    digest: str
    snapshots: dict[str, int]
    failures: tuple[str, ...] = ()


def runtime_of(pyodide: PyodideSet, cache_dir: Path, progress: Progress) -> Runtime:
    """The runtime for a set of packages, assembled if it is not there yet.

    Raises:
        StartFailed: with what did not work.
    """
    deno = find_deno()
    digest = _digest(pyodide, deno)
    folder = cache_dir / "wasm" / f"runtime-{digest}"
    if not (folder / "runtime.json").exists():
        with alone(folder.with_suffix(".lock")):
            if not (folder / "runtime.json").exists():
                _assemble(pyodide, deno, folder, progress)
    facts = json.loads((folder / "runtime.json").read_text())
    return Runtime(folder, deno, digest, facts["snapshots"], tuple(facts["failures"]))


def is_assembled(pyodide: PyodideSet, cache_dir: Path) -> bool:
    """Whether runtime_of() would return at once."""
    return (cache_dir / "wasm" / f"runtime-{_digest(pyodide, find_deno())}" / "runtime.json").exists()


def _digest(pyodide: PyodideSet, deno: Path) -> str:
    facts = deno.stat()
    parts = [
        GENERATION,
        pyodide.digest,
        belljar_kernel.digest(),
        companion.digest(),
        str(facts.st_size),
        str(facts.st_mtime_ns),
    ]
    parts += [f"{name}\0{text}" for name, text in _scripts()]
    parts += [_text(module) for module in CHANGING]
    parts += [Path(__file__).read_text(encoding="utf-8"), str(Limits().memory_mb)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _text(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def _scripts() -> Iterator[tuple[str, str]]:
    folder = resources.files(__package__) / "runtime"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith((".ts", ".py")):
            yield path.name, path.read_text(encoding="utf-8")


def _assemble(pyodide: PyodideSet, deno: Path, folder: Path, progress: Progress) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-")).resolve()
    try:
        progress("Preparing the WebAssembly runtime (once)", 0.0)
        _copy_scripts(pyodide, deno, fresh)
        main = _write_main(pyodide, fresh)
        _pack_kernel(fresh)
        _pack_packages(pyodide, deno, fresh, progress)
        progress("Building the snapshots", 0.6)
        snapshots, failures = _build_snapshots(deno, fresh, Modules(fresh, main.module, main.late))
        failures += _fill_cache(deno, fresh, snapshots)
        (fresh / "runtime.json").write_text(json.dumps({"snapshots": snapshots, "failures": failures}))
        for path in (fresh, *fresh.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)  # whatever the umask: a jail has another user
        fresh.rename(folder)
        progress("WebAssembly runtime ready", 1.0)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _copy_scripts(pyodide: PyodideSet, deno: Path, folder: Path) -> None:
    for name in patches.PATCHES:
        script = (pyodide.core / name).read_text(encoding="utf-8")
        (folder / name).write_text(patches.patched(name, script), encoding="utf-8")
    shutil.copyfile(pyodide.core / "python_stdlib.zip", folder / "python_stdlib.zip")
    lock = json.loads((pyodide.core / "pyodide-lock.json").read_text())
    (folder / "lock.json").write_text(json.dumps({"info": lock["info"], "packages": {}}))
    sources = folder / "sources"
    sources.mkdir()
    for name, text in _scripts():
        (sources / name).write_text(text, encoding="utf-8")
    shutil.copyfile(sources / "compiled.py", folder / "compiled.py")
    names = [name for name, _ in _scripts() if name.endswith(".ts")]
    run_script([str(deno), "transpile", "--quiet", "--no-config", "--no-check", "--outdir", "out", *names], sources)
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in (sources / "out").iterdir()}
    scripts = {name: script.replace('.ts"', '.js"') for name, script in scripts.items()}
    scripts |= {name: bundle.bundled(scripts, name) for name in THREADS}
    for name, script in scripts.items():
        (folder / f"{name}.js").write_text(script, encoding="utf-8")
    shutil.rmtree(sources)


def _write_main(pyodide: PyodideSet, folder: Path) -> binary.Trimmed:
    """The main module whole, for plain boots and for building; returns what a restore needs of it."""
    whole = binary.extended((pyodide.core / "pyodide.asm.wasm").read_bytes())
    script = (folder / "pyodide.asm.mjs").read_text(encoding="utf-8")
    restored = binary.trimmed(whole, patches.named(script, binary.export_names(whole)))
    (folder / "pyodide.asm.wasm").write_bytes(whole)
    (folder / "late.json").write_text(json.dumps(restored.late))
    return restored


def _pack_kernel(folder: Path) -> None:
    with Packing(folder / "kernel") as packing:
        packing.add_folder(Path(belljar_kernel.__file__).parent, ("belljar_kernel",))
        for path, content in companion.files().items():
            packing.add(path, content)


def _pack_packages(pyodide: PyodideSet, deno: Path, folder: Path, progress: Progress) -> None:
    """The pack of all packages with their compiled modules. It outlives changes of the kernel and of our scripts."""
    parts = [GENERATION, pyodide.digest, dict(_scripts())["compiled.py"], repr(patches.PATCHES), _text(pack)]
    kept = folder.parent / f"packages-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"
    if not kept.exists():
        _compile_packages(pyodide, deno, folder, progress)
        whole = folder / "packages"
        whole.mkdir()
        for name in PACK:
            (folder / name).rename(whole / name)
        try:
            whole.rename(kept)
        except OSError:  # somebody else was faster
            shutil.rmtree(whole)
    for name in PACK:
        _link(kept / name, folder / name)


def _compile_packages(pyodide: PyodideSet, deno: Path, folder: Path, progress: Progress) -> None:
    """Pack once to have something to import from, compile every module inside, and pack again with the result."""
    with Packing(folder / "packages") as packing:
        packing.add_folder(pyodide.site)
    progress("Compiling the packages", 0.2)
    compiled = folder / "compiled.bin"
    run_script(build_command(str(deno), folder, "compile.js", str(compiled)))
    with Packing(folder / "packages") as packing:
        packing.add_folder(pyodide.site)
        packing.add_compiled(compiled)
    compiled.unlink()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def _fill_cache(deno: Path, folder: Path, snapshots: dict[str, int]) -> list[str]:
    """Where there can be a jail: Deno's cache, or why there is none."""
    if sys.platform != "linux":
        return []
    try:
        cache.fill(deno, folder, INSIDE, snapshots)
    except cache.NotFilledError as failure:
        return [str(failure)]
    return []


def _build_snapshots(deno: Path, folder: Path, built: Modules) -> tuple[dict[str, int], list[str]]:
    """The memory that each snapshot takes. One that cannot be proven is left out: sandboxes boot plainly then."""
    sizes: dict[str, int] = {}
    called: dict[str, Calls] = {}
    proven: dict[str, int] = {}
    failures: list[str] = []
    for name in SNAPSHOTS:
        with _noted(failures):
            said = run_script(build_command(str(deno), folder, "build.js", name))
            built.link(name)
            sizes[name] = int(json.loads(said.splitlines()[-1])["memoryBytes"])
    if not sizes:
        return proven, failures
    with _noted(failures):
        built.write_counted()
        for name in sizes:
            with _noted(failures):
                called[name] = called_functions(deno, folder, name, built.paths(name), name == SCIENCE)
        built.write_halves(called)
        for name in called:
            with _noted(failures):
                run_script(build_command(str(deno), folder, "verify.js", name))
                proven[name] = sizes[name]
    return proven, failures


@contextmanager
def _noted(failures: list[str]) -> Iterator[None]:
    try:
        yield
    except StartFailed as failure:
        failures.append(str(failure))


def run_script(
    command: list[str], folder: Path | None = None, seconds: float = BUILD_TIMEOUT_S, memory_bytes: int | None = None
) -> str:
    """Run one of our own scripts, with nothing of our environment but what Deno needs to keep its own files."""
    env = {name: os.environ[name] for name in ("HOME", "SYSTEMROOT", "LOCALAPPDATA", "TMPDIR") if name in os.environ}
    try:
        code, out, said = _ended(command, env, folder, seconds, memory_bytes)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise StartFailed(f"the WebAssembly runtime could not be prepared: {failure}") from failure
    if code:
        words = (said or out).strip()[-800:]
        raise StartFailed(f"the WebAssembly runtime could not be prepared: {' '.join(command[-2:])}: {words}")
    return out


def _ended(
    command: list[str], env: dict[str, str], folder: Path | None, seconds: float, memory_bytes: int | None
) -> tuple[int, str, str]:
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=env | {"NO_COLOR": "1"}, cwd=folder,
    ) as process:  # fmt: skip
        try:
            if memory_bytes is not None:
                bound_memory(process.pid, memory_bytes)
            out, said = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return process.returncode, out, said
