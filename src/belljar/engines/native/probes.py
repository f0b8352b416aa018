# Runs inside a sandbox, as user code, with the canary in `_args`; its last expression is the list of findings.
# Each probe tries to get through one wall: `holds` is True when that failed as it should.
import ctypes
import errno
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)


def attempt(action, *allowed):
    """None when the action was refused with one of the allowed errors, else what happened."""
    try:
        action()
    except OSError as failure:
        return None if not allowed or failure.errno in allowed else f"failed oddly: {failure}"
    return "succeeded"


def call(name, *arguments):
    def action():
        if getattr(libc, name)(*arguments) < 0:
            raise OSError(ctypes.get_errno(), name)

    return action


def connect(family, address):
    def action():
        with socket.socket(family, socket.SOCK_STREAM) as end:
            end.settimeout(2)
            end.connect(address)

    return action


def status():
    with open("/proc/self/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def fork_until_refused():
    children = []
    try:
        for _ in range(200):
            child = os.fork()
            if child == 0:
                while True:
                    os.read(reader, 1)
                    os._exit(0)
            children.append(child)
        return len(children)
    except BlockingIOError:
        return len(children)
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)


findings = []


def report(name, bad, good):
    bad = [item for item in bad if item]
    findings.append({"name": name, "holds": not bad, "detail": "; ".join(bad) or good})


seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
report("namespaces", [f"sees processes {seen}" if len(seen) > 2 else None, "is root" if os.getuid() == 0 else None],
       "sees its own processes only, as an ordinary user")  # fmt: skip
report("root", [attempt(lambda: open(_args["path"])) and "read a file of the host",
                attempt(lambda: open("/usr/bin/canary", "w")) and "wrote to /usr/bin",
                attempt(lambda: open("/canary", "w")) and "wrote to /"],
       "a canary file of the host cannot be read, the system cannot be written")  # fmt: skip
report("network", [attempt(connect(socket.AF_INET, ("127.0.0.1", _args["port"]))) and "reached the host's loopback",
                   attempt(connect(socket.AF_UNIX, "\0" + _args["abstract"])) and "reached an abstract socket"],
       "canary listeners on the host cannot be reached")  # fmt: skip
facts = status()
report("capabilities", [f"{name} {facts[name]}" for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")
                        if int(facts[name], 16)] + ["privileges can grow" if facts["NoNewPrivs"] != "1" else None],
       "none, and no way to get any")  # fmt: skip
refused = (errno.EPERM, errno.ENOSYS)
report("seccomp", ["no filter" if facts["Seccomp"] != "2" else None,
                   attempt(call("unshare", 0x10000000), *refused) and "unshare",
                   attempt(call("ptrace", 0, 0, 0, 0), *refused) and "ptrace",
                   attempt(call("mount", b"none", b"/tmp", b"tmpfs", 0, None), *refused) and "mount",
                   attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)) and "netlink"],
       "unshare, ptrace, mount and odd sockets are refused")  # fmt: skip
report("landlock", [attempt(lambda: open("/proc/self/comm", "w"), errno.EACCES) and "wrote to /proc/self/comm"],
       "what the file permissions would allow beyond the workspace is refused")  # fmt: skip
reader, writer = os.pipe()
made = fork_until_refused()
report("processes", [f"made {made} processes with a limit of 16" if made > 16 else None],
       f"a fork bomb stopped after {made}")  # fmt: skip
findings
