"""What changed in the workspace during a run. Follows no links, and gives up before a flood of files costs too much."""

from __future__ import annotations

import os

from belljar_kernel.protocol import CHANGED_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Snapshot = dict[str, tuple[int, int, int]]

VISITED = 20_000
_scandir, _join = os.scandir, os.path.join
SKIPPED = ("__pycache__", ".cache")
UNFINISHED, _DIGITS = ".belljar-", 12  # how a file is named that the host is still writing


def is_unfinished(name: str) -> bool:
    """Whether the host is still writing that file, or was interrupted in it: nobody is shown it."""
    return name.startswith(UNFINISHED) and len(name) == len(UNFINISHED) + _DIGITS


def is_told(path: str) -> bool:
    """Whether a run that changed that file tells so."""
    *folders, name = path.split("/")
    return not is_unfinished(name) and not any(folder in SKIPPED for folder in folders)


def snapshot(workspace: str) -> Snapshot:
    """Every regular file beneath the workspace by what tells that it changed: time, size and inode."""
    files: Snapshot = {}
    pending = [""]
    visited = 0
    while pending:
        folder = pending.pop()
        try:
            entries = _scandir(_join(workspace, folder))
        except OSError:
            continue
        with entries:
            for entry in entries:
                visited += 1
                if visited > VISITED:
                    return files
                if is_unfinished(entry.name):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED:
                            pending.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        files[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
                except OSError:
                    continue
    return files


def changes(before: Snapshot, after: Snapshot) -> list[dict[str, Any]]:
    """The files that are new or different, by path."""
    changed = sorted(path for path, state in after.items() if before.get(path) != state)
    return [{"path": path, "size": after[path][1]} for path in changed[:CHANGED_FILES]]
