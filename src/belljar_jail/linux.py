"""The Linux calls that Python has no function for, through libc. Every failure is an OSError that names the call."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_PIDFD = 0x00001000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
MADV_COLLAPSE = 25

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

MACHINE = platform.machine()
_NUMBERS = {  # x86_64, aarch64
    "clone": (56, 220),
    "pivot_root": (155, 41),
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "openat2": (437, 437),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "mount_setattr": (442, 442),
}
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
AT_FDCWD, OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, MOVE_MOUNT_F_EMPTY_PATH = -100, 1, 0o2000000, 4
AT_EMPTY_PATH, RESOLVE_NO_SYMLINKS, MOUNT_ATTR_IDMAP = 0x1000, 0x04, 0x00100000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_CapabilityHeader, _CapabilityWords = ctypes.c_uint32 * 2, ctypes.c_uint32 * 6
_CAPABILITY_VERSION = 0x20080522


def syscall(name: str, *args: object) -> int:
    """Make one call by name."""
    number = _NUMBERS[name][0 if MACHINE == "x86_64" else 1]
    return _checked(name, _libc.syscall(ctypes.c_long(number), *args))


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """mount(2)."""
    _checked(
        f"mount {target}",
        _libc.mount(_bytes(source), _bytes(target), _bytes(kind), ctypes.c_ulong(flags), _bytes(options)),
    )


def umount(target: str) -> None:
    """Detach a mount."""
    _checked(f"umount {target}", _libc.umount2(_bytes(target), MNT_DETACH))


def open_tree(path: str, through_links: bool = True) -> int:
    """A descriptor of a copy of the mount at a path, attached nowhere; of that mount alone, without those beneath."""
    resolve = 0 if through_links else RESOLVE_NO_SYMLINKS
    how = struct.pack("QQQ", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, resolve)
    folder = syscall("openat2", AT_FDCWD, _bytes(path), ctypes.c_char_p(how), ctypes.c_size_t(len(how)))
    try:
        return syscall("open_tree", folder, b"", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
    finally:
        os.close(folder)


def map_ids(tree: int, namespace: int) -> None:
    """Show the owners of a tree's files as a user namespace maps them."""
    attributes = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, namespace)
    size = ctypes.c_size_t(len(attributes))
    syscall("mount_setattr", tree, b"", AT_EMPTY_PATH, ctypes.c_char_p(attributes), size)


def move_mount(tree: int, target: str) -> None:
    """Attach what open_tree() gave, here or in whatever process it was handed to."""
    syscall("move_mount", tree, b"", AT_FDCWD, _bytes(target), MOVE_MOUNT_F_EMPTY_PATH)


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2)."""
    syscall("pivot_root", _bytes(new), _bytes(old))


def pivot_into(folder: str) -> None:
    """Make a mount the root of this namespace and let go of all else."""
    former = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.chdir(folder)
    pivot_root(".", ".")  # the former root now lies over the new one, and is taken off
    os.fchdir(former)
    umount(".")
    os.close(former)
    os.chdir("/")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _checked("unshare", _libc.unshare(ctypes.c_int(flags)))


def setns(descriptor: int, flags: int) -> None:
    """setns(2); `descriptor` may be a pidfd."""
    _checked("setns", _libc.setns(ctypes.c_int(descriptor), ctypes.c_int(flags)))


def prctl(option: int, value: int, third: int = 0) -> None:
    """prctl(2)."""
    if _libc.prctl(option, value, third, 0, 0) < 0:
        _checked(f"prctl {option}", -1)


def collapse(address: int, size: int) -> bool:
    """Make a huge page of what lies there; False when this kernel cannot."""
    return bool(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), MADV_COLLAPSE) == 0)


def clone(flags: int) -> tuple[int, int]:
    """Fork into new namespaces: (pid, pidfd) in the parent, (0, -1) in the child.

    The C library does not know of this fork, so the child must stay single-threaded.
    """
    pidfd = ctypes.c_int(-1)
    flags |= CLONE_PIDFD | signal.SIGCHLD
    ctypes.pythonapi.PyOS_BeforeFork()
    try:
        pid = syscall("clone", ctypes.c_ulong(flags), None, ctypes.byref(pidfd), None, None)
    except OSError:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        raise
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0, -1
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid, pidfd.value


def drop_capabilities() -> None:
    """Leave no capability in any set, for good."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:  # the first one that this kernel does not have
            break
    _capset([0] * 6)


def raise_capabilities() -> None:
    """Make every permitted capability effective again, after a change of user id."""
    data = _CapabilityWords()
    _checked("capget", _libc.capget(_CapabilityHeader(_CAPABILITY_VERSION, 0), data))
    _capset([data[1], data[1], 0, data[4], data[4], 0])


def bring_loopback_up() -> None:
    """Switch on the loopback interface of this network namespace."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def write_file(path: str, text: str) -> None:
    """Write to an existing file of /proc in one call, as its files want it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _capset(words: list[int]) -> None:
    _checked("capset", _libc.capset(_CapabilityHeader(_CAPABILITY_VERSION, 0), _CapabilityWords(*words)))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
