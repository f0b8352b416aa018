"""Which engine `auto` stands for, tried with engines that only say how they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from belljar import EngineUnavailable, InvalidRequest
from belljar.engines.registry import Part, Registry
from belljar.health import EngineHealth, Layer
from belljar.settings import Settings

BROKEN = (Layer("seccomp", True, "holds"), Layer("memory", False, "cgroup not writable", "delegate it"))


class Stated:
    """An engine of which nothing is used but its health, and how often that was asked for."""

    def __init__(self, health: EngineHealth) -> None:
        self.health = health
        self.checks = 0

    async def check(self) -> EngineHealth:
        self.checks += 1
        return self.health

    async def close(self) -> None:
        pass


def registry(*engines: Stated, impossible: str = "", allow_degraded: bool = False) -> Registry:
    def part(engine: Any) -> Part:
        return Part(lambda _: (engine, engine), is_possible=engine.health.engine != impossible)

    settings = replace(Settings.load(), allow_degraded=allow_degraded)
    return Registry(settings, {engine.health.engine: part(engine) for engine in engines})


def whole(name: str) -> Stated:
    return Stated(EngineHealth(name, True))


def auto(registry: Registry) -> str:
    return asyncio.run(registry.choose_auto())


def test_auto_is_native_when_it_holds_then_wasm_then_nothing() -> None:
    broken = EngineHealth("native", False, BROKEN)
    assert auto(registry(whole("native"), whole("wasm"))) == "native"
    assert auto(registry(Stated(broken), whole("wasm"))) == "wasm"
    with pytest.raises(EngineUnavailable, match="native: memory: cgroup not writable") as refused:
        auto(registry(Stated(broken)))
    assert refused.value.health == broken


def test_auto_takes_an_engine_without_a_wall_only_with_the_operators_leave() -> None:
    degraded = EngineHealth("native", True, BROKEN)
    assert auto(registry(Stated(degraded), whole("wasm"))) == "wasm"
    assert auto(registry(Stated(degraded), whole("wasm"), allow_degraded=True)) == "native"


def test_auto_does_not_try_what_cannot_be_on_this_system() -> None:
    native = whole("native")
    assert auto(registry(native, whole("wasm"), impossible="native")) == "wasm"
    assert native.checks == 0


def test_auto_is_chosen_once_until_the_engines_end() -> None:
    native = whole("native")
    made = registry(native, whole("wasm"))

    async def choose() -> list[str]:
        chosen = [await made.choose_auto(), (await made.choose("auto")).health.engine]  # type: ignore[attr-defined]
        await made.close()
        return [*chosen, await made.choose_auto()]

    assert asyncio.run(choose()) == ["native", "native", "native"]
    assert native.checks == 2


def test_an_engine_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    made = registry(whole("native"), whole("wasm"))
    with pytest.raises(InvalidRequest, match="the container engine is not part of this version; use one of: auto, nat"):
        made.engine("container")
    with pytest.raises(InvalidRequest, match="there is no engine 'docker'; use one of: auto, native, wasm"):
        made.installer("docker")
