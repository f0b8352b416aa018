"""Runs as a confined program: native code that tries every way out, and prints what came of each. Standard library only."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = os.uname().machine == "x86_64"
BUFFER = ctypes.create_string_buffer(4096)
NUMBERS = {  # x86_64, aarch64
    "fork": (57, None), "vfork": (58, None), "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97),
    "setns": (308, 268), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kill": (62, 129), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "fsopen": (430, 430), "open_tree": (428, 428), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "setuid": (105, 146), "setgid": (106, 144), "setresuid": (117, 147),
    "setgroups": (116, 159), "capset": (126, 91), "socket": (41, 198), "connect": (42, 203), "bind": (49, 200),
    "sendmsg": (46, 211), "recvmsg": (47, 212), "memfd_create": (319, 279), "execve": (59, 221), "execveat": (322, 281),
    "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "seccomp": (317, 277), "landlock_restrict_self": (446, 446), "shmget": (29, 194), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "personality": (135, 92), "setpriority": (141, 140),
    "sched_setaffinity": (203, 122), "flock": (73, 32), "vmsplice": (278, 75), "splice": (275, 76), "tee": (276, 77),
    "mkdirat": (258, 34), "unlinkat": (263, 35), "renameat2": (316, 276), "linkat": (265, 37), "symlinkat": (266, 36),
    "ftruncate": (77, 46), "fchmodat": (268, 53), "fchownat": (260, 54), "utimensat": (280, 88), "fsetxattr": (190, 7),
    "statmount": (457, 457), "listmount": (458, 458), "mlockall": (151, 230), "remap_file_pages": (216, 234),
    "quotactl": (179, 60), "acct": (163, 89), "syslog": (103, 116), "reboot": (169, 142), "iopl": (172, None),
    "modify_ldt": (154, None), "get_mempolicy": (239, 236), "pkey_alloc": (329, 289), "process_madvise": (440, 440),
}  # fmt: skip


def main() -> None:
    """Everything, in the order of loudness."""
    open_now = [number for number in range(1024) if _is_open(number)]
    findings = {
        "descriptors": open_now,
        "calls": {name: _call(name) for name in NUMBERS if _number(name) is not None},
        "clone flags": {hex(flag): _raw(_number("clone"), flag | 17, 0, 0, 0, 0) for flag in (0, 1 << 28, 1 << 8)},
        "fcntl": {command: _errno(libc.fcntl(0, command, 0)) for command in (7, 1024, 1026, 1031, 1033)},
        "write lock of what can only be read": libc.fcntl(os.open(sys.argv[0], os.O_RDONLY), 6, _write_lock()),
        "prctl": {option: _errno(libc.prctl(option, 0, 0, 0, 0)) for option in (4, 8, 22, 24, 38, 47)},
        "ioctl": {request: _errno(libc.ioctl(0, request, BUFFER)) for request in (0x5412, 0x541C, 0x5423, 0xC0502100)},
        "limits": [_raw(302 if X86 else 261, 1, 7, BUFFER, 0), _raw(302 if X86 else 261, 0, 7, _limit(1 << 20), 0)],
        "signals": [_raw(234 if X86 else 131, pid, pid, number) for pid in (1, 3) for number in (9, 15, 17)],
        "executed": [_execute(path) for path in (sys.executable, sys.argv[0], "/bin/sh", *_loaders())],
        "written": [path for path in _everything() if _is_writable(path)],
        "readable beyond": [path for path in ("/proc/1/mem", "/proc/self/mem", "/sys", "/dev/mem") if _opens(path)],
        "processors": len(os.sched_getaffinity(0)) > 0,
    }
    print(json.dumps(findings))


def _write_lock() -> bytes:
    """`struct flock` for a lock of one byte."""
    return struct.pack("hhxxxxqqi4x", 1, 0, 0, 1, 0)


def _number(name: str) -> int | None:
    return NUMBERS[name][0 if X86 else 1]


def _call(name: str) -> str:
    """With arguments that would do something, were it let through."""
    path = b"/runtime"
    arguments = {
        "unshare": (1 << 28,), "ptrace": (16, 1, 0, 0), "kill": (1, 9), "socket": (1, 1, 0), "pidfd_open": (1, 0),
        "mount": (b"none", path, b"tmpfs", 0, None), "chroot": (path,), "setuid": (0,), "memfd_create": (b"x", 0),
        "execve": (sys.executable.encode(), None, None), "execveat": (-100, sys.executable.encode(), None, None, 0),
        "clone": (17, 0, 0, 0, 0), "flock": (0, 2), "mkdirat": (-100, b"/runtime/x", 0o777), "setpriority": (0, 0, 19),
        "unlinkat": (-100, b"/runtime/main.py", 0), "fchmodat": (-100, b"/runtime/main.py", 0o777), "keyctl": (0, -3, 1),
    }.get(name, (BUFFER, BUFFER, BUFFER, 0, 0))  # fmt: skip
    return _raw(_number(name), *arguments)


def _raw(number: int | None, *arguments: object) -> str:
    return _errno(libc.syscall(ctypes.c_long(number or 0), *arguments))


def _errno(result: int) -> str:
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def _limit(value: int) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * 2)(value, value)


def _execute(path: str) -> str:
    try:
        os.execve(path, [path], {})
    except OSError as failure:
        return errno.errorcode[failure.errno or 0]


def _loaders() -> list[str]:
    return [path for path in _everything() if "/ld-" in path]


def _everything() -> list[str]:
    found = ["/"]
    for folder, folders, files in os.walk("/"):
        if not folder.startswith("/python/"):
            found += [os.path.join(folder, name) for name in (*folders, *files)]
    return found


def _is_writable(path: str) -> bool:
    inside = os.path.join(path, "new")
    return _opens(path, os.O_RDWR) or _opens(inside, os.O_RDWR | os.O_CREAT) or _opens(path, os.O_TMPFILE | os.O_RDWR)


def _opens(path: str, flags: int = os.O_RDONLY) -> bool:
    try:
        os.close(os.open(path, flags))
    except OSError:
        return False
    return True


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


main()
