from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import belljar_kernel


def test_hello_says_which_kernel_this_is(process):
    assert process.hello == {
        "type": "hello",
        "id": 0,
        "protocol": 1,
        "digest": belljar_kernel.digest(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def test_output_goes_to_the_descriptors_and_results_to_the_channel(process):
    answered = process.run(
        "import sys, os\nprint('out')\nprint('err', file=sys.stderr)\nos.system('echo child')\n6 * 7"
    )
    assert (answered.stdout, answered.stderr, answered.text) == ("out\nchild\n", "err\n", "42")
    assert [event["type"] for event in answered.events] == ["result", "done"]


def test_output_without_a_newline_arrives_before_done(process):
    assert process.run("print('no newline', end='')").stdout == "no newline"


def test_the_end_of_the_channel_ends_the_kernel(process):
    process.run("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()")
    assert process.close() == 0


def test_a_frame_that_is_not_json_is_answered_and_survived(process):
    process.send_frame(b"{nonsense")
    assert process.finish().done["status"] == "error"
    process.send_frame(b"[" * 100_000)
    assert process.finish().done["status"] == "error"
    assert process.run("1").text == "1"


def test_a_large_answer_is_whole(process):
    answered = process.run("x = 'é' * 900_000\nx")
    assert len(answered.text) > 60_000
    assert process.run("2").text == "2"


def test_interrupt_ends_the_code_and_keeps_the_state(process):
    process.run("x = 5")
    code = "told = False\nwhile True: told = told or not print('go', flush=True)"  # wherever it is now, that is line 2
    process.send({"id": 90, "type": "run", "code": code, "count": 2})
    process.wait_for_output(b"go\n")
    process.interrupt()
    answered = process.finish()
    assert answered.done["interrupted"] is True
    assert answered.error["name"] == "KeyboardInterrupt"
    assert answered.error["code"] == "CANCELLED"
    assert answered.error["line"] == 2
    assert process.run("x").text == "5"


def test_interrupt_ends_a_sleep_and_an_await(process):
    for code in (
        "import time\nprint('go', flush=True)\ntime.sleep(1000)",
        "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(1000)",
    ):
        process.send({"id": 91, "type": "run", "code": code, "count": 2})
        process.wait_for_output(b"go\n")
        time.sleep(0.1)
        process.interrupt()
        assert process.finish().done["interrupted"] is True
    assert process.run("await asyncio.sleep(0, 'again')").text == "'again'"


def test_an_interrupt_between_runs_hurts_nobody(process):
    process.run("x = 1")
    for _ in range(20):
        process.interrupt()
    time.sleep(0.2)
    answered = process.run("import time\ntime.sleep(0.05)\nx")
    assert (answered.text, answered.done["interrupted"]) == ("1", False)


def test_interrupts_work_again_after_code_took_the_signal(process):
    process.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
    process.send({"id": 92, "type": "run", "code": "print('go', flush=True)\nwhile True: pass", "count": 2})
    process.wait_for_output(b"go\n")
    process.interrupt()
    assert process.finish().done["interrupted"] is True


def test_interrupts_while_results_are_sent_never_break_a_frame(process):
    code = "print('go', flush=True)\nwhile True:\n    try:\n        while True: display('x' * 10_000)\n    except KeyboardInterrupt:\n        hits += 1\n        if hits > 10: break\n'survived'"
    process.request(type="configure", env={}, path=[], data_bytes=None, results_bytes=1 << 40, warm=False)
    process.run("hits = 0")
    process.send({"id": 93, "type": "run", "code": code, "count": 2})
    seen = 0
    event = process.receive()
    while event["type"] != "done":
        seen += 1
        if seen % 5 == 0:
            process.interrupt()
        last, event = event, process.receive()
    assert last["data"]["text/plain"] == "'survived'"
    assert process.run("1").text == "1"


def test_an_interrupt_that_became_another_error_is_still_told(process):
    code = "try:\n    print('go', flush=True)\n    while True: pass\nfinally:\n    1/0"
    process.send({"id": 94, "type": "run", "code": code, "count": 2})
    process.wait_for_output(b"go\n")
    process.interrupt()
    answered = process.finish()
    assert (answered.error["name"], answered.done["interrupted"]) == ("ZeroDivisionError", True)


def test_a_text_that_never_ends_can_be_interrupted(process):
    code = "class E(Exception):\n    def __str__(self):\n        print('go', flush=True)\n        while True: pass\nraise E"
    process.send({"id": 95, "type": "run", "code": code, "count": 2})
    process.wait_for_output(b"go\n")
    process.interrupt()
    assert process.finish().error["name"] == "E"
    assert process.run("1").text == "1"


def test_a_keyboard_interrupt_of_the_codes_own_is_an_error_like_others(process):
    answered = process.run("raise KeyboardInterrupt('mine')")
    assert answered.done["interrupted"] is False
    assert answered.error["code"] == "RUNTIME_ERROR"


def test_a_fork_that_falls_out_of_the_code_does_not_speak(process):
    answered = process.run(
        "import os\npid = os.fork()\nif pid: status = os.waitpid(pid, 0)[1]\nprint('here')\npid and 1"
    )
    assert answered.stdout == "here\nhere\n"
    assert answered.text == "1"
    assert process.run("status").text == "0"


def test_a_fork_that_raises_writes_its_traceback_and_ends_with_one(process):
    answered = process.run(
        "import os\npid = os.fork()\nif not pid: 1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    )
    assert answered.text == "1"
    assert answered.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_fork_that_exits_has_its_own_code(process):
    code = "import os, sys\npid = os.fork()\nif not pid: sys.exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    assert process.run(code).text == "7"


def test_a_fork_cannot_show_results(process):
    code = "import os\npid = os.fork()\nif not pid: display('from the child')\nos.waitpid(pid, 0)\n'parent'"
    answered = process.run(code)
    assert [event["data"]["text/plain"] for event in answered.results] == ["'parent'"]


def test_multiprocessing_by_fork_works(process):
    code = "import multiprocessing as mp\ndef f(x): return x * x\nwith mp.get_context('fork').Pool(2) as pool: r = pool.map(f, range(4))\nr"
    assert process.run(code).done["value"] == [0, 1, 4, 9]


def test_children_do_not_inherit_the_channel(process):
    answered = process.run(
        "import subprocess\nprint(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, close_fds=False).stdout)"
    )
    assert set(answered.stdout.split()) <= {"0", "1", "2", "3"}


def test_descriptor_zero_is_empty(process):
    assert process.run("import os\nos.read(0, 10)").text == "b''"
    assert (
        process.run("import subprocess\nsubprocess.run(['cat'], capture_output=True).stdout", stdin="x").text == "b''"
    )


def test_a_thread_that_prints_after_the_run_is_harmless(process):
    code = "import threading, time\ndef talk():\n    for _ in range(50):\n        print('late'); display('late'); time.sleep(0.002)\nthreading.Thread(target=talk).start()\n1"
    assert process.run(code).text == "1"
    for number in range(10):
        assert process.run(f"{number}").text == str(number)


def test_threads_may_display_and_frames_stay_whole(process):
    code = "import threading\nthreads = [threading.Thread(target=display, args=(n,)) for n in range(50)]\n[t.start() for t in threads]\n[t.join() for t in threads]\n'end'"
    answered = process.run(code)
    shown = {event["data"]["text/plain"] for event in answered.results if not event["main"]}
    assert shown == {str(number) for number in range(50)}


def test_an_error_in_a_thread_shows_user_frames_only(process):
    answered = process.run(
        "import threading\ndef f(): 1/0\nt = threading.Thread(target=f, name='worker')\nt.start()\nt.join()"
    )
    assert answered.done["status"] == "ok"
    lines = answered.stderr.splitlines()
    assert lines[0] == "Exception in thread worker:"
    assert [line for line in lines if "File" in line] == ['  File "main.py", line 2, in f']


ZYGOTE = """
import os, sys
import belljar_kernel.entry, belljar_kernel.reseed
import matplotlib
matplotlib.use('agg')
import matplotlib.pyplot, pandas
pid = os.fork()
if pid:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
belljar_kernel.reseed.after_fork()
belljar_kernel.entry.serve(int(sys.argv[1]), belljar_kernel.entry.prepare(sys.argv[2]))
"""


def test_a_fork_of_a_zygote_serves_and_captures_figures(start, science):
    process = start("-c", ZYGOTE, path=science)
    assert process.run("6 * 7").text == "42"
    answered = process.run("import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()")
    assert (answered.stderr, answered.done["status"]) == ("", "ok")
    assert len(answered.results) == 1


def test_the_kernel_is_light_to_import():
    env = {**os.environ, "PYTHONPATH": str(Path(belljar_kernel.__file__).parents[1])}
    heavy = "import sys, belljar_kernel.entry; print({'inspect', 'asyncio', 'decimal', 'dataclasses', 'typing', 'hashlib'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-S", "-c", heavy], env=env).decode() == "set()\n"
