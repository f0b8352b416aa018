"""A CPython on this machine and where its parts lie. Asked once, by running it, then remembered."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from belljar.engines.native.remembered import recall, remember
from belljar.errors import StartFailed

_QUESTION = """
import json, os, site, sys, sysconfig
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "executable": os.path.realpath(sys.executable),
    "prefix": os.path.realpath(sys.base_prefix),
    "site_dirs": [p for p in site.getsitepackages([sys.base_prefix]) if os.path.isdir(p)],
    "library_dir": sysconfig.get_config_var("LIBDIR") if sysconfig.get_config_var("Py_ENABLE_SHARED") else None,
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """One CPython, as the layout needs to know it."""

    version: str
    executable: str
    prefix: str
    site_dirs: list[str]
    library_dir: str | None


def probe(python: Path, cache_dir: Path) -> Interpreter:
    """What `python` says of itself.

    Raises:
        StartFailed: when it cannot be run.
    """
    facts = python.stat()
    name = f"{os.path.realpath(python).strip('/').replace('/', '-')}-{facts.st_size}-{facts.st_mtime_ns}.json"
    remembered = cache_dir / "interpreters" / name
    with contextlib.suppress(TypeError):
        return Interpreter(**recall(remembered))
    done = subprocess.run([str(python), "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=30, env={})
    if done.returncode:
        raise StartFailed(f"{python} does not run as a Python: {done.stderr.strip()[-300:]}")
    interpreter = Interpreter(**json.loads(done.stdout))
    remember(remembered, asdict(interpreter))
    return interpreter
