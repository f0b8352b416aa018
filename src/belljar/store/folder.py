"""The bytes of checkpoints, one file each. A file is there whole or not at all, also after a crash of the machine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from pathlib import Path

from belljar.errors import CheckpointRefused, StoreFailed

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FRESH = ".new-"
_STALE_S = 3600.0  # no write takes so long


class CheckpointFolder:
    """A folder per sandbox, a file per checkpoint."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, sandbox_id: str, id: str, data: bytes) -> None:
        """Write beside, fsync, then rename.

        Raises:
            StoreFailed: when it could not be written; nothing is left of it then.
        """
        path = self._path(sandbox_id, id)
        fresh = path.with_name(_FRESH + id)
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.parent.mkdir(exist_ok=True, mode=0o700)
            try:
                with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                fresh.rename(path)
                _sync(path.parent)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as failure:
            raise StoreFailed(
                f"the checkpoint could not be written to {self.root} ({failure.strerror}); those before it are kept. "
                "Make room there, or set BELLJAR_STATE_DIR to another disk"
            ) from failure

    def read(self, sandbox_id: str, id: str) -> bytes:
        """All of it.

        Raises:
            CheckpointRefused: when it is not there any more.
            StoreFailed: when it cannot be read now.
        """
        try:
            return self._path(sandbox_id, id).read_bytes()
        except FileNotFoundError:
            raise CheckpointRefused(f"the bytes of checkpoint {id} are gone") from None
        except OSError as failure:
            raise StoreFailed(f"the checkpoint {id} cannot be read now ({failure.strerror}); try again") from failure

    def delete(self, sandbox_id: str, id: str | None = None) -> None:
        """Remove one, or all of a sandbox. What cannot be removed now is pruned later."""
        if id is None:
            shutil.rmtree(self.root / _checked(sandbox_id), ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                self._path(sandbox_id, id).unlink()

    def prune(self, known: set[str]) -> None:
        """Remove checkpoints that no row names and that are too old to be half-written. Other files stay."""
        for folder in _entries(self.root):
            if _ID.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
                for file in _entries(folder):
                    with contextlib.suppress(OSError):
                        is_old = file.stat(follow_symlinks=False).st_mtime < time.time() - _STALE_S
                        if is_old and file.name not in known and _ID.fullmatch(file.name.removeprefix(_FRESH)):
                            os.unlink(file)

    def _path(self, sandbox_id: str, id: str) -> Path:
        return self.root / _checked(sandbox_id) / _checked(id)


def _entries(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """What a folder has; nothing, when another process has just removed it."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _checked(id: str) -> str:
    """An id as part of a path: rows may have been written by others."""
    if not _ID.fullmatch(id):
        raise StoreFailed(f"{id!r} is not the id of anything in this store")
    return id


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
