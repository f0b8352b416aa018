"""What only the native engine has to get right: owners, the mount table, locks, and an ordinary user's rights."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from belljar import Policy, Sandbox, StartFailed

pytestmark = pytest.mark.usefixtures("native")


def mounted(**mounts: Path) -> Sandbox:
    policy = Policy(packages="none", mounts={f"/{name}": folder for name, folder in mounts.items()})
    return Sandbox("native", policy=policy)


def test_the_mount_table_names_no_folder_of_the_host_and_nothing_can_be_mounted(vault: Path):
    with mounted(data=vault) as sandbox:
        table = sandbox.run("open('/proc/self/mountinfo').read()").value
        assert str(vault) not in table
        assert vault.name not in table
        (row,) = [line.split(" ") for line in table.splitlines() if " /data " in line]
        assert {"ro", "nosuid", "nodev"} <= set(row[5].split(","))
        (root,) = [line.split(" ") for line in table.splitlines() if line.split(" ")[4] == "/"]
        assert "ro" in root[5].split(",")
        ran = sandbox.run(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "[libc.mount(b'none', b'/data', None, 32 | 4096, None), libc.umount2(b'/data', 2), libc.umount2(b'/', 2)]"
        )
        assert ran.value == [-1, -1, -1]
        hidden = sandbox.run("import os; sorted(name for name in os.listdir('/') if name.startswith('.'))").value
        assert hidden == [".beneath", ".disk", ".empty"]
        assert sandbox.run("os.listdir('/.disk'), os.listdir('/.empty')").value == [[], []]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_folders_owner_is_who_reads_and_files_of_others_stay_theirs(vault: Path):
    for path in (vault, *vault.rglob("*")):
        os.chown(path, 54321, 54321, follow_symlinks=False)
    (vault / "roots").write_text("root's")
    (vault / "roots").chmod(0o600)
    (vault / "shared").write_text("everybody's")
    (vault / "shared").chmod(0o644)
    with mounted(data=vault) as sandbox:
        ran = sandbox.run(
            "import os\ndef read(name):\n    try: return open('/data/' + name).read()\n    except PermissionError: return 'refused'\n"
            "[read('notes/today.md'), read('roots'), read('shared'), os.stat('/data').st_uid, os.stat('/data/roots').st_uid]"
        )
    assert ran.value == ["# today", "refused", "everybody's", 1000, 65534]
    assert (vault.stat().st_uid, (vault / "roots").stat().st_uid) == (54321, 0)


def test_locks_that_the_code_takes_are_not_the_hosts(vault: Path):
    with mounted(data=vault) as sandbox:
        ran = sandbox.run(
            "import fcntl\nheld = open('/data/prices.csv')\nfcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
            "fcntl.lockf(held, fcntl.LOCK_SH | fcntl.LOCK_NB)"
        )
        assert ran.error is None
        with open(vault / "prices.csv", "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_two_mounts_are_apart_and_another_sandbox_has_neither(tmp_path: Path, vault: Path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "x").write_text("other")
    policy = Policy(packages="none", mounts={"/data": vault, "/mnt/deep/other": other})
    with Sandbox("native", policy=policy) as sandbox, Sandbox("native", policy=Policy(packages="none")) as plain:
        ran = sandbox.run(
            "import os; [os.listdir('/mnt'), open('/mnt/deep/other/x').read(), os.listdir('/data/notes')]"
        )
        assert ran.value == [["deep"], "other", ["today.md"]]
        assert plain.run("import os; [os.path.exists('/data'), os.path.exists('/mnt')]").value == [False, False]


def test_a_folder_that_went_away_is_said_and_nothing_is_left(vault: Path, monkeypatch: pytest.MonkeyPatch):
    from belljar import mounts

    vault.rename(vault.with_name("gone"))
    monkeypatch.setattr(mounts, "checked_mounts", lambda *_: {"/data": str(vault)})
    with pytest.raises(StartFailed, match="cannot be shown"):
        mounted(data=vault)
    vault.symlink_to("/etc")  # nor is a link followed that came later
    with pytest.raises(StartFailed, match="cannot be shown"):
        mounted(data=vault)
