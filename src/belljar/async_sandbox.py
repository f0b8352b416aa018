"""AsyncSandbox: a handle of one sandbox. It validates what it is given, calls the service, and returns its answer."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from belljar import compose, validation
from belljar.background import BackgroundLoop
from belljar.errors import InvalidRequest, SandboxClosed, SandboxError
from belljar.events import Event
from belljar.execution import Completion, Execution, Variable
from belljar.files import AsyncFiles
from belljar.limits import Limits
from belljar.options import OnEvent, SandboxOptions, StreamOptions, bytes_of, notify, run_request
from belljar.policy import Policy
from belljar.service.base import LIBRARY, RunRequest, SandboxInfo, SandboxRequest
from belljar.validation import Content

if TYPE_CHECKING:  # few sandboxes are saved: the others do not wait for this import
    from belljar.state.checkpoint import Checkpoint, CheckpointReport

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
        here = compose.local_host()
        request = SandboxRequest(
            id=str(uuid.uuid4()),
            engine=engine,
            limits=validation.check_kind("limits", limits, Limits),
            policy=validation.checked_policy(validation.check_kind("policy", policy, Policy), here.settings),
            packages=validation.checked_requirements(packages, here.settings),
            python=python,
            env={} if env is None else env,
            files=validation.checked_files(files),
            durable=durable,
            name=name,
        )
        self._set_up(here, request, None)

    def _set_up(self, here: compose.LocalHost, request: SandboxRequest, info: SandboxInfo | None) -> None:
        self._here = here
        self._background = here.background
        self._service = here.service
        self.files = AsyncFiles(self._service, self._there)
        self._request = request
        self._info = info  # of the sandbox, once it has started
        self._starting = asyncio.Lock()
        self._closed = False

    @property
    def id(self) -> str:
        """Its UUID."""
        return self._info.id if self._info is not None else str(self._request.id)

    @property
    def name(self) -> str | None:
        """The name it was given."""
        return self._info.name if self._info is not None else self._request.name

    @property
    def engine(self) -> str:
        """The engine that it runs on; until it has started, what was asked for."""
        return self._info.engine if self._info is not None else str(self._request.engine)

    @property
    def durable(self) -> bool:
        """Whether it outlives this process."""
        return self._info.durable if self._info is not None else self._request.durable

    @property
    def reachable(self) -> bool:
        """Whether its host still runs, in this very process."""
        return self._background.reachable

    @property
    def background(self) -> BackgroundLoop:
        """The loop that its host runs on, for a caller that does not await."""
        return self._background

    @property
    def restored(self) -> CheckpointReport | None:
        """What became of the checkpoint that it was restored from."""
        return self._info.restored if self._info is not None else None

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
        """Run code like a notebook cell and return what it did. `on_event` gets events while it runs.

        Raises:
            InvalidRequest: when an argument is invalid; no code has run then.
            SandboxError: when Belljar failed. What the code did is in the Execution.
        """
        request = run_request(
            self._here.settings, code, live=on_event is not None,
            timeout=timeout, stdin=stdin, env=env, args=args, files=files, packages=packages, cwd=cwd,
        )  # fmt: skip
        return await self._background.cross(self._run(request, on_event))

    async def stream(self, code: str, **options: Unpack[StreamOptions]) -> AsyncGenerator[Event | Execution, None]:
        """Run code and iterate its events as they happen; the last item is the Execution. Leaving early stops it."""
        request = run_request(self._here.settings, code, live=True, **options)
        items = self._service.run(LIBRARY, await self._background.cross(self._started()), request)
        try:
            while (item := await self._background.cross(anext(items, None))) is not None:
                yield item
        finally:
            if self._background.reachable:
                self._background.start(_leave(items))

    async def interrupt(self) -> None:
        """Stop the code that runs now; its Execution says `cancelled`, and variables are kept if it obeys."""
        await self._there(self._service.interrupt)

    async def reset(self) -> None:
        """Forget all variables; files stay."""
        await self._there(self._service.reset)

    async def install(self, *packages: str) -> list[str]:
        """Add packages and keep everything else; `name==version` of what was asked for and of what it needs.

        Raises:
            InvalidRequest: for what does not name a package.
            PackageError: with the reason; the sandbox is as it was.
        """
        wanted = validation.checked_requirements(packages, self._here.settings)
        if not wanted:
            raise InvalidRequest("name at least one package to install")
        return await self._there(self._service.install, wanted)

    async def complete(self, code: str, cursor: int | None = None) -> list[Completion]:
        """Completions at the cursor, by default the end of the code."""
        at = len(code) if cursor is None and isinstance(code, str) else cursor
        validation.check_cursor(code, at)
        return await self._there(self._service.complete, code, at)

    async def variables(self) -> list[Variable]:
        """The variables that there are, described without running their code."""
        return await self._there(self._service.variables)

    async def checkpoint(self, name: str | None = None) -> Checkpoint:
        """Save the variables and the files. The Checkpoint says what was saved, and what could not be and why.

        Raises:
            SandboxError: when there is nothing to save, or it could not be saved.
        """
        return await self._there(self._service.checkpoint, validation.check_name("name", name))

    @classmethod
    async def restore(
        cls, checkpoint: Checkpoint | bytes, *, engine: str | None = None, **options: Unpack[SandboxOptions]
    ) -> AsyncSandbox:
        """A new sandbox with the state of a checkpoint: its engine, limits and packages unless you give others.

        Its variables and files are there before the sandbox's first run; `restored` says what is not.

        Raises:
            CheckpointRefused: when it was changed, or made by or for another installation.
            SandboxError: when the sandbox cannot be started, or ended on the way.
        """
        return await cls.to_restore(engine, options).restored_from(checkpoint)

    @classmethod
    def to_restore(cls, engine: str | None, options: SandboxOptions) -> AsyncSandbox:
        """The handle of a sandbox that `restored_from` is to start. What is not given comes from the checkpoint."""
        handle = cls(engine or "auto", **options)
        given = handle._request
        handle._request = replace(
            given,
            engine=engine,
            packages=given.packages if "packages" in options else None,
            limits=given.limits if options.get("limits") is not None else None,
            policy=given.policy if options.get("policy") is not None else None,
        )
        return handle

    async def restored_from(self, checkpoint: Checkpoint | bytes) -> AsyncSandbox:
        """Start it in the state of a checkpoint."""
        try:
            await self._background.cross(self._restore(bytes_of(checkpoint)))
        except BaseException:  # a cancellation may come when it is up already
            self.discard()
            raise
        return self

    def discard(self) -> None:
        """Close it in the background, for a caller that was interrupted and never gets it."""
        self._closed = True
        if self._background.reachable:
            self._background.start(self._close())

    @classmethod
    async def connect(cls, id: str, *, host: str | None = None, env: Mapping[str, str] | None = None) -> AsyncSandbox:
        """The sandbox of this id: one that lives in this process, or a durable one, wherever it lived before.

        A durable one continues from its last checkpoint, on its engine, with its limits and policy. `env` is not kept,
        and is for one that has to be woken: one that lives in this process continues with the `env` that it has.

        Raises:
            InvalidRequest: when its policy cannot be had any more: a folder that it mounts is gone, or not allowed now.
            SandboxMissing: when there is none.
            SandboxClosed: when it was closed for good.
            SandboxTaken: when it is live in another process.
        """
        compose.check_host(host)
        here, given = compose.local_host(), validation.check_environment(env)
        name = validation.check_name("id", id) or ""
        return cls._around(here, await here.background.cross(here.service.get(LIBRARY, name, given)))

    async def hibernate(self) -> bool:
        """Save a durable sandbox and free its memory; its next use wakes it. False while it is in use.

        Raises:
            SandboxError: when it could not be saved; it stays as it is.
        """
        if not self.durable:
            raise InvalidRequest("only a sandbox with durable=True can hibernate")
        self._check_open()
        return await self._background.cross(self._hibernate())

    async def fork(self, n: int = 1) -> list[AsyncSandbox]:
        """Start sandboxes in the state of this one: equal variables, files and limits. They do not affect each other.

        On native the memory is shared until one of them writes; where that cannot be, it is done through a checkpoint,
        and `restored` says what is not there.

        Raises:
            InvalidRequest: when n is not from 1 to 32, or more than the host ever has room for.
            SandboxError: when there is no state, or not all of them could be made; there is none then.
        """
        infos: list[SandboxInfo] = []
        wanted = True

        async def fork() -> None:
            infos.extend(await self._service.fork(LIBRARY, await self._started(), n))
            if not wanted:
                await self._close_all(infos)

        try:
            await self._background.cross(fork())
        except BaseException:  # a cancellation may come when they are up already
            wanted = False
            if infos and self._background.reachable:
                self._background.start(self._close_all(infos))
            raise
        return [self._around(self._here, info, self._request) for info in infos]

    async def close(self) -> None:
        """End the sandbox and everything in it, also what is kept of a durable one. Idempotent."""
        self._closed = True
        if self._background.reachable:
            await self._background.cross(self._close())

    async def start(self) -> AsyncSandbox:
        """Start it now rather than at its first use, or wake it.

        Raises:
            SandboxError: when it cannot be started.
        """
        await self._background.cross(self._start())
        return self

    async def __aenter__(self) -> AsyncSandbox:
        try:
            return await self.start()
        except BaseException:  # there will be no __aexit__, and a cancellation may come when it is up already
            if self._background.reachable:
                self._background.start(self._leave())
            self._closed = True
            raise

    async def __aexit__(self, *ended: object) -> None:
        """A durable one sleeps from now on; any other is closed."""
        await (self.hibernate() if self.durable and not self._closed else self.close())

    @classmethod
    def _around(cls, here: compose.LocalHost, info: SandboxInfo, request: SandboxRequest | None = None) -> AsyncSandbox:
        """The handle of a sandbox that exists."""
        handle = cls.__new__(cls)
        handle._set_up(here, request or SandboxRequest(), info)
        return handle

    async def _there(self, act: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Call the service on the background loop, about this sandbox, which is started first if it must be."""

        async def call() -> T:
            return await act(LIBRARY, await self._started(), *arguments)

        return await self._background.cross(call())

    async def _started(self) -> str:
        """The id of the sandbox, once it has started. Runs on the background loop."""
        if self._closed:
            raise SandboxClosed("this sandbox was closed; make a new one")
        if self._info is None:
            async with self._starting:
                if self._info is None and not self._closed:
                    self._info = await self._service.create(LIBRARY, self._request)
            self._check_open("while it started")
        assert self._info is not None
        return self._info.id

    async def _start(self) -> None:
        if self._info is not None and not self._closed:
            await self._service.wake(LIBRARY, self._info.id)
        await self._started()

    async def _run(self, request: RunRequest, on_event: OnEvent | None) -> Execution:
        execution: Execution | None = None
        async with contextlib.aclosing(self._service.run(LIBRARY, await self._started(), request)) as items:
            async for item in items:
                if isinstance(item, Execution):
                    execution = item
                elif on_event is not None:
                    notify(on_event, item)
        assert execution is not None
        return execution

    async def _restore(self, checkpoint: bytes) -> None:
        async with self._starting:
            self._info = await self._service.restore(LIBRARY, checkpoint, self._request)

    async def _hibernate(self) -> bool:
        return self._info is None or await self._service.hibernate(LIBRARY, self._info.id)

    async def _close(self) -> None:
        async with self._starting:  # what is just starting is closed, too
            if self._info is not None:
                await self._service.close(LIBRARY, self._info.id)

    async def _leave(self) -> None:
        """End what a cancelled start left, or let it sleep when it is durable."""
        async with self._starting:
            if self._info is None:
                return
            with contextlib.suppress(SandboxError):
                if not self._info.durable or not await self._service.hibernate(LIBRARY, self._info.id):
                    await self._service.close(LIBRARY, self._info.id)

    async def _close_all(self, infos: Sequence[SandboxInfo]) -> None:
        closings = (self._service.close(LIBRARY, info.id) for info in infos)
        await asyncio.gather(*closings, return_exceptions=True)

    def _check_open(self, when: str = "") -> None:
        if self._closed:
            raise SandboxClosed(f"this sandbox was closed{f' {when}' if when else ''}; make a new one")


async def _leave(items: AsyncGenerator[Any, None]) -> None:
    """Close an iterator of events, unless a cancellation is closing it already."""
    with contextlib.suppress(RuntimeError):
        await items.aclose()
