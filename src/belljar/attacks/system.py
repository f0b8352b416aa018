"""Attacks on the kernel's surface: mounts, namespaces, tracing, keys, odd sockets, devices, descriptors, privileges."""

from __future__ import annotations

from belljar.attacks.case import Cases, Trial

attack = Cases()
REFUSED = ("EPERM", "ENOSYS", "EACCES")


@attack("N04", "mounting, chroot and entering or making namespaces is refused")
def change_namespaces(trial: Trial) -> str:
    execution = trial.run("""
        NEW = {"user": 28, "mount": 17, "pid": 29, "net": 30, "ipc": 27, "uts": 26, "cgroup": 25}
        t, w = b"/tmp", b"/workspace"
        found = {"mount": tried(call, "mount", b"x", t, b"tmpfs", 0, None)}
        found["bind"] = tried(call, "mount", b"/", t, None, 4096, None)
        found |= {"umount": tried(call, "umount2", b"/proc/meminfo", 2), "pivot": tried(call, "pivot_root", t, t)}
        found |= {"chroot": tried(os.chroot, "/tmp"), "fsopen": tried(call, "fsopen", b"tmpfs", 0)}
        found["open_tree"] = tried(call, "open_tree", -100, b"/", 1)
        found["move_mount"] = tried(call, "move_mount", -100, t, -100, w, 0)
        found |= {"mount_setattr": tried(call, "mount_setattr", -100, b"/", 0, bytes(32), 32)}
        found |= {"setns": tried(call, "setns", os.pidfd_open(1), 1 << NEW["mount"])}
        found |= {"unshare " + name: tried(call, "unshare", 1 << bit) for name, bit in NEW.items()}
        found |= {"clone " + name: tried(call, "clone", 1 << bit | 17) for name, bit in NEW.items()}
        found |= {"clone3": tried(call, "clone3", bytes(88), 88), "sibling": tried(call, "clone", 0x8000 | 17)}
        found
    """)
    return trial.expect_refused(execution, *REFUSED)


@attack("N06", "tracing and reading the memory of other processes is refused")
def trace(trial: Trial) -> str:
    execution = trial.run("""
        here = ctypes.create_string_buffer(64)
        vector = struct.pack("QQ", ctypes.addressof(here), 64)
        found = {"ptrace %d" % pid: tried(call, "ptrace", 16, pid) for pid in (0, 1, os.getpid())}
        for pid in (1, os.getpid()):
            found["readv %d" % pid] = tried(call, "process_vm_readv", pid, vector, 1, vector, 1, 0)
            found["writev %d" % pid] = tried(call, "process_vm_writev", pid, vector, 1, vector, 1, 0)
        found["kcmp"] = tried(call, "kcmp", 1, os.getpid(), 0, 0, 0)
        found["getfd"] = tried(call, "pidfd_getfd", os.pidfd_open(1), 3, 0)
        for name in ("mem", "environ", "maps", "ns/mnt", "fd"):
            found[name] = tried(os.open, "/proc/1/" + name, 0)
        found
    """)
    return trial.expect_refused(execution, *REFUSED, "ESRCH", "ENOENT")


@attack("N07", "changing the limits of the keeper, process 1, is refused, and it lives on")
def starve_the_keeper(trial: Trial) -> str:
    execution = trial.run("""
        import resource
        names = ("RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_AS")
        {name: tried(resource.prlimit, 1, getattr(resource, name), (1, 1)) for name in names}
    """)
    outcome = trial.expect_refused(execution, *REFUSED)
    trial.sandbox.run("import time; time.sleep(9)", timeout=1)
    trial.expect_usable()
    return outcome


@attack("N08", "io_uring, bpf, perf, modules, kexec and the like are refused")
def forbidden_calls(trial: Trial) -> str:
    execution = trial.run("""
        names = "io_uring_setup io_uring_enter io_uring_register userfaultfd bpf perf_event_open open_by_handle_at "
        names += "name_to_handle_at kexec_load kexec_file_load init_module finit_module delete_module quotactl acct "
        names += "swapon swapoff reboot iopl ioperm settimeofday clock_settime adjtimex sethostname syslog seccomp "
        names += "landlock_create_ruleset fanotify_init personality move_pages mbind lookup_dcookie vhangup"
        {name: tried(call, name) for name in names.split() if name in _args["numbers"]}
    """)
    return trial.expect_refused(execution, *REFUSED)


@attack("N09", "the kernel's key store cannot carry data from one sandbox to another")
def leave_keys(trial: Trial) -> str:
    execution = trial.run("""
        found = {"add": tried(call, "add_key", b"user", b"note", b"hello", 5, -4)}
        found |= {"get": tried(call, "request_key", b"user", b"note", None, -4), "join": tried(call, "keyctl", 1, b"x")}
        found
    """)
    return trial.expect_refused(execution, *REFUSED)


@attack("N10", "odd socket families and raw sockets are refused")
def odd_sockets(trial: Trial) -> str:
    execution = trial.run("""
        S, D, R = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
        kinds = {"vsock": (40, S), "alg": (38, 5), "netlink": (16, R), "packet": (17, R), "key": (15, R)}
        kinds |= {"raw": (2, R), "raw6": (10, R), "unix raw": (1, R), "xdp": (44, R), "can": (29, R), "tipc": (30, S)}
        found = {name: tried(call, "socket", *kind, 0) for name, kind in kinds.items()}
        found["hidden in the high half"] = tried(call, "socket", (1 << 32) | 16, R, 0)
        found
    """)
    return trial.expect_refused(execution, *REFUSED, "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT")


