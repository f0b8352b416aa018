"""Two hosts of one process share nothing that can change, and no module of Belljar keeps what belongs to a host."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests import probe
from tests.reliability.traces import eventually
from tests.service.acts import every
from tests.service.conftest import Kind, MakeHost

import belljar
from belljar import Policy
from belljar.compose import LocalHost
from belljar.durable.lock import is_held
from belljar.execution import Execution
from belljar.service.base import RunRequest, SandboxRequest
from belljar.settings import Settings

CONTAINERS = (dict, list, set, deque, weakref.WeakValueDictionary, weakref.WeakSet)
SOURCES = Path(belljar.__file__).parent
# What a module may keep for the whole process. Each says at its place why that does no harm.
OF_THE_PROCESS = {
    "compose.py": {"_here", "_hosts", "_lock", "_of_parents", "_used"},
    "packages/lookup.py": {"_known", "_last_silence", "_silent_until"},
    "packages/holds.py": {"_holds"},
    "store/sqlite.py": {"_abandoned"},
}


async def value(here: LocalHost, id: str, code: str) -> object:
    (ran,) = await every(here.service.run("ann", id, RunRequest(code)))
    assert isinstance(ran, Execution)
    assert ran.error is None, ran.error
    return ran.value


@pytest.fixture
def pair(make_host: MakeHost, kind: Kind) -> tuple[tuple[LocalHost, str], tuple[LocalHost, str]]:
    """Two hosts, each with a durable sandbox that has run, was saved, and has more output than an Execution shows."""

    def used() -> tuple[LocalHost, str]:
        here = make_host()
        made = here.background.wait(here.service.create("ann", kind.request(durable=True)))
        here.background.wait(value(here, made.id, "x = 1\nprint('x' * 3_000_000)"))
        here.background.wait(probe.live(here.host, made.id, "ann").guardian.settle())
        return here, made.id

    return used(), used()


def parts(root: object) -> dict[int, object]:
    """Everything of Belljar that an object leads to and that can change, by identity."""
    found: dict[int, object] = {}
    left = [root]
    while left:
        each = left.pop()
        if isinstance(each, types.MethodType):
            left.append(each.__self__)
        elif isinstance(each, tuple):
            left += each
        elif id(each) not in found and (isinstance(each, CONTAINERS) or _is_of_belljar(each)):
            found[id(each)] = each
            left += _within(each)
    return found


def _is_of_belljar(each: object) -> bool:
    """Whether it is an instance of a class of Belljar whose fields may be set."""
    kind = type(each)
    is_value = is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return kind.__module__.partition(".")[0] == "belljar" and (not is_value or bool(_within(each)))


def _within(each: Any) -> list[Any]:
    if isinstance(each, dict | weakref.WeakValueDictionary):
        return [*each.keys(), *each.values()]
    if isinstance(each, CONTAINERS):
        return list(each)
    return list(getattr(each, "__dict__", {}).values())


def _is_a_value(each: object) -> bool:
    """A frozen dataclass cannot change itself; what is in it is looked at on its own."""
    kind = type(each)
    return is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined, no-any-return]


def test_nothing_that_can_change_belongs_to_two_hosts(pair: tuple[tuple[LocalHost, str], tuple[LocalHost, str]]):
    (one, _), (other, _) = pair
    mine, theirs = parts(one), parts(other)
    assert len(mine) > 50
    names = {type(each).__name__ for each in mine.values()}
    assert names >= {"Host", "LocalService", "Registry", "Journal", "Admission", "Pools", "Budget", "FailedImports"}
    assert names >= {"SourceBuilds", "Transitions", "Session", "Autosaver", "Ledger", "StoreThread", "HostLock"}
    both = [mine[each] for each in mine.keys() & theirs.keys() if not _is_a_value(mine[each])]
    assert [each for each in both if each] == []  # an empty constant is no state


def test_a_budget_that_is_used_up_on_one_host_is_free_on_the_other(
    pair: tuple[tuple[LocalHost, str], tuple[LocalHost, str]],
):
    (one, _), (other, id_) = pair
    for budget in (one.host.shared.overflow, one.host.shared.states):
        budget.take(budget.most)
    for budget in (other.host.shared.overflow, other.host.shared.states):
        assert eventually(lambda budget=budget: budget.held == 0)  # its last save has just been written
    other.background.wait(value(other, id_, "print('y' * 3_000_000)"))
    entries = other.background.wait(other.service.list_files("ann", id_))
    assert sorted(entry.size for entry in entries if entry.path.endswith(".stdout.txt")) == [3_000_001]
    assert other.background.wait(other.service.checkpoint("ann", id_)).saved == ["x"]
    other.host.journal.tell("busy", None)
    assert one.host.journal.counters["busy"] == 0


def test_the_end_of_one_host_costs_the_other_nothing(pair: tuple[tuple[LocalHost, str], tuple[LocalHost, str]]):
    (one, _), (other, id_) = pair
    names = [probe.durability(each).ledger.name for each in (one, other)]
    folders = [each.settings.state_dir for each in (one, other)]
    assert [is_held(folder, name) for folder, name in zip(folders, names, strict=True)] == [True, True]
    one.close()
    assert [is_held(folder, name) for folder, name in zip(folders, names, strict=True)] == [False, True]
    assert other.background.wait(value(other, id_, "x += 1; x")) == 2
    assert other.background.wait(other.service.hibernate("ann", id_))
    assert other.background.wait(value(other, id_, "x")) == 2


def test_two_native_engines_have_control_groups_of_their_own(native: None, tmp_path: Path):
    settings = replace(Settings.load(), state_dir=tmp_path, pool_size=0, reserve_size=0)
    request = SandboxRequest("native", policy=Policy(packages="none"))
    one, other = LocalHost(settings), LocalHost(settings)
    groups = []
    for here in (one, other):
        made = here.background.wait(here.service.create("ann", request))
        group = probe.live(here.host, made.id, "ann").process.group  # type: ignore[attr-defined]
        groups.append(set(group.folders.values()))
    parents = [{folder.parent for folder in folders} for folders in groups]
    assert parents[0].isdisjoint(parents[1])
    one.close()
    assert [folder for folder in (*groups[0], *parents[0]) if folder.exists()] == []
    assert all(folder.exists() for folder in (*groups[1], *parents[1]))
    other.close()
    assert [folder for folder in (*groups[1], *parents[1]) if folder.exists()] == []


FORKS = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from belljar.compose import LocalHost
from belljar.settings import Settings
hosts = []
for folder in sys.argv[1:]:
    here = LocalHost(replace(Settings.load(), state_dir=Path(folder)))
    print(here.background.wait(here.service.durability()).ledger.name, flush=True)
    hosts.append(here)
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.stdin.read(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_forked_child_holds_the_locks_of_no_host(tmp_path: Path):
    folders = [tmp_path / name for name in ("one", "other")]
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKS, *map(str, folders)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        names = [process.stdout.readline().strip() for _ in folders]
        assert process.stdout.readline() == "forked\n"
        assert process.wait(20) == -9
        held = [is_held(folder, name) for folder, name in zip(folders, names, strict=True)]
        assert process.stdin is not None
        process.stdin.write("\n")  # the child lived until now
    assert all(names)
    assert held == [False, False]


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES).as_posix(), ast.parse(path.read_text("utf-8"))


def test_no_module_keeps_what_belongs_to_a_host():
    assert {name: kept for name, tree in modules() if (kept := set(_kept(tree)))} == OF_THE_PROCESS


def _kept(tree: ast.Module) -> Iterator[str]:
    """Names of a module that a function sets, or that hold a container and are not written as constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and _is_variable(target.id) and _is_container(getattr(node, "value", None)):
                yield target.id


def _is_variable(name: str) -> bool:
    return not name.isupper() and not name.startswith("__")


def _is_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        made = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return made in {kind.__name__ for kind in CONTAINERS} | {"defaultdict", "OrderedDict", "Counter"}
    return isinstance(value, ast.Dict | ast.List | ast.Set)


def test_no_module_but_the_attacks_sets_a_variable_of_the_environment():
    found = []
    for name, tree in modules():
        if name.startswith("attacks/"):  # they plant a secret there, and look whether a sandbox finds it
            continue
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
            calls = [node.func] if isinstance(node, ast.Call) else []
            written = [each.value for each in targets if isinstance(each, ast.Subscript)]
            written += [each.value for each in calls if isinstance(each, ast.Attribute) and each.attr in CHANGES]
            found += [name for each in written if ast.unparse(each) == "os.environ"]
    assert found == []


CHANGES = {"update", "setdefault", "pop", "clear", "popitem"}
