"""The proof of the walls: a sandbox is built and each layer is attacked from inside. Nothing untried is believed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from belljar.engines.base import KernelExited, Spec, ignore
from belljar.engines.native import inside, scope
from belljar.engines.native.cgroups import NONE_WRITABLE, NoCgroups, find, fresh_name
from belljar.engines.native.process import NativeProcess
from belljar.engines.native.remembered import recall, remember
from belljar.errors import StartFailed
from belljar.health import EngineHealth, Layer
from belljar.limits import Limits
from belljar.packages.environment import Environment, default_python
from belljar.settings import Settings
from belljar_jail import landlock, linux

MakeProcess = Callable[[Spec, tuple[str, ...]], Awaitable[NativeProcess]]
# Shared memory, which the limit of the kernel's own process does not count: the control group has to stop it.
_BOMB = """
import mmap
blocks = []
while True:
    blocks.append(mmap.mmap(-1, 4 << 20))
    blocks[-1].write(bytes(4 << 20))
"""
PROBE_LIMITS = Limits(timeout_s=30, memory_mb=64, processes=16, disk_mb=4)

_PROBES = Path(__file__).with_name("probes.py")
_FIXES = {
    "namespaces": "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu 24.04 "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, in Docker `--security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined`",
    "landlock": "boot a kernel from 5.13 on with `lsm=landlock,...` in its command line",
    "seccomp": "use a kernel from 5.6 on with CONFIG_SECCOMP_FILTER",
}


@dataclass
class Canary:
    """Things on the host that a sandbox must not reach."""

    path: str
    port: int
    abstract: str


class Health:
    """Proves the native engine's layers, and remembers the proof for this boot, kernel, user, cgroup and Belljar."""

    def __init__(self, engine: str, settings: Settings) -> None:
        self._engine = engine
        self.settings = settings

    async def prove(self, make: MakeProcess) -> EngineHealth:
        """A proof that still holds, or a new one."""
        if os.uname().sysname != "Linux" or linux.MACHINE not in ("x86_64", "aarch64"):
            detail = f"needs Linux on x86_64 or aarch64; this is {os.uname().sysname} on {linux.MACHINE}"
            return EngineHealth(self._engine, False, (Layer("linux", False, detail),))
        remembered = self.settings.cache_dir / "proofs" / f"{self._key()}.json"
        with contextlib.suppress(TypeError):
            return EngineHealth(self._engine, True, tuple(Layer(**row) for row in recall(remembered)))
        health = await self._try_everything(make)
        if health.available and not health.missing:
            remember(remembered, [asdict(layer) for layer in health.layers])
        return health

    def _key(self) -> str:
        facts = [
            Path("/proc/sys/kernel/random/boot_id").read_text(),
            os.uname().release,
            str(os.getuid()),
            Path("/proc/self/cgroup").read_text(),
            inside.digest(),
            *(hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(__file__).parent.glob("*.py"))),
            str(default_python()),
            str(landlock.abi()),
        ]
        return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:24]

    async def _try_everything(self, make: MakeProcess) -> EngineHealth:
        absent = [] if landlock.abi() else [Layer("landlock", False, "this kernel has no Landlock", _FIXES["landlock"])]
        absent += _missing_cgroups()
        spec = Spec(f"proof-{secrets.token_hex(8)}", Environment(default_python()), PROBE_LIMITS)
        try:
            process = await make(spec, tuple(layer.name for layer in absent))
        except StartFailed as failure:
            layer = Layer("namespaces", False, str(failure), _FIXES["namespaces"])
            return EngineHealth(self._engine, False, (layer, *absent))
        try:
            with _canary(self.settings.cache_dir) as canary:
                layers = await _attack(process, canary)
        finally:
            await process.close()
        gone = {layer.name for layer in absent}
        return EngineHealth(self._engine, True, (*(layer for layer in layers if layer.name not in gone), *absent))


async def _attack(process: NativeProcess, canary: Canary) -> list[Layer]:
    """Run the probes inside, then exceed the memory, which ends the sandbox."""
    probes = _PROBES.read_text() + "\nfindings(_args)\n"
    facts = asdict(canary) | {"processes": PROBE_LIMITS.processes}
    done = await process.request(_run(1, probes) | {"args": facts}, ignore)
    if done["error"] is not None:
        return [Layer("probes", False, f"the probes failed: {done['error']['name']}: {done['error']['value']}")]
    layers = [
        Layer(str(row["name"]), row["holds"] is True, str(row["detail"])[:300], _FIXES.get(str(row["name"])))
        for row in done["value"]
    ]
    if process.group is None:  # nothing would stop a memory bomb but the end of the machine's memory
        return layers
    try:
        await process.request(_run(2, _BOMB), ignore)
        holds, detail = False, "memory past the limit was not stopped"
    except KernelExited as ended:
        holds = ended.exit.out_of_memory
        detail = "a memory bomb was ended at the limit" if holds else f"a memory bomb ended otherwise: {ended.exit}"
    return [*layers, Layer("memory", holds, detail)]


def _run(count: int, code: str) -> dict[str, object]:
    return {"type": "run", "count": count, "code": code, "env": {}, "stdin": None, "cwd": None}


def _missing_cgroups() -> list[Layer]:
    if scope.command():
        return []
    try:
        find(fresh_name()).remove()
    except NoCgroups as failure:
        return [Layer(name, False, NONE_WRITABLE, failure.fix) for name in ("memory", "processes")]
    return []


@contextlib.contextmanager
def _canary(folder: Path) -> Iterator[Canary]:
    """A file, a loopback listener and an abstract socket on the host, each with nothing to see for a sandbox."""
    abstract = f"belljar-canary-{secrets.token_hex(8)}"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.NamedTemporaryFile("w", dir=folder, prefix="canary-") as file,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        file.write("canary")
        file.flush()
        os.chmod(file.name, 0o644)
        unix.bind(f"\0{abstract}")
        unix.listen()
        yield Canary(file.name, tcp.getsockname()[1], abstract)
