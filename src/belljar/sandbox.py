"""The public handle: AsyncSandbox is the core, Sandbox its thin synchronous face."""

from __future__ import annotations

import asyncio
import copy
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from belljar import compose
from belljar.checks import check_code, check_environment, check_json, check_kind, check_text, check_timeout
from belljar.engines.base import Engine, Event, Spec
from belljar.errors import InvalidRequest, SandboxClosed
from belljar.execution import Completion, Execution, Variable
from belljar.files import AsyncFiles, Files, checked_files
from belljar.host.session import Run, Session
from belljar.host.supply import check_allowed
from belljar.limits import BOUNDS, Limits
from belljar.options import Content, OnEvent, RunOptions, SandboxOptions, StreamOptions
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
        self.name: str | None = check_text("name", name)
        self.durable = bool(durable)
        self.files = AsyncFiles(self)
        self.restored: CheckpointReport | None = None
        self._engine = engine
        self._limits = check_kind("limits", limits, Limits)
        self._policy = check_kind("policy", policy, Policy)
        self._here = compose.local_host()
        self._packages = self._check_packages(packages)
        self._python = check_text("python", python)
        if not isinstance(self._policy.packages, str):
            allowed = self._check_packages(self._policy.packages, "Policy(packages=...)")
            self._policy = replace(self._policy, packages=allowed)
        self._env = check_environment(env)
        self._first_files = checked_files(files)
        self._session: Session | None = None
        self._is_new = True  # nobody has used a sandbox with this id yet
        self._closed = False
        if self._policy.network:
            check_network(self._policy.network)
        if self._policy.mounts:
            self._policy = with_checked_mounts(self._policy, self._here.settings)

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
            packages=self._check_packages(packages),
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
        wanted = self._check_packages(packages)
        if not wanted:
            raise InvalidRequest("name at least one package to install")
        return await self._there(lambda session: session.install(wanted))

    async def complete(self, code: str, cursor: int | None = None) -> list[Completion]:
        """Ways to go on at the cursor, by default the end of the code."""
        check_text("code", code)
        at = len(code) if cursor is None else cursor
        if type(at) is not int or not 0 <= at <= len(code):
            raise InvalidRequest(f"cursor must be from 0 to {len(code)}, not {at!r}")
        return await self._there(lambda session: session.complete(code, at), changes=False)

    async def variables(self) -> list[Variable]:
        """The variables that there are, described without running their code."""
        return await self._there(lambda session: session.variables(), changes=False)

    async def checkpoint(self, name: str | None = None) -> Checkpoint:
        """Save the variables and the files. The Checkpoint says what was saved, and what could not be and why.

        Raises:
            SandboxError: when there is nothing to save, or it could not be.
        """
        from belljar.host import saving
        from belljar.state.keys import own_key

        check_text("name", name)
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

        A durable one goes on from its last checkpoint, on its engine, with its limits and policy. `env` is not kept.

        Raises:
            InvalidRequest: when its policy cannot be had any more: a folder that it mounts is gone, or not allowed now.
            SandboxMissing: when there is none.
            SandboxClosed: when it was closed for good.
            SandboxTaken: when it is live in another process.
        """
        compose.check_host(host)
        here = compose.local_host()
        found = await here.background.cross(here.host.find(check_text("id", id) or "", OWNER))
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
        return await self._here.background.cross(self._hibernate())

    async def fork(self, n: int = 1) -> list[AsyncSandbox]:
        """Sandboxes in the state of this one, which go their own ways from here: same variables, files and limits.

        On native the memory is shared until one of them writes; where that cannot be, it goes through a checkpoint, and
        `restored` tells what is not there.

        Raises:
            InvalidRequest: when n is not from 1 to 32.
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

    def _check_packages(self, given: object, what: str = "packages") -> tuple[str, ...]:
        """Requirements, checked; the module that does so is imported only for those who have any."""
        if given is None or given == () or given == []:
            return ()
        from belljar.packages.requirements import check

        return check(given, what, self._here.settings.package_sources)

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
        session = self._here.host.sessions.get(self.id)
        if session is not None:
            await self._here.host.close_session(session)
        elif self.durable and not self._is_new:
            await self._here.host.close_asleep(self.id, OWNER)

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


