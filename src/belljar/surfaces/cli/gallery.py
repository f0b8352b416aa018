"""What a run leaves behind on this machine: its images, and on request its files. Paths from inside are not trusted."""

from __future__ import annotations

import base64
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from belljar.errors import FileError
from belljar.surfaces.cli.screen import IMAGES
from belljar_kernel.protocol import WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from belljar.execution import Execution, Result
    from belljar.sandbox import Sandbox

_SUFFIXES = {"png": "png", "jpeg": "jpg", "svg": "svg", "pdf": "pdf"}


class Gallery:
    """A folder that is made when the first thing is put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._figures = 0

    def save_images(self, results: Iterable[Result], taken: Iterable[str] = ()) -> Iterator[Path]:
        """Save each result that is an image as figure-1.png and so on, around the names that are taken."""
        names = set(taken)
        for result in results:
            image = next((name for name in IMAGES if getattr(result, name) is not None), None)
            if image is not None:
                yield self._put(self._next_name(_SUFFIXES[image], names), image_bytes(result, image))

    def save_files(
        self, sandbox: Sandbox, execution: Execution, uploaded: dict[str, bytes]
    ) -> Iterator[tuple[str, Path | str]]:
        """Fetch each changed file, and give with its name where it is now, or the reason why it is not here."""
        before = {inside(name): content for name, content in uploaded.items()}
        for name in (file.path for file in execution.files):
            path = inside(name)
            if path is None:
                yield name, "the path leaves the workspace"
                continue
            try:
                content = sandbox.files.read(str(path))
                if before.get(path) != content:
                    yield name, self._put(str(path), content)
            except (FileError, OSError) as error:
                yield name, str(error)

    def _next_name(self, suffix: str, taken: set[str]) -> str:
        while True:
            self._figures += 1
            name = f"figure-{self._figures}.{suffix}"
            if name not in taken:
                return name

    def _put(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


def image_bytes(result: Result, format: str) -> bytes:
    """The file's content; svg travels as text, the others as base64."""
    content: str = getattr(result, format)
    return content.encode("utf-8", "replace") if format == "svg" else base64.b64decode(content)


def inside(name: str) -> PurePosixPath | None:
    """The path relative to the workspace, or None when it is not a plain path beneath it."""
    path = PurePosixPath(name)
    if path.is_absolute():
        try:
            path = path.relative_to(WORKSPACE)
        except ValueError:
            return None
    return path if path.parts and ".." not in path.parts and "\0" not in name else None
