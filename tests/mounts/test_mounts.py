"""A mounted folder on every engine: read as it is now, never written, and no way out of it."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from tests.reliability import traces

from belljar import Sandbox

LOOK = """
import os
seen = {
    "names": sorted(os.listdir("/data")), "text": open("/data/prices.csv").read(), "private": open("/data/inner").read(),
    "walk": sorted(name for _, folders, names in os.walk("/data") for name in folders + names),
    "size": os.stat("/data/prices.csv").st_size, "kinds": [os.path.isdir("/data/notes"), os.path.islink("/data/up")],
    "target": os.readlink("/data/up"),
}
"""

WRITE = """
import os, shutil
def tried(act, *given):
    try:
        act(*given)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
import errno
file, folder = "/data/prices.csv", "/data/notes"
open("mine", "w").close()
{
    "create": tried(open, "/data/new", "w"), "replace": tried(open, file, "w"), "append": tried(open, file, "a"),
    "both": tried(open, file, "r+"), "unlink": tried(os.unlink, file), "mkdir": tried(os.mkdir, "/data/d"),
    "rename": tried(os.rename, file, "/data/x"), "link": tried(os.symlink, "x", "/data/l"), "chmod": tried(os.chmod, file, 0o777),
    "truncate": tried(os.truncate, file, 0), "stamp": tried(os.utime, file, (0, 0)), "rmdir": tried(os.rmdir, folder + "/d"),
    "beside": tried(os.mkdir, "/beside"), "place": tried(os.rmdir, "/data"),
}
"""

LINKS = """
def read(path):
    try:
        return open(path).read()
    except OSError as error:
        return type(error).__name__
[read("/data/" + path) for path in ("inner", "up", "full", "passwd", "../secret.txt", "notes/../../secret.txt")]
"""


def snapshot(folder: Path) -> dict[str, tuple[int, float, str]]:
    return {
        str(path): (path.lstat().st_mode, path.lstat().st_mtime, path.read_text() if path.is_file() else "")
        for path in sorted(folder.rglob("*"))
    }


def test_it_is_read_and_never_written(mounted: Sandbox, vault: Path):
    before = snapshot(vault)
    assert mounted.run(LOOK).error is None
    assert mounted.run("seen").value == {
        "names": ["full", "inner", "notes", "passwd", "prices.csv", "up"], "text": "item,price\napple,3\npear,4\n",
        "private": "# today", "walk": ["full", "inner", "notes", "passwd", "prices.csv", "today.md", "up"], "size": 26,
        "kinds": [True, True], "target": "../secret.txt",
    }  # fmt: skip
    ran = mounted.run(WRITE)
    refusals = dict(ran.value)
    assert refusals.pop("place") in ("EROFS", "EBUSY", "ENOTEMPTY", "EACCES", "EPERM")
    assert refusals.pop("rmdir") in ("EROFS", "ENOENT")
    assert set(refusals.values()) <= {"EROFS", "EACCES"}
    assert snapshot(vault) == before
    assert [file.path for file in ran.files] == ["mine"]  # what is mounted is no file of the workspace
    assert [entry.path for entry in mounted.files.list()] == ["mine"]

    # Links are followed within the sandbox: to what it has itself, or to nothing.
    *outside, passwd = [mounted.run(LINKS).value[n] for n in (1, 2, 4, 5, 3)]
    assert outside == ["FileNotFoundError"] * 4
    assert passwd in ("FileNotFoundError", "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n")
    assert mounted.run(LINKS).value[0] == "# today"
    assert "secret" not in str(mounted.run("import os; os.listdir('/')").value)


def test_what_the_host_changes_is_seen_also_after_a_reset_and_a_crash(mounted: Sandbox, vault: Path):
    first = mounted.run("import os; os.path.exists('/data/new'), open('/data/prices.csv').read()[:4]")
    assert first.value == [False, "item"]
    held = mounted.run("held = open('/data/prices.csv')")
    assert held.error is None
    (vault / "fresh").write_text("replaced")
    os.replace(vault / "fresh", vault / "prices.csv")
    (vault / "new").write_text("new")
    (vault / "notes/today.md").unlink()
    (vault / "notes/later.md").write_text("later")
    assert mounted.run("held.read()[:4]").value == "item"  # an open file stays the one that was opened
    mounted.run("held.close()")
    look = "import os; [open('/data/prices.csv').read(), open('/data/new').read(), os.listdir('/data/notes')]"
    now = ["replaced", "new", ["later.md"]]
    assert mounted.run(look).value == now
    mounted.reset()
    assert mounted.run(look).value == now
    assert mounted.run("import os; os.abort()").state == "reset"
    assert mounted.run(look).value == now
    vault.rename(vault.with_name("moved"))
    mounted.reset()
    assert mounted.run(look).value == now


def test_a_run_that_waits_for_a_file_sees_it_come(mounted: Sandbox, vault: Path):
    timer = threading.Timer(0.3, (vault / "signal").write_text, ["go"])
    timer.start()
    ran = mounted.run(
        "import os, time\nwhile not os.path.exists('/data/signal'): time.sleep(0.05)\nopen('/data/signal').read()",
        timeout=60,
    )
    timer.join()
    assert (ran.status, ran.value) == ("ok", "go")


def test_a_folder_that_is_swapped_for_a_link_while_it_is_read_leads_nowhere(
    mounted: Sandbox, vault: Path, tmp_path: Path
):
    """The host's own folder changes under a walk; what lies beyond it is never read."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/today.md").write_text("outside")
    (vault / "link").symlink_to(tmp_path / "outside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for source in ("notes", "link"):
                os.rename(vault / source, vault / "spot")
                os.rename(vault / "spot", vault / source)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        ran = mounted.run(
            "seen = set()\nfor _ in range(300):\n    try: seen.add(open('/data/spot/today.md').read())\n"
            "    except OSError: pass\nsorted(seen)"
        )
    finally:
        over.set()
        thread.join()
    assert ran.error is None
    assert set(ran.value) <= {"# today"}


def test_sockets_and_pipes_of_the_folder_lead_nowhere(mounted: Sandbox, special: socket.socket):
    ran = mounted.run(
        "import os, socket\ndef tried(act):\n    try: return act() and 'reached'\n"
        "    except OSError as error: return type(error).__name__\n"
        "def connect():\n    socket.socket(socket.AF_UNIX).connect('/data/socket'); return True\n"
        "found = [tried(lambda: os.open('/data/pipe', os.O_WRONLY | os.O_NONBLOCK) + 1)]\n"
        "if hasattr(socket, 'AF_UNIX'): found.append(tried(connect))\nfound"
    )
    assert ran.error is None
    assert "reached" not in ran.value
    with pytest.raises(BlockingIOError):  # nobody came
        special.accept()


def test_closing_lets_go_of_the_folder(mounted: Sandbox, vault: Path):
    assert mounted.run("held = [open('/data/prices.csv') for _ in range(20)]").error is None
    assert mounted.run("import os; walks = [os.scandir('/data') for _ in range(5)]").error is None
    mounted.close()

    def held() -> list[str]:
        return [path for path in map(descriptor, os.listdir("/proc/self/fd")) if path.startswith(str(vault))]

    assert traces.eventually(lambda: held() == []), held()


def descriptor(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:
        return ""
