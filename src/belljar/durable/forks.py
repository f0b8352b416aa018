"""Forks of a live sandbox: by its engine, copy-on-write, or else through a checkpoint, and then the report says so."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace

from belljar.durable import saving
from belljar.engines import exits
from belljar.engines.base import KernelExited
from belljar.engines.options import CannotFork, LiveFork
from belljar.errors import InvalidRequest, SandboxClosed, SandboxError
from belljar.host.host import Host, Plan
from belljar.host.session import Session
from belljar.state.checkpoint import Checkpoint, CheckpointReport
from belljar.store.base import SandboxRecord
from belljar.text import plain

MOST = 32  # forks in a call
MAX_LEFT = 200
Forked = tuple[Session, CheckpointReport | None]  # the report, when the fork came through a checkpoint


async def fork(host: Host, session: Session, count: int, key: Callable[[], bytes]) -> list[Forked]:
    """Start `count` sandboxes in the state of this one, all or none. They are not durable. `key` is called in a thread.

    Raises:
        InvalidRequest: when the host never has room for so many.
        SandboxClosed: when the sandbox or the host was closed before or meanwhile.
        SandboxError: when there is no state, or a fork could not be made. The sandbox stays as it was.
    """
    most = host.settings.max_sandboxes
    if most and count >= most:  # the sandbox itself has a place, too
        raise InvalidRequest(
            f"this host has room for {most} sandboxes, this one among them; ask for at most {most - 1} forks, or raise "
            "BELLJAR_MAX_SANDBOXES"
        )
    records = [_record(host, session) for _ in range(count)]
    made: list[Forked] = []
    places = 0
    try:
        for record in records:
            await host.reserve(record.id)
            places += 1
        try:
            made += [(each, None) for each in await _live_forks(session, records)]
        except CannotFork as why:
            await _through_checkpoint(host, session, records, made, await asyncio.to_thread(key), str(why))
        if host.closed:
            raise SandboxClosed("the host was closed while the forks were made")
    except BaseException:
        try:
            closings = (host.discard(each) for each, _ in made)
            await asyncio.shield(asyncio.gather(*closings, return_exceptions=True))
        finally:
            for _ in range(places):
                host.admission.leave()
        raise
    for each, _ in made:
        host.register(each)
    return made


def _record(host: Host, session: Session) -> SandboxRecord:
    """The record of a fork: of its parent's kind, but new, nameless and not durable."""
    now = host.now()
    return replace(session.record, id=str(uuid.uuid4()), name=None, created=now, last_used=now, host=None, reason=None)


async def _live_forks(session: Session, records: list[SandboxRecord]) -> list[Session]:
    """Live copies of a sandbox in its state of a single moment, or none at all.

    Raises:
        CannotFork: when it must be done through a checkpoint.
        SandboxError: when there is no state, or a copy did not come up.
    """
    made: list[Session] = []
    async with session.turn:
        session.check_live()
        try:
            for record in records:
                fork = await _live_fork(session, record)
                made.append(fork)
        except BaseException as failure:
            await asyncio.shield(asyncio.gather(*(each.close() for each in made), return_exceptions=True))
            await asyncio.shield(session.finish_abandoned_request())
            if isinstance(failure, Exception):
                session.check_open()
            if isinstance(failure, KernelExited):
                lost = exits.explain(failure.exit, session.spec.limits)[1].value
                session.note_lost(lost)
                raise SandboxError(f"the sandbox's Python ended while it was forked: {lost}") from None
            raise
    return made


async def _live_fork(session: Session, record: SandboxRecord) -> Session:
    """One copy, with a network that reports its denials in the copy's Executions."""
    if not isinstance(session.engine, LiveFork):
        raise CannotFork(f"the {session.engine.name} engine has no copies of a live Python")
    spec = replace(session.spec, id=str(uuid.uuid4()))
    process, left = await session.engine.fork(session.process, spec)
    return session.forked(record, spec, process, ", ".join(plain(row, MAX_LEFT) for row in left))


async def _through_checkpoint(
    host: Host, session: Session, records: list[SandboxRecord], made: list[Forked], key: bytes, why: str
) -> None:
    checkpoint = await saving.snapshot(session, key, None, session.owner)
    opened = await asyncio.to_thread(checkpoint.opened, host.settings)
    env = dict(session.spec.env)
    plan = Plan(session.engine, session.installer, session.spec.environment, env, session.tools)
    for record in records:
        each = await host.start(record, plan)
        made.append((each, None))
        report = _whole(await saving.restore(each, opened), checkpoint)
        made[-1] = (each, report)
        news = f"forked from sandbox {session.id} through a checkpoint ({why}){saving.without(report)}"
        each.continue_from(each.count, checkpoint.parent, news)


def _whole(restored: CheckpointReport, saved: Checkpoint) -> CheckpointReport:
    """What a fork does not have, whether it was lost on the way out or on the way in."""
    skipped = {**saved.skipped, **restored.skipped}
    return CheckpointReport(restored.saved, skipped, {**saved.files_skipped, **restored.files_skipped})
