"""Events as they happen: by iteration, waiting or awaited, and by callback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from typing import Any

import pytest

from belljar import AsyncSandbox, Execution, InvalidRequest, Sandbox, SandboxClosed, SandboxError

SLOWLY = "import time\nfor step in range(3):\n    print(step, flush=True)\n    time.sleep(0.2)\nstep"
ENDLESS = "import time\nkept = 'kept'\nwhile True:\n    print('tick', flush=True)\n    time.sleep(0.02)"


def is_idle(sandbox: Sandbox) -> bool:
    """Whether the endless run was stopped, with its variables kept: the next run gets its turn at once."""
    began = time.monotonic()
    ran = sandbox.run("kept")
    return (ran.value, ran.state) == ("kept", "kept") and time.monotonic() - began < 5


def test_stream_gives_events_as_they_happen_and_the_execution_last(sandbox: Sandbox):
    items, moments = [], []
    for item in sandbox.stream(SLOWLY):
        items.append(item)
        moments.append(time.monotonic())
    *events, last = items
    assert isinstance(last, Execution)
    assert (last.stdout, last.value) == ("0\n1\n2\n", 2)
    assert "".join(event["text"] for event in events if event["type"] == "stdout") == last.stdout
    assert events[-1] == {"type": "result", "data": {"text/plain": "2"}, "metadata": {}, "main": True}
    assert moments[-1] - moments[0] > 0.3


def test_stream_of_an_error_ends_with_its_execution(sandbox: Sandbox):
    *_, last = sandbox.stream("print(1)\n1/0")
    assert (last.status, last.error.name) == ("error", "ZeroDivisionError")


def test_stream_refuses_bad_input_when_it_is_first_asked(sandbox: Sandbox):
    with pytest.raises(InvalidRequest, match="code is empty"):
        next(sandbox.stream(""))
    with pytest.raises(InvalidRequest, match="timeout_s"):
        list(sandbox.stream("1", timeout=0))
    assert sandbox.run("1").value == 1


def test_leaving_a_stream_early_stops_the_run(sandbox: Sandbox):
    for item in sandbox.stream(ENDLESS):
        assert item["text"] == "tick\n"
        break
    gc.collect()
    assert is_idle(sandbox)


def test_an_exception_in_the_loop_body_stops_the_run(sandbox: Sandbox):
    with contextlib.suppress(LookupError):
        for _ in sandbox.stream(ENDLESS):
            raise LookupError
    gc.collect()
    assert is_idle(sandbox)


def test_closing_a_stream_stops_the_run(sandbox: Sandbox):
    events = sandbox.stream(ENDLESS)
    next(events)
    events.close()
    assert is_idle(sandbox)


def test_a_stream_that_is_never_asked_runs_nothing(sandbox: Sandbox):
    sandbox.stream("touched = True").close()
    assert sandbox.run("'touched' in globals()").value is False


def test_closing_the_sandbox_ends_a_stream_with_an_error(sandbox: Sandbox):
    events = sandbox.stream(ENDLESS)
    next(events)
    sandbox.close()
    with pytest.raises(SandboxClosed):
        list(events)


def test_an_awaited_stream_gives_the_same(sandbox: Sandbox):
    async def main() -> list[Any]:
        async with AsyncSandbox() as other:
            return [item async for item in other.stream(SLOWLY)]

    *events, last = asyncio.run(main())
    assert (last.stdout, last.value) == ("0\n1\n2\n", 2)
    assert len(events) == 4


@pytest.mark.parametrize("closing", ["aclose", "break", "error", "cancel"])
def test_leaving_an_awaited_stream_early_stops_the_run(native: None, closing: str):
    async def main() -> tuple[Any, float]:
        async with AsyncSandbox() as sandbox:
            stream = sandbox.stream(ENDLESS)
            if closing == "aclose":
                await anext(stream)
                await stream.aclose()
            elif closing == "break":
                async for _ in stream:
                    break
                del stream
            elif closing == "error":
                with contextlib.suppress(LookupError):
                    async for _ in stream:
                        raise LookupError
                del stream
            else:
                task = asyncio.create_task(exhaust(stream))
                await asyncio.sleep(0.2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            gc.collect()
            began = time.monotonic()
            return await sandbox.run("kept"), time.monotonic() - began

    ran, waited = asyncio.run(main())
    assert (ran.value, ran.state) == ("kept", "kept")
    assert waited < 5


async def exhaust(stream: Any) -> None:
    async for _ in stream:
        pass


def test_an_awaited_stream_raises_what_run_raises(native: None):
    async def main() -> None:
        async with AsyncSandbox() as sandbox:
            with pytest.raises(InvalidRequest):
                await anext(sandbox.stream(""))

    asyncio.run(main())


def test_on_event_sees_what_stream_sees(sandbox: Sandbox):
    seen: list[Any] = []
    ran = sandbox.run("print('a'); import sys; print('b', file=sys.stderr)\ndisplay(1)\n2", on_event=seen.append)
    assert [event["type"] for event in seen] == ["stdout", "stderr", "result", "result"]
    assert ran.stdout == "a\n"


def test_an_exception_in_on_event_stops_the_run_and_is_raised(sandbox: Sandbox):
    calls = []

    def fail(event: dict[str, Any]) -> None:
        calls.append(event)
        raise LookupError("the caller's own")

    with pytest.raises(LookupError, match="the caller's own"):
        sandbox.run(ENDLESS, on_event=fail)
    assert len(calls) == 1
    assert is_idle(sandbox)


def test_an_exception_at_the_last_event_is_raised_too(sandbox: Sandbox):
    with pytest.raises(ZeroDivisionError):
        sandbox.run("x = 1\nx", on_event=lambda event: 1 / 0)
    assert sandbox.run("x").value == 1


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_nothing_that_on_event_raises_ends_the_host(sandbox: Sandbox, kind: type[BaseException]):
    def fail(event: dict[str, Any]) -> None:
        raise kind

    with pytest.raises(SandboxError, match=kind.__name__):
        sandbox.run("print(1)", on_event=fail)
    with Sandbox() as other:
        assert other.run("1").value == 1
    assert sandbox.run("2").value == 2


def test_waiting_for_a_sandbox_in_on_event_is_refused_instead_of_hanging(sandbox: Sandbox):
    with pytest.raises(InvalidRequest, match="on_event may not wait"):
        sandbox.run("print(1)", on_event=lambda event: sandbox.run("2"))
    assert sandbox.run("2").value == 2


def test_a_thread_that_on_event_starts_may_interrupt(sandbox: Sandbox):
    threads: list[threading.Thread] = []

    def stop(event: dict[str, Any]) -> None:
        if not threads:
            threads.append(threading.Thread(target=sandbox.interrupt))
            threads[0].start()

    ran = sandbox.run(ENDLESS, on_event=stop)
    threads[0].join(10)
    assert (ran.status, ran.state) == ("cancelled", "kept")
    assert is_idle(sandbox)
