"""One foreign program seen from the host: its keeper, its pipes, its control group, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from belljar.engines.base import Exit, Sample
from belljar.engines.confinement import Program
from belljar.engines.native import launch, program_layout
from belljar.engines.native.cgroups import Group
from belljar.engines.native.descriptors import gone, readable
from belljar.engines.native.jail import START_TIMEOUT_S, Jail
from belljar.engines.native.keeper import KILL_TIMEOUT_S, Keeper
from belljar.engines.native.libraries import Linkage, linkage
from belljar.errors import StartFailed
from belljar.limits import BOUNDS, Limits
from belljar.packages.environment import Environment, default_python
from belljar_jail import wire
from belljar_jail.door import NOTIFY_RECEIVE, NOTIFY_SEND
from belljar_jail.program_root import PLACE

CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
RLIMITS = {
    "RLIMIT_CORE": 0,
    "RLIMIT_NOFILE": 1024,
    "RLIMIT_FSIZE": 0,  # nothing is there to be written
    "RLIMIT_MEMLOCK": 0,
    "RLIMIT_MSGQUEUE": 0,
}


@dataclass(frozen=True)
class Prepared:
    """A program with all that was looked up for it; `key` names its jail."""

    program: Program
    needs: Linkage
    key: str


def prepare(program: Program) -> Prepared:
    """Look up what a program needs.

    Raises:
        StartFailed: when its executable or one of its folders is not there, or not a program of this machine.
    """
    for path in program.folders.values():
        if not path.exists():
            raise StartFailed(f"the program cannot be started: {path} is missing")
    needs = linkage(program.on_host(program.argv[0]))
    folders = sorted((at, str(source)) for at, source in program.folders.items())
    facts = [program.argv[0], folders, needs.loader, needs.libraries]
    return Prepared(program, needs, f"program-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}")


def plan_for(prepared: Prepared, cache_dir: Path) -> launch.JailPlan:
    """The plan of the jail that such programs start in: Python alone for the zygote, and a root beside its own."""
    bare = launch.plan_for(Environment(default_python()), cache_dir)
    return replace(bare, steps=[*bare.steps, *program_layout.plan(prepared.program, prepared.needs)], root=PLACE)


def limits_for(program: Program, limits: Limits) -> Limits:
    """A sandbox's limits with what the program itself needs on top."""
    return replace(
        limits,
        memory_mb=min(limits.memory_mb + program.overhead_mb, int(BOUNDS["memory_mb"][1])),
        processes=min(limits.processes + program.threads, int(BOUNDS["processes"][1])),
        cpus=min(limits.cpus + program.start_cpus, BOUNDS["cpus"][1]),
    )


