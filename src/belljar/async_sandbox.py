"""AsyncSandbox: a handle of one sandbox, and all that can be done with it."""

from __future__ import annotations

import asyncio
import copy
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from belljar import compose
from belljar.checks import check_code, check_environment, check_json, check_kind, check_name, check_text, check_timeout
from belljar.engines.base import Engine, Event, Spec
from belljar.errors import InvalidRequest, SandboxClosed
from belljar.execution import Completion, Execution, Variable
from belljar.files import AsyncFiles, checked_files
from belljar.grants import checked_policy, checked_requirements
from belljar.host import inquiries
from belljar.host.session import Run, Session
from belljar.host.supply import check_allowed
from belljar.limits import BOUNDS, Limits
from belljar.options import Content, OnEvent, SandboxOptions, StreamOptions
from belljar.policy import Policy
from belljar.settings import Settings

if TYPE_CHECKING:  # few sandboxes are saved: the rest need not wait for it
    from belljar.state.checkpoint import Checkpoint, CheckpointReport
    from belljar.state.envelope import Opened

OWNER = ""  # in a library everything belongs to the same; a server will say to whom

T = TypeVar("T")


class AsyncSandbox:
    """One isolated Python: an interpreter with state and a workspace, behind a wall.

    Use it as an async context manager, or close it yourself. It starts at its first use.
    """

    def __init__(
        self,
        engine: str = "auto",
        *,
        packages: Sequence[str] = (),
        files: Mapping[str, Content] | None = None,
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        policy: Policy | None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        python: str | None = None,
        durable: bool = False,
        host: str | None = None,
        name: str | None = None,
    ) -> None:
        compose.check_host(host)
        if tools:
            raise InvalidRequest("tools=... is not part of this version; leave it out")
        self.id = str(uuid.uuid4())
        self.name: str | None = check_name("name", name)
        self.durable = bool(durable)
        self.files = AsyncFiles(self)
        self.restored: CheckpointReport | None = None
        self._engine = engine
        self._limits = check_kind("limits", limits, Limits)
        self._here = compose.local_host()
        self._policy = checked_policy(check_kind("policy", policy, Policy), self._here.settings)
        self._packages = checked_requirements(packages, self._here.settings)
        self._python = check_text("python", python)
        self._env = check_environment(env)
        self._first_files = checked_files(files)
        self._session: Session | None = None
        self._is_new = True  # nobody has used a sandbox with this id yet
        self._closed = False

    @property
    def engine(self) -> str:
        """The engine that it runs on; what was asked for until it has started."""
        return self._session.engine_name if self._session else self._engine

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        args: Any = None,
        files: Mapping[str, Content] | None = None,
        packages: Sequence[str] | None = None,
        cwd: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Execution:
        """Run code like a notebook cell and tell what it did.

        Raises:
            InvalidRequest: when an argument cannot be meant; nothing has run then.
            SandboxError: when Belljar failed. What the code did is in the Execution.
        """
        run = Run(
            code=check_code(code),
            timeout_s=check_timeout(timeout, self._limits.timeout_s),
            stdin=check_text("stdin", stdin),
            env=check_environment(env),
            args=() if args is None else (check_json("args", args),),
            files=checked_files(files),
            packages=checked_requirements(packages, self._here.settings),
            cwd=check_text("cwd", cwd),
        )
        return await self._there(lambda session: session.accept(run, on_event))

    async def stream(self, code: str, **options: Unpack[StreamOptions]) -> AsyncGenerator[Event | Execution, None]:
        """Run code and iterate its events as they happen; the last item is the Execution. Leaving early stops it."""
        background = self._here.background
        feed: asyncio.Queue[Event | Execution | Exception] = asyncio.Queue()  # lives on the background loop

        async def run_to_end() -> None:
            try:
                feed.put_nowait(await self.run(code, on_event=feed.put_nowait, **options))
            except Exception as failure:
                feed.put_nowait(failure)

        running = background.start(run_to_end())
        try:
            while True:
                item = await background.cross(feed.get())
                if isinstance(item, Exception):
                    raise item
                yield item
                if isinstance(item, Execution):
                    return
        finally:
            running.cancel()

    async def interrupt(self) -> None:
        """Stop the code that runs now; its Execution says `cancelled`, and variables are kept if it obeys."""
        await self._there(lambda session: session.interrupt(), changes=False)

    async def reset(self) -> None:
        """Forget all variables; files stay."""
        await self._there(lambda session: session.reset())

    async def install(self, *packages: str) -> list[str]:
        """Add packages and keep everything else; `name==version` of what was asked for and of what came along.

        Raises:
            InvalidRequest: for what does not name a package.
            PackageError: with the reason; the sandbox is as it was.
        """
        wanted = checked_requirements(packages, self._here.settings)
        if not wanted:
            raise InvalidRequest("name at least one package to install")
        return await self._there(lambda session: session.install(wanted))

    async def complete(self, code: str, cursor: int | None = None) -> list[Completion]:
        """Ways to go on at the cursor, by default the end of the code."""
        check_text("code", code)
        at = len(code) if cursor is None else cursor
        if type(at) is not int or not 0 <= at <= len(code):
            raise InvalidRequest(f"cursor must be from 0 to {len(code)}, not {at!r}")
        return await self._there(lambda session: inquiries.complete(session, code, at), changes=False)

    async def variables(self) -> list[Variable]:
        """The variables that there are, described without running their code."""
        return await self._there(inquiries.variables, changes=False)

    async def checkpoint(self, name: str | None = None) -> Checkpoint:
        """Save the variables and the files. The Checkpoint says what was saved, and what could not be and why.

        Raises:
            SandboxError: when there is nothing to save, or it could not be.
        """
        from belljar.host import saving
        from belljar.state.keys import own_key

        check_name("name", name)
        key = own_key(self._here.settings.state_dir)
        return await self._there(lambda session: saving.checkpoint(session, key, name, OWNER), changes=False)

    @classmethod
    async def restore(
        cls, checkpoint: Checkpoint | bytes, *, engine: str | None = None, **options: Unpack[SandboxOptions]
    ) -> AsyncSandbox:
        """A new sandbox with the state of a checkpoint: its engine, limits and packages unless told otherwise.

        Its variables and files are there before the sandbox's first run; `restored` tells what is not.

        Raises:
            CheckpointRefused: when it was changed, or made by or for somebody else.
            SandboxError: when the sandbox cannot be started, or ended on the way.
        """
        here = compose.local_host()
        opened = await here.background.cross(asyncio.to_thread(open_checkpoint, checkpoint, here.settings))
        sandbox = cls(engine or opened.header["engine"], **restored_options(opened, options))
        try:
            await sandbox._restore(opened, bring="packages" not in options)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    @classmethod
    async def connect(cls, id: str, *, host: str | None = None, env: Mapping[str, str] | None = None) -> AsyncSandbox:
        """The sandbox of this id: one that lives in this process, or a durable one, wherever it lived before.

        A durable one goes on from its last checkpoint, on its engine, with its limits and policy. `env` is not kept,
        and is for one that has to be woken: one that lives in this process goes on with what it has.

        Raises:
            InvalidRequest: when its policy cannot be had any more: a folder that it mounts is gone, or not allowed now.
            SandboxMissing: when there is none.
            SandboxClosed: when it was closed for good.
            SandboxTaken: when it is live in another process.
        """
        compose.check_host(host)
        here = compose.local_host()
        found = await here.background.cross(here.host.find(check_name("id", id) or "", OWNER))
        options: SandboxOptions = {"limits": found.limits, "policy": found.policy, "python": found.python, "env": env,
                                   "durable": found.created > 0, "name": found.name}  # fmt: skip
        sandbox = cls(found.engine, **options)
        if sandbox._policy.mounts != found.policy.mounts:
            raise InvalidRequest("a folder that this sandbox has mounted has become a link to another; put it back")
        sandbox.id, sandbox._is_new = found.id, False
        return sandbox

    async def hibernate(self) -> bool:
        """Save a durable sandbox and free its memory; its next use wakes it. False while it is in use.

        Raises:
            SandboxError: when it could not be saved; it stays as it is.
        """
        if not self.durable:
            raise InvalidRequest("only a sandbox with durable=True can hibernate")
        if self._closed:
            raise SandboxClosed("this sandbox was closed; make a new one")
        return await self._here.background.cross(self._hibernate())

    async def fork(self, n: int = 1) -> list[AsyncSandbox]:
        """Sandboxes in the state of this one, which go their own ways from here: same variables, files and limits.

        On native the memory is shared until one of them writes; where that cannot be, it goes through a checkpoint, and
        `restored` tells what is not there.

        Raises:
            InvalidRequest: when n is not from 1 to 32, or more than the host ever has room for.
            SandboxError: when there is no state, or not all of them could be made; there is none then.
        """
        from belljar.host import forks
        from belljar.state.keys import own_key

        if type(n) is not int or not 1 <= n <= forks.MOST:
            raise InvalidRequest(f"n must be a whole number from 1 to {forks.MOST}, not {n!r}")
        host, key = self._here.host, partial(own_key, self._here.settings.state_dir)
        made: list[forks.Forked] = []
        wanted = True

        async def act(session: Session) -> None:
            made.extend(await forks.fork(host, session, n, key, OWNER))
            if not wanted:
                await forks.close(host, made)

        try:
            await self._there(act, changes=False)
        except BaseException:  # a cancellation may come when they are up already
            wanted = False
            if made and self._here.background.reachable:
                self._here.background.start(forks.close(host, made))
            raise
        return [self._sibling(session, report) for session, report in made]

    def _sibling(self, session: Session, report: CheckpointReport | None) -> AsyncSandbox:
        """The handle of a fork: all was checked for this one. It is not durable, whatever this one is."""
        handle = copy.copy(self)
        handle.id, handle.name, handle.durable, handle._is_new = session.spec.id, None, False, False
        handle._session, handle.restored, handle._closed = session, report, False
        handle.files = AsyncFiles(handle)
        return handle

    async def close(self) -> None:
        """End the sandbox and everything in it, also what is kept of a durable one. Idempotent."""
        self._closed = True
        if self._here.background.reachable:
            await self._here.background.cross(self._close())

    async def start(self) -> AsyncSandbox:
        """Start it now rather than at its first use.

        Raises:
            SandboxError: when it cannot be.
        """
        await self._here.background.cross(self._started())
        return self

    async def __aenter__(self) -> AsyncSandbox:
        try:
            return await self.start()
        except BaseException:  # there will be no __aexit__, and a cancellation may come when it is up already
            self._closed = True
            if self._here.background.reachable:
                self._here.background.start(self._close_started())
            raise

    async def __aexit__(self, *ended: object) -> None:
        """A durable one sleeps from now on; any other is closed."""
        await (self.hibernate() if self.durable and not self._closed else self.close())

    async def _there(self, act: Callable[[Session], Coroutine[Any, Any, T]], *, changes: bool = True) -> T:
        """Do it on the background loop; what a durable sandbox has is saved after it, unless it changes nothing."""
        return await self._here.background.cross(self._act(act, changes))

    async def _act(self, act: Callable[[Session], Coroutine[Any, Any, T]], changes: bool) -> T:
        session = await self._started()
        session.users += 1  # from here to the end it does not fall asleep
        try:
            return await act(session)
        finally:
            session.users -= 1
            if session.life is not None:
                session.life.used(changes)
                self._here.host.expiry.make_room()

    async def _started(self) -> Session:
        """The live session; made on the background loop, once, and again after it slept."""
        host = self._here.host
        async with host.start_of(self.id):
            if self._closed:
                raise SandboxClosed("this sandbox was closed; make a new one")
            if self._session is None or self._session.is_asleep:
                self._session = host.sessions.get(self.id) or await self._start()
                self._is_new = False
            return self._session

    async def _restore(self, opened: Opened, bring: bool) -> None:
        """Load the state; `bring` what the saved sandbox had installed, as far as it can be had here."""
        from belljar.host import saving

        wanted, sources = opened.header.get("requirements", []) if bring else [], self._here.settings.package_sources
        self.restored = await self._there(lambda session: saving.restore(session, opened, wanted, sources))

    async def _close_started(self) -> None:
        async with self._here.host.start_of(self.id):
            session = self._session
        if session is not None and self.durable:
            await self._here.host.expiry.hibernate(session, "whoever wanted to use it left")
        elif session is not None:
            await self._here.host.close_session(session)

    async def _hibernate(self) -> bool:
        session = self._here.host.sessions.get(self.id)
        return session is None or await self._here.host.expiry.hibernate(session, "it was put to sleep, as asked")

    async def _close(self) -> None:
        host = self._here.host
        session = host.sessions.get(self.id)
        if session is not None:
            await host.close_session(session)
        if self.durable and not self._is_new and (session is None or session.life is None):
            async with host.start_of(self.id):  # it may have been waking, and sleeps again then
                await host.close_asleep(self.id, OWNER)

    async def _start(self) -> Session:
        engine = await self._here.host.registry.choose(self._engine)
        if self._packages:
            check_allowed(self._policy, self._packages)
        if not self.durable:
            return await self._make(engine, self._packages)
        from belljar.store.base import SandboxRecord

        now = time.time()
        record = SandboxRecord(self.id, engine.name, now, now, OWNER, self.name, self._python, self._packages,
                               self._limits, self._policy)  # fmt: skip
        durability = await self._here.host.durability()
        return await durability.start(record, self._is_new, lambda packages: self._make(engine, packages))

    async def _make(self, engine: Engine, packages: Sequence[str]) -> Session:
        environment = await self._here.environment(engine, self._policy, self._python, packages)
        spec = Spec(self.id, environment, self._limits, self._policy, self._env)
        session = await self._here.host.admit(engine.name, spec)
        try:
            if self._is_new:
                for path, data in self._first_files.items():
                    await session.process.workspace.write(path, data)
            if self._closed:
                raise SandboxClosed("this sandbox was closed while it started")
        except BaseException:
            await self._here.host.let_go(session)
            raise
        return session


def open_checkpoint(checkpoint: Checkpoint | bytes, settings: Settings) -> Opened:
    """The parts of a checkpoint, once its signature was checked."""
    from belljar.state.checkpoint import Checkpoint, opened

    return checkpoint.opened(settings) if isinstance(checkpoint, Checkpoint) else opened(checkpoint, settings, OWNER)


def restored_options(opened: Opened, options: SandboxOptions) -> SandboxOptions:
    """The options of a sandbox that is restored: limits and allowed packages as they were. The rest is granted anew."""
    defaults: SandboxOptions = {
        "limits": Limits(**{name: value for name, value in opened.header["limits"].items() if name in BOUNDS}),
        "policy": Policy(packages=opened.header["policy"]),
    }
    return {**defaults, **options}
