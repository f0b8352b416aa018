"""One sandbox without walls: a kernel as a child of this process, and a temporary folder as its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import belljar_kernel
from belljar.engines.base import Exit, Sample, Spec, ignore
from belljar.engines.transport.child import Child
from belljar.engines.transport.exchange import exit_facts
from belljar.engines.transport.link import Link
from belljar.engines.transport.seat import Seat
from belljar.errors import StartFailed
from belljar.packages import companion

FOLDERS = ("workspace", "home", "tmp")
BOOT = Path(__file__).with_name("boot.py")


class UnconfinedProcess(Seat[Link]):
    """A sandbox of the unconfined engine."""

    def __init__(self, spec: Spec, degraded: tuple[str, ...]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="belljar-unconfined-"))
        home, temporary = str(self.folder / "home"), str(self.folder / "tmp")
        python = str(Path(spec.environment.python).parent)
        variables = {"HOME": home, "PATH": f"{python}:/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": temporary}
        super().__init__(spec, {**variables, "PYTHONDONTWRITEBYTECODE": "1"})
        self.degraded = degraded
        self.on_closed: Callable[[], object] = lambda: None
        self._child: Child | None = None
        self._before = Sample()  # what kernels that were replaced had used

    @property
    def is_up(self) -> bool:
        """Whether there is a kernel, also when the loop does not know yet that it has ended."""
        return super().is_up and self._child is not None and not self._child.has_ended

    async def bring_up(self) -> None:
        """Start Python with the kernel in it."""
        await self.kill()
        self._let_go()
        for name in FOLDERS:
            (self.folder / name).mkdir(exist_ok=True)
            (self.folder / name).chmod(0o755)  # whatever the last kernel made of it
        with contextlib.ExitStack() as theirs:
            link = self.kernel = Link.make(theirs)
            channel, *streams = link.theirs
            child = self._child = Child.start(
                [*self._command(), str(channel), str(self.folder / "workspace"), *self._sources()],
                self.variables, self.folder, streams, [channel],
            )  # fmt: skip
        child.exit.add_done_callback(lambda _: link.end(None))
        said: list[str] = []
        link.on_event = lambda event: said.append(event["text"])
        if not await link.came_up():
            await self.kill()
            link.drain()
            raise StartFailed(f"the kernel did not come up: {''.join(said)[-500:] or link.broken or 'it ended'}")
        link.on_event = ignore

    async def interrupt(self) -> None:
        """SIGINT to the kernel, SIGKILL to the processes that it started."""
        if self._child is not None:
            self._child.interrupt()

    async def kill(self) -> None:
        """SIGKILL to the kernel and to everything in its process group."""
        if self._child is not None:
            await self._child.kill()

    async def exit_facts(self) -> Exit:
        """How the child ended."""
        return await exit_facts(self._child.exit if self._child is not None else None, self.kernel)

    async def tear_down(self) -> None:
        """Let go of the kernel and remove the folder."""
        self._let_go()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)
        self.on_closed()

    def sample(self) -> Sample:
        """What its kernels have used; what their children used is not seen."""
        now = self._child.sample() if self._child is not None else Sample()
        peak = max(self._before.peak_memory_bytes, now.peak_memory_bytes)
        return Sample(self._before.cpu_s + now.cpu_s, peak)

    def memory_bytes(self) -> int:
        """The memory that it has now."""
        return self._child.memory_bytes() if self._child is not None else 0

    def _let_go(self) -> None:
        self._before, self._child = self.sample(), None
        if self.kernel is not None:
            self.kernel.close()

    def _command(self) -> list[str]:
        return [str(self.spec.environment.python), "-I", str(BOOT)]

    def _sources(self) -> list[str]:
        """The folders of the kernel, of cloudpickle, and of the environment's packages, if it has some."""
        kernel = Path(belljar_kernel.__file__).parent.parent
        site = self.spec.environment.site
        return [str(kernel), str(companion.folder().parent), *([os.fspath(site)] if site is not None else [])]
