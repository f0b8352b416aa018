"""Limits as control group settings, and where groups are made: on this machine, and on made-up ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from belljar import Limits
from belljar.engines.native import cgroups

LIMITS = Limits(memory_mb=100, cpus=0.5, processes=10)


def test_limits_as_version_1_settings():
    assert cgroups.settings(1, LIMITS) == [
        ("memory", "memory.memsw.limit_in_bytes", "-1"),
        ("memory", "memory.limit_in_bytes", "104857600"),
        ("memory", "memory.memsw.limit_in_bytes", "104857600"),
        ("pids", "pids.max", "11"),
        ("cpu", "cpu.cfs_burst_us", "0"),
        ("cpu", "cpu.cfs_period_us", "100000"),
        ("cpu", "cpu.cfs_quota_us", "50000"),
        ("cpu", "cpu.cfs_burst_us", "50000"),
    ]


def test_limits_as_version_2_settings():
    assert cgroups.settings(2, LIMITS) == [
        ("memory", "memory.max", "104857600"),
        ("memory", "memory.swap.max", "0"),
        ("pids", "pids.max", "11"),
        ("cpu", "cpu.max.burst", "0"),
        ("cpu", "cpu.max", "50000 100000"),
        ("cpu", "cpu.max.burst", "50000"),
    ]


def machine(root: Path, mounts: list[str], groups: str) -> Path:
    """A made-up machine: what /proc would say, in a folder."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text("\n".join(mounts))
    (root / "proc/self/cgroup").write_text(groups)
    return root


def version_2(root: Path, path: str, enabled: str = "memory pids cpu") -> Path:
    """A version 2 tree in which our own group and those above it hand these controllers down."""
    machine(root, ["30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"], f"0::{path}\n")
    folder = root / "sys/fs/cgroup"
    for name in ["", *path.strip("/").split("/")]:
        folder = folder / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(enabled)
    return folder


def prepare_children(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New groups get the file that the kernel would put there."""
    make = Path.mkdir

    def mkdir(path: Path, *args: object, **options: object) -> None:
        make(path, *args, **options)
        if path.is_relative_to(folder):
            (path / "cgroup.subtree_control").touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)


def test_version_2_groups_are_made_beneath_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = version_2(tmp_path, "/user.slice/run-1.scope")
    prepare_children(tmp_path, monkeypatch)
    hierarchy = cgroups.find("belljar-1-2", system=tmp_path)
    assert (hierarchy.version, set(hierarchy.parents.values())) == (2, {own / "belljar-1-2"})
    assert (own / "belljar-1-2/cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_version_2_asks_for_the_controllers_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = version_2(tmp_path, "/a", enabled="cpu io")
    prepare_children(tmp_path, monkeypatch)
    cgroups.find("belljar-1-2", system=tmp_path)
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_version_2_goes_up_when_our_own_group_may_not_have_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = version_2(tmp_path, "/a/b")
    prepare_children(tmp_path, monkeypatch)
    (own / "cgroup.subtree_control").unlink()
    (own / "cgroup.subtree_control").mkdir()  # cannot be read or written, even by root
    assert set(cgroups.find("belljar-1-2", system=tmp_path).parents.values()) == {own.parent / "belljar-1-2"}


def test_a_scope_made_for_the_jail_is_emptied_into_a_group_beneath_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    version_2(tmp_path, "/user.slice/session-1.scope")
    scope = tmp_path / "sys/fs/cgroup/user.slice/run-7.scope"
    scope.mkdir()
    (scope / "cgroup.subtree_control").write_text("memory pids cpu")
    (scope / "cgroup.procs").write_text("4711\n")
    (tmp_path / "proc/4711").mkdir()
    (tmp_path / "proc/4711/cgroup").write_text("0::/user.slice/run-7.scope\n")
    prepare_children(tmp_path, monkeypatch)
    hierarchy = cgroups.find("belljar-1-2", 4711, system=tmp_path)
    assert set(hierarchy.parents.values()) == {scope / "belljar-1-2"}
    assert (scope / "jail/cgroup.procs").read_text() == "4711"


def test_version_1_groups_are_made_in_every_controller(tmp_path: Path):
    rows = [
        f"{n} 24 0:{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{options}"
        for n, (name, options) in enumerate({"memory": "memory", "pids": "pids", "cpu,cpuacct": "cpu,cpuacct"}.items())
    ]
    machine(tmp_path, rows, "4:memory:/box\n3:pids:/\n2:cpu,cpuacct:/box\n0::/\n")
    for folder in ("memory/box", "pids", "cpu,cpuacct/box"):
        (tmp_path / "sys/fs/cgroup" / folder).mkdir(parents=True)
    hierarchy = cgroups.find("belljar-1-2", system=tmp_path)
    base = tmp_path / "sys/fs/cgroup"
    assert hierarchy.parents == {
        "memory": base / "memory/box/belljar-1-2",
        "pids": base / "pids/belljar-1-2",
        "cpu": base / "cpu,cpuacct/box/belljar-1-2",
        "cpuacct": base / "cpu,cpuacct/box/belljar-1-2",
    }
    hierarchy.remove()
    assert list(base.rglob("belljar-*")) == []


def test_a_controller_that_is_missing_leaves_nothing_half_made(tmp_path: Path):
    machine(tmp_path, ["1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"], "4:memory:/\n0::/\n")
    (tmp_path / "sys/fs/cgroup/memory").mkdir(parents=True)
    with pytest.raises(cgroups.NoCgroups, match="no writable control group") as refused:
        cgroups.find("belljar-1-2", system=tmp_path)
    assert refused.value.fix
    assert list(tmp_path.rglob("belljar-*")) == []


def test_what_dead_processes_left_is_swept_and_what_living_ones_use_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    own, mine = version_2(tmp_path, "/a"), cgroups.fresh_name()
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    for name in (
        f"belljar-{dead.pid}-123",
        f"belljar-{os.getpid()}-7",
        mine,
        "belljar-notes",
        "other-1-2",
    ):
        (own / name).mkdir()
    (own / f"belljar-{dead.pid}-123/some-sandbox").mkdir()
    prepare_children(tmp_path, monkeypatch)
    cgroups.find("belljar-1-2", system=tmp_path)
    assert not (own / f"belljar-{dead.pid}-123").exists()
    assert not (own / f"belljar-{os.getpid()}-7").exists()  # our pid, but another process had it
    assert all((own / name).exists() for name in (mine, "belljar-notes", "other-1-2"))


@pytest.mark.usefixtures("native")
def test_a_real_group_takes_its_limits_and_other_ones_later():
    hierarchy = cgroups.find(cgroups.fresh_name())
    try:
        group = hierarchy.make("one", LIMITS)
        for limits in (Limits(memory_mb=400), Limits(memory_mb=64), Limits(memory_mb=900, cpus=2), LIMITS):
            group.set(limits)
            name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
            assert int((group.folders["memory"] / name).read_text()) == limits.memory_mb << 20
            saved = group.folders["cpu"] / ("cpu.max.burst" if group.version == 2 else "cpu.cfs_burst_us")
            assert not saved.exists() or int(saved.read_text()) == limits.cpus * cgroups.PERIOD_US
        assert group.out_of_memory_kills() == 0
        assert group.remove()
    finally:
        hierarchy.remove()
    assert not any(folder.exists() for folder in hierarchy.parents.values())
