"""Sandbox: the face for code that does not await, thin over AsyncSandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack

from belljar import compose
from belljar.async_sandbox import AsyncSandbox
from belljar.events import Event
from belljar.execution import Completion, Execution, Variable
from belljar.files import Files
from belljar.options import RunOptions, SandboxOptions, StreamOptions

if TYPE_CHECKING:  # few sandboxes are saved: the others do not wait for this import
    from belljar.state.checkpoint import Checkpoint, CheckpointReport

T = TypeVar("T")


class Sandbox:
    """A sandbox for code that does not await: the acts of AsyncSandbox, each of which blocks until it is done."""

    def __init__(self, engine: str = "auto", **options: Unpack[SandboxOptions]) -> None:
        self._set_up(AsyncSandbox(engine, **options))
        try:
            self._wait(self._core.start())
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
            if self._core.reachable:
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
        core = AsyncSandbox.to_restore(engine, options)
        try:
            return cls._around(core.background.wait(core.restored_from(checkpoint)))
        except BaseException:  # a Ctrl-C may come when it is up already
            core.discard()
            raise

    @classmethod
    def connect(cls, id: str, *, host: str | None = None, env: Mapping[str, str] | None = None) -> Sandbox:
        """See AsyncSandbox.connect."""
        sandbox = cls._around(compose.local_host().background.wait(AsyncSandbox.connect(id, host=host, env=env)))
        sandbox._wait(sandbox._core.start())
        return sandbox

    def fork(self, n: int = 1) -> list[Sandbox]:
        """See AsyncSandbox.fork."""
        return [Sandbox._around(core) for core in self._wait(self._core.fork(n))]

    @classmethod
    def _around(cls, core: AsyncSandbox) -> Sandbox:
        sandbox = cls.__new__(cls)
        sandbox._set_up(core)
        return sandbox

    def _set_up(self, core: AsyncSandbox) -> None:
        self._core = core
        self._wait = core.background.wait
        self.files = Files(core.files, self._wait)

    def hibernate(self) -> bool:
        """See AsyncSandbox.hibernate."""
        return self._wait(self._core.hibernate())

    def close(self) -> None:
        """See AsyncSandbox.close."""
        if self._core.reachable:
            self._wait(self._core.close())

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._core.reachable:
            self._wait(self._core.__aexit__())


async def _next(events: AsyncGenerator[T, None]) -> T | None:
    """The next item, or None after the last."""
    return await anext(events, None)