class ConfinedProgram:
    """A program of the native engine's."""

    def __init__(self, jail: Jail, group: Group | None, limits: Limits, degraded: tuple[str, ...]) -> None:
        self.jail = jail
        self.group = group
        self.limits = limits
        self.degraded = degraded
        self.exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.stdin = self.stdout = self.stderr = -1
        self._keeper: Keeper | None = None
        self._pidfd = -1
        self._start_cpus: float = 0
        self._closing: asyncio.Task[None] | None = None

    async def start(self, prepared: Prepared) -> None:
        """Bring up the keeper and the program in it; nothing is left behind when that fails.

        Raises:
            StartFailed: with the step that failed.
        """
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                self._start_cpus = prepared.program.start_cpus
                self._keeper = await Keeper.start(self.jail, self.group, self.limits)
                await self._start(self._keeper, prepared)
        except TimeoutError:
            await self.close()
            raise StartFailed(f"the program was not up after {START_TIMEOUT_S} s; is the machine overloaded?") from None
        except OSError as failure:
            await self.close()
            raise StartFailed(f"the program could not be started: {failure}") from failure
        except BaseException:
            await self.close()
            raise

    def sample(self) -> Sample:
        """Processor time so far and the most memory there was."""
        if self.group is None or not self.group.joins:
            return Sample(0.0, 0)
        return Sample(self.group.cpu_s(), self.group.peak_bytes())

    def memory_bytes(self) -> int:
        """The memory that it has now."""
        return self.group.bytes_now() if self.group is not None else 0

    def settle(self) -> None:
        """Take back the processors that it had on top to come up."""
        if self.group is not None and self.group.joins and self._start_cpus:
            self.limits = replace(self.limits, cpus=self.limits.cpus - self._start_cpus)
            self.group.set(self.limits)
            self._start_cpus = 0

    async def kill(self) -> None:
        """SIGKILL to the program; returns when it is gone."""
        self._signal()
        if self._keeper is not None:
            await self._keeper.kill(spare_kernel=False)
        await asyncio.wait((self.exit,), timeout=KILL_TIMEOUT_S)

    async def close(self) -> None:
        """End everything and leave nothing behind, even when nobody waits for it any more."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _start(self, keeper: Keeper, prepared: Prepared) -> None:
        program, needs = prepared.program, prepared.needs
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            report, end = wire.pair()
            ours.callback(report.close)
            theirs.callback(end.close)
            report.setblocking(False)
            streams = self._pipes(theirs)
            made = await self.jail.bare.order(
                "program", [keeper.pidfd, end.fileno(), *streams, *(self.group.joins if self.group else [])],
                argv=list(program.argv), env=dict(program.env), rlimits=RLIMITS,
                executable=program_layout.executable(program, needs),
                without=[name for name in self.degraded if name in ("landlock", "seccomp")],
            )  # fmt: skip
            self._pidfd = made.pidfd()
            made.exit.add_done_callback(self._on_exit)
            theirs.close()
            await _see_through(report, "seccomp" not in self.degraded)

    def _pipes(self, theirs: contextlib.ExitStack) -> list[int]:
        """Three pipes; ours are kept and closed with everything else, the program's are closed with the stack."""
        ends = []
        for name in ("stdin", "stdout", "stderr"):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            own, other = (writer, reader) if name == "stdin" else (reader, writer)
            setattr(self, name, own)
            theirs.callback(os.close, other)
            os.set_blocking(own, False)
            ends.append(other)
        return ends

    def _on_exit(self, made: asyncio.Future[Exit]) -> None:
        facts = made.result()
        if facts.broken is not None:
            self._signal()  # whoever would have told its end is gone: no end may be told of a program that runs
        kills = self.group.out_of_memory_kills() if self.group and self.group.joins else 0
        self._tell(replace(facts, out_of_memory=kills > 0 and facts.signal == signal.SIGKILL))

    def _tell(self, facts: Exit) -> None:
        if not self.exit.done():
            self.exit.set_result(facts)

    def _signal(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def _close(self) -> None:
        self._signal()
        if self._keeper is not None:
            await self._keeper.end()
        if self._pidfd >= 0:
            await gone(self._pidfd, KILL_TIMEOUT_S)
            await asyncio.wait((self.exit,), timeout=KILL_TIMEOUT_S)  # how it ended is told by the zygote
        self._tell(Exit(signal=signal.SIGKILL))
        for descriptor in (self.stdin, self.stdout, self.stderr, self._pidfd):
            if descriptor >= 0:
                os.close(descriptor)
        self.stdin = self.stdout = self.stderr = self._pidfd = -1
        if self.group is not None:
            for _ in range(200):
                if self.group.remove():
                    break
                await asyncio.sleep(0.01)


async def _see_through(report: socket.socket, filtered: bool) -> None:
    """Let the one `execve` pass that starts the program, and return when it has; anything else it says is a failure."""
    while True:
        await readable(report.fileno())
        received = wire.receive(report, socket.MSG_CMSG_CLOEXEC)
        if received is None:
            if filtered:
                raise StartFailed("the program did not say that its walls are closed")
            return
        message, listeners = received
        if message["op"] != "walls" or not listeners:
            raise StartFailed(f"the program did not come up: {message.get('error', 'no room for its descriptor')}")
        try:
            await _admit_once(listeners[0])
        finally:
            os.close(listeners[0])  # from here on there is nobody to ask: every other `execve` fails
        filtered = False


async def _admit_once(listener: int) -> None:
    await readable(listener)
    notification = bytearray(80)
    fcntl.ioctl(listener, NOTIFY_RECEIVE, notification)
    (identifier,) = struct.unpack_from("Q", notification)
    fcntl.ioctl(listener, NOTIFY_SEND, bytearray(struct.pack("QqiI", identifier, 0, 0, CONTINUE)))
