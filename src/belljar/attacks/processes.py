"""Attacks with processes and signals, and processes of the jail that are killed from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

from belljar.attacks.arena import Process, descendants
from belljar.attacks.case import EVERYWHERE, Cases, Trial
from belljar.errors import SandboxError
from belljar.execution import Execution

attack = Cases()
NOTICED_S = 0.3  # after which a host knows of a death, and a run that was started is under way


@attack("N02", "a sandbox sees its own processes only, and no path or id of the host in its mounts and groups")
def look_around(trial: Trial) -> str:
    execution = trial.run("""
        seen = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
        names = ("mountinfo", "cgroup", "mounts", "maps", "cmdline")
        text = "".join(open("/proc/self/" + name).read() for name in names)
        [seen, os.getpid(), os.getppid(), text, open("/proc/self/cgroup").read(), socket.gethostname()]
    """)
    seen, own, parent, text, groups, name = execution.value or ([], 0, -1, "", "", "")
    trial.expect(seen == [1, own] and parent == 0, f"sees the processes {seen}, is {own}, child of {parent}")
    for word in (str(trial.arena.canaries.folder), trial.sandbox.id, str(os.path.expanduser("~/")), "belljar-"):
        trial.expect(word not in text or word == "/", f"{word!r} can be read in /proc/self")
    trial.expect(all(line.endswith(":/") for line in groups.splitlines()), f"group paths can be read: {groups}")
    trial.expect(name != os.uname().nodename, "the host's name can be read")
    return f"sees the processes {seen}"


@attack("N20", "signals to everything in sight end the own sandbox at most", engines=EVERYWHERE)
def signal_everything(trial: Trial) -> str:
    execution = trial.run("""
        import signal
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGSEGV):
            for target in {1, os.getppid() or 1, 2, 3, 4, -1} - {os.getpid()}:
                tried(os.kill, target, number)
            if hasattr(os, "pidfd_open"): tried(signal.pidfd_send_signal, os.pidfd_open(1), number)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    status = trial.expect_status(execution, "crashed")
    trial.expect_usable("reset")
    return status


@attack("N21", "a process that stops itself and ignores every signal ends at its deadline", timeout_s=1)
def refuse_to_end(trial: Trial) -> str:
    execution = trial.run("""
        import signal
        for number in range(1, 32):
            tried(signal.signal, number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))
        call("prctl", 1, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(1000)
    """)
    status = trial.expect_status(execution, "timeout")
    trial.expect_usable("reset")
    return status


@attack("N22", "a fork bomb and a thread bomb stop at the process limit", timeout_s=2)
def bomb(trial: Trial) -> str:
    threads = trial.run("""
        import threading
        made = 0
        try:
            for _ in range(10000):
                threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
                made += 1
        except RuntimeError: pass
        made
    """)
    made = threads.value
    limit = trial.limits.processes
    trial.expect(isinstance(made, int) and made <= limit, f"made {made} threads with a limit of {limit}")
    execution = trial.run("""
        while True:
            tried(os.fork)
    """)
    status = trial.expect_status(execution, "timeout", "crashed")
    trial.expect(subprocess.run(["true"]).returncode == 0, "the host itself cannot start processes")
    trial.expect_usable()
    return f"{made} threads, then {status}"


@attack("N23", "daemons that outlive a run do not outlive the sandbox, nor an interrupt")
def leave_daemons(trial: Trial) -> str:
    code = """
        for _ in range(5):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    while True:
                        open("/workspace/alive-%d" % os.getpid(), "a").write("x")
                        time.sleep(0.02)
                os._exit(0)
        time.sleep(0.3)
        "started"
    """
    execution = trial.run(code)
    trial.expect(execution.text == "'started'", f"the run gave {execution.text} {execution.error}")
    trial.sandbox.run("import time; time.sleep(60)", timeout=1)  # its end takes the daemons along
    before = _sizes(trial)
    time.sleep(0.3)
    trial.expect(bool(before) and before == _sizes(trial), "daemons still write after an interrupt")
    trial.run(code)
    return f"{len(before)} daemons, none after an interrupt, none after close"


@attack("N36", "a segmentation fault and an abort are told as such, leave no core, and a fresh Python follows")
def crash(trial: Trial) -> str:
    outcomes = []
    for code, number in (
        ("ctypes.string_at(0)", signal.SIGSEGV),
        ("x = bytearray(40 << 20); os.abort()", signal.SIGABRT),
    ):
        execution = trial.run(code)
        trial.expect_status(execution, "crashed")
        trial.expect(execution.exit_code == 128 + number, f"exit code {execution.exit_code}")
        outcomes.append(f"crashed with {execution.exit_code}")
    trial.expect_usable("reset")
    names = [entry.path for entry in trial.sandbox.files.list()]
    trial.expect(not names, f"files were left: {names}")
    return ", ".join(outcomes)


