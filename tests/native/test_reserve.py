"""The reserve: walls are made ahead, used once, and belong to one sandbox alone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import probe
from tests.native.keepers import keeper_of, pid_of
from tests.reliability.traces import eventually
from tests.shop import Shop, wheel

from belljar import Limits, Policy, Sandbox, compose
from belljar.engines.native.reserve import Reserve
from belljar.engines.native.trees import Trees
from belljar.settings import Settings

BARE = Policy(packages="none")


@pytest.fixture
def reserve(native: None) -> Iterator[Reserve]:
    """The full reserve of a host that has no pool."""
    host = compose.LocalHost(replace(Settings.load(), pool_size=0, reserve_size=2))
    with compose.using(host):
        Sandbox("native", policy=BARE).close()
        (made,) = probe.reserves(probe.engine(host, "native")).values()
        assert eventually(lambda: made.ready == 2)
        yield made
        eventually(lambda: made.ready == 2)
        left = [
            folder for keeper in probe.spare_keepers(made) if keeper.group for folder in keeper.group.folders.values()
        ]
        host.close()
    assert [folder for folder in left if folder.exists()] == []


def keepers(reserve: Reserve) -> list[int]:
    return [pid_of(keeper) for keeper in probe.spare_keepers(reserve)]


def test_a_new_sandbox_takes_a_keeper_that_was_made_ahead_and_another_is_made(reserve: Reserve):
    ahead = keepers(reserve)
    with Sandbox("native", policy=BARE) as sandbox:
        assert pid_of(keeper_of(sandbox)) in ahead
        assert sandbox.run("6 * 7").value == 42
        assert eventually(lambda: reserve.ready == 2)
        assert pid_of(keeper_of(sandbox)) not in keepers(reserve)


def test_a_keeper_is_used_once(reserve: Reserve):
    with Sandbox("native", policy=BARE) as sandbox:
        used = pid_of(keeper_of(sandbox))
    assert eventually(lambda: reserve.ready == 2)
    assert used not in keepers(reserve)
    assert eventually(lambda: not Path(f"/proc/{used}").exists())


def test_two_sandboxes_from_the_reserve_share_neither_namespaces_nor_files(reserve: Reserve):
    look = (
        "import os; open('mine', 'x').close()\n[os.readlink(f'/proc/self/ns/{n}') for n in os.listdir('/proc/self/ns')]"
    )
    ahead = keepers(reserve)
    with Sandbox("native", policy=BARE) as one, Sandbox("native", policy=BARE) as two:
        assert {pid_of(keeper_of(one)), pid_of(keeper_of(two))} == {*ahead}
        seen, other = one.run(look).value, two.run(look).value
    of_their_own = {name.partition(":")[0] for name in {*seen} - {*other}}
    assert of_their_own >= {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"}


def test_limits_of_a_group_are_set_when_a_keeper_is_taken(reserve: Reserve):
    ahead = keepers(reserve)
    with Sandbox("native", policy=BARE, limits=Limits(processes=7)) as sandbox:
        assert pid_of(keeper_of(sandbox)) in ahead
        group = keeper_of(sandbox).group
        assert group is not None
        assert (group.folders["pids"] / "pids.max").read_text() == "8\n"  # and the keeper


@pytest.mark.parametrize("limits", [Limits(disk_mb=64), Limits(memory_mb=256)])
def test_another_disk_or_memory_needs_a_keeper_of_its_own(reserve: Reserve, limits: Limits):
    ahead = keepers(reserve)
    with Sandbox("native", policy=BARE, limits=limits) as sandbox:
        assert pid_of(keeper_of(sandbox)) not in ahead
    assert keepers(reserve) == ahead


def test_a_keeper_that_died_in_reserve_is_passed_over(reserve: Reserve):
    for pid in keepers(reserve):
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: reserve.ready == 0)
    with Sandbox("native", policy=BARE) as sandbox:
        assert sandbox.run("6 * 7").value == 42
    assert eventually(lambda: reserve.ready == 2)


def test_a_jail_that_ended_takes_its_reserve_along(reserve: Reserve):
    ahead = keepers(reserve)
    reserve.jail.process.kill()
    assert eventually(lambda: reserve.ready == 0)
    with Sandbox("native", policy=BARE) as sandbox:
        assert sandbox.run("6 * 7").value == 42
        assert pid_of(keeper_of(sandbox)) not in ahead


def test_packages_are_opened_off_the_loop_that_serves_every_sandbox(
    native: None, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    opened: list[str] = []
    tree_of = Trees.tree_of

    def noted(trees: Trees, layer: Path) -> int:
        opened.append(threading.current_thread().name)
        return tree_of(trees, layer)

    monkeypatch.setattr(Trees, "tree_of", noted)
    shop.sell(wheel("sycamore", "1.0", {"sycamore.py": "x = 16"}))
    with Sandbox("native", policy=Policy(packages=["sycamore"]), packages=["sycamore"]) as sandbox:
        assert sandbox.run("import sycamore; sycamore.x").value == 16
        assert opened
        assert probe.loop_thread(compose.local_host()) not in opened
