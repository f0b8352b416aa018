"""Sandboxes whose code may call out, as the callers of a service have them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from tests import engines

from belljar import Policy, compose
from belljar.events import Call
from belljar.execution import Execution
from belljar.service.base import LIBRARY, Reply, RunRequest, SandboxRequest

TOOLS = ("add", "echo", "fail", "hold")
IMPORTS = (
    "import asyncio\nfrom belljar_kernel.calls import call, call_async\nfrom belljar_kernel.pending import CallFailed\n"
)
Answer = Callable[[Call], Reply | None]


class Caller:
    """One sandbox, and a caller that takes its calls."""

    def __init__(self, engine: str, tools: tuple[str, ...] = TOOLS) -> None:
        self._here = compose.local_host()
        self.service = self._here.service
        self.engine = engine
        request = SandboxRequest(engine=engine, tools=tools, policy=Policy(packages="none"))
        self.id = self.wait(self.service.create(LIBRARY, request)).id
        self.calls: list[Call] = []  # of the last run
        self.called = threading.Event()
        self.on_text: Callable[[str], None] = lambda _: None

    def wait(self, coroutine: Any) -> Any:
        return self._here.background.wait(coroutine)

    def run(self, code: str, answer: Answer | None = None, **options: Any) -> Execution:
        """Run code; each call is answered as it comes, unless `answer` says None for it. `on_text` hears output."""
        return self.wait(self._run(RunRequest(IMPORTS + code, live=True, **options), answer or usual))

    def held(self, code: str) -> tuple[Future[Execution], Call]:
        """Start a run, and return it with its first call, which has no answer yet."""
        self.called.clear()
        request = RunRequest(IMPORTS + code, live=True)
        running = asyncio.run_coroutine_threadsafe(self._run(request, lambda _: None), self._here.background.loop)
        assert self.called.wait(30), running
        return running, self.calls[0]

    def later(self, call_id: int, value: object) -> None:
        """Answer once the call at hand has been looked at; for what answers calls."""
        reply = self.service.answer_call(LIBRARY, self.id, Reply(call_id, value))
        asyncio.get_running_loop().create_task(reply)

    def answer(self, reply: Reply) -> None:
        self.wait(self.service.answer_call(LIBRARY, self.id, reply))

    def between_runs(self, name: str, until: str) -> None:
        """Write a file, and wait until code that a run left behind has made another."""
        self.wait(self.service.write_file(LIBRARY, self.id, name, b""))
        deadline = time.monotonic() + 30
        while until not in [entry.path for entry in self.wait(self.service.list_files(LIBRARY, self.id))]:
            assert time.monotonic() < deadline, f"{until} was never made"
            time.sleep(0.01)

    def close(self) -> None:
        self.wait(self.service.close(LIBRARY, self.id))

    async def _run(self, request: RunRequest, answer: Answer) -> Execution:
        self.calls = []
        async for item in self.service.run(LIBRARY, self.id, request):
            if isinstance(item, Execution):
                return item
            if item["type"] == "call":
                self.calls.append(item)
                self.called.set()
                if (reply := answer(item)) is not None:
                    await self.service.answer_call(LIBRARY, self.id, reply)
            elif item["type"] == "stdout":
                self.on_text(item["text"])
        raise AssertionError("a run without an Execution")


def usual(call: Call) -> Reply | None:
    """What the tools of these tests answer."""
    args = call["args"]
    match call["name"]:
        case "add":
            return Reply(call["call_id"], sum(args["numbers"]))
        case "echo":
            return Reply(call["call_id"], args)
        case "fail":
            return Reply(call["call_id"], error=(args["name"], args["text"]))
    return None


@pytest.fixture(params=["native", "wasm"], scope="module")
def engine(request: pytest.FixtureRequest) -> str:
    """Every engine that calls are made on."""
    return str(request.param)


@pytest.fixture(scope="module")
def shared(engine: str) -> Iterator[Caller]:
    with engines.required():
        made = Caller(engine)
    yield made
    made.close()


@pytest.fixture
def caller(shared: Caller) -> Caller:
    """A sandbox that the tests of a file share; a test that breaks it gets the next a fresh Python."""
    return shared


@pytest.fixture(scope="module")
def native() -> Iterator[Caller]:
    with engines.required():
        made = Caller("native")
    yield made
    made.close()
