"""A case: one attack, named after what it tries and what comes of it, and the trial in which it is made."""

from __future__ import annotations

import json
import textwrap
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from belljar.execution import Execution, Status
from belljar.limits import Limits
from belljar_jail import linux, syscall_table

if TYPE_CHECKING:
    from belljar import Sandbox
    from belljar.attacks.arena import Arena

STATUSES = frozenset(get_args(Status))
GRACE_S = 6.0  # on top of the time limit: one second to obey an interrupt, the rest for a loaded machine
ANSWER_S = 10.0  # within which a bystander must have been answered, whatever goes on next to it
HOSTILE = Limits(timeout_s=3, memory_mb=96, processes=24, disk_mb=8, output_mb=0.25)

# What the hostile code of every case may use: `tried` gives the name of the error, `call` makes a system call by name,
# `script` runs JavaScript where there is some.
NATIVE_PRELUDE = """\
import ctypes, errno, os, socket, struct, sys, time
_call = ctypes.CDLL(None, use_errno=True).syscall
_call.restype = ctypes.c_long
def tried(act, *args):
    try: return "did it: %.200r" % (act(*args),)
    except OSError as failure: return errno.errorcode.get(failure.errno, repr(failure))
def call(name, *args):
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in args] + [ctypes.c_long(0)] * (6 - len(args))
    result = _call(ctypes.c_long(_args["numbers"][name]), *given)
    if result < 0: raise OSError(ctypes.get_errno(), name)
    return result
"""
WASM_PRELUDE = """\
import errno, json, os, socket, struct, sys, time
from pyodide.code import run_js as script
def tried(act, *args):
    try: return "did it: %.200r" % (act(*args),)
    except OSError as failure: return errno.errorcode.get(failure.errno, repr(failure))
    except Exception as failure: return "%s: %s" % (type(failure).__name__, failure)
"""
PRELUDES = {"native": NATIVE_PRELUDE, "wasm": WASM_PRELUDE}
EVERYWHERE = tuple(PRELUDES)
_COLUMN = 0 if linux.MACHINE == "x86_64" else 1
NUMBERS = {
    name: numbers[_COLUMN]
    for table in (syscall_table.ALLOWED, syscall_table.REFUSED, syscall_table.SPECIAL)
    for name, numbers in table.items()
    if numbers[_COLUMN] is not None
}


class Trial:
    """One attack in one sandbox: runs hostile code, and collects what was not contained."""

    def __init__(self, arena: Arena, sandbox: Sandbox, limits: Limits, others: Collection[int] = ()) -> None:
        self.arena = arena
        self.sandbox = sandbox
        self.limits = limits
        self.others = others  # processes that were there before the sandbox
        self.problems: list[str] = []

    def run(self, code: str, **options: Any) -> Execution:
        """Run hostile code while a bystander is asked for sums, and check what holds for every run."""
        given = {"numbers": NUMBERS, **self.arena.canaries.places()}
        prelude = PRELUDES[self.sandbox.engine]
        ended: list[Execution | BaseException] = []

        def attack() -> None:
            try:
                ended.append(self.sandbox.run(prelude + textwrap.dedent(code), args=given, **options))
            except BaseException as failure:
                ended.append(failure)

        thread = threading.Thread(target=attack)
        started = time.monotonic()
        thread.start()
        while True:
            self._ask_bystander()
            thread.join(0.2)
            if not thread.is_alive():
                break
        took = time.monotonic() - started
        if isinstance(ended[0], BaseException):
            raise ended[0]
        self._check_run(ended[0], took, options.get("timeout", self.limits.timeout_s))
        return ended[0]

    def expect(self, holds: bool, problem: str) -> None:
        """Note a problem unless it holds."""
        if not holds:
            self.problems.append(problem)

    def expect_refused(self, execution: Execution, *allowed: str) -> str:
        """Every attempt in the execution's value, a mapping of what to error, must have failed in an allowed way."""
        attempts = execution.value
        if not isinstance(attempts, dict) or not attempts:
            self.problems.append(f"the attack did not report: {execution.status}, {execution.error}")
            return ""
        for what, outcome in attempts.items():
            self.expect(outcome in allowed, f"{what}: {outcome}")
        return f"{len(attempts)} attempts: {_joined(set(map(str, attempts.values())))}"

    def expect_status(self, execution: Execution, *allowed: str) -> str:
        """The run must have ended in one of these ways."""
        said = f"{execution.error.name}: {execution.error.value}" if execution.error else ""
        self.expect(execution.status in allowed, f"status {execution.status}, not {_joined(allowed)} ({said})")
        return execution.status

    def expect_usable(self, state: str | None = None) -> None:
        """The attacked sandbox itself must take another run."""
        after = self.sandbox.run("6 * 7")
        self.expect(after.text == "42", f"the next run in the same sandbox gave {after.status}: {after.error}")
        self.expect(state in (None, after.state), f"the state after it is {after.state}, not {state}")

    def _check_run(self, execution: Execution, took: float, limit: float) -> None:
        self.expect(execution.status in STATUSES, f"an unknown status: {execution.status!r}")
        self.expect(took < limit + GRACE_S, f"answered after {took:.1f} s with a limit of {limit:g} s")
        everything = json.dumps(execution.to_dict(), default=repr)
        self.problems += self.arena.canaries.seen_in(everything)

    def _ask_bystander(self) -> None:
        started = time.monotonic()
        answer = self.arena.bystander.run("1 + 1")
        self.expect(answer.text == "2", f"another sandbox answered {answer.text!r} ({answer.status}) to 1 + 1")
        took = time.monotonic() - started
        self.expect(took < ANSWER_S, f"another sandbox took {took:.1f} s for 1 + 1")


Attack = Callable[[Trial], str]


@dataclass(frozen=True)
class Case:
    """An attack, and the engines that it is made on. `alone` ones harm the jail itself, and get one of their own."""

    id: str
    name: str
    attack: Attack
    limits: Limits = HOSTILE
    alone: bool = False
    engines: frozenset[str] = frozenset({"native"})


@dataclass
class Cases:
    """The cases of one module, in order."""

    cases: list[Case] = field(default_factory=list)

    engines: tuple[str, ...] = ("native",)  # of those that do not say otherwise

    def __call__(
        self, id: str, name: str, alone: bool = False, engines: tuple[str, ...] = (), **limits: Any
    ) -> Callable[[Attack], Attack]:
        """Add a case; other keywords are limits."""
        chosen = Limits(**{**vars(HOSTILE), **limits})

        def add(attack: Attack) -> Attack:
            self.cases.append(Case(id, name, attack, chosen, alone, frozenset(engines or self.engines)))
            return attack

        return add


def _joined(words: Collection[str]) -> str:
    return ", ".join(sorted(words))
