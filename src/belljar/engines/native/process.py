"""One native sandbox seen from the host: its keeper, the kernel in it at the moment, and its control group."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from belljar.egress.network import Network
from belljar.engines import exits
from belljar.engines.base import Event, Exit, KernelExited, OnEvent, Sample, Spec, ignore
from belljar.engines.native import route
from belljar.engines.native.cgroups import Group
from belljar.engines.native.descriptors import has_ended
from belljar.engines.native.jail import START_TIMEOUT_S, Jail, Zygote
from belljar.engines.native.keeper import KILL_TIMEOUT_S, Keeper, disk_order
from belljar.engines.native.link import JailedLink
from belljar.engines.native.workspace import DescriptorWorkspace
from belljar.engines.setup import configuration, see_configured
from belljar.engines.transport.exchange import exit_facts
from belljar.errors import SandboxClosed, StartFailed
from belljar.limits import Limits
from belljar.packages.environment import Environment
from belljar.policy import Policy

FindJail = Callable[[], Awaitable[Jail]]

if TYPE_CHECKING:
    from belljar.egress.server import Egress

OPEN_FILES_INSIDE = 1024
MOST_CONNECTIONS = 256  # to allowed hosts, at once, by one sandbox
REFRESH_S = 1.0


class NativeProcess:
    """A sandbox of the native engine."""

    def __init__(
        self, jail: Jail, find_jail: FindJail, home: Keeper | Group | None, spec: Spec, degraded: tuple[str, ...]
    ) -> None:
        self.spec = spec
        self.network = Network(spec.policy.network, MOST_CONNECTIONS)
        self.jail = jail
        self._find_jail = find_jail
        self.keeper = home if isinstance(home, Keeper) else None
        self.group = home.group if isinstance(home, Keeper) else home
        self.degraded = degraded
        self.kernel: JailedLink | None = None
        self.exit: asyncio.Future[Exit] | None = None
        self._starting = asyncio.Lock()
        self._oom_kills = 0
        self._closing: asyncio.Task[None] | None = None
        self.doorkeeper: Keeper | None = None  # who hears the kernel knock
        self.parent: NativeProcess | None = None  # beneath whose keeper our own is
        self.forks: set[NativeProcess] = set()  # whose keepers are beneath ours

    @property
    def workspace(self) -> DescriptorWorkspace:
        """Its files."""
        if self.keeper is None:
            raise SandboxClosed("this sandbox has no workspace: it was closed, or never came up")
        return self.keeper.workspace

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that every sandbox starts with; none is the host's."""
        return self.jail.plan.env | route.variables(self.spec.policy.network)

    @property
    def alive(self) -> bool:
        """Whether a kernel is there to take Requests."""
        kernel = self._open_kernel()
        return kernel is not None and not has_ended(kernel.pidfd)

    async def start(self, rehearsals: int = 0) -> None:
        """Bring up the keeper and a configured kernel; nothing is left behind when that fails.

        Raises:
            StartFailed: with the step that failed.
        """
        try:
            await self._start(rehearsals)
            if self.spec.policy.network:  # a mistake in the list is the caller's to know, before anything runs
                await self.network.egress()
        except BaseException:
            await self.close()
            raise

    async def request(self, request: dict[str, Any], on_event: OnEvent) -> Event:
        """Send one Request and see it through."""
        kernel = self._open_kernel()
        if kernel is None or self.exit is None:
            raise KernelExited(await self._exit_facts())
        self._oom_kills = self.group.out_of_memory_kills() if self.group else 0
        if not self.spec.policy.mounts or request["type"] != "run":
            return await kernel.request(request, on_event, self._end_kernel)
        refreshing = await self._refreshing()
        try:
            return await kernel.request(request, on_event, self._end_kernel)
        finally:
            refreshing.cancel()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        if (kernel := self._open_kernel()) is not None:
            kernel.send(message)

    async def idle(self) -> None:
        """Return when no Request is open."""
        if self.kernel is not None:
            await self.kernel.idle()

    async def interrupt(self) -> None:
        """SIGINT to the kernel, SIGKILL to everything else in the sandbox."""
        self._signal(signal.SIGINT)
        if self.keeper is not None:
            await self.keeper.kill(spare_kernel=True)

    async def kill(self) -> None:
        """SIGKILL to everything but the keeper; returns when that is done, so that no later kernel is hit."""
        self._signal(signal.SIGKILL)
        if self.keeper is not None:
            await self.keeper.kill(spare_kernel=False)
        if self.exit is not None:
            await asyncio.wait((self.exit,), timeout=KILL_TIMEOUT_S)

    async def restart(self) -> bool:
        """A fresh fork in these walls and this workspace; False when the keeper was gone, and the files with it."""
        async with self._starting:
            await self.kill()
            self._drop_kernel()
            self.jail = await self._find_jail()
            if self._closing is not None:
                raise SandboxClosed("this sandbox was closed; make a new one")
            kept = self.keeper is not None and self.keeper.alive
            if self.keeper is not None and kept:
                self.keeper.workspace.open_up()
            await self._start()
            return kept

    async def provide(self, environment: Environment) -> None:
        """Show the packages of another layer; whatever kernel is there sees them at once."""
        if self.keeper is not None and self.keeper.alive and environment.layer != self.keeper.layer:
            await self.keeper.show_packages(environment.layer)
        self.spec = replace(self.spec, environment=environment)

    def sample(self) -> Sample:
        """Processor time so far and the most memory there was."""
        if self.group is None or not self.group.joins:
            return Sample(0.0, 0)
        return Sample(self.group.cpu_s(), self.group.peak_bytes())

    def memory_bytes(self) -> int:
        """The memory that it has now."""
        return self.group.bytes_now() if self.group is not None else 0

    def fits(self, spec: Spec) -> bool:
        """Whether `reconfigure` can give it this spec."""
        return (
            not spec.policy.mounts
            and disk_order(spec.limits) == disk_order(self.spec.limits)
            and may_have(spec.policy, self.degraded)
        )

    async def reconfigure(self, spec: Spec) -> None:
        """Take other limits, variables and allowed hosts than those it was made with.

        Raises:
            InvalidRequest: for an entry of `Policy.network` that has no clear meaning.
            StartFailed: when the kernel ended meanwhile, or did not answer in time and was ended.
        """
        before, self.spec = self.spec, spec
        if self.group is not None and spec.limits != before.limits:
            self.group.set(spec.limits)
        if spec.policy.network:
            self.network = Network(spec.policy.network, MOST_CONNECTIONS)
        if spec.env or spec.policy.network or spec.limits != before.limits:
            first = configuration(spec, self.variables)
            await see_configured(self.request(first, ignore), self.kill, spec.limits)
        if spec.policy.network:
            await self.network.egress()

    async def close(self) -> None:
        """End everything and leave nothing behind, even when its caller has left."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            async with self._starting:  # what comes up meanwhile is ended too
                await self._end()
        finally:
            await self.network.close()

    async def _end(self) -> None:
        if self.forks and self.keeper is not None:
            await self.kill()
            self.keeper.forsake()  # but it stays: its end would be theirs
        else:
            await self._leave()
        if self.exit is not None and not self.exit.done():
            self.exit.set_result(Exit(signal=signal.SIGKILL))
        self._drop_kernel()

    async def _leave(self) -> None:
        if self.keeper is not None:
            await self.keeper.end()
        if self.group is not None:
            await self.group.vanish()
        await self.leave_parent()

    async def leave_parent(self) -> None:
        """Nothing of ours is beneath its keeper any more; it may have waited for that."""
        parent, self.parent = self.parent, None
        if parent is not None:
            parent.forks.discard(self)
            if parent._closing is not None and not parent.forks:
                await parent._leave()

    async def _start(self, rehearsals: int = 0) -> None:
        """Bring up what is missing of keeper and kernel."""
        spec = self.spec
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                if self.keeper is None or not self.keeper.alive:
                    former, self.keeper = self.keeper, None
                    if former is not None:
                        await former.end()
                        await self.leave_parent()
                    self.keeper = await Keeper.start(self.jail, self.group, spec.limits)
                self.open_doorway()
                if self.keeper.layer != spec.environment.layer:
                    await self.keeper.show_packages(spec.environment.layer)
                if self.keeper.mounts != spec.policy.mounts:
                    await self.keeper.show_mounts(spec.policy.mounts)
                zygote = self.jail.best() if spec.environment.is_warm else self.jail.bare
                await self._start_kernel(self.keeper, zygote, configuration(spec, self.variables, rehearsals))
        except TimeoutError:
            await self.kill()  # a kernel that has not answered takes no other Request
            raise StartFailed(f"the sandbox was not up after {START_TIMEOUT_S} s; is the machine overloaded?") from None
        except OSError as failure:
            raise StartFailed(f"the sandbox could not be started: {failure}") from failure

    async def _start_kernel(self, keeper: Keeper, zygote: Zygote, first: dict[str, Any]) -> None:
        said: list[str] = []
        limits, mounts = self.spec.limits, self.spec.policy.mounts
        with contextlib.ExitStack() as theirs:
            kernel = self.kernel = JailedLink.make(theirs)
            answer = kernel.ask(first, ignore)  # the kernel finds it as soon as it reads
            kernel.on_event = lambda event: said.append(event.get("text", ""))
            joins = self.group.joins if self.group else []
            without = [name for name in self.degraded if name in ("landlock", "seccomp")]
            made = await zygote.order(
                "kernel", [keeper.pidfd, *kernel.theirs, *joins], rlimits=rlimits(limits), without=without,
                mounts=[*mounts], has_door=self.jail.plan.has_doors, generation=keeper.generation,
            )  # fmt: skip
        kernel.pidfd = made.pidfd()
        self.exit = made.exit
        self.exit.add_done_callback(lambda _: kernel.end(None))
        if not await kernel.came_up():
            raise StartFailed(f"the kernel did not come up: {''.join(said)[-500:] or kernel.broken or 'it ended'}")
        kernel.on_event = ignore  # what it says from here on may be much
        if kernel.pid_inside is None:
            raise StartFailed("the kernel did not say that its walls are closed")
        keeper.introduce(kernel.pid_inside, kernel.listeners)
        kernel.close_listeners()
        self.doorkeeper = keeper
        if await answer is None:
            raise exits.in_set_up(await self._end_kernel(), limits)
        kernel.on_event = None

    def open_doorway(self) -> None:
        """Have the sandbox's proxy answer connections to its listener."""
        if self.keeper is not None and self.keeper.doorway is not None:
            self.keeper.doorway.open(self._way_out)

    async def _way_out(self) -> Egress:
        """The proxy of the network that the sandbox has when the first connection comes."""
        return await self.network.egress()

    async def _refreshing(self) -> asyncio.Task[None]:
        """Have the sandbox see what changed in mounted folders, now and every second of a run."""
        assert self.keeper is not None
        keeper = self.keeper

        async def refresh() -> None:
            while True:
                await asyncio.sleep(REFRESH_S)
                with contextlib.suppress(StartFailed):
                    await keeper.refresh_mounts()

        try:
            await keeper.refresh_mounts()
        except StartFailed:
            if keeper.alive:  # else the kernel has ended with it, which the open Request reports
                raise
        return asyncio.get_running_loop().create_task(refresh())

    def _open_kernel(self) -> JailedLink | None:
        """The kernel, unless its end is known already."""
        kernel = self.kernel
        if self._closing is not None or kernel is None or kernel.ended.done():
            return None
        return kernel if self.exit is None or not self.exit.done() else None

    def _signal(self, number: signal.Signals) -> None:
        if self.kernel is not None:
            self.kernel.signal(number)

    def _drop_kernel(self) -> None:
        if self.kernel is not None:
            self.kernel.close()
            self.kernel = None

    async def _end_kernel(self) -> Exit:
        """End whatever a kernel that gave no answer left running, itself when it broke the protocol; how it ended."""
        await self.kill()
        return await self._exit_facts()

    async def _exit_facts(self) -> Exit:
        """How the kernel ended, by what is seen outside: the zygote has the status, the cgroup the cause."""
        facts = await exit_facts(self.exit, self.kernel)
        kills = self.group.out_of_memory_kills() if self.group and self.group.joins else 0
        return replace(facts, out_of_memory=kills > self._oom_kills and facts.signal == signal.SIGKILL)


def may_have(policy: Policy, degraded: Sequence[str]) -> bool:
    """Whether a list of hosts would be all that a sandbox can reach."""
    return not policy.network or not {"network", "namespaces"} & {*degraded}


def rlimits(limits: Limits) -> dict[str, int]:
    """The limits of each process; the cgroup bounds their sum."""
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": OPEN_FILES_INSIDE,
        "RLIMIT_FSIZE": limits.disk_mb << 20,
        "RLIMIT_MEMLOCK": 1 << 16,
        "RLIMIT_MSGQUEUE": 0,
    }
