"""Stopping code under WebAssembly, by the caller or at the time limit: where Python looks up now and then, state is kept."""

from __future__ import annotations

import threading
import time

import pytest
from tests.wasm.interrupted import interrupted

from belljar import Sandbox

BUSY = {
    "a loop": "print('on', flush=True)\nwhile True: pass",
    "a sleep": "import time\nprint('on', flush=True)\ntime.sleep(100)",
    "an awaited sleep": "import asyncio\nprint('on', flush=True)\nawait asyncio.sleep(100)",
    "asyncio.run": (
        "import asyncio\nasync def main():\n    print('on', flush=True)\n    await asyncio.sleep(100)\nasyncio.run(main())"
    ),
    "a loop over numpy": (
        "import numpy as np\na = np.ones((100, 100))\nprint('on', flush=True)\nwhile True: a = a @ a * 1e-4"
    ),
    "a slow pattern": "import re\nprint('on', flush=True)\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "a generator": "print('on', flush=True)\nsum(n for n in iter(int, 1))",
}


@pytest.mark.parametrize("what", BUSY)
def test_interrupt_ends_it_and_keeps_the_state(wasm: Sandbox, what: str):
    wasm.run("kept = 41")
    ran = interrupted(wasm, BUSY[what])
    assert (ran.status, ran.error.code, ran.stdout, ran.state) == ("cancelled", "CANCELLED", "on\n", "kept")
    again = wasm.run("kept + 1")
    assert (again.value, again.stdout, again.state) == (42, "", "kept")


@pytest.mark.parametrize("what", ["a loop", "a sleep", "an awaited sleep"])
def test_the_time_limit_ends_it_and_keeps_the_state(bare: Sandbox, what: str):
    bare.run("kept = 41")
    ran = bare.run(BUSY[what], timeout=1)
    assert (ran.status, ran.error.code, ran.stdout, ran.state) == ("timeout", "EXECUTION_TIMEOUT", "on\n", "kept")
    assert 0.9 < ran.usage.wall_s < 20
    assert bare.run("kept").value == 41


def test_an_interrupt_can_be_caught_like_any_keyboard_interrupt(bare: Sandbox):
    code = (
        "import time\nprint('on', flush=True)\n"
        "try:\n    time.sleep(100)\nexcept KeyboardInterrupt:\n    print('caught')\nfinally:\n    print('at last')\n'went on'"
    )
    ran = interrupted(bare, code)
    assert (ran.stdout, ran.value) == ("on\ncaught\nat last\n", "went on")


def test_code_that_never_looks_up_is_killed_and_the_next_run_says_so(bare: Sandbox):
    bare.run("lost = 1")
    ran = bare.run("print('on', flush=True)\nsum(range(10**13))", timeout=1)
    assert (ran.status, ran.stdout, ran.state) == ("timeout", "on\n", "reset")
    again = bare.run("'lost' in globals()")
    assert (again.value, again.state) == (False, "reset")
    assert bare.run("1").state == "kept"


def test_an_interrupt_with_nothing_to_stop_harms_nothing(bare: Sandbox):
    for _ in range(3):
        bare.interrupt()
        assert bare.run("import time\ntime.sleep(0.01)\n'whole'").value == "whole"


def test_many_interrupts_at_once_are_one(bare: Sandbox):
    on = threading.Event()
    threads = [threading.Thread(target=lambda: on.wait(30) and bare.interrupt()) for _ in range(8)]
    for thread in threads:
        thread.start()
    ran = bare.run(BUSY["a sleep"], on_event=lambda event: on.set())
    for thread in threads:
        thread.join()
    assert ran.status == "cancelled"
    assert bare.run("import time\ntime.sleep(0.05)\n'whole'").value == "whole"


def test_sleeping_takes_its_time_and_no_processor(bare: Sandbox):
    began = time.monotonic()
    ran = bare.run("import time\nbefore = time.perf_counter()\ntime.sleep(0.6)\ntime.perf_counter() - before")
    assert 0.6 <= ran.value < 10
    assert time.monotonic() - began >= 0.6
    assert ran.usage.cpu_s < 0.5


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("-1", "ValueError"),
        ("'x'", "TypeError"),
        ("float('nan')", "ValueError"),
    ],
)
def test_sleep_refuses_what_sleep_refuses(bare: Sandbox, code: str, error: str):
    assert bare.run(f"import time\ntime.sleep({code})").error.name == error
