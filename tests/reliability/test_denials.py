"""What a sandbox was refused is kept once, in order, and only so much of it; its proxy is made late and ends with it."""

from __future__ import annotations

import asyncio
import resource

import pytest
from tests import probe

from belljar import InvalidRequest
from belljar.egress.network import Network
from belljar.errors import SandboxClosed
from belljar.execution import Denial


def denial(number: int) -> Denial:
    return Denial("network", f"host-{number}", "a rule", "a hint", "egress")


def test_denials_are_kept_once_in_order_and_up_to_a_hundred():
    kept = Network((), 8)
    for number in [*range(150), *range(150)]:
        kept.note(denial(number))
    assert kept.take_denials() == [denial(number) for number in range(100)]
    assert kept.take_denials() == []


def test_what_a_kernel_reports_is_checked_cut_and_marked():
    kept = Network((), 8)
    for event in (
        {},
        {"kind": 1, "target": "x"},
        {"kind": "network", "target": None},
        {"kind": "network", "target": "a\nb", "rule": ["r"], "hint": "h" * 5000, "source": "egress"},
    ):
        kept.note_event({"type": "denial", "id": 1, **event})
    assert kept.take_denials() == [Denial("network", "a?b", "", "h" * 1000, "kernel")]


def test_a_proxy_is_made_once_for_all_who_ask_and_closed_for_good():
    async def story() -> None:
        made = Network(["example.org"], 8)
        one, other = await asyncio.gather(made.egress(), made.egress())
        assert one is other
        await made.close()
        with pytest.raises(SandboxClosed):
            await one.fetch("GET", "http://example.org/")
        late = Network((), 8)
        await late.close()
        with pytest.raises(SandboxClosed):
            await (await late.egress()).fetch("GET", "http://example.org/")

    asyncio.run(story())


def test_a_list_with_a_mistake_is_told_to_whoever_asks_for_the_proxy():
    async def story() -> None:
        made = Network(["http://"], 8)
        with pytest.raises(InvalidRequest):
            await made.egress()
        await made.close()

    asyncio.run(story())


@pytest.mark.parametrize(("files", "connections"), [(64, 8), (4096, 64), (1 << 20, 256), (resource.RLIM_INFINITY, 256)])
def test_a_host_that_may_open_few_files_allows_few_connections(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))

    async def story() -> None:
        for asked in (256, 64):
            made = Network(["example.org"], asked)
            assert probe.most_connections(made) == min(connections, asked)
            await made.close()

    asyncio.run(story())
