"""The CPythons of this machine: found by version or path, and asked who they are before anything relies on them."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from belljar.errors import InvalidRequest, PackageError
from belljar.packages.environment import default_python
from belljar.packages.programs import find_program

OLDEST = (3, 10)
_VERSION = re.compile(r"(?:python)?(3(?:\.[0-9]{1,2}){0,2})")
_QUESTION = (
    "import json, os, sys; print(json.dumps([sys.implementation.name, list(sys.version_info[:3]),"
    " os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable)]))"
)


def find_python(asked: str) -> Path:
    """The CPython that `3.12`, `python3.12` or a path stands for.

    Raises:
        InvalidRequest: when it is not here, is no CPython, or is too old; naming those that are here.
    """
    if not isinstance(asked, str):
        raise InvalidRequest(f"python must be a version such as '3.12' or a path, not {type(asked).__name__}")
    if "/" in asked:
        found = _asked(asked)
        if found is None:
            raise InvalidRequest(f"{asked!r} is not a Python that can be run")
        return _suitable(asked, *found)
    version = _VERSION.fullmatch(asked)
    if version is None:
        raise InvalidRequest(
            f"python must be a version such as '3.12', a command such as 'python3.12' or a path, not {asked!r}"
        )
    for path in _candidates(version[1]):
        found = _asked(path)
        if found is not None and _is_version(found[1], version[1]):
            return _suitable(asked, *found)
    raise InvalidRequest(f"there is no CPython {version[1]} on this machine; {_offer()}")


def known_pythons() -> list[str]:
    """The versions that can be asked for."""
    found = {answer[1] for path in _everywhere() if (answer := _asked(path)) and answer[0] == "cpython"}
    return [".".join(map(str, version)) for version in sorted(found) if version >= OLDEST]


def _suitable(asked: str, implementation: str, version: tuple[int, ...], path: str) -> Path:
    if implementation != "cpython" or version < OLDEST:
        shown = f"{implementation} {'.'.join(map(str, version))}"
        raise InvalidRequest(f"{asked!r} is {shown}; a sandbox needs CPython 3.10 or newer; {_offer()}")
    return Path(path)


def _offer() -> str:
    return f"there are {', '.join(known_pythons()) or 'none'}"


def _candidates(version: str) -> list[str]:
    """Paths that may be it, the likeliest first."""
    near = [str(default_python()), *_pyenv(version)]
    if found := shutil.which(f"python{version}"):
        near.append(found)
    try:
        argv = [find_program("uv"), "python", "find", "--no-config", "--no-project", "--no-python-downloads", version]
        said = subprocess.run(argv, capture_output=True, text=True, timeout=30, cwd="/", stdin=subprocess.DEVNULL)
        near += said.stdout.split("\n")[:1] if said.returncode == 0 else []
    except (PackageError, OSError, subprocess.SubprocessError):
        pass
    return near


def _everywhere() -> list[str]:
    named = [shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], OLDEST[1] + 10)]
    return [str(default_python()), *(path for path in named if path), *_pyenv("3")]


def _pyenv(version: str) -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [path for path in root.glob("versions/*/bin/python3") if _fits(path.parents[1].name, version)]
    return [str(path) for path in sorted(found, reverse=True)]


def _fits(name: str, version: str) -> bool:
    return name == version or name.startswith(f"{version}.")


def _is_version(found: tuple[int, ...], asked: str) -> bool:
    wanted = tuple(map(int, asked.split(".")))
    return found[: len(wanted)] == wanted


@functools.cache
def _asked(path: str) -> tuple[str, tuple[int, ...], str] | None:
    """Implementation, version and real path; None when it does not run."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=30, env={}, stdin=subprocess.DEVNULL
        )
        implementation, version, real = json.loads(done.stdout)
        return str(implementation), tuple(version), str(real)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
