"""The workspace as one stream of bytes and back: a tar archive, made and unpacked inside, by the files' own owner."""

from __future__ import annotations

import os
import stat
import tarfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_FILES = 100_000
_READABLE = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def pack(folder: str, into: Any, max_bytes: int) -> dict[str, str]:
    """Write every file, folder and link beneath a folder, if it fits; returns what was left out, and why."""
    skipped: dict[str, str] = {}
    count, waiting = 0, [folder]
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        while waiting:  # not by recursion: the code decides how deep its folders are
            parent, deeper = waiting.pop(), []
            try:
                with os.scandir(parent) as found:
                    entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
            except OSError as error:
                skipped[parent[len(folder) + 1 :] or "."] = error.strerror or type(error).__name__
                continue
            for name, is_folder in entries:
                path = os.path.join(parent, name)
                shown = path[len(folder) + 1 :]
                count += 1
                if count > MOST_FILES:
                    skipped["…"] = f"only {MOST_FILES:,} files are saved"
                    return skipped
                failure = _add(archive, path, shown, max_bytes - into.size)
                if failure is not None:
                    skipped[shown] = failure
                elif is_folder:
                    deeper.append(path)
            waiting += reversed(deeper)
    return skipped


def unpack(file: Any, folder: str) -> dict[str, str]:
    """Make what an archive has beneath a folder; returns what could not be, and why. Replaces what is there."""
    skipped: dict[str, str] = {}
    modes: list[tuple[str, int, float]] = []
    with tarfile.open(fileobj=file, mode="r|") as archive:
        for member in archive:
            path = os.path.normpath(os.path.join(folder, member.name))
            if not path.startswith(folder + os.sep) or not (member.isreg() or member.isdir() or member.issym()):
                skipped[member.name] = "it is no file of the workspace"
                continue
            try:
                _make(archive, member, path)
            except OSError as error:
                skipped[member.name] = error.strerror or type(error).__name__
            else:
                if not member.issym():
                    modes.append((path, member.mode & 0o7777, member.mtime))
    for path, mode, modified in reversed(modes):  # what is in a folder before the folder, which may forbid it
        try:
            os.utime(path, (modified, modified))
            os.chmod(path, mode)
        except OSError:
            pass
    return skipped


def _add(archive: tarfile.TarFile, path: str, shown: str, room: int) -> str | None:
    try:
        facts = os.lstat(path)
        if stat.S_IFMT(facts.st_mode) not in _READABLE:
            return "it is no file, folder or link"
        size = facts.st_size if stat.S_ISREG(facts.st_mode) else 0
        if size > room:  # holes and second names count in full: as such they leave, and come back
            return f"its {size:,} bytes do not fit into what may be saved"
        member = archive.gettarinfo(path, shown)
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        if member.islnk():  # a second name for a file: kept as a file of its own
            member.type, member.size = tarfile.REGTYPE, facts.st_size
        if not member.isreg():
            archive.addfile(member)
            return None
        with open(path, "rb") as content:
            archive.addfile(member, content)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def _make(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    if member.issym():
        os.symlink(member.linkname, path)
        return
    content = archive.extractfile(member)
    assert content is not None
    try:
        with open(path, "wb") as file:
            while chunk := content.read(1 << 20):
                file.write(chunk)
    except OSError:
        os.unlink(path)
        raise
