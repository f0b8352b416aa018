"""What is not durable needs no state folder: it is opened when there is something in it, or something to store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import probe
from tests.service.acts import every
from tests.service.conftest import Kind, MakeHost

from belljar.errors import SandboxMissing, StoreFailed
from belljar.service.base import RunRequest

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def unusable(tmp_path: Path) -> Path:
    """A state folder that cannot be made, since a file is in its place."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "state"


@pytest.mark.parametrize("has_tried", [False, True])
def test_without_a_state_folder_what_is_not_durable_is_listed_found_and_closed(
    make_host: MakeHost, kind: Kind, unusable: Path, has_tried: bool
):
    here = make_host(unusable)

    async def story() -> None:
        made = await here.service.create("ann", kind.request())
        if has_tried:
            with pytest.raises(StoreFailed):
                await here.service.create("ann", kind.request(durable=True))
        assert [info.id for info in await here.service.list("ann")] == [made.id]
        assert await here.service.list("bob") == []
        for foreign in (UNKNOWN, made.id):
            await here.service.close("bob", foreign)
            with pytest.raises(SandboxMissing) as looked:
                await here.service.get("bob", foreign)
            with pytest.raises(SandboxMissing) as ran:
                await every(here.service.run("bob", foreign, RunRequest("1")))
            assert str(looked.value) == str(ran.value)
        await here.service.close("ann", made.id)
        await here.service.close("ann", made.id)
        assert await here.service.list("ann") == []

    here.background.wait(asyncio.wait_for(story(), 60))
    assert has_tried or not probe.is_durability_open(here)
    here.close()


def test_a_host_without_durable_sandboxes_leaves_nothing_in_the_state_folder(
    make_host: MakeHost, kind: Kind, tmp_path: Path
):
    here = make_host(tmp_path)

    async def story() -> None:
        made = await here.service.create("ann", kind.request())
        await here.service.list("ann")
        await here.service.close("bob", made.id)
        await here.service.close("ann", made.id)

    here.background.wait(asyncio.wait_for(story(), 60))
    assert list(tmp_path.iterdir()) == []
    here.close()


def test_what_another_host_stores_later_is_listed(make_host: MakeHost, kind: Kind, tmp_path: Path):
    here, other = make_host(tmp_path), make_host(tmp_path)
    assert here.background.wait(here.service.list("ann")) == []
    made = other.background.wait(other.service.create("ann", kind.request(durable=True)))
    assert [info.id for info in here.background.wait(here.service.list("ann"))] == [made.id]
    other.background.wait(other.service.close("ann", made.id))
    for host in (here, other):
        host.close()
