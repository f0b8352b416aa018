"""The lock of a host in the state folder: held while it lives, free as soon as it is gone, however it ended."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from belljar.errors import InvalidRequest, StoreFailed

_SUFFIX = ".lock"
_FRESH = ".new-"


@dataclass(frozen=True)
class ProcessId:
    """A process, by its number and by when it started: a later process may get this number."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The process that has this number now; one that is gone started at 0."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return cls(pid, 0)
        return cls(pid, int(text.rpartition(")")[2].split()[19]))

    def end(self) -> bool:
        """SIGKILL this process, and no later one with its number. Returns whether it was there."""
        if self.pid <= 1 or self.pid == os.getpid():
            return False
        try:
            descriptor = os.pidfd_open(self.pid)
        except (OSError, OverflowError):
            return False
        try:
            if ProcessId.of(self.pid) != self:  # looked at after it was opened: what is signalled is what was opened
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True


class HostLock:
    """The lock of a host of this process. Its name says in the store which host has a sandbox."""

    def __init__(self, folder: Path, descriptor: int, name: str) -> None:
        self.folder = folder
        self.name = name
        self._descriptor = descriptor
        self._noted: frozenset[ProcessId] = frozenset()

    @classmethod
    def take(cls, state_dir: Path) -> HostLock:
        """Take a new lock.

        Raises:
            InvalidRequest: on a system that has no such locks.
            StoreFailed: when the state folder cannot be written.
        """
        if os.name != "posix":
            raise InvalidRequest("durable sandboxes need a POSIX system; leave durable=True out here")
        me = ProcessId.of(os.getpid())
        name = f"{me.pid}-{me.started}-{secrets.token_hex(4)}"
        folder = state_dir / "hosts"
        fresh, descriptor = folder / (_FRESH + name), -1
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _try_lock(descriptor)
            lock = cls(folder, descriptor, name)
            lock.note([])
            fresh.rename(folder / (name + _SUFFIX))  # under its name it is never seen unlocked
        except OSError as failure:
            if descriptor >= 0:
                fresh.unlink(missing_ok=True)
                os.close(descriptor)
            raise StoreFailed(
                f"this host could not be registered in {folder} ({failure.strerror}); make room there, or set "
                "BELLJAR_STATE_DIR to another folder"
            ) from failure
        return lock

    @property
    def socket(self) -> str:
        """The name of its private socket, in the folder of the lock."""
        return f"{self.name}.sock"

    @property
    def address(self) -> tuple[Path, str]:
        """The folder and the name of the socket that its host listens at."""
        return self.folder, self.socket

    def note(self, pids: Iterable[int]) -> None:
        """Write down the processes that must not outlive this host."""
        processes = frozenset(ProcessId.of(pid) for pid in pids)
        if processes <= self._noted and self._noted:
            return
        text = json.dumps({"boot": _boot(), "processes": [[each.pid, each.started] for each in processes]}).encode()
        os.pwrite(self._descriptor, text.ljust(os.fstat(self._descriptor).st_size), 0)
        self._noted = processes

    def release(self) -> None:
        """Let go of it, when the host has ended by itself. Idempotent."""
        if self._descriptor >= 0:
            for name in (self.socket, self.name + _SUFFIX):
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink()
        self.forget()

    def forget(self) -> None:
        """In a forked child: it is the parent's, and must not live on here."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@dataclass(frozen=True)
class GoneHost:
    """A host whose lock is free: it ended without closing what it had."""

    name: str
    processes: tuple[ProcessId, ...]

    def end_processes(self) -> int:
        """End what it left running; how many that were."""
        return sum(process.end() for process in self.processes)


class FileLocks:
    """The locks of all hosts that share a state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def take(self) -> HostLock:
        """Take a new lock.

        Raises:
            InvalidRequest: on a system that has no such locks.
            StoreFailed: when the state folder cannot be written.
        """
        return HostLock.take(self._state_dir)

    def is_held(self, name: str) -> bool:
        """Whether the host of this name lives."""
        return is_held(self._state_dir, name)

    def gone(self) -> Iterator[GoneHost]:
        """Hosts that are gone, each reserved while the caller deals with it."""
        return gone_hosts(self._state_dir)


def pid_of(name: str) -> str:
    """The number of the process that the host of this name is, or was."""
    return name.partition("-")[0]


def is_held(state_dir: Path, name: str) -> bool:
    """Whether the host of this name lives."""
    try:
        descriptor = _opened(state_dir / "hosts" / (name + _SUFFIX))
    except (OSError, ValueError):  # a name that no file can have
        return False
    try:
        return not _try_lock(descriptor, is_shared=True)  # a process that only asks holds no exclusive lock
    finally:
        os.close(descriptor)


def gone_hosts(state_dir: Path) -> Iterator[GoneHost]:
    """Hosts that are gone. Each stays locked while the caller deals with it, so that no other process gets it."""
    for path in sorted((state_dir / "hosts").glob(f"*{_SUFFIX}")):
        try:
            descriptor = _opened(path)
        except OSError:
            continue
        try:
            if not _is_own(descriptor) or not _try_lock(descriptor):  # it belongs to another user, or its host lives
                continue
            if os.fstat(descriptor).st_nlink == 0:  # it was dealt with
                continue
            name = path.name.removesuffix(_SUFFIX)
            yield GoneHost(name, _noted(descriptor))
            for left in (path.with_name(f"{name}.sock"), path):
                with contextlib.suppress(OSError):
                    left.unlink()
        finally:
            os.close(descriptor)


def _noted(descriptor: int) -> tuple[ProcessId, ...]:
    """What a host had written down; nothing of it counts after the machine was started anew."""
    try:
        said = json.loads(os.pread(descriptor, 1 << 20, 0))
        if said["boot"] != _boot():
            return ()
        return tuple(ProcessId(int(pid), int(started)) for pid, started in said["processes"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return ()


def _opened(path: Path) -> int:
    """A lock, and nothing else that lies in its place."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(f"{path} is no lock")
    return descriptor


def _is_own(descriptor: int) -> bool:
    """Whether only this user can have written a lock. The processes that it names are ended."""
    facts = os.fstat(descriptor)
    return facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _try_lock(descriptor: int, is_shared: bool = False) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
