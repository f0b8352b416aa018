"""What a native sandbox sees of the file system: a pure plan of mounts, made here and carried out by the launcher."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from belljar.engines.native import route
from belljar.engines.native.interpreter import Interpreter
from belljar.engines.setup import VARIABLES
from belljar_jail import beneath
from belljar_kernel.protocol import HOME, PACKAGES, SHM, TMP, WORKSPACE

Step = dict[str, Any]

GUEST_PREFIX = "/opt/python"
SYSTEM_FOLDERS = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/bin", "/usr/share")
MERGED_FOLDERS = ("/lib", "/lib32", "/lib64", "/bin")
SETTINGS_FILES = (
    "/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
    "/etc/ca-certificates", "/etc/fonts", "/etc/mime.types", "/etc/localtime", "/etc/protocols", "/etc/services",
)  # fmt: skip
WRITTEN_FILES = {
    "/etc/passwd": f"sandbox:x:1000:1000:sandbox:{HOME}:/bin/sh\n",
    "/etc/group": "sandbox:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/hostname": "sandbox\n",
}
MOUNT_POINTS = (WORKSPACE, HOME, SHM, "/proc", PACKAGES, "/.disk", "/.empty", *beneath.folders())


def plan(interpreter: Interpreter, inside: Path, site: Path | None) -> list[Step]:
    """Every step that fills the empty root, in order."""
    steps = [*_system(), *_python(interpreter, inside, site)]
    steps += [
        {"kind": "bind", "at": path, "source": os.path.realpath(path)} for path in SETTINGS_FILES if _exists(path)
    ]
    steps += [{"kind": "file", "at": path, "text": text} for path, text in WRITTEN_FILES.items()]
    steps += [{"kind": "folder", "at": path} for path in MOUNT_POINTS]
    steps += [{"kind": "tmpfs", "at": TMP, "size": "16m"}]
    steps += [
        {"kind": "link", "at": f"/dev/{name}", "to": f"/proc/self/{target}"}
        for name, target in {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items()
    ]
    return steps


def guest_python(interpreter: Interpreter) -> str:
    """The interpreter's path inside."""
    return _moved(interpreter, interpreter.executable)


def guest_environment(interpreter: Interpreter, threads: int = 1) -> dict[str, str]:
    """The environment that every sandbox starts from; nothing of the host's."""
    environment = {
        **VARIABLES,
        "PATH": f"{_prefix(interpreter)}/bin:/usr/bin:/bin",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    environment |= route.variables(())
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    if interpreter.library_dir and _prefix(interpreter) != interpreter.prefix:
        environment["LD_LIBRARY_PATH"] = _moved(interpreter, os.path.realpath(interpreter.library_dir))
    return environment


def _system() -> list[Step]:
    steps: list[Step] = [
        {"kind": "bind", "at": path, "source": path} for path in SYSTEM_FOLDERS if _exists(path) and not _linked(path)
    ]
    for path in MERGED_FOLDERS:
        if _linked(path):
            steps.append({"kind": "link", "at": path, "to": os.readlink(path)})
        elif _exists(path):
            steps.append({"kind": "bind", "at": path, "source": path})
    return steps


def _python(interpreter: Interpreter, inside: Path, site: Path | None) -> list[Step]:
    """The interpreter, and in place of its own site-packages ours: the kernel and the environment's packages."""
    steps: list[Step] = []
    if _prefix(interpreter) != interpreter.prefix:
        steps = [
            {"kind": "overlay", "at": f"{GUEST_PREFIX}/{name}", "lowers": [f"{interpreter.prefix}/{name}"]}
            for name in ("bin", "lib")
        ]
    shown = [path for path in interpreter.site_dirs if path.startswith(f"{interpreter.prefix}/lib")]
    ours = [str(inside), *([str(site)] if site else [])]
    steps += [{"kind": "overlay", "at": _moved(interpreter, path), "lowers": ours} for path in shown[:1]]
    steps += [{"kind": "hidden", "at": _moved(interpreter, path)} for path in shown[1:]]
    return steps


def _prefix(interpreter: Interpreter) -> str:
    return interpreter.prefix if interpreter.prefix == "/usr" else GUEST_PREFIX


def _moved(interpreter: Interpreter, path: str) -> str:
    return _prefix(interpreter) + path.removeprefix(interpreter.prefix)


def _exists(path: str) -> bool:
    return os.path.exists(path)


def _linked(path: str) -> bool:
    return os.path.islink(path)
