"""What a foreign program sees of the file system: a pure plan, carried out beside the jail's own root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from belljar.engines.confinement import Program
from belljar.engines.native.layout import WRITTEN_FILES, Step
from belljar.engines.native.libraries import Linkage
from belljar_jail.program_root import DEVICES, PLACE


def plan(program: Program, needs: Linkage) -> list[Step]:
    """The steps that make the program's root: its folders, its libraries, mount points for devices, and one user.

    There is no /proc: it would tell of the host. The one thing that programs insist on is where they lie themselves.
    """
    steps: list[Step] = [{"kind": "folder", "at": PLACE}]
    steps += [_shown(at, str(source)) for at, source in program.folders.items()]
    steps += [_shown(path, path) for path in system_files(program, needs)]
    steps += [{"kind": "file", "at": f"{PLACE}/dev/{name}", "text": ""} for name in DEVICES]
    steps += [{"kind": "link", "at": f"{PLACE}/proc/self/exe", "to": program.argv[0]}]
    return [*steps, {"kind": "file", "at": f"{PLACE}/etc/passwd", "text": WRITTEN_FILES["/etc/passwd"]}]


def system_files(program: Program, needs: Linkage) -> list[str]:
    """The loader and the libraries, without those that come with the program's own folders."""
    files = [*([needs.loader] if needs.loader else []), *needs.libraries]
    return [path for path in files if not _comes_along(path, program.folders)]


def executable(program: Program, needs: Linkage) -> list[str]:
    """The paths inside that may be executed."""
    return [program.argv[0], *([needs.loader] if needs.loader else [])]


def _shown(at: str, source: str) -> Step:
    if os.path.isdir(source):
        return {"kind": "overlay", "at": f"{PLACE}{at}", "lowers": [source]}
    return {"kind": "bind", "at": f"{PLACE}{at}", "source": os.path.realpath(source)}


def _comes_along(path: str, folders: Mapping[str, Path]) -> bool:
    real = os.path.realpath(path)
    return any(path == at or path.startswith(f"{at}/") for at in folders) or any(
        real.startswith(f"{os.path.realpath(source)}/") for source in folders.values()
    )
