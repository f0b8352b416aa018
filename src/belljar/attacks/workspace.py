"""Attacks on the files API: the guest prepares the workspace, the host then reads, writes, lists and deletes in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from belljar.attacks.case import EVERYWHERE, Cases, Trial
from belljar.errors import FileError

attack = Cases()
BY_TARFILE = ("OutsideDestinationError", "SpecialFileError")  # since Python 3.14 it asks no system for a refusal


@attack("F01", "paths out of the workspace are refused by every verb", engines=EVERYWHERE)
def paths_out(trial: Trial) -> str:
    files, file = trial.sandbox.files, str(trial.arena.canaries.file)
    paths = ["../x", file, "/etc/passwd", "a/../../x", "/workspace/../x", "x\0y", "..\\x", "", ".", "/"]
    paths += ["x" * 5000, "a/" * 3000 + "b"]
    refused = 0
    for path in paths:
        for verb in (partial(files.read, path), partial(files.delete, path), partial(files.write, path, "x")):
            refused += _refused(trial, f"{verb.func.__name__} {path[:60]!r}", verb)
    files.write("%2e%2e%2fx", "plain")  # a name like any other
    trial.expect([entry.path for entry in files.list()] == ["%2e%2e%2fx"], "something else was written")
    return f"{refused} refusals"


@attack("F02", "writing and deleting through links that the guest made is refused", engines=EVERYWHERE)
def write_through_links(trial: Trial) -> str:
    trial.run("""
        links = {"out": "/etc", "up": "..", "canary": _args["folder"], "root": "/proc/self/root", "loop": "loop"}
        for name, target in links.items():
            os.symlink(target, "/workspace/" + name)
        os.symlink(_args["file"], "/workspace/leaf")
    """)
    files, places = trial.sandbox.files, trial.arena.canaries
    refused = sum(
        _refused(trial, f"writing {path}", partial(files.write, path, "x"))
        for path in ("out/x", "up/x", "canary/secret.txt", "canary/new", f"root{places.file}", "loop/x")
    )
    refused += _refused(trial, "deleting through a link", lambda: files.delete("canary/secret.txt"))
    files.write("leaf", "replaces the link itself")
    files.delete("canary")
    trial.expect(places.file.exists(), "the canary was deleted through a link")
    return f"{refused} refusals; a link itself is replaced and deleted"


@attack("F03", "reading and listing through links that the guest made shows nothing of the host", engines=EVERYWHERE)
def read_through_links(trial: Trial) -> str:
    trial.run("""
        targets = [_args["file"], "/etc/passwd", "/proc/self/environ", "/proc/1/environ", "/proc/self/fd/1", "../etc"]
        for number, target in enumerate(targets):
            os.symlink(target, "/workspace/leak-%d" % number)
        os.symlink(_args["folder"], "/workspace/folder")
    """)
    files = trial.sandbox.files
    names = [entry.path for entry in files.list()]
    refused = sum(_refused(trial, f"reading {name}", partial(files.read, name)) for name in names)
    refused += _refused(trial, "listing a link", lambda: files.list("folder"))
    trial.expect(len(names) == 7, f"listed {names}")
    return f"{refused} refusals, {len(names)} links listed and none followed"


@attack("F04", "swapping folders for links while the host reads and writes never leads out")
def race_links(trial: Trial) -> str:
    trial.run("""
        os.makedirs("/workspace/real")
        open("/workspace/real/secret.txt", "w").write("guest")
        os.symlink(_args["folder"], "/workspace/link")
        if os.fork() == 0:
            for _ in range(10**9):
                for source in ("real", "link"):
                    os.rename("/workspace/" + source, "/workspace/spot")
                    os.rename("/workspace/spot", "/workspace/" + source)
            os._exit(0)
    """)
    files, seen = trial.sandbox.files, {"read": 0, "written": 0, "refused": 0}
    for _ in range(300):
        try:
            trial.expect(files.read("spot/secret.txt") == b"guest", "a file of the host was read")
            seen["read"] += 1
        except FileError:
            seen["refused"] += 1
        try:
            files.write("spot/secret.txt", "guest")
            seen["written"] += 1
        except FileError:
            seen["refused"] += 1
    return ", ".join(f"{count} {what}" for what, count in seen.items())


@attack("F05", "FIFOs, sockets, unreadable and leased files hold up nothing")
def odd_files(trial: Trial) -> str:
    trial.run("""
        import fcntl
        os.mkfifo("/workspace/fifo")
        socket.socket(socket.AF_UNIX).bind("/workspace/socket")
        os.mkdir("/workspace/closed", 0o000)
        leased = open("/workspace/leased", "w+")
        tried(fcntl.fcntl, leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.flock(leased, fcntl.LOCK_EX)
        open("/workspace/sealed", "w").close(); os.chmod("/workspace/sealed", 0o000)
    """)
    files = trial.sandbox.files
    ends: list[str] = []

    def use() -> None:
        acts: list[Callable[[], object]] = [files.list, partial(files.write, "leased", "new")]
        acts += [partial(files.read, name) for name in ("fifo", "socket", "leased", "sealed", "closed")]
        acts += [partial(files.write, name, "x") for name in ("closed/x", "fifo")]
        acts += [partial(files.delete, name) for name in ("closed", "socket")]
        for act in acts:
            try:
                act()
                ends.append("done")
            except FileError as failure:
                ends.append(type(failure).__name__)

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(10)
    trial.expect(not thread.is_alive(), f"the host hangs after {ends}")
    trial.expect_usable()
    return ", ".join(ends)


@attack("F06", "folders thousands deep and files that go under the host's hands stay file errors", disk_mb=64)
def deep_and_moving(trial: Trial) -> str:
    trial.run("""
        os.mkdir("/workspace/deep"); os.chdir("/workspace/deep")
        for _ in range(2000):
            os.mkdir("d"); os.chdir("d")
        os.chdir("/workspace")
        if os.fork() == 0:
            while True:
                for n in range(50): open("/workspace/moving-%d" % n, "w").close()
                for n in range(50): os.unlink("/workspace/moving-%d" % n)
    """)
    files = trial.sandbox.files
    for _ in range(50):
        try:
            files.list()
        except FileError as failure:
            trial.problems.append(f"listing while files go: {failure}")
            break
    try:
        files.delete("deep")
    except FileError:
        pass
    trial.expect_usable()
    return "listed, and deleted or refused"


@attack(
    "F07",
    "names with newlines, invalid UTF-8, dashes and 255 bytes are listed and read without loss",
    engines=EVERYWHERE,
)
def odd_names(trial: Trial) -> str:
    execution = trial.run("""
        names = [b"new\\nline", b"cr\\r\\nlf", b"-rf", "\\u202egnp.exe".encode()]
        if sys.platform != "emscripten": names.append(b"\\xff\\xfe")  # there names are UTF-16, and all of it is Unicode
        names += [b"x" * 255, b"\\x1b[31mred", b" "]
        for name in names:
            open(b"/workspace/" + name, "w").write("content")
        [name.hex() for name in names]
    """)
    files = trial.sandbox.files
    listed = [entry.path for entry in files.list()]
    same = sorted(path.encode("utf-8", "surrogateescape").hex() for path in listed) == sorted(execution.value or [])
    trial.expect(same, f"listed {listed}")
    for path in listed:
        trial.expect(files.read(path) == b"content", f"{path!r} reads otherwise")
        files.delete(path)
    trial.expect(not files.list(), "some could not be deleted")
    return f"{len(listed)} odd names"


@attack(
    "F08",
    "an archive bomb that is unpacked inside stops at the quota of its sandbox",
    engines=EVERYWHERE,
    memory_mb=128,
)
def unpack_bombs(trial: Trial) -> str:
    execution = trial.run("""
        import io, tarfile, zipfile
        bomb = io.BytesIO()
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            for n in range(4): archive.writestr("zeros-%d" % n, bytes(6 << 20))
        found = {"zip": tried(lambda: zipfile.ZipFile(bomb).extractall("/workspace"))}
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            for name, kind in {"/etc/evil": b"0", "../../evil": b"0", "device": tarfile.CHRTYPE}.items():
                entry = tarfile.TarInfo(name); entry.type = kind; archive.addfile(entry)
        archive = tarfile.open(fileobj=io.BytesIO(tar.getvalue()))
        for member in archive:
            found[member.name] = tried(archive.extract, member, "/workspace")
        found
    """)
    attempts = dict(execution.value or {"report": str(execution.error)})
    attempts.pop("/etc/evil", None)  # tarfile strips the slash: it lands in the workspace
    for what, outcome in attempts.items():
        trial.expect(
            outcome.startswith(("ENOSPC", "EPERM", "EROFS", "EACCES", "EXDEV", *BY_TARFILE)), f"{what}: {outcome}"
        )
    return ", ".join(f"{what}: {outcome}" for what, outcome in attempts.items())


@attack(
    "F10",
    "a sparse file far larger than the disk is refused or listed, and never read into the host",
    engines=EVERYWHERE,
)
def sparse(trial: Trial) -> str:
    execution = trial.run("""
        with open("/workspace/sparse", "wb") as file:
            found = {str(size): tried(file.truncate, size) for size in (1 << 50, 1 << 40, 1 << 33)}
        found
    """)
    outcome = trial.expect_refused(execution, "EFBIG", "EINVAL", "ENOSPC")
    sizes = [entry.size for entry in trial.sandbox.files.list()]
    trial.expect(all(size <= trial.limits.disk_mb << 20 for size in sizes), f"sizes {sizes}")
    return outcome


def _refused(trial: Trial, what: str, act: Callable[[], object]) -> int:
    """1 when the act ended in a FileError; anything else is a problem."""
    try:
        given = act()
    except FileError:
        return 1
    trial.problems.append(f"{what} was not refused: {str(given)[:100]}")
    return 0
