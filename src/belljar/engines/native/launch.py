"""Starting a jail: from an environment to a plan, and from a plan to a launcher process. Needs no event loop."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import belljar_jail
from belljar.engines.native import inside, interpreter, layout, scope
from belljar.errors import StartFailed
from belljar.packages.environment import Environment
from belljar_jail import tracing, wire

ID_BASE, ID_COUNT = 1_000_000_000, 1 << 24


@dataclass(frozen=True)
class JailPlan:
    """Everything a launcher needs: the root's steps, the Python inside, its environment, and host ids to map."""

    steps: list[dict[str, Any]]
    host_python: str
    guest_python: str
    env: dict[str, str]  # of every sandbox
    warm: tuple[str, ...]
    command_prefix: tuple[str, ...]
    ids: tuple[int, int] = (ID_BASE, ID_COUNT)
    root: str | None = None  # the part of the jail's root that its sandboxes see; None when they see all of it

    @property
    def as_root(self) -> bool:
        """Whether sandboxes get host ids of their own."""
        return os.getuid() == 0

    @property
    def has_doors(self) -> bool:
        """Whether its sandboxes can be forked live: that takes ids for the forks, and a processor we know."""
        return self.as_root and self.root is None and tracing.SUPPORTED


@dataclass(frozen=True)
class Launched:
    """A launcher on its way, and our end of its control socket."""

    process: subprocess.Popen[bytes]
    control: socket.socket


def plan_for(environment: Environment, cache_dir: Path) -> JailPlan:
    """The plan of an environment's jail; asks the interpreter and copies the kernel the first time.

    Raises:
        StartFailed: when that cannot be done.
    """
    try:
        python = interpreter.probe(environment.python, cache_dir)
        folder = inside.prepare(python, cache_dir)
    except (OSError, subprocess.SubprocessError) as failure:
        raise StartFailed(f"the jail could not be prepared: {failure}") from failure
    return JailPlan(
        steps=layout.plan(python, folder, environment.site),
        host_python=python.executable,
        guest_python=layout.guest_python(python),
        env=layout.guest_environment(python),
        warm=environment.warm,
        command_prefix=tuple(scope.command()),
    )


def begin(plan: JailPlan) -> Launched:
    """Exec a launcher and give it its plan; what becomes of it is told on the control socket.

    Raises:
        StartFailed: when there is no room for another process.
    """
    script = Path(belljar_jail.__file__).parent / "launcher.py"
    env = plan.env | {"HOME": "/tmp"}  # the sandbox's home is there only in a sandbox
    try:
        ours, theirs = wire.pair()
        with theirs:
            process = subprocess.Popen(
                [*plan.command_prefix, plan.host_python, "-I", "-S", "-B", str(script), str(theirs.fileno())],
                pass_fds=[theirs.fileno()], cwd="/", env=scope.environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C at the terminal is for the host alone
            )  # fmt: skip
        wire.send(ours, {"steps": plan.steps, "python": plan.guest_python, "env": env, "ids": plan.ids})
    except OSError as failure:
        raise StartFailed(f"the jail could not be launched: {failure}") from failure
    return Launched(process, ours)
