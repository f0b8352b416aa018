"""An engine as anybody may write one: a kernel in a child process with a folder for its files, and no walls at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import belljar_kernel
from belljar import PackageError, Policy, StartFailed
from belljar.engines.base import Exit, KernelProcess, Sample, Spec, ignore
from belljar.engines.registry import Part, Registry
from belljar.engines.transport.child import Child
from belljar.engines.transport.exchange import exit_facts
from belljar.engines.transport.link import Link
from belljar.engines.transport.seat import Seat
from belljar.health import EngineHealth, Layer
from belljar.packages import base, companion
from belljar.packages.environment import Environment, default_python
from belljar.packages.target import Target
from belljar.settings import Settings

NAME = "example"


class ExampleEngine:
    """Starts kernels with `python -m belljar_kernel`."""

    name = NAME
    capabilities: frozenset[str] = frozenset()

    async def check(self) -> EngineHealth:
        """There is no wall, and it says so."""
        return EngineHealth(NAME, True, (Layer("walls", False, "this is an example", "use another engine"),))

    async def start(self, spec: Spec) -> KernelProcess:
        """A sandbox with its first kernel."""
        process = ExampleProcess(spec)
        await process.start()
        return process

    async def close(self) -> None:
        """The host has closed every sandbox by now."""


class ExampleProcess(Seat[Link]):
    """What a seat does not know: where a kernel runs, how it is stopped, and what it used."""

    degraded = ("walls",)

    def __init__(self, spec: Spec) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="belljar-example-"))
        super().__init__(spec, {"HOME": str(self.folder), "PATH": os.defpath, "TMPDIR": "/tmp", "LANG": "C.UTF-8"})
        for path, content in companion.files().items():  # cloudpickle, which checkpoints need
            place = self.folder.joinpath("inside", *path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        (self.folder / "workspace").mkdir()
        self._child: Child | None = None

    async def bring_up(self) -> None:
        """Start a kernel and wait for its hello."""
        await self.kill()
        self._let_go()
        (self.folder / "workspace").chmod(0o755)
        paths = [Path(belljar_kernel.__file__).parents[1], self.folder / "inside", self.spec.environment.site]
        env = {"PYTHONPATH": os.pathsep.join(str(path) for path in paths if path is not None)}
        with contextlib.ExitStack() as theirs:
            link = self.kernel = Link.make(theirs)
            channel, *streams = link.theirs
            workspace = self.folder / "workspace"
            command = [str(self.spec.environment.python), "-P", "-m", "belljar_kernel", str(channel), str(workspace)]
            child = self._child = Child.start(command, env, workspace, streams, [channel])
        child.exit.add_done_callback(lambda _: link.end(None))
        link.on_event = ignore
        if not await link.came_up():
            raise StartFailed("the kernel ended before it said hello")

    async def interrupt(self) -> None:
        """Stop the code, and what it has started."""
        if self._child is not None:
            self._child.interrupt()

    async def kill(self) -> None:
        """End the kernel, and what it has started."""
        if self._child is not None:
            await self._child.kill()

    async def exit_facts(self) -> Exit:
        """How the child ended."""
        return await exit_facts(self._child.exit if self._child is not None else None, self.kernel)

    async def tear_down(self) -> None:
        """Remove the folder."""
        self._let_go()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sample(self) -> Sample:
        """What the kernel that is there has used."""
        return self._child.sample() if self._child is not None else Sample()

    def memory_bytes(self) -> int:
        """The memory that it has now."""
        return self._child.memory_bytes() if self._child is not None else 0

    def _let_go(self) -> None:
        if self.kernel is not None:
            self.kernel.close()


class ExampleInstaller:
    """Has the packages that native sandboxes have, where they were prepared, and installs none."""

    name = NAME
    target = Target(NAME)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def environment(self, policy: Policy, progress: object = None, python: str | None = None) -> Environment:
        """This process's Python."""
        if policy.packages == "none" or not base.is_prepared(default_python(), self._settings.cache_dir):
            return Environment(default_python())
        return base.base_environment(default_python(), self._settings.cache_dir)

    def is_prepared(self, policy: Policy, python: str | None = None) -> bool:
        """Always."""
        return True

    def extend(self, environment: Environment, requirements: Sequence[str], *_: object, **__: object) -> Environment:
        """Install nothing."""
        raise PackageError(f"the example engine does not install {', '.join(requirements)}")

    async def explain_import(self, module: str, *_: object) -> str:
        """Say so."""
        return f"{module!r} is not there, and the example engine installs nothing"


def _make(registry: Registry) -> tuple[ExampleEngine, ExampleInstaller]:
    return ExampleEngine(), ExampleInstaller(registry.settings)


PARTS = {NAME: Part(_make)}
