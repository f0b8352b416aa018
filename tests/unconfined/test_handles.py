"""Handles: each stays with the host that it was made on, and the service checks what no handle has checked."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator

import pytest

from belljar import InvalidRequest, Sandbox, compose
from belljar.errors import PathRefused, SandboxClosed
from belljar.execution import Execution
from belljar.service.base import LIBRARY, RunRequest, SandboxRequest
from belljar.testing import UnconfinedHost, unconfined


@pytest.fixture
def other() -> Iterator[UnconfinedHost]:
    with unconfined() as made:
        yield made


@pytest.fixture
def one(other: UnconfinedHost) -> Iterator[UnconfinedHost]:
    """A host that is not the one on which sandboxes are made now."""
    with unconfined() as made:
        with compose.using(other):
            yield made


async def ran(host: UnconfinedHost, id: str, code: str) -> Execution:
    items = [item async for item in host.service.run(LIBRARY, id, RunRequest(code))]
    assert isinstance(items[-1], Execution)
    return items[-1]


def test_forks_of_a_sandbox_live_on_its_own_host(one: UnconfinedHost, other: UnconfinedHost):
    sandbox = one.sandbox()
    sandbox.run("x = 41")
    (fork,) = sandbox.fork()
    assert fork.run("x + 1").value == 42
    assert one.host.session(LIBRARY, fork.id) is not None
    assert other.host.sessions() == []
    fork.close()
    assert one.host.session(LIBRARY, fork.id) is None


def test_a_pinned_host_is_that_of_one_thread_only(one: UnconfinedHost, other: UnconfinedHost):
    seen: list[object] = []
    with compose.pinned(one):
        thread = threading.Thread(target=lambda: seen.append(compose.local_host()))
        thread.start()
        thread.join()
        assert compose.local_host() is one
    assert seen == [other]
    assert compose.local_host() is other


def test_blocks_that_overlap_leave_the_host_that_is_still_used():
    with unconfined() as outer:
        first, second = compose.using(outer), unconfined()
        first.__enter__()
        with second as inner:
            assert compose.local_host() is inner
            first.__exit__(None, None, None)
            assert compose.local_host() is inner
        assert compose.local_host() is outer


def test_connecting_wakes_a_sandbox_that_sleeps(other: UnconfinedHost):
    sandbox = Sandbox(durable=True)
    sandbox.run("x = 1")
    assert sandbox.hibernate()
    again = Sandbox.connect(sandbox.id)
    assert other.host.session(LIBRARY, sandbox.id) is not None
    assert again.run("x").value == 1
    again.close()
    with pytest.raises(SandboxClosed):
        Sandbox.connect(sandbox.id)


def test_a_restore_that_is_sent_again_changes_nothing(other: UnconfinedHost):
    async def story() -> None:
        service = other.service
        made = await service.create(LIBRARY, SandboxRequest())
        await ran(other, made.id, "y = 2")
        saved = (await service.checkpoint(LIBRARY, made.id)).to_bytes()
        request = SandboxRequest(id=str(uuid.uuid4()))
        first = await service.restore(LIBRARY, saved, request)
        await ran(other, first.id, "y = 3")
        again = await service.restore(LIBRARY, saved, request)
        assert (again.id, first.restored is None, again.restored) == (first.id, False, None)
        assert (await ran(other, first.id, "y")).value == 3

    other.background.wait(asyncio.wait_for(story(), 60))


def test_the_service_refuses_paths_out_of_the_workspace(other: UnconfinedHost):
    sandbox = Sandbox()
    service, wait = other.service, other.background.wait
    for act in (
        service.write_file(LIBRARY, sandbox.id, "../x", b""),
        anext(service.read_file(LIBRARY, sandbox.id, "/etc/passwd")),
        service.list_files(LIBRARY, sandbox.id, "a/../.."),
        service.delete_file(LIBRARY, sandbox.id, "a\0b"),
    ):
        with pytest.raises(PathRefused):
            wait(act)
    with pytest.raises(PathRefused):
        RunRequest("1", files={"../x": b""})


@pytest.mark.parametrize(
    "fields", [{"code": " "}, {"timeout_s": 1e9}, {"timeout_s": True}, {"env": {"A": 1}}, {"args": (float("nan"),)}]
)
def test_a_run_that_cannot_be_is_never_a_value(fields: dict[str, object]):
    with pytest.raises(InvalidRequest):
        RunRequest(**{"code": "1", **fields})  # type: ignore[arg-type]


def test_the_cursor_of_a_completion_is_checked_by_the_service(other: UnconfinedHost):
    sandbox = Sandbox()
    for code, cursor in (("ab", 3), ("ab", True), (5, 0)):
        with pytest.raises(InvalidRequest):
            other.background.wait(other.service.complete(LIBRARY, sandbox.id, code, cursor))  # type: ignore[arg-type]
