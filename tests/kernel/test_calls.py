"""Calls out of a run, at the kernel's own end of the channel: who waits, who reads, and what an interrupt leaves."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import belljar_kernel.calls
from belljar_kernel.calls import Calls
from belljar_kernel.interrupts import Interrupts
from belljar_kernel.protocol import CALL_DEPTH

_numbers = count(1000)
CALL = "from belljar_kernel.calls import call, call_async\n"


def began(process: Any, code: str) -> int:
    """Send a run, and give its id without waiting for its end."""
    number = next(_numbers)
    process.send({"id": number, "type": "run", "code": CALL + code, "count": 1})
    return number


def asked(process: Any, number: int) -> dict[str, Any]:
    event = process.receive()
    assert (event["type"], event["id"]) == ("call", number), event
    return event


def reply(process: Any, call: dict[str, Any], value: Any) -> None:
    process.send({"type": "reply", "call_id": call["call_id"], "value": value})


def test_a_call_is_an_event_and_its_reply_is_the_value(process):
    run = began(process, "call('add', {'a': 1, 'b': 'é'}), call('empty')")
    first = asked(process, run)
    assert (first["name"], first["args"]) == ("add", {"a": 1, "b": "é"})
    reply(process, first, {"sum": [3]})
    second = asked(process, run)
    assert (second["name"], second["args"]) == ("empty", {})
    assert second["call_id"] != first["call_id"]
    reply(process, second, None)
    assert process.finish().done["value"] == [{"sum": [3]}, None]


def test_a_signal_handler_may_call_while_its_thread_waits_for_another_reply(process):
    code = (
        "import signal\nheard = []\n"
        "signal.signal(signal.SIGALRM, lambda *_: heard.append(call('inner')))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\n[call('outer'), *heard]"
    )
    run = began(process, code)
    outer, inner = asked(process, run), asked(process, run)
    assert (outer["name"], inner["name"]) == ("outer", "inner")
    reply(process, outer, 1)  # the handler takes it for the call that it interrupted
    reply(process, inner, 2)
    assert process.finish().done["value"] == [1, 2]


def test_an_error_is_raised_with_its_name_and_its_text(process):
    code = "from belljar_kernel.pending import CallFailed\ntry: call('f')\nexcept CallFailed as e: said = e.name, e.text, str(e)\nsaid"
    call = asked(process, began(process, code))
    process.send({"type": "reply", "call_id": call["call_id"], "error": {"name": "KeyError", "value": "no such row"}})
    assert process.finish().done["value"] == ["KeyError", "no such row", "KeyError: no such row"]


def test_what_is_printed_before_a_call_has_left_when_the_call_comes(process):
    call = asked(process, began(process, "print('before', end='')\ncall('f')"))
    process.wait_for_output(b"before")
    reply(process, call, 1)
    assert process.finish().done["status"] == "ok"


def test_threads_call_at_once_and_take_their_replies_in_any_order(process):
    run = began(
        process,
        "import threading\nfound = {}\n"
        "def ask(n): found[n] = call('f', {'n': n})\n"
        "threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]\n"
        "for thread in threads: thread.start()\nfound['main'] = call('f', {'n': 'main'})\n"
        "for thread in threads: thread.join()\nfound == {n: [n] for n in (*range(20), 'main')}",
    )
    calls = [asked(process, run) for _ in range(21)]
    for call in reversed(calls):
        reply(process, call, [call["args"]["n"]])
    assert process.finish().done["value"] is True


def test_coroutines_of_several_loops_and_threads_wait_together(process):
    run = began(
        process,
        "import asyncio, threading\n"
        "async def some(tag): return await asyncio.gather(*(call_async('f', {'n': [tag, k]}) for k in range(5)))\n"
        "found = []\n"
        "other = threading.Thread(target=lambda: found.append(asyncio.run(some('other'))))\n"
        "blocked = threading.Thread(target=lambda: found.append(call('f', {'n': 'blocked'})))\n"
        "other.start(), blocked.start()\nmine = await some('mine')\nother.join(), blocked.join()\n"
        "mine == [['mine', k] for k in range(5)], [['other', k] for k in range(5)] in found, 'blocked' in found",
    )
    calls = [asked(process, run) for _ in range(11)]
    for call in reversed(calls):
        reply(process, call, call["args"]["n"])
    assert process.finish().done["value"] == [True, True, True]


def test_a_coroutine_that_gives_up_leaves_the_others(process):
    run = began(
        process,
        "import asyncio\n"
        "async def late():\n"
        "    try: await asyncio.wait_for(call_async('late'), 0.05)\n"
        "    except TimeoutError: return 'gave up'\n"
        "await asyncio.gather(late(), call_async('f'))",
    )
    calls = {event["name"]: event for event in (asked(process, run), asked(process, run))}
    time.sleep(0.2)
    reply(process, calls["late"], "too late")
    reply(process, calls["f"], "in time")
    assert process.finish().done["value"] == ["gave up", "in time"]


@pytest.mark.parametrize("wait", ["call('f')", "await call_async('f')"])
def test_an_interrupt_ends_the_wait_and_a_reply_that_comes_later_harms_nothing(process, wait):
    process.run("kept = 41")
    call = asked(process, began(process, f"print('on', flush=True)\n{wait}"))
    process.interrupt()
    answered = process.finish()
    assert answered.done["interrupted"] is True
    assert answered.error["name"] == "KeyboardInterrupt"
    reply(process, call, "late")
    again = asked(process, began(process, "kept + call('f')"))
    reply(process, call, 1000)
    reply(process, again, 1)
    assert process.finish().done["value"] == 42


def test_an_interrupt_reaches_the_main_thread_while_another_reads_for_it(process):
    run = began(
        process,
        "import threading, time\nfound = []\n"
        "other = threading.Thread(target=lambda: found.append(call('other')))\nother.start()\n"
        "time.sleep(0.2)\n"
        "try: call('mine')\nexcept KeyboardInterrupt: found.append('interrupted')\n"
        "other.join()\nfound",
    )
    calls = {event["name"]: event for event in (asked(process, run), asked(process, run))}
    time.sleep(0.2)
    process.interrupt()
    time.sleep(0.2)
    reply(process, calls["other"], "answered")
    assert process.finish().done["value"] == ["interrupted", "answered"]


def test_another_thread_reads_on_when_the_reader_was_interrupted(process):
    run = began(
        process,
        "import threading, time\nfound = []\n"
        "def ask():\n    time.sleep(0.2)\n    found.append(call('other'))\n"
        "other = threading.Thread(target=ask)\nother.start()\n"
        "try: call('mine')\nexcept KeyboardInterrupt: found.append('interrupted')\n"
        "other.join()\nfound",
    )
    calls = {event["name"]: event for event in (asked(process, run), asked(process, run))}
    time.sleep(0.2)
    process.interrupt()
    time.sleep(0.2)
    reply(process, calls["other"], "answered")
    assert process.finish().done["value"] == ["interrupted", "answered"]


def test_a_frame_of_which_half_has_come_survives_an_interrupt(process):
    call = asked(process, began(process, "call('f')"))
    body = json.dumps({"type": "reply", "call_id": call["call_id"], "value": "x" * 100_000}).encode()
    frame = struct.pack(">I", len(body)) + body
    process.send_bytes(frame[:50_000])
    time.sleep(0.2)
    process.interrupt()
    assert process.finish().done["interrupted"] is True
    process.send_bytes(frame[50_000:])
    assert process.run("6 * 7").done["value"] == 42


def test_a_reply_as_large_as_replies_get_is_whole(process):
    call = asked(process, began(process, "len(call('f'))"))
    reply(process, call, "y" * (1 << 20))
    assert process.finish().done["value"] == 1 << 20


def test_a_thread_that_is_left_behind_is_told_that_the_run_has_ended(process):
    run = began(
        process,
        "import threading, time\nfound = []\n"
        "def ask():\n"
        "    for _ in range(2):\n"
        "        try: call('f')\n"
        "        except RuntimeError as error: found.append(str(error))\n"
        "thread = threading.Thread(target=ask)\nthread.start()\ntime.sleep(0.2)",
    )
    call = asked(process, run)
    assert process.finish().done["status"] == "ok"
    answered = process.run("thread.join(10)\nfound")
    ended, refused = answered.done["value"]
    assert "the run that made this call has ended" in ended
    assert "only be made while a run is on" in refused
    reply(process, call, "late")
    assert process.run("found[2:]").done["value"] == []


def test_a_task_that_is_left_behind_is_told_when_its_loop_goes_on(process):
    run = began(process, "import asyncio\ntask = asyncio.ensure_future(call_async('f'))\nawait asyncio.sleep(0.1)")
    asked(process, run)
    assert process.finish().done["status"] == "ok"
    answered = process.run("try: await task\nexcept RuntimeError as error: said = str(error)\nsaid")
    assert "the run that made this call has ended" in answered.done["value"]


def test_waiting_leaves_no_descriptors_behind(process):
    process.run("import os\nbefore = set(os.listdir('/proc/self/fd'))")
    run = began(
        process, "import threading\nthread = threading.Thread(target=call, args=('f',))\nthread.start()\nthread.join()"
    )
    reply(process, asked(process, run), 1)
    process.finish()
    assert process.run("sorted({*os.listdir('/proc/self/fd')} - before)[1:]").done["value"] == []


def test_a_forked_process_can_neither_call_nor_wait(process):
    code = (
        "import os\nreader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    try: call('f')\n"
        "    except RuntimeError as error: os.write(writer, str(error).encode())\n"
        "    os._exit(0)\n"
        "os.wait()\nos.read(reader, 1000).decode()"
    )
    assert "not one that it forked" in process.run(CALL + code).done["value"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("call(5)", "TypeError"),
        ("call('f', [1])", "TypeError"),
        ("call('f', {'a': object()})", "TypeError"),
        ("call('f', {'a': float('nan')})", "ValueError"),
        ("x = []\nfor _ in range(200): x = [x]\ncall('f', {'a': x})", "ValueError"),
        ("call('f', {'a': 'x' * (40 << 20)})", "ValueError"),
    ],
)
def test_arguments_that_cannot_be_sent_are_an_error_and_no_call(process, call, error):
    answered = process.run(CALL + call)
    assert (answered.error["name"], [event["type"] for event in answered.events]) == (error, ["done"])
    reply(process, asked(process, began(process, "call('f')")), 1)
    assert process.finish().done["value"] == 1


def test_arguments_as_deep_as_they_may_be_are_sent(process):
    code = f"x = []\nfor _ in range({CALL_DEPTH - 2}): x = [x]\ncall('f', {{'a': x}})"
    reply(process, asked(process, began(process, code)), "fine")
    assert process.finish().done["value"] == "fine"


def test_the_numbers_of_calls_go_on_over_runs(process):
    numbers = []
    for _ in range(3):
        call = asked(process, began(process, "call('f')"))
        numbers.append(call["call_id"])
        reply(process, call, 1)
        process.finish()
    assert len(set(numbers)) == 3


class Silent:
    """A post that nothing comes by."""

    reads_in_thread = True

    def take(self) -> list[dict[str, Any]]:
        return []

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def get_ready(self) -> None:
        """Nothing to do."""

    wake = rest = get_ready


class Slow(Silent):
    """A post whose waits end when the test says so, whatever wakes them; it counts what is taken."""

    def __init__(self) -> None:
        self.waits: list[threading.Event] = []
        self.taken = 0

    def take(self) -> list[dict[str, Any]]:
        self.taken += 1
        return []

    def wait(self, seconds: float) -> None:
        self.waits.append(threading.Event())
        assert self.waits[-1].wait(30)


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def waiting(calls: Calls, post: Slow) -> threading.Thread:
    """A thread whose call waits at the post."""
    before = len(post.waits)
    thread = threading.Thread(target=calls.ask("f", {}).wait)
    thread.start()
    eventually(lambda: len(post.waits) > before)
    return thread


def test_a_reader_that_outlasts_its_run_takes_nothing_and_leaves_the_next_reader_alone(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(belljar_kernel.calls, "STUCK_S", 0.01)
    post, calls = Slow(), Calls(lambda _, __: None, Interrupts())
    calls.connect(post)
    calls.open()
    late = waiting(calls, post)
    calls.close()
    calls.open()
    now = waiting(calls, post)
    taken = post.taken
    post.waits[0].set()
    late.join(30)
    assert (late.is_alive(), post.taken) == (False, taken)
    other = threading.Thread(target=calls.ask("g", {}).wait)
    other.start()
    time.sleep(0.1)
    assert len(post.waits) == 2, "two threads read"
    calls.close()
    post.waits[1].set()
    now.join(30)
    other.join(30)
    assert not now.is_alive()
    assert not other.is_alive()


def test_a_reader_for_coroutines_ends_with_its_run_also_when_the_next_has_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(belljar_kernel.calls, "STUCK_S", 0.01)
    post, calls = Slow(), Calls(lambda _, __: None, Interrupts())
    calls.connect(post)
    calls.open()
    calls.read_for_coroutines()
    eventually(lambda: post.waits)
    calls.close()
    calls.open()
    taken = post.taken
    post.waits[0].set()
    time.sleep(0.1)
    assert (post.taken, len(post.waits)) == (taken, 1)
    calls.close()


def test_a_wait_with_a_limit_is_a_timeout_and_the_call_can_still_be_answered():
    calls = Calls(lambda _, __: None, Interrupts())
    calls.connect(Silent())
    calls.open()
    pending = calls.ask("f", {})
    with pytest.raises(TimeoutError):
        pending.wait(0.01)
    pending.settle("value")
    pending.settle("another")
    pending.wait(0)
    assert pending.value() == "value"
    calls.close()
