"""The zygote: a Python with the kernel imported, which becomes a sandbox's kernel by forking. It never runs user code.

Process 1 behind the outer wall makes keepers and zygotes; a zygote, bare or with more imported, makes kernels.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import select
import signal
import socket
import sys
from functools import partial
from typing import NoReturn

import belljar_kernel
from belljar_jail import arenas, hugepages, immortal, keeper, linux, packing, seccomp, service, walls, wire
from belljar_kernel import entry, reseed
from belljar_kernel.configuration import rehearse
from belljar_kernel.kernel import Kernel
from belljar_kernel.protocol import CHANNEL

REHEARSALS = 16  # after eight calls the interpreter has specialised its code: it writes no more into shared pages


def main(descriptor: int) -> None:
    """Serve as process 1 until the host goes away; the pid namespace goes with it."""
    os.set_inheritable(descriptor, False)
    sys.argv = ["main.py"]
    belljar_kernel.digest()  # these once here, not in every fork
    seccomp.compiled()
    keeper.masked()
    Init(socket.socket(fileno=descriptor)).serve()
    os._exit(0)


class ForkServer:
    """Follows orders on one control socket, and reports how its children end."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> None:
        """Say ready, then follow orders until the control socket closes."""
        gc.collect()
        gc.freeze()
        wire.send(self.control, {"op": "ready"})
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake_read, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.wake_read:
                    os.read(self.wake_read, 4096)
                    self._report_exits()
                    continue
                received = wire.receive(self.control)
                if received is None:
                    return
                self._follow(*received)

    def _follow(self, order: wire.Message, descriptors: list[int]) -> None:
        try:
            answer, handed_back = getattr(self, f"_make_{order['op']}")(order, descriptors)
        except OSError as failure:
            answer, handed_back = {"error": str(failure)}, []
        wire.send(self.control, {"op": "made", "order": order["order"], **answer}, handed_back)
        for descriptor in (*descriptors, *handed_back):
            os.close(descriptor)

    def _report_exits(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                wire.send(self.control, {"op": "exit", "pid": pid, "status": status})


class Init(ForkServer):
    """Process 1: makes keepers and zygotes."""

    def _make_keeper(self, order: wire.Message, descriptors: list[int]) -> tuple[wire.Message, list[int]]:
        """A sandbox's process 1, in namespaces of its own. Descriptors: its control socket, its cgroups."""
        go, wait = socket.socketpair()
        pid, pidfd = linux.clone(service.NAMESPACES)
        if pid == 0:
            try:
                go.close()
                keeper.keep(socket.socket(fileno=descriptors[0]), wait, order, descriptors[1:], {}, [])
            finally:
                os._exit(0)
        wait.close()
        with go:
            if not order["may_set_groups"]:
                linux.write_file(f"/proc/{pid}/setgroups", "deny")
            for name in ("uid_map", "gid_map"):
                linux.write_file(f"/proc/{pid}/{name}", order["map"])
            go.send(b"g")
        return {"pid": pid}, [pidfd]

    def _make_zygote(self, order: wire.Message, descriptors: list[int]) -> tuple[wire.Message, list[int]]:
        """A zygote that imports some more. Descriptors: its control socket."""
        pid = os.fork()
        if pid == 0:
            try:
                self.control.close()
                if order["modules"]:
                    arenas.reserve()
                _import(order["modules"])
                zygote = Zygote(socket.socket(fileno=descriptors[0]))
                if order["modules"]:
                    zygote.warm_up()
                zygote.serve()
            finally:
                os._exit(0)
        return {"pid": pid}, []


class Zygote(ForkServer):
    """Makes kernels by forking itself."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        for folder in sys.path_importer_cache.keys() - set(sys.path):
            del sys.path_importer_cache[folder]  # of packages already imported; every run would walk them
        self.kernel = entry.prepare()
        rehearse(self.kernel)

    def warm_up(self) -> None:
        """Spend time once that each fork saves."""
        packing.pack(partial(rehearse, self.kernel, shown="display(table)"))  # while calls can be watched
        for _ in range(REHEARSALS):
            rehearse(self.kernel)
        immortal.immortalise()
        gc.collect()
        arenas.fill_holes()
        hugepages.collapse()

    def _make_kernel(self, order: wire.Message, descriptors: list[int]) -> tuple[wire.Message, list[int]]:
        """A kernel behind its walls. Descriptors: the keeper's pidfd, the channel, stdout, stderr, cgroups.

        The fork lands in the keeper's pid namespace. There is no way back to our own for later children (it belongs to
        the host's root), and none is needed: the next kernel names its own.
        """
        linux.setns(descriptors[0], linux.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            _become_kernel(self.kernel, order, descriptors)
        return {"pid": pid}, [os.pidfd_open(pid)]

    def _make_program(self, order: wire.Message, descriptors: list[int]) -> tuple[wire.Message, list[int]]:
        """A foreign program behind its walls. Descriptors: as program.become() wants them."""
        from belljar_jail import program, program_filter  # few jails ever make one

        program_filter.compiled()  # once here, not in every fork
        linux.setns(descriptors[0], linux.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            program.become(order, descriptors)
        return {"pid": pid}, [os.pidfd_open(pid)]


def _become_kernel(kernel: Kernel, order: wire.Message, descriptors: list[int]) -> NoReturn:
    keeper_pidfd, channel, stdout, stderr, *cgroups = descriptors
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        walls.enter(order, keeper_pidfd, channel, (stdout, stderr), cgroups)
        reseed.after_fork()
        entry.serve(CHANNEL, kernel)
    except OSError as failure:
        for target in (stderr, 2):
            with contextlib.suppress(OSError):
                os.write(target, f"the walls could not be closed: {failure}".encode())
    finally:
        os._exit(1)


def _import(modules: list[str]) -> None:
    """Import what can be imported; what cannot is the environment's affair and shows when user code imports it."""
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with contextlib.suppress(Exception):
        _rehearse()


def _rehearse() -> None:
    """Do once what every sandbox is likely to do first, so that what is imported or cached on the way is there."""
    for name in ("ast", "textwrap", "traceback"):
        importlib.import_module(name)
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        figure = pyplot.figure()
        figure.add_subplot().plot([0, 1])
        figure.savefig(io.BytesIO(), format="png")
        pyplot.close(figure)
        sys.modules["matplotlib.font_manager"]._get_font.cache_clear()  # as every fork does: nothing is left to free
