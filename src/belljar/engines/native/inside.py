"""The code that goes inside: belljar_kernel, belljar_jail and cloudpickle, copied and compiled for its Python, once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import belljar_jail
import belljar_kernel
from belljar.engines.native.interpreter import Interpreter
from belljar.errors import StartFailed
from belljar.packages import companion

PACKAGES = (belljar_kernel, belljar_jail)


def prepare(interpreter: Interpreter, cache_dir: Path) -> Path:
    """The folder to show inside, named after its content and the Python it was compiled for."""
    target = cache_dir / "inside" / f"{digest()}-{interpreter.version}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=".new-"))
    try:
        fresh.chmod(0o755)
        for package in PACKAGES:
            shutil.copytree(_folder(package), fresh / package.__name__, ignore=shutil.ignore_patterns("__pycache__"))
        for parts, content in companion.files().items():
            path = fresh.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        compiled = subprocess.run(
            [interpreter.executable, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "."],
            cwd=fresh, env={}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        if compiled.returncode:
            raise StartFailed(f"the kernel does not compile for Python {interpreter.version}: {compiled.stdout[-300:]}")
        try:
            fresh.rename(target)
        except OSError:  # another process made it meanwhile
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def digest() -> str:
    """The name of what goes inside, by content."""
    digest = hashlib.sha256(companion.digest().encode())
    for package in PACKAGES:
        for path in sorted(_folder(package).glob("*.py")):
            digest.update(f"{package.__name__}/{path.name}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _folder(package: object) -> Path:
    return Path(os.path.dirname(str(getattr(package, "__file__", ""))))
