"""Wheels of nothing but metadata, of what an environment has: a client takes it for granted then, and fetches none."""

from __future__ import annotations

import zipfile
from pathlib import Path

from belljar.packages.environment import Environment


def write_stubs(ground: Environment, folder: Path) -> None:
    """One for each distribution of the environment's own folder."""
    folder.mkdir(exist_ok=True)
    for metadata in sorted(ground.site.glob("*.dist-info/METADATA")) if ground.site is not None else ():
        info = metadata.parent.name
        with zipfile.ZipFile(folder / f"{info.removesuffix('.dist-info')}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{info}/METADATA", metadata.read_bytes())
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