@attack("N14", "no descriptor of the host is left open in the sandbox")
def find_descriptors(trial: Trial) -> str:
    execution = trial.run("""
        import stat
        found = {}
        for number in range(4096):
            try: found[number] = [stat.S_IFMT(os.fstat(number).st_mode), os.readlink("/proc/self/fd/%d" % number)]
            except OSError: pass
        listening = [n for n, (kind, _) in found.items() if kind == stat.S_IFSOCK
                     and socket.socket(fileno=os.dup(n)).getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)]
        [found, listening, [n for n, (kind, _) in found.items() if kind == stat.S_IFDIR]]
    """)
    found, listening, folders = execution.value or ({}, ["?"], ["?"])
    trial.expect(set(found) == {"0", "1", "2", "3"}, f"other descriptors than 0 to 3: {found}")
    trial.expect(not listening and not folders, f"a listener or a folder is open: {listening} {folders}")
    return f"only {', '.join(f'{n} {link}' for n, (_, link) in found.items())}"


@attack("N17", "injecting into a terminal is refused")
def inject_into_terminal(trial: Trial) -> str:
    execution = trial.run("""
        import fcntl
        found = {name: tried(os.open, "/dev/" + name, 2) for name in ("tty", "console", "pts/0", "ptmx")}
        for number in range(3):
            found["TIOCSTI %d" % number] = tried(fcntl.ioctl, number, 0x5412, b"x")
            found["TIOCLINUX %d" % number] = tried(fcntl.ioctl, number, 0x541C, b"\\x03")
            found["with a high half %d" % number] = tried(call, "ioctl", number, (1 << 32) | 0x5412, b"x")
        found
    """)
    return trial.expect_refused(execution, *REFUSED, "ENOTTY", "ENXIO", "ENOENT", "ENODEV")


@attack("N18", "privileges are none, and cannot grow")
def gain_privileges(trial: Trial) -> str:
    execution = trial.run("""
        import subprocess
        rows = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
        found = {name: tried(act) for name, act in {
            "setuid": lambda: os.setuid(0), "setgid": lambda: os.setgid(0), "setgroups": lambda: os.setgroups([0]),
            "capset": lambda: call("capset", struct.pack("Ii", 0x20080522, 0), b"\\xff" * 24),
            "chown": lambda: os.chown("/workspace", 0, 0), "nice": lambda: os.setpriority(0, 0, -5)}.items()}
        for program in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount"):
            if os.path.exists(program):
                subprocess.run([program, "--help"], capture_output=True)
        found["file capability"] = tried(os.setxattr, "/workspace", "security.capability", b"\\1\\0\\0\\2" + bytes(16))
        [found, rows, os.getresuid()]
    """)
    attempts, rows, ids = execution.value or ({"report": str(execution.error)}, {"NoNewPrivs": ""}, [0])
    for what, outcome in attempts.items():
        trial.expect(outcome in (*REFUSED, "EINVAL", "EOPNOTSUPP"), f"{what}: {outcome}")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        trial.expect(rows.get(name) == "0" * 16, f"{name} is {rows.get(name)}")
    trial.expect(rows.get("NoNewPrivs") == "1" and rows.get("Seccomp") == "2", "no_new_privs or seccomp is off")
    trial.expect(0 not in ids, f"runs as {ids}")
    return "no capability in any set, no_new_privs, a filter, and no other user id"


@attack("N19", "devices cannot be made, and only the harmless ones are there")
def find_devices(trial: Trial) -> str:
    execution = trial.run("""
        import stat
        found = {"mknod c": tried(os.mknod, "/workspace/c", stat.S_IFCHR | 0o666, os.makedev(1, 1))}
        found["mknod b"] = tried(os.mknod, "/workspace/b", stat.S_IFBLK | 0o666, os.makedev(8, 0))
        for name in "mem kmem port kmsg sda vda loop0 loop-control fuse kvm net/tun mapper/control userfaultfd".split():
            found[name] = tried(os.open, "/dev/" + name, os.O_RDWR)
        [found, sorted(n for n in os.listdir("/dev") if stat.S_ISCHR(os.stat("/dev/" + n).st_mode))]
    """)
    attempts, there = execution.value or ({"report": str(execution.error)}, [])
    for what, outcome in attempts.items():
        trial.expect(outcome in (*REFUSED, "ENOENT"), f"{what}: {outcome}")
    harmless = {"null", "zero", "full", "random", "urandom", "stdin"}  # the last is a link to null
    trial.expect(set(there) <= harmless, f"other devices: {there}")
    return f"/dev has {', '.join(there)}"


@attack("N40", "a foreign or 32-bit system call ends the sandbox's Python and nothing else", memory_mb=64)
def foreign_calls(trial: Trial) -> str:
    execution = trial.run("""
        import mmap
        _call(ctypes.c_long(0x40000000 + 39))  # x32; where there is none it is just an unknown number
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(b"\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3")  # mov eax, 20; int 0x80; ret
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    """)
    outcome = trial.expect_status(execution, "crashed")
    trial.expect_usable("reset")
    return outcome
