"""Wheels made again of a site folder, for a peer that unpacks them at every start. The real ones have more in them."""

from __future__ import annotations

import csv
import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


class Site:
    """A folder of unpacked packages, and what belongs to each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._facts = {_name(path.name.split("-")[0]): path for path in folder.glob("*.dist-info")}

    def write_wheels(self, wanted: Sequence[str], into: Path) -> dict[str, dict[str, Any]]:
        """Pack packages and all that they need; the rows of a Pyodide lock file."""
        rows: dict[str, dict[str, Any]] = {}
        left = list(wanted)
        while left:
            name = left.pop()
            if name not in rows:
                rows[name] = self._write_wheel(name, into)
                left += rows[name]["depends"]
        return rows

    def _write_wheel(self, name: str, into: Path) -> dict[str, Any]:
        stem = self._facts[name].name.removesuffix(".dist-info")
        path = into / f"{stem}-py3-none-any.whl"
        files = list(self._files(name))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(self._folder / file, file)
        return {
            "name": name,
            "version": stem.split("-")[1],
            "file_name": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "install_dir": "site",
            "package_type": "package",
            "imports": sorted({file.split("/")[0].removesuffix(".py") for file in files if ".dist-info/" not in file}),
            "depends": list(self._needs(name)),
            "unvendored_tests": False,
        }

    def _files(self, name: str) -> Iterator[str]:
        with open(self._facts[name] / "RECORD", encoding="utf-8", newline="") as record:
            yield from (row[0] for row in csv.reader(record) if row and (self._folder / row[0]).is_file())

    def _needs(self, name: str) -> Iterator[str]:
        for line in (self._facts[name] / "METADATA").read_text("utf-8").splitlines():
            found = re.match(r"Requires-Dist: ([\w.-]+)(?!.*extra ==)", line)
            if found and _name(found[1]) in self._facts:
                yield _name(found[1])


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()