@attack("N41", "children that keep the channel and the output open hold up nothing")
def hold_everything_open(trial: Trial) -> str:
    execution = trial.run("""
        for _ in range(3):
            if os.fork() == 0:
                time.sleep(1000)
        "left"
    """)
    trial.expect(execution.text == "'left'", f"the run gave {execution.text} {execution.error}")
    trial.expect_usable("kept")
    trial.sandbox.reset()
    trial.expect_usable("kept")
    return "runs and reset answer at once"


@attack("R01", "killing a kernel from outside is told, and the next run has a fresh one", engines=EVERYWHERE)
def kill_the_kernel(trial: Trial) -> str:
    find = _kernel if trial.sandbox.engine == "native" else _deno
    idle = find(trial)
    os.kill(idle.pid, signal.SIGKILL)
    _wait_until_gone(idle)
    time.sleep(NOTICED_S)
    trial.expect_usable("reset")
    execution = _run_and_kill(trial, find)
    status = trial.expect_status(execution, "crashed")
    trial.expect_usable("reset")
    return f"reset when idle, {status} when busy"


@attack("X08", "killing a keeper from outside ends its sandbox alone, and the next run starts over")
def kill_the_keeper(trial: Trial) -> str:
    execution = _run_and_kill(trial, _keeper)
    status = trial.expect_status(execution, "crashed")
    trial.expect_usable("reset")
    return status


@attack("R04", "killing the zygote from outside is survived: the sandboxes of the jail start over", alone=True)
def kill_the_zygote(trial: Trial) -> str:
    os.kill(_kernel(trial).parent, signal.SIGKILL)
    trial.expect_status(trial.sandbox.run("1 + 1"), "ok", "crashed")  # whether it was noticed before or after the start
    trial.expect_usable()
    fresh = trial.arena.sandbox(trial.limits)
    trial.expect(fresh.run("1 + 1").text == "2", "a new sandbox does not work")
    fresh.close()
    return "sandboxes, old and new, answer"


@attack("X09", "killing the whole jail from outside is told, and new sandboxes get a new one", alone=True)
def kill_the_jail(trial: Trial) -> str:
    parent = _keeper(trial).parent
    (init,) = [process for process in descendants() if process.pid == parent]
    os.kill(init.pid, signal.SIGKILL)
    _wait_until_gone(init)
    try:
        trial.sandbox.run("1 + 1")
        old = "answer"
    except SandboxError as failure:  # their files are gone, and they say so
        old = f"raise {type(failure).__name__}"
    fresh = trial.arena.sandbox(trial.limits)
    trial.expect(fresh.run("1 + 1").text == "2", "a new sandbox does not work")
    fresh.close()
    return f"old sandboxes {old}, new ones work"


def _run_and_kill(trial: Trial, find: Callable[[Trial], Process]) -> Execution:
    """Start a long run, end one process of the jail meanwhile, and give what the run became."""
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(trial.sandbox.run, "import time; time.sleep(60)", timeout=5)
        time.sleep(NOTICED_S)
        os.kill(find(trial).pid, signal.SIGKILL)
        return future.result(20)


def _keeper(trial: Trial) -> Process:
    """Process 1 of the attacked sandbox: its parent is the jail's own process 1, two above which is this process."""
    by_pid = {process.pid: process for process in descendants()}
    (found,) = [
        process for process in _inhabitants(trial) if by_pid[by_pid[process.parent].parent].parent == os.getpid()
    ]
    return found


def _kernel(trial: Trial) -> Process:
    """The Python of the attacked sandbox: a child of a zygote."""
    keeper = _keeper(trial)
    (found,) = [process for process in _inhabitants(trial) if process.pid != keeper.pid]
    return found


def _deno(trial: Trial) -> Process:
    """What runs the attacked sandbox's WebAssembly."""
    (found,) = [p for p in descendants() if p.name == "deno" and p.pid not in trial.others and p.state != "Z"]
    return found


def _inhabitants(trial: Trial) -> list[Process]:
    """What lives in the attacked sandbox: two pid namespaces below this process, and not there before it."""
    depth = _own_depth() + 2
    return [p for p in descendants() if p.depth == depth and p.pid not in trial.others and p.state != "Z"]


def _own_depth() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(len(line.split()) - 1 for line in file if line.startswith("NSpid"))


def _wait_until_gone(process: Process) -> None:
    deadline = time.monotonic() + 5
    while any(p.pid == process.pid and p.state != "Z" for p in descendants()) and time.monotonic() < deadline:
        time.sleep(0.02)


def _sizes(trial: Trial) -> dict[str, int]:
    return {entry.path: entry.size for entry in trial.sandbox.files.list() if entry.path.startswith("alive-")}
