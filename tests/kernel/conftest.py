"""Two ways to a kernel: in this process, and in one of its own over real descriptors."""

from __future__ import annotations

import builtins
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from belljar.compose import base_environment
from belljar_kernel.kernel import Kernel

SOURCES = Path(__file__).parents[2] / "src"


@dataclass
class Answered:
    """What a kernel answered to one Request."""

    events: list[dict[str, Any]] = field(default_factory=list)
    out: str = ""
    err: str = ""

    @property
    def done(self) -> dict[str, Any]:
        finals = [event for event in self.events if event["type"] == "done"]
        assert len(finals) == 1, self.events
        assert self.events[-1] is finals[0]
        return finals[0]

    @property
    def results(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == "result"]

    @property
    def stdout(self) -> str:
        return self.out + "".join(event["text"] for event in self.events if event["type"] == "stdout")

    @property
    def stderr(self) -> str:
        return self.err + "".join(event["text"] for event in self.events if event["type"] == "stderr")

    @property
    def text(self) -> str | None:
        return next((event["data"]["text/plain"] for event in self.results if event["main"]), None)

    @property
    def error(self) -> dict[str, Any]:
        assert self.done["status"] == "error", self.done
        error: dict[str, Any] = self.done["error"]
        return error


class Guest:
    """Common to both ways: numbered Requests."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self._id = 0
        self._count = 0

    def request(self, **fields: Any) -> Answered:
        self._id += 1
        answered = self.answer({"id": self._id, **fields})
        assert all(event["id"] == self._id for event in answered.events), answered.events
        return answered

    def run(self, code: str, **fields: Any) -> Answered:
        self._count += 1
        request = {"type": "run", "code": code, "count": self._count, "stdin": None, "env": {}, "cwd": None, **fields}
        return self.request(**request)

    def answer(self, request: dict[str, Any]) -> Answered:
        raise NotImplementedError


class InProcess(Guest):
    """A kernel in this process; its output comes as events."""

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self.kernel = Kernel(workspace=str(workspace))

    def answer(self, request: Any) -> Answered:
        answered = Answered()
        self.kernel.handle(request, lambda event: answered.events.append(json.loads(json.dumps(event))))
        return answered


class Process(Guest):
    """A kernel in a process of its own."""

    def __init__(self, workspace: Path, *entry: str, path: str = "") -> None:
        super().__init__(workspace)
        self._socket, other = socket.socketpair()
        self._socket.settimeout(60)
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCES}:{path}", "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *entry, str(other.fileno()), str(workspace)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[other.fileno()],
            env=env,
            cwd=workspace,
        )
        other.close()
        self._chunks: dict[int, list[bytes]] = {1: [], 2: []}
        self._readers = [
            threading.Thread(target=self._drain, args=(number, stream), daemon=True)
            for number, stream in ((1, self.process.stdout), (2, self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()
        self.hello = self.receive()

    def answer(self, request: Any) -> Answered:
        self.send(request)
        return self.finish()

    def finish(self) -> Answered:
        answered = Answered()
        while not answered.events or answered.events[-1]["type"] != "done":
            answered.events.append(self.receive())
        time.sleep(0.05)  # the pipes are read by threads; what was written before `done` is there by now
        answered.out, answered.err = (b"".join(self._take(number)).decode() for number in (1, 2))
        return answered

    def send(self, request: Any) -> None:
        self.send_frame(json.dumps(request).encode())

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">I", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> dict[str, Any]:
        size = struct.unpack(">I", self._exactly(4))[0]
        event: dict[str, Any] = json.loads(self._exactly(size))
        return event

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def wait_for_output(self, text: bytes) -> None:
        deadline = time.monotonic() + 30
        while text not in b"".join(self._chunks[1]):
            assert time.monotonic() < deadline, "the output never came"
            time.sleep(0.005)

    def close(self) -> int:
        self._socket.close()
        code = self.process.wait(30)
        for reader in self._readers:
            reader.join(30)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def _take(self, number: int) -> list[bytes]:
        chunks = self._chunks[number]
        taken = chunks[:]
        del chunks[: len(taken)]
        return taken

    def _drain(self, number: int, stream: Any) -> None:
        while chunk := os.read(stream.fileno(), 65536):
            self._chunks[number].append(chunk)

    def _exactly(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            chunk = self._socket.recv(size - len(content))
            assert chunk, "the kernel closed the channel"
            content += chunk
        return content


@pytest.fixture(scope="session")
def science() -> Iterator[str]:
    """The folder of the science stack that sandboxes have, from which this Python can import meanwhile."""
    site = str(base_environment("native").site)
    sys.path.append(site)
    yield site
    sys.path.remove(site)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def guest(workspace: Path) -> Iterator[InProcess]:
    """A kernel in this process; everything that it takes over is given back."""
    streams = sys.stdin, sys.stdout, sys.stderr
    raw_streams = sys.__stdin__, sys.__stdout__, sys.__stderr__
    hooks = sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook, threading.__excepthook__
    main, cwd, environ, argv = sys.modules["__main__"], os.getcwd(), dict(os.environ), sys.argv
    path, meta_path, handler = sys.path[:], sys.meta_path[:], signal.getsignal(signal.SIGINT)
    names, formatwarning, filters = dict(vars(builtins)), warnings.formatwarning, warnings.filters[:]
    limit = sys.getrecursionlimit()
    warnings.resetwarnings()
    try:
        yield InProcess(workspace)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = raw_streams  # type: ignore[misc]
        sys.excepthook, sys.displayhook, sys.unraisablehook = hooks[:3]
        threading.excepthook, threading.__excepthook__ = hooks[3:]  # type: ignore[misc]
        sys.modules["__main__"], sys.argv = main, argv
        sys.setrecursionlimit(limit)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        sys.path[:], sys.meta_path[:] = path, meta_path
        signal.signal(signal.SIGINT, handler)
        vars(builtins).update(names)
        for name in set(vars(builtins)) - set(names):
            delattr(builtins, name)
        warnings.formatwarning = formatwarning
        warnings.filters[:] = filters  # type: ignore[index]
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(str(workspace)):
                del sys.modules[name]


@pytest.fixture
def start(workspace: Path) -> Iterator[Callable[..., Process]]:
    """Starts kernels in processes of their own, by the arguments of Python that come before descriptor and folder.

    `path` is one more folder to import from.
    """
    processes: list[Process] = []

    def start(*entry: str, path: str = "") -> Process:
        processes.append(Process(workspace, *entry, path=path))
        return processes[-1]

    yield start
    for process in processes:
        if process.process.poll() is None:
            process.process.kill()
        process.close()


@pytest.fixture
def process(start: Callable[..., Process]) -> Process:
    """A kernel in a process of its own."""
    return start("-m", "belljar_kernel")
