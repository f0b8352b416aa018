"""The `fork` Request: this process makes a child, and the keeper brings that into walls of its own. For native only."""

from __future__ import annotations

import os
import sys
import time

from belljar_kernel import awaiting, reseed
from belljar_kernel.protocol import CHANNEL, HOME, SHM, TMP, WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from belljar_kernel.kernel import Kernel

    Opened = tuple[str, int, int, bool]  # path, flags, position, whether children get it

TRIES, PAUSE_S = 100, 0.002  # the door may be opened a moment after we were asked
_UNSHARE = {"x86_64": 272, "aarch64": 97}
_PR_SET_DUMPABLE, _PR_GET_TID_ADDRESS, _EPERM = 4, 40, 1
_FOLDERS = (WORKSPACE, TMP, HOME, SHM)
_fork, _exit, _waitpid = os.fork, os._exit, os.waitpid


def fork(kernel: Kernel) -> list[str] | None:
    """Make a copy of this process. In the parent: what the copy has not. In the copy: None, once it is in its place."""
    kernel.streams.flush()
    files, others = _descriptors()
    threads = _threads()
    folder = _folder()
    pid = _forked(quietly=bool(threads))
    if pid:
        try:
            _waitpid(pid, 0)
        except OSError:
            pass  # the code has its own way with children
        return threads + others
    try:
        _knock()
        _settle(files, folder)
    except BaseException:
        _exit(1)
    return None


def _forked(quietly: bool) -> int:
    if not quietly:
        return _fork()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of a fork beside threads; whoever asked is told of them
        return _fork()


def _knock() -> None:
    """Ask to be let through; it is the copy of us behind the door that returns from here."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    address = ctypes.c_void_p()
    library.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0)  # where the C library keeps our number
    number = _UNSHARE[os.uname().machine]
    for _ in range(TRIES):
        if library.syscall(ctypes.c_long(number), ctypes.c_long(0), address) == 0:
            library.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # so that we may read our own /proc/self
            return
        if ctypes.get_errno() != _EPERM:
            break
        time.sleep(PAUSE_S)
    _exit(1)


def _settle(files: dict[int, Opened | None], folder: str) -> None:
    os.setsid()
    os.chdir(WORKSPACE)
    try:
        os.chdir(folder)
    except OSError:
        pass
    null = os.open(os.devnull, os.O_RDONLY)
    if null:
        os.dup2(null, 0)
        os.close(null)
    os.set_inheritable(0, True)
    for number, opened in files.items():
        _reopen(number, opened)
    awaiting.forget()
    reseed.after_fork()


def _reopen(number: int, opened: Opened | None) -> None:
    """Open the same file behind our own walls. A number that stays without one is kept from being given to another."""
    path, flags, position, inherited = opened or ("", 0, 0, False)
    try:
        fresh = os.open(path, flags)
        if position:
            os.lseek(fresh, position, os.SEEK_SET)
    except OSError:
        fresh = os.open(os.devnull, getattr(os, "O_PATH", 0))
    if fresh != number:
        os.dup2(fresh, number, inherited)
        os.close(fresh)
    else:
        os.set_inheritable(fresh, inherited)


def _descriptors() -> tuple[dict[int, Opened | None], list[str]]:
    """What is open beside the streams and the channel, and what of it cannot be opened anew."""
    import fcntl

    found: dict[int, Opened | None] = {}
    lost: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
            if number <= CHANNEL or path.startswith("/proc/"):
                continue
            found[number] = None
            if os.path.isfile(path) or (path.startswith(_FOLDERS) and os.path.exists(path)):
                flags = fcntl.fcntl(number, fcntl.F_GETFL) & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC)
                position = 0 if os.path.isdir(path) else os.lseek(number, 0, os.SEEK_CUR)
                found[number] = (path, flags, position, os.get_inheritable(number))
                continue
        except OSError:
            continue
        if not path.startswith("/dev/"):
            lost.append(f"descriptor {number} ({path[:100]})")
    return found, lost


def _threads() -> list[str]:
    module = sys.modules.get("threading")
    if module is None:
        return []
    return [f"thread {thread.name!r:.100}" for thread in module.enumerate() if thread is not module.main_thread()]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return WORKSPACE
