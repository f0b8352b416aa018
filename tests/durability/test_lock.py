"""The lock of a host: held while it lives, free afterwards, and nothing is ended that is not its own."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests import probe
from tests.durability.conftest import MakeHost, saved

from belljar import Sandbox, SandboxError, SandboxTaken, StoreFailed
from belljar.durable.lock import GoneHost, HostLock, ProcessId, gone_hosts, is_held
from belljar.state.keys import own_key
from belljar.store.sqlite import SqliteStore

HOLDER = """
import os, subprocess, sys
from pathlib import Path
from belljar.durable.lock import HostLock
lock = HostLock.take(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "1000"])
lock.note([child.pid])
print(lock.name, child.pid, flush=True)
input()
"""


def test_a_lock_is_held_while_its_host_lives_and_leaves_nothing(tmp_path: Path):
    lock = HostLock.take(tmp_path)
    assert is_held(tmp_path, lock.name)
    assert list(gone_hosts(tmp_path)) == []
    assert [path.name for path in (tmp_path / "hosts").iterdir()] == [f"{lock.name}.lock"]
    lock.release()
    lock.release()
    assert not is_held(tmp_path, lock.name)
    assert list((tmp_path / "hosts").iterdir()) == []


def test_what_a_killed_host_left_is_found_once_and_ended(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as host:
        name, child = host.stdout.readline().split()
        orphan = ProcessId.of(int(child))
        assert list(gone_hosts(tmp_path)) == []
        host.kill()
    assert not is_held(tmp_path, name)
    found = []
    for gone in gone_hosts(tmp_path):
        found.append(gone)
        assert gone.end_processes() == 1
        assert list(gone_hosts(tmp_path)) == []  # nobody else gets it meanwhile
    assert found == [GoneHost(name, (orphan,))]
    assert list((tmp_path / "hosts").iterdir()) == []


def test_a_process_that_has_the_number_of_another_is_spared():
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        now = ProcessId.of(bystander.pid)
        assert not ProcessId(now.pid, now.started - 1).end()
        assert bystander.poll() is None
        assert now.end()
        assert bystander.wait(10) == -9
    assert not now.end()


def test_what_was_noted_before_the_machine_was_started_anew_does_not_count(tmp_path: Path):
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        noted = ProcessId.of(bystander.pid)
        (tmp_path / "hosts").mkdir()
        said = {"boot": "another", "processes": [[noted.pid, noted.started]]}
        (tmp_path / "hosts/1-2-x.lock").write_text(json.dumps(said))
        (tmp_path / "hosts/1-3-y.lock").write_text("torn {")
        assert [gone.processes for gone in gone_hosts(tmp_path)] == [(), ()]
        bystander.kill()


def test_a_forked_child_does_not_hold_the_lock_of_its_parent(tmp_path: Path):
    lock = HostLock.take(tmp_path)
    duplicate = os.dup(probe.lock_descriptor(lock))  # as a child has it
    lock.forget()
    assert is_held(tmp_path, lock.name)
    os.close(duplicate)
    assert not is_held(tmp_path, lock.name)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "hosts").write_text("in the way")
    with pytest.raises(StoreFailed, match="BELLJAR_STATE_DIR"):
        HostLock.take(tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_lock_that_another_user_wrote_ends_nobody_and_is_left_alone(tmp_path: Path):
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        lock = HostLock.take(tmp_path)
        lock.note([bystander.pid])
        lock.forget()
        path = tmp_path / "hosts" / f"{lock.name}.lock"
        os.chown(path, 65534, 65534)
        assert list(gone_hosts(tmp_path)) == []
        os.chown(path, 0, 0)
        path.chmod(0o666)
        assert list(gone_hosts(tmp_path)) == []
        path.chmod(0o600)
        assert [gone.end_processes() for gone in gone_hosts(tmp_path)] == [1]


def test_odd_locks_cost_nothing(tmp_path: Path):
    hosts = tmp_path / "hosts"
    hosts.mkdir()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    odd = [[-1, 0], [0, 0], [1, ProcessId.of(1).started], [10**30, 1], [os.getpid(), ProcessId.of(os.getpid()).started]]
    (hosts / "1-1-a.lock").write_text(json.dumps({"boot": boot, "processes": odd}))
    (hosts / "1-2-b.lock").write_text("[" * 100_000)
    (hosts / "1-3-c.lock").write_text(f'{{"boot": "{boot}", "processes": [[Infinity, 1]]}}')
    (hosts / "1-4-d.lock").mkdir()
    os.mkfifo(hosts / "1-5-e.lock")
    (hosts / "1-6-f.lock").symlink_to("/etc/passwd")
    assert [gone.end_processes() for gone in gone_hosts(tmp_path)] == [0, 0, 0]
    assert sorted(path.name for path in hosts.iterdir()) == ["1-4-d.lock", "1-5-e.lock", "1-6-f.lock"]
    assert [is_held(tmp_path, name) for name in ("1-4-d", "1-5-e", "1-6-f", "a\0b", "x" * 5000)] == [False] * 5


def test_a_host_whose_lock_was_removed_saves_nothing_over_what_the_next_one_has(another: MakeHost):
    first = another()
    mine = Sandbox("native", durable=True)
    mine.run("x = 'first'")
    saved(first, mine.id)
    folder = first.settings.state_dir
    for path in (folder / "hosts").glob("*.lock"):
        path.unlink()
    taking = (
        f"from belljar import Sandbox; s = Sandbox.connect({mine.id!r})\nprint(s.run('x += \\', second\\'; x').value)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", f"{taking}\ns.hibernate()"], env=os.environ | {"BELLJAR_STATE_DIR": str(folder)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.stdout == "first, second\n", ended.stderr
    assert mine.run("x = 'overwritten'").status == "ok"
    with pytest.raises(SandboxTaken, match="not this host's any more"):
        mine.hibernate()
    store = SqliteStore(folder)
    assert [each.count for each in store.checkpoints(mine.id)] == [2, 1]
    store.close()
    mine.close()


def test_a_full_disk_leaves_neither_files_nor_descriptors(tmp_path: Path):
    before, (soft, hard) = len(os.listdir("/proc/self/fd")), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(StoreFailed, match="make room"):
            HostLock.take(tmp_path)
        with pytest.raises(SandboxError, match="make room"):
            own_key(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.rglob("*")] == ["hosts"]
    assert len(os.listdir("/proc/self/fd")) == before
    HostLock.take(tmp_path).release()


def test_what_could_not_be_noted_is_noted_the_next_time(tmp_path: Path):
    lock = HostLock.take(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="large"):
            lock.note([os.getpid()])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    lock.note([os.getpid()])
    me = ProcessId.of(os.getpid())
    said = json.loads((tmp_path / f"hosts/{lock.name}.lock").read_text())
    lock.release()
    assert said["processes"] == [[me.pid, me.started]]


def test_whoever_only_asks_is_not_taken_for_the_host(tmp_path: Path):
    (tmp_path / "hosts").mkdir()
    path = tmp_path / "hosts/1-2-x.lock"
    path.write_text("{}")
    with path.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)  # as is_held() does for a moment, in another process
        assert not is_held(tmp_path, "1-2-x")
        fcntl.flock(asking, fcntl.LOCK_EX)
        assert is_held(tmp_path, "1-2-x")
