"""How the local service starts, wakes and restores sandboxes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from belljar.durable.transitions import Transitions
from belljar.engines.registry import AUTO
from belljar.errors import InvalidRequest
from belljar.host.host import Host, Plan
from belljar.host.sandbox_packages import check_allowed
from belljar.host.session import Session
from belljar.limits import BOUNDS, Limits
from belljar.policy import Policy
from belljar.service.base import LIBRARY, SandboxRequest
from belljar.service.state_folder import StateFolder
from belljar.store.base import SandboxRecord
from belljar.validation import check_name, checked_policy, checked_requirements

if TYPE_CHECKING:  # few hosts have durable sandboxes: the others do not wait for these imports
    from belljar.durable.autosave import Autosaver
    from belljar.state.checkpoint import CheckpointReport


@dataclass(frozen=True)
class Starts:
    """Makes sessions of requests and of records."""

    host: Host
    transitions: Transitions
    state: StateFolder

    async def create(self, owner: str, request: SandboxRequest) -> tuple[Session, bool]:
        """Start a new sandbox with its first files; returns False with one that was there already.

        Raises:
            InvalidRequest: when the request cannot be met as it is.
            SandboxClosed: when the request was sent before, and its sandbox was closed.
            SandboxError: when it did not start; nothing of it is left.
        """
        record = await self._record(owner, request)
        env = request.env
        async with self.transitions.of(owner, record.id):
            if (there := self.host.session(owner, record.id)) is not None:
                return there, False
            self.host.check_not_closed(owner, record.id)
            if not request.durable:
                if request.id is not None and await self._is_stored(owner, record.id):
                    return await self.wake(owner, record.id), False
                return await self._made(record, record.packages, None, env, request), True

            durability = await self.state.durability()

            async def make(record: SandboxRecord, packages: Sequence[str], saver: Autosaver) -> Session:
                durability.ledger.environments[owner, record.id] = env
                return await self._made(record, packages, saver, env, request)

            made = await durability.create(record, make)
            return made or await self.wake(owner, record.id, env), made is not None

    async def wake(self, owner: str, id: str, env: Mapping[str, str] | None = None) -> Session:
        """Start a durable sandbox that sleeps, by default with the variables that it had in this process.

        The caller holds its transition.

        Raises:
            SandboxMissing: when there is none with this id and owner.
            SandboxError: when it cannot be woken; it sleeps on.
        """

        durability = await self.state.durability()
        environments = durability.ledger.environments

        async def make(record: SandboxRecord, packages: Sequence[str], saver: Autosaver) -> Session:
            check_policy_holds(record.policy, self.host)
            if env is not None:
                environments[owner, id] = env
            return await self._made(record, packages, saver, environments.get((owner, id), {}))

        return await durability.wake(owner, id, make)

    async def _is_stored(self, owner: str, id: str) -> bool:
        """Whether a durable sandbox of this owner has this id, as far as the state folder is open."""
        opened = self.state.opened
        return opened is not None and await opened.ledger.has(owner, id)

    async def _record(self, owner: str, request: SandboxRequest) -> SandboxRecord:
        """What the sandbox is to be, once every part of the request was checked."""
        settings = self.host.settings
        check_name("owner", owner)
        policy = checked_policy(request.policy or Policy(), settings)
        packages = checked_requirements(request.packages, settings)
        engine = await self.host.registry.choose(AUTO if request.engine is None else request.engine)
        if packages:
            check_allowed(policy, packages)
        now, wanted = self.host.now(), id_of(owner, request.id or str(uuid.uuid4()))
        return SandboxRecord(wanted, engine.name, now, now, owner, request.name, request.python,
                             packages, request.limits or Limits(), policy)  # fmt: skip

    async def _made(
        self,
        record: SandboxRecord,
        packages: Sequence[str],
        saver: Autosaver | None,
        env: Mapping[str, str],
        request: SandboxRequest | None = None,
    ) -> Session:
        registry, tools = self.host.registry, request.tools if request else ()
        engine, installer = await registry.choose(record.engine), registry.installer(record.engine)
        environment = await self.host.environment(installer, record.policy, record.python, packages)
        session = await self.host.admit(record, Plan(engine, installer, environment, dict(env), tools), saver)
        try:
            for path, data in (request.files if request else {}).items():
                await session.workspace.write(path, data)
        except BaseException:
            await self.host.discard(session)
            raise
        return session


def id_of(owner: str, asked: str) -> str:
    """The id of a sandbox. One owner cannot ask for the id of another's, and so cannot learn that it is in use.

    What the library makes for its own program has the id that was asked for: its handles choose at random.
    """
    return asked if owner == LIBRARY else str(uuid.uuid5(uuid.UUID(asked), owner))


def check_policy_holds(policy: Policy, host: Host) -> None:
    """Refuse a stored policy that cannot be kept any more.

    Raises:
        InvalidRequest: when a mounted folder is gone, not allowed any more, or a link to another.
    """
    if checked_policy(policy, host.settings).mounts != policy.mounts:
        raise InvalidRequest("a folder that this sandbox has mounted has become a link to another; put it back")


async def restored(
    starts: Starts, owner: str, checkpoint: bytes, request: SandboxRequest
) -> tuple[Session, CheckpointReport | None]:
    """Start a sandbox in the state of a checkpoint; returns it with the report of what could not be brought back.

    A request that was sent before restores nothing again, and has no report.

    Raises:
        CheckpointRefused: when it was changed, or signed for another owner.
        SandboxError: when the sandbox did not start, or ended on the way.
    """
    from belljar.durable import saving
    from belljar.state.checkpoint import opened

    host = starts.host
    parts = await asyncio.to_thread(opened, checkpoint, host.settings, owner)
    header = parts.header
    wanted = replace(
        request,
        engine=header["engine"] if request.engine is None else request.engine,
        limits=request.limits or Limits(**{name: n for name, n in header["limits"].items() if name in BOUNDS}),
        policy=request.policy or Policy(packages=header["policy"]),
    )
    session, is_new = await starts.create(owner, wanted)
    if not is_new:  # the request was sent before
        return session, None
    try:
        bring = header.get("requirements", []) if request.packages is None else []
        with session.in_use():
            report = await saving.restore(session, parts, bring, host.settings.package_sources)
    except BaseException:
        await asyncio.shield(host.close_session(session))
        raise
    return session, report
