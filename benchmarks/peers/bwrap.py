"""The usual jail around one call: `bwrap … python -c`, with namespaces and a read-only root, and nothing kept warm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from belljar import compose
from benchmarks.peers import plain

NAME = "bwrap + python"
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc")


def absent() -> str | None:
    """Why it cannot be measured here; None when it can."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed (Debian: bubblewrap)"
    tried = subprocess.run(command("-c", "pass"), capture_output=True, text=True, env=plain.environment())
    return f"bwrap does not run here: {tried.stderr.strip()[-200:]}" if tried.returncode else None


def run(*arguments: str) -> None:
    """Run Python to its end in a jail of its own."""
    subprocess.run(command(*arguments), env=plain.environment(), stdout=subprocess.DEVNULL, check=True)


def command(*arguments: str) -> list[str]:
    """The jail's command line."""
    environment = compose.base_environment("native")
    prefix, site = str(environment.python.parent.parent), str(environment.site)
    shown = [path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path)]
    links = [part for path in SYSTEM if os.path.islink(path) for part in ("--symlink", os.readlink(path), path)]
    binds = [
        part for path in (*shown, prefix, sys.prefix, site) if Path(path).is_dir() for part in ("--ro-bind", path, path)
    ]
    walls = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    return ["bwrap", *binds, *links, *walls, "--tmpfs", "/tmp", "--chdir", "/tmp", plain.python(), *arguments]
