"""A wall that is missing is never missing in silence: the engine refuses, or says so wherever it may be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import probe

from belljar import EngineUnavailable, InvalidRequest, Limits, Policy, Sandbox, StartFailed, compose
from belljar.engines.native import cgroups, health, scope
from belljar.health import EngineHealth
from belljar.settings import Settings
from belljar.surfaces.cli.doctor import describe
from belljar_jail import landlock

SMALL = Limits(timeout_s=10, memory_mb=64, processes=16, disk_mb=4)
MakeHost = Callable[..., compose.LocalHost]


@pytest.fixture
def host(native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeHost]:
    """Hosts with a cache of their own, so that no remembered proof interferes; the last one made is this process's."""
    made: list[compose.LocalHost] = []

    def make(allow_degraded: bool = False) -> compose.LocalHost:
        settings = Settings(tmp_path / "cache", tmp_path / "state", allow_degraded=allow_degraded, pool_size=0)
        made.append(compose.LocalHost(settings))
        use(made[-1])
        return made[-1]

    with probe.replaceable_host() as use:
        yield make
    for each in made:
        each.close()


@pytest.fixture
def no_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)


@pytest.fixture
def no_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> cgroups.Hierarchy:
        raise cgroups.NoCgroups("not here", "delegate a group")

    monkeypatch.setattr(cgroups, "find", refuse)
    monkeypatch.setattr(health, "find", refuse)
    monkeypatch.setattr(scope, "command", list)


def sandbox() -> Sandbox:
    return Sandbox("native", limits=SMALL, policy=Policy(packages="none"))


def native_health(here: compose.LocalHost) -> EngineHealth:
    return next(each for each in here.background.wait(here.host.health()) if each.engine == "native")


def test_with_every_layer_nothing_is_degraded(host: MakeHost):
    here = host()
    assert native_health(here).missing == ()
    with sandbox() as made:
        assert made.run("1 + 1").degraded == []


def test_without_landlock_the_engine_refuses_and_names_the_fix(host: MakeHost, no_landlock: None):
    host()
    with pytest.raises(EngineUnavailable, match=r"landlock.*fix: boot a kernel") as refused:
        sandbox()
    assert refused.value.health is not None
    assert [layer.name for layer in refused.value.health.missing] == ["landlock"]


def test_without_landlock_but_with_leave_every_execution_and_the_doctor_say_so(host: MakeHost, no_landlock: None):
    here = host(allow_degraded=True)
    with sandbox() as made:
        assert made.run("1 + 1").degraded == ["landlock"]
        assert made.run("1 / 0").degraded == ["landlock"]
        wrote = made.run("open('/proc/self/comm', 'w').write('x')")
        assert wrote.status == "ok", "the layer is said to be missing, and it is"
    report = describe([native_health(here)], None)
    rows = {layer["name"]: layer for layer in report["engines"][0]["layers"]}
    assert rows["landlock"]["holds"] is False
    assert "lsm=landlock" in rows["landlock"]["fix"]


def test_without_cgroups_the_engine_refuses_and_names_the_fix(host: MakeHost, no_cgroups: None):
    host()
    with pytest.raises(EngineUnavailable, match=r"memory.*processes.*fix: delegate a group"):
        sandbox()


def test_without_cgroups_but_with_leave_every_execution_and_the_doctor_say_so(host: MakeHost, no_cgroups: None):
    here = host(allow_degraded=True)
    with sandbox() as made:
        assert set(made.run("1 + 1").degraded) == {"memory", "processes"}
    assert {layer.name for layer in native_health(here).missing} == {"memory", "processes"}


def test_cgroups_that_go_away_after_the_proof_are_missed(host: MakeHost, request: pytest.FixtureRequest):
    native_health(host())
    request.getfixturevalue("no_cgroups")
    host()  # starts from the remembered proof
    with pytest.raises((EngineUnavailable, StartFailed), match="control group"):
        sandbox()


def test_a_proof_with_a_missing_layer_is_not_remembered(host: MakeHost, tmp_path: Path, no_landlock: None):
    here = host(allow_degraded=True)
    assert native_health(here).missing
    assert not list((tmp_path / "cache").glob("proofs/*"))


def test_auto_takes_the_next_engine_that_is_whole_and_never_a_degraded_one(host: MakeHost, no_landlock: None):
    here = host()
    assert here.background.wait(here.host.registry.choose("auto")).name == "wasm"


def test_seccomp_that_cannot_be_loaded_leaves_no_kernel(host: MakeHost):
    """The kernel closes its walls before it reads a Request: one that fails is the end of it."""
    here = host()
    native_health(here)
    engine = probe.engine(here, "native")

    async def start_with_broken_limits() -> None:
        from belljar.engines.base import Spec
        from belljar.engines.native import process
        from belljar.packages.environment import Environment, default_python

        original = process.rlimits
        process.rlimits = lambda limits: {**original(limits), "RLIMIT_NO_SUCH": 1}  # fails between the walls
        try:
            await engine.start(Spec("broken", Environment(default_python()), SMALL))
        finally:
            process.rlimits = original

    with pytest.raises(StartFailed):
        here.background.wait(asyncio.wait_for(start_with_broken_limits(), 60))


def test_a_list_of_hosts_is_refused_where_the_wall_around_the_network_is_missing(
    host: MakeHost, monkeypatch: pytest.MonkeyPatch
):
    here = host(allow_degraded=True)
    native = probe.engine(here, "native")

    async def without_network() -> tuple[str, ...]:
        return ("network",)

    monkeypatch.setattr(native, "_admitted", without_network)
    with pytest.raises(InvalidRequest, match="the wall around the network is missing"):
        Sandbox("native", limits=SMALL, policy=Policy(packages="none", network=["example.org"]))
    with sandbox() as made:
        assert made.run("1 + 1").degraded == ["network"]
