"""Runs inside a sandbox, as the first cell of a build: it unpacks a source, and calls the build backend of that source.

The host reads this file and sends it; it never imports it.
"""

from __future__ import annotations

import importlib
import os
import sys
import tarfile
import zipfile
from typing import Any

PLACE, WHEELS = "/workspace/source", "/workspace/wheels"
HAS_TOML = sys.version_info >= (3, 11)
LEGACY = {"requires": ["setuptools>=40.8.0"], "build-backend": "setuptools.build_meta:__legacy__"}


def unpack(archive: str) -> list[str]:
    """What is needed to build a source, by its own account."""
    if archive.endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(PLACE)
    else:
        with tarfile.open(archive) as packed:
            packed.extractall(PLACE)  # in this sandbox it can harm nothing else
    os.remove(archive)
    enter()
    if not os.path.exists("pyproject.toml") and not os.path.exists("setup.py"):
        raise SystemExit("it is no Python project: it has neither pyproject.toml nor setup.py")
    return list(system()["requires"])


def enter() -> None:
    """Go to the project's own folder, which archives have a folder around; every run begins elsewhere."""
    inner = os.listdir(PLACE)
    os.chdir(os.path.join(PLACE, inner[0]) if len(inner) == 1 else PLACE)


def system() -> dict[str, Any]:
    """The `build-system` table, or what stands for it in a project of old."""
    if not os.path.exists("pyproject.toml"):
        return LEGACY
    toml = importlib.import_module("tomllib" if HAS_TOML else "tomli")
    with open("pyproject.toml", "rb") as file:
        table: dict[str, Any] = toml.load(file).get("build-system", LEGACY)
    return table if "build-backend" in table else {**table, "build-backend": LEGACY["build-backend"]}


def backend() -> Any:
    """The object whose functions build."""
    enter()
    table = system()
    sys.path[:0] = [os.path.abspath(path) for path in table.get("backend-path", [])]
    module, _, inner = table["build-backend"].partition(":")
    found: Any = importlib.import_module(module)
    for name in inner.split(".") if inner else []:
        found = getattr(found, name)
    return found


def needs() -> list[str]:
    """What else the backend wants, now that it can be asked."""
    ask = getattr(backend(), "get_requires_for_build_wheel", None)
    return list(ask()) if ask else []


def build() -> str:
    """The name of the wheel."""
    os.makedirs(WHEELS, exist_ok=True)
    return str(backend().build_wheel(WHEELS))
