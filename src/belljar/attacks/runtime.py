"""The files that sandboxes of the wasm engine run on, and where its runtime might leave others: watched for changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from belljar.settings import Settings

WHOLE_BYTES = 32 << 20  # of a larger file the beginning and the end are read
# What Deno would share between processes, were it let: its stores for pages, keys and shaders.
STORES = (".cache/deno/location_data", ".cache/mesa_shader_cache", ".nv")


class RuntimeFiles:
    """Takes down the runtime's files by content, and says what is different."""

    def __init__(self, engine: str) -> None:
        self._folder = _newest(Settings.load().cache_dir / "wasm") if engine == "wasm" else None
        self._before = self._facts()
        self._contents = self._digests()

    def changed(self) -> list[str]:
        """The problem, when files were changed, added or taken away."""
        now = self._facts()
        if now == self._before:
            return []
        differ = sorted(path for path in now.keys() | self._before.keys() if now.get(path) != self._before.get(path))
        contents = self._digests()
        known = [path for path in differ if path in contents and contents[path] == self._contents.get(path)]
        left = [path for path in differ if path not in known]  # a link more to the same content changes nothing
        self._before, self._contents = now, contents
        return [f"files of the runtime changed: {', '.join(left[:5])}"] if left else []

    def _facts(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for path in self._paths():
            facts = path.stat()
            found[str(path)] = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        return found

    def _digests(self) -> dict[str, str]:
        return {str(path): _digest(path) for path in self._paths()}

    def _paths(self) -> list[Path]:
        if self._folder is None:
            return []
        stores = [path for name in STORES for path in (Path.home() / name).rglob("*")]
        return [path for path in (*self._folder.rglob("*"), *stores) if path.is_file()]


def _newest(folder: Path) -> Path | None:
    made = sorted(folder.glob("runtime-*/runtime.json"), key=lambda path: path.stat().st_mtime)
    return made[-1].parent if made else None


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        content = hashlib.sha256(file.read(WHOLE_BYTES))
        file.seek(max(0, path.stat().st_size - WHOLE_BYTES))
        content.update(file.read())
        return content.hexdigest()
