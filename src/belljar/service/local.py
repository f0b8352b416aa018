"""The local service: sandboxes that live on a host of this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from belljar.durable.transitions import Transitions
from belljar.entry import Listing
from belljar.errors import InvalidRequest, SandboxMissing
from belljar.events import Event
from belljar.execution import Execution
from belljar.host import inquiries
from belljar.host.host import Host
from belljar.host.session import Session
from belljar.service.base import (
    MOST_LISTED,
    Completions,
    Healths,
    Infos,
    Names,
    Reply,
    RunRequest,
    SandboxInfo,
    SandboxRequest,
    Variables,
)
from belljar.service.starts import Starts, check_policy_holds, restored
from belljar.service.state_folder import StateFolder
from belljar.store.base import SandboxRecord
from belljar.validation import check_cursor, check_environment, checked_requirements, plain_path

if TYPE_CHECKING:  # few hosts have durable sandboxes: the others do not wait for these imports
    from belljar.durable.durability import Durability
    from belljar.durable.ledger import Ledger
    from belljar.state.checkpoint import Checkpoint

MAX_ENTRIES = 10_000


class LocalService:
    """Serves the contract of `service.base` over one host.

    Every act on a sandbox finds it in `_session` or `_live`, by owner and id.
    """

    def __init__(self, host: Host, ledger: Callable[[], Ledger], has_store: Callable[[], bool]) -> None:
        self.host = host
        self._transitions = Transitions()
        self._state = StateFolder(host, self._transitions, ledger, has_store)
        self._starts = Starts(host, self._transitions, self._state)

    async def create(self, owner: str, request: SandboxRequest) -> SandboxInfo:
        """Start a sandbox."""
        session, _ = await self._starts.create(owner, request)
        return _info(session)

    async def get(self, owner: str, id: str, env: Mapping[str, str] | None = None) -> SandboxInfo:
        """Look a sandbox up, without waking it."""
        async with self._transitions.of(owner, id):  # one that is just waking is live in a moment
            session = self.host.session(owner, id)
        if session is not None:
            found = _info(session)
        else:
            self.host.check_not_closed(owner, id)
            record = await (await self._state.stored()).ledger.find(owner, id)
            check_policy_holds(record.policy, self.host)
            found = _described(record)
        if (given := check_environment(env)) and found.durable:
            (await self.durability()).ledger.environments[owner, id] = given
        return found

    async def list(self, owner: str, after: str | None = None, limit: int = MOST_LISTED) -> Infos:
        """The sandboxes of an owner that are not closed, by id."""
        found = {}
        with contextlib.suppress(SandboxMissing):
            records = await (await self._state.stored()).ledger.of_owner(owner)
            found = {record.id: _described(record) for record in records}
        found |= {session.id: _info(session) for session in self.host.sessions(owner)}
        rest = [found[each] for each in sorted(found) if after is None or each > after]
        return rest[: max(0, min(limit, MOST_LISTED))]

    async def close(self, owner: str, id: str) -> None:
        """End a sandbox for good."""
        session = self.host.session(owner, id)
        if session is None:
            async with self._transitions.of(owner, id):  # it may be starting, and is live then
                session = self.host.session(owner, id)
                if session is None and (self._state.opened or not self.host.was_closed(owner, id)):
                    with contextlib.suppress(SandboxMissing):
                        await (await self._state.stored()).ledger.close_asleep(owner, id)
        if session is not None:
            await self.host.close_session(session)

    async def wake(self, owner: str, id: str) -> SandboxInfo:
        """Have a sandbox live."""
        with (await self._session(owner, id)).in_use(changes=False) as session:
            return _info(session)

    async def hibernate(self, owner: str, id: str) -> bool:
        """Save a durable sandbox and free its memory. False while it is in use."""
        session = await self._live(owner, id)
        if session is None:
            return True
        if not session.guardian.is_durable:
            raise InvalidRequest("only a sandbox with durable=True can hibernate")
        durability = await self.durability()
        return await durability.expiry.hibernate(session, "it was put to sleep, as asked")

    async def run(self, owner: str, id: str, request: RunRequest) -> AsyncGenerator[Event | Execution, None]:
        """Run code when its turn comes; the last item is the Execution."""
        if request.packages:
            request = replace(request, packages=checked_requirements(request.packages, self.host.settings))
        with (await self._session(owner, id)).in_use() as session:
            if not request.live:
                yield await session.run(request)
                return
            feed: asyncio.Queue[Event | None] = asyncio.Queue()
            running = asyncio.get_running_loop().create_task(session.run(request, feed.put_nowait))
            running.add_done_callback(lambda _: feed.put_nowait(None))
            try:
                while (event := await feed.get()) is not None:
                    yield event
                yield await running
            finally:
                if not running.done():
                    running.cancel()
                    await asyncio.wait((running,))
                if not running.cancelled():
                    running.exception()  # its caller may have left before it heard of it

    async def answer_call(self, owner: str, id: str, reply: Reply) -> None:
        """Answer a `call` event of the run that is on."""
        if (session := await self._live(owner, id)) is not None:
            session.answer_call(reply)

    async def interrupt(self, owner: str, id: str) -> None:
        """Stop the code that runs now, if any."""
        if (session := await self._live(owner, id)) is not None:
            await session.interrupt()

    async def reset(self, owner: str, id: str) -> None:
        """Forget all variables; files stay."""
        with (await self._session(owner, id)).in_use() as session:
            await session.reset()

    async def install(self, owner: str, id: str, packages: tuple[str, ...]) -> Names:
        """Add packages and keep everything else."""
        wanted = checked_requirements(packages, self.host.settings)
        with (await self._session(owner, id)).in_use() as session:
            return await session.install(wanted)

    async def complete(self, owner: str, id: str, code: str, cursor: int) -> Completions:
        """Completions at the cursor."""
        check_cursor(code, cursor)
        with (await self._session(owner, id)).in_use(changes=False) as session:
            return await inquiries.complete(session, code, cursor)

    async def variables(self, owner: str, id: str) -> Variables:
        """The variables that there are."""
        with (await self._session(owner, id)).in_use(changes=False) as session:
            return await inquiries.variables(session)

    async def write_file(self, owner: str, id: str, path: str, pieces: bytes | AsyncIterator[bytes]) -> None:
        """Create or replace a file, with its parents."""
        with (await self._session(owner, id)).in_use() as session:
            await session.workspace.write(plain_path(path), pieces)

    async def read_file(
        self, owner: str, id: str, path: str, max_bytes: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The content of a regular file, in pieces."""
        with (await self._session(owner, id)).in_use(changes=False) as session:
            largest = session.spec.limits.disk_mb << 20 if max_bytes is None else max_bytes
            async for piece in session.workspace.read(plain_path(path), largest):
                yield piece

    async def list_files(self, owner: str, id: str, path: str = "") -> Listing:
        """Everything beneath a folder."""
        with (await self._session(owner, id)).in_use(changes=False) as session:
            return await session.workspace.list(plain_path(path) if path else path, MAX_ENTRIES)

    async def delete_file(self, owner: str, id: str, path: str) -> None:
        """Remove a file, a link, or a folder with all it has."""
        with (await self._session(owner, id)).in_use() as session:
            await session.workspace.delete(plain_path(path))

    async def checkpoint(self, owner: str, id: str, name: str | None = None) -> Checkpoint:
        """Save the variables and the files, signed for this owner."""
        from belljar.durable import saving
        from belljar.state.keys import own_key

        with (await self._session(owner, id)).in_use(changes=False) as session:
            key = await asyncio.to_thread(own_key, self.host.settings.state_dir)
            return await saving.checkpoint(session, key, name, owner)

    async def restore(self, owner: str, checkpoint: bytes, request: SandboxRequest) -> SandboxInfo:
        """Start a sandbox in the state of a checkpoint of this owner."""
        session, report = await restored(self._starts, owner, checkpoint, request)
        return replace(_info(session), restored=report)

    async def fork(self, owner: str, id: str, count: int) -> Infos:
        """Start sandboxes in the state of a live one, all or none."""
        from belljar.durable import forks
        from belljar.state.keys import own_key

        if type(count) is not int or not 1 <= count <= forks.MOST:
            raise InvalidRequest(f"n must be a whole number from 1 to {forks.MOST}, not {count!r}")
        with (await self._session(owner, id)).in_use(changes=False) as session:
            made = await forks.fork(self.host, session, count, partial(own_key, self.host.settings.state_dir))
        return [replace(_info(each), restored=report) for each, report in made]

    async def health(self, owner: str) -> Healths:
        """What every engine can do here, which is equal for all owners."""
        del owner
        return await self.host.health()

    async def durability(self) -> Durability:
        """What durable sandboxes need; opened when it is first asked for.

        Raises:
            SandboxError: as StateFolder.durability() does.
        """
        return await self._state.durability()

    async def close_all(self) -> None:
        """End every sandbox of this service; what is durable sleeps."""
        try:
            await self._state.stop()
        finally:
            try:
                await self.host.close()
            finally:
                await self._state.close()

    def forget(self) -> None:
        """In a forked child: let go of what is the parent's."""
        self._state.forget()

    async def _session(self, owner: str, id: str) -> Session:
        """The live session of this owner's sandbox, woken when it sleeps. The caller marks it as in use at once.

        Raises:
            SandboxMissing: when this owner has no such sandbox.
            SandboxClosed: when it was closed.
        """
        session = None if self._transitions.is_on(owner, id) else self.host.session(owner, id)
        if session is None:
            async with self._transitions.of(owner, id):
                session = self.host.session(owner, id)
                if session is None:
                    self.host.check_not_closed(owner, id)
                    await self._state.stored()
                    session = await self._starts.wake(owner, id)
        return session

    async def _live(self, owner: str, id: str) -> Session | None:
        """The live session of this owner's sandbox, for acts that wake nothing; None when it sleeps.

        Raises:
            SandboxMissing: when this owner has no such sandbox.
            SandboxClosed: when it was closed.
        """
        session = self.host.session(owner, id)
        if session is None:
            await self.get(owner, id)  # which waits for one that is just waking
        return session or self.host.session(owner, id)


def _info(session: Session) -> SandboxInfo:
    return replace(
        _described(session.record), state="live", durable=session.guardian.is_durable, last_used=session.last_used
    )


def _described(record: SandboxRecord) -> SandboxInfo:
    return SandboxInfo(
        record.id,
        record.engine,
        "live" if record.host is not None else "asleep",
        True,
        record.created,
        record.last_used,
        record.name,
        record.python,
        record.limits,
        record.policy,
    )
