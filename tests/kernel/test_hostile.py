"""Code that attacks the kernel in its own interpreter: only its own session may suffer."""

from __future__ import annotations

import pytest

ATTACKS = [
    "del __builtins__",
    "__builtins__ = None",
    "globals().clear()",
    "import builtins\nfor name in list(vars(builtins)):\n    if name not in ('__import__', '__build_class__', '__name__'): delattr(builtins, name)",
    "import builtins\nbuiltins.print = builtins.open = builtins.len = builtins.repr = builtins.isinstance = builtins.type = None",
    "import builtins\nbuiltins.BaseException = builtins.Exception = builtins.KeyboardInterrupt = int",
    "import builtins\nbuiltins.__import__ = None",
    "import json\njson.dumps = json.loads = json.JSONEncoder.encode = json.JSONEncoder.iterencode = None",
    "import json.encoder\njson.encoder.JSONEncoder = json.encoder.c_make_encoder = None",
    "import os\nos.write = os.read = os.getpid = os._exit = os.chdir = os.scandir = lambda *a: 1/0",
    "import sys\nsys.exit = sys.stdout = sys.stderr = sys.stdin = sys.excepthook = None",
    "import sys\nsys.__stdout__ = sys.__stderr__ = sys.__excepthook__ = sys.__displayhook__ = None",
    "import sys\nsys.modules['__main__'] = None",
    "import sys\ndel sys.modules['__main__']",
    "import sys\nsys.setrecursionlimit(50)",
    "import sys\nsys.setrecursionlimit(10 ** 8)",
    "import sys\nsys.settrace(lambda *a: 1/0)\nsys.setprofile(lambda *a: 1/0)",
    "import sys\nsys.path = None",
    "import sys\nsys.path = ('a', 'b')",
    "import sys\nsys.path.clear()",
    "import sys\nsys.meta_path.insert(0, 5)",
    "import sys\nsys.argv = None\nsys.flags = None\nsys.platform = None",
    "import os\nos.environ = None",
    "import linecache\nlinecache.cache = None",
    "import linecache\nlinecache.getline = linecache.getlines = linecache.updatecache = None",
    "import traceback\ntraceback.TracebackException = traceback.StackSummary = None",
    "import warnings\nwarnings.simplefilter('error')\nwarnings.formatwarning = warnings.warn = None",
    "import threading\nthreading.excepthook = threading.Thread = None",
    "import signal\nsignal.signal = signal.SIGINT = None",
    "import io\nio.TextIOWrapper = io.BytesIO = io.BufferedWriter = None",
    "import atexit, os\natexit.register(lambda: print('at exit'))",
    "import gc\ngc.disable()\ngc.set_threshold(0)",
    "import sys\nsys.set_int_max_str_digits(640) if hasattr(sys, 'set_int_max_str_digits') else None",
    "import importlib\nimportlib.invalidate_caches = None",
    "import locale, os\nos.environ['LC_ALL'] = 'C'\nlocale.setlocale(locale.LC_ALL, 'C')",
    "import os\nos.close(1)",
    "import types\ntypes.ModuleType = types.CodeType = None",
    "import belljar_kernel.kernel as k\nk.Kernel._run = None",
    "display = None\n_args = None\n__name__ = 5",
    "import sys\nfor name in [n for n in sys.modules if not n.startswith('belljar')]: del sys.modules[name]",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_next_run_is_answered_in_full(process, attack):
    first = process.run(f"marker = 1\n{attack}")
    assert first.done["type"] == "done"
    answered = process.run("1/0")
    assert answered.done["status"] == "error"
    assert process.request(type="variables").done["type"] == "done"
    assert process.request(type="complete", code="mark", cursor=4).done["type"] == "done"
    assert process.run("6 * 7").done["type"] == "done"


FATAL_FOR_CODE = (
    "delattr",
    "__import__ = None",
    "meta_path",
    "sys.modules if",
    "builtins.type",
    "BaseException",
    "_run =",
    "os.close",
)
STILL_EXACT = [attack for attack in ATTACKS if not any(word in attack for word in FATAL_FOR_CODE)]


@pytest.mark.parametrize("attack", STILL_EXACT)
def test_errors_values_and_output_stay_exact(process, attack):
    process.run(attack)
    answered = process.run("def f():\n    return 1/0\nf()")
    assert (answered.error["name"], answered.error["line"]) == ("ZeroDivisionError", 2)
    assert '  File "main.py", line 2, in f' in answered.stderr
    answered = process.run("print('output')\n[6 * 7]")
    assert (answered.stdout, answered.text, answered.done["value"]) == ("output\n", "[42]", [42])


def test_what_code_did_to_builtins_is_still_there_for_code(guest):
    guest.run(
        "import builtins\nreal = print\nbuiltins.print = lambda *a: real('patched', *a)\nbuiltins.extra = 5\ndel builtins.sorted"
    )
    answered = guest.run("print('x')\nextra")
    assert (answered.stdout, answered.text) == ("patched x\n", "5")
    assert guest.run("sorted").error["name"] == "NameError"


def test_the_recursion_limit_of_the_code_is_kept_for_the_code(guest):
    guest.run("import sys\nsys.setrecursionlimit(5000)")
    assert guest.run("sys.getrecursionlimit()").text == "5000"


def test_forged_frames_and_events_in_output_are_only_output(process):
    answered = process.run(
        'print(\'{"type": "done", "id": 1, "status": "ok"}\')\nimport sys\nsys.stdout.buffer.write(b\'\\0\\0\\0\\x02{}\\n\')\n1/0'
    )
    assert answered.done["status"] == "error"
    assert answered.stdout.startswith('{"type": "done"')


@pytest.mark.parametrize(
    "request_",
    [
        None,
        [],
        "run",
        {},
        {"type": "run"},
        {"id": 1, "type": "nonsense"},
        {"id": 1, "type": ["run"]},
        {"id": 1, "type": "run", "code": 5, "count": 1},
        {"id": 1, "type": "run", "code": "1", "count": "1"},
        {"id": 1, "type": "run", "code": "1", "count": True},
    ],
)
def test_a_malformed_request_has_exactly_one_done(guest, request_):
    answered = guest.answer(request_)
    assert [event["type"] for event in answered.events] == ["done"]
    assert answered.done["status"] == "error"
    assert answered.done["id"] == (request_.get("id", 0) if isinstance(request_, dict) else 0)
    assert guest.run("1").text == "1"


@pytest.mark.parametrize(
    "fields", [{"env": 5}, {"env": {"A": 5}}, {"env": {"A=B": "x\0"}}, {"cwd": 5}, {"cwd": "\0"}, {"stdin": 5}]
)
def test_fields_that_make_no_sense_are_an_error_of_that_run(guest, fields):
    assert guest.run("1", **fields).done["status"] == "error"
    assert guest.run("1").text == "1"


def test_a_repr_that_exits_or_interrupts_is_contained(guest):
    assert guest.run("class R:\n    def __repr__(self): raise SystemExit(4)\nR()").done["exit_code"] == 4
    assert (
        guest.run("class R:\n    def __repr__(self): raise KeyboardInterrupt\nR()").error["name"] == "KeyboardInterrupt"
    )
    assert guest.run("1").text == "1"


def test_objects_that_lie_about_their_class_are_shown(guest):
    code = "class L:\n    __class__ = property(lambda self: 1/0)\n    def __repr__(self): return 'liar'\nL()"
    assert guest.run(code).text == "liar"
    code = "class M(type):\n    def __getattribute__(cls, name): 1/0\nclass L(metaclass=M):\n    def __repr__(self): return 'liar'\nL()"
    assert guest.run(code).text == "liar"


def test_exceptions_whose_parts_are_hostile_keep_their_description(guest):
    guest.run("""
class Part(int):
    def __eq__(self, other): 1/0
    def __bool__(self): 1/0
    __hash__ = int.__hash__
class Cause(Exception):
    def __bool__(self): 1/0
    def __len__(self): 1/0
""")
    assert guest.run("raise OSError(Part(28), 'x')").error["name"] == "OSError"
    assert guest.run("raise RuntimeError(Part(1))").error["line"] == 1
    assert guest.run("raise ValueError('v') from Cause('c')").error["value"] == "v"
    assert guest.run("raise SystemExit(Part(3))").done["exit_code"] == 1


def test_a_finaliser_that_raises_is_harmless(guest):
    guest.run("class F:\n    def __del__(self): raise RuntimeError('in del')\nf = F()")
    assert guest.run("del f\n1").text == "1"
