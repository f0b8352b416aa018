"""Forks of a live sandbox: by its engine, copy-on-write, or else through a checkpoint, and then told so."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace

from belljar.engines.base import CannotFork, Spec
from belljar.errors import InvalidRequest, SandboxClosed
from belljar.host import saving
from belljar.host.host import Host
from belljar.host.session import Session
from belljar.state.checkpoint import Checkpoint, CheckpointReport

MOST = 32  # of one call
Forked = tuple[Session, CheckpointReport | None]  # the report of one that came through a checkpoint


async def fork(host: Host, session: Session, count: int, key: Callable[[], bytes], owner: str) -> list[Forked]:
    """So many sandboxes in the state of this one; all of them or none.

    Raises:
        InvalidRequest: when the host never has room for so many.
        SandboxError: when there is no state, or a fork could not be made. The sandbox goes on as it was.
    """
    most = host.settings.max_sandboxes
    if most and count >= most:  # the sandbox itself has a place, too
        raise InvalidRequest(
            f"this host has room for {most} sandboxes, this one among them; ask for at most {most - 1} forks, or raise "
            "BELLJAR_MAX_SANDBOXES"
        )
    specs = [replace(session.spec, id=str(uuid.uuid4())) for _ in range(count)]
    made: list[Forked] = []
    places = 0
    try:
        for spec in specs:
            await host.enter(spec.id)
            places += 1
        try:
            made += [(fork, None) for fork in await session.fork(specs)]
        except CannotFork as why:
            await _restore(host, session, specs, made, key(), owner, str(why))
        if host.closed:
            raise SandboxClosed("the host was closed while the forks were made")
    except BaseException:
        try:
            await asyncio.shield(asyncio.gather(*(host.let_go(fork) for fork, _ in made), return_exceptions=True))
        finally:
            for _ in range(places):
                host.admission.leave()
        raise
    for fork, _ in made:
        host.welcome(fork)
    return made


async def close(host: Host, made: list[Forked]) -> None:
    """End forks that nobody will have."""
    await asyncio.gather(*(host.close_session(fork) for fork, _ in made), return_exceptions=True)


async def _restore(
    host: Host, session: Session, specs: list[Spec], made: list[Forked], key: bytes, owner: str, why: str
) -> None:
    checkpoint = await saving.snapshot(session, key, None, owner)
    opened = await asyncio.to_thread(checkpoint.opened, host.settings)
    for spec in specs:
        fork = await host.create(session.engine_name, spec)
        made.append((fork, None))
        report = _whole(await saving.restore(fork, opened), checkpoint)
        fork.origin = checkpoint.parent
        made[-1] = (fork, report)
        fork.restored = f"forked from sandbox {session.spec.id} through a checkpoint ({why}){saving.without(report)}"


def _whole(restored: CheckpointReport, saved: Checkpoint) -> CheckpointReport:
    """What a fork has not, whether it was lost on the way out or on the way in."""
    skipped = {**saved.skipped, **restored.skipped}
    return CheckpointReport(restored.saved, skipped, {**saved.files_skipped, **restored.files_skipped})
