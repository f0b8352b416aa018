"""Attacks on the host's files: reading, writing and probing what lies beyond the sandbox's own folders."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from belljar.attacks.case import Cases, Trial

attack = Cases()
ABSENT = ("ENOENT", "EACCES", "EPERM", "ENOTDIR")
READ_ONLY = (*ABSENT, "EROFS", "EISDIR", "ETXTBSY", "EINVAL", "ENOSYS", "EXDEV", "ELOOP", "EIO")


@attack("N01", "reading the host's files, environments and roots finds nothing")
def read_the_host(trial: Trial) -> str:
    execution = trial.run("""
        paths = [_args["file"], "/root/.ssh/id_rsa", "/etc/shadow", "/var/log/syslog", "/.old/etc/passwd"]
        for pid in range(1, 50):
            if pid != os.getpid():
                paths += ["/proc/%d/%s%s" % (pid, x, _args["file"]) for x in ("root", "cwd/../..")]
                paths += ["/proc/%d/environ" % pid, "/proc/%d/mem" % pid]
        paths += [way + _args["file"] for way in ("/proc/self/root", "/proc/self/cwd/../..", "/workspace/..")]
        found = {path: tried(lambda: open(path, "rb").read()) for path in paths}
        found["environment"] = "EACCES" if _args["variable"] not in os.environ else "did it"
        found
    """)
    return trial.expect_refused(execution, *ABSENT, "ESRCH")


@attack("N03", "writing to the system, the interpreter and kernel settings is refused")
def write_the_system(trial: Trial) -> str:
    before = _runtime_digest()
    execution = trial.run("""
        import site
        packages = site.getsitepackages()[0]
        paths = ["/x", "/etc/passwd", "/etc/ld.so.preload", "/usr/bin/x", "/lib/x", sys.executable, os.__file__]
        paths += [packages + "/evil.pth", packages + "/belljar_kernel/entry.py", "/sys/kernel/x", "/proc/sysrq-trigger"]
        paths += ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"]
        paths += ["/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/self/setgroups", "/proc/1/oom_score_adj"]
        found = {"write " + path: tried(lambda: open(path, "ab").write(b"x")) for path in paths}
        found |= {"unlink " + path: tried(os.unlink, path) for path in paths}
        found |= {"replace " + path: tried(os.rename, "/workspace", path) for path in ("/usr", "/proc/meminfo")}
        found
    """)
    trial.expect(_runtime_digest() == before, "the files of the runtime changed")
    return trial.expect_refused(execution, *READ_ONLY, "EBUSY", "ENOTEMPTY")


@attack("N16", "overwriting the interpreter through /proc/self/exe or a descriptor is refused")
def overwrite_the_interpreter(trial: Trial) -> str:
    before = _runtime_digest()
    execution = trial.run("""
        def reopen(path, flags):
            held = os.open(path, os.O_PATH)
            return os.open("/proc/self/fd/%d" % held, flags)
        targets = ["/proc/self/exe", "/proc/1/exe", sys.executable]
        found = {"open " + path: tried(os.open, path, os.O_WRONLY) for path in targets}
        found |= {"truncate " + path: tried(os.truncate, path, 0) for path in targets}
        found |= {"reopen " + path: tried(reopen, path, os.O_RDWR) for path in targets}
        found["memory"] = tried(lambda: open("/proc/1/mem", "r+b"))
        found
    """)
    trial.expect(_runtime_digest() == before, "the files of the runtime changed")
    return trial.expect_refused(execution, *READ_ONLY)


@attack("N37", "truncating, linking, renaming and stamping beyond the own folders is refused")
def touch_metadata(trial: Trial) -> str:
    execution = trial.run("""
        open("/workspace/mine", "w").close()
        there = ["/etc/hosts", "/usr/bin/env", "/proc/sys/kernel/hostname", _args["file"]]
        found = {}
        for path in there:
            found["truncate " + path] = tried(os.truncate, path, 0)
            found["link " + path] = tried(os.link, path, "/workspace/link")
            found["take " + path] = tried(os.rename, path, "/workspace/taken")
            found["chmod " + path] = tried(os.chmod, path, 0o777)
            found["chown " + path] = tried(os.chown, path, 1000, 1000)
            found["stamp " + path] = tried(os.utime, path, (0, 0))
            found["xattr " + path] = tried(os.setxattr, path, b"user.x", b"x")
        found["stat"] = tried(os.stat, _args["file"])
        found["stat folder"] = tried(os.stat, _args["folder"])
        found["exchange"] = tried(call, "renameat2", -100, b"/workspace/mine", -100, b"/etc/hosts", 2)
        held = os.open("/etc/hosts", os.O_PATH)
        found["by descriptor"] = tried(os.open, "/proc/self/fd/%d" % held, os.O_RDWR)
        found
    """)
    return trial.expect_refused(execution, *READ_ONLY, "EOPNOTSUPP")


@attack("N38", "watching what the host or another sandbox does with shared files is refused")
def watch_files(trial: Trial) -> str:
    execution = trial.run("""
        import fcntl, signal
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        libc = ctypes.CDLL(None, use_errno=True)
        found = {name: tried(call, name, 0) for name in ("inotify_init", "inotify_init1") if name in _args["numbers"]}
        for folder in ("/usr/bin", "/etc", os.path.dirname(os.__file__)):
            found["dnotify " + folder] = tried(lambda: fcntl.fcntl(os.open(folder, 0), fcntl.F_NOTIFY, 0x80000001))
        found["lease"] = tried(lambda: fcntl.fcntl(os.open("/etc/hosts", 0), fcntl.F_SETLEASE, fcntl.F_RDLCK))
        found["fanotify"] = tried(call, "fanotify_init", 0, 0)
        found
    """)
    return trial.expect_refused(execution, "EPERM", "ENOSYS", "EACCES")


def _runtime_digest() -> str:
    """The interpreter and the code that goes inside, by content."""
    import sys

    import belljar_jail
    import belljar_kernel

    digest = hashlib.sha256(Path(os.path.realpath(sys.executable)).read_bytes())
    for package in (belljar_kernel, belljar_jail):
        for path in sorted(Path(str(package.__file__)).parent.glob("*.py")):
            digest.update(path.read_bytes())
    digest.update(Path(str(hashlib.__file__)).read_bytes())
    return digest.hexdigest()