class Sandbox:
    """A sandbox for code that does not await: the same acts, each of which blocks until it is done."""

    def __init__(self, engine: str = "auto", **options: Unpack[SandboxOptions]) -> None:
        self._core = AsyncSandbox(engine, **options)
        self.files = Files(self._core.files, self._wait)
        try:
            self._wait(self._core._started())
        except BaseException:  # a Ctrl-C may come when it is up already
            self.close()
            raise

    @property
    def id(self) -> str:
        """Its UUID."""
        return self._core.id

    @property
    def name(self) -> str | None:
        """The name it was given."""
        return self._core.name

    @property
    def engine(self) -> str:
        """The engine that it runs on."""
        return self._core.engine

    def run(self, code: str, **options: Unpack[RunOptions]) -> Execution:
        """See AsyncSandbox.run."""
        return self._wait(self._core.run(code, **options))

    def stream(self, code: str, **options: Unpack[StreamOptions]) -> Iterator[Event | Execution]:
        """See AsyncSandbox.stream."""
        events = self._core.stream(code, **options)
        try:
            while (item := self._wait(_next(events))) is not None:
                yield item
        finally:
            if self._core._here.background.reachable:
                self._wait(events.aclose())

    def interrupt(self) -> None:
        """See AsyncSandbox.interrupt."""
        self._wait(self._core.interrupt())

    def reset(self) -> None:
        """See AsyncSandbox.reset."""
        self._wait(self._core.reset())

    def install(self, *packages: str) -> list[str]:
        """See AsyncSandbox.install."""
        return self._wait(self._core.install(*packages))

    def complete(self, code: str, cursor: int | None = None) -> list[Completion]:
        """See AsyncSandbox.complete."""
        return self._wait(self._core.complete(code, cursor))

    def variables(self) -> list[Variable]:
        """See AsyncSandbox.variables."""
        return self._wait(self._core.variables())

    @property
    def restored(self) -> CheckpointReport | None:
        """What became of the checkpoint that it was restored from."""
        return self._core.restored

    def checkpoint(self, name: str | None = None) -> Checkpoint:
        """See AsyncSandbox.checkpoint."""
        return self._wait(self._core.checkpoint(name))

    @classmethod
    def restore(
        cls, checkpoint: Checkpoint | bytes, *, engine: str | None = None, **options: Unpack[SandboxOptions]
    ) -> Sandbox:
        """See AsyncSandbox.restore."""
        opened = open_checkpoint(checkpoint, compose.local_host().settings)
        sandbox = cls(engine or opened.header["engine"], **restored_options(opened, options))
        try:
            sandbox._wait(sandbox._core._restore(opened, bring="packages" not in options))
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    @classmethod
    def connect(cls, id: str, *, host: str | None = None, env: Mapping[str, str] | None = None) -> Sandbox:
        """See AsyncSandbox.connect."""
        sandbox = cls._around(compose.local_host().background.wait(AsyncSandbox.connect(id, host=host, env=env)))
        sandbox._wait(sandbox._core._started())
        return sandbox

    def fork(self, n: int = 1) -> list[Sandbox]:
        """See AsyncSandbox.fork."""
        return [Sandbox._around(core) for core in self._wait(self._core.fork(n))]

    @classmethod
    def _around(cls, core: AsyncSandbox) -> Sandbox:
        sandbox = cls.__new__(cls)
        sandbox._core = core
        sandbox.files = Files(core.files, sandbox._wait)
        return sandbox

    def hibernate(self) -> bool:
        """See AsyncSandbox.hibernate."""
        return self._wait(self._core.hibernate())

    def close(self) -> None:
        """See AsyncSandbox.close."""
        if self._core._here.background.reachable:
            self._wait(self._core.close())

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._core._here.background.reachable:
            self._wait(self._core.__aexit__())

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._core._here.background.wait(coroutine)


def check_network(network: Sequence[str]) -> None:
    """Refuse an entry that has no clear meaning; the module that says so is imported only for those who have any."""
    from belljar.egress.rules import Rules

    Rules.parse(network)


def with_checked_mounts(policy: Policy, settings: Settings) -> Policy:
    """The policy with folders that may be mounted; the module that says so is imported only for those who have any."""
    from belljar.mounts import checked_mounts

    return replace(policy, mounts=checked_mounts(policy.mounts, settings))


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


async def _next(events: AsyncGenerator[T, None]) -> T | None:
    """The next of them, or None after the last."""
    return await anext(events, None)
